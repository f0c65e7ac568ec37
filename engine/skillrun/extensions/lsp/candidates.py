"""Lists the names that are valid at the cursor, depending on the enclosing key.

The names come from the library and from the workflow of the file. The text at the cursor is ignored, except for the
prefix of a member.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from skillrun import registry
from skillrun.definitions.definitions import SKILL_KINDS, AgentSkill, Protocol, Workflow
from skillrun.definitions.verbs import SUMMARY_KEYS
from skillrun.extensions.lsp.cursor import Cursor
from skillrun.extensions.lsp.hover import describe_type
from skillrun.library.lookups import Lookups
from skillrun.types.fields import TYPES, Field
from skillrun.types.types import identifier


class Completion(NamedTuple):
    """A name that is valid at the cursor, with its kind and a description. `suffix` is written after the name."""

    name: str
    kind: str
    detail: str = ""
    documentation: str = ""
    suffix: str = ""


Candidates = Callable[[Cursor], Iterable[Completion]]
ENGINE_CONFIGS: Final = ("models", "skillrun", "sizes")


def candidates(cursor: Cursor) -> list[Completion]:
    """Return the names that are valid at the cursor as a value, or as a key that the author chooses."""
    slot = cursor.slot
    is_key = cursor.place.part == "key"
    if not is_key and slot.key is not None and slot.key.values and not slot.within:
        return [Completion(value, "value", slot.key.doc) for value in slot.key.values]
    if not is_key and slot.key is not None and slot.key.kind == "boolean":
        return [Completion(value, "value") for value in ("true", "false")]
    table = _KEYS if is_key else _VALUES
    list_names = table.get(f"{slot.verb}.{slot.name}") or table.get(slot.name)
    return list(list_names(cursor)) if list_names is not None else []


def _completions(kind: str, names: Iterable[str], detail: str = "") -> Iterator[Completion]:
    return (Completion(name, kind, detail) for name in names)


def _describe(
    kind: str, names: Iterable[str], read: Callable[[str], Protocol | Workflow | AgentSkill | None]
) -> Iterator[Completion]:
    for name in names:
        definition = read(name)
        yield Completion(name, kind, definition.description if definition is not None else "")


def _entries(data: Mapping[str, Any], part: str) -> Mapping[str, Any]:
    """Return the mapping at the key `part` of a config; empty if the value is not a mapping."""
    entries = data.get(part)
    return entries if isinstance(entries, Mapping) else {}


# members and models


def members(cursor: Cursor) -> Iterator[Completion]:
    """Yield roles and their variants. After an `@`, yield models instead."""
    head, at, _ = cursor.place.prefix.rpartition("@")
    if at:
        yield from (each._replace(name=f"{head}@{each.name}") for each in models(cursor))
        return
    library = cursor.index.library
    for name in library.names("roles"):
        role = library.role(name)
        yield Completion(name, "role", role.description if role is not None else "")
        for variant, lens in role.variants.items() if role is not None else ():
            yield Completion(f"{name}:{variant}", "variant", lens)


def models(cursor: Cursor) -> Iterator[Completion]:
    """Yield the tiers, aliases, intents and models that `config/models.yaml` lists."""
    data = _models_config(cursor)
    yield from (Completion(name, "model", f"tier: {meaning}") for name, meaning in _entries(data, "tiers").items())
    yield from (Completion(name, "model", f"alias: {meaning}") for name, meaning in _entries(data, "aliases").items())
    yield from _completions("model", _entries(data, "intents"), "the newest matching model")
    yield from _completions("model", _entries(data, "models"), "a listed model")


def _models_config(cursor: Cursor) -> Mapping[str, Any]:
    config = cursor.index.library.config("models")
    return config.data if config is not None else {}


def _members_of_config(cursor: Cursor) -> Iterator[Completion]:
    """Yield members if the config's list or mapping at the cursor already contains a member."""
    lookups = Lookups(cursor.index.library)
    data: Any = cursor.config
    for part in cursor.place.path[:-1]:
        data = data.get(part) if isinstance(data, Mapping) else None
    texts = data.values() if isinstance(data, Mapping) else data if isinstance(data, list) else ()
    if any(isinstance(text, str) and not list(lookups.member_errors(text)) for text in texts):
        yield from members(cursor)


# files


def skills(cursor: Cursor, kind: str) -> Iterator[Completion]:
    """Yield the skill files of a kind as `area/name`, each with its description."""
    library = cursor.index.library
    for name in library.skills():
        if "/" in name and library.kind(name) == kind:
            document = library.skill(name)
            node = document.frontmatter.get("description") if document is not None else None
            yield Completion(name, "file", str(getattr(node, "value", "")))


