"""The one stream of what happens in a run. The terminal, the transcript, reports and tests read it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Event:
    def to_dict(self) -> dict[str, Any]:
        return {"event": type(self).__name__, **vars(self)}


@dataclass(frozen=True)
class RunStarted(Event):
    run: str
    workflow: str
    folder: str
    phases: tuple[str, ...]
    inputs: Mapping[str, Any]
    models: Mapping[str, str]
    resumed: bool = False


@dataclass(frozen=True)
class Notice(Event):
    """Something about the run as a whole that its user has to know."""

    text: str
    level: str = "info"


@dataclass(frozen=True)
class PhaseStarted(Event):
    """`entry_type` says whether the person was away in between: `re_entry_after_user_input`, else `first_entry`."""

    phase: str
    round: int
    entry_type: str = "first_entry"


@dataclass(frozen=True)
class PhaseEnded(Event):
    """`status`: completed, skipped, failed, needs-user-input or back. `final`: its summary was there already."""

    phase: str
    round: int
    status: str
    seconds: float = 0.0
    final: bool = False
    reason: str = ""


@dataclass(frozen=True)
class CallStarted(Event):
    address: str
    phase: str
    member: str
    model: str


@dataclass(frozen=True)
class CallEnded(Event):
    """`replayed`: answered by the journal. `price` is None where it is unknown; a failed call has an `error`."""

    address: str
    phase: str
    member: str
    model: str
    replayed: bool
    seconds: float = 0.0
    usage: Mapping[str, int] = field(default_factory=dict)
    price: float | None = None
    text: str = ""
    stop: str = ""
    error: str = ""


@dataclass(frozen=True)
class ToolUsed(Event):
    address: str
    phase: str
    tool: str
    arguments: Mapping[str, Any]
    replayed: bool


@dataclass(frozen=True)
class Said(Event):
    phase: str
    text: str
    level: str = "info"


@dataclass(frozen=True)
class Asked(Event):
    address: str
    phase: str
    questions: tuple[Mapping[str, Any], ...]


@dataclass(frozen=True)
class Answered(Event):
    address: str
    phase: str
    answers: tuple[Mapping[str, Any], ...]
    replayed: bool


@dataclass(frozen=True)
class Wrote(Event):
    path: str
    phase: str
    changed: bool


@dataclass(frozen=True)
class Tripped(Event):
    """A breaker has reached its limit of failures in a row."""

    breaker: str
    phase: str
    failures: int
    action: str


@dataclass(frozen=True)
class WentBack(Event):
    source: str
    target: str
    round: int


@dataclass(frozen=True)
class RunEnded(Event):
    run: str
    status: str
    reason: str
    usage: Mapping[str, Any]
    next_step: str = ""


Listener = Callable[[Event], None]


class Events:
    """Hands each event to every listener, in order."""

    def __init__(self, *listeners: Listener) -> None:
        self.listeners = list(listeners)

    def emit(self, event: Event) -> None:
        for listener in self.listeners:
            listener(event)
