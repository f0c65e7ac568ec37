"""What a workflow will ask, known before it runs: whether it needs a person, and whether prepared answers fit.

Follows phases, protocols and inline workflows; where a name is computed, every one that its files and config mention.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from skillrun.language.check import Program
from skillrun.language.definitions import Phase, Score, Step, Workflow
from skillrun.language.diagnostics import Problems
from skillrun.language.library import Library
from skillrun.people.answers import Question, choices_of, default_of
from skillrun.people.prepared import Prepared


@dataclass(frozen=True)
class Ask:
    """An `ask` step, by the key that it has when it is put; its questions as far as they are written out."""

    key: str
    step: Step
    questions: tuple[Question, ...]

    def answered(self, prepared: Prepared) -> bool:
        """Whether nobody has to be there for it."""
        default = self.step.values.get("default")
        if default is not None and (default.literal is not None or any(default.templates())):
            return True
        if "files" in self.step.values:
            return False
        return all(default_of(question) is not None or prepared.has(self.key, question) for question in self.questions)


def refusal(program: Program, prepared: Prepared) -> list[str]:
    """A line for each step that makes an unattended run of the program refuse; empty where nobody is needed."""
    lines = []
    for ask in asks(program):
        if not ask.answered(prepared):
            place = f"{ask.step.span.path}:{ask.step.span.line}"
            if "files" in ask.step.values:
                lines.append(f"{place}: `{ask.key}` waits for files that a person brings: run it without --unattended")
            else:
                hint = f"answer `{ask.key}` in --answers FILE, give the step a `default:`, or run without --unattended"
                lines.append(f"{place}: `{ask.key}` asks a person: {hint}")
    return list(dict.fromkeys(lines))


def check_answers(program: Program, prepared: Prepared) -> Problems:
    """The prepared answers that are none of the choices, as far as these are written out."""
    problems = Problems()
    for ask in asks(program):
        for question in ask.questions:
            if choices_of(question):
                for problem in prepared.unfit(ask.key, question):
                    problems.add(problem)
    return problems


def asks(program: Program) -> Iterator[Ask]:
    """Every `ask` that a run of the program can come to."""
    yield from _Walk(program.library).workflow("", program.workflow, program.phases, program.config)


class _Walk:
    """One walk over everything reachable; what calls itself is entered once on each way."""

    def __init__(self, library: Library) -> None:
        self.library = library
        self.skills = library.skills()
        self.inside: tuple[str, ...] = ()
        self.written = ""

    def workflow(
        self, prefix: str, workflow: Workflow, phases: Mapping[str, Phase], config: Mapping[str, Any]
    ) -> Iterator[Ask]:
        outer = self.written
        texts = [workflow.document, *(phase.document for phase in phases.values())]
        self.written = "\n".join([*(one.source.text for one in texts), *_texts(config)])
        for use in workflow.phases.values():
            at = f"{prefix}{use.name}"
            steps = phases[use.name].steps if use.name in phases else ()
            yield from self.steps(at, (*steps, *([use.otherwise] if use.otherwise else [])))
        self.written = outer

    def steps(self, at: str, steps: Iterable[Step]) -> Iterator[Ask]:
        for step in steps:
            name = step.id or step.verb
            here = f"{at}/{name}"
            if step.verb == "ask":
                yield _ask(here, step)
            elif step.verb == "repeat":
                alone = step.until is None and "at_most" not in step.values
                yield from self.steps(at if alone else f"{at}/{step.id or 'repeat'}", step.steps)
            elif step.verb == "panel":
                for protocol in self.protocols(step):
                    yield from self.entered(f"protocol {protocol.name}", self.steps(here, protocol.steps))
            elif step.verb == "run" and (found := self.library.workflow(step.text)) is not None:
                yield from self.entered(f"workflow {found.name}", self.inline(here, found))
            if step.otherwise is not None:
                yield from self.steps(f"{here}.otherwise", [step.otherwise])

    def entered(self, name: str, found: Iterator[Ask]) -> Iterator[Ask]:
        if name not in self.inside:
            self.inside += (name,)
            yield from found
            self.inside = self.inside[:-1]

    def inline(self, at: str, workflow: Workflow) -> Iterator[Ask]:
        uses = workflow.phases.values()
        phases = {use.name: phase for use in uses if (phase := self.library.phase(use.skill)) is not None}
        config = self.library.config(workflow.config) if workflow.config else None
        return self.workflow(f"{at}/", workflow, phases, config.data if config else {})

    def protocols(self, step: Step) -> Iterator[Score]:
        """The protocol that a panel names; of a computed name, each that is mentioned where the name can come from."""
        value = step.values["protocol"].literal
        for name in [value] if isinstance(value, str) else self.mentioned():
            if (protocol := self.library.protocol(name)) is not None:
                yield protocol

    def mentioned(self) -> Iterator[str]:
        for skill in self.skills:
            name = skill.removeprefix("protocols/")
            if name != skill and re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", self.written):
                yield name


def _ask(key: str, step: Step) -> Ask:
    """The step with its questions, put together as they are when it is asked; records that are computed are unknown."""
    main = step.main
    assert main is not None
    base = step.id or "question"
    if main.literal is None and (main.template is None or main.template.expression is not None):
        return Ask(key, step, ({"id": base},))
    items = main.literal if isinstance(main.literal, list) else [main.literal]
    shared = {name: step.values[name].literal for name in ("choices", "multiple") if name in step.values}
    questions = []
    for number, item in enumerate(items, 1):
        record = item if isinstance(item, dict) else {}
        questions.append({"id": base if len(items) == 1 else f"{base}-{number}", **shared, **record})
    return Ask(key, step, tuple(questions))


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _texts(item)
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item)
