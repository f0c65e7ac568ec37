"""Which fields of the records of steps anybody reads: the others are not asked for, and are warned of."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from typing import Final

from skillrun.definitions.definitions import Step
from skillrun.definitions.verbs import RECORD_KEYS
from skillrun.library.library import Library
from skillrun.syntax.diagnostics import Problems
from skillrun.types.types import identifier

READ: Final = "record"  # the field of a step's id


def key_of(step: Step) -> str:
    """What a step is known by among those whose record is read."""
    return f"{step.span.source.label}#{step.id}"


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
    fields: dict[str, set[str]] = {}
    for path in reads:
        name, _, rest = path.partition(".")
        first, _, field = rest.partition(".")
        if first == READ:
            fields.setdefault(name, set()).add(field or "*")
    return fields


def is_read(name: str, fields: AbstractSet[str]) -> bool:
    return "*" in fields or identifier(name) in fields


def warn_of_unread(steps: Iterable[Step], read: Read, library: Library, problems: Problems) -> None:
    """Warn of fields that nobody reads and that are no part of the phase's record: they are not asked for."""
    for step in steps:
        for part in step.record:
            shape = library.record_shape(part)
            own = (shape.outline if shape is not None else {}).get("properties", {})
            others = [name for name in own if name not in RECORD_KEYS and not is_read(name, read[key_of(step)])]
            if others:
                message = f"nobody reads `{step.id}.{READ}.{identifier(others[0])}`, so it will not be asked for"
                hint = f"read {', '.join(f'`{name}`' for name in others)}, or leave it out"
                problems.report(part.span, "unread-record", message, hint, "warning")
