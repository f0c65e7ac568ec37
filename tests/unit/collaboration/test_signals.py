"""Keyword patterns and the guard against patterns that run for ever."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillrun.collaboration.signals import TEXT_CAP, matches, suspicious

RISKS = {
    "production-access": [r"\bprod(uction)?\b", "staging"],
    "sensitive-data": ["gdpr", "password"],
    "security-critical": r"\bauth",
}


@pytest.mark.row("P10")
def test_names_come_in_the_order_of_the_patterns_with_their_distinct_hits() -> None:
    text = "Reset the PASSWORD on staging and prod, then production; a password on Staging again."
    assert matches(text, RISKS) == {
        "production-access": ["staging", "prod", "production"],
        "sensitive-data": ["PASSWORD"],
    }


def test_a_plain_list_is_named_by_its_patterns() -> None:
    assert matches("quick spike", ["spike", "proto", r"\bquick"]) == {"spike": ["spike"], r"\bquick": ["quick"]}


def test_nothing_found_is_empty_and_false() -> None:
    assert matches("a button", RISKS) == {}
    assert matches("", ["", "x*"]) == {}


def test_text_behind_the_cap_is_not_searched() -> None:
    assert matches("x" * TEXT_CAP + "gdpr", ["gdpr"]) == {}


@pytest.mark.parametrize(
    "pattern", ["(a+)+", r"(\w+\s?)*", "(a|a)*", "(a|aa)+", "(a*)*b", "(?:a{1,3})+", "((ab)*c?)+", "(a?a)+", "(Ab|ac)+"]
)
def test_a_repeated_repetition_is_refused(pattern: str) -> None:
    assert "repeat" in (suspicious(pattern) or "")
    with pytest.raises(ValueError, match="repeat"):
        matches("aaaa", {"x": pattern})


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
        began = time.monotonic()
        matches("a" * 60 + "c", [pattern])
        assert time.monotonic() - began < 1


@given(st.text(alphabet="aAbB c", max_size=40), st.lists(st.sampled_from(["a", "b+", "c", "ab"]), unique=True))
def test_every_hit_stands_in_the_text_once(text: str, patterns: list[str]) -> None:
    for hits in matches(text, patterns).values():
        assert all(hit in text for hit in hits)
        assert len({hit.casefold() for hit in hits}) == len(hits)
