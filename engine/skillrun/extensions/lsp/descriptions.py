"""Describes types, keys and filters in markdown, for hover texts and completions."""

from __future__ import annotations

import re
from typing import Final

from skillrun.checker.comparisons import KINDS
from skillrun.definitions.verbs import VERBS, Key
from skillrun.templates.filters import TESTS
from skillrun.templates.vocabulary import BUILTINS
from skillrun.types.types import Type

MAX_LISTED: Final = 8  # values or fields that are listed by name
MAX_DEPTH: Final = 2
_LINK: Final = re.compile(r"\[([^\]]+)\]\([^)]*\)")

LANGUAGE_NAMES: Final = {
    "inputs": "the typed inputs of the workflow, or of the protocol; never changed",
    "state": "the typed variables of the workflow; a `set` is visible at once",
    "config": "the workflow's merged config file",
    "features": "each feature switch, as true or false",
    "phases": "the phases that this one follows: `.outputs`, `.artifacts['file.md']`, `.summary`",
    "history": "earlier rounds, oldest first; each has `round` and `phases.<name>`",
    "pass": "the pass of a `repeat`: `index`, and `previous.<id>`",
    "run": "the run: `name`, `round`, `environment`, `models`, `usage`, `estimate` and more",
    "member": "the member that is called: `id`, `role`, `variant`, `lens`, `model`",
    "failure": "why the step failed: `kind`, `reason`, `text`, `replies`",
    "task": "the calling step's section",
    "seats": "each seat's member, or `seats.members`",
    "loop": "the iteration of the `for`: `index`, `first`, `last`, `length` and more",
}


def describe_type(type_: Type, deep: int = MAX_DEPTH) -> str:
    """Return a short description of a type, with nested types up to `deep` levels."""
    words = _kind(type_, deep)
    if type_.bounds is not None:
        words += f" {type_.bounds[0]}..{type_.bounds[1]}"
    if type_.kind in ("text", "number") and type_.values and len(type_.values) > 1:
        words = f"one of {join_names(type_.values)}"
    return f"{words}, may be absent" if type_.unless is not None else words


def _kind(type_: Type, deep: int) -> str:
    if type_.kind in ("any", "none"):
        return "anything" if type_.kind == "any" else "nothing"
    if type_.kind == "list":
        inner = describe_type(type_.item, deep) if type_.item is not None and type_.item.kind != "any" else ""
        return f"a list of items, each {inner}" if inner else "a list"
    if type_.kind == "record" and type_.fields and deep:
        return f"a record with {join_names(type_.fields)}"
    if type_.form == "integer":
        return "a whole number"
    return KINDS[type_.kind]


def join_names(names: object) -> str:
    """Return a text that lists the first names in backticks and says how many others there are."""
    every = [str(name) for name in names] if hasattr(names, "__iter__") else []
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


def describe_builtin(name: str) -> str:
    """Return the usage and purpose of a filter, function or test; empty for any other name."""
    builtin = BUILTINS.get(name)
    if builtin is None:
        return f"`{name}`: a test, written after `is`" if name in TESTS else ""
    forms = ", ".join(f"`{form}`" for form in builtin.usages) or f"`{name}`"
    line = _LINK.sub(r"\1", builtin.description) or f"from Jinja, for {builtin.group}"
    return f"{forms}: {line}"
