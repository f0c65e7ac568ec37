"""Filters that split a text into lines, paragraphs, words, or parts between separators."""

from __future__ import annotations

from typing import Any

from jinja2 import filters as jinja

from skillrun.syntax.document import Fences
from skillrun.templates.absent import Absent
from skillrun.templates.limits import TemplateError, spend
from skillrun.templates.values import to_text


def lines(value: Any) -> list[str]:
    """Return the non-empty lines of a text, stripped."""
    if isinstance(value, Absent):
        return []
    text = to_text(value)
    spend(len(text) >> 3)
    return [line.strip() for line in text.split("\n") if line.strip()]


def paragraphs(value: Any) -> list[str]:
    """Return the parts of a text between empty lines. An empty line inside a code fence does not split the text."""
    if isinstance(value, Absent):
        return []
    text = to_text(value)
    spend(len(text) >> 3)
    fences, parts, place = Fences(text), [""], 0
    for line in text.splitlines(keepends=True):
        if line.strip() or fences.contains(place):
            parts[-1] += line
        elif parts[-1]:
            parts.append("")
        place += len(line)
    return [part.rstrip() for part in parts if part]


def split(value: Any, by: Any) -> list[str]:
    """Return the non-empty parts of a text between occurrences of `by`, stripped."""
    if isinstance(value, Absent):
        return []
    text, mark = to_text(value), to_text(by)
    if not mark:
        raise TemplateError("`split` needs a separator", "`x | split(';')`, `x | lines`")
    spend(len(text) >> 3)
    return [part.strip() for part in text.split(mark) if part.strip()]


def wordcount(value: Any) -> int:
    if isinstance(value, Absent):
        return 0
    text = to_text(value)
    spend(len(text) >> 3)
    return jinja.do_wordcount(text)
