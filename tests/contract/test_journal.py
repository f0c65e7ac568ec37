"""The contract of every journal. Durability has separate tests for each kind."""

from __future__ import annotations

import asyncio
from typing import Any, get_args

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from skillrun.store import kill_points
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
    """Append records, one after the other."""

    async def each() -> None:
        for one in records:
            await journal.record(*one)

    asyncio.run(each())


def test_a_new_journal_is_empty_until_a_record_is_added(journal: Journal) -> None:
    assert (journal.is_empty, journal.call_count, journal.pending_calls(), journal.warning) == (True, 0, [], "")
    assert [list(journal.entries(kind)) for kind in ALL] == [[]] * len(ALL)
    record(journal, ("note", "a", "1", {}))
    assert not journal.is_empty


def test_a_record_is_found_only_by_kind_address_and_fingerprint_together(journal: Journal) -> None:
    record(journal, ("reply", "a/b", "1", {"text": "yes"}))
    assert journal.find("reply", "a/b", "1") == {"text": "yes"}
    assert [journal.find("reply", "a/b", "2"), journal.find("reply", "a", "1"), journal.find("tool", "a/b", "1")] == [
        None
    ] * 3


def test_duplicates_keep_their_order_and_the_latest_is_found(journal: Journal) -> None:
    record(journal, *(("reply", "a", "1", {"n": number}) for number in range(3)), ("reply", "b", "1", {"n": "other"}))
    assert journal.find("reply", "a", "1") == {"n": 2}
    assert [entry.body["n"] for entry in journal.entries("reply")] == [0, 1, 2, "other"]


def test_entries_of_a_kind_are_numbered_across_all_kinds(journal: Journal) -> None:
    record(journal, ("sent", "a", "1", {}), ("note", "x", "", {}), ("reply", "a", "1", {}), ("note", "y", "", {}))
    assert [(entry.seq, entry.address, entry.fingerprint) for entry in journal.entries("note")] == [
        (2, "x", ""),
        (4, "y", ""),
    ]


def test_entries_exclude_records_added_while_they_are_read(journal: Journal) -> None:
    record(journal, ("note", "a", "", {}), ("note", "b", "", {}))
    entries = journal.entries("note")
    first = next(entries)
    record(journal, ("note", "c", "", {}))
    assert [first.address, *(entry.address for entry in entries)] == ["a", "b"]


def test_a_recorded_body_does_not_change_with_its_source_or_its_copies(journal: Journal) -> None:
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
def test_a_body_that_is_not_json_is_refused_and_not_recorded(journal: Journal, wrong: Any) -> None:
    with pytest.raises(TypeError):
        record(journal, ("reply", "a", "1", {"value": wrong}))
    assert journal.find("reply", "a", "1") is None


@pytest.mark.finding("FA9")
def test_a_body_with_too_many_values_to_be_read_is_not_recorded(journal: Journal) -> None:
    with pytest.raises(JournalUnwritable, match="the `sent` record of a cannot be written: it has more than 1,000,000"):
        record(journal, ("sent", "a", "1", {"value": [0] * 1_000_001}))
    assert journal.pending_calls() == []
    record(journal, ("sent", "a", "1", {"value": [0] * 10}))
    assert journal.pending_calls() == [("a", "1")]


def test_an_unknown_kind_fails_an_assertion(journal: Journal) -> None:
    with pytest.raises(AssertionError, match="guess"):
        record(journal, ("guess", "a", "1", {}))  # type: ignore[arg-type]


def test_a_call_is_pending_until_its_result_and_a_retry_does_not_count_again(journal: Journal) -> None:
    record(journal, ("sent", "a", "1", {}), ("sent", "b", "1", {}), ("sent", "c", "1", {}))
    assert journal.pending_calls() == [("a", "1"), ("b", "1"), ("c", "1")]
    record(journal, ("reply", "b", "1", {}), ("failed", "c", "1", {}), ("tried", "a", "1", {}))
    assert (journal.pending_calls(), journal.call_count) == ([], 3)
    record(journal, ("sent", "a", "1", {}))
    assert (journal.pending_calls(), journal.call_count) == ([("a", "1")], 3)
    record(journal, ("reply", "a", "1", {}), ("sent", "a", "1", {}))
    assert (journal.pending_calls(), journal.call_count) == ([("a", "1")], 4)


