"""Twenty processes on one run: only one holds the run at a time, even if its lock is stale."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from random import Random
from typing import Final

from tests.faults.world import (
    BEGIN,
    RESUME,
    STATUS,
    World,
    assert_no_crash,
    assert_no_extra_calls,
    assert_run_finishes,
    recorded_calls,
    shown_status,
)

PROCESSES: Final = 20


def cases(world: World, random: Random) -> Iterator[str]:
    """Twenty processes start a run of the same name, resume it, or resume a run whose process was killed."""
    for number in count(1):
        yield f"{('begin', 'resume', 'killed')[number % 3]} {number}"


def hold(world: World, case: str) -> None:
    base, _ = case.split()
    world.start(base)
    before = recorded_calls(world)
    words = BEGIN if base == "begin" else RESUME
    results = world.run_concurrently([words] * PROCESSES)
    for result in results:
        assert_no_crash(result)
        assert result.code in (*STATUS, 2), result
        if result.code in (1, 2):
            assert "is being run by" in result.err or "already exists" in result.err, result
    assert any(result.code not in (1, 2) for result in results), "\n".join(map(str, results))
    sent = [call.key for call in world.sent()]
    assert len(sent) == len(set(sent)), "two processes made the same call"
    assert not before.intersection(sent), "call repeated"
    assert shown_status(world) in ("waiting", "completed")
    assert_run_finishes(world, recorded_calls(world))
    assert_no_extra_calls(world)
