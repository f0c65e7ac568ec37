"""A disk that is full or broken: the n-th operation on the files of a run fails, once or from then on."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from random import Random
from typing import Final

from tests.faults.world import BEGIN, LEGS, RESUME, World, goes_on, no_bug, readable, sent_once, told_true

KINDS: Final = {"ENOSPC": errno.ENOSPC, "EIO": errno.EIO}


def cases(world: World, random: Random) -> Iterator[str]:
    """Each operation of a run, on a full and on a broken disk, once and from then on."""
    for leg in LEGS:
        for number, operation in enumerate(world.legs[leg].operations, 1):
            for kind in KINDS:
                if kind == "EIO" or not operation.startswith("unlink"):  # a full disk lets go
                    yield from (f"{leg} {number} {kind} {lasting}" for lasting in ("once", "lasting"))


def hold(world: World, case: str) -> None:
    leg, number, kind, lasting = case.split()
    world.start(leg)
    before = readable(world)
    fault = {"below": str(world.runs), "number": int(number), "kind": KINDS[kind], "lasting": lasting == "lasting"}
    done = world.typed(*(BEGIN if leg == "begin" else RESUME), disk=fault)
    no_bug(done)
    assert done.code in (0, 1, 75), done
    assert not [call for call in world.sent() if call.key in before], f"asked again: {done}"
    torn = lasting == "lasting" or "state.md" in world.failed() + done.err
    told_true(world, done, "waiting" if leg == "resume" else "", torn=torn)
    if "the journal cannot be written" in done.said:
        late = [call for call in world.sent() if "/.run/journal.db" in call.failed]
        assert not late, f"{len(late)} calls were sent although the journal could not be written: {done}"
    if done.code == 1:
        assert "next: " in done.said or "hint: " in done.said, f"what to do next is not said: {done}"
    goes_on(world, before | readable(world))
    sent_once(world)
