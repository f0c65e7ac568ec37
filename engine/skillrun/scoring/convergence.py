"""Measures how far the replies of a panel agree, with a heuristic on their words."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from itertools import combinations
from typing import Any

from skillrun.scoring.overlap import overlap

NO_SIGNAL = "N/A"
DIGITS = 4
SETTINGS = ("agreement_weight", "overlap_weight", "high", "low", "agree", "disagree")


def convergence(replies: Iterable[Any], settings: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return score, ratio, stability, level and keyword counts; None for fewer than two replies with text.

    Score = agreement_weight × agreement ratio + overlap_weight × stability, where the ratio is agreement words over
    agreement and disagreement words, and stability the mean pairwise Jaccard overlap. Without any such word the ratio
    is "N/A" and the score is the stability alone. Numbers are rounded to four decimals before they are compared with
    the thresholds, so that score and level are consistent. Weights, words and thresholds come from the settings; raises
    ValueError if one of SETTINGS is missing.

    Source: the convergence check of Mysti's brainstorm mode (`BrainstormManager._assessConvergence`), counting whole
    words, and without its neutral 0.5 for texts without keywords.
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
    """Count the occurrences of keywords in all texts, as whole words ("disagree" is not "agree")."""
    return sum(len(_keyword_pattern(word).findall(text)) for word in keywords if word.strip() for text in texts)


def _keyword_pattern(keyword: str) -> re.Pattern[str]:
    phrase = r"\s+".join(map(re.escape, keyword.split()))
    return re.compile(rf"(?<!\w){phrase}(?!\w)", re.IGNORECASE)
