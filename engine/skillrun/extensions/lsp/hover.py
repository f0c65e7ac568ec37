"""Describes the word under the cursor in markdown: the type, fields and uses of a name, or the purpose of a key.

The descriptions of types, keys and filters are also in completions.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from skillrun.checker.comparisons import KINDS
from skillrun.definitions.verbs import VERBS, Key
from skillrun.extensions.lsp.cursor import Cursor, cursor_at
from skillrun.extensions.lsp.expressions import infer_type
from skillrun.extensions.lsp.references import find_references, symbols_at, text_range
from skillrun.extensions.lsp.symbol_index import SymbolIndex
from skillrun.library.symbols import Symbol, SymbolReference
from skillrun.templates.filters import TESTS
from skillrun.templates.vocabulary import BUILTINS, manual_entry
from skillrun.types.fields import Field
from skillrun.types.types import Type, identifier

MOST_PLACES: Final = 6
MAX_LISTED: Final = 8  # values or fields that are listed by name
MAX_DEPTH: Final = 2
_WORD: Final = re.compile(r"[\w-]+")
_LINK: Final = re.compile(r"\[([^\]]+)\]\([^)]*\)")

LANGUAGE_NAMES: Final = {
    "inputs": "the typed inputs of the workflow, or of the protocol; never changed",
    "state": "the typed variables of the workflow; a `set` is visible at once",
    "config": "the workflow's merged config file",
    "features": "each feature switch, as true or false",
    "phases": "the phases before this phase: `.outputs`, `.artifacts['file.md']`, `.summary`",
    "history": "earlier rounds, oldest first; each round has `round` and `phases.<name>`",
    "pass": "the pass of a `repeat`: `index`, and `previous.<id>`",
    "run": "the run: `name`, `round`, `environment`, `models`, `usage`, `estimate` and more",
    "member": "the member that is called: `id`, `role`, `variant`, `lens`, `model`",
    "failure": "why the step failed: `kind`, `reason`, `text`, `replies`",
    "task": "the calling step's section",
    "seats": "each seat's member, or `seats.members`",
    "loop": "the iteration of the `for`: `index`, `first`, `last`, `length` and more",
}
_TAKES: Final = {
    "text": "text, rendered as a template",
    "value": "a value; strings in it are templates",
    "condition": "a bare expression",
    "names": "a name, or a list of them",
    "boolean": "`true` or `false`",
    "mapping": "a mapping of names to values",
    "list": "a list, or a template that yields one",
    "questions": "the text of a question, a record with a `text`, or a list of these",
    "shape": "a shape, or the name of a template that has one",
    "steps": "a list of steps",
    "step": "one step",
}


class Hover(NamedTuple):
    """A hover text, and the range that it describes."""

    start: int
    end: int
    markdown: str


def hover(index: SymbolIndex, path: Path, relative: str, text: str, offset: int) -> Hover | None:
    """Return the hover text for the word at an offset; None if the word has no description."""
    words = (match.span() for match in _WORD.finditer(text, text.rfind("\n", 0, offset) + 1))
    nearest = next((span for span in words if offset <= span[1]), (offset, offset))
    start, end = nearest if nearest[0] <= offset else (offset, offset)
    references = symbols_at(index, path, relative, text, offset)
    cursor = cursor_at(index, path, relative, text, end)
    parts: list[str] = []
    if cursor is not None and cursor.query is not None and end > start:
        parts.append(_describe_expression(cursor))
    elif not references and cursor is not None and cursor.place.part == "key":
        key = cursor.slot.keys.get(text[start:end])
        parts.append(describe_key(text[start:end], key) if key is not None else "")
    for reference in references[:1]:
        parts.append(_describe_symbol(index, reference.symbol, has_type=bool(parts and parts[0])))
        parts.append(_describe_uses(index, reference))
    markdown = "\n\n".join(part for part in parts if part)
    return Hover(start, end, markdown) if markdown else None


def _describe_expression(cursor: Cursor) -> str:
    """Return the type of a name or field, or what a filter, function or test does."""
    query = cursor.query
    assert query is not None
    name = query.word
    if query.kind == "test" and name in TESTS:
        return f"`{name}`: a test, written after `is`"
    if query.kind in ("filter", "name") and name in BUILTINS:
        return describe_builtin(name)
    if query.kind not in ("name", "field") or not name:
        return ""
    expression = f"{query.owner}.{name}" if query.owner else name
    type_ = infer_type(expression, cursor.names, query.prefix)
    about = LANGUAGE_NAMES.get(name, "") if query.kind == "name" else ""
    return "\n\n".join(filter(None, (f"`{expression}`: {describe_type(type_)}", about, describe_fields(type_))))


def _describe_symbol(index: SymbolIndex, symbol: Symbol, *, has_type: bool) -> str:
    """Return the description of a symbol. `has_type` says whether the type is already shown."""
    match symbol.kind:
        case "input" | "state":
            field = _find_field(index, symbol)
            if field is None or has_type:
                return field.description if field is not None else ""
            return f"`{field.name}`: {describe_type(field.type)}\n\n{field.description}"
        case "local" if not has_type:
            return _describe_local(index, symbol)
        case "role" | "variant":
            role = index.library.role(symbol.path.removeprefix("roles/").removesuffix(".md"))
            if role is None:
                return ""
            if symbol.kind == "variant":
                return f"**{role.name}:{symbol.name}** – {role.variants.get(symbol.name, '')}"
            variants = "".join(f"\n- `{variant}`: {lens}" for variant, lens in role.variants.items())
            return f"**{role.name}** – {role.description}\n\nmodel `{role.model}`{variants}"
        case "phase":
            use = next((use for use in index.phase_uses(symbol.path) if identifier(use.name) == symbol.name), None)
            phase = index.library.phase(use.skill) if use is not None else None
            outputs = ", ".join(f"`{name}`" for name in phase.outputs) if phase is not None else ""
            text = f"**{use.name}** – {phase.description}" if use is not None and phase is not None else ""
            return f"{text}\n\noutputs {outputs}" if outputs else text
        case "key":
            return _describe_config_key(index, symbol)
        case "protocol" | "workflow" | "file" | "skill":
            front = index.front(symbol.path)
            node = front.get("description") if front is not None else None
            text = f"**{symbol.name}** – {getattr(node, 'value', '')}" if node is not None else ""
            protocol = index.library.protocol(symbol.name) if symbol.kind == "protocol" else None
            seats = ", ".join(f"`{seat}`" for seat in protocol.seats.names) if protocol is not None else ""
            return f"{text}\n\nseats {seats}" if seats else text
    return ""


def _find_field(index: SymbolIndex, symbol: Symbol) -> Field | None:
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
    """Return the type and fields of a name that a step sets, or of a step's id. The last scope with the name counts."""
    scopes = [scope for file in index.files.values() for scope in file.scopes if scope.owners.steps == symbol.path]
    type_ = next((scope.names[symbol.name] for scope in reversed(scopes) if symbol.name in scope.names), None)
    if type_ is None:
        return ""
    return f"`{symbol.name}`: {describe_type(type_)}\n\n{describe_fields(type_)}".rstrip()


