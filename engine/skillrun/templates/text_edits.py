"""Applies replacements to a text: words that occur exactly once are replaced, other changes are reported as missed."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from skillrun.templates.absent import Absent
from skillrun.templates.limits import TemplateError, spend
from skillrun.templates.values import describe_kind, to_list, to_text


def apply_text_edits(text: Any, changes: Any) -> dict[str, Any]:
    """Apply each change to `text`: replace the words of `says`, if they occur exactly once, with those of `instead`.

    White space may differ; white space around the words is kept. Applied changes are in `made`; those whose words do
    not occur, or occur more than once, are in `missed`.
    """
    amendment: dict[str, Any] = {"text": "" if isinstance(text, Absent) else to_text(text), "made": [], "missed": []}
    for change in to_list(changes):
        if not isinstance(change, Mapping):
            raise TemplateError(f"`amended` takes records with `says` and `instead`, not {describe_kind(change)}")
        says, instead = to_text(change.get("says") or ""), to_text(change.get("instead") or "")
        place = _find_unique_span(amendment["text"], says)
        if place is None:
            amendment["missed"].append(change)
            continue
        instead = instead.lstrip(" \t") if says[:1].isspace() else instead
        instead = instead.rstrip() if says[-1:].isspace() else instead
        amendment["text"] = amendment["text"][: place[0]] + instead + amendment["text"][place[1] :]
        amendment["made"].append(change)
    return amendment


def _find_unique_span(text: str, words: str) -> tuple[int, int] | None:
    """Return start and end of the words; None if they do not occur, or occur more than once."""
    words = words.strip()
    spend(len(text) >> 3)
    if not words:
        return None
    if (start := text.find(words)) >= 0:
        return (start, start + len(words)) if text.find(words, start + 1) < 0 else None
    pattern = re.compile(r"\s+".join(map(re.escape, words.split())))
    hits = [match.span() for match in pattern.finditer(text)][:2]
    return hits[0] if len(hits) == 1 else None
