"""New items in a reply compared with the member's earlier one."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillrun.scoring.overlap import find_new_items, words
from skillrun.templates.functions import new_in
from skillrun.templates.limits import TemplateError

WORDS = st.lists(st.sampled_from(sorted({"the", "cache", "holds", "ten", "rows", "each", "one", "is"})), max_size=12)
REASONS = st.lists(WORDS.map(" ".join), max_size=4)


def reply(member: str, reasons: list[Any], position: str = "Do it.", status: str = "success") -> dict[str, Any]:
    return {"member": member, "status": status, "data": {"position": position, "reasons": reasons}}


@given(REASONS, REASONS, st.integers(1, 6))
def test_an_item_with_enough_unseen_words_is_new(earlier: list[str], later: list[str], min_words: int) -> None:
    (result,) = find_new_items([reply("a", later)], [reply("a", earlier)], "reasons", min_words)
    known = words("\n".join(["Do it.", *earlier]))
    assert result["new"] == [reason for reason in later if len(words(reason) - known) >= min_words]
    assert result["alike"] == {"position": 1.0}
    (repeated,) = find_new_items([reply("a", later)], [reply("a", [*later, *earlier])], "reasons", min_words)
    assert repeated["new"] == [], "earlier words in any order and combination are not new"


@given(REASONS, REASONS)
def test_only_the_members_own_earlier_reply_counts(own: list[str], others: list[str]) -> None:
    alone = find_new_items([reply("a", own)], [], "reasons", 1)
    assert find_new_items([reply("a", own)], [reply("b", others)], "reasons", 1) == alone
    assert find_new_items([reply("a", own)], [reply("a", others, status="error")], "reasons", 1) == alone


def test_a_member_without_a_reply_has_nothing_new() -> None:
    silent = {"member": "a", "status": "timeout", "reason": "late"}
    assert find_new_items([silent], [reply("a", [])], "reasons") == [
        {"member": "a", "status": "timeout", "new": [], "alike": {}}
    ]
    for bad in (None, "text", {"member": "a", "status": "success"}, {"member": "a", "status": "success", "data": [1]}):
        assert all(item["new"] == [] for item in find_new_items([bad], [bad], "reasons"))
    assert find_new_items([reply("a", {"no": "list"})], [], "reasons")[0]["new"] == []  # type: ignore[arg-type]


def test_all_texts_of_a_record_count() -> None:
    item = {"reason": "It is small.", "where": "src/app.py", "quote": "rows = 10"}
    (result,) = find_new_items([reply("a", [item])], [reply("a", [{"reason": "It is small."}])], "reasons", 5)
    assert result["new"] == [item]


@pytest.mark.finding("FT2")
def test_texts_and_lists_of_several_fields_count() -> None:
    (result,) = new_in([reply("a", ["Ten rows."], "Do it twice.")], [reply("a", [])], ["reasons", "position", "no"], 1)
    assert result["new"] == ["Ten rows.", "Do it twice."]


def test_ignored_phrases_do_not_count() -> None:
    later = [reply("a", ["As I said before, do it now."])]
    (counted,) = new_in(later, [reply("a", [])], "reasons", 3)
    (ignored,) = new_in(later, [reply("a", [])], "reasons", 3, [r"\bas i said( before)?\b"])
    assert counted["new"]
    assert ignored["new"] == []
    with pytest.raises(TemplateError):
        new_in(later, [], "reasons", 3, ["("])


def test_text_replies_are_compared_as_texts() -> None:
    earlier = [{"member": "a", "status": "success", "text": "The cache holds ten rows."}]
    (result,) = find_new_items([reply("a", ["The ten rows the cache holds."])], earlier, "reasons", 1)
    assert result["new"] == []


@pytest.mark.row("D5")
def test_an_invalid_member_matches_no_reply_and_ignored_phrases_are_removed_in_place() -> None:
    bad: dict[str, Any] = {
        "member": ["a"],
        "status": "success",
        "data": {"reasons": ["The cache holds ten rows today."]},
    }
    assert find_new_items([bad], [{**bad, "member": {"a": 1}}], "reasons", 1)[0]["new"] == bad["data"]["reasons"]
    hits = [reply("a", ["one two as said three", "as said as said"])]
    new = [item["new"] for min_words in (3, 4) for item in new_in(hits, [], "reasons", min_words, ["as said"])]
    assert new == [["one two as said three"], []]
