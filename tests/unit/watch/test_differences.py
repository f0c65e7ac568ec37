"""Differences of texts and values, with the path of each field that differs."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillrun.cli.differences import FieldDifference, text_difference, value_differences

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.text("ab", max_size=3),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(["id", "a", "b"]), inner, max_size=3),
    max_leaves=12,
)

pytestmark = pytest.mark.row("A2")


def differences(before: Any, after: Any) -> list[FieldDifference]:
    return list(value_differences(before, after))


@given(VALUES, VALUES)
def test_unequal_values_differ_and_equal_values_do_not(before: Any, after: Any) -> None:
    assert not differences(before, before)
    same = repr(before) == repr(after) if not isinstance(before, dict) else before == after
    if same:
        assert not differences(before, after)
    elif before != after:
        assert differences(before, after)


def test_fields_are_identified_by_their_path() -> None:
    assert differences({"a": {"b": 1}, "c": 2}, {"a": {"b": 3}, "d": 4}) == [
        FieldDifference("a.b", 1, 3),
        FieldDifference("c", 2, None, in_after=False),
        FieldDifference("d", None, 4, in_before=False),
    ]
    assert differences(1, "1") == [FieldDifference("", 1, "1")]
    assert differences({"yes": True}, {"yes": 1}) == [FieldDifference("yes", True, 1)]


def test_records_are_matched_by_their_ids() -> None:
    before = [{"id": "a", "n": 1}, {"id": "b", "n": 2}]
    assert differences(before, [{"id": "c", "n": 9}, {"id": "a", "n": 1}, {"id": "b", "n": 3}]) == [
        FieldDifference("[id=b].n", 2, 3),
        FieldDifference("[id=c]", None, {"id": "c", "n": 9}, in_before=False),
    ]
    assert differences(before, before[::-1]) == [FieldDifference(" (order)", ["a", "b"], ["b", "a"])]


def test_other_items_are_aligned() -> None:
    assert differences(["a", "b", "c"], ["a", "x", "c", "d"]) == [
        FieldDifference("[1]", "b", "x"),
        FieldDifference("[3]", None, "d", in_before=False),
    ]
    assert differences([1, 2], [2]) == [FieldDifference("[0]", 1, None, in_after=False)]


def test_texts_are_compared_by_line() -> None:
    assert text_difference("a\nb\nc", "a\nB\nc") == ["@@ -1,3 +1,3 @@", " a", "-b", "+B", " c"]
    assert text_difference("a", "a") == []
