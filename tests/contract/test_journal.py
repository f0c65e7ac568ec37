"""What every journal promises, wherever it keeps its records; how durable they are, each kind has tests of its own."""

from __future__ import annotations

import asyncio
from typing import Any, get_args

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from skillrun.store import checkpoints
from skillrun.store.base_journal import ChainedJournal
from skillrun.store.journal import Journal, JournalDamaged, JournalUnwritable, Kind
from skillrun.store.memory import MemoryJournal
from tests.contract.conftest import KINDS, Store

ALL: tuple[Kind, ...] = get_args(Kind)
WORDS = st.text(max_size=20) | st.builds(str.__mul__, st.text(min_size=1, max_size=3), st.integers(200, 2000))
VALUES = WORDS | st.integers() | st.booleans() | st.none() | st.lists(WORDS, max_size=2)
RECORDS = st.tuples(
    st.sampled_from(ALL),
    st.sampled_from(["a", "a/b", "b"]),
    st.sampled_from(["1", "2"]),
    st.dictionaries(WORDS, VALUES, max_size=3),
)
Record = tuple[Kind, str, str, dict[str, Any]]


@pytest.fixture
def journal(store: Store) -> Journal:
    return store.journal


def record(journal: Journal, *records: Record) -> None:
    """One after the other."""

    async def each() -> None:
        for one in records:
            await journal.record(*one)

    asyncio.run(each())


def test_a_new_journal_is_empty_until_something_is_recorded(journal: Journal) -> None:
    assert (journal.is_empty, journal.call_count, journal.pending_calls(), journal.warning) == (True, 0, [], "")
    assert [list(journal.entries(kind)) for kind in ALL] == [[]] * len(ALL)
    record(journal, ("note", "a", "1", {}))
    assert not journal.is_empty


def test_a_record_is_found_by_its_kind_address_and_fingerprint_and_by_nothing_less(journal: Journal) -> None:
    record(journal, ("reply", "a/b", "1", {"text": "yes"}))
    assert journal.find("reply", "a/b", "1") == {"text": "yes"}
    assert [journal.find("reply", "a/b", "2"), journal.find("reply", "a", "1"), journal.find("tool", "a/b", "1")] == [
        None
    ] * 3


def test_duplicates_stay_in_their_order_and_the_latest_is_found(journal: Journal) -> None:
    record(journal, *(("reply", "a", "1", {"n": number}) for number in range(3)), ("reply", "b", "1", {"n": "other"}))
    assert journal.find("reply", "a", "1") == {"n": 2}
    assert [entry.body["n"] for entry in journal.entries("reply")] == [0, 1, 2, "other"]


def test_entries_are_of_one_kind_and_numbered_over_all(journal: Journal) -> None:
    record(journal, ("sent", "a", "1", {}), ("note", "x", "", {}), ("reply", "a", "1", {}), ("note", "y", "", {}))
    assert [(entry.seq, entry.address, entry.fingerprint) for entry in journal.entries("note")] == [
        (2, "x", ""),
        (4, "y", ""),
    ]


def test_what_is_recorded_while_entries_are_read_is_left_out_of_them(journal: Journal) -> None:
    record(journal, ("note", "a", "", {}), ("note", "b", "", {}))
    entries = journal.entries("note")
    first = next(entries)
    record(journal, ("note", "c", "", {}))
    assert [first.address, *(entry.address for entry in entries)] == ["a", "b"]


def test_a_body_comes_back_as_it_was_whoever_changes_it_meanwhile(journal: Journal) -> None:
    body: dict[str, Any] = {"z": 1, "a": [1, {"b": None}], "text": "long " * 2000, "half": "\ud800", "\0key": ("t", 2)}
    before = {**body, "a": [1, {"b": None}], "\0key": ["t", 2]}
    record(journal, ("reply", "a", "1", body))
    body["a"][1]["b"] = "changed"
    read = journal.find("reply", "a", "1")
    assert read == before
    assert list(read) == list(before)
    read["a"].append("changed too")
    assert journal.find("reply", "a", "1") == before


@pytest.mark.parametrize("wrong", [{1, 2}, object(), float])
def test_a_body_that_is_no_json_is_refused_and_nothing_is_recorded(journal: Journal, wrong: Any) -> None:
    with pytest.raises(TypeError):
        record(journal, ("reply", "a", "1", {"value": wrong}))
    assert journal.find("reply", "a", "1") is None


def test_an_unknown_kind_is_a_bug(journal: Journal) -> None:
    with pytest.raises(AssertionError, match="guess"):
        record(journal, ("guess", "a", "1", {}))  # type: ignore[arg-type]


