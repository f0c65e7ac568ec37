"""Means and latest replies."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillrun.scoring.overlap import latest, mean


@pytest.mark.row("P13")
def test_the_mean_is_taken_per_numeric_field_over_the_records_that_have_it() -> None:
    records = [
        {"score": 12, "reasons": ["a"], "sure": True},
        {"score": 15, "depth": 1},
        {"score": 15, "depth": None},
        None,
    ]
    assert mean(records) == {"score": 14, "depth": 1}


def test_a_mean_has_two_decimals_and_is_empty_without_records() -> None:
    assert mean([{"score": 1}, {"score": 1}, {"score": 2}]) == {"score": 1.33}
    assert mean([]) == {}
    assert mean({"score": 3}) == {"score": 3}


@given(st.lists(st.dictionaries(st.sampled_from("abc"), st.integers(0, 20)), max_size=6))
def test_a_mean_lies_between_the_smallest_and_the_largest_value(records: list[dict[str, int]]) -> None:
    for field, value in mean(records).items():
        values = [record[field] for record in records if field in record]
        assert min(values) <= value <= max(values)


def reply(member: str, text: str | None, status: str = "success") -> dict[str, Any]:
    return {"member": member, "text": text, "status": status}


@pytest.mark.row("D6")
def test_a_member_without_a_new_reply_keeps_its_earlier_one() -> None:
    first = {"replies": [reply("a", "a1"), reply("b", "b1"), reply("c", None, "timeout")]}
    second = {"replies": [reply("b", "b2"), reply("a", None, "timeout"), reply("d", "d2")]}
    assert [item["text"] for item in latest(first, second)] == ["a1", "b2", None, "d2"]


def test_a_malformed_reply_replaces_a_missing_reply_but_not_a_valid_one() -> None:
    assert (
        latest({"replies": [reply("a", "good")]}, {"replies": [reply("a", "{oops", "parse_error")]})[0]["text"]
        == "good"
    )
    assert (
        latest({"replies": [reply("a", None, "empty")]}, {"replies": [reply("a", "{x", "parse_error")]})[0]["text"]
        == "{x"
    )


def test_steps_that_did_not_run_are_ignored() -> None:
    assert latest(None, {}, {"replies": None}, {"replies": [reply("a", "x")]}) == [reply("a", "x")]


REPLIES = st.lists(st.builds(reply, st.sampled_from("abc"), st.sampled_from([None, "x", "y"])), max_size=5)


@given(st.lists(REPLIES.map(lambda replies: {"replies": replies}), max_size=4))
def test_each_member_has_one_reply_in_first_seen_order(steps: list[dict[str, Any]]) -> None:
    members = [item["member"] for item in latest(*steps)]
    assert members == list(dict.fromkeys(item["member"] for step in steps for item in step["replies"]))
