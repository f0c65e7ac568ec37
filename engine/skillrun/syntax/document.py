"""A markdown file: frontmatter between two `---` lines, and the sections of the body under its level-2 headings.

Owns where they start and end; what they mean is for others.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

from skillrun.syntax.diagnostics import ParsingStopped, Problems
from skillrun.syntax.fences import Fences
from skillrun.syntax.reading import read_source
from skillrun.syntax.source import Document, Mapping, Node, Scalar, Section, Sequence, Source, Span, Text
from skillrun.syntax.yaml import parse_yaml

Read = TypeVar("Read")
_OPENING: Final = re.compile(r"---[ \t]*(?:\n|\Z)")
_CLOSING: Final = re.compile(r"^---[ \t]*(?:\n|\Z)", re.MULTILINE)
_DAMAGED: Final = re.compile(r"^[ \t]*(--\S*|[–—]\S*)[ \t]*$", re.MULTILINE)  # a line meant as `---`, as it seems
_MARKED: Final = re.compile(r"^(?P<heading>\\?##)(?=[ \t\n]|\Z)", re.MULTILINE)
_CONFLICT: Final = re.compile(r"^(?:<<<<<<<|>>>>>>>) ", re.MULTILINE)  # what git leaves where a merge did not fit
_LOOSE: Final = re.compile(r"^description:[ \t]+([^\s\"'|>\[{&*!%@`#].*)$", re.MULTILINE)
_COLON: Final = ":\N{NO-BREAK SPACE}"  # as long as what it stands for, so that everything stays in its place


class Heading(NamedTuple):
    """A level-2 heading: where its line starts, and where the text under it does."""

    name: str
    start: int
    text_start: int


def parse_document(source: Source, problems: Problems, *, foreign: bool = False) -> Document | None:
    """The parts of a markdown file; nothing when its frontmatter is broken, or a merge has left marks in it."""
    if marks := find_conflict_marks(source.text):
        hint = "keep what is right of both sides, and remove the lines `<<<<<<<`, `=======` and `>>>>>>>`"
        problems.report(Span(source, marks[0]), "conflict", "a merge has left its marks here", hint)
        return None
    front, start = parse_frontmatter(source, problems, foreign=foreign)
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


def find_conflict_marks(text: str) -> list[int]:
    """Where a merge has left marks, outside of fences; none where it is not both beginnings and ends."""
    places = [match.start() for match in _CONFLICT.finditer(text)]
    if places:
        fences = Fences(text)
        places = [place for place in places if not fences.contains(place)]
    return places if len({text[place] for place in places}) == 2 else []


def parse_foreign(source: Source, problems: Problems) -> Document | None:
    """The parts of a file that other tools read as well, and less strictly."""
    return parse_document(source, problems, foreign=True)


def parse_config(source: Source, problems: Problems) -> Mapping | None:
    """A YAML file, which holds a mapping or nothing."""
    return as_mapping(parse_yaml(source, 0, len(source.text), problems), problems)


def read_yaml(path: Path, problems: Problems, read: Callable[[Node, Problems], Read]) -> Read | None:
    """What `read` makes of a file of YAML that somebody typed the name of; None where the file is given up."""
    source = read_source(path, str(path), problems)
    node = parse_yaml(source, 0, len(source.text), problems) if source is not None else None
    if node is not None:
        with suppress(ParsingStopped):
            return read(node, problems)
    return None


def find_headings(text: str, start: int) -> tuple[list[Heading], list[int]]:
    """The headings of the body that begins at `start`, and the places of the backslashes that only escape one.

    Both count in the first column and outside fences only.
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
            headings.append(
                Heading(_name(text[match.end() : end].strip(" \t")), match.start(), min(end + 1, len(text)))
            )
        else:
            escapes.append(match.start())
    return headings, escapes


def _name(line: str) -> str:
    """A heading without the signs that may close it."""
    name = line.rstrip("#")
    return name.rstrip(" \t") if name != line and name[-1:] in ("", " ", "\t") else line


def parse_frontmatter(source: Source, problems: Problems, *, foreign: bool = False) -> tuple[Mapping | None, int]:
    """The frontmatter, and where the body starts. In a `foreign` file a description may have colons in it."""
    opening = _OPENING.match(source.text)
    if not opening:
        return Mapping({}, Span(source, 0)), 0
    closing = _CLOSING.search(source.text, opening.end())
    if not closing:
        report_missing_end(source, problems)
        return None, len(source.text)
    start, end = opening.end(), closing.start()
    if foreign and (loose := _LOOSE.search(source.text, start, end)) and ": " in loose[1]:
        escaped_source = replace(
            source, text=_replace_range(source.text, loose.start(1), loose[1].replace(": ", _COLON))
        )
        mapping = as_mapping(parse_yaml(escaped_source, start, end, problems), problems)
        return _restore_description(mapping), closing.end()
    return as_mapping(parse_yaml(source, start, end, problems), problems), closing.end()


def report_missing_end(source: Source, problems: Problems) -> None:
    """Say that the frontmatter of a source that begins with one has no end, or where a line was meant as it."""
    opening = _OPENING.match(source.text)
    if damaged := _DAMAGED.search(source.text, opening.end() if opening else 0):
        message = f"`{damaged[1][:20]}` does not end the frontmatter"
        problems.report(Span(source, damaged.start(1)), "frontmatter", message, "write `---` from the first column on")
    else:
        message = "the frontmatter that starts here has no end"
        problems.report(Span(source, 0), "frontmatter", message, "put a line `---` below the last key")


def _replace_range(text: str, start: int, stretch: str) -> str:
    return text[:start] + stretch + text[start + len(stretch) :]


def _restore_description(front: Mapping | None) -> Mapping | None:
    """The frontmatter with the description as it was written."""
    entry = front.entries.get("description") if front is not None else None
    if front is None or entry is None or not isinstance(entry.value, Scalar) or entry.value.text is None:
        return front
    text = entry.value.text
    value = text.value.replace(_COLON, ": ")
    new_entry = entry._replace(value=Scalar(value, Text(value, text.source, text.runs), entry.value.span))
    return front._replace(entries={**front.entries, "description": new_entry})


def as_mapping(node: Node | None, problems: Problems) -> Mapping | None:
    """What holds keys and values, or nothing; a problem where it is something else."""
    match node:
        case None | Mapping():
            return node
        case Scalar(value=None):
            return Mapping({}, node.span)
    kind = "a list" if isinstance(node, Sequence) else "a single value"
    problems.report(node.span, "yaml", f"this is {kind}, and keys with values belong here", "write `key: value`")
    return None


def _text(source: Source, start: int, end: int, escapes: list[int]) -> Text:
    """A stretch of the body without blank lines at its end, and without the backslashes that escape a heading."""
    end = start + len(source.text[start:end].rstrip(" \t\n"))
    inside = escapes[bisect_left(escapes, start) : bisect_left(escapes, end)]
    starts = [start, *(place + 1 for place in inside)]
    return Text.from_ranges(source, zip(starts, [*inside, end], strict=True))


def check_sections(document: Document, problems: Problems) -> None:
    """Sections that are looked up by their names have one each."""
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
