"""Definitions in source files, the interface for finding them, and the headings of texts."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, NamedTuple, Protocol, Self

from skillrun.repository.readable_folder import one_line

MAX_DEFINITIONS: Final = 2_000  # per file
MAX_FILE: Final = 1_000_000  # bytes
MAX_NAME: Final = 48  # characters
_KEYWORDS: Final = re.compile(r"^(?:(?:export|default|pub|public|static|async|def|function|fn|func)\b\*? *)+(?=\w)")
MARKDOWN: Final = ("md", "markdown", "mdx")
TEXT_ENDINGS: Final = (*MARKDOWN, "rst", "txt")
"""Extensions of text files whose outline consists of headings."""
TEXT_SUFFIXES: Final = tuple(f".{ending}" for ending in TEXT_ENDINGS)
LONGEST: Final = 160  # characters of a title
_ATX_HEADING: Final = re.compile(r" {0,3}(#{1,6})(?:[ \t]+(.*))?$")
_FENCE: Final = re.compile(r" {0,3}(`{3,}|~{3,})")
_UNDERLINE: Final = re.compile(r"([=\-~^\"'`*+#.:_])\1{2,}\s*$")


class Definition(NamedTuple):
    """A definition in a source file: its first and last line, nesting depth, header (the text before its body) and
    name."""

    first: int
    last: int
    depth: int
    header: str
    name: str

    @classmethod
    def from_header(cls, first: int, last: int, depth: int, header: str) -> Definition:
        """Return the definition. Its name is the part of the header before the parameters, without keywords such as
        `def`."""
        header = one_line(header)
        name = _KEYWORDS.sub("", header).split("(", 1)[0].strip() or header
        return cls(first, last, depth, header, shorten(name))


class NoOutline(Exception):
    """A file has no outline. The message gives the reason."""


class DefinitionFinder(Protocol):
    """Finds the definitions in source files until a deadline. It is a context manager because it may own a process."""

    suffixes: tuple[str, ...]
    """File extensions of the supported languages."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...

    def supports(self, name: str, content: bytes) -> bool:
        """Whether the file's language is supported. The file's name or first line determines the language."""

    def definitions(self, name: str, content: bytes) -> list[Definition]:
        """Return the definitions in a file of at most MAX_FILE bytes, in order. Raises NoOutline and TimeoutError."""


def open_finder(until: float) -> DefinitionFinder:
    """Open the registered finder. `until` is the deadline on the monotonic clock."""
    from skillrun.registry import load

    finder: DefinitionFinder = load("outlines", "tree-sitter")(until)
    return finder


def shorten(name: str) -> str:
    return name if len(name) <= MAX_NAME else f"{name[: MAX_NAME - 1]}…"


def find_headings(lines: Sequence[str], *, is_markdown: bool) -> list[Definition]:
    """Return the headings of a text. The lines of a heading end before the next heading of the same or a higher level.
    In markdown, a heading has `#` or one of two kinds of underlines. In other texts, every kind of underline marks a
    heading, and the first kind in the text marks the top level."""
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
    # the lines of a heading end before the next heading of the same or a higher level
    ends: dict[int, int] = {}  # first line of the next heading, by level
    highest = min((level for _, level, _ in entries), default=1)
    definitions = []
    for first, level, heading in reversed(entries):
        end = min((place for other, place in ends.items() if other <= level), default=len(lines) + 1)
        header = one_line(heading[:LONGEST])
        definitions.append(Definition(first, end - 1, level - highest, header, shorten(header)))
        ends[level] = first
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
