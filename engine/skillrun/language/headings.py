"""Where the level-2 headings of a markdown body stand, and where `\\##` stands for `##`.

Both count in the first column and outside fences only.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

_MARKED: Final = re.compile(
    r"^(?:(?P<heading>\\?##)(?=[ \t\n]|\Z)| {0,3}(?P<fence>`{3,}|~{3,})(?P<info>.*))", re.MULTILINE
)


@dataclass(frozen=True, slots=True)
class Heading:
    """A level-2 heading: where its line starts, and where the text under it does."""

    name: str
    start: int
    text_start: int


def outline(text: str, start: int) -> tuple[list[Heading], list[int]]:
    """The headings of the body that begins at `start`, and the places of the backslashes that only escape one."""
    headings: list[Heading] = []
    escapes: list[int] = []
    fence = ""
    for found in _MARKED.finditer(text, start):
        opening: str | None = found["fence"]
        if fence:
            if opening and opening.startswith(fence) and not found["info"].strip():
                fence = ""
        elif opening:
            fence = "" if opening[0] == "`" and "`" in found["info"] else opening
        elif found["heading"] == "##":
            headings.append(_heading(text, found.start()))
        else:
            escapes.append(found.start())
    return headings, escapes


def _heading(text: str, start: int) -> Heading:
    end = text.find("\n", start)
    end = len(text) if end < 0 else end
    name = re.sub(r"(?:^|[ \t])#+$", "", text[start + 2 : end].strip(" \t"))
    return Heading(name.strip(" \t"), start, min(end + 1, len(text)))
