"""The one stream of what happens in a run. The terminal, the transcript, reports and tests read it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from skillrun.types.records import NonNegativeFloat, NonNegativeInt

PHASE_FIELDS: Final = ("phase", "source", "target")  # the fields that name one


@dataclass(frozen=True)
class Event:
    def to_dict(self) -> dict[str, object]:
        return {"event": type(self).__name__, **vars(self)}

    def with_path_prefix(self, place: str) -> Event:
        """The same, of a phase of the workflow that is run at `place` of another: its name is the path to it."""
        names = {name: f"{place}/{value}" for name in PHASE_FIELDS if (value := getattr(self, name, ""))}
        return replace(self, **names)


@dataclass(frozen=True)
class RunStarted(Event):
    run: str
    workflow: str
    folder: str
    phases: Sequence[str]
    inputs: Mapping[str, Any]
    models: Mapping[str, str]
    resumed: bool = False
    flags: Mapping[str, str] = field(default_factory=dict)  # that `resume` takes, with absolute paths


@dataclass(frozen=True)
class Notice(Event):
    """Something about the run as a whole that its user has to know."""

    text: str
    level: str = "info"


@dataclass(frozen=True)
class PhaseStarted(Event):
    """`entry_type` says whether the person was away in between: `re_entry_after_user_input`, else `first_entry`."""

    phase: str
    round: NonNegativeInt
    entry_type: str = "first_entry"


@dataclass(frozen=True)
class PhaseEnded(Event):
    """`status`: completed, skipped, failed, needs-user-input or back. `final`: its summary was there already."""

    phase: str
    round: NonNegativeInt
    status: str
    seconds: NonNegativeFloat = 0.0
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
    seconds: NonNegativeFloat = 0.0
    usage: Mapping[str, NonNegativeInt] = field(default_factory=dict)
    price: NonNegativeFloat | None = None
    text: str = ""
    stop: str = ""
    error: str = ""


@dataclass(frozen=True)
class Pruned(Event):
    """Something was left out of a member's reply, as it did not fit: `items` have `path`, `reason` and `text`."""

    address: str
    phase: str
    member: str
    items: Sequence[Mapping[str, Any]]
    text: str
    level: str = "warn"


@dataclass(frozen=True)
class ToolUsed(Event):
    address: str
    phase: str
    tool: str
    arguments: Mapping[str, Any]
    replayed: bool


@dataclass(frozen=True)
class ItemEnded(Event):
    """An item of an `each`, which is `done` or `failed`, as the number `ended` of so many."""

    phase: str
    step: str
    item: str
    status: str
    ended: NonNegativeInt
    of: NonNegativeInt
    reason: str = ""


@dataclass(frozen=True)
class Said(Event):
    phase: str
    text: str
    level: str = "info"


@dataclass(frozen=True)
class Asked(Event):
    """`computed`: the words are not the workflow's own, or not all of them.

    `fingerprint` is that of the answers' record, for who answers from outside; `may_skip`: each may be left open;
    `enough`: the words that end the list.
    """

    address: str
    phase: str
    questions: Sequence[Mapping[str, Any]]
    computed: bool = False
    fingerprint: str = ""
    may_skip: bool = False
    enough: str = ""


@dataclass(frozen=True)
class Answered(Event):
    address: str
    phase: str
    answers: Sequence[Mapping[str, Any]]
    replayed: bool


@dataclass(frozen=True)
class Wrote(Event):
    path: str
    phase: str
    changed: bool


@dataclass(frozen=True)
class Tripped(Event):
    """A breaker has reached its limit of failures in a row; counted over phases, there may be more of them."""

    breaker: str
    phase: str
    failures: NonNegativeInt
    action: str
    limit: NonNegativeInt = 0


@dataclass(frozen=True)
class WentBack(Event):
    source: str
    target: str
    round: NonNegativeInt


@dataclass(frozen=True)
class Expected(Event):
    """What the run is expected to use, as its path has changed; `because` says how. `turns` are those with tools."""

    phase: str
    because: str
    calls: NonNegativeInt
    turns: NonNegativeInt
    tokens: NonNegativeInt
    price: NonNegativeFloat | None = None


@dataclass(frozen=True)
class RunEnded(Event):
    run: str
    status: str
    reason: str
    usage: Mapping[str, Any]
    next_step: str = ""


Listener = Callable[[Event], None]


class EventStream:
    """Hands each event to every listener, in order. One that fails is told of and not called again."""

    def __init__(self, *listeners: Listener) -> None:
        self.listeners = list(listeners)

    def emit(self, event: Event) -> None:
        for listener in tuple(self.listeners):
            try:
                listener(event)
            except Exception as error:  # noqa: BLE001 (who only listens ends no run)
                self.drop_listener(listener, error)

    def drop_listener(self, listener: Listener, error: Exception) -> None:
        """Go on without a listener, and tell the others once."""
        if listener in self.listeners:
            self.listeners.remove(listener)
            what = getattr(getattr(listener, "__self__", None), "what", "a view of this run")
            why = getattr(error, "strerror", None) or str(error) or type(error).__name__
            self.emit(Notice(f"{what} is not kept any further: {why}", "warn"))
