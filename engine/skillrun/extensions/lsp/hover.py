"""Describes the word under the cursor in markdown: the type, fields and uses of a name, or the purpose of a key."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from skillrun.extensions.lsp.completion import Cursor, cursor_at
from skillrun.extensions.lsp.declarations import text_range
from skillrun.extensions.lsp.descriptions import (
    LANGUAGE_NAMES,
    describe_builtin,
    describe_fields,
    describe_key,
    describe_type,
)
from skillrun.extensions.lsp.expressions import infer_type
from skillrun.extensions.lsp.references import find_references, symbols_at
from skillrun.extensions.lsp.symbol_index import SymbolIndex, TextRange
from skillrun.library.symbols import Symbol, SymbolReference
from skillrun.templates.filters import TESTS
from skillrun.templates.vocabulary import BUILTINS
from skillrun.types.fields import Field
from skillrun.types.types import identifier

MOST_PLACES: Final = 6
_WORD: Final = re.compile(r"[\w-]+")


class Hover(NamedTuple):
    """A hover text, and the range that it describes."""

    start: int
    end: int
    markdown: str


def hover(index: SymbolIndex, path: Path, relative: str, text: str, offset: int) -> Hover | None:
    """Return the hover text for the word at an offset; None if there is nothing to say about the word."""
    start, end = _word(text, offset)
    mentions = symbols_at(index, path, relative, text, offset)
    cursor = cursor_at(index, path, relative, text, end)
    parts: list[str] = []
    if cursor is not None and cursor.query is not None and end > start:
        parts.append(_describe_expression(cursor, text[start:end]))
    elif not mentions and cursor is not None and cursor.context.place.part == "key":
        key = cursor.context.slot.keys.get(text[start:end])
        parts.append(describe_key(text[start:end], key) if key is not None else "")
    for reference in mentions[:1]:
        parts.append(_describe_symbol(index, reference.symbol, has_type=bool(parts and parts[0])))
        parts.append(_describe_uses(index, reference))
    markdown = "\n\n".join(part for part in parts if part)
    return Hover(start, end, markdown) if markdown else None


def _word(text: str, offset: int) -> tuple[int, int]:
    line = text.rfind("\n", 0, offset) + 1
    for match in _WORD.finditer(text, line):
        if match.start() <= offset <= match.end():
            return match.span()
        if match.start() > offset:
            break
    return offset, offset


def _describe_expression(cursor: Cursor, word: str) -> str:
    """Return the type of a name or field, or what a filter, function or test does."""
    query = cursor.query
    assert query is not None
    if query.kind == "test" and word in TESTS:
        return describe_builtin(word) if word not in BUILTINS else f"`{word}`: a test, written after `is`"
    if query.kind == "filter" and word in BUILTINS:
        return describe_builtin(word)
    name = query.word
    if query.kind == "name" and name not in cursor.names and name in BUILTINS:
        return describe_builtin(name)
    if query.kind == "name" and name in BUILTINS:
        return describe_builtin(name)
    if query.kind not in ("name", "field") or not name:
        return ""
    expression = f"{query.owner}.{name}" if query.owner else name
    type_ = infer_type(expression, cursor.names, query.prefix)
    lines = [f"`{expression}`: {describe_type(type_)}"]
    lines += [LANGUAGE_NAMES[name]] if query.kind == "name" and name in LANGUAGE_NAMES else []
    if fields := describe_fields(type_):
        lines.append(fields)
    return "\n\n".join(lines)


def _describe_symbol(index: SymbolIndex, symbol: Symbol, *, has_type: bool) -> str:
    """Return the description of a symbol. `has_type` says that the type is already shown."""
    if symbol.kind in ("input", "state"):
        field = _field(index, symbol)
        if field is None or has_type:
            return field.description if field is not None else ""
        return f"`{field.name}`: {describe_type(field.type)}\n\n{field.description}"
    if symbol.kind == "local" and has_type:
        return ""
    describe = _DESCRIPTIONS.get(symbol.kind)
    return describe(index, symbol) if describe is not None else ""


def _role(index: SymbolIndex, symbol: Symbol) -> str:
    role = index.library.role(symbol.path.removeprefix("roles/").removesuffix(".md"))
    if role is None:
        return ""
    if symbol.kind == "variant":
        return f"**{role.name}:{symbol.name}** – {role.variants.get(symbol.name, '')}"
    variants = "".join(f"\n- `{variant}`: {lens}" for variant, lens in role.variants.items())
    return f"**{role.name}** – {role.description}\n\nmodel `{role.model}`{variants}"


def _protocol(index: SymbolIndex, symbol: Symbol) -> str:
    protocol = index.library.protocol(symbol.name)
    if protocol is None:
        return ""
    seats = ", ".join(f"`{seat}`" for seat in protocol.seats.names)
    return f"{_file(index, symbol)}\n\nseats {seats}" if seats else _file(index, symbol)


def _file(index: SymbolIndex, symbol: Symbol) -> str:
    """Return the name and description of a file."""
    front = index.front(symbol.path)
    node = front.get("description") if front is not None else None
    return f"**{symbol.name}** – {getattr(node, 'value', '')}" if node is not None else ""


def _phase(index: SymbolIndex, symbol: Symbol) -> str:
    workflow = index.workflow(symbol.path.removeprefix("workflows/").removesuffix(".md"))
    uses = workflow.phases.values() if workflow is not None else ()
    use = next((use for use in uses if identifier(use.name) == symbol.name), None)
    if use is None or index.library.locate(f"skills/{use.skill}.md") is None:
        return ""
    phase = index.library.phase(use.skill)
    if phase is None:
        return ""
    outputs = ", ".join(f"`{name}`" for name in phase.outputs)
    told = f"**{use.name}** – {phase.description}"
    return f"{told}\n\noutputs {outputs}" if outputs else told


def _field(index: SymbolIndex, symbol: Symbol) -> Field | None:
    """Return the declaration of an input or variable."""
    name = symbol.path.rpartition("/")[2].removesuffix(".md")
    fields: tuple[Field, ...] = ()
    if symbol.path.startswith("workflows/"):
        workflow = index.workflow(name)
        fields = (workflow.inputs if symbol.kind == "input" else workflow.state) if workflow is not None else ()
    else:
        protocol = index.library.protocol(name)
        fields = protocol.inputs if protocol is not None else ()
    return next((field for field in fields if identifier(field.name) == symbol.name), None)


def _describe_config_key(index: SymbolIndex, symbol: Symbol) -> str:
    config = index.library.config(symbol.path.removeprefix("config/").removesuffix(".yaml"))
    value: object = config.data if config is not None else None
    for part in symbol.name.split("."):
        entries = value if isinstance(value, Mapping) else {}
        value = next((inner for name, inner in entries.items() if identifier(str(name)) == part), None)
    if value is None:
        return ""
    written = ", ".join(f"`{name}`" for name in value) if isinstance(value, Mapping) else f"`{value}`"
    return f"`{symbol.name}` of {symbol.path}: {written}"


def _describe_local(index: SymbolIndex, symbol: Symbol) -> str:
    """Return the type and fields of a name that a step sets, or of a step's id, in the last scope with the name."""
    views = [scope for file in index.files.values() for scope in file.scopes if scope.owners.steps == symbol.path]
    type_ = next((scope.names[symbol.name] for scope in reversed(views) if symbol.name in scope.names), None)
    if type_ is None:
        return ""
    fields = describe_fields(type_)
    return f"`{symbol.name}`: {describe_type(type_)}" + (f"\n\n{fields}" if fields else "")


