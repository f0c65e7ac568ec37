"""Differences as lines: of fields of structured replies, and of texts up to a number of lines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from skillrun.cli.call_view import indented
from skillrun.cli.differences import FieldDifference, text_difference
from skillrun.cli.formatting import counted, yaml_line

MOST_LINES: Final = 40  # of one difference, where not all is wanted
LONGEST: Final = 100  # characters of a value that is shown


def field_lines(field: FieldDifference, *, full: bool) -> Iterator[str]:
    name = field.path or "(all of it)"
    if not (field.in_before and field.in_after):
        value = field.before if field.in_before else field.after
        yield f"{'-' if field.in_before else '+'} {name}: {_glance(value, full=full)}"
    elif isinstance(field.before, str) and isinstance(field.after, str) and "\n" in field.before + field.after:
        yield f"{name}:"
        yield from text_difference(field.before, field.after)
    else:
        yield f"{name}: {_glance(field.before, full=full)} → {_glance(field.after, full=full)}"


def cut_lines(lines: Sequence[str], *, full: bool) -> Iterator[str]:
    """The lines, indented; the first of them where not all is wanted, and how many more there are."""
    several = lines if full else lines[:MOST_LINES]
    yield from (line for text in several for line in indented(text))
    if len(several) < len(lines):
        yield f"  … {counted(len(lines) - len(several), 'more line')}"


def _glance(value: Any, *, full: bool) -> str:
    text = " ".join(yaml_line(value).split())
    return text if full or len(text) <= LONGEST else f"{text[:LONGEST]}…"
