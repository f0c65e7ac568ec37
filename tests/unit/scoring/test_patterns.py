"""Patterns are found in texts, invalid ones are rejected, and none takes long or exhausts memory."""

from __future__ import annotations

import re
import time
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillrun.scoring.patterns import MAX_PATTERN, TEXT_CAP, distinct_words, find_hits, find_lines, rejection_reason


@pytest.mark.row("P10")
def test_hits_have_offsets_and_ignore_case() -> None:
    assert find_hits(r"\bpay\w*", "Pay by PAYPAL, not repay", 1) == [(0, "Pay"), (7, "PAYPAL")]


def test_empty_hits_and_text_after_the_cap_are_ignored() -> None:
    assert find_hits("x*", "ax", 1) == [(1, "x")]
    assert find_hits("y", "x" * TEXT_CAP + "y", 1) == []


def test_offsets_count_characters_and_words_of_every_script_match() -> None:
    assert find_hits(r"\w+", "Größe नमस्ते x_1 字", 1) == [(0, "Größe"), (6, "नमस्ते"), (13, "x_1"), (17, "字")]
    assert find_hits(r"[\w-]+", "über-all, …", 1) == [(0, "über-all")]
    assert find_hits(r"\W+", "é – é", 1) == [(1, " – ")]
    assert find_hits("ü|😀", "Ü 😀", 1) == [(0, "Ü"), (2, "😀")]


def test_a_lone_surrogate_in_a_text_or_pattern_is_accepted() -> None:
    assert find_hits("b", "\ud800b", 1) == [(1, "b")]
    assert rejection_reason("\ud800") is None


def test_matching_lines_have_numbers_and_case_matters() -> None:
    assert list(find_lines("b+", ["a", "xbb", "B"], 1)) == [(2, "xbb")]


def test_a_search_that_takes_too_long_times_out() -> None:
    with pytest.raises(TimeoutError):
        find_hits(".*[^A-Z]|[A-Z]", "A" * TEXT_CAP, 0.01)
    with pytest.raises(TimeoutError):
        list(find_lines("a", ["a"] * 2, -1))


HITS = st.lists(st.tuples(st.integers(0, 50), st.text("aAbB", min_size=1, max_size=2)), max_size=12)


@given(
    st.text("ab \n", max_size=40), st.sampled_from(["a", "ab", r"\bb+", "a b", "(a|b)+", r"\w+?b", "[^a]b?", "a{2,3}"])
)
def test_hits_equal_those_of_the_standard_library(text: str, pattern: str) -> None:
    expected = [(hit.start(), hit.group()) for hit in re.finditer(pattern, text, re.IGNORECASE) if hit.group()]
    assert find_hits(pattern, text, 5) == expected


@given(st.text(max_size=30))
def test_words_of_every_script_equal_those_of_the_standard_library(text: str) -> None:
    plain = "".join(char for char in text if char.isalnum() or char == " ")
    assert [word for _, word in find_hits(r"\w+", plain, 5)] == re.findall(r"\w+", plain)


@given(HITS)
def test_distinct_words_are_first_spellings_in_text_order(hits: list[tuple[int, str]]) -> None:
    words = distinct_words(hits)
    assert [word.casefold() for word in words] == list(dict.fromkeys(word.casefold() for _, word in sorted(hits)))
    assert set(words) <= {word for _, word in hits}
    assert distinct_words(reversed(hits)) == words


@pytest.mark.parametrize(
    "pattern",
    [r"\bprod(uction)?\b", "(foo|bar)+", "back-?end", r"\d{1,3}(\.\d+)?", "drop table", r"(\w\s)*x", "(a+)+", "(a|aa)+",
     r"[\w./-]+\.(py|js)\b", "[]a]", "[^]a]", "[[:alpha:]]+", "(?i)x", "(?P<name>x)", "[[a-z]--[b]]", r"\pL{2}", "é+",
     "[z-я]{3}", "[а-я]{2,9}", r"\x{3b1}{2}", r"\w{2,40}"],
)  # fmt: skip
def test_ordinary_patterns_are_accepted(pattern: str) -> None:
    assert rejection_reason(pattern) is None


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        ("(a", "`(a` is not a regular expression: missing )"),
        ("b[a-", "`b[a-` is not a regular expression: missing ]: [a-"),
        ("(?=a)b", "look-around, back references, atomic groups"),
        ("(?<!a)b", "look-around"),
        ("a++", "possessive repeats are not supported"),
        (r"(a)\1", "back references are not supported"),
        (r"a\Z", r"write `\z` for the end of a text"),
        (r"\bÜber", r"next to `Ü` is not supported"),
        (r"caf(é)\b|é\b", r"write `(?:^|\W)` before"),
        (r"[^\W\d]", r"`\W` is not supported inside brackets"),
        ("a" * (MAX_PATTERN + 1), "longer than 500 characters"),
    ],
)
def test_an_unsupported_pattern_is_rejected_with_a_reason(pattern: str, reason: str) -> None:
    assert reason in (rejection_reason(pattern) or "")


@pytest.mark.row("Z6")
@pytest.mark.finding("FZ15")
@pytest.mark.parametrize(
    "pattern",
    ["(?:(?:(?:a{1000}){1000}){1000}){1000}", "[ab]{30000000}", "(?:(?:a{1000}){1000}){5}", "a{1000000}", "a" * 100_000,
     "(?:[ab]*a[ab]{900}c){3}", "[ab]*a[ab]{1000}c", "|".join(f"a{at}" for at in range(100_000))],
)  # fmt: skip
def test_a_pattern_that_expands_too_much_is_rejected_before_compilation(pattern: str) -> None:
    start = time.monotonic()
    assert rejection_reason(pattern)
    assert time.monotonic() - start < 5


@pytest.mark.slow
@pytest.mark.row("Z6")
@pytest.mark.finding("FZ15")
@pytest.mark.parametrize(
    "pattern",
    ["(a+)+$", "(a|a)*b", "(" * 200 + "a" + ")" * 200 + "*", "[ab]*a[ab]{480}c", "(?:a?){100}a{100}x", ".*.*.*[xy]",
     "a" * 490],
)  # fmt: skip
def test_no_pattern_is_slow_on_its_worst_text(pattern: str) -> None:
    start = time.monotonic()
    for text in ("ab" * (TEXT_CAP // 2), "a" * TEXT_CAP):
        with suppress(TimeoutError):  # there may be many hits
            find_hits(pattern, text, 2)
    assert time.monotonic() - start < 15


@given(st.text(alphabet="ab|()*+?{}1,[]^\\wWbéя-", max_size=12), st.text("abé \n", max_size=30))
def test_an_accepted_pattern_can_be_searched(pattern: str, text: str) -> None:
    if rejection_reason(pattern) is None:
        assert all(text[place : place + len(word)] == word for place, word in find_hits(pattern, text, 5))
