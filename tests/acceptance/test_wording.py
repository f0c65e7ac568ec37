"""Messages name the missing run, show the invalid reply, and give the next command once."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Call = Callable[..., Any]
Library = Callable[..., Path]
TOP = Path(__file__).parents[2]
ROLE = "---\nname: asker\ndescription: {}\n---\nYou ask.\n"
WORKFLOW = """---
name: {name}
inputs:
  request: string, what to ask
phases:
  ask:
---
"""
PHASE = """---
kind: phase
steps:
  - {step}
---
"""


@pytest.fixture
def library(project: Call) -> Library:
    """Create a project with the workflow `ask`, whose only step is the given one, and more files."""

    def make(step: str, **more: str) -> Path:
        folder: Path = project()
        files = {
            "workflows/ask.md": WORKFLOW.format(name="ask"),
            "skills/ask/ask.md": PHASE.replace("{step}", step) + ("## one\nAsk.\n" if "agent" in step else ""),
            "roles/asker.md": ROLE.format("Asks."),
            **{path.replace("__", "/") + ".md": text for path, text in more.items()},
        }
        for path, text in files.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(text, encoding="utf-8")
        return folder

    return make


@pytest.mark.finding("FL17")
def test_a_missing_run_is_named(library: Library, skillrun: Call) -> None:
    folder = library("{id: one, read: findings.md, from: storm}")
    (folder / "runs" / "storms").mkdir(parents=True)
    done = skillrun("ask", "x", "--unattended", "--name", "a")
    assert done.code == 1
    assert "no run is named `storm`; did you mean `storms`?" in done.out
    assert "findings.md" not in done.out


@pytest.mark.finding("FL17")
def test_a_malformed_reply_is_shown(library: Library, skillrun: Call) -> None:
    folder = library("{id: one, agent: asker, output: {score: integer}}")
    (folder / "script.yaml").write_text('- {address: "ask/ask/one/*", text: "About seven, I would say."}')
    done = skillrun("ask", "x", "--unattended", "--script", "script.yaml", "--name", "a")
    assert done.code == 1
    assert "it begins `About seven, I would say.`" in done.out


@pytest.mark.finding("FL17")
def test_the_resume_command_is_printed_once_when_an_inline_workflow_waits(library: Library, skillrun: Call) -> None:
    library(
        "{id: one, run: inner, with: {request: x}}",
        workflows__inner=WORKFLOW.format(name="inner"),
        skills__inner__ask=PHASE.replace("{step}", "{id: one, ask: Which one?, pause: exit, form: which.md}"),
    )
    done = skillrun("ask", "x", "--name", "a")
    assert done.code == 75, done.out + done.err
    assert done.out.count("resume with `skillrun resume a`") == 1
    assert not re.search(r"[.;] ?[;.,]( |$)", done.out, re.MULTILINE)


@pytest.mark.slow
@pytest.mark.finding("FL17")
@pytest.mark.parametrize(
    "description",
    [
        "Use this agent when: you need it.",
        'Use it when asked. Examples: <example>Context: a user asks. assistant: "I do."</example> More: none.',
    ],
)
def test_a_subagents_description_may_have_colons(library: Library, skillrun: Call, description: str) -> None:
    library("{id: one, agent: asker}", roles__asker=ROLE.format(description))
    done = skillrun("validate", "--strict")
    assert done.code == 0, done.out
    listed = skillrun("list", "--json").json
    assert [role["description"] for role in listed["roles"] if role["name"] == "asker"] == [description]


@pytest.mark.slow
@pytest.mark.finding("FL17")
def test_a_mistake_after_such_a_description_has_its_position(library: Library, skillrun: Call) -> None:
    library("{id: one, agent: asker}", roles__asker=ROLE.format("Use: this\nvariants: {brief: short: text"))
    done = skillrun("validate")
    assert "roles/asker.md:4:24: error[yaml]: a value with `: ` in it must be quoted" in done.out


def test_the_model_option_applies_to_an_inline_workflow_after_resume(library: Library, skillrun: Call) -> None:
    folder = library(
        "{id: one, run: inner, with: {request: x}}",
        workflows__inner=WORKFLOW.format(name="inner"),
        skills__inner__ask=PHASE.replace("{step}", "{id: sure, ask: Sure?}\n  - {id: one, agent: pinned}")
        + "## one\nAsk.\n",
        roles__pinned=ROLE.format("Asks.").replace("name: asker\n", "name: pinned\nmodel: opus\n"),
    )
    (folder / "answers.yaml").write_text("sure: yes\n")
    assert skillrun("ask", "x", "--model", "scripted:default", "--name", "a").code == 75
    done = skillrun("resume", "a", "--answers", "answers.yaml", "--json")
    assert (done.code, json.loads(done.out)["models"]["opus"]) == (0, "scripted:default")


def test_a_sentence_that_ends_with_a_value_has_one_full_stop(library: Library, skillrun: Call) -> None:
    library(
        '{ask: "It has {{ inputs.request }}. Now what?", default: continue}\n  - {say: "It has {{ inputs.request }}."}'
    )
    out = skillrun("ask", "no clear owner.", "--model", "scripted:default", "--unattended").out
    assert "ask: It has no clear owner.\n" in out
    assert "It has no clear owner. Now what?" in out
