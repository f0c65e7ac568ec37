"""The border for text: what is made of the characters that no text of a run holds."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillrun.syntax.sanitizing import sanitize

ANY = st.text(alphabet=st.characters(codec=None) | st.sampled_from("\ud83d\ude00\udfff\r\n\x1b[]\x07\u2028\u202e"))

WORDS = "\N{FAMILY}\u200d\ufe0f می\u200cخواهم \u200fעברית\t.\n"
"""Marks that join and part letters."""

pytestmark = pytest.mark.finding("FZ9", "FM3")


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ("a smile \ud83d", "a smile \ufffd"),
        ("\udc80\ud83d\ude00\ud83d", "\ufffd\N{GRINNING FACE}\ufffd"),
        ("a\r\nb\rc\u2028d\u2029e\x85f\x0cg\x0bh", "a\nb\nc\nd\ne\nf\ng\nh"),
        ("\x1b[31mred\x1b[0m \x1b]0;title\x07link \x07\x00\x9b1m\x7f", "red link 1m"),
        ('{"a": "x\x1b["}', '{"a": "x["}'),
        ("cut \x1b]0;off, and the rest stays", "cut ]0;off, and the rest stays"),
        ("\u202eevil\u202c \u2066x\u2069", "evil x"),
        (WORDS, WORDS),
    ],
)
def test_what_enters_is_valid_and_steers_nothing(given: str, found: str) -> None:
    assert sanitize(given) == found


def test_keys_and_texts_inside_of_data_are_made_valid_too() -> None:
    assert sanitize({"k\ud800": ["a\ud800", {"b": ("\r", 1, None, True)}]}) == {
        "k\ufffd": ["a\ufffd", {"b": ("\n", 1, None, True)}]
    }


@given(ANY)
def test_once_is_enough_and_the_result_can_be_written(text: str) -> None:
    found = sanitize(text)
    assert sanitize(found) == found
    assert found.encode("utf-8").decode("utf-8") == found
    assert not set(found) & {"\x1b", "\r", "\u2028", "\u2029", "\x85", "\u202e", "\x9b", "\0"}


@given(st.text(alphabet=st.characters(exclude_categories=["Cc", "Cf", "Cs", "Zl", "Zp"]) | st.sampled_from("\n\t")))
def test_ordinary_text_is_left_as_it_is(text: str) -> None:
    assert sanitize(text) is text
