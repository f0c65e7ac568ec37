"""Builds the outline of a file for the editor: nested keys, steps and sections."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Final, Literal, NamedTuple

from skillrun.definitions.verbs import VERBS
from skillrun.extensions.lsp.positions import Range, range_between
from skillrun.syntax.diagnostics import ParsingStopped, Problems
from skillrun.syntax.document import find_headings, parse_frontmatter
from skillrun.syntax.source import Mapping, Node, Scalar, Source
from skillrun.syntax.source import Sequence as List
from skillrun.syntax.yaml import parse_yaml

DEPTH: Final = 3  # levels of nested keys
LONGEST: Final = 60  # characters of the detail of a step without an id
OutlineKind = Literal["key", "step", "section"]


class OutlineItem(NamedTuple):
    """A part of a file, with its full range and the range of its name."""

    name: str
    kind: OutlineKind
    range: Range
    name_range: Range
    detail: str = ""
    children: tuple[OutlineItem, ...] = ()


def parse_outline(text: str, *, markdown: bool) -> tuple[OutlineItem, ...]:
    """Return the parts of a file that can be parsed; `text` has `\\n` line ends."""
    source, problems = Source.of(text), Problems.without_limit()
    try:
        if not markdown:
            node = parse_yaml(source, 0, len(text), problems)
            return tuple(_keys(text, node, len(text))) if isinstance(node, Mapping) else ()
        front, start = parse_frontmatter(source, problems)
    except ParsingStopped:
        return ()
    keys = tuple(_keys(text, front, start)) if front is not None and front.entries else ()
    return (*keys, *_sections(text, start))


def _keys(text: str, mapping: Mapping, end: int, depth: int = 1) -> Iterator[OutlineItem]:
    entries = list(mapping.entries.items())
    starts = [*(entry.key.span.offset for _, entry in entries), end]
    for (name, entry), (start, after) in zip(entries, pairwise(starts), strict=True):
        until = _trimmed_end(text, start, after)
        inside = tuple(_child_items(text, entry.value, until, depth))
        yield OutlineItem(name, "key", range_between(text, start, until), _name_range(text, start, until), "", inside)


def _child_items(text: str, node: Node, end: int, depth: int) -> Iterator[OutlineItem]:
    if depth >= DEPTH:
        return
    if isinstance(node, Mapping):
        yield from _keys(text, node, end, depth + 1)
    elif isinstance(node, List):
        starts = [*(item.span.offset for item in node.items), end]
        for item, (start, after) in zip(node.items, pairwise(starts), strict=True):
            step = _step(text, item, start, _trimmed_end(text, start, after), depth)
            if step is not None:
                yield step


def _step(text: str, node: Node, start: int, end: int, depth: int) -> OutlineItem | None:
    """Return a step by its id and verb; None if the node is not a step."""
    verb = next((name for name in node.entries if name in VERBS), None) if isinstance(node, Mapping) else None
    if verb is None or not isinstance(node, Mapping):
        return None
    id_, value = node.get("id"), node.entries[verb].value
    named = isinstance(id_, Scalar) and bool(id_.value)
    name = str(id_.value) if isinstance(id_, Scalar) and named else verb
    detail = verb if named else str(value.value or "")[:LONGEST] if isinstance(value, Scalar) else ""
    at = id_.span.offset if id_ is not None and named else node.entries[verb].key.span.offset
    inside = tuple(_child_items(text, value, end, depth + 1)) if isinstance(value, List) else ()
    nested = node.get("steps")
    inside += tuple(_child_items(text, nested, end, depth + 1)) if nested is not None else ()
    whole = range_between(text, min(start, at), max(end, at))
    return OutlineItem(name, "step", whole, _name_range(text, at, max(end, at)), detail, inside)


def _sections(text: str, start: int) -> Iterator[OutlineItem]:
    headings, _ = find_headings(text, start if start < len(text) else 0)
    ends = [*(heading.start for heading in headings[1:]), len(text)]
    for heading, end in zip(headings, ends, strict=False):
        until = _trimmed_end(text, heading.start, end)
        line = range_between(text, heading.start, max(text.find("\n", heading.start, until), heading.start) or until)
        whole = range_between(text, heading.start, until)
        yield OutlineItem(heading.name or "##", "section", whole, line if line.end <= whole.end else whole)


def _trimmed_end(text: str, start: int, end: int) -> int:
    """Return the end without trailing blanks, the dash of the next item and closing brackets."""
    return start + len(text[start:end].rstrip(" \t\n-{,}]["))


def _name_range(text: str, start: int, end: int) -> Range:
    """Return the range of the name that starts at an offset."""
    stops = [place for sign in ":\n,}]" if (place := text.find(sign, start, end)) >= 0]
    return range_between(text, start, min([*stops, end]))
