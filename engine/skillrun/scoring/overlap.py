"""Compares texts by their shared words. Finds near-duplicates, agreement of replies, and new items in a reply.

Also aggregates the replies of several members: means, and the latest reply of each member.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import combinations
from math import ceil, inf
from typing import Any, Final

# In scripts without spaces, each character is a word. In other scripts, a word is a run of letters and digits.
_UNSPACED = "\u0e00-\u0eff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0002ffff"
_WORD = re.compile(rf"[{_UNSPACED}]|(?:(?![{_UNSPACED}])[^\W_])+(?:['’](?:(?![{_UNSPACED}])[^\W_])+)*")


@lru_cache(maxsize=256)
def words(text: str) -> frozenset[str]:
    """Return the distinct words of a text, with case folded and without punctuation."""
    return frozenset(_WORD.findall(text.casefold().replace("’", "'")))


def overlap(a: str, b: str) -> float:
    """Return the Jaccard similarity of two texts (Jaccard, 1901), from 0 to 1.

    The similarity is the number of words that the texts share, divided by the number of words that occur in at least
    one text. If neither text contains words, the similarity is 1 for equal texts and 0 for different texts.
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
    """Return the items in order. An item is removed if its text overlaps the text of a kept item by `threshold` or
    more.

    If the items are records, `by` names the field with the text. If the items are strings, omit `by` or pass the
    threshold as `by`. An item without text is kept. `charge` is called with the amount of work before the work is done.
    Once `max_work` is exceeded, an item is removed only if a kept item has exactly the same words.

    Sources: the result consists of the leaders in greedy leader clustering (Hartigan, 1975), with `overlap` as the
    similarity. Prefix filtering (Chaudhuri, Ganti and Kaushik, 2006) finds the pairs to compare.
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


@dataclass
class _Leaders:
    """The texts kept so far, indexed by their rarest words.

    If two sets of words overlap by at least t, each shares at least the fraction t of its words with the other. Sort
    the words of both sets in the same order, and remove slightly less than the fraction t from the end of each set. The
    remaining words of the two sets then share a word.
    """

    threshold: float
    times: Mapping[str, int]  # frequency of each word
    charge: Callable[[int], None]
    remaining_work: float
    known: set[frozenset[str]] = field(default_factory=set)
    wordless: set[str] = field(default_factory=set)
    sets: list[frozenset[str]] = field(default_factory=list)
    sets_by_word: dict[str, list[int]] = field(default_factory=dict)

    def add_if_distinct(self, text: str, mine: frozenset[str]) -> bool:
        """Keep a text if no kept text is like it. Return whether the text is kept."""
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
        """Yield each kept set that shares one of the rarest words and whose size allows an overlap by the threshold."""
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
        """Return the rarest words of a set. Every set that overlaps it by the threshold contains at least one of these
        words."""
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
    texts. If no agreement or disagreement word occurs, the ratio is "N/A", and the score is the stability. The score is
    rounded to four decimals before it is compared with the thresholds, so that score and level are consistent. The
    weights, words and thresholds come from `settings`. Raises ValueError if one of SETTINGS is missing.

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
    level = "medium" if score >= settings["low"] else "low"
    if score >= settings["high"]:
        level = "high"
    return {
        "score": score,
        "ratio": ratio,
        "stability": stability,
        "level": level,
        "agree": agree,
        "disagree": disagree,
    }


def _text(reply: Any) -> str:
    text = reply.get("text") if isinstance(reply, Mapping) else reply
    return text.strip() if isinstance(text, str) else ""


def _count(texts: list[str], keywords: Iterable[str]) -> int:
    """Return how often the keywords occur in the texts as whole words. "disagree" does not count as "agree"."""
    total = 0
    for keyword in filter(str.strip, keywords):
        phrase = r"\s+".join(map(re.escape, keyword.split()))
        pattern = re.compile(rf"(?<!\w){phrase}(?!\w)", re.IGNORECASE)
        total += sum(len(pattern.findall(text)) for text in texts)
    return total


MIN_NEW_WORDS: Final = 5


def find_new_items(
    later: Iterable[Any],
    earlier: Iterable[Any],
    fields: str | Iterable[str],
    min_words: int = MIN_NEW_WORDS,
    clean_text: Callable[[str], str] = str,
) -> list[dict[str, Any]]:
    """Return a record for each reply of `later`, with `member`, `status`, `new` and `alike`.

    `new` lists the items of `fields`, which are lists or texts, that contain at least `min_words` words absent from the
    member's reply in `earlier`. Words that `clean_text` removes do not count. If the member has no successful reply in
    `earlier`, all words are new. A failed reply in `later` has no new items.

    `alike` maps each text field to its Jaccard overlap with the same field of the earlier reply.
    """
    earlier_by_member = {
        reply["member"]: reply
        for reply in earlier
        if isinstance(reply, Mapping) and reply.get("status") == "success" and isinstance(reply.get("member"), str)
    }
    records = []
    for reply in later:
        if not isinstance(reply, Mapping):
            continue
        old = earlier_by_member.get(str(reply.get("member")), {})
        data, old_data = _data(reply), _data(old)
        known = words("\n".join(iterate_texts([old_data, old.get("text", "") if not old_data else ""])))
        values = [data.get(name) for name in ([fields] if isinstance(fields, str) else fields)]
        items = [item for value in values for item in (value if isinstance(value, list) else [value])]
        new = [item for item in items if len(words(clean_text("\n".join(iterate_texts(item)))) - known) >= min_words]
        alike = {
            name: round(overlap(text, old_data[name]), 4)
            for name, text in data.items()
            if isinstance(text, str) and isinstance(old_data.get(name), str)
        }
        records.append({"member": reply.get("member"), "status": reply.get("status"), "new": new, "alike": alike})
    return records


def _data(reply: Mapping[str, Any]) -> Mapping[str, Any]:
    data = reply.get("data")
    return data if isinstance(data, Mapping) and reply.get("status") == "success" else {}


def iterate_texts(value: Any) -> Iterator[str]:
    """Yield the texts in a value, at any depth. Keys of mappings are left out."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping | list | tuple):
        for part in value.values() if isinstance(value, Mapping) else value:
            yield from iterate_texts(part)


