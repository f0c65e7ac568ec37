"""Renders tables of keys as markdown: the value and the meaning of each key."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

from skillrun.definitions.verbs import Key, KeyKind, Keys

NOTE: Final = (
    "<!-- Generated from the program's tables: `SKILLRUN_UPDATE_DOCS=1 pytest tests/unit/test_reference.py`. -->"
)
WORDS: Final[Mapping[KeyKind, str]] = {
    "text": "text; a template",
    "value": "any value; strings in it are templates",
    "condition": "a condition",
    "id": "a name",
    "name": "a name",
    "target": "a name",
    "names": "a name, or a list of names",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "choice": "a word",
    "mapping": "names with values; strings are templates",
    "list": "a list; strings in it are templates",
    "questions": "a text, a record with a `text`, or a list of these; templates",
    "rows": "a list of rows",
    "shape": "a shape, or the name of a template with one",
    "record": "a shape, the name of a template with one, or a list of these",
    "json": "JSON Schema",
    "fields": "names with types",
    "step": "a step",
    "steps": "a list of steps",
    "phases": "names, each empty or with a mapping",
    "references": "a list of names or mappings",
    "checks": "a list of checks",
    "seats": "a list of names, or `members: 1..4`",
    "sentence": "plain text",
    "address": "an address",
    "variable": "the name of an environment variable",
    "rates": "a mapping",
    "calls": "a list of calls",
    "anything": "any value, used unchanged",
    "sentences": "names with plain texts",
}


def page(title: str, parts: Iterable[str]) -> str:
    """A page with a title, the note that it is generated, and its parts."""
    return "\n\n".join([f"# {title}", NOTE, *parts]) + "\n"


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A markdown table; without a head, the cells of its first row are empty."""
    names = head or [""] * len(rows[0])
    lines = [names, ["---"] * len(names), *([cell.replace("|", "\\|") for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def key_table(
    keys: Keys, required: Collection[str] = (), defaults: Mapping[str, str] | None = None, *, literal: bool = False
) -> str:
    """The value and meaning of each key, required keys first. Strings of `literal` keys are not templates."""
    required_keys = {name for name, key in keys.items() if key.required or name in required}
    ordered = sorted(keys.items(), key=lambda item: item[0] not in required_keys)
    rows = []
    for name, key in ordered:
        default = (defaults or {}).get(name)
        doc = key.doc + (f" (default `{default}`)" if default else "")
        rows.append([f"`{name}`", _value(key, literal) + ("; **required**" if name in required_keys else ""), doc])
    return table(["key", "value", "meaning"], rows)


def _value(key: Key, literal: bool) -> str:
    """The value of a key, with the allowed words and the bounds of a number."""
    kind = WORDS["sentence" if literal and key.kind == "text" else key.kind]
    words = " or ".join(f"`{value}`" for value in key.values) if key.values else kind

    if key.kind == "list" and key.least:
        return f"{words}; not empty"
    if key.least is not None:
        words += f" from {key.least:,}"
    return words + (f" to {key.most:,}" if key.most is not None and key.most < 10**6 else "")
