"""The filter `amended`: replacements in a text."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillrun.templates.functions import apply_text_edits
from skillrun.templates.limits import TemplateError, render_budget
from skillrun.templates.values import ABSENT

WORDS = st.lists(st.text("abc", min_size=1, max_size=4), min_size=1, max_size=12)


def edit(says: str, instead: str = "NEW") -> dict[str, Any]:
    return {"says": says, "instead": instead}


@pytest.mark.row("Q2")
@pytest.mark.parametrize(
    ("text", "edits", "expected", "missed"),
    [
        ("It is dark.", [edit("dark", "dim")], "It is dim.", 0),
        ("It is\n  dark.", [edit("is dark", "was dim")], "It was dim.", 0),
        ("a b a", [edit("a")], "a b a", 1),
        ("a b", [edit("c"), edit(""), {"instead": "c"}], "a b", 3),
        ("a b", [edit("a", "c"), edit("c b", "d")], "d", 0),
        ("a b", [edit("b", "")], "a ", 0),
        ("x (a+b)* y", [edit("(a+b)*", "\\1")], "x \\1 y", 0),
        ("aaa", [edit("aa")], "aaa", 1),
        (ABSENT, [edit("a")], "", 1),
        ("a", ABSENT, "a", 0),
    ],
)
def test_a_unique_quote_is_replaced_and_other_edits_are_missed(
    text: Any, edits: Any, expected: str, missed: int
) -> None:
    with render_budget():
        result = apply_text_edits(text, edits)
    assert (result["text"], len(result["missed"])) == (expected, missed)
    assert len(result["made"]) + missed == (0 if edits is ABSENT else len(edits))


@given(WORDS, st.integers(0, 11), st.sampled_from([" ", "\n", "\n  "]))
def test_a_unique_quote_is_replaced_across_whitespace_and_the_rest_is_kept(
    words: list[str], index: int, space: str
) -> None:
    before, after = words[: index % len(words)], words[index % len(words) :]
    text = " ".join([*before, f"X{space}Y", *after])
    with render_budget():
        result = apply_text_edits(text, [edit("X Y")])
    assert result["text"] == " ".join([*before, "NEW", *after])


def test_an_edit_that_is_not_a_record_is_an_error() -> None:
    with render_budget(), pytest.raises(TemplateError, match="records with `says` and `instead`"):
        apply_text_edits("a", ["b"])


def test_text_around_the_quote_is_kept() -> None:
    text = 'a:\n  "b": 1,\nc\n'
    assert apply_text_edits(text, [{"says": '  "b": 1,', "instead": '  "b": 2,'}])["text"] == 'a:\n  "b": 2,\nc\n'
    assert apply_text_edits(text, [{"says": '"b": 1,\n', "instead": '"b": 2,\n'}])["text"] == 'a:\n  "b": 2,\nc\n'
    assert apply_text_edits(text, [{"says": "c", "instead": "c\n  d"}])["text"] == 'a:\n  "b": 1,\nc\n  d\n'
