"""Finds the differences between two structured replies or two texts, and formats them as lines for the terminal."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

from skillrun.cli.call_view import indent_lines
from skillrun.cli.formatting import count_noun, yaml_line

IDS: Final = ("id", "name", "title")
"""Fields that can identify the records of two lists. The first one that is unique in both lists is used."""


class FieldDifference(NamedTuple):
    """A field that differs between two values. `in_before` and `in_after` say which of them has the field."""

    path: str
    before: Any
    after: Any
    in_before: bool = True
    in_after: bool = True


def text_difference(before: str, after: str, context: int = 1) -> list[str]:
    """Return the lines of a unified diff, without file names; empty if the texts are equal."""
    return list(difflib.unified_diff(before.splitlines(), after.splitlines(), "", "", "", "", context, ""))[2:]


def value_differences(before: Any, after: Any, path: str = "") -> Iterator[FieldDifference]:
    """Yield the fields that differ between two JSON values. List items are matched by id or, without ids, aligned."""
    if isinstance(before, dict) and isinstance(after, dict):
        for key in dict.fromkeys([*before, *after]):
            place = f"{path}.{key}" if path else str(key)
            if key in before and key in after:
                yield from value_differences(before[key], after[key], place)
            else:
                yield _unmatched_difference(place, before.get(key), after.get(key), in_before=key in before)
    elif isinstance(before, list) and isinstance(after, list):
        yield from _of_lists(before, after, path)
    elif before != after or isinstance(before, bool) is not isinstance(after, bool):
        yield FieldDifference(path, before, after)


def _unmatched_difference(path: str, before: Any, after: Any, *, in_before: bool) -> FieldDifference:
    return FieldDifference(path, before, after, in_before=in_before, in_after=not in_before)


def _of_lists(before: Sequence[Any], after: Sequence[Any], path: str) -> Iterator[FieldDifference]:
    name = next((name for name in IDS if _are_unique_by(name, before) and _are_unique_by(name, after)), None)
    if name is not None:
        old, new = ({item[name]: item for item in items} for items in (before, after))
        for key in dict.fromkeys([*old, *new]):
            place = f"{path}[{name}={key}]"
            if key in old and key in new:
                yield from value_differences(old[key], new[key], place)
            else:
                yield _unmatched_difference(place, old.get(key), new.get(key), in_before=key in old)
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
            yield _unmatched_difference(f"{path}[{at}]", before[at], None, in_before=True)
        for at in range(other_start + paired, other_end):
            yield _unmatched_difference(f"{path}[{at}]", None, after[at], in_before=False)


def _are_unique_by(name: str, items: Sequence[Any]) -> bool:
    keys = [item.get(name) for item in items if isinstance(item, dict)]
    return len(keys) == len(items) and all(isinstance(key, str) for key in keys) and len(set(keys)) == len(keys)


def _key(item: Any) -> str:
    return json.dumps(item, sort_keys=True, default=str)


def json_value(text: str) -> dict[str, Any] | list[Any] | None:
    """Return the JSON object or list that a text contains, with or without a code fence; None if it is neither."""
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


MAX_LINES: Final = 40  # lines of one difference that are shown without `--full`
MAX_VALUE_LENGTH: Final = 100  # characters of a displayed value


def field_lines(field: FieldDifference, *, full: bool) -> Iterator[str]:
    name = field.path or "(entire value)"
    if not (field.in_before and field.in_after):
        value = field.before if field.in_before else field.after
        yield f"{'-' if field.in_before else '+'} {name}: {_format_value(value, full=full)}"
    elif isinstance(field.before, str) and isinstance(field.after, str) and "\n" in field.before + field.after:
        yield f"{name}:"
        yield from text_difference(field.before, field.after)
    else:
        yield f"{name}: {_format_value(field.before, full=full)} → {_format_value(field.after, full=full)}"


def reply_lines(fields: Sequence[FieldDifference] | None, lines: list[str], *, full: bool) -> list[str]:
    """Return the lines about two different replies: `fields` if both are structured, or else `lines` of a diff."""
    if fields is None:
        return lines
    return [line for field in fields for line in field_lines(field, full=full)] or [
        "the same values in a different notation"
    ]


def truncate_lines(lines: Sequence[str], *, full: bool) -> Iterator[str]:
    """Yield the lines, indented. Without `full`, yield only the first lines, and a line that counts the others."""
    shown_lines = lines if full else lines[:MAX_LINES]
    yield from (line for text in shown_lines for line in indent_lines(text))
    if len(shown_lines) < len(lines):
        yield f"  … {count_noun(len(lines) - len(shown_lines), 'more line')}"


def _format_value(value: Any, *, full: bool) -> str:
    text = " ".join(yaml_line(value).split())
    return text if full or len(text) <= MAX_VALUE_LENGTH else f"{text[:MAX_VALUE_LENGTH]}…"