def _agent_skills(cursor: Cursor) -> Iterator[Completion]:
    library = cursor.index.library
    return _describe("skill", filter(library.agent_skill, library.skills()), library.agent_skill)


def _references(cursor: Cursor) -> Iterator[Completion]:
    if cursor.relative.startswith("workflows/"):
        yield from skills(cursor, "phase")
    else:
        yield from sorted((*skills(cursor, "reference"), *_agent_skills(cursor)))


def _shapes(cursor: Cursor) -> Iterator[Completion]:
    """Yield the templates that have a shape. Inside a shape, yield the types of fields instead."""
    if cursor.slot.within and cursor.slot.name != "record":
        yield from _completions("value", ("string", "integer", "number", "boolean", "any"))
        return
    for candidate in skills(cursor, "template"):
        text = cursor.index.library.text(candidate.name)
        if text is not None and text.output is not None:
            yield candidate


def artifacts(cursor: Cursor) -> Iterator[Completion]:
    """Yield the artifacts with literal paths that the workflow's phases write."""
    for use in cursor.workflow.phases.values() if cursor.workflow is not None else ():
        phase = cursor.index.library.phase(use.skill)
        for step in phase.walk() if phase is not None else ():
            path = step.artifact.literal if step.artifact is not None else None
            if isinstance(path, str) and path:
                yield Completion(path, "file", f"written by `{use.name}`")


# names of a workflow or config


def _phases(cursor: Cursor) -> Iterator[Completion]:
    for use in cursor.workflow.phases.values() if cursor.workflow is not None else ():
        phase = cursor.index.library.phase(use.skill)
        yield Completion(use.name, "phase", phase.description if phase is not None else "")


def _goto_targets(cursor: Cursor) -> Iterator[Completion]:
    """Yield the phases that a `goto` in this file can name: the phase of the file, and phases that precede it."""
    workflow = cursor.workflow
    skill = cursor.relative.removeprefix("skills/").removesuffix(".md")
    uses = workflow.phases.values() if workflow is not None else ()
    current = next((use.name for use in uses if use.skill == skill), None)
    for candidate in _phases(cursor):
        if workflow is None or current is None or candidate.name in (current, *workflow.ancestors(current)):
            yield candidate


def _phase_files(cursor: Cursor) -> Iterator[Completion]:
    """Yield the phases that have a file in the workflow's folder and that `phases:` does not list yet."""
    area = cursor.relative.removeprefix("workflows/").removesuffix(".md")
    for candidate in skills(cursor, "phase"):
        if candidate.name.startswith(f"{area}/") and candidate.name not in cursor.place.siblings:
            yield candidate._replace(name=candidate.name.removeprefix(f"{area}/"), kind="phase")


def _breakers(cursor: Cursor) -> Iterator[Completion]:
    for name, breaker in _entries(cursor.config, "breakers").items():
        about = f"{breaker.get('limit')} failures, then {breaker.get('then')}" if isinstance(breaker, Mapping) else ""
        yield Completion(name, "breaker", about)


def _config_part(part: str) -> Candidates:
    return lambda cursor: (
        Completion(
            name, part.removesuffix("s"), str(entry.get("description", "")) if isinstance(entry, Mapping) else ""
        )
        for name, entry in _entries(cursor.config, part).items()
    )


def _fields(cursor: Cursor) -> tuple[Field, ...]:
    """Return the fields that the mapping at the cursor sets.

    The fields are variables or inputs of the workflow or, under `with`, inputs of the called protocol or workflow.
    """
    workflow = cursor.workflow
    if cursor.slot.name != "with":
        state, inputs = (workflow.state, workflow.inputs) if workflow is not None else ((), ())
        return state if cursor.slot.name == "set" else inputs
    step, library = _enclosing_step(cursor), cursor.index.library
    if step.get("protocol") in library.names("skills/protocols"):
        protocol = library.protocol(step["protocol"])
        return protocol.inputs if protocol is not None else ()
    called = cursor.index.workflow(step["run"]) if step.get("run") else None
    return called.inputs if called is not None else ()


def _enclosing_step(cursor: Cursor) -> Mapping[str, str]:
    """Return the keys of the step that contains the mapping at the cursor."""
    return cursor.place.mappings[-2] if len(cursor.place.mappings) > 1 else {}