def test_concurrent_records_share_one_commit_in_call_order(journal: Journal, points: list[str]) -> None:
    async def record_concurrently() -> None:
        await asyncio.gather(*(journal.record("note", str(number), "", {}) for number in range(5)))

    asyncio.run(record_concurrently())
    assert [entry.address for entry in journal.entries("note")] == list("01234")
    assert points == ["commit: before", "commit: after", "commit: witnessed"]


def test_a_record_survives_the_cancellation_of_its_task(journal: Journal) -> None:
    async def record_and_cancel() -> None:
        task = asyncio.create_task(journal.record("reply", "a", "1", {"text": "paid for"}))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(record_and_cancel())
    assert journal.find("reply", "a", "1") == {"text": "paid for"}


def fail_commits(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    def hook(name: str) -> None:
        if name == "commit: before":
            raise error

    monkeypatch.setattr(kill_points, "hook", hook)


def test_after_a_failed_write_the_journal_keeps_replies_and_refuses_new_records(
    journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    record(journal, ("sent", "a", "1", {}))
    with monkeypatch.context() as patch:
        fail_commits(patch, OSError("no room"))
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
        assert "1 reply could not be stored" in lost.message
    lost = journal.write_error()
    assert isinstance(lost, JournalUnwritable)
    assert "all replies are recorded" in lost.message
    assert journal.find("reply", "a", "1") == {"text": "paid for"}
    assert [entry.address for kind in ("sent", "note") for entry in journal.entries(kind)] == ["a"]
    with pytest.raises(JournalUnwritable):
        record(journal, ("sent", "b", "1", {}))


def test_a_journal_without_failed_writes_has_no_write_error(journal: Journal) -> None:
    record(journal, ("reply", "a", "1", {}))
    journal.check()
    assert journal.write_error() is None


def test_an_interrupted_commit_stops_all_further_writes(journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        fail_commits(patch, KeyboardInterrupt())
        with pytest.raises(KeyboardInterrupt):
            record(journal, ("reply", "a", "1", {}))
    with pytest.raises(JournalUnwritable, match="KeyboardInterrupt"):
        record(journal, ("reply", "b", "1", {}))
    assert list(journal.entries("reply")) == []


def test_a_body_of_the_wrong_shape_is_reported_as_damage() -> None:
    def fits(_kind: str, body: dict[str, Any]) -> bool:
        return "text" in body

    journal = MemoryJournal(fits=fits)
    assert isinstance(journal, Journal)  # the check is the same for every kind
    record(journal, ("reply", "a", "1", {"text": ""}), ("reply", "b", "1", {}))
    assert journal.find("reply", "a", "1") == {"text": ""}
    with pytest.raises(JournalDamaged, match="record 2 of the journal is not a valid `reply`"):
        journal.find("reply", "b", "1")


def observe(journal: Journal) -> Any:
    return [list(journal.entries(kind)) for kind in ALL], journal.pending_calls(), journal.call_count, journal.is_empty


@pytest.mark.slow
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(RECORDS, max_size=12))
def test_all_kinds_of_journals_agree_on_the_same_records(
    tmp_path_factory: pytest.TempPathFactory, records: list[Record]
) -> None:
    results = []
    for kind in KINDS.values():
        store = kind(tmp_path_factory.mktemp("run"))
        record(store.journal, *records)
        results.append(observe(store.journal))
        store.close()
    assert all(result == results[0] for result in results)
    latest = {(kind, address, fingerprint): body for kind, address, fingerprint, body in records}
    assert [len(entries) for entries in results[0][0]] == [sum(entry[0] == kind for entry in records) for kind in ALL]
    assert all(
        next(entry.body for entry in reversed(results[0][0][ALL.index(kind)]) if entry[1:3] == (address, fingerprint))
        == body
        for (kind, address, fingerprint), body in latest.items()
    )
