"""The results of a check: the program that the interpreter runs, its protocols, and the questions that it may ask."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from skillrun.checker.phase_effects import RecordReads
from skillrun.definitions.definitions import Phase, Protocol, Step, Workflow
from skillrun.library.library import Library
from skillrun.syntax.source import Span
from skillrun.templates.expressions import Template
from skillrun.types.types import Type


@dataclass(frozen=True)
class Program:
    """A workflow with everything it uses, as the interpreter runs it.

    `reads` maps each phase to the phases that it reads. `inline` has the workflows that phases run. `summarized_phases`
    are the phases whose summary is read in the same round; `history_phases` are those whose summary is read in later
    rounds. `record_reads` has the fields of step records that are read. `can_record` tells whether some phase can
    record decisions, questions or risks. `question_steps` maps each phase to its steps that may ask the user, directly
    or in callees. `names_read` has the names and fields that templates of the workflow and its callees read.
    `estimate_readers` has the file and offset of each step and phase that reads `run.estimate`, and None if another
    part of the workflow reads it. `modes` has the config of each mode.
    """

    workflow: Workflow
    phases: Mapping[str, Phase]
    config: Mapping[str, Any]
    engine: Mapping[str, Any]
    library: Library
    reads: Mapping[str, frozenset[str]] = field(default_factory=dict)
    inline: Mapping[str, Program] = field(default_factory=dict)
    summarized_phases: frozenset[str] = frozenset()
    history_phases: frozenset[str] = frozenset()
    record_reads: RecordReads = field(default_factory=dict)
    can_record: bool = True
    question_steps: Mapping[str, tuple[QuestionStep | NestedCall, ...]] = field(default_factory=dict)
    names_read: frozenset[str] = frozenset()
    estimate_readers: frozenset[tuple[str, int] | None] = frozenset()
    modes: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def reads_estimate(self, place: Span) -> bool:
        """Whether a template of the step or phase at `place` reads `run.estimate`. The start of a file stands for its
        outputs."""
        return bool(self.estimate_readers) and (place.path, place.offset) in self.estimate_readers

    def copy_for_thread(self) -> Program:
        """Return a copy with its own library. Threads cannot share a library, because lookups change it."""
        return _with(self, self.library.copy_for_thread())

    def config_in(self, mode: str | None) -> Mapping[str, Any]:
        """Return the config in a mode; an unknown mode or None gives the plain config."""
        return self.modes.get(mode or "", self.config)

    def reads_name(self, name: str) -> bool:
        """Whether a template reads the name or one of its fields."""
        return any(read == name or read.startswith(f"{name}.") for read in self.names_read)


def _with(program: Program, library: Library) -> Program:
    inline = {name: _with(each, library) for name, each in program.inline.items()}
    return replace(program, library=library, inline=inline)


@dataclass(frozen=True)
class CheckedProtocol:
    """A protocol, checked with the config of the workflow that calls it.

    `reads` has the names that the protocol's own templates read; `names_read` also has the names that its callees read.
    """

    protocol: Protocol
    outputs: Mapping[str, Type]
    writes_artifacts: bool
    reads: frozenset[str]
    names_read: frozenset[str]
    question_steps: tuple[QuestionStep | NestedCall, ...]


@dataclass(frozen=True)
class QuestionStep:
    """An `ask` step with its address and its questions.

    The address is relative to the phase or protocol, and includes the pass and the item. The step runs only if all
    `conditions` hold. A computed question has only an id.
    """

    address: str
    step: Step
    conditions: tuple[Template, ...]
    questions: tuple[Mapping[str, Any], ...]

    @property
    def has_default(self) -> bool:
        """Whether the step has a default answer for a question that the user does not answer."""
        default = self.step.values.get("default")
        return default is not None and (default.literal is not None or any(default.templates()))

    @property
    def waits_for_files(self) -> bool:
        """Whether the step waits for files from the user."""
        return "files" in self.step.values


@dataclass(frozen=True)
class NestedCall:
    """A step whose callees may ask the user: a panel with its possible protocols, or a `run` with its workflow."""

    address: str
    step: Step
    conditions: tuple[Template, ...]
    callees: tuple[Callee, ...]


Callee: TypeAlias = CheckedProtocol | Program


def collect_questions(
    steps: Iterable[Step],
    callees: Mapping[Span, tuple[Callee, ...]],
    address: str = "",
    outer_conditions: tuple[Template, ...] = (),
) -> Iterator[QuestionStep | NestedCall]:
    """Yield the `ask` steps and the steps that call protocols or workflows, in order.

    `callees` has the called protocols and workflows, keyed by the location of the calling step.
    """
    for step in steps:
        step_address = f"{address}/{step.id or step.verb}"
        conditions = outer_conditions if step.when is None else (*outer_conditions, step.when)
        if step.verb == "ask":
            yield QuestionStep(step_address, step, conditions, _questions(step))
        elif step.verb == "repeat":
            runs_once = step.until is None and "at_most" not in step.values
            yield from collect_questions(step.steps, callees, address if runs_once else f"{step_address}#2", conditions)
        elif step.verb == "each":
            yield from collect_questions(step.steps, callees, f"{step_address}~ID", conditions)
        elif step.span in callees:
            yield NestedCall(step_address, step, conditions, callees[step.span])
        if step.otherwise is not None:
            yield from collect_questions([step.otherwise], callees, f"{step_address}.otherwise", conditions)


def _questions(step: Step) -> tuple[Mapping[str, Any], ...]:
    """Return the questions of a step. A question without its own choices or options gets those of the step.

    A computed question has only an id.
    """
    base = step.id or "question"
    main = step.main
    if main is None or (main.literal is None and (main.template is None or main.template.expression is not None)):
        return ({"id": base},)
    items = main.literal if isinstance(main.literal, list) else [main.literal]
    shared = {name: step.values[name].literal for name in ("choices", "multiple", "other") if name in step.values}
    questions = []
    for number, item in enumerate(items, 1):
        record = item if isinstance(item, dict) else {}
        questions.append({"id": base if len(items) == 1 else f"{base}-{number}", **shared, **record})
    return tuple(questions)
