"""A damaged, shortened or newer journal is refused with a clear message, and nothing is changed."""

import asyncio
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skillrun.store.journal import Journal, JournalDamaged, Kind
from skillrun.store.local.journal import SqliteJournal, read_journal
from skillrun.store.local.verification import SCHEMA_VERSION, JournalNewer, JournalOlder, JournalShortened
from skillrun.syntax.diagnostics import SkillrunError

RECORDS = 12


def record(journal: Journal, kind: Kind, address: str, fingerprint: str, body: dict[str, Any]) -> None:
    asyncio.run(journal.record(kind, address, fingerprint, body))


def fill(journal: Journal, start: int = 0, end: int = RECORDS) -> None:
    for number in range(start, end):
        record(journal, "sent", f"a/{number}", "1", {"prompt": "shared " * 100 + str(number)})
        record(journal, "reply", f"a/{number}", "1", {"text": f"{number} " * 300})


def contents(journal: Journal) -> list[Any]:
    return [*journal.entries("sent"), *journal.entries("reply")]


@pytest.fixture(scope="module")
def closed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Any]]:
    """A run whose journal was closed, and the journal's contents."""
    run = tmp_path_factory.mktemp("closed")
    with closing(SqliteJournal.create(run)) as journal:
        fill(journal)
        return run, contents(journal)


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Any]]:
    """A run after a kill: the second half of the records is only in the log."""
    run, live = tmp_path_factory.mktemp("killed"), tmp_path_factory.mktemp("live")
    with closing(SqliteJournal.create(live)) as journal:
        fill(journal, 0, RECORDS // 2)
    with closing(SqliteJournal.open(live)) as journal:
        fill(journal, RECORDS // 2)
        shutil.copytree(live / ".run", run / ".run", ignore=shutil.ignore_patterns("*-shm"))
        return run, contents(journal)


def files(run: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (run / ".run").iterdir()}


def assert_refused(run: Path, error: type[SkillrunError], match: str) -> None:
    """Assert that opening is refused with a hint, and leaves every file unchanged."""
    before = files(run)
    with pytest.raises(error, match=match) as caught:
        SqliteJournal.open(run)
    assert caught.value.next_step.startswith("Nothing was changed.")
    assert files(run) == before


@pytest.fixture
def run(tmp_path: Path, closed: tuple[Path, list[Any]]) -> Path:
    return Path(shutil.copytree(closed[0], tmp_path / "run"))


@pytest.fixture
def killed_run(tmp_path: Path, killed: tuple[Path, list[Any]]) -> Path:
    return Path(shutil.copytree(killed[0], tmp_path / "killed"))


def execute(run: Path, statement: str) -> None:
    with closing(sqlite3.connect(run / ".run" / "journal.db")) as database:
        database.execute(statement)
        database.commit()


def test_a_killed_journal_opens_with_all_its_records(killed_run: Path, killed: tuple[Path, list[Any]]) -> None:
    with closing(SqliteJournal.open(killed_run)) as journal:
        assert contents(journal) == killed[1]


def test_a_missing_log_is_a_lost_tail(killed_run: Path) -> None:
    (killed_run / ".run" / "journal.db-wal").unlink()
    assert_refused(killed_run, JournalShortened, r"has only \d+ of \d+ acknowledged records")


def test_no_shared_memory_file_is_needed_or_left(killed_run: Path) -> None:
    (killed_run / ".run" / "witness").write_bytes(b"%020d %s\n" % (999, b"0" * 64))
    assert_refused(killed_run, JournalShortened, "999 acknowledged records")


def test_records_deleted_from_the_end_are_a_lost_tail(run: Path) -> None:
    execute(run, "DELETE FROM records WHERE seq = (SELECT max(seq) FROM records)")
    assert_refused(run, JournalShortened, r"has only \d+ of \d+ acknowledged records")


def test_deleting_all_records_is_a_lost_tail(run: Path) -> None:
    execute(run, "DELETE FROM records")
    assert_refused(run, JournalShortened, r"has only 0 of \d+ acknowledged records")


@pytest.mark.parametrize(
    "change",
    [
        "kind = 'note'",
        "address = 'a/99'",
        "fingerprint = '2'",
        "body = CAST('{}' AS BLOB)",
        "body = NULL",
        "chain = zeroblob(32)",
        "kind = 7",
        "seq = 1000",
    ],
)
def test_a_changed_record_is_detected_and_named(run: Path, change: str) -> None:
    execute(run, f"UPDATE records SET {change} WHERE seq = 9")
    assert_refused(run, JournalDamaged, r"record 9 is damaged|after record 8")


def test_a_replaced_tail_is_detected(run: Path, closed: tuple[Path, list[Any]]) -> None:
    witness = (run / ".run" / "witness").read_bytes()
    shutil.rmtree(run / ".run")
    with closing(SqliteJournal.create(run)) as journal:
        fill(journal, 100, 100 + RECORDS)
        fill(journal, 200, 201)
    (run / ".run" / "witness").write_bytes(witness)
    assert_refused(run, JournalShortened, "differs from the acknowledged record")


def test_a_missing_witness_is_refused(run: Path) -> None:
    (run / ".run" / "witness").unlink()
    assert_refused(run, JournalShortened, "no witness")


def damaged_witnesses(line: bytes) -> list[bytes]:
    return [b"", b"12 records\n", line[:40], line[:-1], line + b"x", b"9" + line[1:], line.replace(b" ", b"\0", 1)]


@pytest.mark.finding("FM14")
@pytest.mark.parametrize("number", range(7))
def test_a_damaged_witness_is_reported_and_rebuilt_if_the_journal_is_intact(
    run: Path, closed: tuple[Path, list[Any]], number: int
) -> None:
    witness = run / ".run" / "witness"
    intact = witness.read_bytes()
    witness.write_bytes(damaged_witnesses(intact)[number])
    with closing(read_journal(run)) as journal:
        assert (contents(journal), "witness was damaged" in journal.warning) == (closed[1], True)
    assert witness.read_bytes() != intact
    with closing(SqliteJournal.open(run)) as journal:
        assert (contents(journal), "later ones may be missing" in journal.warning) == (closed[1], True)
    assert witness.read_bytes() == intact
    with closing(SqliteJournal.open(run)) as journal:
        assert journal.warning == ""


@pytest.mark.finding("FM14")
def test_a_damaged_witness_does_not_hide_a_damaged_record(run: Path) -> None:
    (run / ".run" / "witness").write_bytes(b"")
    execute(run, "UPDATE records SET address = 'a/99' WHERE seq = 9")
    assert_refused(run, JournalDamaged, "record 9 is damaged")


def test_a_witness_without_a_checksum_is_still_valid(run: Path) -> None:
    witness = run / ".run" / "witness"
    witness.write_bytes(witness.read_bytes()[:85] + b"\n")
    with closing(SqliteJournal.open(run)) as journal:
        assert journal.warning == ""
    witness.write_bytes(b"%020d %s\n" % (999, b"0" * 64))
    assert_refused(run, JournalShortened, "999 acknowledged records")


def test_a_missing_journal_is_refused_with_and_without_a_witness(run: Path) -> None:
    (run / ".run" / "journal.db").unlink()
    assert_refused(run, JournalShortened, r"missing; it had \d\d acknowledged records")
    (run / ".run" / "witness").unlink()
    assert_refused(run, JournalShortened, "missing; it had 0 acknowledged records")


@pytest.mark.parametrize("content", [b"", b"S", b"SQLite format 3\0"])
def test_an_emptied_journal_is_refused_and_its_log_is_kept(killed_run: Path, content: bytes) -> None:
    (killed_run / ".run" / "journal.db").write_bytes(content)
    assert_refused(killed_run, JournalDamaged, "is empty")


def test_a_file_that_is_not_a_database_is_refused(run: Path) -> None:
    (run / ".run" / "journal.db").write_bytes(b"not a database, but long enough to be one " * 500)
    assert_refused(run, JournalDamaged, "not a database")


def test_a_database_that_is_not_a_journal_is_refused(run: Path) -> None:
    (run / ".run" / "journal.db").unlink()
    execute(run, "CREATE TABLE records (seq)")
    assert_refused(run, JournalDamaged, "is not a journal")


def test_a_journal_in_an_unwritable_format_is_refused(run: Path) -> None:
    with (run / ".run" / "journal.db").open("r+b") as file:
        file.seek(18)
        file.write(b"\7")
    assert_refused(run, JournalDamaged, "its format is 07 02")


def test_a_journal_with_a_foreign_trigger_is_refused(run: Path) -> None:
    execute(run, "CREATE TRIGGER t AFTER INSERT ON records BEGIN DELETE FROM records WHERE seq = 1; END")
    assert_refused(run, JournalDamaged, "TRIGGER")


@pytest.mark.parametrize(
    ("version", "error", "next_step"), [(7, JournalNewer, "Upgrade"), (1, JournalOlder, "Resume with")]
)
def test_a_journal_of_another_version_is_refused(
    run: Path, version: int, error: type[Exception], next_step: str
) -> None:
    execute(run, f"PRAGMA user_version={version}")
    before = files(run)
    with pytest.raises(error, match=f"version {version}, and this skillrun reads version {SCHEMA_VERSION}") as caught:
        SqliteJournal.open(run)
    assert isinstance(caught.value, SkillrunError)
    assert next_step in caught.value.next_step
    assert files(run) == before


def test_a_journal_that_cannot_be_opened_is_not_reported_as_damaged(run: Path) -> None:
    (run / ".run" / "journal.db").unlink()
    (run / ".run" / "journal.db").mkdir()
    with pytest.raises(SkillrunError, match="cannot be opened") as caught:
        SqliteJournal.open(run)
    assert type(caught.value) is SkillrunError


def test_a_witness_that_is_behind_its_journal_is_updated(run: Path, tmp_path: Path) -> None:
    up_to_date = (run / ".run" / "witness").read_bytes()
    (tmp_path / "behind").mkdir()
    with closing(SqliteJournal.create(tmp_path / "behind")) as journal:
        fill(journal, 0, 3)
    shutil.copy(tmp_path / "behind" / ".run" / "witness", run / ".run" / "witness")
    SqliteJournal.open(run).close()
    assert (run / ".run" / "witness").read_bytes() == up_to_date


def test_unsynced_records_are_not_witnessed(tmp_path: Path) -> None:
    with closing(SqliteJournal.create(tmp_path)) as journal:
        witness = tmp_path / ".run" / "witness"
        record(journal, "reply", "a", "1", {})
        before = witness.read_bytes()
        record(journal, "sent", "b", "1", {"prompt": "long " * 1000})
        assert witness.read_bytes() == before
        record(journal, "reply", "b", "1", {})
        assert int(witness.read_bytes()[:20]) > int(before[:20]) + 1


def assert_detected_or_harmless(source: Path, expected: list[Any], name: str, damage: Callable[[bytes], bytes]) -> None:
    """Assert that a damaged journal is refused and unchanged, or has the same records, even after another write."""
    with TemporaryDirectory() as folder:
        run = Path(shutil.copytree(source, Path(folder) / "run"))
        target = run / ".run" / name
        target.write_bytes(damage(target.read_bytes()))
        before = files(run)
        try:
            journal = SqliteJournal.open(run)
        except (JournalDamaged, JournalNewer, JournalOlder, JournalShortened):
            assert files(run) == before
            return
        except SkillrunError:
            return
        with closing(journal):
            assert contents(journal) == expected
            fill(journal, RECORDS, RECORDS + 1)
            extended = contents(journal)
        with closing(SqliteJournal.open(run)) as journal:
            assert contents(journal) == extended


@pytest.mark.slow
@settings(max_examples=60)
@given(st.floats(0, 1, exclude_max=True), st.integers(1, 255))
@pytest.mark.parametrize(
    ("state", "name"), [("closed", "journal.db"), ("killed", "journal.db"), ("killed", "journal.db-wal")]
)
def test_a_changed_byte_is_detected_or_harmless(
    request: pytest.FixtureRequest, state: str, name: str, position: float, bits: int
) -> None:
    run, expected = request.getfixturevalue(state)

    def flip(data: bytes) -> bytes:
        index = int(position * len(data))
        return data[:index] + bytes([data[index] ^ bits]) + data[index + 1 :]

    assert_detected_or_harmless(run, expected, name, flip)


@pytest.mark.slow
@settings(max_examples=60)
@given(st.integers(0, 99), st.integers(1, 255))
def test_a_changed_byte_of_the_header_is_detected_or_harmless(
    closed: tuple[Path, list[Any]], index: int, bits: int
) -> None:
    assert_detected_or_harmless(
        *closed, "journal.db", lambda data: data[:index] + bytes([data[index] ^ bits]) + data[index + 1 :]
    )


@pytest.mark.slow
@settings(max_examples=30)
@given(st.floats(0, 1, exclude_max=True))
@pytest.mark.parametrize(
    ("state", "name"), [("closed", "journal.db"), ("killed", "journal.db"), ("killed", "journal.db-wal")]
)
def test_a_truncated_file_is_detected_or_harmless(
    request: pytest.FixtureRequest, state: str, name: str, position: float
) -> None:
    run, expected = request.getfixturevalue(state)
    assert_detected_or_harmless(run, expected, name, lambda data: data[: int(position * len(data))])
