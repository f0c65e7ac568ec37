"""Checks that the files of a workflow fit together, and builds the program that the interpreter runs.

Collects the problems of every file that the workflow uses. Works offline and calls no model.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from collections.abc import Set as AbstractSet
from contextlib import suppress
from functools import cache
from typing import Any, Final

from skillrun import registry
from skillrun.checker.absences import absent_fields
from skillrun.checker.interfaces import check_declarations, find_empty_texts
from skillrun.checker.lints import find_unread_inputs
from skillrun.checker.names import MEMBER, PHASE_RECORD, SYSTEM_TEMPLATES, base_types
from skillrun.checker.phase_effects import collect_record_reads, warn_about_unread_fields
from skillrun.checker.program import CheckedProtocol, Program, collect_questions
from skillrun.checker.scope import Scope
from skillrun.checker.verbs.steps import check_material, check_steps
from skillrun.checker.workflows import WorkflowCheck
from skillrun.definitions.definitions import Phase, Step
from skillrun.definitions.parse import check_kind
from skillrun.definitions.verbs import LOOKUP
from skillrun.library.library import Library
from skillrun.library.lookups import UNKNOWN, Lookups, Settings
from skillrun.library.roots import SKILL_FILE, library_name, package_library
from skillrun.library.settings import check_engine_settings
from skillrun.library.symbols import ScopeOwners, SymbolTable
from skillrun.scoring.compaction import estimate_tokens
from skillrun.syntax.diagnostics import ParsingStopped, Problems, Severity
from skillrun.syntax.source import Span
from skillrun.types.fields import Field
from skillrun.types.types import ANY, TEXT, identifier, label_type, list_of, record

USES_FILE: Final = "workflows/uses.json"  # tests/unit/checker/test_shipped_uses.py writes it
SEVERITIES: Final[Mapping[str, Severity]] = {"error": "error", "warn": "warning"}


def check_workflow(library: Library, name: str, commands: Collection[str] = ()) -> Program | None:
    """Return the program of the workflow `name`. None if the workflow or one of its phases cannot be read.

    Problems are added to `library.problems`; if they include an error, the program must not be run.
    """
    checker = Checker(library, commands)
    program = checker.check_workflow(name)
    checker.finish()
    return program


def check_library(library: Library, commands: Collection[str] = (), *, shipped: bool = True) -> list[Program]:
    """Check every file on the search path, and return the programs of the workflows that can be read.

    Without `shipped`, a shipped workflow is checked only if it uses a file that the project or the user replaces, and
    other shipped files only if a checked workflow uses them.
    """
    checker = Checker(library, commands)
    own = None if shipped else library.own_files()
    names = [name for name in library.names("workflows") if own is None or uses_any(f"workflows/{name}.md", own)]
    programs = [checker.check_workflow(name) for name in names]
    checker.check_unused_files(own)
    checker.finish()
    return [program for program in programs if program is not None]


def uses_any(workflow: str, files: Collection[str]) -> bool:
    """Whether one of the files is the workflow at the path `workflow`, or one that the shipped workflow there uses."""
    return workflow in files or not shipped_uses().get(workflow, frozenset()).isdisjoint(files)


@cache
def shipped_uses() -> Mapping[str, AbstractSet[str]]:
    """Return the paths of the files that each shipped workflow uses, or would use if they existed.

    Every check reads the settings that all workflows use (`models`, `sizes`, `skillrun`, `subagents`), so they are left
    out.
    """
    text = (package_library() / USES_FILE).read_text("utf-8")
    return {path: frozenset(used) for path, used in json.loads(text).items()}


class Checker:
    """Checks each workflow of a library once, and each protocol once for each config of its callers."""

    def __init__(
        self,
        library: Library,
        commands: Collection[str] = (),
        used_names: Collection[str] = (),
        *,
        has_errors: bool = False,
        symbols: SymbolTable | None = None,
    ) -> None:
        """Prepare a check.

        `used_names` are the phases and protocols that workflows outside this check use, as paths below `skills/`.
        `has_errors` tells whether those workflows have errors. The check adds references and scopes to `symbols`.
        """
        self.library = library
        self.has_errors = has_errors
        self.problems = library.problems
        self.lookups = Lookups(library, symbols)
        self.commands = commands
        self.estimate_readers: set[tuple[str, int] | None] = set()
        """The file and offset of each step and phase that reads `run.estimate`. None if another part of a workflow
        reads it."""
        self._programs: dict[str, Program | None] = {}
        self._open_workflows: list[str] = []
        self._protocols: dict[tuple[str, Settings], CheckedProtocol | None] = {}
        self.used_names = {*used_names}
        self._unused_inputs: list[Field] = []

    def check_workflow(self, name: str) -> Program | None:
        if name not in self._programs:
            self._open_workflows.append(name)
            self._programs[name] = None
            with suppress(ParsingStopped):
                self._programs[name] = self._check_workflow(name)
            self._open_workflows.pop()
        return self._programs[name]

    def is_open(self, name: str) -> bool:
        """Whether the check of this workflow is in progress. If so, a `run` of the workflow is a cycle."""
        return name in self._open_workflows

    def check_protocol(self, name: str, settings: Settings, callers: tuple[str, ...]) -> CheckedProtocol | None:
        """Check a protocol with the config of the calling workflow. `callers` are the enclosing protocols, outermost
        first."""
        if (name, settings) not in self._protocols:
            self.used_names.add(f"protocols/{name}")
            self._protocols[name, settings] = self._check_protocol(name, settings, (*callers, name))
        return self._protocols[name, settings]

    def check_unused_files(self, files: Collection[str] | None = None) -> None:
        """Check all configs, roles and skills, including those that no workflow uses.

        If `files` has paths below a root, only these files are checked.
        """
        for check, names, path in (
            (self.lookups.config, self.library.names("config"), "config/{}.yaml"),
            (self.lookups.role, self.library.names("roles"), "roles/{}.md"),
            (self.check_skill, self.library.skills(), "skills/{}.md"),
        ):
            for name in names:
                if files is None or not {path.format(name), f"skills/{name}/SKILL.md"}.isdisjoint(files):
                    with suppress(ParsingStopped):
                        check(name)

    def check_skill(self, name: str) -> None:
        """Check a file below `skills/`, even if no workflow uses it."""
        area, _, local_name = name.partition("/")
        if not local_name:
            self.lookups.check_agent_skill(name)
        if not local_name or self.library.is_part_of_skill(name):
            return
        kind = self.library.kind(name)
        if kind == "phase":
            phase = self.library.phase(name)
            if phase is not None and name not in self.used_names and not (self.has_errors or self.problems.has_errors):
                span = Span(phase.document.source, 0)
                self.problems.report(span, "unused-phase", f"no workflow uses the phase `{name}`", severity="warning")
        elif kind == "protocol" and area == "protocols":
            if name not in self.used_names:
                self._check_protocol(local_name, UNKNOWN, (local_name,))
        elif kind == "questions":
            self.library.bank(name)
        elif kind in ("reference", "template"):
            self.library.text(name, kind)
        elif (document := self.library.skill(name)) is not None:
            check_kind(document, "", self.problems)

    def finish(self) -> None:
        """Check the engine's templates and settings, check the sizes of all files read, and warn of unused inputs."""
        with suppress(ParsingStopped):
            self._check_engine_files()
        self.warn_about_unused_inputs()

    def warn_about_unused_inputs(self) -> None:
        """Warn of unused inputs, unless the library has errors."""
        for input_ in self._unused_inputs if not self.problems.has_errors else ():
            message = f"the input `{input_.name}` is never used"
            hint = f"write `{{{{ inputs.{identifier(input_.name)} }}}}` where it is needed, or remove the input"
            self.problems.report(input_.span, "unused-input", message, hint, "warning")

    def _check_engine_files(self) -> None:
        for name, names in SYSTEM_TEMPLATES.items():
            text = self.library.text(f"system/{name}")
            if text is not None:
                scope = Scope(self, UNKNOWN, dict(names), self.problems, owners=ScopeOwners(f"skills/system/{name}.md"))
                scope.check_text(text.template)
                if text.material is not None:
                    check_material(scope, text.material, scope.infer_value(text.material))
                if name in ("summarise", "record") and text.output is not None:
                    summary_type = label_type(text.output.type, ("the summary",))
                    scope.check_record_fields(text.output.span, summary_type, PHASE_RECORD, "the summary")
                for section in text.document.sections if name == "tools" else ():
                    if section.name != LOOKUP and not registry.is_registered("tools", section.name):
                        tools = (*registry.names("tools"), LOOKUP)
                        self.lookups.report_unknown(section.heading, "tool", section.name, tools)
        check_engine_settings(self.library, self.problems)
        check_sizes(self.library, self.lookups.config("skillrun").part("token_lint"), self.problems)

    def _check_protocol(self, name: str, settings: Settings, protocol_stack: tuple[str, ...]) -> CheckedProtocol | None:
        protocol = self.library.protocol(name)
        if protocol is None:
            return None
        read: set[str] = set()
        owner_path = f"skills/protocols/{name}.md"
        inputs = check_declarations(self, protocol.document, "inputs", protocol.inputs, settings, reads=read)
        names = base_types(inputs, ANY, settings.config, settings.features)
        del names["state"]
        seats = dict.fromkeys(protocol.seats.names, TEXT) or {"members": list_of(MEMBER)}
        names |= {"task": TEXT, "seats": record(seats, "seats")}
        scope = Scope(
            self,
            settings,
            names,
            self.problems,
            prompts=protocol.prompts,
            local=protocol.local_names,
            protocols=protocol_stack,
            headings=protocol.headings,
            reads=set(read),
            owners=ScopeOwners(owner_path, owner_path, settings.name),
            absences=absent_fields("inputs", protocol.inputs),
            empty_texts=find_empty_texts("inputs", protocol.inputs),
        )
        check_steps(scope, protocol.steps)
        scope.record_view(protocol.document.frontmatter.value_span("outputs"), "outputs")
        outputs = {name: scope.infer_value(value) for name, value in protocol.outputs.items()}
        scope.check_summary_outputs(protocol.outputs, outputs)
        writes = scope.callees_may_write or any(step.artifact is not None for step in protocol.walk())
        self._unused_inputs += find_unread_inputs(protocol.inputs, scope.reads)
        asks = tuple(collect_questions(protocol.steps, scope.callees))
        return CheckedProtocol(protocol, outputs, writes, frozenset(scope.reads), scope.all_reads, asks)

    def _check_workflow(self, name: str) -> Program | None:
        workflow = self.library.workflow(name)
        if workflow is None:
            return None
        if name in self.commands:
            node = workflow.document.frontmatter.get("name")
            span = node.span if node is not None else workflow.document.frontmatter.span
            self.problems.report(span, "name", f"`{name}` is a command of skillrun", "give the workflow another name")
        settings = self.lookups.settings(workflow)
        phases: dict[str, Phase] = {}
        for use in workflow.phases.values():
            self.used_names.add(use.skill)
            is_phase = self.lookups.is_kind(use.skill, use.value_span("skill"), "phase")
            if is_phase and (phase := self.library.phase(use.skill)) is not None:
                phases[use.name] = phase
        check = WorkflowCheck(self, workflow, settings, phases)
        check.run()
        self._unused_inputs += check.unused_inputs
        if check.phases.keys() != workflow.phases.keys():
            return None
        runs = {step.text for phase in check.phases.values() for step in phase.walk() if step.verb == "run"}
        inline = {other: program for other in sorted(runs) if (program := self._programs.get(other)) is not None}
        engine = self.lookups.config("skillrun").data or {}
        files: list[tuple[Iterable[Step], AbstractSet[str]]] = [((), check.top_reads)]
        files += [(list(check.steps(name)), effects.reads) for name, effects in check.effects.items()]
        protocols = [checked for checked in self._protocols.values() if checked is not None]
        files += [(checked.protocol.walk(), checked.reads) for checked in protocols]
        record_reads = collect_record_reads(files)
        for phase in check.phases.values() if not self.problems.has_errors else ():
            warn_about_unread_fields(phase.walk(), record_reads, self.library, self.problems)
        return check.build_program(engine, inline, record_reads)


