"""What may be written at the cursor: keys, names, and in templates names, fields, filters and tests.

Puts together what the other modules know of the place; asks for no change of the text but the word there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from skillrun.definitions.definitions import Score
from skillrun.definitions.parse import ACCEPTANCE, PREAMBLE
from skillrun.definitions.verbs import VERBS
from skillrun.extensions.lsp.candidates import candidates
from skillrun.extensions.lsp.cursor_context import Around, Candidate
from skillrun.extensions.lsp.cursor_position import Place, place_at
from skillrun.extensions.lsp.descriptions import NAMES, builtin_in_words, key_in_words, type_in_words
from skillrun.extensions.lsp.expressions import Asking, asking, names_behind, type_of
from skillrun.extensions.lsp.library_names import artifacts, members, models, skills
from skillrun.extensions.lsp.slots import Slot, kind_of, slot_at
from skillrun.extensions.lsp.symbol_index import Knowledge, moved
from skillrun.syntax.document import headings_of
from skillrun.templates.builtin import REFUSED
from skillrun.templates.tests import TESTS
from skillrun.templates.vocabulary import BUILTINS
from skillrun.types.types import Type, identifier

RENDERED: Final = ("workflow", "phase", "protocol", "template", "reference")
"""The kinds of files whose bodies are templates."""
TEMPLATED: Final = ("text", "value", "list", "questions", "condition", "mapping", "fields", "shape", "record")
_TAGS: Final = ("if", "for", "set", "else", "elif", "endif", "endfor", "endset", "raw", "endraw")
_FIELDS_OF: Final = frozenset(
    {"map:attribute", "sort:attribute", "min:attribute", "max:attribute", "unique:attribute", "join:attribute",
     "sum:attribute", "groupby", "dedupe", "pick", "new_in"}
)  # fmt: skip


class Suggestion(NamedTuple):
    """What may stand between two offsets, what it is, and what is said of it; `text` is what is put there."""

    label: str
    kind: str
    start: int
    end: int
    text: str
    about: str = ""
    doc: str = ""


@dataclass(frozen=True)
class Cursor:
    """A place in a file of a project, and what is known there."""

    around: Around
    kind: str
    names: Mapping[str, Type]
    asked: Asking | None


def cursor_at(knowledge: Knowledge, path: Path, relative: str, text: str, offset: int) -> Cursor | None:
    """What is known at an offset of a text; None where nothing of the language stands."""
    place = place_at(text, offset, yaml_only=relative.startswith("config/"))
    if place is None:
        return None
    kind = kind_of(relative, place.top)
    slot = slot_at(kind, place.path, place.around) if place.part in ("key", "value") else Slot()
    sighted = knowledge.sighted(path)
    view = None
    if sighted is not None:
        before = moved(sighted.source.text, text, offset)
        view = sighted.view(before, place.section if place.part == "body" else "")
        view = view or sighted.view(before)
    names = view.names if view is not None else {}
    return Cursor(Around(knowledge, relative, place, slot, view), kind, names, _asked(place, slot, kind))


def _asked(place: Place, slot: Slot, kind: str) -> Asking | None:
    """What is asked for where a template stands; None elsewhere."""
    if place.part == "body":
        return asking(place.before) if kind in RENDERED else None
    if place.part != "value" or kind not in RENDERED:
        return None
    takes = slot.key.takes if slot.key is not None else "value"
    return asking(place.before, bare=takes == "condition") if takes in TEMPLATED else None


def complete(knowledge: Knowledge, path: Path, relative: str, text: str, offset: int) -> list[Suggestion]:
    """Everything that may stand at an offset, what is likeliest first."""
    cursor = cursor_at(knowledge, path, relative, text, offset)
    if cursor is None:
        return []
    place = cursor.around.place
    if cursor.asked is not None:
        start, end = offset - len(cursor.asked.word), _word_end(text, offset)
        return [_suggested(each, start, end) for each in expression_names(cursor)]
    if place.part == "heading":
        return [_suggested(each, place.start, place.end) for each in _headings(cursor, text)]
    if place.part == "key":
        return list(_keys(cursor, text))
    return [_suggested(each, place.start, place.end) for each in _values(cursor)] if place.part == "value" else []


def _word_end(text: str, offset: int) -> int:
    while offset < len(text) and (text[offset].isalnum() or text[offset] == "_"):
        offset += 1
    return offset


def _suggested(candidate: Candidate, start: int, end: int) -> Suggestion:
    name = candidate.name
    return Suggestion(name, candidate.kind, start, end, name, candidate.about, _doc(candidate))


def _doc(candidate: Candidate) -> str:
    return builtin_in_words(candidate.name) if candidate.kind in ("filter", "function", "test") else ""


def _keys(cursor: Cursor, text: str) -> Iterator[Suggestion]:
    """The keys that are not there yet, those that have to be first; then names of the author's."""
    place, slot = cursor.around.place, cursor.around.slot
    behind = "" if text[place.end : place.end + 1] == ":" else ": "
    free = [(name, key) for name, key in slot.keys.items() if name not in place.siblings]
    for name, key in sorted(free, key=lambda entry: not entry[1].required):
        kind = "verb" if slot.is_step and name in VERBS else "key"
        yield Suggestion(name, kind, place.start, place.end, name + behind, key.doc, key_in_words(name, key))
    for candidate in candidates(cursor.around):
        if candidate.name not in place.siblings:
            yield _suggested(candidate, place.start, place.end)._replace(text=candidate.name + behind)
    if not slot.keys and slot.items is None and isinstance(place.path[-1] if place.path else "", int):
        yield from (_suggested(each, place.start, place.end) for each in _values(cursor))
    if cursor.kind in ("config", "models"):
        yield from _config_keys(cursor, behind)


