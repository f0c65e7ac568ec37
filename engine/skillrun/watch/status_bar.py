"""The line at the foot of a terminal, below all that is printed. On a terminal that cannot move back there is none."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from skillrun.cli.output import Output
from skillrun.syntax.diagnostics import make_printable

ERASE: Final = "\r\x1b[2K"
DIM, RESET = "\x1b[2m", "\x1b[0m"


@dataclass(frozen=True)
class StatusBar(Output):
    """An `Output` with a line at its foot, which `foot` gives each time when it is drawn: the first that has room.

    While it is held, lines wait: somebody else has the terminal, or it is not known yet whether they are to be shown.
    """

    status_texts: Callable[[], Sequence[str]] = tuple
    can_redraw: bool = False
    _held_lines: list[list[tuple[bool, str]]] = field(default_factory=list)  # whether it is a note, and the text

    def line(self, text: str = "") -> None:
        self._write(text, is_note=False)

    def note(self, text: str) -> None:
        self._write(text, is_note=True)

    def write_lines(self, lines: Iterable[tuple[bool, str]]) -> None:
        """Say what was held."""
        for is_note, text in lines:
            self._write(text, is_note=is_note)

    def draw(self) -> None:
        """Draw the foot again: what it says is another thing now."""
        if self.can_redraw and not self._held_lines:
            sys.stdout.write(ERASE + self._render())
            sys.stdout.flush()

    def erase(self) -> None:
        if self.can_redraw:
            sys.stdout.write(ERASE)
            sys.stdout.flush()

    @contextmanager
    def hold_lines(self) -> Iterator[list[tuple[bool, str]]]:
        """Keep what is said meanwhile; it is said behind the block, unless the block has emptied the list."""
        lines: list[tuple[bool, str]] = []
        self._held_lines.append(lines)
        try:
            yield lines
        finally:
            self._held_lines.pop()
            self.write_lines(lines)

    @contextmanager
    def release_terminal(self) -> Iterator[None]:
        """Leave the terminal to somebody else."""
        self.erase()
        with self.hold_lines():
            yield
        self.draw()

    def _write(self, text: str, *, is_note: bool) -> None:
        if self._held_lines:
            self._held_lines[-1].append((is_note, text))
            return
        self.erase()
        if is_note:
            super().note(text)
        else:
            super().line(text)
        self.draw()

    def _render(self) -> str:
        from rich.cells import cell_len, set_cell_size

        room = shutil.get_terminal_size().columns - 1
        texts = [" ".join(make_printable(text).split("\n")) for text in self.status_texts()]
        text = next((text for text in texts if cell_len(text) <= room), texts[-1] if texts else "")
        if cell_len(text) > room:
            text = set_cell_size(text, max(0, room - 1)).rstrip() + "…"
        return f"{DIM}{text}{RESET}" if text and not os.environ.get("NO_COLOR") else text


def supports_redraw() -> bool:
    """Whether the terminal of standard output draws over what it has shown."""
    return sys.stdout.isatty() and os.environ.get("TERM", "dumb") not in ("dumb", "unknown", "")
