"""Types for an author's file and for its parts with exact positions: texts, YAML nodes and sections.

`reading` reads files, and `yaml` and `document` parse them.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate
from operator import itemgetter
from pathlib import Path
from typing import Any, Final, NamedTuple

MAX_BYTES: Final = 1_000_000
MAX_PROSE: Final = 200_000  # bytes of a markdown file in a library; lower, because templates are slow to parse

# For the start of each range that is copied unchanged from the file: (offset in the text, offset in the file)
Runs = tuple[tuple[int, int], ...]


@dataclass(frozen=True, eq=False)
class Source:
    """The text of a file, with `\\n` line ends. `label` is the name of the file in messages."""

    path: Path
    label: str
    text: str = field(repr=False)
    _hidden: set[int] = field(default_factory=set, repr=False)

    @staticmethod
    def of(text: str, label: str = "<text>") -> Source:
        """Return a source for a text that is not from a file."""
        return Source(Path(label), label, normalize_newlines(text))

    def position(self, offset: int) -> tuple[int, int]:
        """Return the line and the column of an offset, both counted from 1."""
        line = bisect_right(self._line_starts, offset)
        return line, offset - self._line_starts[line - 1] + 1

    def line(self, number: int) -> str:
        """Return the line for quoting in a problem. It is empty if the line is hidden."""
        return "" if number in self._hidden else self._lines[number - 1]

    def hide(self, number: int) -> None:
        """Keep problems from quoting the line, which may contain a secret."""
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
        """Create a text. Runs that are slow to compute are passed as a function, which is called on first use."""
        self.value = value
        self.source = source
        self._runs = runs

    @staticmethod
    def of(value: str) -> Text:
        """Return a text that is not from a file. Its positions are lines and columns of the text itself."""
        return Text(value, Source(Path("<text>"), "<text>", value), ((0, 0),))

    @staticmethod
    def from_ranges(source: Source, pieces: Iterable[tuple[int, int]]) -> Text:
        """Return a text that joins the given (start, end) ranges of the file."""
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
        """Return the position of the character at an offset, or the position after the last character."""
        runs = self.runs
        offset = max(0, min(offset, len(self.value)))
        start, place = runs[bisect_right(runs, offset, key=itemgetter(0)) - 1]
        return Span(self.source, place + offset - start)

    def substring(self, start: int, end: int) -> Text:
        """Return the text from `start` to `end`, with its positions in the file."""
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
    """A single YAML value. `text` is set if the value is a string, and `written` if it is not: `1.10`, `true`, `~`."""

    value: str | int | float | bool | None
    text: Text | None
    span: Span
    written: str = ""

    @property
    def as_written(self) -> str:
        """The value as text: a number, such as `1.10`, as it is written in the file."""
        return self.text.value if self.text is not None else self.written


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

    def entry(self, *path: str) -> MappingEntry | None:
        """Return the entry at a path of keys, or None if it does not exist."""
        node: Node | None = self
        entry = None
        for name in path:
            entry = node.entries.get(name) if isinstance(node, Mapping) else None
            node = entry.value if entry is not None else None
        return entry

    def key_span(self, *path: str) -> Span | None:
        """Return the position of the key at a path of keys, or None if it does not exist."""
        entry = self.entry(*path)
        return entry.key.span if entry is not None else None

    def value_span(self, *path: str) -> Span | None:
        """Return the position of the value at a path of keys, or None if it does not exist."""
        entry = self.entry(*path)
        return entry.value.span if entry is not None else None


Node = Scalar | Sequence | Mapping


def entries_of(node: Node | None) -> dict[str, MappingEntry]:
    """Return the entries of a mapping. Other values have none."""
    return node.entries if isinstance(node, Mapping) else {}


def items_of(node: Node | None) -> tuple[Node, ...]:
    """Return the items of a list. Other values have none."""
    return node.items if isinstance(node, Sequence) else ()


class Section(NamedTuple):
    """A heading `## name` and the text under it, without trailing blank lines."""

    name: str
    heading: Span
    text: Text


@dataclass(frozen=True, slots=True)
class Document:
    """A markdown file. `body` is the text after the frontmatter, and `preface` is its part before the first section."""

    source: Source
    frontmatter: Mapping
    preface: Text
    sections: tuple[Section, ...]
    body: Text


def walk(node: Node) -> Iterator[Node]:
    """Yield a node and all nested nodes, outer nodes first."""
    yield node
    if isinstance(node, Sequence):
        for item in node.items:
            yield from walk(item)
    elif isinstance(node, Mapping):
        for entry in node.entries.values():
            yield from walk(entry.value)


def to_plain(node: Node) -> Any:
    """Return the node as plain data: dicts, lists and single values."""
    match node:
        case Scalar():
            return node.value
        case Sequence():
            return [to_plain(item) for item in node.items]
        case Mapping():
            return {name: to_plain(entry.value) for name, entry in node.entries.items()}


def normalize_newlines(text: str) -> str:
    """Return the text without a byte order mark and with `\\n` line ends."""
    text = text.removeprefix("\N{ZERO WIDTH NO-BREAK SPACE}")
    return text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text
