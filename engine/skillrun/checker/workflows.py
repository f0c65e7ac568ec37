"""Checks one workflow: its phases in dependency order, then its own file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from fnmatch import fnmatchcase
from itertools import permutations
from typing import Final

from skillrun.checker.absences import absent_fields, absent_outputs, absent_phases
from skillrun.checker.facts import conjuncts
from skillrun.checker.inference import HISTORY, SUMMARY_READ
from skillrun.checker.interfaces import check_config, check_declarations
from skillrun.checker.lints import RoundPart, find_unread_inputs, nested_steps, warn_about_unchanging_rounds
from skillrun.checker.names import base_types, history_type, phase_type
from skillrun.checker.phase_effects import PhaseEffects, artifacts, check_parallel, collect_effects
from skillrun.checker.program import NestedCall, QuestionStep, collect_questions
from skillrun.checker.scope import PhaseContext, ReferenceChecker, Scope
from skillrun.checker.verbs.steps import check_material, check_step, check_steps
from skillrun.definitions.definitions import Phase, PhaseUse, Reference, Step, Workflow
from skillrun.definitions.verbs import SUMMARY_KEYS
from skillrun.library.configuration import check_modes
from skillrun.library.lookups import Settings
from skillrun.library.symbols import ScopeOwners
from skillrun.syntax.diagnostics import Problems, did_you_mean
from skillrun.syntax.source import Span
from skillrun.templates.expressions import Value
from skillrun.templates.records import FAILURE
from skillrun.types.fields import Field
from skillrun.types.schemas import quote_value
from skillrun.types.types import ANY, TEXT, Type, identifier, record

PROMPT_VERBS: Final = frozenset({"agent", "panel", "run"})  # verbs whose prompts contain the records
OUTSIDE_PROJECT_HINT: Final = (
    'declare an input `repo?: path` and write `"{{ inputs.repo }}"`; the user then names the folder'
)


class WorkflowCheck:
    """The check of one workflow.

    `phases` has the phases that can be read; `effects` has what each of these phases uses.
    """

    def __init__(
        self, checker: ReferenceChecker, workflow: Workflow, settings: Settings, phases: Mapping[str, Phase]
    ) -> None:
        self.checker = checker
        self.workflow = workflow
        self.settings = settings
        self.problems = checker.problems
        self.phases = phases
        self.unused_inputs: list[Field] = []
        self.effects: dict[str, PhaseEffects] = {}
        self.transitive_reads: dict[str, frozenset[str]] = {}  # keyed by phase; includes the names that callees read
        self.question_steps: dict[str, tuple[QuestionStep | NestedCall, ...]] = {}
        self._names_read: set[str] = set()  # the names that the workflow and its phases read
        self.all_names_read: set[str] = set()  # also the names that callees read
        inputs = check_declarations(
            checker, workflow.document, "inputs", workflow.inputs, settings, reads=self._names_read
        )
        state = check_declarations(
            checker, workflow.document, "state", workflow.state, settings, inputs, self._names_read
        )
        self._base = base_types(inputs, state, settings.config, settings.features)
        modes = (state.fields.get("mode") or inputs.fields.get("mode") or ANY).values
        for layer in settings.layers if modes is not None else ():
            check_modes(layer, modes or (), self.problems)
        self.preamble_reads: frozenset[str] = frozenset()
        self.top_reads: frozenset[str] = frozenset()
        self._types: dict[str, Type] = dict.fromkeys(workflow.phases, ANY)
        breakers = settings.part("breakers").items()
        self._skipping_breakers = frozenset(
            name for name, breaker in breakers if isinstance(breaker, dict) and breaker.get("then") == "skip"
        )
        self._absences = {
            **absent_fields("inputs", workflow.inputs),
            **absent_fields("state", workflow.state),
            **absent_phases(workflow.phases.values(), self._skipping_breakers),
        }

    def run(self) -> None:
        for use in self.workflow.phases.values():
            for after, span in use.after.items():
                self.checker.lookups.add_reference(span, "phase", self.path, after)
        for name in order_phases(self.workflow, self.problems):
            if name in self.phases:
                self._check_phase(self.workflow.phases[name], self.phases[name])
        check_config(self.checker, self.workflow.checks, self.settings)
        self._check_workflow_material()
        check_parallel(self.workflow, self.effects, self.problems)
        self._check_workflow_file()
        self._collect_unused_inputs()
        self._warn_about_overwrites()
        self._warn_about_rounds()
        self.all_names_read |= self._names_read

    @property
    def path(self) -> str:
        """The path of the workflow's file in the library."""
        return f"workflows/{self.workflow.name}.md"

    def _scope_owners(self, steps: str = "") -> ScopeOwners:
        """Return the files that define the names in a file of steps, or in the workflow's own file."""
        givers: dict[str, tuple[str, ...]] = {
            f"phases.{use.name}": (f"skills/{use.skill}.md",) for use in self.workflow.phases.values()
        }
        return ScopeOwners(steps, self.path, self.settings.name, givers)

    def reads(self) -> dict[str, frozenset[str]]:
        """Return the phases that each phase reads."""
        names = {f"phases.{identifier(name)}": name for name in self.workflow.phases}
        return {
            name: frozenset(names[path] for path in trace.reads & names.keys()) for name, trace in self.effects.items()
        }

    def summarized_phases(self) -> frozenset[str]:
        """Return the phases whose summary a later phase of the same round reads, in a prompt or a template."""
        if SUMMARY_READ in self.top_reads:
            return frozenset(self.workflow.phases)
        readers = {
            name
            for name, trace in self.effects.items()
            if SUMMARY_READ in trace.reads or any(step.verb in PROMPT_VERBS for step in self.steps(name))
        }
        return frozenset(name for name in self.workflow.phases if readers & {*self.workflow.followers(name)} - {name})

    def can_record(self) -> bool:
        """Whether any phase can record a decision, a question or a risk.

        A phase that declares one of these outputs as an empty list cannot record it.
        """
        return any(self._can_phase_record(name) for name in self.workflow.phases)

    def _can_phase_record(self, name: str) -> bool:
        given = [self.phases[name].outputs.get(kind) for kind in SUMMARY_KEYS[1:]]
        asking = any(step.verb in PROMPT_VERBS or step.verb == "run" for step in self.steps(name))
        return any(asking if use is None else use.items != () for use in given)

    def history_phases(self) -> frozenset[str]:
        """Return the phases whose summary a later round reads.

        A phase that follows every `goto` runs only in the last round, so no later round reads it.
        """
        if not any(HISTORY in trace.reads for trace in self.effects.values()):
            return frozenset()
        goto_phases = [name for name in self.effects if any(step.verb == "goto" for step in self.steps(name))]
        return frozenset(
            name
            for name in self.workflow.phases
            if any(name == source or source not in self.workflow.ancestors(name) for source in goto_phases)
        )

    def steps(self, name: str) -> Iterator[Step]:
        """Yield the steps of a phase and of its `otherwise`."""
        yield from self.phases[name].walk()
        if (other := self.workflow.phases[name].otherwise) is not None:
            yield from other.walk()

    def _check_phase(self, use: PhaseUse, phase: Phase) -> None:
        visible_phases = self._visible_phases(self.workflow.ancestors(use.name))
        names = {**self._base, "phases": visible_phases, "history": history_type(self.workflow.phases)}
        scope = Scope(
            self.checker,
            self.settings,
            names,
            self.problems,
            phase_context=PhaseContext(self.workflow, use.name),
            prompts=phase.prompts,
            local=phase.local_names,
            headings=phase.headings,
            shared_templates=tuple(
                template for template in (phase.acceptance, self.workflow.preamble) if template is not None
            ),
            owners=self._scope_owners(f"skills/{use.skill}.md"),
            absences=dict(self._absences),
        )
        if use.retry is not None:
            self.checker.lookups.breaker(use.retry, use.value_span("retry"), self.settings)
        scope.record_view(use.span, use.name)
        with scope.assuming(use.when):
            scope.required_facts = frozenset()  # the condition applies to readers of the phase, not to names inside it
            for reference in phase.references:
                with scope.assuming(reference.when):
                    self._check_reference(reference, scope)
            if phase.acceptance is not None:
                scope.check_prompt(phase.acceptance)
            scope.record_view(Span(phase.document.source, 0), "")
            with scope.assuming(None):
                # facts known from a `stop` hold in the outputs, but not in the `otherwise` of a failed phase
                check_steps(scope, phase.steps)
                scope.record_view(phase.document.frontmatter.value_span("outputs"), "outputs")
                outputs = {name: scope.infer_value(value) for name, value in phase.outputs.items()}
                scope.check_summary_outputs(phase.outputs, outputs)
            if use.otherwise is not None:
                with scope.failure_in_scope(FAILURE):
                    check_step(scope, use.otherwise)
        label = f"phases.{identifier(use.name)}.outputs"
        self._absences |= absent_outputs(label, f"the phase `{use.name}`", phase.outputs, outputs)
        phase_artifacts = list(artifacts(phase.steps, self._skipping_breakers))
        writes: dict[str, Step] = {
            artifact.path: artifact.step for artifact in phase_artifacts if artifact.path is not None
        }
        certain = {artifact.path for artifact in phase_artifacts if artifact.certain}
        is_known = not scope.callees_may_write and all(artifact.path is not None for artifact in phase_artifacts)
        known = {path: TEXT if path in certain else TEXT.maybe() for path in writes} if is_known else None
        self._types[use.name] = phase_type(use.name, outputs, known)
        stand_in = (use.otherwise,) if use.otherwise is not None else ()
        self.question_steps[use.name] = tuple(collect_questions((*phase.steps, *stand_in), scope.callees))
        self.transitive_reads[use.name] = scope.all_reads
        self.all_names_read |= scope.all_reads
        self.effects[use.name] = collect_effects(
            phase, scope.reads, writes, [path for path in certain if path is not None]
        )
        self._names_read |= scope.reads

    def _visible_phases(self, phases: frozenset[str]) -> Type:
        """Return the type of `phases`; a phase with a condition, or one that may fail, may be absent."""
        types: dict[str, Type] = {}
        for name in phases:
            use, type_ = self.workflow.phases[name], self._types[name]
            if use.when is not None:
                type_ = type_.maybe(conjuncts(use.when.expression))
            if use.otherwise is not None or use.retry in self._skipping_breakers:
                type_ = type_.maybe()
            types[name] = type_
        return record(types, "phases")

    def _check_reference(self, reference: Reference, scope: Scope) -> None:
        if reference.is_agent_skill:
            self.checker.lookups.agent_skill(reference.skill, reference.span)
        elif (text := self.checker.lookups.text(reference.skill, reference.span, "reference")) is not None:
            scope.check_prompt(text.template)
            scope.shared_templates += (text.template,)

    def _check_workflow_material(self) -> None:
        """Check the workflow's `material`, which is part of all prompts.

        In a phase, the material reads only the results of phases that the phase follows.
        """
        phases = self._visible_phases(frozenset(self.workflow.phases))
        absent = phases._replace(fields={name: type_.maybe() for name, type_ in phases.fields.items()})
        names = {**self._base, "phases": absent}
        scope = Scope(
            self.checker, self.settings, names, self.problems, owners=self._scope_owners(), absences=self._absences
        )
        scope.record_view(self.workflow.document.frontmatter.value_span("material"), "material")
        material = self.workflow.material
        if material is not None:
            check_material(scope, material, scope.infer_value(material))
        for name, trace in self.effects.items():
            if any(step.verb in ("agent", "panel") for step in self.phases[name].walk()):
                visible_paths = {f"phases.{identifier(other)}" for other in self.workflow.ancestors(name)}
                read = {path for path in scope.reads if path in visible_paths or not path.startswith("phases.")}
                self.effects[name] = replace(trace, reads=trace.reads | read)
            for step in self.phases[name].walk():
                self._check_duplicate_titles(material, step.material)
        self._names_read |= scope.reads

    def _check_duplicate_titles(self, workflow_material: Value | None, step_material: Value | None) -> None:
        titles = (workflow_material.key_spans if workflow_material is not None else {}).items()
        for title, span in titles if step_material is not None else ():
            if step_material is not None and title in step_material.key_spans:
                message = f"`{title}` is already in every prompt"
                hint = f"line {span.line} of the workflow adds it; remove it here, or choose another title"
                self.problems.report(step_material.key_spans[title], "duplicate-title", message, hint, elsewhere=span)

    def _check_workflow_file(self) -> None:
        """Check the workflow's own file."""
        workflow = self.workflow
        scope = Scope(
            self.checker, self.settings, self._base, self.problems, owners=self._scope_owners(), absences=self._absences
        )
        scope.record_view(Span(workflow.document.source, 0), "")
        if workflow.preamble is not None:
            scope.check_prompt(workflow.preamble)
        self.preamble_reads = frozenset(scope.reads)
        if workflow.repository is not None:
            scope.infer_value(workflow.repository)
            check_repository(workflow.repository, self.problems)
        if workflow.hint is not None:  # evaluated before a run
            early_names = {name: self._base[name] for name in ("inputs", "config")}
            early = Scope(
                self.checker,
                self.settings,
                early_names,
                self.problems,
                reads=self._names_read,
                owners=self._scope_owners(),
            )
            early.infer_value(workflow.hint)
        scope.bind("phases", self._visible_phases(frozenset(workflow.phases)))
        scope.record_view(workflow.document.frontmatter.value_span("outputs"), "outputs")
        for value in (*workflow.outputs.values(), *([workflow.parallel] if workflow.parallel is not None else [])):
            scope.infer_value(value)
        self.top_reads = frozenset(scope.reads)
        self._names_read |= scope.reads

    def _warn_about_overwrites(self) -> None:
        """Warn of a file that a phase always writes and a later one always overwrites, if nothing reads it before."""
        read = self._names_read | {path for trace in self.effects.values() for path in trace.reads}
        if self.problems.has_errors or "phases.*" in read:
            return
        certain = {name: trace for name, trace in self.effects.items() if self.workflow.phases[name].when is None}
        patterns = [step.text for name in certain for step in self.phases[name].walk() if step.verb == "read"]
        for first, second in permutations(certain, 2):
            if first not in self.workflow.ancestors(second) or f"phases.{identifier(first)}" in read:
                continue
            for path in sorted(certain[first].certain_writes & certain[second].certain_writes):
                if not any(not pattern or fnmatchcase(path, pattern) for pattern in patterns):
                    message = f"`{second}` overwrites `{path}`, which `{first}` wrote and no step reads"
                    step = certain[second].writes[path]
                    self.problems.report(step.span, "written-over", message, "choose another name", "warning")

    def _warn_about_rounds(self) -> None:
        """Warn of rounds whose result cannot change."""
        if self.problems.has_errors or self.effects.keys() != self.workflow.phases.keys():
            return
        parts = {}
        for name, trace in self.effects.items():
            steps = (*self.steps(name), *nested_steps(self.question_steps[name]))
            parts[name] = RoundPart(
                self.phases[name].steps, steps, trace.reads | self.transitive_reads[name] | self.preamble_reads
            )
        warn_about_unchanging_rounds(self.workflow, parts, self.problems)

    def _collect_unused_inputs(self) -> None:
        """Collect the unused inputs, except the request, which is in every prompt, and a `mode` that sets features."""
        request = self.workflow.first_input
        known = {"mode"} if self.settings.part("features") else set()
        optional = [input_ for input_ in self.workflow.inputs if input_ is not request and input_.name not in known]
        if self.phases.keys() == self.workflow.phases.keys():
            self.unused_inputs += find_unread_inputs(optional, self._names_read)


