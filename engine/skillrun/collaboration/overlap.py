"""How many words two texts share, and which texts of a list say the same thing again."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

# Scripts written without spaces give one word per character; everything else is runs of letters and digits.
_UNSPACED = "\u0e00-\u0eff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0002ffff"
_WORD = re.compile(rf"[{_UNSPACED}]|(?:(?![{_UNSPACED}])[^\W_])+(?:['’](?:(?![{_UNSPACED}])[^\W_])+)*")


@lru_cache(maxsize=256)
def words(text: str) -> frozenset[str]:
    """The distinct words of a text, case folded, without punctuation."""
    return frozenset(_WORD.findall(text.casefold().replace("’", "'")))


def overlap(a: str, b: str) -> float:
    """Jaccard similarity of the words of two texts, 0 to 1: shared words over all words (Jaccard, 1901).

    Two texts without any word overlap fully when they are the same text, otherwise not at all.
    """
    mine, other = words(a), words(b)
    if not mine and not other:
        return 1.0 if a.strip() == b.strip() else 0.0
    shared = len(mine & other)
    return shared / (len(mine) + len(other) - shared)


def dedupe(items: Iterable[Any], by: str | float | None = None, threshold: float = 0.6) -> list[Any]:
    """The items whose text overlaps none kept before them by `threshold` or more; order stays, the first stays.

    `by` names the field of records that holds the text; for plain strings leave it out, the threshold may take its
    place. An item without text is kept.

    Source: greedy clustering around leaders (Hartigan, 1975), with `overlap` as the likeness and the leaders as result.
    """
    if isinstance(by, (int, float)):
        threshold = by
    kept: list[Any] = []
    texts: list[str] = []
    for item in items:
        text = item.get(by) if isinstance(item, Mapping) else item
        if isinstance(text, str):
            if any(overlap(text, earlier) >= threshold for earlier in texts):
                continue
            texts.append(text)
        kept.append(item)
    return kept
