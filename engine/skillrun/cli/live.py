"""What a person sees while a run goes on: a picture that keeps itself up to date, or plain lines.

The picture is for terminals; while a question is open it makes room for it.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from skillrun.cli.printing import Output
from skillrun.cli.words import counted, duration, line_of, money
from skillrun.language.printable import printable

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

    from skillrun.runtime.events import CallEnded, Event

MARKS: Final = {"completed": "✓", "skipped": "–", "failed": "✗", "waiting": "?", "back": "↺", "running": "▸", "": " "}
SCROLLS: Final = frozenset({"Notice", "Said", "Tripped", "WentBack", "CallEnded"})


@dataclass
class PhaseLine:
    status: str = ""
    round: int = 1
    seconds: float = 0.0
    since: float | None = None

    def took(self) -> float:
        return self.seconds if self.since is None else time.monotonic() - self.since


@dataclass
class Picture:
    """Where the run stands, as far as its events have told."""

    phases: dict[str, PhaseLine] = field(default_factory=dict)
    speaking: dict[str, tuple[str, str, str, float]] = field(default_factory=dict)
    calls: int = 0
    reused: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    price: float | None = 0.0
    since: float = field(default_factory=time.monotonic)

    def heard(self, event: Event) -> None:
        from skillrun.runtime.events import CallEnded, CallStarted, PhaseEnded, PhaseStarted, RunStarted, WentBack

        match event:
            case RunStarted():
                self.phases = {name: PhaseLine() for name in event.phases}
            case PhaseStarted():
                self.phases[event.phase] = PhaseLine("running", event.round, since=time.monotonic())
            case PhaseEnded():
                self.phases[event.phase] = PhaseLine(event.status, event.round, event.seconds)
            case WentBack():
                names = list(self.phases)
                for name in names[names.index(event.target) :]:
                    self.phases[name] = PhaseLine(round=event.round)
            case CallStarted():
                self.speaking[event.address] = (event.phase, event.member, event.model, time.monotonic())
            case CallEnded():
                self.speaking.pop(event.address, None)
                self._count(event)

    def _count(self, call: CallEnded) -> None:
        if call.replayed:
            self.reused += 1
            return
        self.calls += 1
        self.tokens_in += call.usage.get("input", 0)
        self.tokens_out += call.usage.get("output", 0)
        self.price = None if self.price is None or call.price is None else self.price + call.price

    def lines(self) -> list[str]:
        found = []
        wide = max(map(len, self.phases), default=0)
        for name, phase in list(self.phases.items()):
            took = duration(phase.took()) if phase.took() else ""
            again = f"round {phase.round}" if phase.round > 1 and phase.status else ""
            found.append(f"{MARKS.get(phase.status, ' ')} {name:<{wide}} {took:>12}  {again}".rstrip())
            for where, member, model, since in list(self.speaking.values()):
                if where == name:
                    found.append(f"    {member} · {model} · {duration(time.monotonic() - since)}")
        reused = f" · {self.reused} from the journal" if self.reused else ""
        usage = f"{counted(self.calls, 'call')}{reused} · {self.tokens_in:,} tokens in, {self.tokens_out:,} out"
        return [*found, f"{usage} · {money(self.price)} · {duration(time.monotonic() - self.since)}"]


class PlainView:
    """A line for each event that matters. While the terminal asks, lines wait."""

    def __init__(self, out: Output) -> None:
        self.out = out
        self._held: list[str] | None = None

    def heard(self, event: Event) -> None:
        told = event.to_dict()
        line = line_of(told) if told["event"] != "RunEnded" else ""
        if line:
            self.line(line)

    def line(self, text: str) -> None:
        if self._held is not None:
            self._held.append(text)
        else:
            self.show(text)

    def show(self, text: str) -> None:
        try:
            self.out.line(text)
        except BrokenPipeError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            self.out.note("nobody reads the output any more; the run goes on")

    @contextmanager
    def around(self) -> Iterator[None]:
        """Keep the terminal free for a question."""
        self._held = []
        try:
            yield
        finally:
            held, self._held = self._held, None
            for text in held:
                self.show(text)


class LiveView(PlainView):
    """The picture at the bottom of the terminal; lines scroll above it."""

    def __init__(self, out: Output, screen: Console) -> None:
        from rich.live import Live

        super().__init__(out)
        self.picture = Picture()
        self.screen = screen
        self.live = Live(console=screen, get_renderable=self._shown, refresh_per_second=4, transient=True)

    def heard(self, event: Event) -> None:
        self.picture.heard(event)
        if type(event).__name__ in SCROLLS:
            super().heard(event)

    def show(self, text: str) -> None:
        self.screen.print(printable(text))

    @contextmanager
    def around(self) -> Iterator[None]:
        self.live.stop()
        try:
            with super().around():
                yield
        finally:
            self.live.start()

    def _shown(self) -> RenderableType:
        from rich.text import Text

        return Text(printable("\n".join(self.picture.lines())), no_wrap=True, overflow="ellipsis")


@contextmanager
def view(out: Output) -> Iterator[PlainView]:
    """The picture where standard output is a terminal that can show it, otherwise lines."""
    if out.json or not sys.stdout.isatty():
        yield PlainView(out)
        return
    from rich.console import Console

    screen = Console(markup=False, highlight=False, emoji=False)
    if screen.is_dumb_terminal:
        yield PlainView(out)
        return
    shown = LiveView(out, screen)
    shown.live.start()
    try:
        yield shown
    finally:
        shown.live.transient = False
        shown.live.stop()
