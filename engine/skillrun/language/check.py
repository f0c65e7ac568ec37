"""Checks that the files of a workflow fit together, and makes the program that the interpreter runs.

Collects every problem of every file it reaches. Runs offline and spends nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from skillrun.language import source as nodes_of
from skillrun.language.configuration import check_features
from skillrun.language.definitions import Phase, PhaseUse, Protocol, Role, Step, Workflow
from skillrun.language.diagnostics import Problems, did_you_mean
from skillrun.language.library import Library
from skillrun.language.lint import check_sizes
from skillrun.language.names import base_names, history_type, of_fields, phase_type
from skillrun.language.scores import Scope, check_prompt, check_protocol, check_score
from skillrun.language.types import ANY, NEVER, TEXT, Facts, Inference, Type, facts, list_of, of_value, record


@dataclass(frozen=True)
class Program:
    """A workflow with everything it uses, as the interpreter runs it."""

    workflow: Workflow
    phases: Mapping[str, Phase]
    config: Mapping[str, Any]
    engine: Mapping[str, Any]
    library: Library
    reads: Mapping[str, frozenset[str]] = field(default_factory=dict)
    inline: Mapping[str, Program] = field(default_factory=dict)
    """The workflows that its phases run."""

    def protocol(self, name: str) -> Protocol | None:
        return self.library.protocol(name)

    def role(self, name: str) -> Role | None:
        return self.library.role(name)


def check_workflow(
    library: Library, name: str, commands: Collection[str] = (), within: tuple[str, ...] = ()
) -> Program | None:
    """The program of the workflow `name`; None where it or one of its phases cannot be read.

    Problems are in `library.problems`; with an error among them the program must not be run. `within` names the
    workflows that run this one inline.
    """
    workflow = library.workflow(name)
    if workflow is None:
        return None
    problems = library.problems
    if name in commands:
        node = workflow.document.front.get("name")
        span = node.span if node is not None else workflow.document.front.span
        problems.report(span, "name", f"`{name}` is a command of skillrun", "give the workflow another name")
    config = _config(library, workflow)
    engine = library.config("skillrun")
    for template in library.skills():
        if template.startswith("system/"):
            library.text(template)  # every run uses them
    phases = {use.name: phase for use in workflow.phases.values() if (phase := _phase(library, use)) is not None}
    order = _order(workflow, problems)
    checker = WorkflowCheck(library, workflow, phases, config, problems)
    reads = checker.check(order)
    check_sizes(library, engine.data if engine else {}, problems)
    if len(phases) != len(workflow.phases):
        return None
    inline = _inline(library, phases, (*within, name))
    return Program(workflow, phases, config or {}, engine.data if engine else {}, library, reads, inline)


def _inline(library: Library, phases: Mapping[str, Phase], within: tuple[str, ...]) -> dict[str, Program]:
    found: dict[str, Program | None] = {}
    for step in (step for phase in phases.values() for step in phase.walk() if step.verb == "run"):
        if step.text in within:
            library.problems.report(step.span, "cycle", f"the workflow `{step.text}` runs itself")
        elif step.text and step.text not in found:
            found[step.text] = check_workflow(library, step.text, within=within)
    return {name: program for name, program in found.items() if program is not None}


def check_library(library: Library, commands: Collection[str] = ()) -> list[Program]:
    """Check every file on the search path; the programs of the workflows that can be read."""
    programs = [check_workflow(library, name, commands) for name in library.names("workflows")]
    for name in library.names("config"):
        library.config(name)
    for name in library.names("roles"):
        check_role(library, name)
    used = {use.skill for program in programs if program for use in program.workflow.phases.values()}
    for name in library.skills():
        _check_skill(library, name, used)
    engine = library.config("skillrun")
    check_sizes(library, engine.data if engine else {}, library.problems)
    return [program for program in programs if program is not None]


def _check_skill(library: Library, name: str, used: set[str]) -> None:
    if "/" not in name:
        library.agent_skill(name)
        return
    kind = library.kind(name)
    if kind == "phase":
        phase = library.phase(name)
        if phase is not None and name not in used:
            span = nodes_of.Span(phase.document.source, 0)
            library.problems.report(span, "unused-phase", f"no workflow uses the phase `{name}`", severity="warning")
    elif kind == "protocol":
        check_protocol(library, name.removeprefix("protocols/"), {}, library.problems)
    elif kind == "questions":
        library.bank(name)
    elif kind == "reference":
        library.text(name, "reference")
    else:
        library.text(name)


def check_role(library: Library, name: str) -> Role | None:
    """The role, after checking the skills it names."""
    role = library.role(name)
    if role is None:
        return None
    node = role.document.front.get("skills")
    for index, skill in enumerate(role.skills):
        if library.agent_skill(skill) is None:
            span = node.items[index].span if isinstance(node, nodes_of.Sequence) else role.document.front.span
            known = [one for one in library.skills() if "/" not in one]
            library.problems.report(span, "unknown-skill", f"there is no skill `{skill}`", did_you_mean(skill, known))
    return role


def _config(library: Library, workflow: Workflow) -> dict[str, Any] | None:
    if workflow.config is None:
        return {}
    config = library.config(workflow.config)
    if config is None:
        assert workflow.config_span is not None
        hint = did_you_mean(workflow.config, library.names("config")) or f"make `config/{workflow.config}.yaml`"
        library.problems.report(workflow.config_span, "unknown-config", f"there is no config `{workflow.config}`", hint)
        return None
    for layer in config.layers:
        check_features(layer, config.data, library.problems)
    return config.data


def _phase(library: Library, use: PhaseUse) -> Phase | None:
    if library.locate(f"skills/{use.skill}.md") is None:
        known = [name for name in library.skills() if library.kind(name) == "phase"]
        close = did_you_mean(use.skill, known)
        library.problems.report(use.span, "unknown-phase", f"there is no phase `{use.skill}`", close or f"make `skills/{use.skill}.md`")
        return None
    return library.phase(use.skill)


def _order(workflow: Workflow, problems: Problems) -> list[str]:
    """The phases in an order that respects `after`; unknown names, cycles and what they cut off are reported."""
    known = workflow.phases
    for use in known.values():
        for name in use.after:
            if name not in known:
                problems.report(use.span, "unknown-phase", f"`{use.name}` follows `{name}`, which is no phase", did_you_mean(name, known))
    done: list[str] = []
    pending = list(known)
    while True:
        ready = [n for n in pending if all(a in done or a not in known for a in known[n].after)]
        if not ready:
            break
        done.extend(ready)
        pending = [n for n in pending if n not in done]
    for name in pending:
        if name in workflow.ancestors(name):
            problems.report(known[name].span, "cycle", f"`{name}` follows itself", f"through {', '.join(sorted(workflow.ancestors(name) - {name})) or 'its own `after`'}")
        else:
            problems.report(known[name].span, "unreachable", f"`{name}` is never reached: it follows a cycle")
    return done


class WorkflowCheck:
    """The cross-file check of one workflow."""

    def __init__(
        self, library: Library, workflow: Workflow, phases: Mapping[str, Phase], config: dict[str, Any] | None, problems: Problems
    ) -> None:
        self.library = library
        self.workflow = workflow
        self.phases = phases
        self.problems = problems
        self.breakers = (config or {}).get("breakers") or {}
        config_type = ANY if config is None else of_value(config, "config")
        features = (config or {}).get("features") or {}
        self.base = base_names(of_fields(workflow.inputs, "inputs"), of_fields(workflow.state, "state"), config_type, features)
        self.config = config
        self.types: dict[str, Type] = {}
        self.reads: dict[str, set[str]] = {name: set() for name in workflow.phases}
        self.artifacts: dict[str, dict[str, Step]] = {}
        self.state_reads: dict[str, set[str]] = {}

    def check(self, order: list[str]) -> dict[str, frozenset[str]]:
        for name in order:
            if name in self.phases:
                self._phase(self.workflow.phases[name], self.phases[name])
        self._unordered()
        self._top()
        return {name: frozenset(reads) for name, reads in self.reads.items()}

    def _names(self, phase: str) -> dict[str, Type]:
        before = self.workflow.ancestors(phase)
        visible = {}
        for name in before:
            if name in self.types:
                when = self.workflow.phases[name].when
                visible[name] = self.types[name].maybe(_conjuncts(when)) if when is not None else self.types[name]
                if self._can_fail(self.workflow.phases[name]):
                    visible[name] = visible[name].maybe()
        return {**self.base, "phases": record(visible, "phases"), "history": history_type(self.workflow.phases)}

    def _can_fail(self, use: PhaseUse) -> bool:
        """Whether the run goes on without this phase when it fails."""
        breaker = self.breakers.get(use.retry) if use.retry else None
        return use.otherwise is not None or (isinstance(breaker, dict) and breaker.get("then") == "skip")

    def _phase(self, use: PhaseUse, phase: Phase) -> None:
        names = self._names(use.name)
        known: Facts = frozenset()
        if use.when is not None:
            Inference(use.when, names, known, self.problems, self._explain(use.name)).result()
            known = facts(use.when.expression) if use.when.expression is not None else known
        scope = Scope(
            library=self.library,
            problems=self.problems,
            names=names,
            known=known,
            breakers=self.breakers if self.config is not None else None,
            config=self.config,
            explain=self._explain(use.name),
            state={one.name: one for one in self.workflow.state},
            goto=frozenset(self.workflow.ancestors(use.name) | {use.name}),
            phases=tuple(self.workflow.phases),
            phase=use.name,
        )
        if use.retry is not None:
            scope.breaker(use.retry, use.retry_span or use.span)
        for reference in phase.references:
            self._reference(reference, scope)
        prompt_known = {**names}
        if phase.acceptance is not None:
            check_prompt(phase.acceptance, scope, prompt_known)
        outputs = check_score(phase, scope)
        self.artifacts[use.name] = {path: step for path, step in _artifacts(phase, self.library)}
        certain = all(path for path in self.artifacts[use.name])
        inline = any(step.verb == "run" for step in phase.walk())
        literal = None if inline or not certain else dict.fromkeys(self.artifacts[use.name], TEXT)
        self.types[use.name] = phase_type(use.name, outputs, _artifact_types(phase, literal))
        self.reads[use.name] |= scope.phases_read
        self.state_reads[use.name] = scope.state_read
        if use.otherwise is not None:
            scope.step(use.otherwise)

    def _reference(self, reference: Any, scope: Scope) -> None:
        if reference.when is not None:
            scope.condition(reference.when)
        if reference.agent_skill:
            if self.library.agent_skill(reference.name) is None:
                known = [one for one in self.library.skills() if "/" not in one]
                self.problems.report(reference.span, "unknown-skill", f"there is no skill `{reference.name}`", did_you_mean(reference.name, known))
            return
        if self.library.locate(f"skills/{reference.name}.md") is None:
            known = [name for name in self.library.skills() if "/" in name]
            self.problems.report(reference.span, "unknown-skill", f"there is no reference `{reference.name}`", did_you_mean(reference.name, known))
            return
        text = self.library.text(reference.name, "reference")
        if text is not None:
            check_prompt(text.template, scope, scope.names)

    def _explain(self, phase: str) -> Any:
        """A better message for a phase that exists but has not ended when this one reads it."""
        known = {name.replace("-", "_"): name for name in self.workflow.phases}

        def explain(path: str) -> str | None:
            owner, _, key = path.partition(".")
            name = known.get(key.replace("-", "_")) if owner == "phases" else None
            if name is None:
                return None
            if name == phase:
                return "a phase does not read itself; earlier rounds are in `history`"
            return f"`{phase}` does not follow `{name}`: give it `after: [{name}]`, or read it later"

        return explain

    def _unordered(self) -> None:
        """Two phases that may run at the same time must not set, or set and read, one variable, or write one file."""
        names = list(self.phases)
        sets = {name: {key: step for step in self.phases[name].walk() if step.verb == "set" and step.main for key in step.main.entries or {}} for name in names}
        state = {one.name.replace("-", "_") for one in self.workflow.state}
        for index, one in enumerate(names):
            for other in names[index + 1 :]:
                if one in self.workflow.ancestors(other) or other in self.workflow.ancestors(one):
                    continue
                for key in sets[one]:
                    if key.replace("-", "_") in state and key in sets[other]:
                        self.problems.report(sets[other][key].span, "unordered", f"`{one}` and `{other}` both set `state.{key}`, and neither follows the other", f"give one of them `after: [{one}]`")
                for setter, reader in ((one, other), (other, one)):
                    for key in sets[setter]:
                        if key in state and key in self.state_reads.get(reader, set()) and key not in sets[reader]:
                            self.problems.report(sets[setter][key].span, "unordered", f"`{setter}` sets `state.{key}`, which `{reader}` reads, and neither follows the other", f"give one of them `after: [{reader}]`")
                for path in set(self.artifacts.get(one, {})) & set(self.artifacts.get(other, {})) - {""}:
                    step = self.artifacts[other][path]
                    self.problems.report(step.span, "unordered", f"`{one}` and `{other}` both write `{path}`, and neither follows the other", f"give one of them `after: [{one}]`")

    def _top(self) -> None:
        """What stands in the workflow's own file."""
        workflow = self.workflow
        every = record({name: one.maybe() if workflow.phases[name].when is not None else one for name, one in self.types.items()}, "phases")
        names = {**self.base, "phases": every}
        templates = [workflow.preamble, workflow.repository, workflow.hint]
        for template in templates:
            if template is not None:
                Inference(template, self.base, frozenset(), self.problems).result()
        for value in (*workflow.outputs.values(), *([workflow.parallel] if workflow.parallel else [])):
            for template in value.templates():
                Inference(template, names, frozenset(), self.problems).result()


