"""Keys of a config that have another place now: what a project's file still says at the old one is read at the new one.

Owns the notation: `was: {modes.<mode>.panel: panels.<mode>}`, each new place with the old one. It does not merge.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from skillrun.syntax.diagnostics import Problems
from skillrun.syntax.source import Mapping, MappingEntry, Node, Scalar, Span, plain

WAS: Final = "was"


class Move(NamedTuple):
    """A key's place now and before; a part in `<…>` stands for any name, the same on both sides."""

    new: tuple[str, ...]
    old: tuple[str, ...]

    def __str__(self) -> str:
        return f"`{'.'.join(self.old)}` is `{'.'.join(self.new)}` now"


class _Taken(NamedTuple):
    names: dict[str, str]  # what stood for each `<…>`
    entry: MappingEntry


def moves_of(shipped: Mapping, problems: Problems) -> list[Move]:
    """What a layer of a config says of places of before; it is the weakest one that counts."""
    node = shipped.get(WAS)
    if node is not None and not isinstance(node, Mapping):
        problems.report(node.span, "type", f"`{WAS}` maps a key's place to the one that it had before")
        return []
    return [move for move, span in _moves(node) if _is_move(move, span, problems)] if node is not None else []


def in_new_places(layer: Mapping, moves: list[Move], problems: Problems) -> Mapping:
    """The layer with everything at its new place; each thing that was elsewhere is warned of."""
    for move in moves:
        layer, taken = _taken(layer, move.old, {})
        for names, entry in taken:
            new, old = (tuple(names.get(part, part) for part in path) for path in move)
            message, hint = str(Move(new, old)), "it counts as before; write it there"
            problems.report(entry.key.span, "moved", message, hint, "warning")
            layer = _put(layer, new, entry)
    return layer


def _moves(node: Mapping) -> Iterator[tuple[Move, Span]]:
    for new, entry in node.entries.items():
        old = plain(entry.value)
        yield Move(tuple(new.split(".")), tuple(old.split(".") if isinstance(old, str) else ("",))), entry.value.span


def _is_move(move: Move, span: Span, problems: Problems) -> bool:
    if not all(move.old):
        message = f"`{'.'.join(move.new)}` needs the place that it had before"
        problems.report(span, "moved", message, "a name such as `hours`, or `lengths.<mode>` where it stood in many")
        return False
    marks = [sorted(part for part in path if _stands_for_any(part)) for path in move]
    if marks[0] != marks[1] or not all(move.new) or len(set(marks[0])) < len(marks[0]):
        message = f"`{'.'.join(move.old)}` does not say the same names as `{'.'.join(move.new)}`"
        problems.report(span, "moved", message, "each `<name>` stands once on both sides")
        return False
    return True


def _stands_for_any(part: str) -> bool:
    return part.startswith("<") and part.endswith(">")


def _taken(node: Mapping, path: tuple[str, ...], names: dict[str, str]) -> tuple[Mapping, list[_Taken]]:
    """A mapping without what stands at a path, and what stood there; a mapping that becomes empty goes, too."""
    first, *rest = path
    kept: dict[str, MappingEntry] = {}
    taken: list[_Taken] = []
    for name, entry in node.entries.items():
        bound = {**names, first: name} if _stands_for_any(first) else names
        if bound is names and name != first:
            kept[name] = entry
        elif not rest:
            taken.append(_Taken(bound, entry))
        elif isinstance(entry.value, Mapping):
            inner, inside = _taken(entry.value, tuple(rest), bound)
            taken += inside
            if inner.entries or not inside:
                kept[name] = entry._replace(value=inner)
        else:
            kept[name] = entry
    return node._replace(entries=kept), taken


def _put(node: Mapping, path: tuple[str, ...], entry: MappingEntry) -> Mapping:
    """A mapping with an entry at a path, where nothing stands there yet."""
    first, *rest = path
    there = node.entries.get(first)
    key = Scalar(first, None, entry.key.span)
    value: Node
    if not rest:
        value = there.value if there is not None else entry.value
    elif there is None:
        value = _put(Mapping({}, entry.key.span), tuple(rest), entry)
    else:
        value = _put(there.value, tuple(rest), entry) if isinstance(there.value, Mapping) else there.value
    return node._replace(entries={**node.entries, first: MappingEntry(there.key if there is not None else key, value)})
