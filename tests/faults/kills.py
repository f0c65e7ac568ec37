"""A process that is killed: at its checkpoints, at each operation on its files, in the middle of a write, at random."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from random import Random
from typing import Any, Final

from tests.faults.world import BEGIN, RESUME, World, goes_on, readable, sent_once, told_true

DIE, TORN = -1, -2  # of `disk.c`
HOW: Final = ("point", "operation", "torn", "moment")


def cases(world: World, random: Random) -> Iterator[str]:
    """Without an end, a quarter of each kind; all of a kind before one comes again."""
    places: dict[tuple[str, str], list[str]] = {}
    while True:
        for how in HOW:
            leg = random.choice(("begin", "begin", "begin", "resume"))
            if how in ("operation", "torn") and not world.forks.fails:
                continue
            if how == "moment":
                yield f"{leg} moment {random.random() * world.legs[leg].seconds:.4f}"
                continue
            left = places.setdefault((leg, how), [])
            if not left:
                left += [str(number) for number in _numbers(world, leg, how)]
                random.shuffle(left)
            yield f"{leg} {how} {left.pop()}"


def _numbers(world: World, leg: str, how: str) -> list[int]:
    if how == "point":
        return list(range(1, len(world.legs[leg].points) + 1))
    wanted = ("write", "pwrite") if how == "torn" else ("",)
    return [number for number, name in enumerate(world.legs[leg].operations, 1) if name.startswith(wanted)]


def hold(world: World, case: str) -> None:
    leg, how, where = case.split()
    world.start(leg)
    before = readable(world)
    done = world.typed(*(BEGIN if leg == "begin" else RESUME), **_fault(world, how, where))
    assert done.code in ((-signal.SIGKILL,) if how == "point" else (-signal.SIGKILL, 0, 75)), done
    assert not [call for call in world.sent() if call.key in before], f"asked again: {done}"
    told_true(world, done)
    goes_on(world, before | readable(world))
    sent_once(world)


def _fault(world: World, how: str, where: str) -> dict[str, Any]:
    if how == "point":
        return {"environment": {"SKILLRUN_KILL_AT": where}}
    if how == "moment":
        return {"kill_after": float(where)}
    return {"disk": {"below": str(world.runs), "number": int(where), "kind": TORN if how == "torn" else DIE}}
