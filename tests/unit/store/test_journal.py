"""A journal while it is open, and after it was closed and opened again."""

import asyncio
import resource
import sqlite3
import zlib
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skillrun.store import kill_points
from skillrun.store.journal import Journal, JournalDamaged, JournalUnwritable, Kind
from skillrun.store.local.journal import SqliteJournal, read_journal
from skillrun.store.rows import compress_piece, decompress_piece
from skillrun.syntax.diagnostics import SkillrunError

ALL: tuple[Kind, ...] = get_args(Kind)
Record = tuple[Kind, str, str, dict[str, Any]]
WORDS = st.text(max_size=20) | st.builds(str.__mul__, st.text(min_size=1, max_size=3), st.integers(200, 2000))
RECORDS = st.tuples(
    st.sampled_from(ALL),
    st.sampled_from(["a", "a/b", "a/b/c", "ab", "b"]),
    st.sampled_from(["1", "2"]),
    st.dictionaries(WORDS, WORDS | st.integers() | st.lists(WORDS, max_size=2), max_size=3),
)


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    with closing(SqliteJournal.create(tmp_path)) as journal:
        yield journal


def record(journal: Journal, kind: Kind, address: str, fingerprint: str, body: dict[str, Any]) -> None:
    asyncio.run(journal.record(kind, address, fingerprint, body))


def reopen(journal: Journal, folder: Path) -> SqliteJournal:
    journal.close()
    return SqliteJournal.open(folder)


def test_an_unknown_kind_is_a_bug(journal: Journal) -> None:
    with pytest.raises(AssertionError, match="guess"):
        record(journal, "guess", "a", "1", {})  # type: ignore[arg-type]


def test_a_record_is_found_by_kind_address_and_fingerprint(journal: Journal) -> None:
    record(journal, "reply", "plan/a", "1", {"text": "yes"})
    assert journal.find("reply", "plan/a", "1") == {"text": "yes"}
    assert journal.find("reply", "plan/a", "2") is None
    assert journal.find("reply", "plan/b", "1") is None
    assert journal.find("tool", "plan/a", "1") is None


def test_the_latest_of_equal_records_is_found(journal: Journal) -> None:
    for number in range(3):
        record(journal, "reply", "a", "1", {"n": number})
    record(journal, "reply", "a", "2", {"n": "other"})
    assert journal.find("reply", "a", "1") == {"n": 2}
    assert [entry.body["n"] for entry in journal.entries("reply")] == [0, 1, 2, "other"]


@pytest.mark.finding("FM6", "FM1")
def test_a_failed_attempt_ends_a_pending_call_and_retries_count_once(tmp_path: Path) -> None:
    journal = SqliteJournal.create(tmp_path)
    for kind in ("sent", "tried", "sent"):
        record(journal, kind, "a", "1", {})
    assert (journal.pending_calls(), journal.call_count) == ([("a", "1")], 1)
    for kind in ("tried", "failed", "sent", "tried"):
        record(journal, kind, "a", "1", {})  # type: ignore[arg-type]
    record(journal, "sent", "b", "1", {})
    journal = reopen(journal, tmp_path)
    assert (journal.pending_calls(), journal.call_count) == ([("b", "1")], 3)
    journal.close()


def test_a_call_is_pending_until_its_reply_or_failure_and_again_after_it_is_resent(journal: Journal) -> None:
    for address in ("a", "b", "c"):
        record(journal, "sent", address, "1", {})
    record(journal, "reply", "b", "1", {})
    record(journal, "failed", "a", "1", {})
    record(journal, "reply", "c", "another request", {})
    assert journal.pending_calls() == [("c", "1")]
    record(journal, "sent", "a", "1", {})
    assert journal.pending_calls() == [("c", "1"), ("a", "1")]


@pytest.mark.slow
@settings(max_examples=40)
@given(st.lists(RECORDS, max_size=15), st.integers(0, 15))
def test_any_records_survive_closing_and_reopening(records: list[Record], stop: int) -> None:
    with TemporaryDirectory() as name:
        folder = Path(name)
        journal = SqliteJournal.create(folder)
        for number, fields in enumerate(records):
            if number == stop:
                journal = reopen(journal, folder)
            record(journal, *fields)
        before = read_all(journal)
        journal = reopen(journal, folder)
        with closing(journal):
            assert read_all(journal) == before
            for kind in ALL:
                stored = [(entry.address, entry.fingerprint, entry.body) for entry in journal.entries(kind)]
                assert stored == [fields[1:] for fields in records if fields[0] == kind]


def read_all(journal: Journal) -> dict[str, Any]:
    """Return everything that can be read from a journal."""
    entries = [(kind, entry) for kind in ALL for entry in journal.entries(kind)]
    return {
        "unanswered": journal.pending_calls(),
        "entries": entries,
        "found": [journal.find(kind, entry.address, entry.fingerprint) for kind, entry in entries],
    }


