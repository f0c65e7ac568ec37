"""What a workflow will ask, known before it runs: whether it needs a person, and whether prepared answers fit.

Follows phases, protocols and inline workflows; where a protocol's name is computed, every one that its files mention.
What stands under a condition that the inputs rule out is left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, cast

from skillrun.language.check.foresight import Foresight
from skillrun.language.check.program import Program
from skillrun.language.files.definitions import Protocol, Step, Workflow
from skillrun.language.library.library import Library
from skillrun.language.text.diagnostics import Problems
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


def refusal(program: Program, prepared: Prepared, inputs: Mapping[str, Any] | None = None) -> list[str]:
    """A line for each step that makes an unattended run of the program refuse; empty where nobody is needed.

    `inputs` are those of the run, with their defaults.
    """
    lines = []
    for ask in asks(program, inputs):
        if not ask.answered(prepared):
            place = f"{ask.step.span.path}:{ask.step.span.line}: `{ask.key}`"
            if "files" in ask.step.values:
                lines.append(f"{place} waits for files that a person brings: run it without --unattended")
            else:
                hint = f"answer `{ask.key}` in --answers FILE, give the step a `default:`, or run without --unattended"
                lines.append(f"{place} asks a person: {hint}")
    return list(dict.fromkeys(lines))


def check_answers(program: Program, prepared: Prepared) -> Problems:
    """The prepared answers that are none of the choices, and names that no question has but one that is close."""
    problems = Problems()
    known: set[str] = set()
    for ask in asks(program):
        known |= {ask.key, *(str(question["id"]) for question in ask.questions)}
        for question in ask.questions:
            if choices_of(question):
                prepared.check(ask.key, question, problems)
    prepared.check_names(known, problems)
    return problems


def asks(program: Program, inputs: Mapping[str, Any] | None = None) -> Iterator[Ask]:
    """Every `ask` that a run of the program can come to, with these inputs or with any."""
    known = Foresight({"inputs": inputs}) if inputs is not None else None
    return _in_workflow(program.library, program.workflow, "", (program.workflow.name,), known)


@dataclass(frozen=True)
class _Place:
    """Where the walk is: the files' text, and the workflows and protocols around; none is entered within itself."""

    library: Library
    written: str
    inside: tuple[str, ...]
    known: Foresight

    def protocols(self, step: Step) -> Iterator[Protocol]:
        """The protocol that a panel names; of a computed name, each that the files mention."""
        literal = step.values["protocol"].literal
        known = [name.removeprefix("protocols/") for name in self.library.skills() if name.startswith("protocols/")]
        mentioned = (name for name in known if re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", self.written))
        for name in [literal] if isinstance(literal, str) else mentioned:
            found = self.library.protocol(name)
            if found is not None and f"protocols/{name}" not in self.inside:
                yield found


def _in_workflow(
    library: Library, workflow: Workflow, prefix: str, inside: tuple[str, ...], inputs: Foresight | None
) -> Iterator[Ask]:
    uses = workflow.phases.values()
    phases = {use.name: phase for use in uses if (phase := library.phase(use.skill)) is not None}
    config = library.config(workflow.config) if workflow.config else None
    documents = [workflow.document, *(phase.document for phase in phases.values())]
    written = "\n".join([*(document.source.text for document in documents), str(config.data if config else "")])
    place = _Place(library, written, inside, Foresight.of(workflow, config, inputs))
    for use in uses:
        if place.known.rules_out(use.when):
            continue
        steps = phases[use.name].steps if use.name in phases else ()
        yield from _in_steps(place, f"{prefix}{use.name}", (*steps, *([use.otherwise] if use.otherwise else [])))


def _in_steps(place: _Place, at: str, steps: Iterable[Step]) -> Iterator[Ask]:
    for step in steps:
        if place.known.rules_out(step.when):
            continue
        here = f"{at}/{step.id or step.verb}"
        if step.verb == "ask":
            yield _ask(here, step)
        elif step.verb == "repeat":
            once = step.until is None and "at_most" not in step.values
            yield from _in_steps(place, at if once else here, step.steps)
        elif step.verb == "each":
            yield from _in_steps(place, here, step.steps)
        elif step.verb == "panel":
            for protocol in place.protocols(step):
                given = place.known.handed_over(protocol.inputs, step.values.get("with"))
                names = {**place.known.names, **given.names}
                known = replace(given, names=names, varying=place.known.varying)
                within = replace(place, inside=(*place.inside, f"protocols/{protocol.name}"), known=known)
                yield from _in_steps(within, here, protocol.steps)
        elif step.verb == "run":
            found = place.library.workflow(step.text)
            if found is not None and found.name not in place.inside:
                given = place.known.handed_over(found.inputs, step.values.get("with"))
                yield from _in_workflow(place.library, found, f"{here}/", (*place.inside, found.name), given)
        if step.otherwise is not None:
            yield from _in_steps(place, f"{here}.otherwise", [step.otherwise])


def _ask(key: str, step: Step) -> Ask:
    """The step with its questions, put together as they are when it is asked; records that are computed are unknown."""
    main = step.main
    assert main is not None
    base = step.id or "question"
    if main.literal is None and (main.template is None or main.template.expression is not None):
        return Ask(key, step, ({"id": base},))
    items = main.literal if isinstance(main.literal, list) else [main.literal]
    shared = {name: step.values[name].literal for name in ("choices", "multiple", "other") if name in step.values}
    questions = []
    for number, item in enumerate(items, 1):
        record = item if isinstance(item, dict) else {}
        question = {"id": base if len(items) == 1 else f"{base}-{number}", **shared, **record}
        questions.append(cast(Question, question))
    return Ask(key, step, tuple(questions))
