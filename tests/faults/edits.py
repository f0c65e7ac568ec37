"""A person who writes into a file of a run while it runs: an artifact, the form, a file that is yet to be written."""

from __future__ import annotations

import json
from collections.abc import Iterator
from random import Random
from typing import Final

from tests.faults.world import BEGIN, FORM, RESUME, World, goes_on, kept, no_bug, readable

WORDS: Final = "A person was here."


def cases(world: World, random: Random) -> Iterator[str]:
    """Without an end: a file, edited at a checkpoint, in place or as an editor saves it."""
    names = [name for name in world.whole if not name.startswith("round-") and "summaries/" not in name]
    while True:
        name = random.choice(names)
        leg = "resume" if name == FORM else random.choice(("begin", "begin", "resume"))
        at = random.randint(1, len(world.legs[leg].points))
        yield f"{leg} {at} {name} {random.choice(('saved', 'written'))}"


def hold(world: World, case: str) -> None:
    leg, at, name, how = case.split()
    world.start(leg)
    before = readable(world)
    edited, answers = world.place / "edited", world.place / "answers.yaml"
    edited.unlink(missing_ok=True)
    edit = {
        "at": int(at),
        "path": str(world.folder / name),
        "words": f"\n{WORDS}\n" if name != FORM else f"\n<!-- {WORDS} -->\n",
        "renamed": how == "saved",
        "done": str(edited),
    }
    done = world.typed(*(BEGIN if leg == "begin" else RESUME), edit=edit)
    no_bug(done)
    assert not [call for call in world.sent() if call.key in before], f"asked again: {done}"
    if not edited.exists():
        return  # there were fewer checkpoints, this time
    assert is_there(world), f"what was written into {name} at {world.legs[leg].points[int(at) - 1]} is gone: {done}"
    answers.write_text(json.dumps({f"keep-{name}": "keep mine"}))
    goes_on(world, before | readable(world), "--answers", str(answers), same=False)
    assert is_there(world), f"what was written into {name} is gone at the end: {done}"


def is_there(world: World) -> bool:
    return any(WORDS.encode() in data for name, data in kept(world.folder).items() if not name.startswith(".run/"))
