"""Finds unbalanced template delimiters, closing ones without a tag and tags left open, in one pass over the text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

_SIGN: Final = re.compile(r"\{[{%#]?|%\}|\}\}|\}")
_RAW: Final = re.compile(r"\{%-? *raw *-?%\}")
_END_RAW: Final = re.compile(r"\{%-? *endraw *-?%\}")
# Up to the first `}}` outside quotes, without backtracking.
_VALUE: Final = re.compile(r"\{\{(?:'[^'\n]*'|\"[^\"\n]*\"|(?!\}\}).)*+\}\}", re.DOTALL)
_CLOSED_BY: Final = {"{%": "%}", "{{": "}}", "{#": "#}"}
_MAX_UNCLOSED_QUOTES: Final = 20  # values with unclosed quotes after which quotes are ignored


def find_unbalanced_tags(text: str, start: int = 0) -> Iterator[tuple[int, str, str, str]]:
    """Yield closing delimiters without a tag, unless they can be literal braces of the text, and tags left open.

    Each item is an offset (counted from `start`), a code, a message and a hint.
    """
    tags = _TagScanner(text)
    depth = at = 0
    while match := _SIGN.search(text, at):
        place, at = match.span()
        sign = match[0]
        if sign in _CLOSED_BY:
            if (end := tags.half_closed_end(place, sign)) is not None:
                hint = "a value ends with `}}`, a statement with `%}`"
                yield start + end, "syntax", "`}` is missing here", hint
                at = end
            elif (end := tags.tag_end(place, sign)) is not None:
                at = end
            else:
                depth += 1
                at = place + 1
        elif sign == "{":
            depth += 1
        elif sign == "%}" or (sign == "}}" and depth < 2):
            opening = "{%" if sign == "%}" else "{{"
            yield start + place, "syntax", f"`{sign}` closes nothing", f"open it with `{opening}`"
        else:
            depth = max(0, depth - len(sign))


class _TagScanner:
    """Finds where tags end. A delimiter missing after one position is not searched for again after a later one."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.missing: set[str] = set()
        self.unclosed_quotes = 0
        self.line = (0, 0)  # end of the line examined last, with and without trailing blanks

    def half_closed_end(self, place: int, sign: str) -> int | None:
        """Return the end of the line if the tag at `place` ends there with only half of its closing delimiter."""
        if sign == "{#" or self._line_end(place) - place < 3:
            return None
        end, closing = self._line_end(place), _CLOSED_BY[sign]
        if self.text[end - 1] != closing[0] or self.text.find(closing, place + 2, end) >= 0:
            return None
        return end

    def tag_end(self, place: int, sign: str) -> int | None:
        """Return where the tag that starts at `place` ends; None if it is never closed."""
        if sign == "{%" and (raw := _RAW.match(self.text, place)) and "raw" not in self.missing:
            if match := _END_RAW.search(self.text, raw.end()):
                return match.end()
            self.missing.add("raw")
        if sign == "{{" and self.unclosed_quotes < _MAX_UNCLOSED_QUOTES and sign not in self.missing:
            if match := _VALUE.match(self.text, place):
                return match.end()
            self.unclosed_quotes += 1
        return self._plain_end(place, sign)

    def _plain_end(self, place: int, sign: str) -> int | None:
        if sign in self.missing:
            return None
        closing = _CLOSED_BY[sign]
        place_of_closing = self.text.find(closing, place + 2)
        if place_of_closing < 0:
            self.missing.add(sign)
            return None
        return place_of_closing + len(closing)

    def _line_end(self, place: int) -> int:
        """Return the end of the line that contains `place`, without trailing blanks."""
        if place >= self.line[0]:
            end = self.text.find("\n", place)
            end = len(self.text) if end < 0 else end
            stop = end
            while stop > place and self.text[stop - 1] in " \t":
                stop -= 1
            self.line = end, stop
        return self.line[1]
