"""What a person sees while a run goes on: a picture that keeps itself up to date, or plain lines.

The picture is for terminals; while a question is open it makes room for it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from skillrun.cli.figures import counted, duration, money
from skillrun.cli.lines import line_of
from skillrun.cli.printing import Output, console
from skillrun.language.printable import printable

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

    from skillrun.runtime.events import Event

MARKS: Final = {"completed": "✓", "skipped": "–", "failed": "✗", "waiting": "?", "back": "↺", "running": "▸", "": " "}


@dataclass
class PhaseLine:
    status: str = ""
    round: int = 1
    seconds: float = 0.0
    since: float | None = None

    def took(self) -> float:
        return self.seconds + (time.monotonic() - self.since if self.since is not None else 0.0)


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
                self._count(event.replayed, event.usage.get("input", 0), event.usage.get("output", 0), event.price)

    def _count(self, replayed: bool, tokens_in: int, tokens_out: int, price: float | None) -> None:
        if replayed:
            self.reused += 1
            return
        self.calls += 1
        self.tokens_in += tokens_in
        self.tokens_out += tokens_out
        self.price = None if self.price is None or price is None else self.price + price

    def lines(self) -> list[str]:
        found = []
        wide = max(map(len, self.phases), default=0)
        for name, phase in list(self.phases.items()):
            took = duration(phase.took()) if phase.since is not None or phase.seconds else ""
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
        self.asking = False
        self._held: list[str] = []

    def heard(self, event: Event) -> None:
        if type(event).__name__ != "RunEnded":
            line = line_of(event.to_dict())
            if line:
                self.line(line)

    def line(self, text: str) -> None:
        if self.asking:
            self._held.append(text)
        else:
            self.show(text)

    def show(self, text: str) -> None:
        self.out.line(text)

    @contextmanager
    def around(self) -> Iterator[None]:
        """Keep the terminal free for a question."""
        self.asking = True
        try:
            yield
        finally:
            self.asking = False
            held, self._held = self._held, []
            for text in held:
                self.show(text)


class LiveView(PlainView):
    """The picture at the bottom of the terminal; lines scroll above it."""

    SCROLLS: Final = frozenset({"Notice", "Said", "Tripped", "WentBack", "CallEnded"})

    def __init__(self, out: Output, screen: Console) -> None:
        from rich.live import Live

        super().__init__(out)
        self.picture = Picture()
        self.screen = screen
        self.live = Live(console=screen, get_renderable=self._shown, refresh_per_second=4, transient=True)

    def heard(self, event: Event) -> None:
        self.picture.heard(event)
        if type(event).__name__ in self.SCROLLS:
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
    import sys

    if out.json or not sys.stdout.isatty():
        yield PlainView(out)
        return
    screen = console()
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
