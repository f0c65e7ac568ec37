"""Where patterns occur, and the guard against those that run for ever."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillrun.collaboration.signals import TEXT_CAP, distinct, hits, suspicious


@pytest.mark.row("P10")
def test_hits_have_their_place_and_case_does_not_matter() -> None:
    assert hits(r"\bpay\w*", "Pay by PAYPAL, not repay", 1) == [(0, "Pay"), (7, "PAYPAL")]


def test_empty_hits_and_what_stands_behind_the_cap_do_not_count() -> None:
    assert hits("x*", "ax", 1) == [(1, "x")]
    assert hits("y", "x" * TEXT_CAP + "y", 1) == []


def test_a_pattern_that_is_refused_is_not_searched_for() -> None:
    with pytest.raises(ValueError, match="repeats a part"):
        hits("(a+)+", "a", 1)


def test_a_search_that_takes_too_long_is_given_up() -> None:
    with pytest.raises(TimeoutError):
        hits(".*.*.*.*[xy]", "a" * 20_000, 0.01)


FOUND = st.lists(st.tuples(st.integers(0, 50), st.text("aAbB", min_size=1, max_size=2)), max_size=12)


@given(st.text("ab \n", max_size=40), st.sampled_from(["a", "ab", r"\bb+", "a b"]))
def test_hits_are_those_of_the_standard_library(text: str, pattern: str) -> None:
    expected = [(hit.start(), hit.group()) for hit in re.finditer(pattern, text, re.IGNORECASE)]
    assert hits(pattern, text, 5) == expected


@given(FOUND)
def test_distinct_words_are_the_first_spellings_in_the_order_of_their_places(found: list[tuple[int, str]]) -> None:
    words = distinct(found)
    assert [word.casefold() for word in words] == list(dict.fromkeys(word.casefold() for _, word in sorted(found)))
    assert set(words) <= {word for _, word in found}
    assert distinct(reversed(found)) == words


@pytest.mark.parametrize(
    "pattern", ["(a+)+", r"(\w+\s?)*", "(a|a)*", "(a|aa)+", "(a*)*b", "(?:a{1,3})+", "((ab)*c?)+", "(a?a)+", "(Ab|ac)+"]
)
def test_a_repeated_repetition_is_refused(pattern: str) -> None:
    assert "repeat" in (suspicious(pattern) or "")


@pytest.mark.parametrize(
    "pattern",
    [r"\bprod(uction)?\b", "(foo|bar)+", "back-?end", r"\d{1,3}(\.\d+)?", "(a++)+", "drop table", r"(\w\s)*x"],
)
def test_ordinary_patterns_are_accepted(pattern: str) -> None:
    assert suspicious(pattern) is None


def test_a_pattern_that_cannot_be_read_is_named_with_the_reason() -> None:
    assert suspicious("(a") == "`(a` is not a regular expression: missing ), unterminated subpattern at position 0"


@given(st.text(alphabet="ab|()*+?{}1,", max_size=12))
def test_what_is_accepted_ends_soon(pattern: str) -> None:
    if suspicious(pattern) is None:
        list(re.finditer(pattern, "a" * 60 + "c", re.IGNORECASE))
