"""New items in a reply compared with the member's earlier one."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillrun.scoring.novelty import find_new_items
from skillrun.scoring.overlap import words
from skillrun.templates.functions import new_in
from skillrun.templates.limits import TemplateError

WORDS = st.lists(st.sampled_from(sorted({"the", "cache", "holds", "ten", "rows", "each", "one", "is"})), max_size=12)
REASONS = st.lists(WORDS.map(" ".join), max_size=4)


def reply(member: str, reasons: list[Any], position: str = "Do it.", status: str = "success") -> dict[str, Any]:
    return {"member": member, "status": status, "data": {"position": position, "reasons": reasons}}


@given(REASONS, REASONS, st.integers(1, 6))
def test_new_is_what_has_enough_words_that_stand_nowhere_before(
    earlier: list[str], later: list[str], least: int
) -> None:
    (found,) = find_new_items([reply("a", later)], [reply("a", earlier)], "reasons", least)
    known = words("\n".join(["Do it.", *earlier]))
    assert found["new"] == [one for one in later if len(words(one) - known) >= least]
    assert found["alike"] == {"position": 1.0}
    (again,) = find_new_items([reply("a", later)], [reply("a", [*later, *earlier])], "reasons", least)
    assert again["new"] == [], "earlier words in any order and combination are not new"


@given(REASONS, REASONS)
def test_only_the_members_own_earlier_reply_counts(mine: list[str], others: list[str]) -> None:
    alone = find_new_items([reply("a", mine)], [], "reasons", 1)
    assert find_new_items([reply("a", mine)], [reply("b", others)], "reasons", 1) == alone
    assert find_new_items([reply("a", mine)], [reply("a", others, status="error")], "reasons", 1) == alone


def test_who_has_not_answered_says_nothing_new() -> None:
    silent = {"member": "a", "status": "timeout", "reason": "late"}
    assert find_new_items([silent], [reply("a", [])], "reasons") == [
        {"member": "a", "status": "timeout", "new": [], "alike": {}}
    ]
    for odd in (None, "text", {"member": "a", "status": "success"}, {"member": "a", "status": "success", "data": [1]}):
        assert all(one["new"] == [] for one in find_new_items([odd], [odd], "reasons"))
    assert find_new_items([reply("a", {"no": "list"})], [], "reasons")[0]["new"] == []  # type: ignore[arg-type]


def test_records_count_with_all_their_texts() -> None:
    item = {"reason": "It is small.", "where": "src/app.py", "quote": "rows = 10"}
    (found,) = find_new_items([reply("a", [item])], [reply("a", [{"reason": "It is small."}])], "reasons", 5)
    assert found["new"] == [item]


def test_phrases_that_say_nothing_do_not_count() -> None:
    later = [reply("a", ["As I said before, do it now."])]
    (with_them,) = new_in(later, [reply("a", [])], "reasons", 3)
    (without,) = new_in(later, [reply("a", [])], "reasons", 3, [r"\bas i said( before)?\b"])
    assert with_them["new"]
    assert without["new"] == []
    with pytest.raises(TemplateError):
        new_in(later, [], "reasons", 3, ["("])


def test_text_replies_are_compared_as_texts() -> None:
    earlier = [{"member": "a", "status": "success", "text": "The cache holds ten rows."}]
    (found,) = find_new_items([reply("a", ["The ten rows the cache holds."])], earlier, "reasons", 1)
    assert found["new"] == []


@pytest.mark.row("D5")
def test_a_member_that_is_no_name_is_nobodys_and_hits_are_taken_out_at_their_places() -> None:
    odd: dict[str, Any] = {
        "member": ["a"],
        "status": "success",
        "data": {"reasons": ["The cache holds ten rows today."]},
    }
    assert find_new_items([odd], [{**odd, "member": {"a": 1}}], "reasons", 1)[0]["new"] == odd["data"]["reasons"]
    hits = [reply("a", ["one two as said three", "as said as said"])]
    new = [one["new"] for least in (3, 4) for one in new_in(hits, [], "reasons", least, ["as said"])]
    assert new == [["one two as said three"], []]