def order_phases(workflow: Workflow, problems: Problems) -> list[str]:
    """Return the phases in dependency order; report unknown names, cycles and unreachable phases."""
    phases = workflow.phases
    for use in phases.values():
        for after, span in use.after.items():
            if after not in phases:
                message = f"`{use.name}` follows `{after}`, which is not a phase of this workflow"
                problems.report(span, "unknown-phase", message, did_you_mean(after, phases))
    done: dict[str, None] = {}
    pending = list(phases)
    while ready := [
        name for name in pending if all(earlier in done or earlier not in phases for earlier in phases[name].after)
    ]:
        done |= dict.fromkeys(ready)
        pending = [name for name in pending if name not in done]
    reported: set[str] = set()
    for name in pending:
        if name in reported:
            continue
        cycle = _find_cycle(phases, name)
        reported |= {*cycle}
        if len(cycle) > 1:
            message = f"these phases wait for each other: {' -> '.join((*cycle, name))}"
            places = (f"`{phase_name}` (line {phases[phase_name].span.line})" for phase_name in cycle)
            problems.report(phases[name].span, "cycle", message, f"remove the `after` of {' or '.join(places)}")
        elif cycle:
            problems.report(phases[name].span, "cycle", f"`{name}` waits for itself", "remove its `after`")
        else:
            problems.report(phases[name].span, "unreachable", f"`{name}` is never reached: it follows a cycle")
    return list(done)


def _find_cycle(phases: Mapping[str, PhaseUse], name: str) -> tuple[str, ...]:
    """Return the shortest cycle along `after` that starts at a phase, or an empty path.

    The phase is not repeated at the end.
    """
    seen: set[str] = set()
    paths: list[tuple[str, ...]] = [(name,)]
    for path in paths:
        for after in phases[path[-1]].after:
            if after == name:
                return path
            if after in phases and after not in seen:
                seen.add(after)
                paths.append((*path, after))
    return ()


def check_repository(value: Value, problems: Problems) -> None:
    """Report a literal folder outside of the project. Symbolic links are checked when the folder is opened."""
    folder = value.literal
    if not isinstance(folder, str):
        return
    depth = 0
    for part in folder.split("/"):
        depth += {"": 0, ".": 0, "..": -1}.get(part, 1)
        if depth < 0 or folder.startswith("/"):
            message = f"the folder {quote_value(folder)} is not in the project"
            problems.report(value.span, "repository", message, OUTSIDE_PROJECT_HINT)
            return
