"""Lists the names that are valid at the cursor, depending on the key there.

The names come from the library and the workflow that the file belongs to. What is already written at the cursor does
not matter, except for the prefix of a member.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from skillrun import registry
from skillrun.definitions.definitions import SKILL_KINDS
from skillrun.definitions.verbs import SUMMARY_KEYS
from skillrun.extensions.lsp.cursor_context import CompletionCandidate, CursorContext, config_entries
from skillrun.extensions.lsp.descriptions import describe_type
from skillrun.extensions.lsp.library_names import (
    agent_skills,
    artifacts,
    configs,
    members,
    model_part,
    models,
    protocols,
    shapes,
    skills,
    workflows,
)
from skillrun.library.lookups import Lookups
from skillrun.types.fields import TYPES, Field
from skillrun.types.types import identifier


def candidates(context: CursorContext) -> list[CompletionCandidate]:
    """Return the names that are valid at the cursor: as a value, or as a key that the author chooses."""
    slot = context.slot
    if context.place.part == "key":
        give = _KEYS.get(f"{slot.verb}.{slot.name}") or _KEYS.get(slot.name)
        return list(give(context)) if give is not None else []
    if slot.key is not None and slot.key.values and not slot.within:
        return [CompletionCandidate(value, "value", slot.key.doc) for value in slot.key.values]
    if slot.key is not None and slot.key.kind == "boolean":
        return [CompletionCandidate(value, "value") for value in ("true", "false")]
    give = _VALUES.get(f"{slot.verb}.{slot.name}") or _VALUES.get(slot.name)
    return list(give(context)) if give is not None else []


def _references(context: CursorContext) -> Iterator[CompletionCandidate]:
    if context.relative.startswith("workflows/"):
        yield from skills("phase")(context)
    else:
        yield from skills("reference", agent=True)(context)


# names of a workflow


def phases(context: CursorContext) -> Iterator[CompletionCandidate]:
    """Yield the phases of the workflow."""
    workflow = context.workflow
    library = context.index.library
    for use in workflow.phases.values() if workflow is not None else ():
        phase = library.phase(use.skill) if library.locate(f"skills/{use.skill}.md") is not None else None
        yield CompletionCandidate(use.name, "phase", phase.description if phase is not None else "")


def _goto_targets(context: CursorContext) -> Iterator[CompletionCandidate]:
    """Yield the phases that a `goto` in this file can name: the phase of the file, and phases that precede it."""
    workflow = context.workflow
    skill = context.relative.removeprefix("skills/").removesuffix(".md")
    uses = workflow.phases.values() if workflow is not None else ()
    current_phase = next((use.name for use in uses if use.skill == skill), None)
    for candidate in phases(context):
        if (
            workflow is None
            or current_phase is None
            or candidate.name in (current_phase, *workflow.ancestors(current_phase))
        ):
            yield candidate


def _phase_files(context: CursorContext) -> Iterator[CompletionCandidate]:
    """Yield the phases that have a file in the workflow's folder and that `phases:` does not list yet."""
    area = context.relative.removeprefix("workflows/").removesuffix(".md")
    for candidate in skills("phase")(context):
        if candidate.name.startswith(f"{area}/") and candidate.name not in context.place.siblings:
            yield candidate._replace(name=candidate.name.removeprefix(f"{area}/"), kind="phase")


def breakers(context: CursorContext) -> Iterator[CompletionCandidate]:
    """Yield the breakers that the config defines."""
    for name, breaker in config_entries(context.config, "breakers").items():
        about = f"{breaker.get('limit')} failures, then {breaker.get('then')}" if isinstance(breaker, Mapping) else ""
        yield CompletionCandidate(name, "breaker", about)


def _config_part(part: str) -> Callable[[CursorContext], Iterator[CompletionCandidate]]:
    def provide(context: CursorContext) -> Iterator[CompletionCandidate]:
        for name, entry in config_entries(context.config, part).items():
            yield CompletionCandidate(
                name,
                part.removesuffix("s"),
                str(config_entries(context.config, part)[name].get("description", ""))
                if isinstance(entry, Mapping)
                else "",
            )

    return provide


def _inputs(fields: Iterable[Field]) -> Iterator[CompletionCandidate]:
    for field in fields:
        yield CompletionCandidate(
            field.name, "input", f"{describe_type(field.type)}{f': {field.description}' if field.description else ''}"
        )


def _workflow_inputs(context: CursorContext) -> Iterator[CompletionCandidate]:
    workflow = context.workflow
    yield from _inputs(workflow.inputs if workflow is not None else ())


def _callee_inputs(context: CursorContext) -> tuple[Field, ...]:
    """Return the inputs of the protocol or workflow that the enclosing step calls."""
    library = context.index.library
    calling_step = context.place.mappings[-2] if len(context.place.mappings) > 1 else {}
    if "protocol" in calling_step and (name := calling_step["protocol"]) in library.names("skills/protocols"):
        protocol = library.protocol(name)
        return protocol.inputs if protocol is not None else ()
    workflow = context.index.workflow(calling_step.get("run", "")) if calling_step.get("run") else None
    return workflow.inputs if workflow is not None else ()


def _with_keys(context: CursorContext) -> Iterator[CompletionCandidate]:
    yield from _inputs(_callee_inputs(context))


