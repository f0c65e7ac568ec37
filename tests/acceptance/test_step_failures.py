"""A template value that a step cannot use fails the step with its position, never with an internal error."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, Final

import pytest

from skillrun.checker.checker import check_workflow
from skillrun.events import Event, Said
from skillrun.library.library import Library
from skillrun.library.roots import search_path
from skillrun.models.catalogue import Catalogue
from skillrun.models.scripted import Rule, ScriptedGateway
from skillrun.questions.responder import open_responder
from skillrun.runtime import session
from skillrun.runtime.run import RunOptions, Services, Session
from skillrun.store.local.local_store import LocalStore
from skillrun.store.outcome import Outcome
from skillrun.syntax.diagnostics import render_problem

pytestmark = pytest.mark.finding("FL3")

V: Final = "{{ odd.data.box.value }}"  # its type is unknown before the run
FIRST: Final = "- {id: odd, agent: guide, output: {box: any}}"
STEPS: Final = (
    f"say: '{V}'", f"say: 'so {V}'", f"say: so, level: '{V}'", "say: so, when: odd.data.box.value > 3",
    "say: so, when: odd.data.box.value | length > 3", "set: {a: '{{ odd.data.box.value + 1 }}'}",
    f"set: {{words: '{V}'}}", f"set: {{number: '{V}'}}", f"set: {{kind: '{V}'}}", f"set: {{owner: '{V}'}}",
    "decide: [{when: odd.data.box.value > 3, then: a}, {then: b}]", f"decide: [{{then: '{V}'}}], order: [a, b]",
    f"decide: [{{then: a, because: 'so {V}'}}]", f"decide: [{{then: a}}], order: '{V}'",
    f"ask: '{V}', default: a", f"ask: ['{V}', b], default: a", f"ask: [{{id: '{V}', text: '{V}'}}], default: a",
    f"ask: so, choices: '{V}', default: a", f"ask: so, form: '{V}', default: a", f"ask: so, files: '{V}', default: a",
    f"ask: '{V}', files: 'none*', default: a", f"ask: so, pause: '{V}', default: a",
    f"read: '{V}'", f"read: a.md, from: '{V}'",
    f"id: w1, write: '{V}'", f"id: w2, write: a.md, template: '{V}'", f"id: w3, write: b.md, frontmatter: {{a: '{V}'}}",
    "id: w4, write: c.md",
    f"at_most: '{V}', repeat: [say: so]", "at_most: 2, until: odd.data.box.value > 3, repeat: [say: so]",
    f"run: inner, with: {{a: '{V}'}}",
    f"id: p1, panel: '{V}', protocol: round", f"id: p2, panel: ['{V}', guide], protocol: round",
    f"id: p3, panel: [guide], protocol: '{V}'", f"id: p4, panel: [guide], protocol: round, with: {{a: '{V}'}}",
    "id: p5, panel: [guide], protocol: round",
    f"id: a1, agent: '{V}'", f"id: a2, agent: ['{V}', guide]", f"id: a3, agent: [guide], at_least: '{V}'",
    f"id: a4, agent: guide, writes: '{V}'", f"id: a5, agent: guide, session: '{V}'",
    f"id: a6, agent: guide, output: {{x(enum): '{V}'}}", f"id: a7, agent: guide, output: {{x: 'string, so {V}'}}",
    "id: a8, agent: guide", f"stop: '{V}'", "stop: failed, when: odd.data.box.value > 100",
)  # fmt: skip
FILES: Final = {
    "roles/guide.md": "---\nname: guide\n---\nYou are a guide.\n",
    "workflows/inner.md": "---\nname: inner\ndescription: Runs inside.\ninputs: {a: integer}\nphases:\n  one:\n---\n",
    "skills/inner/one.md": "---\nkind: phase\nsteps:\n  - {say: 'so {{ inputs.a + 1 }}'}\n---\n",
    "skills/protocols/round.md": (
        "---\nkind: protocol\ndescription: One round.\nseats: {members: 1..3}\ninputs: {a?: string}\nsteps:\n"
        "  - {id: said, agent: \"{{ seats.members | map(attribute='id') | list }}\"}\n"
        "outputs: {said: '{{ said.text }}{{ inputs.a | length }}'}\n---\n## said\n{{ task }}\n"
    ),
}
WORKFLOW: Final = """---
name: trip
description: A trip.
state:
  words?: string
  number?: integer 0..10
  kind?(enum): [a, b]
  owner?: {shape: {name: string}}
