"""Twenty processes on one run: one of them has it at a time, whatever becomes of the lock."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from random import Random
from typing import Final

from tests.faults.world import BEGIN, RESUME, STATUS, World, goes_on, no_bug, readable, sent_once, shown

PROCESSES: Final = 20


def cases(world: World, random: Random) -> Iterator[str]:
    """Twenty at once begin a run of one name, go on with it, or go on with one whose process was killed."""
    for number in count(1):
        yield f"{('begin', 'resume', 'killed')[number % 3]} {number}"


def hold(world: World, case: str) -> None:
    base, _ = case.split()
    world.start(base)
    before = readable(world)
    words = BEGIN if base == "begin" else RESUME
    done = world.at_once([words] * PROCESSES)
    for one in done:
        no_bug(one)
        assert one.code in (*STATUS, 2), one
        if one.code in (1, 2):
            assert "is being run by" in one.err or "already exists" in one.err, one
    assert any(one.code not in (1, 2) for one in done), "\n".join(map(str, done))
    sent = [call.key for call in world.sent()]
    assert len(sent) == len(set(sent)), "two processes have asked the same"
    assert not before.intersection(sent), "asked again"
    assert shown(world) in ("waiting", "completed")
    goes_on(world, readable(world))
    sent_once(world)
