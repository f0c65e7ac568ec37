"""The check of one workflow: its phases in an order that respects what each follows, then its own file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from fnmatch import fnmatchcase
from itertools import permutations
from typing import Final

from skillrun.checker.absences import absent_fields, absent_outputs, absent_phases
from skillrun.checker.config_checks import check_config
from skillrun.checker.expression_types import HISTORY, SUMMARY
from skillrun.checker.facts import conjuncts
from skillrun.checker.interfaces import check_beginnings, declared
from skillrun.checker.lints import unread
from skillrun.checker.names import base_types, history_type, phase_type
from skillrun.checker.phase_effects import Trace, artifacts, check_parallel, trace_of
from skillrun.checker.program import Ask, Nested
from skillrun.checker.question_steps import asks_of
from skillrun.checker.rounds import RoundPart, entered_steps, warn_of_rounds
from skillrun.checker.scope import Place, Reached, Scope
from skillrun.checker.verbs.steps import check_material, check_step, check_steps
from skillrun.definitions.definitions import Phase, PhaseUse, Reference, Step, Workflow
from skillrun.definitions.verbs import SUMMARY_KEYS
from skillrun.library.configuration import check_modes
from skillrun.library.lookups import Settings
from skillrun.library.symbols import Homes
from skillrun.syntax.diagnostics import Problems, did_you_mean
from skillrun.syntax.source import Span
from skillrun.templates.expressions import Value
from skillrun.templates.records import FAILURE
from skillrun.types.fields import Field
from skillrun.types.schemas import quoted
from skillrun.types.types import ANY, TEXT, Type, identifier, record

PROMPTING: Final = frozenset({"agent", "panel", "run"})  # verbs whose phases send prompts, which carry the records
OUTSIDE: Final = 'declare an input `repo?: path` and write `"{{ inputs.repo }}"`; whoever runs it names the folder'


class WorkflowCheck:
    """`phases` are those that can be read, `traces` what each touches, `unused` the inputs that nothing reads."""

    def __init__(self, reached: Reached, workflow: Workflow, settings: Settings, phases: Mapping[str, Phase]) -> None:
        self.reached = reached
        self.workflow = workflow
        self.settings = settings
        self.problems = reached.problems
        self.phases = phases
        self.unused: list[Field] = []
        self.traces: dict[str, Trace] = {}
        self.all_reads: dict[str, frozenset[str]] = {}  # by phase, with what all that it enters reads
        self.asks: dict[str, tuple[Ask | Nested, ...]] = {}
        self._read: set[str] = set()  # the names that anything in the workflow reads
        self.names: set[str] = set()  # and what its phases enter
        inputs = declared(reached, workflow.document, "inputs", workflow.inputs, settings, reads=self._read)
        state = declared(reached, workflow.document, "state", workflow.state, settings, inputs, self._read)
        check_beginnings(workflow.state, self.problems)
        self._base = base_types(inputs, state, settings.config, settings.features)
        modes = (state.fields.get("mode") or inputs.fields.get("mode") or ANY).values
        for layer in settings.layers if modes is not None else ():
            check_modes(layer, modes or (), self.problems)
        self.preamble_reads: frozenset[str] = frozenset()
        self.top_reads: frozenset[str] = frozenset()
        self._types: dict[str, Type] = dict.fromkeys(workflow.phases, ANY)
        breakers = settings.part("breakers").items()
        self._skipped = frozenset(
            name for name, breaker in breakers if isinstance(breaker, dict) and breaker.get("then") == "skip"
        )
        self._absences = {
            **absent_fields("inputs", workflow.inputs),
            **absent_fields("state", workflow.state),
            **absent_phases(workflow.phases.values(), self._skipped),
        }

    def run(self) -> None:
        for use in self.workflow.phases.values():
            for after, span in use.after.items():
                self.reached.lookups.mention(span, "phase", self.path, after)
        for name in ordered(self.workflow, self.problems):
            if name in self.phases:
                self._phase(self.workflow.phases[name], self.phases[name])
        check_config(self.reached, self.workflow.checks, self.settings)
        self._material()
        check_parallel(self.workflow, self.traces, self.problems)
        self._top()
        self._unused()
        self._written_over()
        self._rounds()
        self.names |= self._read

    @property
    def path(self) -> str:
        """That of its file, below the library."""
        return f"workflows/{self.workflow.name}.md"

    def _homes(self, steps: str = "") -> Homes:
        """The files whose names are read in a file of steps, or in the workflow's own."""
        givers: dict[str, tuple[str, ...]] = {
            f"phases.{use.name}": (f"skills/{use.skill}.md",) for use in self.workflow.phases.values()
        }
        return Homes(steps, self.path, self.settings.name, givers)

    def reads(self) -> dict[str, frozenset[str]]:
        """The phases that each phase reads."""
        names = {f"phases.{identifier(name)}": name for name in self.workflow.phases}
        return {
            name: frozenset(names[path] for path in trace.reads & names.keys()) for name, trace in self.traces.items()
        }

    def summarised(self) -> frozenset[str]:
        """The phases whose record a later one of the same round reads: in its prompts, or where it says so."""
        if SUMMARY in self.top_reads:
            return frozenset(self.workflow.phases)
        readers = {
            name
            for name, trace in self.traces.items()
            if SUMMARY in trace.reads or any(step.verb in PROMPTING for step in self.steps(name))
        }
        return frozenset(name for name in self.workflow.phases if readers & {*self.workflow.followers(name)} - {name})

    def records(self) -> bool:
        """Whether any phase can put a decision, a question or a risk on record; one that declares none does not."""
        return any(self._records(name) for name in self.workflow.phases)

    def _records(self, name: str) -> bool:
        given = [self.phases[name].outputs.get(kind) for kind in SUMMARY_KEYS[1:]]
        asking = any(step.verb in PROMPTING or step.verb == "run" for step in self.steps(name))
        return any(asking if use is None else use.items != () for use in given)

    def remembered(self) -> frozenset[str]:
        """The phases whose record a later round reads; one that follows all that go back is in no earlier round."""
        if not any(HISTORY in trace.reads for trace in self.traces.values()):
            return frozenset()
        going = [name for name in self.traces if any(step.verb == "goto" for step in self.steps(name))]
        return frozenset(
            name
            for name in self.workflow.phases
            if any(name == source or source not in self.workflow.ancestors(name) for source in going)
        )

    def steps(self, name: str) -> Iterator[Step]:
        """The steps of a phase, and what stands in for it."""
        yield from self.phases[name].walk()
        if (other := self.workflow.phases[name].otherwise) is not None:
            yield from other.walk()

    def _phase(self, use: PhaseUse, phase: Phase) -> None:
        before = self._visible(self.workflow.ancestors(use.name))
        names = {**self._base, "phases": before, "history": history_type(self.workflow.phases)}
        scope = Scope(
            self.reached,
            self.settings,
            names,
            self.problems,
            place=Place(self.workflow, use.name),
            prompts=phase.prompts,
            local=phase.local,
            headings=phase.headings,
            around=tuple(template for template in (phase.acceptance, self.workflow.preamble) if template is not None),
            homes=self._homes(f"skills/{use.skill}.md"),
            absences=dict(self._absences),
        )
        if use.retry is not None:
            self.reached.lookups.breaker(use.retry, use.place("retry"), self.settings)
        scope.look_around(use.span, use.name)
        with scope.under(use.when):
            scope.depends = frozenset()  # who reads the phase depends on its condition, not what is inside
            for reference in phase.references:
                with scope.under(reference.when):
                    self._reference(reference, scope)
            if phase.acceptance is not None:
                scope.prompt(phase.acceptance)
            scope.look_around(Span(phase.document.source, 0), "")
            with scope.under(None):
                # what a `stop` lets through is there for the outputs, and not for what stands in for a failed phase
                check_steps(scope, phase.steps)
                scope.look_around(phase.document.front.value_place("outputs"), "outputs")
                outputs = {name: scope.value(value) for name, value in phase.outputs.items()}
                scope.fit_records(phase.outputs, outputs)
            if use.otherwise is not None:
                with scope.knowing(FAILURE):
                    check_step(scope, use.otherwise)
        label = f"phases.{identifier(use.name)}.outputs"
        self._absences |= absent_outputs(label, f"the phase `{use.name}`", phase.outputs, outputs)
        written = list(artifacts(phase.steps, self._skipped))
        writes: dict[str, Step] = {artifact.path: artifact.step for artifact in written if artifact.path is not None}
        certain = {artifact.path for artifact in written if artifact.certain}
        is_known = not scope.writes_elsewhere and all(artifact.path is not None for artifact in written)
        known = {path: TEXT if path in certain else TEXT.maybe() for path in writes} if is_known else None
        self._types[use.name] = phase_type(use.name, outputs, known)
        stand_in = (use.otherwise,) if use.otherwise is not None else ()
        self.asks[use.name] = tuple(asks_of((*phase.steps, *stand_in), scope.entered))
        self.all_reads[use.name] = scope.all_reads
        self.names |= scope.all_reads
        self.traces[use.name] = trace_of(phase, scope.reads, writes, [path for path in certain if path is not None])
        self._read |= scope.reads

    def _visible(self, phases: frozenset[str]) -> Type:
        """What is known of phases: one with a condition, or one that may fail, may be absent."""
        types: dict[str, Type] = {}
        for name in phases:
            use, type_ = self.workflow.phases[name], self._types[name]
            if use.when is not None:
                type_ = type_.maybe(conjuncts(use.when.expression))
            if use.otherwise is not None or use.retry in self._skipped:
                type_ = type_.maybe()
            types[name] = type_
        return record(types, "phases")

    def _reference(self, reference: Reference, scope: Scope) -> None:
        if reference.agent_skill:
            self.reached.lookups.agent_skill(reference.skill, reference.span)
        elif (text := self.reached.lookups.text(reference.skill, reference.span, "reference")) is not None:
            scope.prompt(text.template)
            scope.around += (text.template,)

    def _material(self) -> None:
        """What all prompts carry: a phase reads of it what it follows, the rest is absent for it."""
        phases = self._visible(frozenset(self.workflow.phases))
        absent = phases._replace(fields={name: type_.maybe() for name, type_ in phases.fields.items()})
        names = {**self._base, "phases": absent}
        scope = Scope(self.reached, self.settings, names, self.problems, homes=self._homes(), absences=self._absences)
        scope.look_around(self.workflow.document.front.value_place("material"), "material")
        material = self.workflow.material
        if material is not None:
            check_material(scope, material, scope.value(material))
        for name, trace in self.traces.items():
            if any(step.verb in ("agent", "panel") for step in self.phases[name].walk()):
                before = {f"phases.{identifier(other)}" for other in self.workflow.ancestors(name)}
                read = {path for path in scope.reads if path in before or not path.startswith("phases.")}
                self.traces[name] = replace(trace, reads=trace.reads | read)
            for step in self.phases[name].walk():
                self._titled_twice(material, step.material)
        self._read |= scope.reads

    def _titled_twice(self, everywhere: Value | None, handed: Value | None) -> None:
        titles = (everywhere.keys if everywhere is not None else {}).items()
        for title, span in titles if handed is not None else ():
            if handed is not None and title in handed.keys:
                message = f"`{title}` stands in every prompt already"
                hint = f"line {span.line} of the workflow hands it over; leave it out here, or take another title"
                self.problems.report(handed.keys[title], "duplicate-title", message, hint, elsewhere=span)

    def _top(self) -> None:
        """What stands in the workflow's own file."""
        workflow = self.workflow
        scope = Scope(
            self.reached, self.settings, self._base, self.problems, homes=self._homes(), absences=self._absences
        )
        scope.look_around(Span(workflow.document.source, 0), "")
        if workflow.preamble is not None:
            scope.prompt(workflow.preamble)
        self.preamble_reads = frozenset(scope.reads)
        if workflow.repository is not None:
            scope.value(workflow.repository)
            check_repository(workflow.repository, self.problems)
        if workflow.hint is not None:  # no run is there yet
            before = {name: self._base[name] for name in ("inputs", "config")}
            early = Scope(self.reached, self.settings, before, self.problems, reads=self._read, homes=self._homes())
            early.value(workflow.hint)
        scope.bind("phases", self._visible(frozenset(workflow.phases)))
        scope.look_around(workflow.document.front.value_place("outputs"), "outputs")
        for value in (*workflow.outputs.values(), *([workflow.parallel] if workflow.parallel is not None else [])):
            scope.value(value)
        self.top_reads = frozenset(scope.reads)
        self._read |= scope.reads

    def _written_over(self) -> None:
        """Warn of a file that a phase writes for sure and a later one writes over, where nobody reads it between."""
        read = self._read | {path for trace in self.traces.values() for path in trace.reads}
        if self.problems.errors or "phases.*" in read:
            return
        certain = {name: trace for name, trace in self.traces.items() if self.workflow.phases[name].when is None}
        patterns = [step.text for name in certain for step in self.phases[name].walk() if step.verb == "read"]
        for first, second in permutations(certain, 2):
            if first not in self.workflow.ancestors(second) or f"phases.{identifier(first)}" in read:
                continue
            for path in sorted(certain[first].surely & certain[second].surely):
                if not any(not pattern or fnmatchcase(path, pattern) for pattern in patterns):
                    message = f"`{second}` writes `{path}` over what `{first}` wrote, and nobody has read that"
                    step = certain[second].writes[path]
                    self.problems.report(step.span, "written-over", message, "choose another name", "warning")

    def _rounds(self) -> None:
        """Warn of rounds that cannot come to anything else."""
        if self.problems.errors or self.traces.keys() != self.workflow.phases.keys():
            return
        parts = {}
        for name, trace in self.traces.items():
            steps = (*self.steps(name), *entered_steps(self.asks[name]))
            parts[name] = RoundPart(
                self.phases[name].steps, steps, trace.reads | self.all_reads[name] | self.preamble_reads
            )
        warn_of_rounds(self.workflow, parts, self.problems)

    def _unused(self) -> None:
        """Note the inputs that nothing reads; the request stands in every prompt, and features go by the mode."""
        request = self.workflow.first_input
        known = {"mode"} if self.settings.part("features") else set()
        optional = [input_ for input_ in self.workflow.inputs if input_ is not request and input_.name not in known]
        if self.phases.keys() == self.workflow.phases.keys():
            self.unused += unread(optional, self._read)


