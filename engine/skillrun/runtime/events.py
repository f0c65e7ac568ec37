"""The one stream of what happens in a run. The terminal, the transcript, reports and tests read it."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Final

from skillrun.language.text.diagnostics import SkillrunError
from skillrun.tools.tree import Tree

TRANSCRIPT: Final = ".run/transcript.ndjson"
FLUSH: Final = 0.1  # seconds
PHASES: Final = ("phase", "source", "target")  # the fields that name one


@dataclass(frozen=True)
class Event:
    def to_dict(self) -> dict[str, object]:
        return {"event": type(self).__name__, **vars(self)}

    def within(self, place: str) -> Event:
        """The same, of a phase of the workflow that is run at `place` of another: its name is the path to it."""
        names = {name: f"{place}/{value}" for name in PHASES if (value := getattr(self, name, ""))}
        return replace(self, **names)


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
class Pruned(Event):
    """Something was left out of a member's reply, as it did not fit: `items` have `path`, `reason` and `text`."""

    address: str
    phase: str
    member: str
    items: tuple[Mapping[str, Any], ...]
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
    ended: int
    of: int
    reason: str = ""


@dataclass(frozen=True)
class Said(Event):
    phase: str
    text: str
    level: str = "info"


@dataclass(frozen=True)
class Asked(Event):
    """`computed`: the words are not the workflow's own, or not all of them."""

    address: str
    phase: str
    questions: tuple[Mapping[str, Any], ...]
    computed: bool = False


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
    """A breaker has reached its limit of failures in a row; counted over phases, there may be more of them."""

    breaker: str
    phase: str
    failures: int
    action: str
    limit: int = 0


@dataclass(frozen=True)
class WentBack(Event):
    source: str
    target: str
    round: int


@dataclass(frozen=True)
class Expected(Event):
    """What the run is expected to use, as its path has changed; `because` says how. `turns` are those with tools."""

    phase: str
    because: str
    calls: int
    turns: int
    tokens: int
    price: float | None = None


@dataclass(frozen=True)
class RunEnded(Event):
    run: str
    status: str
    reason: str
    usage: Mapping[str, Any]
    next_step: str = ""


Listener = Callable[[Event], None]


class Events:
    """Hands each event to every listener, in order. One that fails is told of and not called again."""

    def __init__(self, *listeners: Listener) -> None:
        self.listeners = list(listeners)

    def emit(self, event: Event) -> None:
        for listener in tuple(self.listeners):
            try:
                listener(event)
            except Exception as error:  # noqa: BLE001 (who only listens ends no run)
                self.drop(listener, error)

    def drop(self, listener: Listener, error: Exception) -> None:
        """Go on without a listener, and tell the others once."""
        if listener in self.listeners:
            self.listeners.remove(listener)
            what = getattr(getattr(listener, "__self__", None), "what", "a view of this run")
            why = getattr(error, "strerror", None) or str(error) or type(error).__name__
            self.emit(Notice(f"{what} is not kept any further: {why}", "warn"))


class Transcript:
    """`.run/transcript.ndjson`: every event of the run, a line each, on disk within a moment."""

    what = f"the transcript ({TRANSCRIPT})"

    def __init__(self, folder: Tree) -> None:
        """In the run's folder. Raises PathRefused where the file is a link or nothing regular."""
        self._folder = folder
        self._file: int | None = None
        self._encode = json.JSONEncoder(default=str, check_circular=False).encode  # ASCII: `cat` shows it as it is
        self._flush: asyncio.TimerHandle | None = None
        self._lines: list[str] = []
        self._error: Exception | None = None
        try:
            self._file = folder.open(TRANSCRIPT, os.O_RDWR | os.O_APPEND | os.O_CREAT)
            size = os.fstat(self._file).st_size
            if size and os.pread(self._file, 1, size - 1) != b"\n":  # cut off by a kill or a full disk
                self._lines.append("\n")
        except OSError as error:
            self._error = error

    def heard(self, event: Event) -> None:
        """Raises why the file could not be opened, or an earlier line not be written."""
        if self._error is not None:
            raise self._error
        at = datetime.now(UTC).isoformat(timespec="milliseconds")
        self._lines.append(self._encode({"at": at, **event.to_dict()}) + "\n")
        if self._flush is None:
            self._flush = asyncio.get_running_loop().call_later(FLUSH, self._write)

    def _write(self) -> None:
        """Write what was heard; a failure is kept for whoever comes next, because nobody waits for this one."""
        self._flush = None
        data, self._lines = "".join(self._lines).encode(), []
        try:
            self._folder.check(here=False)
            while data and self._file is not None and self._error is None:
                data = data[os.write(self._file, data) :]
        except (OSError, SkillrunError) as error:
            self._error = error

    def close(self) -> Exception | None:
        """Write what is left; why not all of it was written, where it was not."""
        if self._flush is not None:
            self._flush.cancel()
        self._write()
        if self._file is not None:
            os.close(self._file)
        return self._error
