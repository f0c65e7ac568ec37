"""How much replies agree."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillrun.scoring.overlap import convergence, overlap

SETTINGS: dict[str, Any] = {
    "agreement_weight": 0.6,
    "overlap_weight": 0.4,
    "high": 0.7,
    "low": 0.4,
    "agree": ["agree", "concur", "same conclusion", "consistent"],
    "disagree": ["disagree", "however", "instead"],
}

pytestmark = pytest.mark.row("P4")


def measure(*replies: Any) -> dict[str, Any]:
    result = convergence(replies, SETTINGS)
    assert result is not None
    return result


def test_the_score_weighs_agreement_words_and_word_overlap() -> None:
    result = measure("I agree: use Postgres.", "However, I agree, use Postgres.")
    assert result["ratio"] == pytest.approx(2 / 3, abs=1e-4)
    assert result["stability"] == pytest.approx(4 / 5)
    assert result["score"] == pytest.approx(0.6 * 2 / 3 + 0.4 * 4 / 5)
    assert (result["level"], result["agree"], result["disagree"]) == ("high", 2, 1)


def test_without_agreement_or_disagreement_words_the_score_is_the_overlap() -> None:
    result = measure("a b c", "b c d")
    assert (result["ratio"], result["score"], result["level"]) == ("N/A", 0.5, "medium")


@pytest.mark.parametrize(
    "replies", [[], ["one"], ["one", "", None], [{"text": "one"}, {"text": None}, {"member": "x"}]]
)
def test_convergence_is_undefined_for_fewer_than_two_texts(replies: list[Any]) -> None:
    assert convergence(replies, SETTINGS) is None


def test_only_whole_words_count_and_phrases_can_span_lines() -> None:
    result = measure("I disagree; this is inconsistent.", "The SAME\nconclusion, agreed.")
    assert (result["agree"], result["disagree"]) == (1, 1)


@pytest.mark.parametrize(("texts", "level"), [(["a b", "a b"], "high"), (["a b c", "c d e"], "low")])
def test_levels_follow_the_thresholds(texts: list[str], level: str) -> None:
    assert measure(*texts)["level"] == level


def test_a_score_on_a_threshold_reaches_its_level() -> None:
    # 0.6 × 1 + 0.4 × 1/4 = 0.7, and the overlap alone 2/5 = 0.4
    high = measure("agree on postgres", "agree, redis")
    assert (high["score"], high["level"]) == (0.7, "high")
    medium = measure("a b c", "b c d e")
    assert (medium["score"], medium["level"]) == (0.4, "medium")


def test_missing_settings_are_named() -> None:
    with pytest.raises(ValueError, match="lack high, disagree"):
        convergence(["a", "b"], {name: SETTINGS[name] for name in SETTINGS if name not in ("high", "disagree")})


WORDS = st.lists(st.sampled_from(["agree", "disagree", "however", "use", "postgres", "redis"]), min_size=1).map(
    " ".join
)


@given(st.lists(WORDS, min_size=2, max_size=5))
def test_the_result_follows_the_documented_formula_in_any_order(texts: list[str]) -> None:
    result = measure(*texts)
    reversed_result = measure(*reversed(texts))
    assert {**result, "score": 0} == {**reversed_result, "score": 0}
    pairs = [overlap(a, b) for n, a in enumerate(texts) for b in texts[n + 1 :]]
    mean = sum(pairs) / len(pairs)
    signals = result["agree"] + result["disagree"]
    expected = 0.6 * result["agree"] / signals + 0.4 * mean if signals else mean
    assert result["score"] == pytest.approx(expected, abs=1e-4)
    assert result["level"] == ("high" if result["score"] >= 0.7 else "medium" if result["score"] >= 0.4 else "low")


@given(st.lists(WORDS, min_size=2, max_size=4), st.integers(0, 4))
def test_replies_without_text_change_nothing(texts: list[str], place: int) -> None:
    records: list[Any] = [{"member": "m", "text": text} for text in texts]
    records.insert(place, {"member": "late", "text": None, "status": "timeout"})
    assert measure(*records) == measure(*texts)
