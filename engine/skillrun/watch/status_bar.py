"""A status bar in the last line of the terminal, below all output. It requires a terminal that can redraw a line."""

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
    """An `Output` with a status bar. The bar shows the first of `status_texts()` that fits.

    Lines can be held back while another program has the terminal, or until it is clear whether they are needed.
    """

    status_texts: Callable[[], Sequence[str]] = tuple
    can_redraw: bool = False
    _held_lines: list[list[tuple[bool, str]]] = field(default_factory=list)  # (is_note, text)

    def line(self, text: str = "") -> None:
        self._write(text, is_note=False)

    def note(self, text: str) -> None:
        self._write(text, is_note=True)

    def write_lines(self, lines: Iterable[tuple[bool, str]]) -> None:
        """Print held lines."""
        for is_note, text in lines:
            self._write(text, is_note=is_note)

    def draw(self) -> None:
        """Redraw the status bar with its current text."""
        if self.can_redraw and not self._held_lines:
            sys.stdout.write(ERASE + self._render())
            sys.stdout.flush()

    def erase(self) -> None:
        if self.can_redraw:
            sys.stdout.write(ERASE)
            sys.stdout.flush()

    @contextmanager
    def hold_lines(self) -> Iterator[list[tuple[bool, str]]]:
        """Hold lines back in the yielded list during the block. Then print the lines that are still in the list."""
        lines: list[tuple[bool, str]] = []
        self._held_lines.append(lines)
        try:
            yield lines
        finally:
            self._held_lines.pop()
            self.write_lines(lines)

    @contextmanager
    def release_terminal(self) -> Iterator[None]:
        """Leave the terminal to another program during the block."""
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
