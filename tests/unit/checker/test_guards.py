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
GUARD = "{when: not inputs.guest, stop: failed, reason: No guest.}"
READS = '{say: "{{ inputs.guest }}"}'


def absent_lines(folder: Path, *steps: str, outputs: str = "{}") -> list[int]:
    """Return the lines with an `absent` error; the first step is on line 4."""
    text = "\n".join(f"  - {step}" for step in steps)
    phase = f"---\nkind: phase\nsteps:\n{text}\noutputs: {outputs}\n---\n"
    write(folder, {"workflows/trip.md": WORKFLOW, "skills/trip/pack.md": phase})
    library = Library((Root(folder, "", "project"), SHIPPED), checked_library())
    check_workflow(library, "trip")
    errors = [error for error in library.problems if error.severity == "error"]
    assert {error.code for error in errors} <= {"absent"}, [error.message for error in errors]
    return [error.line for error in errors]


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
def test_a_value_required_by_a_guard_is_present(tmp_path: Path, steps: tuple[str, ...]) -> None:
    assert absent_lines(tmp_path, *steps) == []


def test_a_guard_also_applies_to_outputs(tmp_path: Path) -> None:
    assert absent_lines(tmp_path, GUARD, outputs='{guest: "for {{ inputs.guest }}"}') == []


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
def test_a_value_that_can_still_be_absent_is_reported(tmp_path: Path, steps: tuple[str, ...], line: int) -> None:
    assert absent_lines(tmp_path, *steps) == [line]
