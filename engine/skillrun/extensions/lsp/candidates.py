"""Which names may stand at a place: a table of what each key takes, and the names of the workflow around.

Everything comes from the library and from what the checker has noted; what is written already is not looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from skillrun.definitions.definitions import SKILL_KINDS
from skillrun.definitions.verbs import SUMMARY_KEYS, TOOLS
from skillrun.extensions.lsp.cursor_context import Around, Candidate, entries
from skillrun.extensions.lsp.descriptions import type_in_words
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


def candidates(around: Around) -> list[Candidate]:
    """The names that a value, or a key of the author's, may have here."""
    slot = around.slot
    if around.place.part == "key":
        give = _KEYS.get(f"{slot.verb}.{slot.name}") or _KEYS.get(slot.name)
        return list(give(around)) if give is not None else []
    if slot.key is not None and slot.key.values and not slot.within:
        return [Candidate(value, "value", slot.key.doc) for value in slot.key.values]
    if slot.key is not None and slot.key.takes == "boolean":
        return [Candidate(value, "value") for value in ("true", "false")]
    give = _VALUES.get(f"{slot.verb}.{slot.name}") or _VALUES.get(slot.name)
    return list(give(around)) if give is not None else []


def _references(around: Around) -> Iterator[Candidate]:
    if around.relative.startswith("workflows/"):
        yield from skills("phase")(around)
    else:
        yield from skills("reference", agent=True)(around)


# names of a workflow


def phases(around: Around) -> Iterator[Candidate]:
    """The phases of the workflow."""
    workflow = around.workflow
    library = around.knowledge.library
    for use in workflow.phases.values() if workflow is not None else ():
        phase = library.phase(use.skill) if library.locate(f"skills/{use.skill}.md") is not None else None
        yield Candidate(use.name, "phase", phase.description if phase is not None else "")


def _earlier(around: Around) -> Iterator[Candidate]:
    """The phases that the one of this file may go back to."""
    workflow = around.workflow
    skill = around.relative.removeprefix("skills/").removesuffix(".md")
    uses = workflow.phases.values() if workflow is not None else ()
    here = next((use.name for use in uses if use.skill == skill), None)
    for candidate in phases(around):
        if workflow is None or here is None or candidate.name in (here, *workflow.ancestors(here)):
            yield candidate


def _phase_files(around: Around) -> Iterator[Candidate]:
    """The names of phases whose files are there and that the workflow does not have yet."""
    area = around.relative.removeprefix("workflows/").removesuffix(".md")
    for candidate in skills("phase")(around):
        if candidate.name.startswith(f"{area}/") and candidate.name not in around.place.siblings:
            yield candidate._replace(name=candidate.name.removeprefix(f"{area}/"), kind="phase")


def breakers(around: Around) -> Iterator[Candidate]:
    """The breakers of the config."""
    for name, breaker in entries(around.config, "breakers").items():
        about = f"{breaker.get('limit')} failures, then {breaker.get('then')}" if isinstance(breaker, Mapping) else ""
        yield Candidate(name, "breaker", about)


def _config_part(part: str) -> Callable[[Around], Iterator[Candidate]]:
    def give(around: Around) -> Iterator[Candidate]:
        for name, entry in entries(around.config, part).items():
            yield Candidate(
                name,
                part.removesuffix("s"),
                str(entries(around.config, part)[name].get("description", "")) if isinstance(entry, Mapping) else "",
            )

    return give


def _inputs(fields: Iterable[Field]) -> Iterator[Candidate]:
    for field in fields:
        yield Candidate(
            field.name, "input", f"{type_in_words(field.type)}{f': {field.description}' if field.description else ''}"
        )


def _workflow_inputs(around: Around) -> Iterator[Candidate]:
    workflow = around.workflow
    yield from _inputs(workflow.inputs if workflow is not None else ())


def _called(around: Around) -> tuple[Field, ...]:
    """The inputs of the protocol or workflow that the step around calls."""
    library = around.knowledge.library
    around_step = around.place.around[-2] if len(around.place.around) > 1 else {}
    if "protocol" in around_step and (name := around_step["protocol"]) in library.names("skills/protocols"):
        protocol = library.protocol(name)
        return protocol.inputs if protocol is not None else ()
    workflow = around.knowledge.workflow(around_step.get("run", "")) if around_step.get("run") else None
    return workflow.inputs if workflow is not None else ()


