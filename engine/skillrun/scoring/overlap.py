"""How many words two texts share, and which texts of a list say the same thing again."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from math import ceil, inf
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


def dedupe(
    items: Iterable[Any],
    by: str | float | None = None,
    threshold: float = 0.6,
    charge: Callable[[int], None] = lambda _: None,
    max_work: float = inf,
) -> list[Any]:
    """The items whose text overlaps none kept before them by `threshold` or more; order stays, the first stays.

    `by` names the field of records that holds the text; for plain strings leave it out, the threshold may take its
    place. An item without text is kept. `pay` hears of the work before it is done. After `most` of it, in a list that
    floods, an item is only compared with those of exactly its words.

    Sources: greedy clustering around leaders (Hartigan, 1975), with `overlap` as the likeness and the leaders as
    result; prefix filtering (Chaudhuri, Ganti and Kaushik, 2006) finds the pairs that can be alike.
    """
    if isinstance(by, (int, float)):
        threshold = by
    everything = list(items)
    texts = [item.get(by) if isinstance(item, Mapping) else item for item in everything]
    charge(sum(8 + (len(text) >> 3) for text in texts if isinstance(text, str)))
    sets = {text: words(text) for text in texts if isinstance(text, str)}
    leaders = _Leaders(threshold, Counter(word for distinct in sets.values() for word in distinct), charge, max_work)
    return [
        item
        for item, text in zip(everything, texts, strict=True)
        if not isinstance(text, str) or leaders.add_if_distinct(text, sets[text])
    ]


class _Leaders:
    """The texts kept so far, found by their rarest words.

    Two sets of words that overlap by a threshold t share t of the words of each; so of each set, sorted the same way,
    a word that both have is among the first ones, all but a share t.
    """

    def __init__(
        self, threshold: float, times: Mapping[str, int], charge: Callable[[int], None], max_work: float
    ) -> None:
        self.threshold = threshold
        self.times = times  # how often each word occurs
        self.charge = charge
        self.remaining_work = max_work
        self.known: set[frozenset[str]] = set()
        self.wordless: set[str] = set()
        self.sets: list[frozenset[str]] = []
        self.sets_by_word: dict[str, list[int]] = {}

    def add_if_distinct(self, text: str, mine: frozenset[str]) -> bool:
        """Whether a text is like none kept so far; it is then kept."""
        if self.threshold <= 0:  # everything is like everything
            alike = bool(self.sets or self.wordless)
        elif not mine:
            alike = self.threshold <= 1 and text.strip() in self.wordless
        elif self.remaining_work < 0:
            alike = self.threshold <= 1 and mine in self.known
        else:
            alike = any(self._overlap(mine, other) >= self.threshold for other in self._candidates(mine))
        if not alike:
            self._add(text, mine)
        return not alike

    def _spend(self, work: int) -> None:
        self.charge(work)
        self.remaining_work -= work

    def _add(self, text: str, mine: frozenset[str]) -> None:
        if not mine:
            self.wordless.add(text.strip())
            return
        self.known.add(mine)
        if self.remaining_work < 0:
            return
        for word in self._rarest_words(mine):
            self.sets_by_word.setdefault(word, []).append(len(self.sets))
        self.sets.append(mine)

    def _candidates(self, mine: frozenset[str]) -> Iterator[frozenset[str]]:
        """The sets that share one of the first words, and are of a size that allows the threshold."""
        seen: set[int] = set()
        for word in self._rarest_words(mine):
            places = self.sets_by_word.get(word, ())
            self._spend(1 + (len(places) >> 1))
            for place in places:
                if place not in seen:
                    seen.add(place)
                    other = self.sets[place]
                    if min(len(mine), len(other)) >= self.threshold * max(len(mine), len(other)) - _SLACK:
                        yield other

    def _rarest_words(self, mine: frozenset[str]) -> list[str]:
        """The rarest words, so many that one of them is in each set that overlaps by the threshold."""
        count = len(mine) - ceil(self.threshold * len(mine) - _SLACK) + 1 if self.threshold <= 1 else 0
        return sorted(mine, key=lambda word: (self.times[word], word))[: max(0, count)]

    def _overlap(self, mine: frozenset[str], other: frozenset[str]) -> float:
        self._spend(2 + (min(len(mine), len(other)) >> 4))
        shared = len(mine & other)
        return shared / (len(mine) + len(other) - shared)


_SLACK = 1e-6  # words; what floating point may add to a share of them