def _field_names(cursor: Cursor) -> Iterator[Completion]:
    kind = "variable" if cursor.slot.name == "set" else "input"
    for field in _fields(cursor):
        about = f": {field.description}" if field.description else ""
        yield Completion(field.name, kind, f"{describe_type(field.type)}{about}")


def _field_values(cursor: Cursor) -> Iterator[Completion]:
    name = identifier(str(cursor.slot.within[0])) if cursor.slot.within else ""
    for field in _fields(cursor):
        if name and identifier(field.name) == name:
            if field.item.kind == "boolean":
                yield from _completions("value", ("true", "false"))
            values = (str(value) for value in field.item.values or () if isinstance(value, str | int))
            yield from _completions("value", values, field.description)


def _input_values(cursor: Cursor) -> Iterator[Completion]:
    if cursor.slot.within and cursor.workflow is not None:
        yield from _field_values(cursor)
    elif cursor.relative.startswith(("workflows/", "skills/")):
        yield from _completions("value", TYPES, "a type")


def _seats(cursor: Cursor) -> Iterator[Completion]:
    library, name = cursor.index.library, _enclosing_step(cursor).get("protocol", "")
    protocol = library.protocol(name) if name in library.names("skills/protocols") else None
    return _completions("seat", protocol.seats.names if protocol is not None else ())


def _outputs(cursor: Cursor) -> Iterator[Completion]:
    if cursor.relative.startswith("tests/"):
        if not cursor.slot.within:
            yield from _phases(cursor)
            return
        phases = cursor.workflow.phases if cursor.workflow is not None else {}
        use = phases.get(str(cursor.slot.within[0]))
        phase = cursor.index.library.phase(use.skill) if use is not None else None
        yield from _completions("output", phase.outputs if phase is not None else ())
    elif cursor.relative.startswith("skills/"):
        yield from _completions("output", SUMMARY_KEYS, "goes into the summary")


_VALUES: Final[Mapping[str, Candidates]] = {
    "agent": members,
    "panel": members,
    "protocol": lambda cursor: _describe(
        "protocol", cursor.index.library.names("skills/protocols"), cursor.index.library.protocol
    ),
    "run.run": lambda cursor: _describe("workflow", cursor.index.library.names("workflows"), cursor.index.workflow),
    "goto": _goto_targets,
    "after": _phases,
    "path": _phases,
    "retry": _breakers,
    "at_most": _breakers,
    "skill": _references,
    "references": _references,
    "template": lambda cursor: skills(cursor, "template"),
    "output": _shapes,
    "shape": _shapes,
    "record": _shapes,
    "config": lambda cursor: _completions(
        "config", (name for name in cursor.index.library.names("config") if name not in ENGINE_CONFIGS)
    ),
    "model": models,
    "strong": models,
    "fast": models,
    "tiers": models,
    "aliases": models,
    "fallback": models,
    "elsewhere": lambda cursor: _completions("model", _entries(_models_config(cursor), "tiers")),
    "prefer": lambda cursor: _completions("model", _entries(_models_config(cursor), "providers")),
    "provider": lambda cursor: _completions("model", _entries(_models_config(cursor), "providers")),
    "tools": lambda _cursor: _completions("value", registry.names("tools")),
    "skills": _agent_skills,
    "kind": lambda _cursor: _completions("value", SKILL_KINDS),
    "with": _field_values,
    "set.set": _field_values,
    "inputs": _input_values,
    "state": lambda _cursor: _completions("value", TYPES, "a type"),
    "type": lambda _cursor: _completions("value", TYPES, "a type"),
    "requires": _config_part("features"),
    "modes": _config_part("modes"),
    "from": lambda _cursor: _completions("value", ("project",)),
    "outcome": lambda _cursor: _completions("value", ("completed", "failed", "waiting")),
    "status": lambda _cursor: _completions("value", ("completed", "failed", "waiting")),
    "artifacts": artifacts,
    "": _members_of_config,
}
_KEYS: Final[Mapping[str, Candidates]] = {
    "panel.panel": _seats,
    "panel.with": _field_names,
    "run.with": _field_names,
    "set.set": _field_names,
    "phases": _phase_files,
    "inputs": lambda cursor: _field_names(cursor) if cursor.relative.startswith("tests/") else (),
    "outputs": _outputs,
    "flags": lambda cursor: _phases(cursor) if not cursor.slot.within else (),
    "artifacts": lambda cursor: artifacts(cursor) if not cursor.slot.within else (),
}
