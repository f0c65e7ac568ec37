"""Word overlap and the removal of duplicate items."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillrun.scoring.overlap import dedupe, overlap

TEXTS = st.lists(st.sampled_from(["who", "pays", "for", "it", "Who", "漢字", "don't", "?", ""]), max_size=8).map(
    " ".join
)


@given(TEXTS, TEXTS)
def test_overlap_is_symmetric_between_0_and_1_and_1_for_the_same_text(a: str, b: str) -> None:
    assert 0 <= overlap(a, b) == overlap(b, a) <= 1
    assert overlap(a, a) == 1


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        ("Who pays for it?", "who PAYS for it", 1),
        ("a b c", "b c d", 0.5),
        ("one", "two", 0),
        ("", "", 1),
        ("???", "!!!", 0),
        ("don’t", "don't", 1),
        ("設計決定", "設計書", 2 / 5),
    ],
)
def test_overlap_counts_shared_words(a: str, b: str, expected: float) -> None:
    assert overlap(a, b) == pytest.approx(expected)


@pytest.mark.row("B6")
def test_the_first_of_similar_questions_is_kept() -> None:
    questions = [
        {"text": "Who is the user of this feature?", "angle": "ux"},
        {"text": "What does it cost?", "angle": "technical"},
        {"text": "who is the user of this new feature", "angle": "technical"},
    ]
    assert dedupe(questions, "text", 0.6) == questions[:2]


@pytest.mark.row("B6")
def test_an_overlap_equal_to_the_threshold_is_a_duplicate() -> None:
    assert dedupe(["a b c", "a b c d e"], None, 0.6) == ["a b c"]
    assert dedupe(["a b c", "a b c d e"], 0.61) == ["a b c", "a b c d e"]


def test_items_without_text_are_kept() -> None:
    items = [{"text": "same"}, {}, {"text": None}, {"text": "same"}, 7]
    assert dedupe(items, "text", 0.5) == [*items[:3], 7]


@given(st.lists(TEXTS), st.floats(0.01, 1))
def test_kept_items_are_distinct_and_dropped_items_duplicate_a_kept_item(texts: list[str], threshold: float) -> None:
    kept = dedupe(texts, threshold)
    assert dedupe(kept, threshold) == kept
    assert all(any(overlap(text, item) >= threshold for item in kept) for text in texts)
    assert kept == sorted(kept, key=texts.index)


def dedupe_naively(items: list[str], threshold: float) -> list[str]:
    """The reference implementation: compare each text with all kept ones."""
    kept: list[str] = []
    for item in items:
        if not any(overlap(item, earlier) >= threshold for earlier in kept):
            kept.append(item)
    return kept


@pytest.mark.finding("FZ15")
@given(
    st.lists(st.lists(st.sampled_from("abcdefgh?"), max_size=9).map(" ".join), max_size=25),
    st.one_of(st.sampled_from([-1.0, 0.0, 0.2, 1 / 3, 0.5, 0.6, 2 / 3, 0.75, 0.8, 1.0, 1.1]), st.floats(0, 1)),
)
def test_dedupe_equals_the_comparison_of_all_pairs(items: list[str], threshold: float) -> None:
    assert dedupe(items, None, threshold) == dedupe_naively(items, threshold)


@pytest.mark.finding("FZ15")
def test_the_work_for_many_ordinary_texts_is_small() -> None:
    words = [f"w{n * n % 3001}" for n in range(3001)]
    items = [" ".join(words[start : start + 12]) for start in range(2980)]
    costs: list[int] = []
    dedupe(items, None, 0.9, costs.append)
    assert sum(costs) < 200 * len(items)


@pytest.mark.slow
@pytest.mark.finding("FL11")
def test_a_very_long_list_falls_back_to_comparing_equal_words() -> None:
    texts = [f"the {number % 600} tent {number % 600}" for number in range(1200)]
    assert len(dedupe(texts)) == 600, "more than 500 items do not fail"
    assert dedupe(["a b c d", "a b c d e", "x y", "y x", "a b c d f"], max_work=-1) == [
        "a b c d",
        "a b c d e",
        "x y",
        "a b c d f",
    ]
