"""Finds the declarations of symbols, which are names in the frontmatter of a file, or whole files.

Reads parsed nodes. The checker records the references to symbols.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from skillrun.extensions.lsp.symbol_index import SymbolIndex, TextRange
from skillrun.library.symbols import Symbol, SymbolReference
from skillrun.syntax.source import Mapping, Node, Scalar, Sequence, Span
from skillrun.types.types import identifier

FILE_KINDS: Final = ("role", "protocol", "workflow", "file", "skill", "config")
"""The kinds of symbols that are whole files."""
_NOTATION: Final = re.compile(r"[?(].*", re.DOTALL)


def parse_declarations(front: Node, library_path: str) -> Iterator[SymbolReference]:
    """Yield every symbol that the frontmatter of a file declares, with the position of its name."""
    if not isinstance(front, Mapping):
        return
    folder = library_path.partition("/")[0]
    if folder == "config":
        yield from _keys(front, library_path, ())
        return
    for kind, part in (("input", "inputs"), ("state", "state"), ("output", "outputs"), ("phase", "phases")):
        if folder in ("workflows", "skills"):
            yield from _entries(front.get(part), library_path, kind)
    if folder == "roles":
        yield from _entries(front.get("variants"), library_path, "variant", identifiers=False)
    seats = front.get("seats")
    for seat in seats.items if isinstance(seats, Sequence) else ():
        yield from _declaration(seat, Symbol("seat", library_path, str(getattr(seat, "value", ""))))
    yield from _steps(front.get("steps"), library_path)


def _entries(node: Node | None, library_path: str, kind: str, *, identifiers: bool = True) -> Iterator[SymbolReference]:
    for key, entry in node.entries.items() if isinstance(node, Mapping) else ():
        name = _NOTATION.sub("", key)
        yield from _declaration(
            entry.key, Symbol(kind, library_path, identifier(name) if identifiers else name), len(name)
        )


def _declaration(node: Node, symbol: Symbol, length: int | None = None) -> Iterator[SymbolReference]:
    if isinstance(node, Scalar) and node.text is not None:
        yield SymbolReference(node.text.at(0), len(node.text.value) if length is None else length, symbol)


def _keys(node: Mapping, library_path: str, path: tuple[str, ...]) -> Iterator[SymbolReference]:
    for key, entry in node.entries.items():
        inner = (*path, identifier(key))
        yield from _declaration(entry.key, Symbol("key", library_path, ".".join(inner)))
        if isinstance(entry.value, Mapping):
            yield from _keys(entry.value, library_path, inner)


def _steps(node: Node | None, library_path: str) -> Iterator[SymbolReference]:
    for step in node.items if isinstance(node, Sequence) else ():
        yield from _step(step, library_path)


def _step(step: Node, library_path: str) -> Iterator[SymbolReference]:
    if not isinstance(step, Mapping):
        return
    id_ = step.get("id")
    name = identifier(str(getattr(id_, "value", "")))
    if id_ is not None:
        yield from _declaration(id_, Symbol("local", library_path, name))
    yield from _entries(step.get("set"), library_path, "local")
    if "each" in step.entries and (item := step.get("as")) is not None:
        yield from _declaration(item, Symbol("local", library_path, identifier(str(getattr(item, "value", "")))))
    for part in ("output", "shape", "record"):
        yield from _fields(step.get(part), library_path, name)
    for part in ("write", "writes"):
        artifact = step.get(part)
        if isinstance(artifact, Scalar):
            yield from _declaration(artifact, Symbol("artifact", library_path, identifier(str(artifact.value))))
    for part in ("repeat", "steps"):
        yield from _steps(step.get(part), library_path)
    other = step.get("otherwise")
    if other is not None:
        yield from _step(other, library_path)


def _fields(node: Node | None, library_path: str, path: str) -> Iterator[SymbolReference]:
    """Yield the fields of a shape. The name of each symbol is the field's path in expressions."""
    for key, entry in node.entries.items() if isinstance(node, Mapping) else ():
        written, _, form = key.partition("(")
        name = written.removesuffix("?")
        inner = f"{path}.{identifier(name)}"
        yield from _declaration(entry.key, Symbol("field", library_path, inner), len(name))
        yield from _fields(entry.value, library_path, f"{inner}.[]" if form.startswith("array") else inner)


def list_declarations(index: SymbolIndex, library_path: str) -> list[SymbolReference]:
    """Return the declarations in a library file. For a config, return the declarations in all its layers."""
    fronts: list[Node] = []
    if library_path.startswith("config/"):
        fronts += index.layers(library_path.removeprefix("config/").removesuffix(".yaml"))
    elif (front := index.front(library_path)) is not None:
        fronts.append(front)
    return [reference for front in fronts for reference in parse_declarations(front, library_path)]


def declaration_ranges(index: SymbolIndex, symbol: Symbol) -> list[TextRange]:
    """Return the ranges where a symbol is declared; empty if it is not declared. Files come by precedence."""
    if symbol.kind in FILE_KINDS:
        span = index.file_start(symbol.path)
        return [TextRange(span.source.path, 0, 0)] if span is not None else []
    ranges = [
        text_range(reference) for reference in list_declarations(index, symbol.path) if reference.symbol == symbol
    ]
    if not ranges and symbol.kind == "field":
        return declaration_ranges(index, Symbol("local", symbol.path, symbol.name.partition(".")[0]))
    return ranges


def text_range(reference: SymbolReference) -> TextRange:
    """Return the range of a reference in its file."""
    span: Span = reference.span
    return TextRange(span.source.path, span.offset, span.offset + reference.length)
