"""A store of an earlier version is migrated, and this version completes its unfinished runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from skillrun.extensions.workers.commands.open_store import open_database
from skillrun.extensions.workers.postgres.maintenance import load_migrations
from tests.acceptance.conftest import Call

pytestmark = pytest.mark.row("W2")
PREVIOUS = 9
DUMP = Path(__file__).with_name(f"version-{PREVIOUS}.sql")
RECORDS = "SELECT run, seq, kind, address, fingerprint, body, chain FROM records WHERE epoch = 1 ORDER BY run, seq"


@pytest.fixture
def old_store(database: str) -> str:
    """A database with the data of the previous version."""
    open_database(database).script(DUMP.read_text())
    return database


@pytest.mark.slow
def test_unfinished_runs_of_the_previous_version_complete(old_store: str, skillrun: Call, tmp_path: Path) -> None:
    database = open_database(old_store)
    before = database.rows(RECORDS)
    assert [(run, kind) for run, _, kind, *_ in before] == [
        (1, "text"), (1, "sent"), (1, "reply"), (1, "wrote"), (1, "sent"), (2, "summary"),
    ]  # fmt: skip
    refused = skillrun("worker", "once", "ada")
    missing = [number for number in load_migrations() if number > PREVIOUS]
    assert f"must be migrated to version {', '.join(map(str, missing))} for this skillrun" in refused.err
    assert database.rows(RECORDS) == before
    assert f"applied version {', '.join(map(str, missing))}\n" in skillrun("store", "migrate").out
    assert skillrun("worker", "once", "ada").out.endswith("ada: completed\n")
    answers = tmp_path / "answers.yaml"
    answers.write_text("choose/where: the lake\n")
    assert skillrun("answers", "trip", "--answers", str(answers)).out.endswith("a worker will resume the run\n")
    assert skillrun("worker", "once", "trip").out.endswith("trip: completed\n")
    assert "where = the lake" in skillrun("logs", "trip").out
    assert database.rows(RECORDS) == before
    duplicates = "SELECT address, fingerprint FROM records WHERE kind = 'reply' GROUP BY 1, 2 HAVING count(*) > 1"
    assert database.rows(duplicates) == []
    written = skillrun("store", "pull", "ada", str(tmp_path / "ada"), "--json").json["written"]
    assert {f"n{number}.md" for number in range(4)} <= set(written)
    assert {status for (status,) in database.rows("SELECT status FROM runs")} == {"completed"}