def _describe_uses(index: SymbolIndex, reference: SymbolReference) -> str:
    """Return a text that lists the other references to a symbol."""
    places = [
        place for place in find_references(index, reference.symbol, declaring=False) if place != text_range(reference)
    ]
    if not places:
        return "No other references." if reference.symbol.kind in ("local", "input", "state", "output") else ""
    shown = ", ".join(_format_location(index, place) for place in places[:MOST_PLACES])
    more = f" and {len(places) - MOST_PLACES} more" if len(places) > MOST_PLACES else ""
    return f"Used in {shown}{more}."


def _format_location(index: SymbolIndex, place: TextRange) -> str:
    project = index.library.project
    path = place.path.relative_to(project).as_posix() if place.path.is_relative_to(project) else place.path.name
    indexed_file = index.indexed_file(place.path)
    line = f":{indexed_file.source.position(place.start)[0]}" if indexed_file is not None else ""
    return f"{path}{line}"


_DESCRIPTIONS: Final[Mapping[str, Callable[[SymbolIndex, Symbol], str]]] = {
    "role": _role,
    "variant": _role,
    "protocol": _protocol,
    "workflow": _file,
    "file": _file,
    "skill": _file,
    "phase": _phase,
    "key": _describe_config_key,
    "local": _describe_local,
}
