"""Finds the code fences of a markdown text, as CommonMark defines them."""

from __future__ import annotations

import re
from bisect import bisect_right
from typing import Final

_FENCE: Final = re.compile(r"^ {0,3}(?P<fence>`{3,}|~{3,})(?P<info>.*)", re.MULTILINE)


class Fences:
    """The code fences of a text after an offset; an unclosed fence extends to the end of the text."""

    def __init__(self, text: str, start: int = 0) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []
        fence = ""
        for match in _FENCE.finditer(text, start):
            marks, info = match["fence"], match["info"]
            if not fence:
                if marks[0] == "~" or "`" not in info:  # a further backtick makes it inline code
                    fence = marks
                    self._starts.append(match.start())
            elif marks.startswith(fence) and not info.strip():
                fence = ""
                self._ends.append(match.end())
        if fence:
            self._ends.append(len(text))

    def contains(self, place: int) -> bool:
        """Whether an offset is inside a fence."""
        count = bisect_right(self._starts, place)
        return count > 0 and place < self._ends[count - 1]
