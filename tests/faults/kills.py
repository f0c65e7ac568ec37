"""A process killed at its checkpoints, at its file operations, during a write, or at a random time."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from random import Random
from typing import Any, Final

from tests.faults.world import (
    BEGIN,
    RESUME,
    World,
    assert_no_extra_calls,
    assert_run_finishes,
    assert_status_is_true,
    recorded_calls,
)

DIE, TORN = -1, -2  # of `disk.c`
HOW: Final = ("point", "operation", "torn", "moment")


def cases(world: World, random: Random) -> Iterator[str]:
    """An endless sequence of cases, a quarter of each kind; all of a kind come before any is repeated."""
    remaining: dict[tuple[str, str], list[str]] = {}
    while True:
        for how in HOW:
            leg = random.choice(("begin", "begin", "begin", "resume"))
            if how in ("operation", "torn") and not world.forks.fails:
                continue
            if how == "moment":
                yield f"{leg} moment {random.random() * world.legs[leg].seconds:.4f}"
                continue
            numbers = remaining.setdefault((leg, how), [])
            if not numbers:
                numbers += [str(number) for number in _numbers(world, leg, how)]
                random.shuffle(numbers)
            yield f"{leg} {how} {numbers.pop()}"


def _numbers(world: World, leg: str, how: str) -> list[int]:
    if how == "point":
        return list(range(1, len(world.legs[leg].points) + 1))
    prefixes = ("write", "pwrite") if how == "torn" else ("",)
    return [number for number, name in enumerate(world.legs[leg].operations, 1) if name.startswith(prefixes)]


def hold(world: World, case: str) -> None:
    leg, how, where = case.split()
    world.start(leg)
    before = recorded_calls(world)
    result = world.skillrun(*(BEGIN if leg == "begin" else RESUME), **_fault(world, how, where))
    assert result.code in ((-signal.SIGKILL,) if how == "point" else (-signal.SIGKILL, 0, 75)), result
    assert not [call for call in world.sent() if call.key in before], f"call repeated: {result}"
    assert_status_is_true(world, result)
    assert_run_finishes(world, before | recorded_calls(world))
    assert_no_extra_calls(world)


def _fault(world: World, how: str, where: str) -> dict[str, Any]:
    if how == "point":
        return {"environment": {"SKILLRUN_KILL_AT": where}}
    if how == "moment":
        return {"kill_after": float(where)}
    return {"disk": {"below": str(world.runs), "number": int(where), "kind": TORN if how == "torn" else DIE}}