def test_records_of_one_turn_share_a_commit(journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    points: list[str] = []
    monkeypatch.setattr(kill_points, "hook", points.append)

    async def fan_out() -> None:
        await asyncio.gather(*(journal.record("reply", f"a/{number}", "1", {"n": number}) for number in range(50)))

    asyncio.run(fan_out())
    assert points == ["commit: before", "commit: after", "commit: witnessed"]
    assert [journal.find("reply", f"a/{number}", "1") for number in range(50)] == [{"n": n} for n in range(50)]


def test_a_record_is_kept_if_its_waiting_task_is_cancelled(journal: Journal) -> None:
    async def record_and_cancel() -> None:
        task = asyncio.ensure_future(journal.record("reply", "a", "1", {"paid": True}))
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    asyncio.run(record_and_cancel())
    assert journal.find("reply", "a", "1") == {"paid": True}


def test_a_later_change_of_a_body_is_not_recorded(journal: Journal) -> None:
    async def record_and_change() -> None:
        body = {"text": "before"}
        task = asyncio.ensure_future(journal.record("reply", "a", "1", body))
        await asyncio.sleep(0)
        body["text"] = "after"
        await task

    asyncio.run(record_and_change())
    assert journal.find("reply", "a", "1") == {"text": "before"}


def test_only_the_invalid_record_is_refused(journal: Journal) -> None:
    for address, body in (("half a \ud83d", {}), ("a", {"set": {1}})):
        with pytest.raises((UnicodeEncodeError, TypeError)):
            asyncio.run(journal.record("reply", address, "1", body))
    record(journal, "reply", "b", "1", {})
    assert [entry.address for entry in journal.entries("reply")] == ["b"]


def test_after_an_interrupted_commit_the_journal_refuses_records(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = SqliteJournal.create(tmp_path)

    def interrupt(name: str) -> None:
        if name == "commit: after":
            raise KeyboardInterrupt

    monkeypatch.setattr(kill_points, "hook", interrupt)
    with pytest.raises(KeyboardInterrupt):
        record(journal, "reply", "a", "1", {})
    with pytest.raises(SkillrunError, match="KeyboardInterrupt"):
        record(journal, "reply", "b", "1", {})
    journal.close()
    with closing(SqliteJournal.open(tmp_path)) as journal:
        assert [entry.address for entry in journal.entries("reply")] == ["a"]


@contextmanager
def full_disk(size: int) -> Iterator[None]:
    """Limit the size of files to `size` bytes."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_failed_commit_fails_all_waiting_records_and_later_ones(tmp_path: Path) -> None:
    journal = SqliteJournal.create(tmp_path)
    record(journal, "reply", "kept", "1", {"text": "kept"})

    async def fan_out() -> list[Any]:
        return await asyncio.gather(
            *(journal.record("reply", f"a/{number}", "1", {"text": "x" * 500}) for number in range(40)),
            return_exceptions=True,
        )

    with full_disk((tmp_path / ".run" / "journal.db-wal").stat().st_size + 5000):
        results = asyncio.run(fan_out())
    assert {type(result) for result in results} == {JournalUnwritable}
    assert "journal cannot be written" in results[0].message
    assert "then resume the run" in results[0].next_step
    with pytest.raises(SkillrunError, match="cannot be written"):
        record(journal, "note", "", "", {})
    with pytest.raises(SkillrunError, match="cannot be written"):
        asyncio.run(journal.record("sent", "b", "1", {}))
    journal.close()
    with closing(SqliteJournal.open(tmp_path)) as journal:
        assert journal.pending_calls() == []
        record(journal, "reply", "after", "1", {})


@pytest.mark.finding("FM2")
def test_replies_are_kept_until_the_disk_has_room_or_reported_as_lost(tmp_path: Path) -> None:
    journal = SqliteJournal.create(tmp_path)
    record(journal, "sent", "a", "1", {})
    assert journal.write_error() is None
    with full_disk((tmp_path / ".run" / "journal.db-wal").stat().st_size + 100):
        for address in ("a", "b"):
            with pytest.raises(JournalUnwritable):
                record(journal, "reply", address, "1", {"text": address * 5000})
        error = journal.write_error()
        assert error is not None
        assert "; 2 replies could not be stored" in error.message
    error = journal.write_error()
    assert error is not None
    assert error.message.endswith("; all replies are recorded")
    with pytest.raises(JournalUnwritable):
        record(journal, "sent", "c", "1", {})
    journal.close()
    with closing(SqliteJournal.open(tmp_path)) as journal:
        assert [entry.body["text"][0] for entry in journal.entries("reply")] == ["a", "b"]
        assert journal.pending_calls() == []


@pytest.mark.slow
def test_a_call_takes_less_than_8_kilobytes_however_long_the_run(tmp_path: Path) -> None:
    journal = SqliteJournal.create(tmp_path)
    prefix = "".join(f"principle {number}; " for number in range(700))
    sizes = []

    async def calls(start: int) -> None:
        for number in range(start, start + 100):
            request = {"messages": [{"text": f"{prefix} task {number}: {str(number) * 200}"}], "max_tokens": 4096}
            await journal.record("sent", f"plan/design/member#{number}/1", f"{number:064}", request)
            reply = {"text": f"{number:04}" * 512, "usage": {"input": 3000, "output": 500}}
            await journal.record("reply", f"plan/design/member#{number}/1", f"{number:064}", reply)

    for start in range(0, 400, 100):
        asyncio.run(calls(start))
        journal = reopen(journal, tmp_path)
        sizes.append((tmp_path / ".run" / "journal.db").stat().st_size)
    journal.close()
    per_call = [(after - before) / 100 for before, after in zip([0, *sizes], sizes, strict=False)]
    assert max(per_call) < 8000
    assert per_call[-1] < 1.1 * per_call[1]


@pytest.mark.finding("FD7")
def test_a_record_with_a_number_too_large_for_the_database_is_damaged(tmp_path: Path) -> None:
    SqliteJournal.create(tmp_path).close()
    with closing(read_journal(tmp_path)) as journal, pytest.raises(JournalDamaged, match="cannot be read"):
        journal.entry(-(10**30))


def test_a_read_only_journal_has_all_records_and_discards_new_ones(tmp_path: Path) -> None:
    with closing(SqliteJournal.create(tmp_path)) as journal:
        record(journal, "reply", "a", "1", {"text": "long " * 1000})
        before = read_all(journal)
    on_disk = {path.name: path.read_bytes() for path in (tmp_path / ".run").iterdir()}
    with closing(read_journal(tmp_path)) as read_only:
        assert read_all(read_only) == before
        record(read_only, "reply", "b", "1", {"text": "long " * 2000})
        assert read_only.find("reply", "b", "1") == {"text": "long " * 2000}
    assert {path.name: path.read_bytes() for path in (tmp_path / ".run").iterdir()} == on_disk


def test_only_the_owner_can_read_the_journal(tmp_path: Path) -> None:
    with closing(SqliteJournal.create(tmp_path)) as journal:
        record(journal, "reply", "a", "1", {})
        assert (tmp_path / ".run").stat().st_mode & 0o777 == 0o700
        assert {path.stat().st_mode & 0o777 for path in (tmp_path / ".run").iterdir()} == {0o600}


def test_a_closed_journal_is_one_file_and_its_witness(tmp_path: Path) -> None:
    SqliteJournal.create(tmp_path).close()
    assert sorted(path.name for path in (tmp_path / ".run").iterdir()) == ["journal.db", "witness"]


def test_an_existing_journal_is_not_overwritten(tmp_path: Path) -> None:
    SqliteJournal.create(tmp_path).close()
    with pytest.raises(FileExistsError):
        SqliteJournal.create(tmp_path)
    (tmp_path / ".run" / "journal.db").unlink()
    with pytest.raises(FileExistsError):
        SqliteJournal.create(tmp_path)


LONG = "A word of a prompt, and another one. " * 200


def stored_texts(folder: Path) -> list[bytes]:
    with closing(sqlite3.connect(folder / ".run" / "journal.db")) as database:
        return [bytes(body) for (body,) in database.execute("SELECT body FROM records WHERE kind = 'text'")]


def test_long_texts_are_compressed_except_in_journals_of_the_old_version(tmp_path: Path) -> None:
    new, old = tmp_path / "new", tmp_path / "old"
    for folder in (new, old):
        folder.mkdir()
        SqliteJournal.create(folder).close()
    with closing(sqlite3.connect(old / ".run" / "journal.db")) as database:
        database.execute("PRAGMA user_version=2")
    for folder in (new, old):
        with closing(SqliteJournal.open(folder)) as journal:
            record(journal, "sent", "a", "1", {"text": LONG})
            record(journal, "reply", "a", "1", {"text": LONG + "\ud800"})
        with closing(SqliteJournal.open(folder)) as journal:
            assert journal.find("sent", "a", "1") == {"text": LONG}
            assert journal.find("reply", "a", "1") == {"text": LONG + "\ud800"}
    assert sum(map(len, stored_texts(new))) < sum(map(len, stored_texts(old))) / 5
    assert b"".join(stored_texts(old)).startswith(b"A word of a prompt")
    with closing(sqlite3.connect(old / ".run" / "journal.db")) as database:
        assert database.execute("PRAGMA user_version").fetchone() == (2,)


@pytest.mark.parametrize("piece", [zlib.compress(bytes(1 << 20)), zlib.compress(b"x") + b"y", b"nonsense", b""])
def test_an_invalid_compressed_piece_is_refused(piece: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        decompress_piece(b"\xff" + piece)
    assert decompress_piece(compress_piece(b"short")) == b"short"
    assert decompress_piece(compress_piece(b"x" * 8192)) == b"x" * 8192
