"""Sanitizing: which characters are removed or replaced in every text that enters a run."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillrun.syntax.diagnostics import sanitize

ANY = st.text(alphabet=st.characters(codec=None) | st.sampled_from("\ud83d\ude00\udfff\r\n\x1b[]\x07\u2028\u202e"))

WORDS = "\N{FAMILY}\u200d\ufe0f می\u200cخواهم \u200fעברית\t.\n"
"""Marks that join or separate letters."""

pytestmark = pytest.mark.finding("FZ9", "FM3")


@pytest.mark.parametrize(
    ("text", "expected"),
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
def test_text_is_made_valid_and_cannot_control_the_terminal(text: str, expected: str) -> None:
    assert sanitize(text) == expected


def test_keys_and_nested_texts_are_sanitized_too() -> None:
    assert sanitize({"k\ud800": ["a\ud800", {"b": ("\r", 1, None, True)}]}) == {
        "k\ufffd": ["a\ufffd", {"b": ("\n", 1, None, True)}]
    }


@given(ANY)
def test_sanitizing_is_idempotent_and_the_result_can_be_encoded(text: str) -> None:
    sanitized = sanitize(text)
    assert sanitize(sanitized) == sanitized
    assert sanitized.encode("utf-8").decode("utf-8") == sanitized
    assert not set(sanitized) & {"\x1b", "\r", "\u2028", "\u2029", "\x85", "\u202e", "\x9b", "\0"}


@given(st.text(alphabet=st.characters(exclude_categories=["Cc", "Cf", "Cs", "Zl", "Zp"]) | st.sampled_from("\n\t")))
def test_ordinary_text_is_unchanged(text: str) -> None:
    assert sanitize(text) is text
