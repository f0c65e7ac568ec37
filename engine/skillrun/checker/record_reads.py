"""Determines which fields of step records are read, and warns of unread fields, which models need not return."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from typing import Final

from skillrun.definitions.definitions import Step
from skillrun.definitions.verbs import RECORD_KEYS
from skillrun.library.library import Library
from skillrun.syntax.diagnostics import Problems
from skillrun.types.types import identifier

RECORD_FIELD: Final = "record"  # the field of a step's result that holds the record


def step_key(step: Step) -> str:
    """Return the key of a step in `RecordReads`."""
    return f"{step.span.source.label}#{step.id}"


RecordReads = Mapping[str, AbstractSet[str]]
"""The record fields that are read, keyed by `step_key`; `*` stands for all fields."""


def collect_record_reads(files: Iterable[tuple[Iterable[Step], AbstractSet[str]]]) -> RecordReads:
    """Return the record fields that are read.

    `files` has the steps of each file, and the names that the file reads. If a field is read from a value that is not a
    step of the file, such as an item of a list of replies, it counts as read for every step, because replies are passed
    between files.
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
    """Return the record fields that are read, keyed by the name from which they are read."""
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
    """Warn of fields that are never read and are not part of the phase's record."""
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
                message = f"`{step.id}.{RECORD_FIELD}.{identifier(others[0])}` is never read, so it is not requested"
                hint = f"read {', '.join(f'`{name}`' for name in others)}, or remove it"
                problems.report(part.span, "unread-record", message, hint, "warning")
