"""Displays a run while it executes: a live display in a terminal, or plain lines.

The live display is hidden while a question is open.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from skillrun.cli.formatting import format_duration, format_event, format_usage, format_waiting
from skillrun.cli.output import Output
from skillrun.definitions.definitions import enclosing_items
from skillrun.events import (
    Answered,
    Asked,
    CallEnded,
    CallStarted,
    Event,
    ItemEnded,
    PhaseEnded,
    PhaseStarted,
    RunStarted,
    WentBack,
    Wrote,
)
from skillrun.models.messages import Usage
from skillrun.runtime.phase_record import UsageTotals
from skillrun.store.run_history import RunTimes
from skillrun.store.summaries import WAITING_STATUS
from skillrun.syntax.diagnostics import indent_continuation, make_printable

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.live import Live

MARKS: Final = {"completed": "✓", "skipped": "–", "failed": "✗", "needs-user-input": "?", "back": "↺", "running": "▸"}
SCROLLING_EVENTS: Final = ("RunStarted", "Notice", "Said", "Pruned", "Tripped", "WentBack", "Expected", "CallEnded")
QUIET_EVENTS: Final = ("PhaseEnded", "Pruned", "Tripped", "WentBack", "CallEnded")


@dataclass
class PhaseProgress:
    status: str = ""
    round: int = 1
    seconds: float = 0.0
    started_at: float | None = None
    items: dict[str, str] = field(default_factory=dict)  # progress of each `each` step, such as `2 of 5`


class RunProgress:
    """The progress of a run, from its events."""

    def __init__(self) -> None:
        self.phases: dict[str, PhaseProgress] = {}
        self.speaking: dict[str, tuple[CallStarted, float]] = {}
        self.total = UsageTotals()
        self.since = time.monotonic()
        self.times = RunTimes()

    def on_event(self, event: Event) -> None:
        self.times.add(event.to_dict(), time.monotonic())
        match event:
            case RunStarted():
                self.phases = {name: PhaseProgress() for name in event.phases}
            case PhaseStarted():
                self.phases[event.phase] = PhaseProgress("running", event.round, started_at=time.monotonic())
            case PhaseEnded():
                self.phases[event.phase] = PhaseProgress(event.status, event.round, event.seconds)
            case WentBack():
                parent = event.target.rpartition("/")[0]  # the path of the step that runs the phase's workflow
                names = [name for name in self.phases if name.rpartition("/")[0] == parent]
                for name in names[names.index(event.target) :]:
                    self.phases[name] = PhaseProgress(round=event.round)
            case ItemEnded() if event.phase in self.phases:
                self.phases[event.phase].items[event.step] = f"{event.ended} of {event.of}"
            case CallStarted():
                self.speaking[event.address] = (event, time.monotonic())
            case CallEnded():
                self.speaking.pop(event.address, None)
                if not event.replayed and not event.error:
                    self.total += UsageTotals(1, Usage(**event.usage), event.price)

    def lines(self) -> list[str]:
        now = time.monotonic()
        width = max(map(len, self.phases), default=0)
        lines = []
        for name, phase in list(self.phases.items()):
            seconds = phase.seconds if phase.started_at is None else now - phase.started_at
            took = format_duration(seconds) if seconds else ""
            round_text = f"round {phase.round}" if phase.round > 1 and phase.status else ""
            waited = format_waiting(self.times.waiting_seconds(name, now))
            more = ", ".join(filter(None, (round_text, waited)))
            lines.append(f"{MARKS.get(phase.status, ' ')} {name:<{width}} {took:>12}  {more}".rstrip())
            lines += [f"    {step}: {ended}" for step, ended in phase.items.items()]
            for call, since in list(self.speaking.values()):
                if call.phase == name:
                    label = " · ".join(filter(None, (enclosing_items(call.address), call.member)))
                    lines.append(f"    {label} · {call.model} · {format_duration(now - since)}")
        waited = format_waiting(self.times.answers.seconds(now))
        totals = (format_usage(self.total.to_dict()), format_duration(now - self.since), waited)
        return [*lines, " · ".join(filter(None, totals))]


class PlainView:
    """Prints a line for each relevant event. Lines are held back while the terminal shows a question.

    A question is printed only when it is answered; the last lines of the run list the open questions.
    """

    def __init__(self, out: Output) -> None:
        self.out = out
        self._held: list[str] | None = None
        self._asked: dict[str, str] = {}  # questions without an answer, by their address
        self._written: set[str] = set()  # lines about files, since a phase started
        self._times = RunTimes()

    def on_event(self, event: Event) -> None:
        record, now = event.to_dict(), time.monotonic()
        self._times.add(record, now)
        if isinstance(event, PhaseEnded):
            record["waited"] = format_waiting(self._times.waiting_seconds(event.phase, now))
        line = format_event(record) if record["event"] != "RunEnded" else ""
        if isinstance(event, PhaseStarted):
            self._written.clear()
        if isinstance(event, Wrote):
            line = "" if line in self._written else line
            self._written.add(line)
        if isinstance(event, Asked):
            self._asked[event.address] = line
            return
        if isinstance(event, Answered) and (asked := self._asked.pop(event.address, "")):
            self._write(asked)
        if isinstance(event, PhaseEnded) and event.status == WAITING_STATUS:
            line = format_event({**record, "reason": ""})
        if line:
            self._write(line)

    def line(self, text: str) -> None:
        """Print a line that does not come from an event."""
        self._write(indent_continuation(text))

    def _write(self, text: str) -> None:
        if self._held is not None:
            self._held.append(text)
        else:
            self.print_line(text)

    def print_line(self, text: str) -> None:
        try:
            self.out.text(text, needs_reader=True)
        except OSError as error:
            gone = isinstance(error, BrokenPipeError)
            why = "the output was closed" if gone else f"the output cannot be written ({error.strerror})"
            with suppress(OSError):
                self.out.note(f"{why}; the run continues")

    @contextmanager
    def hold_output(self) -> Iterator[None]:
        """Hold lines back during the block, so that the terminal is free for a question."""
        self._held = []
        try:
            yield
        finally:
            held_lines, self._held = self._held, None
            for text in held_lines:
                self.print_line(text)


class QuietView(PlainView):
    """Prints only warnings and the events in `QUIET_EVENTS`, without skipped phases."""

    def on_event(self, event: Event) -> None:
        if isinstance(event, PhaseEnded) and event.status == "skipped":
            return
        if type(event).__name__ in QUIET_EVENTS or getattr(event, "level", "") == "warn":
            super().on_event(event)


class LiveView(PlainView):
    """The live display at the bottom of the terminal; lines scroll above it."""

    def __init__(self, out: Output, screen: Console) -> None:
        super().__init__(out)
        self.picture = RunProgress()
        self.screen = screen
        self.live = self._create_display()

    def _create_display(self) -> Live:
        from rich.live import Live

        return Live(console=self.screen, get_renderable=self._render, refresh_per_second=4, transient=True)

    def on_event(self, event: Event) -> None:
        self.picture.on_event(event)
        if type(event).__name__ in SCROLLING_EVENTS:
            super().on_event(event)

    def print_line(self, text: str) -> None:
        self.screen.print(make_printable(text))

    @contextmanager
    def hold_output(self) -> Iterator[None]:
        self.live.stop()
        try:
            with super().hold_output():
                yield
        finally:
            self.live = self._create_display()  # the stopped display would erase lines of the question
            self.live.start()

    def _render(self) -> RenderableType:
        from rich.text import Text

        return Text(make_printable("\n".join(self.picture.lines())), no_wrap=True, overflow="ellipsis")


@contextmanager
def run_view(out: Output) -> Iterator[PlainView]:
    """Yield the live display if standard output is a capable terminal, otherwise a view that prints lines."""
    screen = None
    if not (out.quiet or out.json) and sys.stdout.isatty():
        from rich.console import Console

        screen = Console(markup=False, highlight=False, emoji=False)
    if screen is None or screen.is_dumb_terminal:
        yield QuietView(out) if out.quiet else PlainView(out)
        return
    display = LiveView(out, screen)
    display.live.start()
    try:
        yield display
    finally:
        display.live.transient = False
        display.live.stop()
