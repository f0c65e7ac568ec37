"""Checks that the files of a workflow fit together, and makes the program that the interpreter runs.

Collects every problem of every file it reaches. Runs offline and spends nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from collections.abc import Set as AbstractSet
from contextlib import suppress
from typing import Any, Final

from skillrun.checker.absences import absent_fields
from skillrun.checker.interfaces import declared
from skillrun.checker.lints import unread
from skillrun.checker.names import PHASE_RECORD, SYSTEM, base_types, seats_type
from skillrun.checker.program import CheckedProtocol, Program
from skillrun.checker.question_steps import asks_of
from skillrun.checker.record_reads import Read, read_in, warn_of_unread
from skillrun.checker.scope import Scope
from skillrun.checker.verbs.steps import check_material, check_steps
from skillrun.checker.workflows import WorkflowCheck
from skillrun.definitions.definitions import Phase, PhaseUse, Step
from skillrun.definitions.parse import check_kind
from skillrun.definitions.verbs import LOOKUP, TOOLS
from skillrun.library.library import Library
from skillrun.library.lookups import UNKNOWN, Lookups, Settings
from skillrun.library.reply_sizes import check_measured
from skillrun.library.secrets import check_secret_names
from skillrun.library.symbols import Homes, Sightings
from skillrun.library.user_settings import check_own_settings
from skillrun.scoring.compaction import estimate_tokens
from skillrun.syntax.diagnostics import GivenUp, Problems, Severity
from skillrun.syntax.source import Span
from skillrun.types.fields import Field
from skillrun.types.types import ANY, TEXT, declared_at, identifier


def check_workflow(library: Library, name: str, commands: Collection[str] = ()) -> Program | None:
    """The program of the workflow `name`; None where it or one of its phases cannot be read.

    Problems are in `library.problems`; with an error among them the program must not be run.
    """
    checker = Checker(library, commands)
    program = checker.workflow(name)
    checker.finish()
    return program


def check_library(
    library: Library, commands: Collection[str] = (), sightings: Sightings | None = None
) -> list[Program]:
    """Check every file on the search path; the programs of the workflows that can be read.

    What names mean, and what is known where, is told to `sightings`.
    """
    checker = Checker(library, commands, sightings=sightings)
    programs = [checker.workflow(name) for name in library.names("workflows")]
    checker.others()
    checker.finish()
    return [program for program in programs if program is not None]


class Checker:
    """One check of a library; each workflow, and each protocol with the config it is called with, is checked once."""

    def __init__(
        self,
        library: Library,
        commands: Collection[str] = (),
        reached: Collection[str] = (),
        *,
        broken: bool = False,
        sightings: Sightings | None = None,
    ) -> None:
        """`reached`: the phases and protocols that workflows use that were checked elsewhere, by names below `skills/`.

        `broken`: whether they have errors. What names mean, and what is known where, is told to `sightings`.
        """
        self.library = library
        self.broken = broken
        self.problems = library.problems
        self.lookups = Lookups(library, sightings)
        self.commands = commands
        self._programs: dict[str, Program | None] = {}
        self._open: list[str] = []
        self._protocols: dict[tuple[str, Settings], CheckedProtocol | None] = {}
        self._reached = {*reached}
        self._unused: list[Field] = []

    def workflow(self, name: str) -> Program | None:
        if name not in self._programs:
            self._open.append(name)
            self._programs[name] = None
            with suppress(GivenUp):
                self._programs[name] = self._workflow(name)
            self._open.pop()
        return self._programs[name]

    def is_open(self, name: str) -> bool:
        """Whether the workflow is being checked: it runs itself."""
        return name in self._open

    def protocol(self, name: str, settings: Settings, callers: tuple[str, ...]) -> CheckedProtocol | None:
        """A protocol checked against the config of a workflow that calls it; `callers` are the protocols around it."""
        if (name, settings) not in self._protocols:
            self._reached.add(f"protocols/{name}")
            self._protocols[name, settings] = self._protocol(name, settings, (*callers, name))
        return self._protocols[name, settings]

    @property
    def reached(self) -> frozenset[str]:
        """The phases and protocols that workflows use, by their names below `skills/`."""
        return frozenset(self._reached)

    def others(self) -> None:
        """Check the files that no workflow may have reached."""
        for check, names in (
            (self.lookups.config, self.library.names("config")),
            (self.lookups.role, self.library.names("roles")),
            (self.skill, self.library.skills()),
        ):
            for name in names:
                with suppress(GivenUp):
                    check(name)

    def skill(self, name: str) -> None:
        """Check a file below `skills/` that no workflow may have reached."""
        area, _, own = name.partition("/")
        kind = self.library.kind(name) if own else None
        if not own:
            self.library.agent_skill(name)
        elif kind is None and area in self.library.skills():
            return  # it belongs to an Agent Skill
        elif kind == "phase":
            phase = self.library.phase(name)
            if phase is not None and name not in self._reached and not (self.broken or self.problems.errors):
                span = Span(phase.document.source, 0)
                self.problems.report(span, "unused-phase", f"no workflow uses the phase `{name}`", severity="warning")
        elif kind == "protocol" and area == "protocols":
            if name not in self._reached:
                self._protocol(own, UNKNOWN, (own,))
        elif kind == "questions":
            self.library.bank(name)
        elif kind in ("reference", "template"):
            self.library.text(name, kind)
        elif (document := self.library.skill(name)) is not None:
            check_kind(document, "", self.problems)

    def finish(self) -> None:
        """Check what every run uses: the engine's templates and numbers, and the sizes of all that was read.

        Then warn of inputs that nothing reads, where everything could be read.
        """
        with suppress(GivenUp):
            self._engine_files()
        self.warn_of_unused()

    def warn_of_unused(self) -> None:
        """Warn of inputs that nothing reads, where everything could be read."""
        for input_ in self._unused if not self.problems.errors else ():
            message = f"nothing reads the input `{input_.name}`"
            hint = f"write `{{{{ inputs.{identifier(input_.name)} }}}}` where it is needed, or remove the input"
            self.problems.report(input_.span, "unused-input", message, hint, "warning")

    def _engine_files(self) -> None:
        for name, names in SYSTEM.items():
            text = self.library.text(f"system/{name}")
            if text is not None:
                scope = Scope(self, UNKNOWN, dict(names), self.problems, homes=Homes(f"skills/system/{name}.md"))
                scope.printed(text.template)
                if text.material is not None:
                    check_material(scope, text.material, scope.value(text.material))
                if name in ("summarise", "record") and text.output is not None:
                    told = declared_at(text.output.type, ("the summary",))
                    Scope(self, UNKNOWN, {}, self.problems).fit(text.output.span, told, PHASE_RECORD, "the summary")
                for section in text.document.sections if name == "tools" else ():
                    if section.name not in (*TOOLS, LOOKUP):
                        self.lookups.unknown(section.heading, "tool", section.name, (*TOOLS, LOOKUP))
        check_secret_names(self.library, self.problems)
        check_own_settings(self.library, self.problems)
        check_measured(self.library, self.problems)
        check_sizes(self.library, self.lookups.config("skillrun").part("token_lint"), self.problems)

    def _protocol(self, name: str, settings: Settings, inside: tuple[str, ...]) -> CheckedProtocol | None:
        protocol = self.library.protocol(name)
        if protocol is None:
            return None
        read: set[str] = set()
        home = f"skills/protocols/{name}.md"
        inputs = declared(self, protocol.document, "inputs", protocol.inputs, settings, reads=read)
        names = base_types(inputs, ANY, settings.config, settings.features)
        del names["state"]
        names |= {"task": TEXT, "seats": seats_type(protocol.seats.names)}
        scope = Scope(
            self,
            settings,
            names,
            self.problems,
            prompts=protocol.prompts,
            local=protocol.local,
            protocols=inside,
            headings=protocol.headings,
            reads=set(read),
            homes=Homes(home, home, settings.name),
            absences=absent_fields("inputs", protocol.inputs),
        )
        check_steps(scope, protocol.steps)
        scope.look_around(protocol.document.front.value_place("outputs"), "outputs")
        outputs = {name: scope.value(value) for name, value in protocol.outputs.items()}
        scope.fit_records(protocol.outputs, outputs)
        writes = scope.writes_elsewhere or any(step.artifact is not None for step in protocol.walk())
        self._unused += unread(protocol.inputs, scope.reads)
        asks = tuple(asks_of(protocol.steps, scope.entered))
        return CheckedProtocol(protocol, outputs, writes, frozenset(scope.reads), scope.all_reads, asks)

    def _workflow(self, name: str) -> Program | None:
        workflow = self.library.workflow(name)
        if workflow is None:
            return None
        if name in self.commands:
            node = workflow.document.front.get("name")
            span = node.span if node is not None else workflow.document.front.span
            self.problems.report(span, "name", f"`{name}` is a command of skillrun", "give the workflow another name")
        settings = self.lookups.settings(workflow)
        phases = {use.name: phase for use in workflow.phases.values() if (phase := self._phase(use)) is not None}
        check = WorkflowCheck(self, workflow, settings, phases)
        check.run()
        self._unused += check.unused
        if check.phases.keys() != workflow.phases.keys():
            return None
        engine = self.lookups.config("skillrun").data or {}
        runs = {step.text for phase in check.phases.values() for step in phase.walk() if step.verb == "run"}
        inline = {other: program for other in sorted(runs) if (program := self._programs.get(other)) is not None}
        return Program(
            workflow,
            check.phases,
            settings.data or {},
            engine,
            self.library,
            check.reads(),
            inline,
            check.summarised(),
            check.remembered(),
            self._recorded(check),
            check.records(),
            check.asks,
            frozenset(check.names),
            settings.modes,
        )

    def _recorded(self, check: WorkflowCheck) -> Read:
        """What is read of the steps' records; fields of a phase's step that nobody reads are warned of."""
        files: list[tuple[Iterable[Step], AbstractSet[str]]] = [((), check.top_reads)]
        files += [(list(check.steps(name)), trace.reads) for name, trace in check.traces.items()]
        files += [
            (checked.protocol.walk(), checked.reads) for checked in self._protocols.values() if checked is not None
        ]
        read = read_in(files)
        for phase in check.phases.values() if not self.problems.errors else ():
            warn_of_unread(phase.walk(), read, self.library, self.problems)
        return read

    def _phase(self, use: PhaseUse) -> Phase | None:
        self._reached.add(use.skill)
        return self.library.phase(use.skill) if self.lookups.is_kind(use.skill, use.place("skill"), "phase") else None


SEVERITIES: Final[Mapping[str, Severity]] = {"error": "error", "warn": "warning"}


def check_sizes(library: Library, limits: Mapping[str, Any], problems: Problems) -> None:
    """Report each loaded file whose estimated tokens pass the `warn` or `error` of its folder."""
    for (_, path), source in library.files.items():
        folder = path.partition("/")[0]
        limit = limits.get(folder)
        given = ((name, limit.get(name)) for name in SEVERITIES) if isinstance(limit, dict) else ()
        known = {name: most for name, most in given if isinstance(most, int)}
        if not known or len(source.text) < min(known.values()):  # no token is shorter than a character
            continue
        tokens = estimate_tokens(source.text)
        passed = next((name for name, most in known.items() if tokens > most), None)
        if passed is not None:
            message = f"about {tokens} tokens; one of the {folder} has at most {known[passed]}"
            problems.report(Span(source, 0), "tokens", message, "split it, or raise `token_lint`", SEVERITIES[passed])
