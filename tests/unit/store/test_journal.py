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

from skillrun.store import checkpoints
from skillrun.store.journal import Journal, JournalUnwritable, Kind
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


def reopened(journal: Journal, folder: Path) -> SqliteJournal:
    journal.close()
    return SqliteJournal.open(folder)


def test_an_unknown_kind_is_a_bug(journal: Journal) -> None:
    with pytest.raises(AssertionError, match="guess"):
        record(journal, "guess", "a", "1", {})  # type: ignore[arg-type]


def test_what_was_recorded_is_found_by_kind_address_and_fingerprint(journal: Journal) -> None:
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
def test_a_call_that_was_tried_is_not_unanswered_and_counts_once(tmp_path: Path) -> None:
    journal = SqliteJournal.create(tmp_path)
    for kind in ("sent", "tried", "sent"):
        record(journal, kind, "a", "1", {})
    assert (journal.pending_calls(), journal.call_count) == ([("a", "1")], 1)
    for kind in ("tried", "failed", "sent", "tried"):
        record(journal, kind, "a", "1", {})  # type: ignore[arg-type]
    record(journal, "sent", "b", "1", {})
    journal = reopened(journal, tmp_path)
    assert (journal.pending_calls(), journal.call_count) == ([("b", "1")], 3)
    journal.close()


def test_a_call_is_unanswered_until_its_reply_or_failure_and_again_when_it_is_sent_again(journal: Journal) -> None:
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
def test_any_records_come_back_the_same_after_closing_and_opening(records: list[Record], stop: int) -> None:
    with TemporaryDirectory() as name:
        folder = Path(name)
        journal = SqliteJournal.create(folder)
        for number, one in enumerate(records):
            if number == stop:
                journal = reopened(journal, folder)
            record(journal, *one)
        before = observed(journal)
        journal = reopened(journal, folder)
        with closing(journal):
            assert observed(journal) == before
            for kind in ALL:
                kept = [(entry.address, entry.fingerprint, entry.body) for entry in journal.entries(kind)]
                assert kept == [one[1:] for one in records if one[0] == kind]


def observed(journal: Journal) -> dict[str, Any]:
    """Return everything that can be read from a journal."""
    entries = [(kind, entry) for kind in ALL for entry in journal.entries(kind)]
    return {
        "unanswered": journal.pending_calls(),
        "entries": entries,
        "found": [journal.find(kind, entry.address, entry.fingerprint) for kind, entry in entries],
    }


