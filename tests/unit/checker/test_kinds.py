"""Values that keys and variables accept besides literals; `tests/examples/invalid` has the invalid ones."""

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
inputs: {place: string, bags(array): {type: string, default: []}}
state:
  days: {type: integer, default: "{{ '3' }}"}
  seen(array): {type: string, default: "{{ inputs.bags }}"}
  guest?: {name: string}
phases:
  pack:
---
Takes {{ inputs.place }}.
"""


@pytest.mark.parametrize(
    "step",
    [
        "{id: bags, ask: Which?, choices: [small, huge], multiple: true, default: [small, huge]}",
        '{id: bags, ask: Which?, choices: [small, huge], default: ""}',
        '{id: bags, ask: Which?, choices: "{{ inputs.bags }}", default: ""}',
        '{id: bags, ask: "{{ inputs.place }}", default: ""}',
        '{id: bags, ask: ["{{ inputs.place }}", {text: "{{ inputs.place }}", weight: 5}], default: ""}',
        '{id: bags, ask: "{{ inputs.bags }}", default: ""}',
        '{set: {days: "{{ inputs.place }}"}}',
        '{set: {seen: "{{ inputs.place }}"}}',
        "{set: {days: '5'}}",
        "{set: {guest: \"{{ {'name': inputs.place} }}\"}}",
        "{id: each, each: [], steps: [{say: one}]}",
        '{id: size, decide: [{then: small}], order: "{{ inputs.bags }}"}',
    ],
)
def test_a_value_that_the_run_accepts_is_not_an_error(tmp_path: Path, step: str) -> None:
    write(
        tmp_path,
        {"workflows/trip.md": WORKFLOW, "skills/trip/pack.md": f"---\nkind: phase\nsteps:\n  - {step}\n---\n"},
    )
    library = Library((Root(tmp_path, "", "project"), SHIPPED), checked_library())
    check_workflow(library, "trip")
    assert [f"{item.path}:{item.line} {item.message}" for item in library.problems if item.severity == "error"] == []
