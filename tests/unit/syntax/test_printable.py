"""Printed text cannot control the terminal."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillrun.syntax.diagnostics import make_printable

BIDI_CONTROLS = frozenset(["LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain words, été 日本 ✓", "plain words, été 日本 ✓"),
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b]0;a new title\x07after", "after"),
        ("\x1b]8;;https://example.com\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x1b]52;c;c2VjcmV0\nnext line", "\nnext line"),
        ("\x9b2Jcleared", "cleared"),
        ("over\rwritten\r\nnext", "over\nwritten\nnext"),
        ("\u202eright to left\u2066 isolated", "right to left isolated"),
        ("a\tb\nc", "a\tb\nc"),
        ("zero\u200bwidth\ufeff", "zerowidth"),
        ("family 👨\u200d👩", "family 👨\u200d👩"),
        ("half \ud800 a pair", "half  a pair"),
        ("\x1b", ""),
    ],
)
def test_terminal_controls_are_removed(text: str, expected: str) -> None:
    assert make_printable(text) == expected


@given(st.text(alphabet=st.one_of(st.characters(), st.sampled_from("\x1b\x9b\x07\x9d[]\\m0;\r\n\u202e"))))
def test_the_result_has_no_control_or_reordering_characters(text: str) -> None:
    printable = make_printable(text)
    assert all(c in "\n\t" or unicodedata.category(c) not in {"Cc", "Cs", "Zl", "Zp"} for c in printable)
    assert BIDI_CONTROLS.isdisjoint(unicodedata.bidirectional(c) for c in printable)
    assert make_printable(printable) == printable