def _values_of(fields: Iterable[Field], name: str | int) -> Iterator[CompletionCandidate]:
    for field in fields:
        if identifier(field.name) == identifier(str(name)):
            if field.item.kind == "boolean":
                yield from (CompletionCandidate(value, "value") for value in ("true", "false"))
            values = field.item.values or ()
            yield from (
                CompletionCandidate(str(value), "value", field.description)
                for value in values
                if isinstance(value, str | int)
            )


def _with_values(context: CursorContext) -> Iterator[CompletionCandidate]:
    yield from _values_of(_callee_inputs(context), context.slot.within[0]) if context.slot.within else ()


def _input_values(context: CursorContext) -> Iterator[CompletionCandidate]:
    workflow = context.workflow
    if context.slot.within and workflow is not None:
        yield from _values_of(workflow.inputs, context.slot.within[0])
    elif context.relative.startswith(("workflows/", "skills/")):
        yield from _types(context)


def _seats(context: CursorContext) -> Iterator[CompletionCandidate]:
    library = context.index.library
    step = context.place.mappings[-2] if len(context.place.mappings) > 1 else {}
    if step.get("protocol") in library.names("skills/protocols"):
        protocol = library.protocol(step["protocol"])
        yield from (
            CompletionCandidate(seat, "seat") for seat in (protocol.seats.names if protocol is not None else ())
        )


def _variables(context: CursorContext) -> Iterator[CompletionCandidate]:
    workflow = context.workflow
    for field in workflow.state if workflow is not None else ():
        yield CompletionCandidate(
            field.name,
            "variable",
            f"{describe_type(field.type)}{f': {field.description}' if field.description else ''}",
        )


def _variable_values(context: CursorContext) -> Iterator[CompletionCandidate]:
    workflow = context.workflow
    if context.slot.within and workflow is not None:
        yield from _values_of(workflow.state, context.slot.within[0])


def _types(_: CursorContext) -> Iterator[CompletionCandidate]:
    yield from (CompletionCandidate(name, "value", "a type") for name in TYPES)


def _outputs(context: CursorContext) -> Iterator[CompletionCandidate]:
    if context.relative.startswith("tests/"):
        if not context.slot.within:
            yield from phases(context)
            return
        workflow = context.workflow
        use = workflow.phases.get(str(context.slot.within[0])) if workflow is not None else None
        phase = context.index.library.phase(use.skill) if use is not None else None
        yield from (CompletionCandidate(name, "output") for name in (phase.outputs if phase is not None else ()))
    elif context.relative.startswith("skills/"):
        yield from (CompletionCandidate(name, "output", "goes into the summary") for name in SUMMARY_KEYS)


def _flags(context: CursorContext) -> Iterator[CompletionCandidate]:
    if not context.slot.within:
        yield from phases(context)


def _constant_names(*names: str, kind: str = "value") -> Callable[[CursorContext], Iterator[CompletionCandidate]]:
    return lambda _around: (CompletionCandidate(name, kind) for name in names)


def _members_of_config(context: CursorContext) -> Iterator[CompletionCandidate]:
    """Yield members if the list or mapping at the cursor in the config already contains a member."""
    lookups = Lookups(context.index.library)
    data: Any = context.config
    for part in context.place.path[:-1]:
        data = data.get(part) if isinstance(data, Mapping) else None
    texts = data.values() if isinstance(data, Mapping) else data if isinstance(data, list) else ()
    if any(isinstance(text, str) and not list(lookups.member_errors(text)) for text in texts):
        yield from members(context)


_VALUES: Final[Mapping[str, Callable[[CursorContext], Iterator[CompletionCandidate]]]] = {
    "agent": members,
    "panel": members,
    "protocol": protocols,
    "run.run": workflows,
    "goto": _goto_targets,
    "after": phases,
    "path": phases,
    "retry": breakers,
    "at_most": breakers,
    "skill": _references,
    "references": _references,
    "template": skills("template"),
    "output": shapes,
    "shape": shapes,
    "record": shapes,
    "config": configs,
    "model": models,
    "strong": models,
    "fast": models,
    "tiers": models,
    "aliases": models,
    "fallback": models,
    "elsewhere": model_part("tiers"),
    "prefer": model_part("providers"),
    "provider": model_part("providers"),
    "tools": lambda _context: (CompletionCandidate(name, "value") for name in registry.names("tools")),
    "skills": agent_skills,
    "kind": _constant_names(*SKILL_KINDS),
    "with": _with_values,
    "set.set": _variable_values,
    "inputs": _input_values,
    "state": _types,
    "type": _types,
    "requires": _config_part("features"),
    "modes": _config_part("modes"),
    "from": _constant_names("project"),
    "outcome": _constant_names("completed", "failed", "waiting"),
    "status": _constant_names("completed", "failed", "waiting"),
    "artifacts": artifacts,
    "": _members_of_config,
}
_KEYS: Final[Mapping[str, Callable[[CursorContext], Iterator[CompletionCandidate]]]] = {
    "panel.panel": _seats,
    "panel.with": _with_keys,
    "run.with": _with_keys,
    "set.set": _variables,
    "phases": _phase_files,
    "inputs": lambda around: _workflow_inputs(around) if around.relative.startswith("tests/") else iter(()),
    "outputs": _outputs,
    "flags": _flags,
    "artifacts": lambda around: artifacts(around) if not around.slot.within else iter(()),
}
