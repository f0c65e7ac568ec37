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
def test_hits_have_their_place_and_case_does_not_matter() -> None:
    assert find_hits(r"\bpay\w*", "Pay by PAYPAL, not repay", 1) == [(0, "Pay"), (7, "PAYPAL")]


def test_empty_hits_and_what_stands_behind_the_cap_do_not_count() -> None:
    assert find_hits("x*", "ax", 1) == [(1, "x")]
    assert find_hits("y", "x" * TEXT_CAP + "y", 1) == []


def test_places_count_characters_and_words_are_those_of_every_script() -> None:
    assert find_hits(r"\w+", "Größe नमस्ते x_1 字", 1) == [(0, "Größe"), (6, "नमस्ते"), (13, "x_1"), (17, "字")]
    assert find_hits(r"[\w-]+", "über-all, …", 1) == [(0, "über-all")]
    assert find_hits(r"\W+", "é – é", 1) == [(1, " – ")]
    assert find_hits("ü|😀", "Ü 😀", 1) == [(0, "Ü"), (2, "😀")]


def test_half_a_character_in_a_text_or_pattern_is_no_crash() -> None:
    assert find_hits("b", "\ud800b", 1) == [(1, "b")]
    assert rejection_reason("\ud800") is None


def test_lines_are_found_with_their_numbers_and_case_matters() -> None:
    assert list(find_lines("b+", ["a", "xbb", "B"], 1)) == [(2, "xbb")]


def test_a_search_that_takes_too_long_is_given_up() -> None:
    with pytest.raises(TimeoutError):
        find_hits(".*[^A-Z]|[A-Z]", "A" * TEXT_CAP, 0.01)
    with pytest.raises(TimeoutError):
        list(find_lines("a", ["a"] * 2, -1))


FOUND = st.lists(st.tuples(st.integers(0, 50), st.text("aAbB", min_size=1, max_size=2)), max_size=12)


@given(
    st.text("ab \n", max_size=40), st.sampled_from(["a", "ab", r"\bb+", "a b", "(a|b)+", r"\w+?b", "[^a]b?", "a{2,3}"])
)
def test_hits_are_those_of_the_standard_library(text: str, pattern: str) -> None:
    expected = [(hit.start(), hit.group()) for hit in re.finditer(pattern, text, re.IGNORECASE) if hit.group()]
    assert find_hits(pattern, text, 5) == expected


@given(st.text(max_size=30))
def test_letters_of_every_script_are_found_where_the_standard_library_finds_them(text: str) -> None:
    plain = "".join(each for each in text if each.isalnum() or each == " ")
    assert [word for _, word in find_hits(r"\w+", plain, 5)] == re.findall(r"\w+", plain)


@given(FOUND)
def test_distinct_words_are_the_first_spellings_in_the_order_of_their_places(found: list[tuple[int, str]]) -> None:
    words = distinct_words(found)
    assert [word.casefold() for word in words] == list(dict.fromkeys(word.casefold() for _, word in sorted(found)))
    assert set(words) <= {word for _, word in found}
    assert distinct_words(reversed(found)) == words


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
        (r"(a)\1", "there are no back references"),
        (r"a\Z", r"the end of the text is `\z`"),
        (r"\bÜber", r"next to `Ü` is not supported"),
        (r"caf(é)\b|é\b", r"write `(?:^|\W)` before"),
        (r"[^\W\d]", r"`\W` is not supported inside brackets"),
        ("a" * (MAX_PATTERN + 1), "longer than 500 characters"),
    ],
)
def test_what_is_not_offered_is_refused_with_what_to_write(pattern: str, reason: str) -> None:
    assert reason in (rejection_reason(pattern) or "")


@pytest.mark.row("Z6")
@pytest.mark.finding("FZ15")
@pytest.mark.parametrize(
    "pattern",
    ["(?:(?:(?:a{1000}){1000}){1000}){1000}", "[ab]{30000000}", "(?:(?:a{1000}){1000}){5}", "a{1000000}", "a" * 100_000,
     "(?:[ab]*a[ab]{900}c){3}", "[ab]*a[ab]{1000}c", "|".join(f"a{at}" for at in range(100_000))],
)  # fmt: skip
def test_a_pattern_that_stands_for_too_much_is_refused_before_it_is_made(pattern: str) -> None:
    began = time.monotonic()
    assert rejection_reason(pattern)
    assert time.monotonic() - began < 5


@pytest.mark.slow
@pytest.mark.row("Z6")
@pytest.mark.finding("FZ15")
@pytest.mark.parametrize(
    "pattern",
    ["(a+)+$", "(a|a)*b", "(" * 200 + "a" + ")" * 200 + "*", "[ab]*a[ab]{480}c", "(?:a?){100}a{100}x", ".*.*.*[xy]",
     "a" * 490],
)  # fmt: skip
def test_no_pattern_takes_long_on_the_text_that_is_worst_for_it(pattern: str) -> None:
    began = time.monotonic()
    for text in ("ab" * (TEXT_CAP // 2), "a" * TEXT_CAP):
        with suppress(TimeoutError):  # there may be many hits
            find_hits(pattern, text, 2)
    assert time.monotonic() - began < 15


@given(st.text(alphabet="ab|()*+?{}1,[]^\\wWbéя-", max_size=12), st.text("abé \n", max_size=30))
def test_whatever_is_accepted_can_be_searched_for(pattern: str, text: str) -> None:
    if rejection_reason(pattern) is None:
        assert all(text[place : place + len(word)] == word for place, word in find_hits(pattern, text, 5))
