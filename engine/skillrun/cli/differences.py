"""Finds the differences between two structured replies or two texts, and formats them as lines for the terminal."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

from skillrun.cli.formatting import yaml_line

IDS: Final = ("id", "name", "title")
"""Fields that can identify the records of two lists. The first one that is unique in both lists is used."""


class FieldDifference(NamedTuple):
    """A field that differs between two values. `in_before` and `in_after` say which of them has the field."""

    path: str
    before: Any
    after: Any
    in_before: bool = True
    in_after: bool = True


def text_difference(before: str, after: str) -> list[str]:
    """Return the lines of a unified diff, without file names; empty if the texts are equal."""
    return list(difflib.unified_diff(before.splitlines(), after.splitlines(), n=1, lineterm=""))[2:]


def value_differences(before: Any, after: Any, path: str = "") -> Iterator[FieldDifference]:
    """Yield the fields that differ between two JSON values. List items are matched by id or else aligned."""
    if isinstance(before, dict) and isinstance(after, dict):
        for key in dict.fromkeys([*before, *after]):
            place = f"{path}.{key}" if path else str(key)
            if key in before and key in after:
                yield from value_differences(before[key], after[key], place)
            else:
                yield FieldDifference(place, before.get(key), after.get(key), key in before, key in after)
    elif isinstance(before, list) and isinstance(after, list):
        yield from _of_lists(before, after, path)
    elif before != after or isinstance(before, bool) is not isinstance(after, bool):
        yield FieldDifference(path, before, after)


def _of_lists(before: Sequence[Any], after: Sequence[Any], path: str) -> Iterator[FieldDifference]:
    name = next((name for name in IDS if _are_unique_by(name, before) and _are_unique_by(name, after)), None)
    if name is not None:
        old, new = ({item[name]: item for item in items} for items in (before, after))
        for key in dict.fromkeys([*old, *new]):
            place = f"{path}[{name}={key}]"
            if key in old and key in new:
                yield from value_differences(old[key], new[key], place)
            else:
                yield FieldDifference(place, old.get(key), new.get(key), key in old, key in new)
        if [key for key in old if key in new] != [key for key in new if key in old]:
            yield FieldDifference(f"{path} (order)", list(old), list(new))
        return
    matcher = difflib.SequenceMatcher(None, list(map(_key, before)), list(map(_key, after)), autojunk=False)
    for kind, start, end, other_start, other_end in matcher.get_opcodes():
        if kind == "equal":
            continue
        paired = min(end - start, other_end - other_start)
        for at in range(paired):
            yield from value_differences(before[start + at], after[other_start + at], f"{path}[{start + at}]")
        for at in range(start + paired, end):
            yield FieldDifference(f"{path}[{at}]", before[at], None, in_after=False)
        for at in range(other_start + paired, other_end):
            yield FieldDifference(f"{path}[{at}]", None, after[at], in_before=False)


def _are_unique_by(name: str, items: Sequence[Any]) -> bool:
    keys = [item.get(name) for item in items if isinstance(item, dict)]
    return len(keys) == len(items) and all(isinstance(key, str) for key in keys) and len(set(keys)) == len(keys)


def _key(item: Any) -> str:
    return json.dumps(item, sort_keys=True, default=str)


def json_value(text: str) -> dict[str, Any] | list[Any] | None:
    """Return the JSON object or list that a text contains, with or without a code fence; None for any other text."""
    inside = text.strip()
    if inside.startswith("```") and inside.endswith("```") and "\n" in inside:
        inside = inside.partition("\n")[2].removesuffix("```")
    if not inside.lstrip().startswith(("{", "[")):
        return None
    try:
        value = json.loads(inside)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict | list) else None


MAX_VALUE_LENGTH: Final = 100  # characters of a displayed value


def reply_lines(fields: Sequence[FieldDifference] | None, lines: list[str], *, full: bool) -> list[str]:
    """Return the lines about two different replies: `fields` if both are structured, or else `lines` of a diff."""
    if fields is None:
        return lines
    shown: list[str] = []
    for field in fields:
        name = field.path or "(entire value)"
        if not (field.in_before and field.in_after):
            value = field.before if field.in_before else field.after
            shown.append(f"{'-' if field.in_before else '+'} {name}: {_format_value(value, full=full)}")
        elif isinstance(field.before, str) and isinstance(field.after, str) and "\n" in field.before + field.after:
            shown += [f"{name}:", *text_difference(field.before, field.after)]
        else:
            shown.append(f"{name}: {_format_value(field.before, full=full)} → {_format_value(field.after, full=full)}")
    return shown or ["the same values in a different notation"]


def _format_value(value: Any, *, full: bool) -> str:
    text = " ".join(yaml_line(value).split())
    return text if full or len(text) <= MAX_VALUE_LENGTH else f"{text[:MAX_VALUE_LENGTH]}…"
