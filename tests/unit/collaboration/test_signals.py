"""The guard against patterns that run for ever."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillrun.collaboration.signals import suspicious


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
