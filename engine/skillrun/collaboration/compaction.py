"""Fitting text and earlier phases' decisions into a budget of tokens. Estimates only: no tokenizer is loaded."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

MARKER = " […]"
KINDS = ("risks_identified", "open_questions", "key_decisions")
"""What accumulates. Of equally old records the ones named first here are dropped first."""

_PIECE = re.compile(
    r"(?P<word>[A-Z]?[a-z]+|[A-Z]+(?![a-z]))|(?P<one>[0-9]|\n)|(?P<space>[^\S\n]+)|(?P<wide>[^\x00-\x7f])|(?P<run>(?P<same>[^\w\s])(?P=same)*|.)",
    re.DOTALL,
)
_LETTERS_PER_TOKEN = 6
_SPACES_PER_TOKEN = 4


def estimate_tokens(text: str) -> int:
    """About how many tokens a model counts for a text: deterministic, and rather too many than too few.

    The text is cut the way byte-pair tokenizers cut before they merge (words at changes of case, digits, punctuation), and
    each piece is priced: a word of ASCII letters one token per six letters begun, a digit or line break one, a run of one punctuation
    mark one per two, indentation one per four blanks (a single blank belongs to the next word), any other character one
    less than its UTF-8 bytes (é 1, я 1, 漢 2, 🙂 3). Additive over the pieces.
    """
    return sum(cost for _, cost in _pieces(text))


def clip(text: str, n: int) -> str:
    """The text if it has at most n estimated tokens, otherwise its beginning up to a line or word boundary and ` […]`.

    The marker counts. When not even the marker fits, the result is empty.
    """
    if estimate_tokens(text) <= n:
        return text
    room = n - estimate_tokens(MARKER)
    if room < 0:
        return ""
    end = 0
    for stop, cost in _pieces(text):
        room -= cost
        if room < 0:
            break
        end = stop
    return text[: _boundary(text, end)].rstrip() + MARKER


def accumulate(entries: Iterable[Mapping[str, Any]], budget: int) -> dict[str, list[Any]]:
    """What earlier phases decided, left open and warned of, cut to `budget` tokens, and the records that were `dropped`.

    `entries` are the summaries, oldest first; what they lack is skipped. A later record replaces an earlier one with its id, a question is
    closed by a decision of the same or a later summary that names its id in `resolves`, and then the oldest records go until the
    rest fits. `dropped` holds mappings of `kind` and `record`, in the order in which they went.
    Source: seed 000, context protocol (decision propagation), requirements P9.
    """
    kept: dict[tuple[str, Any], tuple[str, Mapping[str, Any]]] = {}
    for age, entry in enumerate(entries):
        for kind in KINDS:
            for place, record in enumerate(_records(entry, kind)):
                key = (kind, record.get("id") or (age, place))
                kept.pop(key, None)
                kept[key] = (kind, record)
        for decision in _records(entry, "key_decisions"):
            for question in _ids(decision.get("resolves")):
                kept.pop(("open_questions", question), None)
    records = list(kept.values())
    costs = [_record_cost(record) for _, record in records]
    first, total = 0, sum(costs)
    while total > budget and first < len(records):
        total -= costs[first]
        first += 1
    left: dict[str, list[Any]] = {kind: [r for k, r in records[first:] if k == kind] for kind in reversed(KINDS)}
    left["dropped"] = [{"kind": kind, "record": record} for kind, record in records[:first]]
    return left


def _pieces(text: str) -> Iterator[tuple[int, int]]:
    """Where each piece of the text ends, and what it costs."""
    for piece in _PIECE.finditer(text):
        length = piece.end() - piece.start()
        match piece.lastgroup:
            case "word":
                cost = -(-length // _LETTERS_PER_TOKEN)
            case "one":
                cost = 1
            case "space":
                cost = 0 if length == 1 else -(-length // _SPACES_PER_TOKEN)
            case "wide":
                cost = len(piece.group().encode("utf-8", "surrogatepass")) - 1
            case _:
                cost = -(-length // 2)
        yield piece.end(), cost


def _boundary(text: str, end: int) -> int:
    """The last line end in the last fifth before `end`, or else the last word end in its second half, or else `end`."""
    if end >= len(text) or text[end].isspace():
        return end
    line = text.rfind("\n", 0, end)
    if line >= end * 0.8:
        return line
    return max((place for place in (text.rfind(" ", 0, end), line) if place >= end / 2), default=end)


def _records(entry: Mapping[str, Any], kind: str) -> list[Mapping[str, Any]]:
    listed = entry.get(kind)
    return [record for record in listed if isinstance(record, Mapping)] if isinstance(listed, Sequence) else []


def _ids(resolves: Any) -> list[str]:
    if isinstance(resolves, str):
        return [resolves]
    return [each for each in resolves if isinstance(each, str)] if isinstance(resolves, Sequence) else []


def _record_cost(record: Mapping[str, Any]) -> int:
    """Tokens of a record as a line of a list: its values, and three for what stands around them."""
    values = (", ".join(map(str, each)) if isinstance(each, (list, tuple)) else str(each) for each in record.values())
    return 3 + estimate_tokens(", ".join(values))
