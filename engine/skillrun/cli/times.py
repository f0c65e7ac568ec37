"""Computes from the events of a run how long it called models, waited for answers, and took in total."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from skillrun.cli.formatting import Data, format_duration

MIN_WAITING = 0.05  # seconds; shorter waiting times are not shown


class Stopwatch:
    """Measures how long at least one of several activities was running; parallel activities count once."""

    def __init__(self) -> None:
        self._seconds = 0.0
        self._since = 0.0
        self._running: set[str] = set()

    def start(self, name: str, at: float) -> None:
        if not self._running:
            self._since = at
        self._running.add(name)

    def stop(self, name: str, at: float) -> None:
        if name in self._running:
            self._running.remove(name)
            if not self._running:
                self._seconds += max(0.0, at - self._since)

    def stop_all(self, at: float) -> None:
        for name in [*self._running]:
            self.stop(name, at)

    def seconds(self, now: float) -> float:
        """Return the measured seconds up to `now`."""
        return self._seconds + (max(0.0, now - self._since) if self._running else 0.0)


class RunTimes:
    """The time that a run spends on model calls and on waiting for answers. Both times may overlap."""

    def __init__(self) -> None:
        self.models = Stopwatch()
        self.answers = Stopwatch()
        self.first: float | None = None
        self.last = 0.0
        self._phases: defaultdict[str, Stopwatch] = defaultdict(Stopwatch)

    def add(self, event: Data, at: float) -> None:
        """Add an event of the run that happened at `at`, in seconds."""
        kind, address = event["event"], str(event.get("address", ""))
        phase = str(event.get("phase", ""))
        own_phase = phase.partition("/")[0]  # not that of a workflow which a step of the run executes
        before = self.last if self.first is not None else at
        self.first = at if self.first is None else self.first
        match kind:
            case "RunStarted":  # open calls of a killed process ended with its last event
                self.models.stop_all(before)
                self.answers.stop_all(at)
            case "RunEnded":
                self.models.stop_all(at)
                if event["status"] == "waiting":
                    self.answers.start("", at)
                else:
                    self.answers.stop_all(at)
            case "PhaseStarted":
                self._phases.pop(phase, None)
            case "CallStarted":
                self.models.start(address, at)
            case "CallEnded":
                self.models.stop(address, at)
            case "Asked":
                self.answers.start(address, at)
                self._phases[own_phase].start(address, at)
            case "Answered":
                self.answers.stop(address, at)
                self._phases[own_phase].stop(address, at)
        self.last = max(before, at)

    def waiting_seconds(self, phase: str, now: float) -> float:
        """Return the seconds that a phase has waited for answers since its last start."""
        return self._phases[phase].seconds(now) if phase in self._phases else 0.0

    def to_dict(self) -> dict[str, float]:
        """Return the seconds up to the last event: `models`, `answers`, and `total` since the first event."""
        total = self.last - self.first if self.first is not None else 0.0
        parts = {"models": self.models.seconds(self.last), "answers": self.answers.seconds(self.last), "total": total}
        return {name: round(seconds, 3) for name, seconds in parts.items()}


def format_waiting(seconds: float) -> str:
    """Return text such as `26.9 s waiting for answers`; empty for less than `MIN_WAITING`."""
    return f"{format_duration(seconds)} waiting for answers" if seconds >= MIN_WAITING else ""


def format_run_times(times: dict[str, Any]) -> str:
    """Return text such as `time: 0.1 s of model calls, 26.9 s waiting for answers, 27.0 s in all`."""
    answers = format_waiting(times["answers"])
    return (
        f"time: {format_duration(times['models'])} of model calls, {answers}, {format_duration(times['total'])} in all"
    )
