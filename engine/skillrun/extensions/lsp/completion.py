"""Completes keys and names in YAML, and names, fields, filters and tests in templates.

Combines the results of other modules. A completion replaces only the word at the cursor.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

from skillrun.definitions.definitions import Procedure
from skillrun.definitions.parse import ACCEPTANCE, PREAMBLE
from skillrun.definitions.verbs import VERBS
from skillrun.extensions.lsp.candidates import Completion, artifacts, candidates, members, models, skills
from skillrun.extensions.lsp.cursor import Cursor, cursor_at
from skillrun.extensions.lsp.expressions import names_after
from skillrun.extensions.lsp.hover import LANGUAGE_NAMES, describe_builtin, describe_key, describe_type
from skillrun.extensions.lsp.symbol_index import SymbolIndex
from skillrun.syntax.document import find_headings
from skillrun.templates.filters import ARGUMENT_TESTS, TESTS
from skillrun.templates.vocabulary import BUILTINS, REJECTED_KINDS, manual_entry
from skillrun.types.types import Type, identifier

_TAGS: Final = ("if", "for", "set", "else", "elif", "endif", "endfor", "endset", "raw", "endraw")
_FIELD_ARGUMENTS: Final = frozenset(
    {"map:attribute", "sort:attribute", "min:attribute", "max:attribute", "unique:attribute", "join:attribute",
     "sum:attribute", "groupby", "dedupe", "pick", "new_in"}
)  # fmt: skip


def complete(
    index: SymbolIndex, path: Path, relative: str, text: str, offset: int
) -> tuple[int, int, list[Completion]]:
    """Return the start and end of the word at an offset, and all completions of it, with the most likely ones first."""
    cursor = cursor_at(index, path, relative, text, offset)
    if cursor is None:
        return offset, offset, []
    place = cursor.place
    if cursor.query is not None:
        start, end = offset - len(cursor.query.word), offset
        while end < len(text) and (text[end].isalnum() or text[end] == "_"):
            end += 1
        described = (
            each._replace(documentation=describe_builtin(each.name))
            if each.kind in ("filter", "function", "test")
            else each
            for each in _expression_names(cursor)
        )
        return start, end, list(described)
    completions: Iterable[Completion] = ()
    if place.part == "heading":
        completions = _headings(cursor, text)
    elif place.part == "key":
        suffix = "" if text[place.end : place.end + 1] == ":" else ": "
        completions = _keys(cursor, suffix)
    elif place.part == "value":
        completions = _values(cursor)
    return place.start, place.end, list(completions)


def _keys(cursor: Cursor, suffix: str) -> Iterator[Completion]:
    """Yield the keys that the mapping does not have yet, required keys first, then names that the author can choose."""
    place, slot = cursor.place, cursor.slot
    free = [(name, key) for name, key in slot.keys.items() if name not in place.siblings]
    for name, key in sorted(free, key=lambda entry: not entry[1].required):
        yield Completion(
            name, "verb" if slot.is_step and name in VERBS else "key", key.doc, describe_key(name, key), suffix
        )
    for candidate in candidates(cursor):
        if candidate.name not in place.siblings:
            yield candidate._replace(suffix=suffix)
    if not slot.keys and slot.items is None and isinstance(place.path[-1] if place.path else "", int):
        yield from _values(cursor)
    if cursor.kind in ("config", "models"):  # the keys of the merged config that this file does not have
        data: object = cursor.config
        for part in place.path:
            data = data.get(part) if isinstance(data, Mapping) else None
        for name, value in data.items() if isinstance(data, Mapping) else ():
            if name not in place.siblings and name not in slot.keys:
                about = "" if isinstance(value, Mapping | list) else str(value)
                yield Completion(str(name), "key", about, suffix=suffix)


def _values(cursor: Cursor) -> list[Completion]:
    slot = cursor.slot
    if slot.key is not None and slot.key.kind == "shape" and slot.within:
        return [each for each in candidates(cursor) if each.kind == "value"]
    return candidates(cursor) if "{{" not in cursor.place.prefix else []


def _headings(cursor: Cursor, text: str) -> Iterator[Completion]:
    """Yield the sections that the file does not have yet: sections of the file's kind, and sections of its steps."""
    library = cursor.index.library
    existing = {heading.name for heading in find_headings(text, 0)[0]} - {cursor.place.section}
    name = cursor.relative.removeprefix("skills/").removesuffix(".md")
    procedure: Procedure | None = None
    if cursor.kind == "workflow":
        yield Completion(PREAMBLE.capitalize(), "heading", "added to the start of every prompt")
    if cursor.kind == "phase":
        yield Completion(ACCEPTANCE.capitalize(), "heading", "added to every prompt of the phase")
        procedure = library.phase(name)
    elif cursor.kind == "protocol":
        procedure = library.protocol(name.removeprefix("protocols/"))
    for step in procedure.walk() if procedure is not None else ():
        if step.id and step.has_section and step.id not in existing:
            yield Completion(step.id, "step", f"the section of `{step.verb}`")


