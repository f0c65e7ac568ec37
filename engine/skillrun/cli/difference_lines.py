"""Formats differences between structured replies and between texts as lines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from skillrun.cli.call_view import indent_lines
from skillrun.cli.differences import FieldDifference, text_difference
from skillrun.cli.formatting import count_noun, yaml_line

MAX_LINES: Final = 40  # of one difference without `--full`
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


def truncate_lines(lines: Sequence[str], *, full: bool) -> Iterator[str]:
    """Return the lines, indented; without `full` only the first, and how many more there are."""
    shown_lines = lines if full else lines[:MAX_LINES]
    yield from (line for text in shown_lines for line in indent_lines(text))
    if len(shown_lines) < len(lines):
        yield f"  … {count_noun(len(lines) - len(shown_lines), 'more line')}"


def _format_value(value: Any, *, full: bool) -> str:
    text = " ".join(yaml_line(value).split())
    return text if full or len(text) <= MAX_VALUE_LENGTH else f"{text[:MAX_VALUE_LENGTH]}…"
