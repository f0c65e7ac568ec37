"""`skillrun graph`: a workflow with every verb as text, Mermaid, SVG and JSON, and workflows with errors.

`SKILLRUN_UPDATE_EXAMPLES=1` rewrites the expected drawings and those in `docs/pictures`; review the diff.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from skillrun.definitions.verbs import VERBS
from tests.acceptance.conftest import Call, Make

EXPECTED = Path(__file__).parent / "graph"
PICTURES = Path(__file__).parents[2] / "docs" / "pictures"
UPDATE = bool(os.environ.get("SKILLRUN_UPDATE_EXAMPLES"))  # read here: the environment of a test has no such variable


def assert_same(drawing: str, path: Path) -> None:
    if UPDATE:
        path.write_text(drawing, encoding="utf-8")
    assert drawing == path.read_text(encoding="utf-8")


def steps_of(steps: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for step in steps:
        yield step
        yield from steps_of(step.get("steps", []))
        yield from steps_of([step["otherwise"]] if "otherwise" in step else [])


@pytest.mark.row("N5")
@pytest.mark.parametrize(
    ("options", "name"),
    [
        ([], "gallery.txt"),
        (["--all"], "gallery-all.txt"),
        (["--mermaid"], "gallery.mmd"),
        (["--svg"], "gallery.svg"),
    ],
)
def test_a_workflow_with_every_verb_is_drawn(options: list[str], name: str, project: Make, skillrun: Call) -> None:
    project("gallery")
    done = skillrun("graph", "gallery", *options)
    assert (done.code, done.err) == (0, "")
    assert_same(done.out, EXPECTED / name)


@pytest.mark.row("N5")
def test_the_graph_as_json_has_every_step(project: Make, skillrun: Call) -> None:
    project("gallery")
    graph = skillrun("graph", "gallery", "--json").json
    steps = list(steps_of([step for phase in graph["phases"] for step in phase["steps"]]))
    assert {step["verb"] for step in steps} == VERBS.keys()
    by_id = {step["id"]: step for step in reversed(steps) if "id" in step}  # a fallback has the id of its step
    assert by_id["list"]["members"] == ["curator:bold", "curator:calm"]
    assert by_id["chosen"]["members"] == ["curator:calm", "curator:bold"]
    assert by_id["chosen"]["is_fixed"] is False
    assert by_id["round"]["at_most"] == "3"
    assert by_id["style"]["outcomes"] == ["dense", "airy"]
    assert [phase["back_to"] for phase in graph["phases"]] == [[], ["plan"], [], [], []]
    assert [phase["reads"] for phase in graph["phases"]] == [[], ["plan"], [], [], []]
    assert graph["problems"] == []


@pytest.mark.finding("NC9")
def test_a_workflow_with_an_error_is_drawn(project: Make, skillrun: Call) -> None:
    folder = project("gallery")
    phase = folder / "skills" / "gallery" / "invite.md"
    phase.write_text(phase.read_text().replace("agent: writer", "agnet: writer"))
    done = skillrun("graph", "gallery")
    assert done.code == 1
    assert "5. open" in done.out
    assert "error    letter: this step has an error" in done.out
    assert "error[no-verb]: unknown verb `agnet`" in done.err
    assert "nothing was spent" not in done.err
    assert [problem["code"] for problem in skillrun("graph", "gallery", "--json").json["problems"]] == ["no-verb"]


@pytest.mark.finding("NC9")
def test_an_error_in_another_workflow_does_not_affect_the_graph(project: Make, skillrun: Call) -> None:
    folder = project("gallery", "greeting")
    (folder / "workflows" / "greeting.md").write_text("---\nname: [\n")
    assert (skillrun("graph", "gallery").code, skillrun("graph", "gallery").err) == (0, "")


@pytest.mark.finding("NC9")
def test_a_phase_without_its_file_is_drawn_as_missing(project: Make, skillrun: Call) -> None:
    folder = project("gallery")
    (folder / "skills" / "gallery" / "invite.md").unlink()
    done = skillrun("graph", "gallery")
    assert done.code == 1
    assert "its file cannot be read" in done.out
    assert "there is no phase `gallery/invite`" in done.err
    graph = skillrun("graph", "gallery", "--json").json
    assert [phase["is_missing"] for phase in graph["phases"]] == [False, False, True, False, False]
    assert [phase["reads"] for phase in graph["phases"]] == [None] * 5


@pytest.mark.finding("NC9")
def test_only_the_errors_of_an_unreadable_workflow_are_printed(project: Make, skillrun: Call) -> None:
    folder = project("gallery")
    (folder / "workflows" / "gallery.md").write_text("---\nname: [\n")
    done = skillrun("graph", "gallery")
    assert (done.code, done.out) == (1, "")
    assert "workflows/gallery.md:1:1: error" in done.err
    assert "nothing was spent" not in done.err
    assert skillrun("graph", "gallery", "--json").json.keys() == {"problems"}


@pytest.mark.row("N5")
@pytest.mark.parametrize("workflow", ["plan", "brainstorm"])
def test_a_picture_in_the_docs_is_current(workflow: str, project: Make, skillrun: Call) -> None:
    project()
    drawing = skillrun("graph", workflow, "--svg").out
    assert_same(drawing, PICTURES / f"{workflow}.svg")
    assert ET.fromstring(drawing).get("width") == "1280"
