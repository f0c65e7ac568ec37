"""Run files with a flipped bit or a missing end: any file, at any position."""

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
    assert_no_crash,
    assert_run_finishes,
    differences,
    files,
    read_files,
    recorded_calls,
    shown_status,
)

BASES: Final = ("resume", "killed")
LOG: Final = ".run/journal.db-wal"
JOURNAL: Final = (".run/journal.db", LOG, ".run/witness")


def flips(world: World, random: Random) -> Iterator[str]:
    """An endless sequence of cases: a base, a file, a bit. Half of the files are in `.run`."""
    return _cases(world, random, "flip")


def cuts(world: World, random: Random) -> Iterator[str]:
    return _cases(world, random, "cut")


def _cases(world: World, random: Random, how: str) -> Iterator[str]:
    bases = {base: read_files(world.base(base) / "run") for base in BASES}
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
    answered, original = recorded_calls(world), path.read_bytes()
    if name == LOG:
        answered = world.acknowledged()
    path.write_bytes(damaged := _flip(original, int(where)) if how == "flip" else original[: int(where)])
    before = read_files(world.folder)
    shown_status(world)
    result = world.skillrun(*RESUME)
    assert_no_crash(result)
    assert result.code in STATUS, result
    assert not [call for call in world.sent() if call.key in answered], f"call repeated: {result}"
    is_internal = name.startswith((".run/", "summaries/")) or "/summaries/" in name or name == "state.md"
    if result.code == 0:
        _check_completed(world, name, damaged, result.output, is_internal=is_internal)
        return
    assert "next: " in result.output or "hint: " in result.output, f"the next step is missing: {result}"
    refused = "resuming " not in result.out
    if refused:
        assert _unchanged(read_files(world.folder), name) == _unchanged(before, name), f"refused, but changed: {result}"
    if refused or name == FORM:
        path.write_bytes(original)
    assert_run_finishes(
        world, answered | recorded_calls(world), same=is_internal and (refused or not _is_reported(result.output))
    )


def _check_completed(world: World, name: str, damaged: bytes, output: str, *, is_internal: bool) -> None:
    """Check a run that completes in spite of a damaged file.

    Its result is the same, or the damage is reported. A damaged artifact counts as edited by the user and is kept.
    """
    same = differences(files(world.folder), world.expected_files) == []
    if is_internal:
        assert same or _is_reported(output + world.skillrun("show", NAME).out), (
            f"damage of {name} not reported: {output}"
        )
    elif name != FORM:
        assert same or damaged in read_files(world.folder).values(), f"the content of {name} is lost: {output}"


def _is_reported(output: str) -> bool:
    return any(
        word in output for word in ("warning: ", "note: ", "edited", "from another source", "come from elsewhere")
    )


def _flip(data: bytes, bit: int) -> bytes:
    return data[: bit // 8] + bytes([data[bit // 8] ^ 1 << bit % 8]) + data[bit // 8 + 1 :]


def _unchanged(found: dict[str, bytes], name: str) -> dict[str, bytes]:
    """The files that a refused command must not change: all visible ones, and the journal if it is damaged."""
    journal = JOURNAL if name in JOURNAL else ()
    return {path: data for path, data in found.items() if path in journal or not path.startswith(".run/")}
