"""After a `stop` with a condition, the condition is known to be false."""

from __future__ import annotations

from pathlib import Path

import pytest

from skillrun.checker.checker import check_workflow
from skillrun.library.library import Library
from skillrun.library.roots import Root
from tests.shipped import SHIPPED, checked_library
from tests.unit.checker.test_check import write

WORKFLOW = """---
name: trip
inputs: {place: string, guest?: string}
state: {bag?: string}
phases:
  pack:
---
Takes {{ inputs.place }}.
"""
GUARD = "{when: not inputs.guest, stop: failed, reason: Nobody comes.}"
READS = '{say: "{{ inputs.guest }}"}'


def absent(folder: Path, *steps: str, outputs: str = "{}") -> list[int]:
    """Return the lines with an `absent` error; the first step is on line 4."""
    text = "\n".join(f"  - {step}" for step in steps)
    phase = f"---\nkind: phase\nsteps:\n{text}\noutputs: {outputs}\n---\n"
    write(folder, {"workflows/trip.md": WORKFLOW, "skills/trip/pack.md": phase})
    library = Library((Root(folder, "", "project"), SHIPPED), checked_library())
    check_workflow(library, "trip")
    found = [one for one in library.problems if one.severity == "error"]
    assert {one.code for one in found} <= {"absent"}, [one.message for one in found]
    return [one.line for one in found]


@pytest.mark.parametrize(
    "steps",
    [
        (GUARD, READS),
        ("{when: not inputs.guest or not state.bag, stop: failed}", READS, '{say: "{{ state.bag }}"}'),
        (GUARD, "{repeat: [" + READS + "]}"),
        (
            "{id: which, ask: Which?, default: ''}",
            "{when: not which.answer, stop: failed}",
            '{say: "{{ which.answer }}"}',
        ),
        (GUARD, '{set: {bag: "{{ inputs.guest }}"}}', READS),
        ("{each: [a, b], id: each, steps: [" + GUARD + ", " + READS + "]}",),
    ],
)
def test_what_was_needed_to_get_by_is_there(tmp_path: Path, steps: tuple[str, ...]) -> None:
    assert absent(tmp_path, *steps) == []


def test_outputs_know_it_too(tmp_path: Path) -> None:
    assert absent(tmp_path, GUARD, outputs='{guest: "for {{ inputs.guest }}"}') == []


@pytest.mark.parametrize(
    ("steps", "line"),
    [
        ((READS, GUARD), 4),
        (("{when: not inputs.guest and inputs.place, stop: failed}", READS), 5),
        (("{when: inputs.guest, stop: failed}", READS), 5),
        (("{when: inputs.place, repeat: [" + GUARD + "]}", READS), 5),
        (("{each: [a, b], id: each, steps: [" + GUARD + "]}", READS), 5),
        (
            (
                "{when: not state.bag, stop: failed}",
                '{set: {bag: "{{ inputs.guest }}"}}',
                '{say: "{{ state.bag }}"}',
            ),
            6,
        ),
    ],
)
def test_what_may_still_be_absent_is_said(tmp_path: Path, steps: tuple[str, ...], line: int) -> None:
    assert absent(tmp_path, *steps) == [line]
