"""What is said of the word under the cursor: its type, what it gives, where it is used, what a key or filter is for.

Says it as markdown; finds nothing itself that the other modules do not know.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from skillrun.extensions.lsp.completion import Cursor, cursor_at
from skillrun.extensions.lsp.declarations import stretch_of
from skillrun.extensions.lsp.descriptions import NAMES, builtin_in_words, fields_in_words, key_in_words, type_in_words
from skillrun.extensions.lsp.expressions import type_of
from skillrun.extensions.lsp.references import references, things_at
from skillrun.extensions.lsp.symbol_index import Knowledge, Stretch
from skillrun.library.symbols import Mention, Thing
from skillrun.templates.tests import TESTS
from skillrun.templates.vocabulary import BUILTINS
from skillrun.types.fields import Field
from skillrun.types.types import identifier

MOST_PLACES: Final = 6
_WORD: Final = re.compile(r"[\w-]+")


class Hover(NamedTuple):
    """What is said of a stretch of the text."""

    start: int
    end: int
    markdown: str


def hover(knowledge: Knowledge, path: Path, relative: str, text: str, offset: int) -> Hover | None:
    """What is said of what stands at an offset; None where there is nothing to say."""
    start, end = _word(text, offset)
    mentions = things_at(knowledge, path, relative, text, offset)
    cursor = cursor_at(knowledge, path, relative, text, end)
    parts: list[str] = []
    if cursor is not None and cursor.asked is not None and end > start:
        parts.append(_in_expression(cursor, text[start:end]))
    elif not mentions and cursor is not None and cursor.around.place.part == "key":
        key = cursor.around.slot.keys.get(text[start:end])
        parts.append(key_in_words(text[start:end], key) if key is not None else "")
    for mention in mentions[:1]:
        parts.append(_of_thing(knowledge, mention.thing, typed=bool(parts and parts[0])))
        parts.append(_used(knowledge, mention))
    told = "\n\n".join(part for part in parts if part)
    return Hover(start, end, told) if told else None


def _word(text: str, offset: int) -> tuple[int, int]:
    line = text.rfind("\n", 0, offset) + 1
    for match in _WORD.finditer(text, line):
        if match.start() <= offset <= match.end():
            return match.span()
        if match.start() > offset:
            break
    return offset, offset


def _in_expression(cursor: Cursor, word: str) -> str:
    """The type of a name or field, or what a filter, function or test does."""
    asked = cursor.asked
    assert asked is not None
    if asked.asked == "test" and word in TESTS:
        return builtin_in_words(word) if word not in BUILTINS else f"`{word}`: a test, written after `is`"
    if asked.asked == "filter" and word in BUILTINS:
        return builtin_in_words(word)
    name = asked.word
    if asked.asked == "name" and name not in cursor.names and name in BUILTINS:
        return builtin_in_words(name)
    if asked.asked == "name" and name in BUILTINS:
        return builtin_in_words(name)
    if asked.asked not in ("name", "field") or not name:
        return ""
    expression = f"{asked.owner}.{name}" if asked.owner else name
    type_ = type_of(expression, cursor.names, asked.before)
    lines = [f"`{expression}`: {type_in_words(type_)}"]
    lines += [NAMES[name]] if asked.asked == "name" and name in NAMES else []
    if fields := fields_in_words(type_):
        lines.append(fields)
    return "\n\n".join(lines)


def _of_thing(knowledge: Knowledge, thing: Thing, *, typed: bool) -> str:
    """What a thing is, as its file says; `typed`: its type is told already."""
    if thing.kind in ("input", "state"):
        field = _field(knowledge, thing)
        if field is None or typed:
            return field.description if field is not None else ""
        return f"`{field.name}`: {type_in_words(field.type)}\n\n{field.description}"
    if thing.kind == "local" and typed:
        return ""
    tell = _TOLD.get(thing.kind)
    return tell(knowledge, thing) if tell is not None else ""


def _role(knowledge: Knowledge, thing: Thing) -> str:
    role = knowledge.library.role(thing.home.removeprefix("roles/").removesuffix(".md"))
    if role is None:
        return ""
    if thing.kind == "variant":
        return f"**{role.name}:{thing.name}** – {role.variants.get(thing.name, '')}"
    variants = "".join(f"\n- `{variant}`: {lens}" for variant, lens in role.variants.items())
    return f"**{role.name}** – {role.description}\n\nmodel `{role.model}`{variants}"


def _protocol(knowledge: Knowledge, thing: Thing) -> str:
    protocol = knowledge.library.protocol(thing.name)
    if protocol is None:
        return ""
    seats = ", ".join(f"`{seat}`" for seat in protocol.seats.names)
    return f"{_file(knowledge, thing)}\n\nseats {seats}" if seats else _file(knowledge, thing)


def _file(knowledge: Knowledge, thing: Thing) -> str:
    """The name of a file and its line."""
    front = knowledge.front(thing.home)
    node = front.get("description") if front is not None else None
    return f"**{thing.name}** – {getattr(node, 'value', '')}" if node is not None else ""


def _phase(knowledge: Knowledge, thing: Thing) -> str:
    workflow = knowledge.workflow(thing.home.removeprefix("workflows/").removesuffix(".md"))
    uses = workflow.phases.values() if workflow is not None else ()
    use = next((use for use in uses if identifier(use.name) == thing.name), None)
    if use is None or knowledge.library.locate(f"skills/{use.skill}.md") is None:
        return ""
    phase = knowledge.library.phase(use.skill)
    if phase is None:
        return ""
    outputs = ", ".join(f"`{name}`" for name in phase.outputs)
    told = f"**{use.name}** – {phase.description}"
    return f"{told}\n\noutputs {outputs}" if outputs else told


def _field(knowledge: Knowledge, thing: Thing) -> Field | None:
    """The declaration of an input or variable."""
    name = thing.home.rpartition("/")[2].removesuffix(".md")
    fields: tuple[Field, ...] = ()
    if thing.home.startswith("workflows/"):
        workflow = knowledge.workflow(name)
        fields = (workflow.inputs if thing.kind == "input" else workflow.state) if workflow is not None else ()
    else:
        protocol = knowledge.library.protocol(name)
        fields = protocol.inputs if protocol is not None else ()
    return next((field for field in fields if identifier(field.name) == thing.name), None)


def _value_of_key(knowledge: Knowledge, thing: Thing) -> str:
    config = knowledge.library.config(thing.home.removeprefix("config/").removesuffix(".yaml"))
    value: object = config.data if config is not None else None
    for part in thing.name.split("."):
        entries = value if isinstance(value, Mapping) else {}
        value = next((inner for name, inner in entries.items() if identifier(str(name)) == part), None)
    if value is None:
        return ""
    written = ", ".join(f"`{name}`" for name in value) if isinstance(value, Mapping) else f"`{value}`"
    return f"`{thing.name}` of {thing.home}: {written}"


def _what_it_gives(knowledge: Knowledge, thing: Thing) -> str:
    """The type of what a step's id, or a name that is set, gives: as the last place that can read it sees it."""
    views = [view for file in knowledge.files.values() for view in file.views if view.homes.steps == thing.home]
    type_ = next((view.names[thing.name] for view in reversed(views) if thing.name in view.names), None)
    if type_ is None:
        return ""
    fields = fields_in_words(type_)
    return f"`{thing.name}`: {type_in_words(type_)}" + (f"\n\n{fields}" if fields else "")


def _used(knowledge: Knowledge, mention: Mention) -> str:
    """Where a thing is used, but for this place."""
    places = [place for place in references(knowledge, mention.thing, declaring=False) if place != stretch_of(mention)]
    if not places:
        return "Nothing else names it." if mention.thing.kind in ("local", "input", "state", "output") else ""
    shown = ", ".join(_place(knowledge, place) for place in places[:MOST_PLACES])
    more = f" and {len(places) - MOST_PLACES} more" if len(places) > MOST_PLACES else ""
    return f"Named in {shown}{more}."


def _place(knowledge: Knowledge, place: Stretch) -> str:
    project = knowledge.library.project
    path = place.path.relative_to(project).as_posix() if place.path.is_relative_to(project) else place.path.name
    sighted = knowledge.sighted(place.path)
    line = f":{sighted.source.position(place.start)[0]}" if sighted is not None else ""
    return f"{path}{line}"


_TOLD: Final[Mapping[str, Callable[[Knowledge, Thing], str]]] = {
    "role": _role,
    "variant": _role,
    "protocol": _protocol,
    "workflow": _file,
    "file": _file,
    "skill": _file,
    "phase": _phase,
    "key": _value_of_key,
    "local": _what_it_gives,
}