def mean(records: Iterable[Any] | Mapping[str, Any]) -> dict[str, float]:
    """Return the arithmetic mean of each numeric field, rounded to two decimals.

    Records in which the field is not a number are ignored for this field. Booleans are not numbers. Fields are in order
    of first appearance. `records` can be a single record.
    """
    values: dict[str, list[float]] = {}
    for record in [records] if isinstance(records, Mapping) else records:
        if isinstance(record, Mapping):
            for field, value in record.items():
                if isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value):
                    values.setdefault(field, []).append(value)
    return {field: round(math.fsum(each) / len(each), 2) for field, each in values.items()}


def latest(*steps: Any) -> list[Mapping[str, Any]]:
    """Return the last reply of each member in several steps. Members are in order of first appearance.

    A later reply that failed does not replace a successful one. Each argument is a step or a list of replies; a step
    that did not run has no replies.

    Source: the two rounds of deliberation in Owlex. If a member is missing in the second round, Owlex uses the member's
    reply from the first round.
    """
    last: dict[str, tuple[Mapping[str, Any], bool]] = {}  # maps members to the reply and whether it is successful
    for step in steps:
        replies = step.get("replies") if isinstance(step, Mapping) else step if isinstance(step, list) else ()
        for reply in replies or ():
            if not isinstance(reply, Mapping) or "member" not in reply:
                continue
            earlier = last.get(reply["member"])
            answered = bool(reply.get("text")) and reply.get("status", "success") == "success"
            if earlier is None or answered or not earlier[1]:
                last[reply["member"]] = (reply, answered)
    return [reply for reply, _ in last.values()]
