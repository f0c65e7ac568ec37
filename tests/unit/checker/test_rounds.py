"""Warnings for a `goto` whose next round cannot differ from the last."""

from __future__ import annotations

from pathlib import Path

import pytest

from skillrun.checker.checker import check_workflow
from skillrun.library.library import Library
from skillrun.library.roots import Root
from tests.shipped import SHIPPED, checked_library
from tests.unit.checker.test_check import write

FILES = {
    "workflows/trip.md": """---
name: trip
inputs: {mode: {type: enum, values: [short, long], default: short}}
state:
  why: {type: string, default: not yet}
phases:
  pack:
  look:
  leave:
---
## Preamble
You travel.
""",
    "skills/trip/pack.md": """---
kind: phase
steps:
  - {id: list, agent: guide, writes: list.md}
---
## list
List what to pack for a {{ inputs.mode }} trip.
""",
    "skills/trip/look.md": """---
kind: phase
steps:
  - id: verdict
    agent: guide
    output: {good: boolean, why: string}
    material: {The list: "{{ phases.pack.artifacts['list.md'] }}"}
  - {when: not verdict.data.good, goto: pack, at_most: 2}
---
## verdict
Is it good?
""",
    "skills/trip/leave.md": """---
kind: phase
steps:
  - {id: when, ask: When?, default: now}
  - set: {why: "{{ when.answer }}"}
---
""",
    "roles/guide.md": "---\nname: guide\n---\nYou guide.\n",
    "skills/protocols/anew.md": """---
kind: protocol
seats: [one]
steps:
  - {id: said, agent: "{{ seats.one }}", output: {good: boolean}, fresh: true}
outputs: {data: "{{ said.data }}"}
---
## said
{{ task }}
""",
}
PACK, LOOK, TRIP = "skills/trip/pack.md", "skills/trip/look.md", "workflows/trip.md"
STEPS = "steps:\n"


STAY = (
    """    material: {The list: "{{ phases.pack.artifacts['list.md'] }}"}
  - {when: not verdict.data.good, goto: pack, at_most: 2}
""",
    "",
)
PANEL = ("agent: guide\n    output: {good: boolean, why: string}", "panel: [guide]\n    protocol: anew")


def problems(folder: Path, edits: dict[str, tuple[str, str]]) -> list[str]:
    files = dict(FILES)
    for path, (before, after) in edits.items():
        assert before in files[path]
        files[path] = files[path].replace(before, after)
    write(folder, files)
    library = Library((Root(folder, "", "project"), SHIPPED), checked_library())
    check_workflow(library, "trip")
    return [f"{problem.severity} {problem.path}:{problem.line} {problem.code}" for problem in library.problems]


@pytest.mark.parametrize(
    "edits",
    [
        {},
        {LOOK: (STEPS, f"{STEPS}  - set: {{why: again}}\n")},
        {LOOK: (STEPS, f"{STEPS}  - {{say: Looking.}}\n")},
        {PACK: ("List what", "Guess {{ state.why }}. List what")},  # set only after the `goto`
    ],
    ids=["nothing", "unread state", "a `say` step", "state of a later phase"],
)
def test_a_goto_whose_next_round_cannot_differ_is_a_warning(tmp_path: Path, edits: dict[str, tuple[str, str]]) -> None:
    [problem] = problems(tmp_path, edits)
    assert problem.startswith("warning skills/trip/look.md:")
    assert problem.endswith(" same-again")


@pytest.mark.parametrize(
    "edits",
    [
        {PACK: ("List what", "{% if history %}Pack less.{% endif %} List what")},
        {LOOK: ("Is it good", "Is it good in round {{ run.round }}")},
        {
            LOOK: (STEPS, f"{STEPS}  - set: {{why: heavy}}\n"),
            PACK: ("List what", "It was {{ state.why }}. List what"),
        },
        {
            LOOK: (STEPS, f"{STEPS}  - set: {{why: heavy}}\n"),
            TRIP: ("You travel.", "You travel. {{ state.why }}"),
        },
        {
            LOOK: (STEPS, f"{STEPS}  - set: {{why: heavy}}\n"),
            TRIP: ("phases:\n", 'material: {Why again: "{{ state.why }}"}\nphases:\n'),
        },
        {
            LOOK: (STEPS, f"{STEPS}  - set: {{why: heavy}}\n"),
            TRIP: ("  look:", "  look: {when: \"state.why != 'heavy'\"}"),
        },
        {LOOK: (STEPS, f"{STEPS}  - {{id: fine, ask: Is it fine?, default: no}}\n")},
        {LOOK: (STEPS, f"{STEPS}  - {{id: notes, read: notes.md}}\n")},
        {PACK: ("agent: guide", "agent: guide, session: persistent")},
        {PACK: ("agent: guide", "agent: guide, fresh: true")},
        {LOOK: PANEL},
        {PACK: ("agent: guide, writes: list.md", "agent: guide, otherwise: {goto: pack, at_most: 2}"), LOOK: STAY},
    ],
    ids=[
        "history",
        "the round",
        "state in a prompt",
        "state in the preamble",
        "state in the material",
        "state in a condition",
        "a question",
        "a file",
        "a conversation",
        "a fresh call",
        "a protocol with fresh calls",
        "a step that failed",
    ],
)
def test_a_goto_whose_next_round_can_differ_is_not_a_warning(tmp_path: Path, edits: dict[str, tuple[str, str]]) -> None:
    assert problems(tmp_path, edits) == []
