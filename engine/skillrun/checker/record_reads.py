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

RECORD_FIELD: Final = "record"  # the field of a step's id


def step_key(step: Step) -> str:
    """What a step is known by among those whose record is read."""
    return f"{step.span.source.label}#{step.id}"


RecordReads = Mapping[str, AbstractSet[str]]
"""By step, as `key_of` has it: which fields of its record are read, or `*`."""


def collect_record_reads(files: Iterable[tuple[Iterable[Step], AbstractSet[str]]]) -> RecordReads:
    """What is read of the records of steps, by the files' steps and what each file reads.

    A field that is read of something else than a step of the file, such as one of a list of replies, may be that of
    every step: replies are handed on.
    """
    file_reads = [(_recording_steps(steps), _record_fields(reads), reads) for steps, reads in files]
    shared_fields = {
        field
        for asking, by_name, _ in file_reads
        for name, fields in by_name.items()
        if name not in asking
        for field in fields
    }
    return {
        step_key(step): shared_fields | by_name.get(name, set()) | ({"*"} if f"{name}.*" in reads else set())
        for asking, by_name, reads in file_reads
        for name, step in asking.items()
    }


def _recording_steps(steps: Iterable[Step]) -> dict[str, Step]:
    return {identifier(step.id): step for step in steps if step.record and step.id}


def _record_fields(reads: AbstractSet[str]) -> dict[str, set[str]]:
    """The fields of records that are read, by the name that they are read of."""
    fields: dict[str, set[str]] = {}
    for path in reads:
        name, _, rest = path.partition(".")
        first, _, field = rest.partition(".")
        if first == RECORD_FIELD:
            fields.setdefault(name, set()).add(field or "*")
    return fields


def is_read(name: str, fields: AbstractSet[str]) -> bool:
    return "*" in fields or identifier(name) in fields


def warn_about_unread_fields(
    steps: Iterable[Step], record_reads: RecordReads, library: Library, problems: Problems
) -> None:
    """Warn of fields that nobody reads and that are no part of the phase's record: they are not asked for."""
    for step in steps:
        for part in step.record:
            shape = library.record_shape(part)
            properties = (shape.static_schema if shape is not None else {}).get("properties", {})
            others = [
                name
                for name in properties
                if name not in RECORD_KEYS and not is_read(name, record_reads[step_key(step)])
            ]
            if others:
                message = (
                    f"nobody reads `{step.id}.{RECORD_FIELD}.{identifier(others[0])}`, so it will not be asked for"
                )
                hint = f"read {', '.join(f'`{name}`' for name in others)}, or leave it out"
                problems.report(part.span, "unread-record", message, hint, "warning")
