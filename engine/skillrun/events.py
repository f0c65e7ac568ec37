"""The events of a run, which the terminal, the transcript, reports and tests read."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from skillrun.types.records import NonNegativeFloat, NonNegativeInt

PHASE_FIELDS: Final = ("phase", "source", "target")  # the fields of events that contain the name of a phase


@dataclass(frozen=True)
class Event:
    def to_dict(self) -> dict[str, object]:
        return {"event": type(self).__name__, **vars(self)}

    def with_path_prefix(self, place: str) -> Event:
        """Return the event with `place` added before each phase name. `place` is the path of the step that runs the
        phase's workflow."""
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
    flags: Mapping[str, str] = field(default_factory=dict)  # the flags for `resume`; paths in them are absolute


@dataclass(frozen=True)
class Notice(Event):
    """A message to the user about the whole run."""

    text: str
    level: str = "info"


@dataclass(frozen=True)
class PhaseStarted(Event):
    """A phase starts. `entry_type` is `re_entry_after_user_input` if the phase waited for the user, and `first_entry`
    if not."""

    phase: str
    round: NonNegativeInt
    entry_type: str = "first_entry"


@dataclass(frozen=True)
class PhaseEnded(Event):
    """A phase has ended. `final` means that the phase ended in an earlier evaluation, whose summary is used.

    `status` is completed, skipped, failed, needs-user-input, stopped or back.
    """

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
    """A call has ended. `replayed` means that the reply is from the journal. `price` is None if it is unknown.

    `error` is empty unless the call failed.
    """

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
    """Invalid items were removed from a member's reply. Each of `items` has `path`, `reason` and `text`."""

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
    """An item of an `each` has ended: it is `done` or `failed`. `ended` counts all ended items, and `of` all items."""

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
    """The user is asked questions. `computed` means that an expression can have generated the text of a question.

    `fingerprint` identifies the questions, so that another process can supply the answers. `may_skip` allows the user
    to leave questions open. `enough` is the answer with which the user ends the list.
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
    """A breaker has reached its limit of consecutive failures. `failures` can exceed the limit, because the count
    continues in later phases."""

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
    """A new estimate for a run that deviates from its previous estimate. `because` is the reason.

    `turns` is the number of turns with tools.
    """

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
    """Passes each event to all listeners, in their order. A listener that raises an error is reported and removed."""

    def __init__(self, *listeners: Listener) -> None:
        self.listeners = list(listeners)

    def emit(self, event: Event) -> None:
        for listener in tuple(self.listeners):
            try:
                listener(event)
            except Exception as error:  # noqa: BLE001 (a failing listener must not end the run)
                self.drop_listener(listener, error)

    def drop_listener(self, listener: Listener, error: Exception) -> None:
        """Remove a listener, and notify the other listeners once."""
        if listener in self.listeners:
            self.listeners.remove(listener)
            what = getattr(getattr(listener, "__self__", None), "what", "a view of this run")
            why = getattr(error, "strerror", None) or str(error) or type(error).__name__
            self.emit(Notice(f"{what} stopped: {why}", "warn"))
