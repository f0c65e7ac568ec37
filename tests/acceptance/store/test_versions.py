"""A store that an earlier version has left is brought up to date, and this version goes on with what was under way."""

from __future__ import annotations

from pathlib import Path

import pytest

from skillrun.extensions.workers.commands.open_store import open_database
from skillrun.extensions.workers.postgres.migrations import load_migrations
from tests.acceptance.conftest import Call

pytestmark = pytest.mark.row("W2")
BEFORE = 9
LEFT = Path(__file__).with_name(f"version-{BEFORE}.sql")
RECORDS = "SELECT run, seq, kind, address, fingerprint, body, chain FROM records WHERE epoch = 1 ORDER BY run, seq"


@pytest.fixture
def left(database: str) -> str:
    """A database with what the version before has left in it."""
    open_database(database).script(LEFT.read_text())
    return database


@pytest.mark.slow
def test_runs_in_flight_on_the_version_before_go_on_to_their_end(left: str, skillrun: Call, tmp_path: Path) -> None:
    database = open_database(left)
    before = database.rows(RECORDS)
    assert [(run, kind) for run, _, kind, *_ in before] == [
        (1, "text"), (1, "sent"), (1, "reply"), (1, "wrote"), (1, "sent"), (2, "summary"),
    ]  # fmt: skip
    refused = skillrun("work", "ada")
    missing = [number for number in load_migrations() if number > BEFORE]
    assert f"lacks version {', '.join(map(str, missing))}, which this skillrun needs" in refused.err
    assert database.rows(RECORDS) == before
    assert f"applied version {', '.join(map(str, missing))}\n" in skillrun("store", "migrate").out
    assert skillrun("work", "ada").out.endswith("ada: completed\n")
    answers = tmp_path / "answers.yaml"
    answers.write_text("choose/where: the lake\n")
    assert skillrun("answers", "trip", "--answers", str(answers)).out.endswith("a worker will resume the run\n")
    assert skillrun("work", "trip").out.endswith("trip: completed\n")
    assert "where = the lake" in skillrun("logs", "trip").out
    assert database.rows(RECORDS) == before
    asked = "SELECT address, fingerprint FROM records WHERE kind = 'reply' GROUP BY 1, 2 HAVING count(*) > 1"
    assert database.rows(asked) == []
    listed = skillrun("pull", "ada", str(tmp_path / "ada"), "--json").json["written"]
    assert {f"n{number}.md" for number in range(4)} <= set(listed)
    assert {status for (status,) in database.rows("SELECT status FROM runs")} == {"completed"}
