"""What comes of a check: the program that the interpreter runs, what is known of its protocols, and what it may ask."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from skillrun.checker.record_reads import RecordReads
from skillrun.definitions.definitions import Phase, Protocol, Step, Workflow
from skillrun.library.library import Library
from skillrun.templates.expressions import Template
from skillrun.types.types import Type


@dataclass(frozen=True)
class Program:
    """A workflow with everything it uses, as the interpreter runs it.

    `reads` says which phases each phase reads, `inline` holds the workflows that its phases run. Of which phases what a
    model says of them is read: `summarised` by later phases of the round, `remembered` by later rounds; `recorded` is
    what is read of the records of single steps, and `records` whether any phase can put something on record at all.
    `asks` are the steps of each phase that ask a person or enter what may, `names` what its templates and those of all
    that it enters read, each name with its fields. `modes` has the config as it is in each mode.
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
    modes: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def copy_for_thread(self) -> Program:
        """The same, with a library of its own: a thread may look up what another has not."""
        return _with(self, self.library.copy_for_thread())

    def config_in(self, mode: str | None) -> Mapping[str, Any]:
        """The config as it is in a mode; what is no mode of it changes nothing."""
        return self.modes.get(mode or "", self.config)

    def reads_name(self, name: str) -> bool:
        """Whether a template reads the name, or a field of it."""
        return any(read == name or read.startswith(f"{name}.") for read in self.names_read)


def _with(program: Program, library: Library) -> Program:
    inline = {name: _with(each, library) for name, each in program.inline.items()}
    return replace(program, library=library, inline=inline)


@dataclass(frozen=True)
class CheckedProtocol:
    """A protocol as a workflow calls it. `reads` is what its own templates read, `names` that and what it enters."""

    protocol: Protocol
    outputs: Mapping[str, Type]
    writes_artifacts: bool
    reads: frozenset[str]
    names_read: frozenset[str]
    question_steps: tuple[QuestionStep | NestedCall, ...]

    @property
    def reads_task(self) -> bool:
        return "task.*" in self.reads


@dataclass(frozen=True)
class QuestionStep:
    """An `ask` step: its address below the phase or protocol, with a pass or an item where it has several, and its
    questions as far as they are written out.

    All of `under` hold where it is reached.
    """

    address: str
    step: Step
    conditions: tuple[Template, ...]
    questions: tuple[Mapping[str, Any], ...]

    @property
    def has_default(self) -> bool:
        """Whether the step itself says what the answer is when nobody gives one."""
        default = self.step.values.get("default")
        return default is not None and (default.literal is not None or any(default.templates()))

    @property
    def waits_for_files(self) -> bool:
        """Whether it waits for files that a person brings."""
        return "files" in self.step.values


@dataclass(frozen=True)
class NestedCall:
    """A step that enters others, which may ask: the protocols that a panel can seat, or the workflow that it runs."""

    address: str
    step: Step
    conditions: tuple[Template, ...]
    callees: tuple[Callee, ...]


Callee: TypeAlias = CheckedProtocol | Program
