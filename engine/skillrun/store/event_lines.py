"""Formats events as lines of JSON for a transcript, and parses such lines. Invalid events are not returned."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import MISSING, fields
from datetime import UTC, datetime
from typing import Any, Final

from skillrun.events import Event
from skillrun.types.records import field_checks, is_text

Record = dict[str, Any]
_encode = json.JSONEncoder(default=str, check_circular=False).encode  # ASCII, for `cat`


def format_event_line(event: Event) -> str:
    """Format an event, with the current time, as a line without a newline."""
    at = datetime.now(UTC).isoformat(timespec="milliseconds")
    return _encode({"at": at, **event.to_dict()})


def parse_event_line(line: bytes | str) -> Record | None:
    """Parse the event in a line. Return None if the line is not an event, or if a field is missing or invalid."""
    try:
        event = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(event, dict) or not is_text(event.get("event")):
        return None
    kind = EVENT_TYPES.get(event["event"])
    if kind is None:
        return event
    defaults: Record = {}
    checks = field_checks(kind)
    for field in fields(kind):
        if field.name in event:
            if not checks[field.name](event[field.name]):
                return None
        elif field.default is not MISSING:
            defaults[field.name] = field.default
        elif field.default_factory is MISSING:
            return None
    return {**defaults, **event}


def event_timestamp(at: object) -> float | None:
    """Return the time of an event in seconds since 1970; None if its `at` is invalid."""
    try:
        return datetime.fromisoformat(str(at)).timestamp() if is_text(at) else None
    except (ValueError, OverflowError):
        return None


EVENT_TYPES: Final[Mapping[str, type[Event]]] = {kind.__name__: kind for kind in Event.__subclasses__()}


def utc_timestamp() -> str:
    """Return the current time in UTC, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")
