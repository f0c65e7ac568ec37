"""Deliverables of a workflow, derived from its outputs."""

from __future__ import annotations

from pathlib import Path

import pytest

from skillrun.extensions.report.report_data import list_deliverables
from skillrun.library.library import Library
from skillrun.library.roots import Root, package_library

WORKFLOW = """---
name: w
inputs: {request: string, prefix: {type: slug, default: "00"}}
outputs:
  second: "{{ phases.two_words.artifacts['two.md'] }}"
  either: "{{ phases.one.artifacts['gone.md'] or phases.one.artifacts['one.md'] }}"
  again: "{{ phases.one.artifacts['two.md'] }}"
  named: "{{ phases.one.artifacts[inputs.prefix ~ '-notes.md'] }}"
  words: "{{ phases.one.artifacts['one.md'] | length }}"
  input: "{{ inputs.request }}"
  state: "{{ phases.one.outputs.level }}"
  plain: one.md
phases:
  one:
  two-words:
---
"""


@pytest.mark.row("A6")
def test_artifacts_among_the_outputs_are_deliverables_in_order(tmp_path: Path) -> None:
    (tmp_path / "workflows").mkdir()
    (tmp_path / "workflows" / "w.md").write_text(WORKFLOW)
    workflow = Library([Root(tmp_path, "", "project")]).workflow("w")
    assert workflow is not None
    artifacts = ["one.md", "two.md", "00-notes.md", "other.md"]
    deliverables = list_deliverables(workflow, {"request": "one.md", "prefix": "00"}, artifacts)
    assert deliverables == ["two.md", "one.md", "00-notes.md"]
    assert list_deliverables(workflow, {}, ["other.md"]) == []


WRITES_NOTHING = {"judge-pair"}  # returns a verdict only


@pytest.mark.row("A6")
@pytest.mark.parametrize(
    "name", sorted({path.stem for path in (package_library() / "workflows").glob("*.md")} - WRITES_NOTHING)
)
def test_every_shipped_workflow_has_deliverables(name: str) -> None:
    library = Library([Root(package_library(), "skillrun:", "library")])
    workflow = library.workflow(name)
    assert workflow is not None
    if name in WRITES_NOTHING:
        assert not list_deliverables(workflow, {}, ["plan.md"])
        return
    paths = ["plan.md", "PRD.md", "summary.md", "00-brainstorming.md", "decision-record.md", "ImplementationPlan.md"]
    assert list_deliverables(workflow, {"prefix": "00"}, [*paths, "plan-review.md"])