def ordered(workflow: Workflow, problems: Problems) -> list[str]:
    """The phases, each behind what it follows; unknown names, cycles and what they cut off are reported."""
    phases = workflow.phases
    for use in phases.values():
        for after, span in use.after.items():
            if after not in phases:
                message = f"`{use.name}` follows `{after}`, which is no phase"
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
        cycle = _cycle(phases, name)
        reported |= {*cycle}
        if len(cycle) > 1:
            message = f"these phases wait for each other: {' -> '.join((*cycle, name))}"
            places = (f"`{one}` (line {phases[one].span.line})" for one in cycle)
            problems.report(phases[name].span, "cycle", message, f"remove the `after` of {' or '.join(places)}")
        elif cycle:
            problems.report(phases[name].span, "cycle", f"`{name}` waits for itself", "remove its `after`")
        else:
            problems.report(phases[name].span, "unreachable", f"`{name}` is never reached: it follows a cycle")
    return list(done)


def _cycle(phases: Mapping[str, PhaseUse], name: str) -> tuple[str, ...]:
    """The shortest way along `after` from a phase back to itself, without the end; empty without a cycle."""
    seen: set[str] = set()
    ways: list[tuple[str, ...]] = [(name,)]
    for way in ways:
        for after in phases[way[-1]].after:
            if after == name:
                return way
            if after in phases and after not in seen:
                seen.add(after)
                ways.append((*way, after))
    return ()


def check_repository(value: Value, problems: Problems) -> None:
    """A folder that is written out lies in the project; where links lead is seen when it is opened."""
    folder = value.literal
    if not isinstance(folder, str):
        return
    depth = 0
    for part in folder.split("/"):
        depth += {"": 0, ".": 0, "..": -1}.get(part, 1)
        if depth < 0 or folder.startswith("/"):
            message = f"the folder {quoted(folder)} is not in the project"
            problems.report(value.span, "repository", message, OUTSIDE)
            return
