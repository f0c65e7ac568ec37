"""Files of a run that have a wrong bit, or lack their end: each file, anywhere in it."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Final

from tests.faults.world import (
    FORM,
    NAME,
    RESUME,
    STATUS,
    World,
    differences,
    files,
    goes_on,
    kept,
    no_bug,
    readable,
    shown,
)

BASES: Final = ("resume", "killed")
LOG: Final = ".run/journal.db-wal"
JOURNAL: Final = (".run/journal.db", LOG, ".run/witness")


def flips(world: World, random: Random) -> Iterator[str]:
    """Without an end: a base, one of its files, a bit of it; the files of `.run` as often as all others."""
    return _cases(world, random, "flip")


def cuts(world: World, random: Random) -> Iterator[str]:
    return _cases(world, random, "cut")


def _cases(world: World, random: Random, how: str) -> Iterator[str]:
    bases = {base: kept(world.base(base) / "run") for base in BASES}
    while True:
        base = random.choice(BASES)
        own = random.random() < 0.5
        names = [name for name, data in bases[base].items() if data and name.startswith(".run/") == own]
        name = random.choice(names)
        size = len(bases[base][name])
        yield f"{base} {how} {name} {random.randrange(size * 8 if how == 'flip' else size)}"


def hold(world: World, case: str) -> None:
    base, how, name, where = case.split()
    world.start(base)
    path = world.folder / name
    answered, whole = readable(world), path.read_bytes()
    if name == LOG:
        answered = world.acknowledged()
    path.write_bytes(damaged := _flipped(whole, int(where)) if how == "flip" else whole[: int(where)])
    before = kept(world.folder)
    shown(world)
    done = world.typed(*RESUME)
    no_bug(done)
    assert done.code in STATUS, done
    assert not [call for call in world.sent() if call.key in answered], f"asked again: {done}"
    engines = name.startswith((".run/", "summaries/")) or "/summaries/" in name or name == "state.md"
    if done.code == 0:
        _ends_well(world, name, damaged, done.said, engines=engines)
        return
    assert "next: " in done.said or "hint: " in done.said, f"what to do next is not said: {done}"
    refused = "resuming " not in done.out
    if refused:
        assert _unchanged(kept(world.folder), name) == _unchanged(before, name), f"refused, and it was changed: {done}"
    if refused or name == FORM:
        path.write_bytes(whole)
    goes_on(world, answered | readable(world), same=engines and (refused or not _noticed(done.said)))


def _ends_well(world: World, name: str, damaged: bytes, said: str, *, engines: bool) -> None:
    """The run has come to its end over a damaged file: as without the damage, or it said so; an artifact is a person's
    from then on, and stays."""
    found = files(world.folder)
    same = differences(found, world.whole) == []
    if engines:
        assert same or _noticed(said + world.typed("show", NAME).out), (
            f"{name} is damaged, and nothing is said of it: {said}"
        )
    elif name != FORM:
        assert same or damaged in kept(world.folder).values(), f"what was in {name} is gone: {said}"


def _noticed(said: str) -> bool:
    return any(word in said for word in ("warning: ", "note: ", "edited", "from another source", "come from elsewhere"))


def _flipped(data: bytes, bit: int) -> bytes:
    return data[: bit // 8] + bytes([data[bit // 8] ^ 1 << bit % 8]) + data[bit // 8 + 1 :]


def _unchanged(found: dict[str, bytes], name: str) -> dict[str, bytes]:
    """What a command that refuses leaves as it is: all that a person sees, and the journal where that is damaged."""
    also = JOURNAL if name in JOURNAL else ()
    return {one: data for one, data in found.items() if one in also or not one.startswith(".run/")}