def test_a_call_is_unanswered_until_something_comes_of_it_and_counts_once_when_it_is_tried_again(
    journal: Journal,
) -> None:
    record(journal, ("sent", "a", "1", {}), ("sent", "b", "1", {}), ("sent", "c", "1", {}))
    assert journal.pending_calls() == [("a", "1"), ("b", "1"), ("c", "1")]
    record(journal, ("reply", "b", "1", {}), ("failed", "c", "1", {}), ("tried", "a", "1", {}))
    assert (journal.pending_calls(), journal.call_count) == ([], 3)
    record(journal, ("sent", "a", "1", {}))
    assert (journal.pending_calls(), journal.call_count) == ([("a", "1")], 3)
    record(journal, ("reply", "a", "1", {}), ("sent", "a", "1", {}))
    assert (journal.pending_calls(), journal.call_count) == ([("a", "1")], 4)


def test_records_of_one_turn_are_kept_together_in_the_order_of_their_calls(journal: Journal, points: list[str]) -> None:
    async def together() -> None:
        await asyncio.gather(*(journal.record("note", str(number), "", {}) for number in range(5)))

    asyncio.run(together())
    assert [entry.address for entry in journal.entries("note")] == list("01234")
    assert points == ["commit: before", "commit: after", "commit: witnessed"]


def test_what_is_cancelled_while_it_is_recorded_is_on_record(journal: Journal) -> None:
    async def cancelled() -> None:
        task = asyncio.create_task(journal.record("reply", "a", "1", {"text": "paid for"}))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancelled())
    assert journal.find("reply", "a", "1") == {"text": "paid for"}


def failing(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    def hook(name: str) -> None:
        if name == "commit: before":
            raise error

    monkeypatch.setattr(checkpoints, "hook", hook)


def test_once_a_record_could_not_be_written_nothing_new_is_taken_and_what_came_is_kept(
    journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    record(journal, ("sent", "a", "1", {}))
    with monkeypatch.context() as patch:
        failing(patch, OSError("no room"))
        records: list[Record] = [
            ("reply", "a", "1", {"text": "paid for"}),
            ("sent", "b", "1", {}),
            ("note", "n", "", {}),
        ]
        for one in records:
            with pytest.raises(JournalUnwritable, match="no room"):
                record(journal, one)
        with pytest.raises(JournalUnwritable):
            journal.check()
        lost = journal.write_error()
        assert isinstance(lost, JournalUnwritable)
        assert "1 answer that came could not be kept" in lost.message
    lost = journal.write_error()
    assert isinstance(lost, JournalUnwritable)
    assert "all that was answered is on record" in lost.message
    assert journal.find("reply", "a", "1") == {"text": "paid for"}
    assert [entry.address for kind in ("sent", "note") for entry in journal.entries(kind)] == ["a"]
    with pytest.raises(JournalUnwritable):
        record(journal, ("sent", "b", "1", {}))


def test_a_journal_that_could_be_written_has_nothing_unwritten(journal: Journal) -> None:
    record(journal, ("reply", "a", "1", {}))
    journal.check()
    assert journal.write_error() is None


def test_after_an_interrupt_in_a_commit_nothing_is_written_any_more(
    journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        failing(patch, KeyboardInterrupt())
        with pytest.raises(KeyboardInterrupt):
            record(journal, ("reply", "a", "1", {}))
    with pytest.raises(JournalUnwritable, match="KeyboardInterrupt"):
        record(journal, ("reply", "b", "1", {}))
    assert list(journal.entries("reply")) == []


def test_a_body_that_no_run_writes_is_damage_when_it_is_read() -> None:
    def fits(_kind: str, body: dict[str, Any]) -> bool:
        return "text" in body

    journal = MemoryJournal(fits=fits)
    assert isinstance(journal, ChainedJournal)  # where the check is made, for every kind
    record(journal, ("reply", "a", "1", {"text": ""}), ("reply", "b", "1", {}))
    assert journal.find("reply", "a", "1") == {"text": ""}
    with pytest.raises(JournalDamaged, match="record 2 of the journal is no `reply`"):
        journal.find("reply", "b", "1")


def observed(journal: Journal) -> Any:
    return [list(journal.entries(kind)) for kind in ALL], journal.pending_calls(), journal.call_count, journal.is_empty


@pytest.mark.slow
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(RECORDS, max_size=12))
def test_all_kinds_of_journals_say_the_same_of_the_same_records(
    tmp_path_factory: pytest.TempPathFactory, records: list[Record]
) -> None:
    seen = []
    for kind in KINDS.values():
        store = kind(tmp_path_factory.mktemp("run"))
        record(store.journal, *records)
        seen.append(observed(store.journal))
        store.close()
    assert all(one == seen[0] for one in seen)
    latest = {(kind, address, fingerprint): body for kind, address, fingerprint, body in records}
    assert [len(entries) for entries in seen[0][0]] == [sum(one[0] == kind for one in records) for kind in ALL]
    assert all(
        next(entry.body for entry in reversed(seen[0][0][ALL.index(kind)]) if entry[1:3] == (address, fingerprint))
        == body
        for (kind, address, fingerprint), body in latest.items()
    )
