"""Fits text and earlier phases' records into a token budget, with estimates instead of a tokenizer.

Sources: byte-pair encoding (Sennrich, Haddow and Birch, 2016) for splitting a text before counting; the context pack
of the OMO workflow in myclaude for the accumulated records.
"""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from math import ceil
from operator import mul
from typing import Any

MARKER = " […]"
KINDS = ("risks_identified", "open_questions", "key_decisions")
"""The accumulated kinds of records. Among records of equal weight and age, those of earlier kinds are dropped first."""

_WORDS = {"risks_identified": "severity", "open_questions": "priority", "key_decisions": "confidence"}
_LEVELS = ("LOW", "MEDIUM", "HIGH", "CRITICAL")
_WIDE = {2: 1.0, 3: 1.5, 4: 3.0}
_RULES = "-=*#~._"
_MAX_CACHED_LENGTH = 1 << 16  # characters
_RUNS = "|".join(f"{re.escape(mark)}+" for mark in string.punctuation + "\n")
_PIECE = re.compile(rf"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|[^\S\t\r\n]+|{_RUNS}|.", re.DOTALL)


def estimate_tokens(text: str) -> int:
    """Estimate the number of tokens of a text: deterministic, and more likely too high than too low.

    The text is split as byte-pair tokenizers pre-split it, and each piece has a price: a word 1, plus 1 per five
    letters from the eighth (a word in capitals 1 per four letters); a digit, tab or carriage return 1; blanks 1 per
    eight (a single one belongs to the next word); line breaks and runs of one punctuation mark 1 per two, of
    line-drawing marks 1 per four; any other character 1 to 3 by its length in UTF-8 (é 1, я 1, 漢 1.5, 🙂 3).
    Relative to cl100k, o200k and Claude's published tokenizer: English 1.0 to 1.2, code 1.1 to 1.4, CJK 1.0 to 2.5,
    base64 0.8.
    """
    return _count_tokens_cached(text) if len(text) <= _MAX_CACHED_LENGTH else _count_tokens(text)


def _count_tokens(text: str) -> int:
    pieces = Counter(_PIECE.findall(text))
    total: float = sum(map(mul, pieces.values(), map(_price, pieces)))
    return ceil(total)


_count_tokens_cached = lru_cache(maxsize=1024)(_count_tokens)
"""Cached because the prompts of a phase share most of their blocks."""


def clip(text: str, n: int) -> str:
    """Return the text if it has at most n estimated tokens, else its beginning up to a line or word end and ` […]`.

    The marker counts. If the marker alone does not fit, the result is empty.
    """
    if estimate_tokens(text) <= n:
        return text
    room: float = n - estimate_tokens(MARKER)
    if room < 0:
        return ""
    end = 0
    for piece in _PIECE.finditer(text):
        room -= _price(piece.group())
        if room < 0:
            break
        end = piece.end()
    return text[: _boundary(text, end)].rstrip() + MARKER


def accumulate(entries: Iterable[Mapping[str, Any]], budget: int) -> dict[str, list[Any]]:
    """Return the decisions, open questions and risks of earlier phases, cut to `budget` tokens, and the `dropped` ones.

    `entries` are the summaries, oldest first; missing fields are skipped. A later record replaces an earlier one with
    its id; a decision of the same or a later summary closes the questions and risks that its `resolves` names. Then
    records are dropped until the rest fits, lowest weight first, oldest first among equal weights. `dropped` holds
    mappings of `kind` and `record`, in the order of dropping.
    """
    current_records: dict[tuple[str, Any], tuple[str, Mapping[str, Any]]] = {}
    for age, entry in enumerate(entries):
        for kind in KINDS:
            for place, record in enumerate(_records(entry, kind)):
                name = record.get("id")
                key = (kind, name if isinstance(name, str) and name else (age, place))
                current_records.pop(key, None)
                current_records[key] = (kind, record)
        for decision in _records(entry, "key_decisions"):
            for question in _ids(decision.get("resolves")):
                current_records.pop(("open_questions", question), None)
                current_records.pop(("risks_identified", question), None)
    records = list(current_records.values())
    total = sum(record_cost(record) for _, record in records)
    dropped_order: list[int] = []
    for place in sorted(range(len(records)), key=lambda at: _weight(*records[at])):
        if total <= budget:
            break
        total -= record_cost(records[place][1])
        dropped_order.append(place)
    dropped_indices = set(dropped_order)
    result: dict[str, list[Any]] = {
        kind: [record for at, (other, record) in enumerate(records) if other == kind and at not in dropped_indices]
        for kind in reversed(KINDS)
    }
    result["dropped"] = [{"kind": records[at][0], "record": records[at][1]} for at in dropped_order]
    return result


def _weight(kind: str, record: Mapping[str, Any]) -> int:
    """Return the weight of a record by its level; without a known level it is medium."""
    word = record.get(_WORDS[kind])
    return _LEVELS.index(word) if isinstance(word, str) and word in _LEVELS else _LEVELS.index("MEDIUM")


@lru_cache(maxsize=8192)
def _price(piece: str) -> float:
    length, first = len(piece), piece[0]
    if not first.isascii():
        return _WIDE[len(first.encode("utf-8", "surrogatepass"))] if not first.isspace() else ceil(length / 8)
    if piece[-1].islower():
        return 1 if length < 8 else 1 + ceil((length - 7) / 5)
    if first.isupper() or first in _RULES:
        return ceil(length / 4)
    if first.isdigit() or first in "\t\r":
        return 1
    if first.isspace() and first != "\n":
        return 0 if length == 1 else ceil(length / 8)
    return ceil(length / 2)


def _boundary(text: str, end: int) -> int:
    """Return the last line end in the last fifth before `end`, else the last word end in its second half, or `end`."""
    if end >= len(text) or text[end].isspace():
        return end
    line, word = text.rfind("\n", 0, end), text.rfind(" ", 0, end)
    return line if line >= end * 0.8 else max(line, word) if max(line, word) >= end / 2 else end


def _records(entry: Mapping[str, Any], kind: str) -> list[Mapping[str, Any]]:
    listed = entry.get(kind)
    return [record for record in listed if isinstance(record, Mapping)] if isinstance(listed, Sequence) else []


def _ids(resolves: Any) -> list[str]:
    if isinstance(resolves, str):
        return [resolves]
    return [id_ for id_ in resolves if isinstance(id_, str)] if isinstance(resolves, Sequence) else []


def record_cost(record: Mapping[str, Any]) -> int:
    """Return the tokens of a record as a list item: its values, plus three for the formatting."""
    values = (
        ", ".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value) for value in record.values()
    )
    return 3 + estimate_tokens(", ".join(values))
