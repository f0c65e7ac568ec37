"""Signs of a template that belong to no tag: what closes nothing, and what is not closed. One pass over the text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

_SIGN: Final = re.compile(r"\{[{%#]?|%\}|\}\}|\}")
_RAW: Final = re.compile(r"\{%-? *raw *-?%\}")
_END_RAW: Final = re.compile(r"\{%-? *endraw *-?%\}")
# Up to the `}}` that stands in no quotes; it never looks twice at a character of a line.
_VALUE: Final = re.compile(r"\{\{(?:'[^'\n]*'|\"[^\"\n]*\"|(?!\}\}).)*+\}\}", re.DOTALL)
_CLOSED_BY: Final = {"{%": "%}", "{{": "}}", "{#": "#}"}
_MAX_UNCLOSED_QUOTES: Final = 20  # values that quotes leave open, until quotes do not count any more


def find_unbalanced_tags(text: str, start: int = 0) -> Iterator[tuple[int, str, str, str]]:
    """Signs that close no tag, as far as they cannot be braces of the text itself, and statements left open.

    Each with its offset, counted from `start`, a code, a message and a hint.
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
    """Finds where tags end. What is not found behind one place is not looked for behind a later one."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.missing: set[str] = set()
        self.unclosed_quotes = 0
        self.line = (0, 0)  # where the line ends that was looked at last, with its blanks and without them

    def half_closed_end(self, place: int, sign: str) -> int | None:
        """Where the line ends with the tag that begins at `place`, when half of a closing sign is its last sign."""
        if sign == "{#" or self._line_end(place) - place < 3:
            return None
        end, closing = self._line_end(place), _CLOSED_BY[sign]
        if self.text[end - 1] != closing[0] or self.text.find(closing, place + 2, end) >= 0:
            return None
        return end

    def tag_end(self, place: int, sign: str) -> int | None:
        """Where the tag that begins at `place` ends; None where it is never closed."""
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
        """Where the line of a place ends, without the blanks at its end."""
        if place >= self.line[0]:
            end = self.text.find("\n", place)
            end = len(self.text) if end < 0 else end
            stop = end
            while stop > place and self.text[stop - 1] in " \t":
                stop -= 1
            self.line = end, stop
        return self.line[1]
