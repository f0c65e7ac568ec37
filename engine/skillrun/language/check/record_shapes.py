"""What `record:` asks for beside a document: shapes and templates with a shape, merged; and which of it is read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from skillrun.language.files.kinds import RECORD_KEYS
from skillrun.language.text.diagnostics import Problems
from skillrun.language.text.source import Span
from skillrun.language.types.picoschema import ShapeSpec
from skillrun.language.types.types import identifier

if TYPE_CHECKING:
    from skillrun.language.files.definitions import Step
    from skillrun.language.library.library import Library

ANSWERS: Final = "answers"
DONE: Final = ("changed", "kept")
READ: Final = "record"  # the field of a step's id


@dataclass(frozen=True)
class RecordPart:
    """A shape that is written out, or the name of a template whose `output` it is."""

    span: Span
    shape: ShapeSpec | None = None
    name: str = ""

    def found(self, library: Library) -> ShapeSpec | None:
        text = library.text(self.name, "template") if self.name else None
        return self.shape or (text.output if text is not None else None)


def merged(schemas: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """One record with the fields of all."""
    found: dict[str, Any] = {"type": "object", "properties": {}, "required": [], "additionalProperties": False}
    for one in schemas:
        found["properties"] |= one.get("properties", {})
        found["required"] += [name for name in one.get("required", ()) if name not in found["required"]]
    return found


def only(schema: Mapping[str, Any], names: AbstractSet[str]) -> dict[str, Any]:
    """The record with these fields alone."""
    properties = {name: one for name, one in schema["properties"].items() if name in names}
    return {**schema, "properties": properties, "required": [n for n in schema["required"] if n in properties]}


def answers(ids: Iterable[str] | None = None) -> dict[str, Any]:
    """The field in which an author answers points; without `ids` those that only the run knows."""
    known = {"type": "string"} | ({} if ids is None else {"enum": list(ids)})
    fields = {"id": known, "done": {"type": "string", "enum": list(DONE)}, "how": {"type": "string"}}
    item = {"type": "object", "properties": fields, "required": list(fields), "additionalProperties": False}
    return merged([{"properties": {ANSWERS: {"type": "array", "items": item}}, "required": [ANSWERS]}])


def each_answered(value: Any, schema: Mapping[str, Any]) -> Any:
    """A made-up record in which every point is answered once."""
    item = schema.get("properties", {}).get(ANSWERS, {}).get("items", {}).get("properties", {})
    made = value.get(ANSWERS) if isinstance(value, dict) and item.keys() == {"id", "done", "how"} else None
    ids = item["id"].get("enum") if made is not None else None
    if not made or not ids:
        return value
    return {**value, ANSWERS: [{**made[number % len(made)], "id": one} for number, one in enumerate(ids)]}


def key_of(step: Step) -> str:
    """What a step is known by among those whose record is read."""
    return f"{step.span.source.shown}#{step.id}"


Read = Mapping[str, AbstractSet[str]]
"""By step, as `key_of` has it: which fields of its record are read, or `*`."""


def read_in(files: Iterable[tuple[Iterable[Step], AbstractSet[str]]]) -> Read:
    """What is read of the records of steps, by the files' steps and what each file reads.

    A field that is read of something else than a step of the file, such as one of a list of replies, may be that of
    every step: replies are handed on.
    """
    looked_at = [(_asking(steps), _fields(reads), reads) for steps, reads in files]
    anyone = {
        field
        for asking, by_name, _ in looked_at
        for name, fields in by_name.items()
        if name not in asking
        for field in fields
    }
    return {
        key_of(step): anyone | by_name.get(name, set()) | ({"*"} if f"{name}.*" in reads else set())
        for asking, by_name, reads in looked_at
        for name, step in asking.items()
    }


def _asking(steps: Iterable[Step]) -> dict[str, Step]:
    return {identifier(step.id): step for step in steps if step.record and step.id}


def _fields(reads: AbstractSet[str]) -> dict[str, set[str]]:
    """The fields of records that are read, by the name that they are read of."""
    found: dict[str, set[str]] = {}
    for path in reads:
        name, _, rest = path.partition(".")
        first, _, field = rest.partition(".")
        if first == READ:
            found.setdefault(name, set()).add(field or "*")
    return found


def is_read(name: str, fields: AbstractSet[str]) -> bool:
    return "*" in fields or identifier(name) in fields


def warn_of_unread(steps: Iterable[Step], read: Read, library: Library, problems: Problems) -> None:
    """Warn of fields that nobody reads and that are no part of the phase's record: they are not asked for."""
    for step in steps:
        for part in step.record:
            spec = part.found(library)
            own = (spec.outline if spec is not None else {}).get("properties", {})
            others = [name for name in own if name not in RECORD_KEYS and not is_read(name, read[key_of(step)])]
            if others:
                message = f"nobody reads `{step.id}.{READ}.{identifier(others[0])}`, so it will not be asked for"
                hint = f"read {', '.join(f'`{name}`' for name in others)}, or leave it out"
                problems.report(part.span, "unread-record", message, hint, "warning")