def _with_keys(around: Around) -> Iterator[Candidate]:
    yield from _inputs(_called(around))


def _values_of(fields: Iterable[Field], name: str | int) -> Iterator[Candidate]:
    for field in fields:
        if identifier(field.name) == identifier(str(name)):
            if field.item.kind == "boolean":
                yield from (Candidate(value, "value") for value in ("true", "false"))
            values = field.item.values or ()
            yield from (
                Candidate(str(value), "value", field.description) for value in values if isinstance(value, str | int)
            )


def _with_values(around: Around) -> Iterator[Candidate]:
    yield from _values_of(_called(around), around.slot.within[0]) if around.slot.within else ()


def _input_values(around: Around) -> Iterator[Candidate]:
    workflow = around.workflow
    if around.slot.within and workflow is not None:
        yield from _values_of(workflow.inputs, around.slot.within[0])
    elif around.relative.startswith(("workflows/", "skills/")):
        yield from _types(around)


def _seats(around: Around) -> Iterator[Candidate]:
    library = around.knowledge.library
    step = around.place.around[-2] if len(around.place.around) > 1 else {}
    if step.get("protocol") in library.names("skills/protocols"):
        protocol = library.protocol(step["protocol"])
        yield from (Candidate(seat, "seat") for seat in (protocol.seats.names if protocol is not None else ()))


def _variables(around: Around) -> Iterator[Candidate]:
    workflow = around.workflow
    for field in workflow.state if workflow is not None else ():
        yield Candidate(
            field.name,
            "variable",
            f"{type_in_words(field.type)}{f': {field.description}' if field.description else ''}",
        )


def _variable_values(around: Around) -> Iterator[Candidate]:
    workflow = around.workflow
    if around.slot.within and workflow is not None:
        yield from _values_of(workflow.state, around.slot.within[0])


def _types(_: Around) -> Iterator[Candidate]:
    yield from (Candidate(name, "value", "a type") for name in TYPES)


def _outputs(around: Around) -> Iterator[Candidate]:
    if around.relative.startswith("tests/"):
        if not around.slot.within:
            yield from phases(around)
            return
        workflow = around.workflow
        use = workflow.phases.get(str(around.slot.within[0])) if workflow is not None else None
        phase = around.knowledge.library.phase(use.skill) if use is not None else None
        yield from (Candidate(name, "output") for name in (phase.outputs if phase is not None else ()))
    elif around.relative.startswith("skills/"):
        yield from (Candidate(name, "output", "goes into the summary") for name in SUMMARY_KEYS)


def _flags(around: Around) -> Iterator[Candidate]:
    if not around.slot.within:
        yield from phases(around)


def _plain(*names: str, kind: str = "value") -> Callable[[Around], Iterator[Candidate]]:
    return lambda _around: (Candidate(name, kind) for name in names)


def _members_of_config(around: Around) -> Iterator[Candidate]:
    """Members, where a config's list or mapping has one already."""
    lookups = Lookups(around.knowledge.library)
    data: Any = around.config
    for part in around.place.path[:-1]:
        data = data.get(part) if isinstance(data, Mapping) else None
    texts = data.values() if isinstance(data, Mapping) else data if isinstance(data, list) else ()
    if any(isinstance(text, str) and not list(lookups.wrong_member(text)) for text in texts):
        yield from members(around)


_VALUES: Final[Mapping[str, Callable[[Around], Iterator[Candidate]]]] = {
    "agent": members,
    "panel": members,
    "protocol": protocols,
    "run.run": workflows,
    "goto": _earlier,
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
    "tools": _plain(*TOOLS),
    "skills": agent_skills,
    "kind": _plain(*SKILL_KINDS),
    "with": _with_values,
    "set.set": _variable_values,
    "inputs": _input_values,
    "state": _types,
    "type": _types,
    "requires": _config_part("features"),
    "modes": _config_part("modes"),
    "from": _plain("project"),
    "outcome": _plain("completed", "failed", "waiting"),
    "status": _plain("completed", "failed", "waiting"),
    "artifacts": artifacts,
    "": _members_of_config,
}
_KEYS: Final[Mapping[str, Callable[[Around], Iterator[Candidate]]]] = {
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