def _conjuncts(when: Any) -> Facts:
    from jinja2 import nodes

    def split(node: nodes.Node) -> Iterator[str]:
        if isinstance(node, nodes.And):
            yield from split(node.left)
            yield from split(node.right)
        else:
            yield repr(node)

    return frozenset(split(when.expression)) if when.expression is not None else NEVER


def _artifacts(phase: Phase, library: Library) -> Iterator[tuple[str, Step]]:
    """The artifacts that a phase writes: their paths, `""` where only the run knows; protocols write too."""
    for step in phase.walk():
        value = step.main if step.verb == "write" else step.values.get("writes")
        if value is not None:
            literal = value.literal
            yield (literal if isinstance(literal, str) else ""), step
        if step.verb == "panel":
            name = step.values["protocol"].literal if "protocol" in step.values else None
            protocol = library.protocol(name) if isinstance(name, str) else None
            if protocol is not None and any("writes" in inner.values or inner.verb == "write" for inner in protocol.walk()):
                yield "", step


def _artifact_types(phase: Phase, literal: dict[str, Type] | None) -> dict[str, Type] | None:
    """An artifact whose step has a condition may be absent."""
    if literal is None:
        return None
    found = {}
    for path in literal:
        conditional = all(step.when is not None or step.otherwise is not None for step in phase.steps if _writes(step, path))
        direct = any(_writes(step, path) for step in phase.steps)
        found[path] = TEXT if direct and not conditional else TEXT.maybe()
    return found


def _writes(step: Step, path: str) -> bool:
    value = step.main if step.verb == "write" else step.values.get("writes")
    return value is not None and value.literal == path


ANYTHING = list_of(ANY)