def test_records_of_one_turn_share_a_commit(journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    points: list[str] = []
    monkeypatch.setattr(checkpoints, "hook", points.append)

    async def fan_out() -> None:
        await asyncio.gather(*(journal.record("reply", f"a/{number}", "1", {"n": number}) for number in range(50)))

    asyncio.run(fan_out())
    assert points == ["commit: before", "commit: after", "commit: witnessed"]
    assert [journal.find("reply", f"a/{number}", "1") for number in range(50)] == [{"n": n} for n in range(50)]


def test_a_record_is_kept_when_who_waited_for_it_was_cancelled(journal: Journal) -> None:
    async def cancelled() -> None:
        task = asyncio.ensure_future(journal.record("reply", "a", "1", {"paid": True}))
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    asyncio.run(cancelled())
    assert journal.find("reply", "a", "1") == {"paid": True}


def test_a_body_that_is_changed_afterwards_is_recorded_as_it_was(journal: Journal) -> None:
    async def changed() -> None:
        body = {"text": "before"}
        task = asyncio.ensure_future(journal.record("reply", "a", "1", body))
        await asyncio.sleep(0)
        body["text"] = "after"
        await task

    asyncio.run(changed())
    assert journal.find("reply", "a", "1") == {"text": "before"}


def test_a_record_that_cannot_be_written_down_is_refused_alone(journal: Journal) -> None:
    for address, body in (("half a \ud83d", {}), ("a", {"set": {1}})):
        with pytest.raises((UnicodeEncodeError, TypeError)):
            asyncio.run(journal.record("reply", address, "1", body))
    record(journal, "reply", "b", "1", {})
    assert [entry.address for entry in journal.entries("reply")] == ["b"]


def test_an_interrupted_commit_ends_the_journal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = SqliteJournal.create(tmp_path)

    def interrupt(name: str) -> None:
        if name == "commit: after":
            raise KeyboardInterrupt

    monkeypatch.setattr(checkpoints, "hook", interrupt)
    with pytest.raises(KeyboardInterrupt):
        record(journal, "reply", "a", "1", {})
    with pytest.raises(SkillrunError, match="KeyboardInterrupt"):
        record(journal, "reply", "b", "1", {})
    journal.close()
    with closing(SqliteJournal.open(tmp_path)) as journal:
        assert [entry.address for entry in journal.entries("reply")] == ["a"]


@contextmanager
def full_disk(room: int) -> Iterator[None]:
    """Limit the size of files to `room` bytes."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_commit_that_fails_fails_all_who_wait_and_the_journal_takes_nothing_more(tmp_path: Path) -> None:
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
def test_what_came_is_kept_until_the_disk_takes_it_or_said_to_be_lost(tmp_path: Path) -> None:
    journal = SqliteJournal.create(tmp_path)
    record(journal, "sent", "a", "1", {})
    assert journal.write_error() is None
    with full_disk((tmp_path / ".run" / "journal.db-wal").stat().st_size + 100):
        for address in ("a", "b"):
            with pytest.raises(JournalUnwritable):
                record(journal, "reply", address, "1", {"text": address * 5000})
        told = journal.write_error()
        assert told is not None
        assert "; 2 replies could not be stored" in told.message
    told = journal.write_error()
    assert told is not None
    assert told.message.endswith("; all replies are recorded")
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
        journal = reopened(journal, tmp_path)
        sizes.append((tmp_path / ".run" / "journal.db").stat().st_size)
    journal.close()
    per_call = [(after - before) / 100 for before, after in zip([0, *sizes], sizes, strict=False)]
    assert max(per_call) < 8000
    assert per_call[-1] < 1.1 * per_call[1]


def test_a_journal_that_is_read_has_the_records_and_what_is_recorded_there_is_kept_by_nobody(tmp_path: Path) -> None:
    with closing(SqliteJournal.create(tmp_path)) as journal:
        record(journal, "reply", "a", "1", {"text": "long " * 1000})
        before = observed(journal)
    on_disk = {path.name: path.read_bytes() for path in (tmp_path / ".run").iterdir()}
    with closing(read_journal(tmp_path)) as kept_by_nobody:
        assert observed(kept_by_nobody) == before
        record(kept_by_nobody, "reply", "b", "1", {"text": "long " * 2000})
        assert kept_by_nobody.find("reply", "b", "1") == {"text": "long " * 2000}
    assert {path.name: path.read_bytes() for path in (tmp_path / ".run").iterdir()} == on_disk


def test_nobody_else_may_read_the_journal(tmp_path: Path) -> None:
    with closing(SqliteJournal.create(tmp_path)) as journal:
        record(journal, "reply", "a", "1", {})
        assert (tmp_path / ".run").stat().st_mode & 0o777 == 0o700
        assert {path.stat().st_mode & 0o777 for path in (tmp_path / ".run").iterdir()} == {0o600}


def test_a_closed_journal_is_one_file_and_its_witness(tmp_path: Path) -> None:
    SqliteJournal.create(tmp_path).close()
    assert sorted(path.name for path in (tmp_path / ".run").iterdir()) == ["journal.db", "witness"]


def test_a_journal_is_not_made_over_another(tmp_path: Path) -> None:
    SqliteJournal.create(tmp_path).close()
    with pytest.raises(FileExistsError):
        SqliteJournal.create(tmp_path)
    (tmp_path / ".run" / "journal.db").unlink()
    with pytest.raises(FileExistsError):
        SqliteJournal.create(tmp_path)


LONG = "A word of a prompt, and another one. " * 200


def stored(folder: Path) -> list[bytes]:
    with closing(sqlite3.connect(folder / ".run" / "journal.db")) as database:
        return [bytes(body) for (body,) in database.execute("SELECT body FROM records WHERE kind = 'text'")]


def test_long_texts_are_compressed_in_a_new_journal_and_stay_plain_in_one_of_before(tmp_path: Path) -> None:
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
    assert sum(map(len, stored(new))) < sum(map(len, stored(old))) / 5
    assert b"".join(stored(old)).startswith(b"A word of a prompt")
    with closing(sqlite3.connect(old / ".run" / "journal.db")) as database:
        assert database.execute("PRAGMA user_version").fetchone() == (2,)


@pytest.mark.parametrize("piece", [zlib.compress(bytes(1 << 20)), zlib.compress(b"x") + b"y", b"nonsense", b""])
def test_a_piece_that_was_never_packed_is_no_text(piece: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        decompress_piece(b"\xff" + piece)
    assert decompress_piece(compress_piece(b"short")) == b"short"
    assert decompress_piece(compress_piece(b"x" * 8192)) == b"x" * 8192
