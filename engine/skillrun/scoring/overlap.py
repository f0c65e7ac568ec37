"""Compares texts by the words that they share, to find near-duplicates, agreement of replies, and what a reply adds."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from itertools import combinations
from math import ceil, inf
from typing import Any, Final

# In scripts that are written without spaces, each character is a word. In others, words are runs of letters and digits.
_UNSPACED = "\u0e00-\u0eff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0002ffff"
_WORD = re.compile(rf"[{_UNSPACED}]|(?:(?![{_UNSPACED}])[^\W_])+(?:['’](?:(?![{_UNSPACED}])[^\W_])+)*")


@lru_cache(maxsize=256)
def words(text: str) -> frozenset[str]:
    """Return the distinct words of a text, with case folded and without punctuation."""
    return frozenset(_WORD.findall(text.casefold().replace("’", "'")))


def overlap(a: str, b: str) -> float:
    """Return the Jaccard similarity of two texts (Jaccard, 1901), from 0 to 1.

    This is the number of words that the texts share, divided by the number of words that occur in at least one of them.
    If neither text contains words, it is 1 for equal texts and 0 for different ones.
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
    """Return the items in order, without those whose text overlaps the text of a kept item by `threshold` or more.

    If the items are records, `by` names the field with the text. If they are strings, `by` may be left out, or be the
    threshold. An item without text is kept. `charge` is called with the amount of work before the work is done. Once
    `max_work` is exceeded, an item is only removed if a kept item has exactly the same words.

    Sources: this is greedy clustering around leaders (Hartigan, 1975) with `overlap` as the similarity, and the leaders
    are the result. Prefix filtering (Chaudhuri, Ganti and Kaushik, 2006) finds the pairs to compare.
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
    """The texts kept so far, indexed by their rarest words.

    If two sets of words overlap by at least t, each shares at least the fraction t of its words with the other. So if
    the words of both are sorted in one order, a shared word is among the first words of each, where "first" means all
    but slightly less than the fraction t.
    """

    def __init__(
        self, threshold: float, times: Mapping[str, int], charge: Callable[[int], None], max_work: float
    ) -> None:
        self.threshold = threshold
        self.times = times  # frequency of each word
        self.charge = charge
        self.remaining_work = max_work
        self.known: set[frozenset[str]] = set()
        self.wordless: set[str] = set()
        self.sets: list[frozenset[str]] = []
        self.sets_by_word: dict[str, list[int]] = {}

    def add_if_distinct(self, text: str, mine: frozenset[str]) -> bool:
        """Keep a text unless it is like one of the kept texts. Return whether it is kept."""
        if self.threshold <= 0:  # any two texts are alike
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
        """Yield the kept sets that share one of the rarest words, if their size allows an overlap by the threshold."""
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
        """Return the rarest words of a set: so many that each set that overlaps it by the threshold contains one."""
        count = len(mine) - ceil(self.threshold * len(mine) - _SLACK) + 1 if self.threshold <= 1 else 0
        return sorted(mine, key=lambda word: (self.times[word], word))[: max(0, count)]

    def _overlap(self, mine: frozenset[str], other: frozenset[str]) -> float:
        self._spend(2 + (min(len(mine), len(other)) >> 4))
        shared = len(mine & other)
        return shared / (len(mine) + len(other) - shared)


_SLACK = 1e-6  # words; tolerance for floating-point errors


NO_SIGNAL = "N/A"
DIGITS = 4
SETTINGS = ("agreement_weight", "overlap_weight", "high", "low", "agree", "disagree")


def convergence(replies: Iterable[Any], settings: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the score, ratio, stability, level and keyword counts of replies, or None for fewer than two texts.

    The score is agreement_weight × ratio + overlap_weight × stability. The ratio is the number of agreement words,
    divided by the number of agreement and disagreement words. The stability is the mean Jaccard overlap of all pairs of
    texts. If no such word occurs, the ratio is "N/A", and the score is the stability. The score is rounded to four
    decimals before it is compared with the thresholds, so that score and level are consistent. The weights, words and
    thresholds come from `settings`. Raises ValueError if one of SETTINGS is missing.

    Source: the convergence check in the brainstorm mode of Mysti (`BrainstormManager._assessConvergence`). Unlike
    Mysti, this function counts whole words, and does not use a neutral 0.5 for texts without keywords.
    """
    texts = [text for text in map(_text, replies) if text]
    if len(texts) < 2:
        return None
    if lacking := [name for name in SETTINGS if name not in settings]:
        raise ValueError(f"the settings of `convergence` lack {', '.join(lacking)}")
    agree, disagree = _count(texts, settings["agree"]), _count(texts, settings["disagree"])
    pairs = [overlap(a, b) for a, b in combinations(texts, 2)]
    stability = round(sum(pairs) / len(pairs), DIGITS)
    if agree + disagree:
        ratio: float | str = round(agree / (agree + disagree), DIGITS)
        weighed = settings["agreement_weight"] * agree / (agree + disagree)
        score = round(weighed + settings["overlap_weight"] * sum(pairs) / len(pairs), DIGITS)
    else:
        ratio, score = NO_SIGNAL, stability
    return {
        "score": score,
        "ratio": ratio,
        "stability": stability,
        "level": _level(score, settings),
        "agree": agree,
        "disagree": disagree,
    }


