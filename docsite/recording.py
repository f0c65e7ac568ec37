"""Records a terminal program and draws the recording as an animated SVG."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import struct
import subprocess
import termios
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Final
from xml.sax.saxutils import escape

import pyte

CELL_WIDTH: Final = 8.4
LINE_HEIGHT: Final = 19
MARGIN: Final = 16
BACKGROUND: Final = "#1e2127"
FOREGROUND: Final = "#d7dae0"
COLORS: Final = {
    "black": "#5c6370",
    "red": "#f07178",
    "green": "#98c379",
    "brown": "#e5c07b",  # pyte's name of ANSI yellow
    "blue": "#61afef",
    "magenta": "#c678dd",
    "cyan": "#56b6c2",
    "white": "#ffffff",
}
SHORTEST, LONGEST, LAST = 0.12, 1.4, 5.0  # seconds that a frame is shown
PATIENCE: Final = 120  # seconds that `wait` waits


@dataclass(frozen=True)
class Run:
    """Consecutive characters of one line with the same look, and the column of the first."""

    column: int
    text: str
    color: str
    is_bold: bool


Line = tuple[Run, ...]


@dataclass(frozen=True)
class Frame:
    """The screen and the caption below it, with the seconds from the start at which they appear."""

    at: float
    lines: tuple[Line, ...]
    caption: str


class Terminal:
    """A program in its own terminal. Every change of the screen is kept as a frame."""

    def __init__(
        self, command: Sequence[str], folder: Path, environ: Mapping[str, str], size: tuple[int, int], typed: str
    ) -> None:
        columns, rows = size
        self.frames: list[Frame] = []
        self._caption = ""
        self._screen = pyte.Screen(columns, rows)
        self._stream = pyte.ByteStream(self._screen)
        self._stream.feed(f"{typed}\n".replace("\n", "\r\n").encode())
        self._held = 0.0
        self._started = time.monotonic()
        self._terminal, programs_end = pty.openpty()
        fcntl.ioctl(programs_end, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self._program = subprocess.Popen(
            command,
            cwd=folder,
            env=dict(environ),
            stdin=programs_end,
            stdout=programs_end,
            stderr=programs_end,
            start_new_session=True,
        )
        os.close(programs_end)
        self._keep()

    def wait(self, is_reached: Callable[[str], bool]) -> None:
        """Record until the text of the screen passes `is_reached`. Raises TimeoutError."""
        until = time.monotonic() + PATIENCE
        while not is_reached(text := "\n".join(self._screen.display)):
            if time.monotonic() > until:
                raise TimeoutError(text)
            if select.select([self._terminal], [], [], 0.05)[0]:
                self._stream.feed(os.read(self._terminal, 65536))
                self._keep()

    def annotate(self, caption: str) -> None:
        """Hold the screen for a moment, then show a caption."""
        self._held += LONGEST
        self._caption = caption
        self._keep()
        self._held += LONGEST

    def close(self, keys: bytes) -> None:
        """Send the keys that end the program, and wait until it exits."""
        os.write(self._terminal, keys)
        self._program.wait(PATIENCE)
        os.close(self._terminal)

    def _keep(self) -> None:
        columns = range(self._screen.columns)
        lines = []
        for row in range(self._screen.lines):
            cells = [self._screen.buffer[row][column] for column in columns]
            runs = []
            for (color, is_bold), group in groupby(zip(columns, cells, strict=True), lambda cell: _look(cell[1])):
                column, text = (found := list(group))[0][0], "".join(cell.data for _, cell in found).rstrip()
                if text:
                    indent = len(text) - len(text.lstrip())
                    runs.append(Run(column + indent, text.lstrip(), color, is_bold))
            lines.append(tuple(runs))
        frame = Frame(time.monotonic() - self._started + self._held, tuple(lines), self._caption)
        if not self.frames or (frame.lines, frame.caption) != (self.frames[-1].lines, self.frames[-1].caption):
            self.frames.append(frame)


def _look(cell: pyte.screens.Char) -> tuple[str, bool]:
    """The colour and the weight of a character."""
    name = cell.fg.removeprefix("bright")
    color = FOREGROUND if name == "default" else COLORS.get(name, f"#{name}")
    return color, cell.bold


def draw(frames: Sequence[Frame], columns: int, title: str) -> str:
    """The frames as one looping SVG, which shows the last frame if the reader prefers reduced motion.

    The frames are laid out in a row, and the view moves from one to the next. Lines in several frames are drawn once.
    """
    shown = _timed(frames)
    width = round(columns * CELL_WIDTH) + 2 * MARGIN
    rows = len(shown[0][0].lines)
    height = rows * LINE_HEIGHT + 2 * MARGIN
    bar = LINE_HEIGHT + MARGIN
    lines: dict[Line, str] = {}
    for frame, _ in shown:
        for line in frame.lines:
            if line:
                lines.setdefault(line, f"l{len(lines)}")
    total = sum(seconds for _, seconds in shown)
    at, steps, groups = 0.0, [], []
    for number, (frame, seconds) in enumerate(shown):
        steps.append(f"{100 * at / total:.2f}%{{transform:translateX(-{number * width}px)}}")
        at += seconds
        used = "".join(
            f'<use href="#{lines[line]}" y="{row * LINE_HEIGHT}"/>' for row, line in enumerate(frame.lines) if line
        )
        caption = (
            f'<text class="c" x="{MARGIN}" y="{height + 22}">{escape(frame.caption)}</text>' if frame.caption else ""
        )
        groups.append(f'<g transform="translate({number * width})">{used}{caption}</g>')
    last = (len(shown) - 1) * width
    drawn = "\n".join(groups)
    definitions = "\n".join(f'<g id="{name}">{"".join(map(_text, line))}</g>' for line, name in lines.items())
    return f"""<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height + bar}" role="img">
<title>{escape(title)}</title>
<style>
text{{font:14px ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace}}
text{{fill:{FOREGROUND};white-space:pre}}
.b{{font-weight:700}} .c{{fill:#e5c07b}}
.strip{{animation:play {total:.2f}s step-end infinite;transform:translateX(-{last}px)}}
@keyframes play{{{"".join(steps)}}}
@media (prefers-reduced-motion:reduce){{.strip{{animation:none}}}}
</style>
<rect width="{width}" height="{height + bar}" rx="8" fill="{BACKGROUND}"/>
<rect y="{height}" width="{width}" height="1" fill="#3b4048"/>
<defs>
{definitions}
</defs>
<g class="strip">
{drawn}
</g>
</svg>
"""


def _text(run: Run) -> str:
    """A run of characters, as wide as its cells in any font."""
    style = (f' fill="{run.color}" style="fill:{run.color}"' if run.color != FOREGROUND else "") + (
        ' class="b"' if run.is_bold else ""
    )
    x, length = MARGIN + run.column * CELL_WIDTH, len(run.text) * CELL_WIDTH
    return f'<text x="{x:.1f}" y="{MARGIN + 14}" textLength="{length:.1f}"{style}>{escape(run.text)}</text>'


def _timed(frames: Sequence[Frame]) -> list[tuple[Frame, float]]:
    """Each frame with its duration in seconds: long pauses are shortened, and frames too short to see are dropped."""
    ends = [*(frame.at for frame in frames[1:]), frames[-1].at + LAST]
    pairs = [(frame, end - frame.at) for frame, end in zip(frames, ends, strict=True)]
    last = pairs.pop()
    return [(frame, min(seconds, LONGEST)) for frame, seconds in pairs if seconds >= SHORTEST] + [last]