def _config_keys(cursor: Cursor, behind: str) -> Iterator[Suggestion]:
    """The keys that the config has at this place in files behind this one."""
    place = cursor.around.place
    data: object = cursor.around.config
    for part in place.path:
        data = data.get(part) if isinstance(data, Mapping) else None
    for name, value in data.items() if isinstance(data, Mapping) else ():
        if name not in place.siblings and name not in cursor.around.slot.keys:
            about = "" if isinstance(value, Mapping | list) else str(value)
            yield Suggestion(str(name), "key", place.start, place.end, f"{name}{behind}", about)


def _values(cursor: Cursor) -> list[Candidate]:
    place, slot = cursor.around.place, cursor.around.slot
    if slot.key is not None and slot.key.takes == "shape" and slot.within:
        return [each for each in candidates(cursor.around) if each.kind == "value"]
    return candidates(cursor.around) if "{{" not in place.before else []


def _headings(cursor: Cursor, text: str) -> Iterator[Candidate]:
    """Sections that the file may have and has not: those of its steps, and those of its kind."""
    around = cursor.around
    library = around.knowledge.library
    there = {heading.name for heading in headings_of(text, 0)[0]} - {around.place.section}
    name = around.relative.removeprefix("skills/").removesuffix(".md")
    score: Score | None = None
    if cursor.kind == "workflow":
        yield Candidate(PREAMBLE.capitalize(), "heading", "goes in front of every prompt")
    if cursor.kind == "phase":
        yield Candidate(ACCEPTANCE.capitalize(), "heading", "goes into every prompt of the phase")
        score = library.phase(name)
    elif cursor.kind == "protocol":
        score = library.protocol(name.removeprefix("protocols/"))
    for step in score.walk() if score is not None else ():
        if step.id and step.has_section and step.id not in there:
            yield Candidate(step.id, "step", f"the section of `{step.verb}`")


# in templates


def expression_names(cursor: Cursor) -> list[Candidate]:
    """What may stand in an expression at the cursor."""
    asked = cursor.asked
    assert asked is not None
    match asked.asked:
        case "field":
            return list(_fields(type_of(asked.owner, cursor.names, asked.before)))
        case "item":
            return list(_items(cursor, asked))
        case "filter":
            return list(_filters(type_of(asked.owner, cursor.names, asked.before) if asked.owner else None))
        case "test":
            return [Candidate(name, "test") for name in TESTS]
        case "tag":
            return [Candidate(name, "tag") for name in _TAGS]
        case "value":
            return list(_known_values(type_of(asked.owner, cursor.names, asked.before)))
        case "argument":
            return list(_arguments(cursor, asked))
    return list(_names(names_behind(asked.before, cursor.names)))


def _names(names: Mapping[str, Type]) -> Iterator[Candidate]:
    functions = {name for name, builtin in BUILTINS.items() if builtin.use != "filter"}
    own = [name for name in names if name not in NAMES and name not in functions]
    for name in [*own, *(name for name in names if name in NAMES)]:
        yield Candidate(name, "name" if name in own else "language", NAMES.get(name) or type_in_words(names[name]))
    yield from (Candidate(name, "function", BUILTINS[name].line) for name in sorted(functions))


def _fields(owner: Type) -> Iterator[Candidate]:
    for name, type_ in owner.fields.items() if owner.kind == "record" else ():
        if name.isidentifier():
            yield Candidate(name, "field", type_in_words(type_))


def _items(cursor: Cursor, asked: Asking) -> Iterator[Candidate]:
    """The fields that an item in brackets can name, as they are written there."""
    owner = type_of(asked.owner, cursor.names, asked.before)
    written = {identifier(each.name): each.name for each in artifacts(cursor.around)}
    for name, type_ in owner.fields.items() if owner.kind == "record" else ():
        yield Candidate(written.get(name, name), "field", type_in_words(type_))


def _filters(owner: Type | None) -> Iterator[Candidate]:
    """The filters that take a value of the type."""
    for name, builtin in BUILTINS.items():
        if builtin.use != "function" and (owner is None or owner.kind not in REFUSED[builtin.takes]):
            yield Candidate(name, "filter", builtin.line or f"for {builtin.group}")


def _known_values(type_: Type) -> Iterator[Candidate]:
    values: Iterable[object] = type_.values or (type_.item.values if type_.item is not None else None) or ()
    yield from (Candidate(str(value), "value") for value in values if isinstance(value, str | int))


def _arguments(cursor: Cursor, asked: Asking) -> Iterator[Candidate]:
    """What stands in quotes as the argument of a function or filter."""
    function, number = asked.function, asked.number
    around = cursor.around
    if function in _FIELDS_OF or (function in ("selectattr", "rejectattr") and number == 0):
        owner = type_of(asked.owner, cursor.names, asked.before)
        item = owner.item if owner.kind == "list" and owner.item is not None else owner
        head, dot, _ = asked.word.rpartition(".")
        for part in head.split(".") if dot else ():
            item = item.fields.get(part, Type())
        for each in _fields(item):
            yield each._replace(name=f"{head}{dot}{each.name}")
    elif function == "map" and number == 0:
        yield from _filters(None)
    elif (function in ("select", "reject") and number == 0) or function in ("selectattr", "rejectattr"):
        yield from (Candidate(name, "test") for name in TESTS)
    elif function == "bank" and number == 0:
        yield from skills("questions")(around)
    elif function == "model":
        yield from models(around)
    elif function == "members" and number == 0:
        yield from members(around)
