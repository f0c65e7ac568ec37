"""Tables of keys as markdown: what a key takes, and what it is for."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

from skillrun.definitions.verbs import Key, KeyKind, Keys

NOTE: Final = "<!-- Made of the program's tables: `SKILLRUN_UPDATE_DOCS=1 pytest tests/unit/test_reference.py`. -->"
WORDS: Final[Mapping[KeyKind, str]] = {
    "text": "text; a template",
    "value": "any value; texts in it are templates",
    "condition": "a condition",
    "id": "a name",
    "name": "a name",
    "target": "a name",
    "names": "a name, or a list of names",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "choice": "a word",
    "mapping": "names with values; texts are templates",
    "list": "a list; texts in it are templates",
    "questions": "a text, a record with a `text`, or a list of these; templates",
    "rows": "a list of rows",
    "shape": "a shape, or the name of a template that has one",
    "record": "a shape, the name of a template that has one, or a list of these",
    "json": "JSON Schema",
    "fields": "names with types",
    "step": "a step",
    "steps": "a list of steps",
    "phases": "names, each with nothing or a mapping",
    "references": "a list of names or mappings",
    "checks": "a list of checks",
    "seats": "a list of names, or `members: 1..4`",
    "sentence": "plain text",
    "address": "an address",
    "variable": "the name of an environment variable",
    "rates": "a mapping",
    "calls": "a list of calls",
    "anything": "any value, as it stands",
    "sentences": "names with plain texts",
}


def page(title: str, parts: Iterable[str]) -> str:
    """A page that is made of parts, with the note that says so."""
    return "\n\n".join([f"# {title}", NOTE, *parts]) + "\n"


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table; without a head its cells are empty."""
    names = head or [""] * len(rows[0])
    lines = [names, ["---"] * len(names), *([cell.replace("|", "\\|") for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def key_table(
    keys: Keys, required: Collection[str] = (), defaults: Mapping[str, str] | None = None, *, literal: bool = False
) -> str:
    """What each key takes and is for; the required ones first. Texts of `literal` keys are no templates."""
    must = {name for name, key in keys.items() if key.required or name in required}
    ordered = sorted(keys.items(), key=lambda item: item[0] not in must)
    rows = []
    for name, key in ordered:
        default = (defaults or {}).get(name)
        doc = key.doc + (f"; `{default}` without it" if default else "")
        rows.append([f"`{name}`", _taken(key, literal) + ("; **required**" if name in must else ""), doc])
    return table(["key", "takes", "is"], rows)


def _taken(key: Key, literal: bool) -> str:
    """What it takes, with the words that are allowed and the bounds of a number."""
    taken = WORDS["sentence" if literal and key.kind == "text" else key.kind]
    words = " or ".join(f"`{value}`" for value in key.values) if key.values else taken
    if key.kind == "list" and key.least:
        return f"{words}; not empty"
    if key.least is not None:
        words += f" from {key.least:,}"
    return words + (f" to {key.most:,}" if key.most is not None and key.most < 10**6 else "")
