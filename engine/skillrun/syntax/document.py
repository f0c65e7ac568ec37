"""Splits a markdown file into the frontmatter between two `---` lines and the sections under level-2 headings.

This module does not interpret the content of frontmatter and sections.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

from skillrun.syntax.diagnostics import ParsingStopped, Problems
from skillrun.syntax.foreign import split_foreign
from skillrun.syntax.reading import read_source
from skillrun.syntax.source import Document, Mapping, Node, Scalar, Section, Sequence, Source, Span, Text
from skillrun.syntax.yaml import parse_yaml

Read = TypeVar("Read")
_OPENING: Final = re.compile(r"---[^\S\n]*(?:\n|\Z)")
_CLOSING: Final = re.compile(r"^---[^\S\n]*(?:\n|\Z)", re.MULTILINE)
_MARK: Final = r"^[ \t\u00a0\ufeff]*+((?:--|[–—]).*|\.\.\.[ \t]*)"  # a line probably meant as `---`
_DAMAGED: Final = re.compile(rf"{_MARK}$", re.MULTILINE)
_LATE: Final = re.compile(rf"{_MARK}\n(?:[ \t]*+(?:#.*)?\n)*+[a-z][a-z_-]*+:(?:\s|\Z)", re.MULTILINE)
_UNOPENED: Final = re.compile(r"(?:[ \t]*+(?:#.*)?\n)*+(?:kind|name|description):(?:\s|\Z)")
_MARKED: Final = re.compile(r"^(?P<heading>\\?##)(?=[ \t\n]|\Z)", re.MULTILINE)
_CONFLICT: Final = re.compile(r"^(?:<<<<<<<|>>>>>>>) ", re.MULTILINE)  # git's conflict markers


class Heading(NamedTuple):
    """A level-2 heading. `start` is the offset of the heading, `text_start` the offset of the text under it."""

    name: str
    start: int
    text_start: int


def parse_document(source: Source, problems: Problems) -> Document | None:
    """Parse a markdown file. Return None if its frontmatter is broken or if it contains conflict markers."""
    if _report_conflict(source, problems):
        return None
    front, start = parse_frontmatter(source, problems)
    headings, escapes = find_headings(source.text, start)
    ends = [*(heading.start for heading in headings), len(source.text)]
    sections = tuple(
        Section(heading.name, Span(source, heading.start), _text(source, heading.text_start, end, escapes))
        for heading, end in zip(headings, ends[1:], strict=True)
    )
    if front is None:
        return None
    preface = _text(source, start, ends[0], escapes)
    return Document(source, front, preface, sections, Text.from_ranges(source, [(start, len(source.text))]))


def parse_foreign(source: Source, problems: Problems) -> Document | None:
    """Parse a subagent file or an Agent Skill, whose body has no sections.

    Return None if its frontmatter has no end or if it contains conflict markers. A file without frontmatter is all
    body.
    """
    if _report_conflict(source, problems):
        return None
    front = split_foreign(source, problems)
    if front is None and _OPENING.match(source.text) and not _CLOSING.search(source.text, 3):
        report_missing_end(source, problems)
        return None
    mapping = Mapping({}, Span(source, 0))
    ranges: tuple[tuple[int, int], ...] = ((0, len(source.text)),)
    if front is not None:
        mapping, ranges = front.mapping, front.body
    parts = [(start, end) for start, end in ranges if start < end]
    body = Text.from_ranges(source, parts or [(len(source.text), len(source.text))])
    return Document(source, mapping, body, (), body)


def _report_conflict(source: Source, problems: Problems) -> bool:
    """Report a conflict marker. Return whether there is one."""
    marks = find_conflict_marks(source.text)
    if marks:
        hint = "merge both sides, and remove the lines `<<<<<<<`, `=======` and `>>>>>>>`"
        problems.report(Span(source, marks[0]), "conflict", "this is a merge conflict marker", hint)
    return bool(marks)


def find_conflict_marks(text: str) -> list[int]:
    """Return the offsets of conflict markers outside fences, if there are both start and end markers."""
    places = [match.start() for match in _CONFLICT.finditer(text)]
    if places:
        fences = Fences(text)
        places = [place for place in places if not fences.contains(place)]
    return places if len({text[place] for place in places}) == 2 else []


def parse_config(source: Source, problems: Problems) -> Mapping | None:
    """Parse a YAML file that contains a mapping or is empty."""
    return as_mapping(parse_yaml(source, 0, len(source.text), problems), problems)


def read_yaml(path: Path, problems: Problems, read: Callable[[Node, Problems], Read]) -> Read | None:
    """Parse a YAML file that the user named, and return the result of calling `read` with its root node.

    If the file cannot be parsed, report problems and return None.
    """
    source = read_source(path, str(path), problems)
    node = parse_yaml(source, 0, len(source.text), problems) if source is not None else None
    if node is not None:
        with suppress(ParsingStopped):
            return read(node, problems)
    return None


def find_headings(text: str, start: int) -> tuple[list[Heading], list[int]]:
    """Return the headings of the body that starts at `start`, and the offsets of backslashes that escape a heading.

    Headings and backslashes only count in the first column and outside fences.
    """
    headings: list[Heading] = []
    escapes: list[int] = []
    fences = Fences(text, start)
    for match in _MARKED.finditer(text, start):
        if fences.contains(match.start()):
            continue
        if match["heading"] == "##":
            end = text.find("\n", match.end())
            end = len(text) if end < 0 else end
            line = text[match.end() : end].strip(" \t")
            name = line.rstrip("#")  # a heading may end with `#` characters after a blank
            name = name.rstrip(" \t") if name[-1:] in ("", " ", "\t") else line
            headings.append(Heading(name, match.start(), min(end + 1, len(text))))
        else:
            escapes.append(match.start())
    return headings, escapes


def parse_frontmatter(source: Source, problems: Problems) -> tuple[Mapping | None, int]:
    """Return the frontmatter, and the offset of the body."""
    opening = _OPENING.match(source.text)
    if not opening:
        return (None, len(source.text)) if report_missing_start(source, problems) else (Mapping({}, Span(source, 0)), 0)
    closing = _CLOSING.search(source.text, opening.end())
    if not closing:
        report_missing_end(source, problems)
        return None, len(source.text)
    return as_mapping(parse_yaml(source, opening.end(), closing.start(), problems), problems), closing.end()


def report_missing_start(source: Source, problems: Problems) -> bool:
    """Report a frontmatter that does not start on the first line with `---`. Return whether there is one."""
    text = source.text
    closing = _CLOSING.search(text)
    if closing is None:
        return False
    if _UNOPENED.match(text):
        message = "the frontmatter has no line `---` before its first key"
        problems.report(Span(source, 0), "frontmatter", message, "add a line `---` at the top of the file")
        return True
    late = _LATE.search(text)
    if late is None or not _CLOSING.search(text, late.end()):
        return False
    line, mark = Span(source, late.start(1)).line, late[1].rstrip()
    if text[: late.start()].strip():
        start = len(text) - len(text.lstrip())
        message = f"this text is above the frontmatter, which starts on line {line}"
        hint = f"move it below the frontmatter, or write it as a YAML comment (`# …`) below the first `{mark[:3]}`"
        problems.report(Span(source, start), "frontmatter", message, hint)
    elif line > 1:
        message = f"the file starts with an empty line, but its frontmatter starts on line {line}"
        problems.report(Span(source, 0), "frontmatter", message, "start the file with `---` on line 1")
    else:
        span, hint = Span(source, late.start(1)), "write `---`, starting in the first column"
        message = f"`{mark[:20]}` does not start the frontmatter" if mark != "---" else "blanks are before this `---`"
        problems.report(span, "frontmatter", message, hint)
    return True


def report_missing_end(source: Source, problems: Problems) -> None:
    """Report a frontmatter without an end. If a line was probably meant as the end, report that line."""
    opening = _OPENING.match(source.text)
    if damaged := _DAMAGED.search(source.text, opening.end() if opening else 0):
        span, hint = Span(source, damaged.start(1)), "write `---`, starting in the first column"
        problems.report(span, "frontmatter", f"`{damaged[1].rstrip()[:20]}` does not end the frontmatter", hint)
    else:
        message = "the frontmatter that starts here is not closed"
        problems.report(Span(source, 0), "frontmatter", message, "add a line `---` after the last key")


def as_mapping(node: Node | None, problems: Problems) -> Mapping | None:
    """Return a mapping as it is, or an empty mapping for null. Report any other kind of node."""
    match node:
        case None | Mapping():
            return node
        case Scalar(value=None):
            return Mapping({}, node.span)
    kind = "a list" if isinstance(node, Sequence) else "a single value"
    problems.report(node.span, "yaml", f"this is {kind}; expected keys with values", "write `key: value`")
    return None


def _text(source: Source, start: int, end: int, escapes: list[int]) -> Text:
    """Return a range of the body, without trailing blank lines and without the backslashes that escape headings."""
    end = start + len(source.text[start:end].rstrip(" \t\n"))
    inside = escapes[bisect_left(escapes, start) : bisect_left(escapes, end)]
    starts = [start, *(place + 1 for place in inside)]
    return Text.from_ranges(source, zip(starts, [*inside, end], strict=True))


def check_sections(document: Document, problems: Problems) -> None:
    """Report sections without a name, and sections with the name of an earlier section."""
    headings: dict[str, Span] = {}
    for section in document.sections:
        if not section.name:
            problems.report(section.heading, "section", "a section needs a name", "write `## name`, or `\\##` for text")
        elif section.name in headings:
            message = f"there are two sections `{section.name}`"
            first = headings[section.name]
            problems.report(section.heading, "section", message, f"the first is on line {first.line}", elsewhere=first)
        else:
            headings[section.name] = section.heading


_FENCE: Final = re.compile(r"^ {0,3}(?P<fence>`{3,}|~{3,})(?P<info>.*)", re.MULTILINE)


class Fences:
    """The code fences of a text from the offset `start`. An unclosed fence contains the rest of the text."""

    def __init__(self, text: str, start: int = 0) -> None:
        self.marks: list[str] = []  # the marks that open each fence
        self._starts: list[int] = []
        self._ends: list[int] = []
        fence = ""
        for match in _FENCE.finditer(text, start):
            marks, info = match["fence"], match["info"]
            if not fence:
                if marks[0] == "~" or "`" not in info:  # with a backtick after the marks, it is inline code
                    fence = marks
                    self.marks.append(marks)
                    self._starts.append(match.start())
            elif marks.startswith(fence) and not info.strip():
                fence = ""
                self._ends.append(match.end())
        if fence:
            self._ends.append(len(text))

    def contains(self, place: int) -> bool:
        """Whether an offset is inside a fence, or in the line that opens or closes a fence."""
        count = bisect_right(self._starts, place)
        return count > 0 and place < self._ends[count - 1]

    def open_at(self, place: int) -> str:
        """Return the marks that close the fence around an offset; empty if the offset is outside of a fence."""
        count = bisect_right(self._starts, place - 1)
        return self.marks[count - 1] if count > 0 and place < self._ends[count - 1] else ""