def _level(score: float, settings: Mapping[str, Any]) -> str:
    if score >= settings["high"]:
        return "high"
    return "medium" if score >= settings["low"] else "low"


def _text(reply: Any) -> str:
    text = reply.get("text") if isinstance(reply, Mapping) else reply
    return text.strip() if isinstance(text, str) else ""


def _count(texts: list[str], keywords: Iterable[str]) -> int:
    """Return how often the keywords occur in the texts as whole words. "disagree" does not count as "agree"."""
    return sum(len(_keyword_pattern(word).findall(text)) for word in keywords if word.strip() for text in texts)


def _keyword_pattern(keyword: str) -> re.Pattern[str]:
    phrase = r"\s+".join(map(re.escape, keyword.split()))
    return re.compile(rf"(?<!\w){phrase}(?!\w)", re.IGNORECASE)


MIN_NEW_WORDS: Final = 5


def find_new_items(
    later: Iterable[Any],
    earlier: Iterable[Any],
    field: str,
    min_words: int = MIN_NEW_WORDS,
    clean_text: Callable[[str], str] = str,
) -> list[dict[str, Any]]:
    """Return a record for each reply of `later`, with `member`, `status`, `new` and `alike`.

    `new` lists the items of the list `field` that contain at least `min_words` words absent from the member's reply in
    `earlier`. Words that `clean_text` removes do not count. If the member has no successful reply in `earlier`, all
    words are new. A failed reply in `later` has no new items.

    `alike` maps each text field to its Jaccard overlap with the same field of the earlier reply.
    """
    earlier_by_member = {
        reply["member"]: reply for reply in earlier if isinstance(reply, Mapping) and _has_answer(reply)
    }
    records = []
    for reply in later:
        if not isinstance(reply, Mapping):
            continue
        old = earlier_by_member.get(str(reply.get("member")), {})
        data, old_data = _data(reply), _data(old)
        known = words("\n".join(_texts([old_data, old.get("text", "") if not old_data else ""])))
        items = data.get(field)
        new = (
            [item for item in items if _count_new_words(item, known, clean_text) >= min_words]
            if isinstance(items, list)
            else []
        )
        alike = {
            name: round(overlap(text, old_data[name]), 4)
            for name, text in data.items()
            if isinstance(text, str) and isinstance(old_data.get(name), str)
        }
        records.append({"member": reply.get("member"), "status": reply.get("status"), "new": new, "alike": alike})
    return records


def _has_answer(reply: Mapping[str, Any]) -> bool:
    return reply.get("status") == "success" and isinstance(reply.get("member"), str)


def _data(reply: Mapping[str, Any]) -> Mapping[str, Any]:
    data = reply.get("data")
    return data if isinstance(data, Mapping) and reply.get("status") == "success" else {}


def _count_new_words(item: Any, known: frozenset[str], clean_text: Callable[[str], str]) -> int:
    """Return the number of distinct words of an item that are not in `known`."""
    return len(words(clean_text("\n".join(_texts(item)))) - known)


def _texts(value: Any) -> Iterator[str]:
    """Yield every text in a value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping | list | tuple):
        for part in value.values() if isinstance(value, Mapping) else value:
            yield from _texts(part)
