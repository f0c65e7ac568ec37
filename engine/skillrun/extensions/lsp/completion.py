"""Completes keys and names in YAML, and names, fields, filters and tests in templates.

Combines the results of other modules. A completion replaces only the word at the cursor.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from skillrun.definitions.definitions import Procedure
from skillrun.definitions.parse import ACCEPTANCE, PREAMBLE
from skillrun.definitions.verbs import VERBS
from skillrun.extensions.lsp.candidates import candidates
from skillrun.extensions.lsp.cursor_context import CompletionCandidate, CursorContext
from skillrun.extensions.lsp.cursor_position import CursorPosition, locate_cursor
from skillrun.extensions.lsp.descriptions import LANGUAGE_NAMES, describe_builtin, describe_key, describe_type
from skillrun.extensions.lsp.expressions import ExpressionQuery, infer_type, names_after, parse_query
from skillrun.extensions.lsp.library_names import artifacts, members, models, skills
from skillrun.extensions.lsp.slots import CompletionSlot, file_kind, slot_at
from skillrun.extensions.lsp.symbol_index import SymbolIndex, map_offset
from skillrun.syntax.document import find_headings
from skillrun.templates.filters import TESTS
from skillrun.templates.vocabulary import BUILTINS, REJECTED_KINDS
from skillrun.types.types import Type, identifier

TEMPLATE_FILE_KINDS: Final = ("workflow", "phase", "protocol", "template", "reference")
"""The kinds of files whose bodies are templates."""
TEMPLATE_VALUES: Final = ("text", "value", "list", "questions", "condition", "mapping", "fields", "shape", "record")
_TAGS: Final = ("if", "for", "set", "else", "elif", "endif", "endfor", "endset", "raw", "endraw")
_FIELD_ARGUMENTS: Final = frozenset(
    {"map:attribute", "sort:attribute", "min:attribute", "max:attribute", "unique:attribute", "join:attribute",
     "sum:attribute", "groupby", "dedupe", "pick", "new_in"}
)  # fmt: skip


class Completion(NamedTuple):
    """A completion, which replaces the text between two offsets with `text`."""

    label: str
    kind: str
    start: int
    end: int
    text: str
    detail: str = ""
    documentation: str = ""


@dataclass(frozen=True)
class Cursor:
    """The cursor in a file of some kind, with its context and the names in scope. In a template, it has a query."""

    context: CursorContext
    kind: str
    names: Mapping[str, Type]
    query: ExpressionQuery | None


def cursor_at(index: SymbolIndex, path: Path, relative: str, text: str, offset: int) -> Cursor | None:
    """Return the cursor at an offset; None if nothing can be completed there."""
    place = locate_cursor(text, offset, yaml_only=relative.startswith("config/"))
    if place is None:
        return None
    kind = file_kind(relative, place.top)
    slot = slot_at(kind, place.path, place.mappings) if place.part in ("key", "value") else CompletionSlot()
    indexed_file = index.indexed_file(path)
    scope = None
    if indexed_file is not None:
        indexed_offset = map_offset(indexed_file.source.text, text, offset)
        scope = indexed_file.scope_at(indexed_offset, place.section if place.part == "body" else "")
        scope = scope or indexed_file.scope_at(indexed_offset)
    names = scope.names if scope is not None else {}
    return Cursor(CursorContext(index, relative, place, slot, scope), kind, names, _expression_query(place, slot, kind))


def _expression_query(place: CursorPosition, slot: CompletionSlot, kind: str) -> ExpressionQuery | None:
    """Return the query if the cursor is in an expression of a template; None if it is not."""
    if place.part == "body":
        return parse_query(place.prefix) if kind in TEMPLATE_FILE_KINDS else None
    if place.part != "value" or kind not in TEMPLATE_FILE_KINDS:
        return None
    takes = slot.key.kind if slot.key is not None else "value"
    return parse_query(place.prefix, bare=takes == "condition") if takes in TEMPLATE_VALUES else None


def complete(index: SymbolIndex, path: Path, relative: str, text: str, offset: int) -> list[Completion]:
    """Return all completions at an offset, with the most likely ones first."""
    cursor = cursor_at(index, path, relative, text, offset)
    if cursor is None:
        return []
    place = cursor.context.place
    if cursor.query is not None:
        start, end = offset - len(cursor.query.word), _word_end(text, offset)
        return [_build_completion(each, start, end) for each in expression_names(cursor)]
    if place.part == "heading":
        return [_build_completion(each, place.start, place.end) for each in _headings(cursor, text)]
    if place.part == "key":
        return list(_keys(cursor, text))
    return (
        [_build_completion(each, place.start, place.end) for each in _values(cursor)] if place.part == "value" else []
    )


def _word_end(text: str, offset: int) -> int:
    while offset < len(text) and (text[offset].isalnum() or text[offset] == "_"):
        offset += 1
    return offset


def _build_completion(candidate: CompletionCandidate, start: int, end: int) -> Completion:
    name = candidate.name
    return Completion(name, candidate.kind, start, end, name, candidate.detail, _doc(candidate))


def _doc(candidate: CompletionCandidate) -> str:
    return describe_builtin(candidate.name) if candidate.kind in ("filter", "function", "test") else ""


def _keys(cursor: Cursor, text: str) -> Iterator[Completion]:
    """Yield the keys that the mapping does not have yet, required ones first, then names that the author may choose."""
    place, slot = cursor.context.place, cursor.context.slot
    suffix = "" if text[place.end : place.end + 1] == ":" else ": "
    free = [(name, key) for name, key in slot.keys.items() if name not in place.siblings]
    for name, key in sorted(free, key=lambda entry: not entry[1].required):
        kind = "verb" if slot.is_step and name in VERBS else "key"
        yield Completion(name, kind, place.start, place.end, name + suffix, key.doc, describe_key(name, key))
    for candidate in candidates(cursor.context):
        if candidate.name not in place.siblings:
            yield _build_completion(candidate, place.start, place.end)._replace(text=candidate.name + suffix)
    if not slot.keys and slot.items is None and isinstance(place.path[-1] if place.path else "", int):
        yield from (_build_completion(each, place.start, place.end) for each in _values(cursor))
    if cursor.kind in ("config", "models"):
        yield from _config_keys(cursor, suffix)


def _config_keys(cursor: Cursor, suffix: str) -> Iterator[Completion]:
    """Yield the keys that the merged config has at the path of the cursor, but this file does not have."""
    place = cursor.context.place
    data: object = cursor.context.config
    for part in place.path:
        data = data.get(part) if isinstance(data, Mapping) else None
    for name, value in data.items() if isinstance(data, Mapping) else ():
        if name not in place.siblings and name not in cursor.context.slot.keys:
            about = "" if isinstance(value, Mapping | list) else str(value)
            yield Completion(str(name), "key", place.start, place.end, f"{name}{suffix}", about)


def _values(cursor: Cursor) -> list[CompletionCandidate]:
    place, slot = cursor.context.place, cursor.context.slot
    if slot.key is not None and slot.key.kind == "shape" and slot.within:
        return [each for each in candidates(cursor.context) if each.kind == "value"]
    return candidates(cursor.context) if "{{" not in place.prefix else []


def _headings(cursor: Cursor, text: str) -> Iterator[CompletionCandidate]:
    """Yield the sections that the file does not have yet: sections of its kind, and sections of its steps."""
    context = cursor.context
    library = context.index.library
    existing = {heading.name for heading in find_headings(text, 0)[0]} - {context.place.section}
    name = context.relative.removeprefix("skills/").removesuffix(".md")
    score: Procedure | None = None
    if cursor.kind == "workflow":
        yield CompletionCandidate(PREAMBLE.capitalize(), "heading", "added to the start of every prompt")
    if cursor.kind == "phase":
        yield CompletionCandidate(ACCEPTANCE.capitalize(), "heading", "added to every prompt of the phase")
        score = library.phase(name)
    elif cursor.kind == "protocol":
        score = library.protocol(name.removeprefix("protocols/"))
    for step in score.walk() if score is not None else ():
        if step.id and step.has_section and step.id not in existing:
            yield CompletionCandidate(step.id, "step", f"the section of `{step.verb}`")


# in templates


def expression_names(cursor: Cursor) -> list[CompletionCandidate]:
    """Return the candidates for the expression at the cursor."""
    query = cursor.query
    assert query is not None
    match query.kind:
        case "field":
            return list(_fields(infer_type(query.owner, cursor.names, query.prefix)))
        case "item":
            return list(_items(cursor, query))
        case "filter":
            return list(_filters(infer_type(query.owner, cursor.names, query.prefix) if query.owner else None))
        case "test":
            return [CompletionCandidate(name, "test") for name in TESTS]
        case "tag":
            return [CompletionCandidate(name, "tag") for name in _TAGS]
        case "value":
            return list(_known_values(infer_type(query.owner, cursor.names, query.prefix)))
        case "argument":
            return list(_arguments(cursor, query))
    return list(_names(names_after(query.prefix, cursor.names)))


def _names(names: Mapping[str, Type]) -> Iterator[CompletionCandidate]:
    functions = {name for name, builtin in BUILTINS.items() if builtin.use != "filter"}
    own = [name for name in names if name not in LANGUAGE_NAMES and name not in functions]
    for name in [*own, *(name for name in names if name in LANGUAGE_NAMES)]:
        yield CompletionCandidate(
            name, "name" if name in own else "language", LANGUAGE_NAMES.get(name) or describe_type(names[name])
        )
    yield from (CompletionCandidate(name, "function", BUILTINS[name].description) for name in sorted(functions))


def _fields(owner: Type) -> Iterator[CompletionCandidate]:
    for name, type_ in owner.fields.items() if owner.kind == "record" else ():
        if name.isidentifier():
            yield CompletionCandidate(name, "field", describe_type(type_))


def _items(cursor: Cursor, query: ExpressionQuery) -> Iterator[CompletionCandidate]:
    """Yield the fields as they are written in brackets. An artifact is written with its file name."""
    owner = infer_type(query.owner, cursor.names, query.prefix)
    written = {identifier(each.name): each.name for each in artifacts(cursor.context)}
    for name, type_ in owner.fields.items() if owner.kind == "record" else ():
        yield CompletionCandidate(written.get(name, name), "field", describe_type(type_))


def _filters(owner: Type | None) -> Iterator[CompletionCandidate]:
    """Yield the filters that accept a value of the type; all filters without a type."""
    for name, builtin in BUILTINS.items():
        if builtin.use != "function" and (owner is None or owner.kind not in REJECTED_KINDS[builtin.accepts]):
            yield CompletionCandidate(name, "filter", builtin.description or f"for {builtin.group}")


def _known_values(type_: Type) -> Iterator[CompletionCandidate]:
    values: Iterable[object] = type_.values or (type_.item.values if type_.item is not None else None) or ()
    yield from (CompletionCandidate(str(value), "value") for value in values if isinstance(value, str | int))


def _arguments(cursor: Cursor, query: ExpressionQuery) -> Iterator[CompletionCandidate]:
    """Yield the candidates for a quoted argument of a function or filter."""
    function, number = query.function, query.number
    context = cursor.context
    if function in _FIELD_ARGUMENTS or (function in ("selectattr", "rejectattr") and number == 0):
        owner = infer_type(query.owner, cursor.names, query.prefix)
        item = owner.item if owner.kind == "list" and owner.item is not None else owner
        head, dot, _ = query.word.rpartition(".")
        for part in head.split(".") if dot else ():
            item = item.fields.get(part, Type())
        for each in _fields(item):
            yield each._replace(name=f"{head}{dot}{each.name}")
    elif function == "map" and number == 0:
        yield from _filters(None)
    elif (function in ("select", "reject") and number == 0) or function in ("selectattr", "rejectattr"):
        yield from (CompletionCandidate(name, "test") for name in TESTS)
    elif function == "bank" and number == 0:
        yield from skills("questions")(context)
    elif function == "model":
        yield from models(context)
    elif function == "members" and number == 0:
        yield from members(context)
