"""The filter `amended`: replacements in a text."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillrun.templates.absent import ABSENT
from skillrun.templates.limits import TemplateError, render_budget
from skillrun.templates.text_edits import apply_text_edits

WORDS = st.lists(st.text("abc", min_size=1, max_size=4), min_size=1, max_size=12)


def change(says: str, instead: str = "NEW") -> dict[str, Any]:
    return {"says": says, "instead": instead}


@pytest.mark.row("Q2")
@pytest.mark.parametrize(
    ("text", "changes", "expected", "missed"),
    [
        ("It is dark.", [change("dark", "dim")], "It is dim.", 0),
        ("It is\n  dark.", [change("is dark", "was dim")], "It was dim.", 0),
        ("a b a", [change("a")], "a b a", 1),
        ("a b", [change("c"), change(""), {"instead": "c"}], "a b", 3),
        ("a b", [change("a", "c"), change("c b", "d")], "d", 0),
        ("a b", [change("b", "")], "a ", 0),
        ("x (a+b)* y", [change("(a+b)*", "\\1")], "x \\1 y", 0),
        ("aaa", [change("aa")], "aaa", 1),
        (ABSENT, [change("a")], "", 1),
        ("a", ABSENT, "a", 0),
    ],
)
def test_what_stands_once_is_replaced_and_the_rest_is_missed(
    text: Any, changes: Any, expected: str, missed: int
) -> None:
    with render_budget():
        found = apply_text_edits(text, changes)
    assert (found["text"], len(found["missed"])) == (expected, missed)
    assert len(found["made"]) + missed == (0 if changes is ABSENT else len(changes))


@given(WORDS, st.integers(0, 11), st.sampled_from([" ", "\n", "\n  "]))
def test_words_that_stand_once_are_changed_whatever_the_space_and_all_else_stays(
    words: list[str], at: int, space: str
) -> None:
    before, after = words[: at % len(words)], words[at % len(words) :]
    text = " ".join([*before, f"X{space}Y", *after])
    with render_budget():
        found = apply_text_edits(text, [change("X Y")])
    assert found["text"] == " ".join([*before, "NEW", *after])


def test_a_change_that_is_no_record_is_a_fault() -> None:
    with render_budget(), pytest.raises(TemplateError, match="records with `says` and `instead`"):
        apply_text_edits("a", ["b"])


def test_what_stands_around_the_words_stays() -> None:
    text = 'a:\n  "b": 1,\nc\n'
    assert apply_text_edits(text, [{"says": '  "b": 1,', "instead": '  "b": 2,'}])["text"] == 'a:\n  "b": 2,\nc\n'
    assert apply_text_edits(text, [{"says": '"b": 1,\n', "instead": '"b": 2,\n'}])["text"] == 'a:\n  "b": 2,\nc\n'
    assert apply_text_edits(text, [{"says": "c", "instead": "c\n  d"}])["text"] == 'a:\n  "b": 1,\nc\n  d\n'