def check_sizes(library: Library, limits: Mapping[str, Any], problems: Problems) -> None:
    """Report each loaded file whose estimated tokens exceed the `warn` or `error` limit of its folder.

    A role or an Agent Skill that is not shipped can come from another tool, so it gets only a warning, unless the
    project or the user has set the limit.
    """
    shipped = library.roots[-1].name
    own = [layer for root, layer in library.layers("skillrun") if root != shipped]
    for (root, path), source in library.files.items():
        folder = path.partition("/")[0]
        limit = limits.get(folder)
        limit_values = ((name, limit.get(name)) for name in SEVERITIES) if isinstance(limit, dict) else ()
        known = {name: most for name, most in limit_values if isinstance(most, int)}
        if not known or len(source.text) < min(known.values()):  # a token has at least one character
            continue
        tokens = estimate_tokens(source.text)
        crossed_limit = next((name for name, most in known.items() if tokens > most), None)
        if crossed_limit is not None:
            message = (
                f"the file has about {tokens} tokens; the limit for a file in `{folder}/` is {known[crossed_limit]}"
            )
            hint = "split the file, or raise the limit in `token_lint`"
            is_foreign = folder == "roles" or library_name(path).endswith(SKILL_FILE)
            is_set = any(layer.entry("token_lint", folder, crossed_limit) is not None for layer in own)
            is_error = root == shipped or is_set or not is_foreign
            severity = SEVERITIES[crossed_limit] if is_error else "warning"
            problems.report(Span(source, 0), "tokens", message, hint, severity)
