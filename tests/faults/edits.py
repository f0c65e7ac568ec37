"""A user who edits a file during the run: an artifact, the form, or a file that is not yet written."""

from __future__ import annotations

import json
from collections.abc import Iterator
from random import Random
from typing import Final

from tests.faults.world import (
    BEGIN,
    FORM,
    RESUME,
    World,
    assert_no_crash,
    assert_run_finishes,
    read_files,
    recorded_calls,
)

WORDS: Final = "Edited by a user."


def cases(world: World, random: Random) -> Iterator[str]:
    """An endless sequence of cases: a file edited at a checkpoint, in place or as an editor saves it."""
    names = [name for name in world.expected_files if not name.startswith("round-") and "summaries/" not in name]
    while True:
        name = random.choice(names)
        leg = "resume" if name == FORM else random.choice(("begin", "begin", "resume"))
        at = random.randint(1, len(world.legs[leg].points))
        yield f"{leg} {at} {name} {random.choice(('saved', 'written'))}"


def hold(world: World, case: str) -> None:
    leg, at, name, how = case.split()
    world.start(leg)
    before = recorded_calls(world)
    edited, answers = world.place / "edited", world.place / "answers.yaml"
    edited.unlink(missing_ok=True)
    edit = {
        "at": int(at),
        "path": str(world.folder / name),
        "words": f"\n{WORDS}\n" if name != FORM else f"\n<!-- {WORDS} -->\n",
        "renamed": how == "saved",
        "done": str(edited),
    }
    result = world.skillrun(*(BEGIN if leg == "begin" else RESUME), edit=edit)
    assert_no_crash(result)
    assert not [call for call in world.sent() if call.key in before], f"call repeated: {result}"
    if not edited.exists():
        return  # this run had fewer checkpoints
    assert has_edit(world), f"the edit of {name} at {world.legs[leg].points[int(at) - 1]} is lost: {result}"
    answers.write_text(json.dumps({f"keep-{name}": "keep mine"}))
    assert_run_finishes(world, before | recorded_calls(world), "--answers", str(answers), same=False)
    assert has_edit(world), f"the edit of {name} is lost at the end: {result}"


def has_edit(world: World) -> bool:
    return any(
        WORDS.encode() in data for name, data in read_files(world.folder).items() if not name.startswith(".run/")
    )
