"""An author's file and its parts with exact positions: texts, YAML nodes and sections.

Owns the types; `reading` reads a file, `yaml` and `document` parse it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate
from pathlib import Path
from typing import Any, Final, NamedTuple

MAX_BYTES: Final = 1_000_000
MAX_PROSE: Final = 200_000  # bytes of a markdown file of a library; templates are the slowest part to parse

# (offset in the text, offset in the file) of the start of each range copied unchanged from the file
Runs = tuple[tuple[int, int], ...]


@dataclass(frozen=True, eq=False)
class Source:
    """A file as text with `\\n` line ends; `label` is its name in messages."""

    path: Path
    label: str
    text: str = field(repr=False)
    _hidden: set[int] = field(default_factory=set, repr=False)

    @staticmethod
    def of(text: str, label: str = "<text>") -> Source:
        """A source that is not a file."""
        return Source(Path(label), label, normalize_newlines(text))

    def position(self, offset: int) -> tuple[int, int]:
        """The line and column of an offset, both counted from 1."""
        line = bisect_right(self._line_starts, offset)
        return line, offset - self._line_starts[line - 1] + 1

    def line(self, number: int) -> str:
        """The line as problems quote it: empty if hidden."""
        return "" if number in self._hidden else self._lines[number - 1]

    def hide(self, number: int) -> None:
        """Stop quoting the line in problems, because it may contain a secret."""
        self._hidden.add(number)

    @cached_property
    def _lines(self) -> list[str]:
        return self.text.split("\n")

    @cached_property
    def _line_starts(self) -> list[int]:
        return [0, *accumulate(len(line) + 1 for line in self._lines[:-1])]


class Span(NamedTuple):
    """A position in a file."""

    source: Source
    offset: int

    @property
    def path(self) -> str:
        return self.source.label

    @property
    def line(self) -> int:
        return self.source.position(self.offset)[0]

    @property
    def column(self) -> int:
        return self.source.position(self.offset)[1]


class Text:
    """A string that knows the file position of each of its characters."""

    __slots__ = ("_runs", "source", "value")

    def __init__(self, value: str, source: Source, runs: Runs | Callable[[], Runs]) -> None:
        """Runs that are expensive to compute are passed as a function, which is called on first use."""
        self.value = value
        self.source = source
        self._runs = runs

    @staticmethod
    def of(value: str) -> Text:
        """A text that is not from a file; its positions are its own lines and columns."""
        return Text(value, Source(Path("<text>"), "<text>", value), ((0, 0),))

    @staticmethod
    def from_ranges(source: Source, pieces: Iterable[tuple[int, int]]) -> Text:
        """Join the given (start, end) ranges of the file."""
        runs: list[tuple[int, int]] = []
        parts: list[str] = []
        length = 0
        for start, end in pieces:
            runs.append((length, start))
            parts.append(source.text[start:end])
            length += end - start
        assert runs, "a text without pieces has no position"
        return Text("".join(parts), source, tuple(runs))

    def at(self, offset: int) -> Span:
        """The position of the character at an offset; at or past the end, the position after the last character."""
        runs = self.runs
        offset = max(0, min(offset, len(self.value)))
        start, place = runs[bisect_right(runs, offset, key=_run_start) - 1]
        return Span(self.source, place + offset - start)

    def substring(self, start: int, end: int) -> Text:
        """The text from start to end, with its file positions."""
        inside = [(offset - start, place) for offset, place in self.runs if start < offset < end]
        return Text(self.value[start:end], self.source, ((0, self.at(start).offset), *inside))

    @property
    def runs(self) -> Runs:
        if callable(self._runs):
            self._runs = self._runs()
        return self._runs

    def __str__(self) -> str:
        return self.value

    def __repr__(self) -> str:
        return f"Text({self.value!r})"


class Scalar(NamedTuple):
    """A single value; `text` is set if it is a string."""

    value: str | int | float | bool | None
    text: Text | None
    span: Span


class Sequence(NamedTuple):
    """A YAML list."""

    items: tuple[Node, ...]
    span: Span


class MappingEntry(NamedTuple):
    """A key of a mapping and its value."""

    key: Scalar
    value: Node


class Mapping(NamedTuple):
    """A YAML mapping with its entries in the order of the file."""

    entries: dict[str, MappingEntry]
    span: Span

    def get(self, name: str) -> Node | None:
        entry = self.entries.get(name)
        return entry.value if entry else None

    def key_span(self, *path: str) -> Span | None:
        """The position of the key at a path of keys."""
        node: Node = self
        span = None
        for name in path:
            entry = node.entries.get(name) if isinstance(node, Mapping) else None
            if entry is None:
                return None
            node, span = entry.value, entry.key.span
        return span

    def value_span(self, *path: str) -> Span | None:
        """The position of the value at a path of keys."""
        *parents, last = path
        node: Node | None = self
        for name in parents:
            node = node.get(name) if isinstance(node, Mapping) else None
        value = node.get(last) if isinstance(node, Mapping) else None
        return value.span if value is not None else None


Node = Scalar | Sequence | Mapping


class Section(NamedTuple):
    """A heading `## name` and the text under it, without trailing blank lines."""

    name: str
    heading: Span
    text: Text


@dataclass(frozen=True, slots=True)
class Document:
    """A markdown file: `preface` is the text before the first section, `body` everything below the frontmatter."""

    source: Source
    frontmatter: Mapping
    preface: Text
    sections: tuple[Section, ...]
    body: Text


def scalars(node: Node) -> Iterator[Scalar]:
    """Every single value in a node."""
    if isinstance(node, Scalar):
        yield node
        return
    for child in node.items if isinstance(node, Sequence) else [entry.value for entry in node.entries.values()]:
        yield from scalars(child)


def sequences(node: Node) -> Iterator[Sequence]:
    """Every list in a node, the outer ones first."""
    if isinstance(node, Sequence):
        yield node
    elif isinstance(node, Scalar):
        return
    for child in node.items if isinstance(node, Sequence) else [entry.value for entry in node.entries.values()]:
        yield from sequences(child)


def to_plain(node: Node) -> Any:
    """The node as dicts, lists and single values."""
    match node:
        case Scalar():
            return node.value
        case Sequence():
            return [to_plain(item) for item in node.items]
        case Mapping():
            return {name: to_plain(entry.value) for name, entry in node.entries.items()}


def normalize_newlines(text: str) -> str:
    """The text without a byte order mark, with `\\n` line ends."""
    text = text.removeprefix("\N{ZERO WIDTH NO-BREAK SPACE}")
    return text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text


def _run_start(run: tuple[int, int]) -> int:
    return run[0]