def _describe_uses(index: SymbolIndex, reference: SymbolReference) -> str:
    """Return a text that lists the other references to a symbol."""
    own_range, project = text_range(reference), index.library.project
    places = [place for place in find_references(index, reference.symbol, declaring=False) if place != own_range]
    if not places:
        return "No other references." if reference.symbol.kind in ("local", "input", "state", "output") else ""
    shown = []
    for path, start, _ in places[:MOST_PLACES]:
        name = path.relative_to(project).as_posix() if path.is_relative_to(project) else path.name
        file = index.files.get(path)
        shown.append(f"{name}:{file.source.position(start)[0]}" if file is not None else name)
    more = f" and {len(places) - MOST_PLACES} more" if len(places) > MOST_PLACES else ""
    return f"Used in {', '.join(shown)}{more}."


# types, keys and filters


def describe_type(type_: Type, deep: int = MAX_DEPTH) -> str:
    """Return a short description of a type, with nested types up to `deep` levels."""
    words = KINDS.get(type_.kind, "anything")
    if type_.kind == "none":
        words = "nothing"
    elif type_.kind == "list":
        known_item = type_.item is not None and type_.item.kind != "any"
        words = f"a list of items, each {describe_type(type_.item, deep)}" if type_.item and known_item else "a list"
    elif type_.kind == "record" and type_.fields and deep:
        words = f"a record with {join_names(type_.fields)}"
    elif type_.form == "integer":
        words = "a whole number"
    if type_.bounds is not None:
        words += f" {type_.bounds[0]}..{type_.bounds[1]}"
    if type_.kind in ("text", "number") and type_.values and len(type_.values) > 1:
        words = f"one of {join_names(type_.values)}"
    return f"{words}, may be absent" if type_.unless is not None else words


def join_names(names: Iterable[object]) -> str:
    """Return a text that lists the first names in backticks and says how many others there are."""
    every = [str(name) for name in names]
    more = f" and {len(every) - MAX_LISTED} more" if len(every) > MAX_LISTED else ""
    return ", ".join(f"`{name}`" for name in every[:MAX_LISTED]) + more


def describe_fields(type_: Type) -> str:
    """Return a list of the fields of a record, or of the records in a list, one field per line."""
    record = type_.item if type_.kind == "list" and type_.item is not None else type_
    lines = [f"- `{name}`: {describe_type(field, 1)}" for name, field in list(record.fields.items())[: 3 * MAX_LISTED]]
    more = len(record.fields) - len(lines)
    return "\n".join([*lines, *([f"- and {more} more"] if more > 0 else [])])


def describe_key(name: str, key: Key) -> str:
    """Return the purpose and type of a key. If the key is a verb, add the fields of the verb's result."""
    takes = ""
    if key.values:
        takes = f"one of {join_names(key.values)}"
    elif key.kind in ("integer", "number"):
        takes = "a whole number" if key.kind == "integer" else "a number"
        takes += f" of at least {key.least}" if key.least is not None else ""
    elif key.kind in _TAKES:
        takes = _TAKES[key.kind]
    lines = [f"`{name}`: {key.doc}"]
    lines += [f"Takes {takes}."] if takes else []
    lines += ["Required."] if key.required else []
    verb = VERBS.get(name)
    if verb is not None and key is verb.main and verb.result_fields:
        lines.append(f"Its result has {', '.join(f'`.{field}`' for field in verb.result_fields)}.")
    return "\n\n".join(lines)


def describe_builtin(name: str) -> str:
    """Return the usage and purpose of a filter, function or test; empty for any other name."""
    builtin = BUILTINS.get(name)
    if builtin is None:
        return f"`{name}`: a test, written after `is`" if name in TESTS else ""
    usages, description = manual_entry(name)
    origin = "from Jinja, " if builtin.group else ""
    line = _LINK.sub(r"\1", description)
    return f"{usages}: {origin}{line}"