phases:
  one:@
---
"""


def run(project: Path, steps: list[str], box: Any, *, phase: str = "", after: str = "") -> tuple[Outcome, list[str]]:
    """Run a workflow of these steps; return its outcome and messages. `box` is the reply to its first step."""
    sections = "".join(f"\n## {name}\nso {V if name in ('w4', 'p5', 'a8') else ''}\n" for name in _prompted(steps))
    text = (
        f"---\nkind: phase\nsteps:\n  {FIRST}\n  {chr(10).join(steps).replace(chr(10), chr(10) + '  ')}\n{after}---\n"
    )
    files = {
        "skills/trip/one.md": f"{text}\n## odd\nSay.\n{sections}",
        "workflows/trip.md": WORKFLOW.replace("@", phase),
    }
    for name, content in {**FILES, **files}.items():
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_text(content, encoding="utf-8")
    library = Library(search_path(project))
    program = check_workflow(library, "trip")
    models = library.config("models")
    assert program is not None
    assert models is not None
    assert not library.problems.has_errors, "\n".join(map(render_problem, library.problems))
    messages: list[str] = []

    def record_message(event: Event) -> None:
        if isinstance(event, Said):
            messages.append(event.text)

    async def execute() -> Outcome:
        gateway = ScriptedGateway([Rule("*/odd/*", data={"box": box})])
        responder = open_responder(unattended=True)
        catalogue = Catalogue.from_config(models.data)
        services = Services(catalogue, gateway, responder, (record_message,))
        configuration = Session(program, services, RunOptions(project, "scripted:x"))
        return await session.start_run(configuration, {}, LocalStore(project / "runs"), "run")

    return asyncio.run(execute()), messages


def _prompted(steps: list[str]) -> list[str]:
    """The ids of the steps that have a section."""
    found = [step.partition("id: ")[2].partition(",")[0] for step in steps if "{id: " in step]
    return [name for name in found if name.isidentifier() and name != "w2"]


BOXES: Final[dict[str, Any]] = {
    "absent": {}, "null": {"value": None}, "mapping": {"value": {"id": [3]}}, "path": {"value": "../x"},
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("box", BOXES.values(), ids=BOXES.keys())
def test_a_step_with_an_unusable_value_uses_its_fallback_or_completes(tmp_path: Path, box: Any) -> None:
    steps = [f"- {{{step}, otherwise: {{say: 'instead {number}'}}}}" for number, step in enumerate(STEPS)]
    outcome, messages = run(tmp_path, steps, box)
    assert (outcome.status, outcome.reason) == ("completed", "")
    failed = {int(text.split()[1]) for text in messages if text.startswith("instead ")}
    if box == {}:
        assert {0, 1, 2, 22, 24, 27, 31, 33, 36, 38, 39, 44} <= failed
        assert "say: skills/trip/one.md:5:28: `odd.data.box.value` is absent" in "\n".join(messages)


def test_without_a_fallback_the_run_fails_with_the_position_and_advice(tmp_path: Path) -> None:
    outcome, _ = run(tmp_path, [f"- {{say: '{V}'}}"], {})
    assert (outcome.status, outcome.exit_code) == ("failed", 1)
    assert outcome.reason.startswith("one: skills/trip/one.md:5:28: `odd.data.box.value` is absent")
    assert "default" in outcome.reason
    assert "skillrun resume run" in str(outcome.next_step)


def test_an_unusable_output_fails_the_phase_and_runs_its_fallback(tmp_path: Path) -> None:
    after = "outputs: {a: '{{ odd.data.box.value + 1 }}'}\n"
    outcome, messages = run(tmp_path, [], {}, phase=" {otherwise: {say: without it}}", after=after)
    assert outcome.status == "completed"
    assert "without it" in messages


@pytest.mark.finding("FL9")
def test_at_most_refuses_a_text_that_names_no_breaker(tmp_path: Path) -> None:
    outcome, messages = run(tmp_path, [f"- {{at_most: '{V}', repeat: [say: once more]}}"], {"value": "x"})
    assert outcome.status == "failed"
    assert "`at_most` is `x`, which is neither a number nor a breaker" in outcome.reason
    assert messages == []


def test_say_formats_values_like_any_template(tmp_path: Path) -> None:
    _, messages = run(tmp_path, [f"- {{say: '{V}'}}"], {"value": [True, {"a": 1}]})
    assert messages == ['[true, {"a": 1}]']
