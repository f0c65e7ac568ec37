"""A full or broken disk: the n-th operation on run files fails, and optionally all that follow."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from random import Random
from typing import Final

from tests.faults.world import (
    BEGIN,
    LEGS,
    RESUME,
    World,
    assert_no_crash,
    assert_no_extra_calls,
    assert_run_finishes,
    assert_status_is_true,
    recorded_calls,
)

KINDS: Final = {"ENOSPC": errno.ENOSPC, "EIO": errno.EIO}


def cases(world: World, random: Random) -> Iterator[str]:
    """Each operation of a run, on a full and on a broken disk, failing once and permanently."""
    for leg in LEGS:
        for number, operation in enumerate(world.legs[leg].operations, 1):
            for kind in KINDS:
                if kind == "EIO" or not operation.startswith("unlink"):  # a full disk allows deletion
                    yield from (f"{leg} {number} {kind} {lasting}" for lasting in ("once", "lasting"))


def hold(world: World, case: str) -> None:
    leg, number, kind, lasting = case.split()
    world.start(leg)
    before = recorded_calls(world)
    fault = {"below": str(world.runs), "number": int(number), "kind": KINDS[kind], "lasting": lasting == "lasting"}
    result = world.skillrun(*(BEGIN if leg == "begin" else RESUME), disk=fault)
    assert_no_crash(result)
    assert result.code in (0, 1, 75), result
    assert not [call for call in world.sent() if call.key in before], f"call repeated: {result}"
    torn = lasting == "lasting" or "state.md" in world.failed() + result.err
    assert_status_is_true(world, result, "waiting" if leg == "resume" else "", torn=torn)
    if "the journal cannot be written" in result.output:
        late = [call for call in world.sent() if "/.run/journal.db" in call.failed]
        assert not late, f"{len(late)} calls were sent although the journal could not be written: {result}"
    if result.code == 1:
        assert "next: " in result.output or "hint: " in result.output, f"the next step is missing: {result}"
    assert_run_finishes(world, before | recorded_calls(world))
    assert_no_extra_calls(world)
