"""Formats the events of a run as lines of JSON, writes the lines, and parses them. Invalid lines are left out."""

from __future__ import annotations

import asyncio
import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, fields
from datetime import UTC, datetime
from typing import Any, Final

from skillrun.events import Asked, Event, Notice, RunStarted
from skillrun.types.records import field_checks, is_text, parse_json

Record = dict[str, Any]
FLUSH: Final = 0.1  # seconds
MAX_EVENTS: Final = 200_000
"""Most events of a transcript that are read. The longest runs write a tenth of that."""
OMITTED_EVENTS: Final = Notice(f"only the last {MAX_EVENTS:,} events of the transcript are read", "warn").to_dict()
"""The event that stands for the earlier events of a longer transcript."""
_encode = json.JSONEncoder(default=str, check_circular=False).encode  # ASCII, for `cat`


def parse_event_line(line: bytes | str) -> Record | None:
    """Parse the event in a line. Return None if the line is not an event, or if a field is missing or invalid."""
    try:
        event = parse_json(line)
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


class Transcript(ABC):
    """Stores every event of a run within `FLUSH` seconds. Subclasses implement `_write`."""

    what = "the transcript"

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._flush: asyncio.TimerHandle | None = None
        self._error: Exception | None = None

    def write_event(self, event: Event) -> None:
        """Add an event. If an earlier write has failed, raise its error."""
        if self._error is not None:
            raise self._error
        at = datetime.now(UTC).isoformat(timespec="milliseconds")
        self._lines.append(_encode({"at": at, **event.to_dict()}))
        is_urgent = isinstance(event, Asked | RunStarted)  # other processes act on these at once
        if is_urgent and self._flush is not None:
            self._flush.cancel()
            self._flush = None
        if self._flush is None:
            delay = 0 if is_urgent else FLUSH
            self._flush = asyncio.get_running_loop().call_later(delay, self._write)

    def restore(self, lines: Iterable[str]) -> None:
        """Add the lines of another transcript."""
        self._lines += lines

    def close(self) -> Exception | None:
        """Write the remaining events. If a write has failed, return its error."""
        if self._flush is not None:
            self._flush.cancel()
        self._write()
        return self._error

    @abstractmethod
    def _write(self) -> None:
        """Write the pending lines, and reset `_flush`. Store an error, because no caller waits for the write."""


EVENT_TYPES: Final[Mapping[str, type[Event]]] = {kind.__name__: kind for kind in Event.__subclasses__()}


def utc_timestamp() -> str:
    """Return the current time in UTC, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")
