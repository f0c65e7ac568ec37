"""Collects which lines of repository files the tool `Read` has shown to a member."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from skillrun.models.messages import ToolCall

_NUMBERED: Final = re.compile(r"^ *(\d+)\t", re.MULTILINE)


@dataclass(frozen=True, order=True)
class LineRange:
    """Consecutive lines of a file: the number of the first line, counted from 1, and how many lines there are."""

    path: str
    first: int
    count: int

    @property
    def end(self) -> int:
        return self.first + self.count

    def to_dict(self) -> dict[str, str | int]:
        return {"path": self.path, "from": self.first, "lines": self.count}


def lines_from_tool(tool: ToolCall, result: str) -> LineRange | None:
    """Return the lines that a tool call has shown; None if the call failed or showed no file."""
    path = tool.arguments.get("path")
    if tool.name != "Read" or not isinstance(path, str) or result.startswith("error:"):
        return None
    numbers = [int(match[1][:9]) for match in _NUMBERED.finditer(result)]
    return LineRange(path.removeprefix("./"), numbers[0] if numbers else 1, len(numbers))


def merge_line_ranges(reads: Iterable[LineRange]) -> list[LineRange]:
    """Merge overlapping and adjacent ranges of each file. Files keep the order in which they were first read."""
    everything: Sequence[LineRange] = list(reads)
    together: list[LineRange] = []
    for path in dict.fromkeys(lines.path for lines in everything):
        for lines in sorted(lines for lines in everything if lines.path == path):
            last = together[-1] if together and together[-1].path == path else None
            if last is not None and lines.first <= last.end:
                together[-1] = LineRange(path, last.first, max(last.end, lines.end) - last.first)
            else:
                together.append(lines)
    return together
