"""Checks one workflow: its phases in dependency order, then its own file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from fnmatch import fnmatchcase
from itertools import permutations
from typing import Any, Final

from skillrun.checker.absences import absent_fields, absent_outputs, absent_phases
from skillrun.checker.facts import conjuncts
from skillrun.checker.inference import HISTORY, SUMMARY_READ
from skillrun.checker.interfaces import check_config, check_declarations, find_empty_texts
from skillrun.checker.lints import RoundPart, find_unread_inputs, nested_steps, warn_about_unchanging_rounds
from skillrun.checker.names import SUMMARY, base_types, phase_type
from skillrun.checker.phase_effects import PhaseEffects, RecordReads, artifacts, check_parallel
from skillrun.checker.program import NestedCall, Program, QuestionStep, collect_questions
from skillrun.checker.scope import PhaseContext, ReferenceChecker, Scope
from skillrun.checker.verbs.steps import check_material, check_step, check_steps
from skillrun.definitions.definitions import Phase, PhaseUse, Step, Workflow
from skillrun.definitions.verbs import SUMMARY_KEYS
from skillrun.library.configuration import check_modes
from skillrun.library.lookups import Settings
from skillrun.library.symbols import ScopeOwners
from skillrun.syntax.diagnostics import Problems, did_you_mean
from skillrun.syntax.source import Span
from skillrun.templates.expressions import Value
from skillrun.templates.return_types import FAILURE
from skillrun.types.fields import Field
from skillrun.types.schemas import quote_value
from skillrun.types.types import ANY, NUMBER, TEXT, Type, identifier, list_of, record

PROMPT_VERBS: Final = frozenset({"agent", "panel", "run"})  # verbs whose prompts contain the records
OUTSIDE_PROJECT_HINT: Final = (
    'declare an input `repo?: path` and write `"{{ inputs.repo }}"`; the user then names the folder'
)


class WorkflowCheck:
    """The check of one workflow.

    `phases` has all readable phases, and `effects` has what each of them reads and writes.
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
        self._preamble_reads: frozenset[str] = frozenset()
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
        workflow, problems = self.workflow, self.problems
        for use in workflow.phases.values():
            for after, span in use.after.items():
                self.checker.lookups.add_reference(span, "phase", self.path, after)
        for name in order_phases(workflow, problems):
            if name in self.phases:
                self._check_phase(workflow.phases[name], self.phases[name])
        check_config(self.checker, workflow.checks, self.settings)
        self._check_workflow_material()
        check_parallel(workflow, self.effects, problems)
        self._check_workflow_file()
        if self.phases.keys() == workflow.phases.keys():
            request = workflow.first_input  # is in every prompt
            known = {"mode"} if self.settings.part("features") else set()
            optional = [input_ for input_ in workflow.inputs if input_ is not request and input_.name not in known]
            self.unused_inputs += find_unread_inputs(optional, self._names_read)
        self._warn_about_overwrites()
        if not problems.has_errors and self.effects.keys() == workflow.phases.keys():
            parts = {}
            for name, effects in self.effects.items():
                reads = effects.reads | self.transitive_reads[name] | self._preamble_reads
                parts[name] = RoundPart(self.phases[name].steps, effects.steps, reads)
            warn_about_unchanging_rounds(workflow, parts, problems)
        self.all_names_read |= self._names_read

    @property
    def path(self) -> str:
        """The path of the workflow's file in the library."""
        return f"workflows/{self.workflow.name}.md"

    def _scope(self, names: dict[str, Type], steps: str = "") -> Scope:
        """Return the scope of a file of steps, or of the workflow's own file."""
        phase_files: dict[str, tuple[str, ...]] = {
            f"phases.{use.name}": (f"skills/{use.skill}.md",) for use in self.workflow.phases.values()
        }
        owners = ScopeOwners(steps, self.path, self.settings.name, phase_files)
        empty_texts = find_empty_texts("inputs", self.workflow.inputs) | find_empty_texts("state", self.workflow.state)
        absences = dict(self._absences)
        return Scope(
            self.checker, self.settings, names, self.problems, owners=owners, absences=absences, empty_texts=empty_texts
        )

    def build_program(
        self, engine: Mapping[str, Any], inline: Mapping[str, Program], record_reads: RecordReads
    ) -> Program:
        """Return the checked workflow. All of its phases must be known."""
        names = {f"phases.{identifier(name)}": name for name in self.workflow.phases}
        return Program(
            self.workflow,
            self.phases,
            self.settings.data or {},
            engine,
            self.checker.lookups.library,
            reads={
                name: frozenset(names[path] for path in effects.reads & names.keys())
                for name, effects in self.effects.items()
            },
            inline=inline,
            summarized_phases=self._summarized_phases(),
            history_phases=self._history_phases(),
            record_reads=record_reads,
            can_record=any(self._can_record(name) for name in self.workflow.phases),
            question_steps=self.question_steps,
            names_read=frozenset(self.all_names_read),
            estimate_readers=frozenset(self.checker.estimate_readers),
            modes=self.settings.modes,
        )

    def _summarized_phases(self) -> frozenset[str]:
        """Return the phases whose summary a later phase of the same round reads, in a prompt or a template."""
        if SUMMARY_READ in self.top_reads:
            return frozenset(self.workflow.phases)
        prompting = {name for name in self.effects if any(step.verb in PROMPT_VERBS for step in self.steps(name))}
        readers = prompting | {name for name, effects in self.effects.items() if SUMMARY_READ in effects.reads}
        return frozenset(name for name in self.workflow.phases if readers & {*self.workflow.followers(name)} - {name})

    def _can_record(self, name: str) -> bool:
        """Whether a phase can record a decision, a question or a risk.

        An output that is declared as an empty list records nothing.
        """
        declared = [self.phases[name].outputs.get(kind) for kind in SUMMARY_KEYS[1:]]
        has_prompts = any(step.verb in PROMPT_VERBS for step in self.steps(name))
        return any(has_prompts if value is None else value.items != () for value in declared)

    def _history_phases(self) -> frozenset[str]:
        """Return the phases whose summary a later round reads.

        A phase that follows every `goto` runs only in the last round, so no later round reads it.
        """
        if not any(HISTORY in trace.reads for trace in self.effects.values()):
            return frozenset()
        goto_phases = [name for name in self.effects if any(step.verb == "goto" for step in self.steps(name))]
        ancestors = {name: self.workflow.ancestors(name) for name in self.workflow.phases}
        return frozenset(name for name in ancestors if any(source not in ancestors[name] for source in goto_phases))

    def steps(self, name: str) -> Iterator[Step]:
        """Yield the steps of a phase and of its `otherwise`."""
        yield from self.phases[name].walk()
        if (other := self.workflow.phases[name].otherwise) is not None:
            yield from other.walk()

    def _check_phase(self, use: PhaseUse, phase: Phase) -> None:
        visible_phases = self._visible_phases(self.workflow.ancestors(use.name))
        past = record(dict.fromkeys(self.workflow.phases, SUMMARY.maybe()), "past.phases")
        history = list_of(record({"round": NUMBER, "phases": past}, "the round"))
        names = {**self._base, "phases": visible_phases, "history": history}
        scope = replace(
            self._scope(names, f"skills/{use.skill}.md"),
            phase_context=PhaseContext(self.workflow, use.name),
            prompts=phase.prompts,
            local=phase.local_names,
            headings=phase.headings,
            shared_templates=tuple(filter(None, (phase.acceptance, self.workflow.preamble))),
        )
        if use.retry is not None:
            self.checker.lookups.breaker(use.retry, use.value_span("retry"), self.settings)
        scope.record_view(use.span, use.name)
        scope.reader = use.span
        with scope.assuming(use.when):
            scope.required_facts = frozenset()  # the condition applies to readers of the phase, not to names inside it
            for reference in phase.references:
                with scope.assuming(reference.when):
                    if reference.is_agent_skill:
                        self.checker.lookups.agent_skill(reference.skill, reference.span)
                    elif text := self.checker.lookups.text(reference.skill, reference.span, "reference"):
                        scope.check_prompt(text.template)
                        scope.shared_templates += (text.template,)
            if phase.acceptance is not None:
                scope.check_prompt(phase.acceptance)
            scope.record_view(Span(phase.document.source, 0), "")
            with scope.assuming(None):
                # facts known from a `stop` hold in the outputs, but not in the `otherwise` of a failed phase
                check_steps(scope, phase.steps)
                scope.record_view(phase.document.frontmatter.value_span("outputs"), "outputs")
                scope.reader = Span(phase.document.source, 0)
                outputs = {name: scope.infer_value(value) for name, value in phase.outputs.items()}
                scope.check_summary_outputs(phase.outputs, outputs)
            if use.otherwise is not None:
                with scope.failure_in_scope(FAILURE):
                    check_step(scope, use.otherwise)
        label = f"phases.{identifier(use.name)}.outputs"
        self._absences |= absent_outputs(label, f"the phase `{use.name}`", phase.outputs, outputs)
        written = list(artifacts(phase.steps, self._skipping_breakers))
        writes = {step.artifact_path: step for step, _ in written if step.artifact_path is not None}
        certain = {step.artifact_path for step, is_always_written in written if is_always_written}
        is_known = not scope.callees_may_write and all(step.artifact_path is not None for step, _ in written)
        known = {path: TEXT if path in certain else TEXT.maybe() for path in writes} if is_known else None
        self._types[use.name] = phase_type(use.name, outputs, known)
        stand_in = (use.otherwise,) if use.otherwise is not None else ()
        self.question_steps[use.name] = tuple(collect_questions((*phase.steps, *stand_in), scope.callees))
        self.transitive_reads[use.name] = scope.all_reads
        self.all_names_read |= scope.all_reads
        sets = {name: value for step in phase.walk() for name, value in step.assignments.items()}
        steps = (*self.steps(use.name), *nested_steps(self.question_steps[use.name]))
        self.effects[use.name] = PhaseEffects(
            sets, frozenset(scope.reads), writes, frozenset(writes.keys() & certain), steps
        )
        self._names_read |= scope.reads

    def _visible_phases(self, phases: frozenset[str]) -> Type:
        """Return the type of `phases`. A phase may be absent if it has a condition or can fail."""
        types: dict[str, Type] = {}
        for name in phases:
            use, type_ = self.workflow.phases[name], self._types[name]
            if use.when is not None:
                type_ = type_.maybe(conjuncts(use.when.expression))
            if use.otherwise is not None or use.retry in self._skipping_breakers:
                type_ = type_.maybe()
            types[name] = type_
        return record(types, "phases")

    def _check_workflow_material(self) -> None:
        """Check the workflow's `material`, which is part of all prompts.

        In the prompts of a phase, the material reads only the results of phases that this phase follows.
        """
        phases = self._visible_phases(frozenset(self.workflow.phases))
        absent = phases._replace(fields={name: type_.maybe() for name, type_ in phases.fields.items()})
        scope = self._scope({**self._base, "phases": absent})
        scope.record_view(self.workflow.document.frontmatter.value_span("material"), "material")
        material = self.workflow.material
        if material is not None:
            check_material(scope, material, scope.infer_value(material))
        shared_titles = material.key_spans if material is not None else {}
        for name, trace in self.effects.items():
            if any(step.verb in ("agent", "panel") for step in self.phases[name].walk()):
                visible_paths = {f"phases.{identifier(other)}" for other in self.workflow.ancestors(name)}
                read = {path for path in scope.reads if path in visible_paths or not path.startswith("phases.")}
                self.effects[name] = replace(trace, reads=trace.reads | read)
            for step in self.phases[name].walk():
                titles = step.material.key_spans if step.material is not None else {}
                for title in titles.keys() & shared_titles.keys():
                    message = f"`{title}` is already in every prompt"
                    line = shared_titles[title].line
                    hint = f"line {line} of the workflow adds it; remove it here, or choose another title"
                    self.problems.report(
                        titles[title], "duplicate-title", message, hint, elsewhere=shared_titles[title]
                    )
        self._names_read |= scope.reads

    def _check_workflow_file(self) -> None:
        workflow = self.workflow
        scope = self._scope(self._base)
        scope.record_view(Span(workflow.document.source, 0), "")
        if workflow.preamble is not None:
            scope.check_prompt(workflow.preamble)
        self._preamble_reads = frozenset(scope.reads)
        if workflow.repository is not None:
            scope.infer_value(workflow.repository)
            self._check_repository(workflow.repository)
        if workflow.hint is not None:  # evaluated before a run
            early_names = {name: self._base[name] for name in ("inputs", "config")}
            early = replace(self._scope(early_names), absences={}, reads=self._names_read)
            early.infer_value(workflow.hint)
        scope.bind("phases", self._visible_phases(frozenset(workflow.phases)))
        scope.record_view(workflow.document.frontmatter.value_span("outputs"), "outputs")
        for value in (*workflow.outputs.values(), *([workflow.parallel] if workflow.parallel is not None else [])):
            scope.infer_value(value)
        self.top_reads = frozenset(scope.reads)
        self._names_read |= scope.reads

    def _check_repository(self, value: Value) -> None:
        """Report a folder outside of the project if its path is literal. Symbolic links are checked when the folder is
        opened."""
        folder, depth = value.literal, 0
        for part in folder.split("/") if isinstance(folder, str) else ():
            depth += {"": 0, ".": 0, "..": -1}.get(part, 1)
            if depth < 0 or folder.startswith("/"):
                message = f"the folder {quote_value(folder)} is not in the project"
                self.problems.report(value.span, "repository", message, OUTSIDE_PROJECT_HINT)
                return

    def _warn_about_overwrites(self) -> None:
        """Warn if a phase always overwrites a file that an earlier phase always writes and no step reads."""
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
    """Return the shortest cycle of `after` entries that starts at the phase `name`. Empty if `name` is in no cycle. The
    path does not repeat `name` at the end."""
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