# in templates


def _expression_names(cursor: Cursor) -> Iterator[Completion]:
    """Yield the candidates for the expression at the cursor."""
    query = cursor.query
    assert query is not None
    match query.kind:
        case "field":
            yield from _fields(cursor.owner_type)
        case "item":  # an artifact is written with its file name
            written = {identifier(each.name): each.name for each in artifacts(cursor)}
            for field in _fields(cursor.owner_type, all_names=True):
                yield field._replace(name=written.get(field.name, field.name))
        case "filter":
            yield from _filters(cursor.owner_type if query.owner else None)
        case "test":
            yield from (Completion(name, "test") for name in TESTS)
        case "tag":
            yield from (Completion(name, "tag") for name in _TAGS)
        case "value":
            type_ = cursor.owner_type
            values = type_.values or (type_.item.values if type_.item is not None else None) or ()
            yield from (Completion(str(value), "value") for value in values if isinstance(value, str | int))
        case "argument":
            yield from _arguments(cursor, query.function, query.number, query.word)
        case _:
            yield from _names(names_after(query.prefix, cursor.names))


def _names(names: Mapping[str, Type]) -> Iterator[Completion]:
    functions = {name for name, builtin in BUILTINS.items() if builtin.use != "filter"}
    own = [name for name in names if name not in LANGUAGE_NAMES and name not in functions]
    for name in own:
        yield Completion(name, "name", describe_type(names[name]))
    for name in names:
        if name in LANGUAGE_NAMES:
            yield Completion(name, "language", LANGUAGE_NAMES[name])
    yield from (Completion(name, "function", manual_entry(name)[1]) for name in sorted(functions))


def _fields(owner: Type, *, all_names: bool = False) -> Iterator[Completion]:
    """Yield the fields of a record that can follow a `.`, or all fields if `all_names` is set."""
    for name, type_ in owner.fields.items() if owner.kind == "record" else ():
        if all_names or name.isidentifier():
            yield Completion(name, "field", describe_type(type_))


def _filters(owner: Type | None) -> Iterator[Completion]:
    """Yield the filters that accept a value of type `owner`, or all filters if `owner` is None."""
    for name, builtin in BUILTINS.items():
        if builtin.use != "function" and (owner is None or owner.kind not in REJECTED_KINDS[builtin.accepts]):
            yield Completion(name, "filter", manual_entry(name)[1])


def _arguments(cursor: Cursor, function: str, number: int, word: str) -> Iterator[Completion]:
    """Yield the candidates for a quoted argument of a function or filter, such as a field of the items in a list."""
    if function in _FIELD_ARGUMENTS or (function in ("selectattr", "rejectattr") and number == 0):
        owner = cursor.owner_type
        item = owner.item if owner.kind == "list" and owner.item is not None else owner
        head, dot, _ = word.rpartition(".")
        for part in head.split(".") if dot else ():
            item = item.fields.get(part, Type())
        for each in _fields(item):
            yield each._replace(name=f"{head}{dot}{each.name}")
    elif function == "map" and number == 0:
        yield from _filters(None)
    elif (function in ("select", "reject") and number == 0) or function in ("selectattr", "rejectattr"):
        yield from (Completion(name, "test") for name in ARGUMENT_TESTS)
    elif function == "bank" and number == 0:
        yield from skills(cursor, "questions")
    elif function == "model":
        yield from models(cursor)
    elif function == "members" and number == 0:
        yield from members(cursor)
