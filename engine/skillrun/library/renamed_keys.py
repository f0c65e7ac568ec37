"""Applies renames of config keys: a value at an old key in a project's file is read as if it were at the new key.

The notation is `was: {modes.<mode>.panel: panels.<mode>}`, which maps new keys to old keys.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from skillrun.syntax.diagnostics import Problems
from skillrun.syntax.source import Mapping, MappingEntry, Node, Scalar, Span, to_plain

RENAMES_KEY: Final = "was"
Extracted = tuple[dict[str, str], MappingEntry]


class RenamedKey(NamedTuple):
    """The new and the old path of a key.

    A part `<name>` matches any name, and stands for the matched name in the other path.
    """

    new: tuple[str, ...]
    old: tuple[str, ...]

    def __str__(self) -> str:
        return f"`{'.'.join(self.old)}` is now `{'.'.join(self.new)}`"


def read_renamed_keys(shipped: Mapping, problems: Problems) -> list[RenamedKey]:
    """Return the renames that a config layer declares. Only the renames of the weakest layer apply."""
    node = shipped.get(RENAMES_KEY)
    if node is not None and not isinstance(node, Mapping):
        problems.report(node.span, "type", f"`{RENAMES_KEY}` must be a mapping of new keys to old keys")
        return []
    renames = []
    for new, entry in node.entries.items() if node is not None else ():
        old = to_plain(entry.value)
        rename = RenamedKey(tuple(new.split(".")), tuple(old.split(".") if isinstance(old, str) else ("",)))
        if _is_valid_rename(rename, entry.value.span, problems):
            renames.append(rename)
    return renames


def apply_renames(layer: Mapping, renames: list[RenamedKey], problems: Problems) -> Mapping:
    """Return the layer with all values at their new keys; warn of each old key."""
    for move in renames:
        layer, extracted = _extract(layer, move.old, {})
        for names, entry in extracted:
            new, old = (tuple(names.get(part, part) for part in path) for path in move)
            message, hint = str(RenamedKey(new, old)), "the old key still works; use the new one"
            problems.report(entry.key.span, "moved", message, hint, "warning")
            layer = _insert(layer, new, entry)
    return layer


def _is_valid_rename(rename: RenamedKey, span: Span, problems: Problems) -> bool:
    if not all(rename.old):
        message = f"`{'.'.join(rename.new)}` needs its old key"
        problems.report(span, "moved", message, "write a name such as `hours`, or `lengths.<mode>` for several names")
        return False
    marks = [sorted(part for part in path if _is_placeholder(part)) for path in rename]
    if marks[0] != marks[1] or not all(rename.new) or len(set(marks[0])) < len(marks[0]):
        message = f"`{'.'.join(rename.old)}` does not have the same placeholders as `{'.'.join(rename.new)}`"
        problems.report(span, "moved", message, "use each `<name>` once on both sides")
        return False
    return True


def _is_placeholder(part: str) -> bool:
    return part.startswith("<") and part.endswith(">")


def _extract(node: Mapping, path: tuple[str, ...], names: dict[str, str]) -> tuple[Mapping, list[Extracted]]:
    """Remove the entries at a path, and mappings that become empty.

    Return the remaining mapping and the removed entries, each with the names that the placeholders stand for.
    """
    first, *rest = path
    kept: dict[str, MappingEntry] = {}
    extracted: list[Extracted] = []
    for name, entry in node.entries.items():
        bindings = {**names, first: name} if _is_placeholder(first) else names
        if bindings is names and name != first:
            kept[name] = entry
        elif not rest:
            extracted.append((bindings, entry))
        elif isinstance(entry.value, Mapping):
            inner, inner_extracted = _extract(entry.value, tuple(rest), bindings)
            extracted += inner_extracted
            if inner.entries or not inner_extracted:
                kept[name] = entry._replace(value=inner)
        else:
            kept[name] = entry
    return node._replace(entries=kept), extracted


def _insert(node: Mapping, path: tuple[str, ...], entry: MappingEntry) -> Mapping:
    """Return the mapping with an entry added at a path, unless the path already has a value."""
    first, *rest = path
    existing = node.entries.get(first)
    key = Scalar(first, None, entry.key.span)
    value: Node
    if not rest:
        value = existing.value if existing is not None else entry.value
    elif existing is None:
        value = _insert(Mapping({}, entry.key.span), tuple(rest), entry)
    else:
        value = _insert(existing.value, tuple(rest), entry) if isinstance(existing.value, Mapping) else existing.value
    return node._replace(
        entries={**node.entries, first: MappingEntry(existing.key if existing is not None else key, value)}
    )
