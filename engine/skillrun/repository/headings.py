"""Finds the headings of a text for its outline: markdown `#` headings outside code fences, and underlined titles."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from skillrun.repository.definitions import MAX_DEFINITIONS, Definition, shorten
from skillrun.repository.readable_folder import one_line

MARKDOWN: Final = ("md", "markdown", "mdx")
TEXTS: Final = (*MARKDOWN, "rst", "txt")
"""Extensions of text files that are outlined by their headings."""
TEXT_SUFFIXES: Final = tuple(f".{ending}" for ending in TEXTS)

LONGEST: Final = 160  # characters of a title
_ATX_HEADING: Final = re.compile(r" {0,3}(#{1,6})(?:[ \t]+(.*))?$")
_FENCE: Final = re.compile(r" {0,3}(`{3,}|~{3,})")
_UNDERLINE: Final = re.compile(r"([=\-~^\"'`*+#.:_])\1{2,}\s*$")


def find_headings(lines: Sequence[str], *, is_markdown: bool) -> list[Definition]:
    """Return the headings. The lines of a heading end before the next heading of the same or a higher level. In
    markdown, `#` and two kinds of underlines mark headings. In other texts, all kinds of underlines do, and the kind
    used first marks the top level."""
    entries: list[tuple[int, int, str]] = []  # line, level and title of each heading
    kinds = ["=", "-"] if is_markdown else []
    fence = ""
    for number, line in enumerate(lines, 1):
        if is_markdown and (mark := _FENCE.match(line[:200])) and (not fence or mark[1].startswith(fence)):
            fence = "" if fence else mark[1]
            continue
        if fence:
            continue
        text = line[: LONGEST * 2].rstrip()
        title = lines[number - 2][: LONGEST * 2].rstrip() if number > 1 else ""
        if is_markdown and (mark := _ATX_HEADING.match(text)):
            entries.append((number, len(mark[1]), (mark[2] or "").rstrip(" #")))
        elif (under := _UNDERLINE.match(text)) and _is_title(title, text) and (not is_markdown or under[1] in kinds):
            if under[1] not in kinds:
                kinds.append(under[1])
            entries.append((number - 1, kinds.index(under[1]) + 1, title.strip()))
        if len(entries) == MAX_DEFINITIONS:
            break
    return _add_line_ranges(entries, len(lines))


def _add_line_ranges(entries: Sequence[tuple[int, int, str]], count: int) -> list[Definition]:
    """Return the headings with their last lines: the line before the next heading of the same or a higher level."""
    ends: dict[int, int] = {}  # first line of the next heading, by level
    highest = min((level for _, level, _ in entries), default=1)
    definitions = []
    for line, level, title in reversed(entries):
        end = min((place for other, place in ends.items() if other <= level), default=count + 1)
        header = one_line(title[:LONGEST])
        definitions.append(Definition(line, end - 1, level - highest, header, shorten(header)))
        ends[level] = line
    return definitions[::-1]


def _is_title(text: str, below: str) -> bool:
    """Whether a line can be the title above the underline `below`. A title has words, is at most one character longer
    than the underline, and does not belong to a list or table."""
    return (
        bool(text)
        and not text[0].isspace()
        and any(character.isalnum() for character in text)
        and len(text) <= len(below) + 1
        and not text.startswith(("- ", "* ", "> ", "|", ".. "))
    )


def ending_of(name: str) -> str:
    own = name.rpartition("/")[2].lstrip(".")
    return own.rpartition(".")[2].lower() if "." in own else ""
