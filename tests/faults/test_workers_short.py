"""A small trial of worker faults. `make chaos-workers` has hundreds of runs and six workers."""

from __future__ import annotations

from contextlib import closing

import pytest

from skillrun.extensions.workers.postgres.database import Database
from skillrun.extensions.workers.postgres.lease import PostgresLease, RunRow
from skillrun.extensions.workers.postgres.maintenance import load_migrations, migrate
from skillrun.extensions.workers.postgres.queue import RunQueue
from tests.faults.workers import Size, main, run_trial
from tests.servers.postgres import empty

pytestmark = pytest.mark.row("W2")


@pytest.mark.slow
@pytest.mark.allow_hosts(["127.0.0.1"])
def test_runs_complete_despite_failures_of_workers_and_the_store() -> None:
    result = run_trial(Size(runs=6, workers=3, lease=3.0, every=8.0, call=0.02, most=240.0), "8")
    assert result.failures == []
    figures = {name: value for name, value, _ in result.table}
    assert figures["runs completed"] + figures["runs cancelled"] == 6  # type: ignore[operator]


def test_a_size_that_is_not_a_number_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main({"CHAOS_RUNS": "many"}) == 2
    assert "invalid size" in capsys.readouterr().out


def test_a_run_of_the_previous_version_can_be_claimed_after_a_migration(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that is in progress during a migration of the store can be continued by this version."""
    known = load_migrations()
    with empty() as url, closing(Database(url)) as database:
        with monkeypatch.context() as patch:
            older = {number: text for number, text in known.items() if number < max(known)}
            patch.setattr("skillrun.extensions.workers.postgres.maintenance.load_migrations", lambda: older)
            assert migrate(database) == list(older)
        database.rows(
            "INSERT INTO runs (name, status, request, epoch, lease_until)"
            " VALUES ('ada', 'running', '{}', 3, now() - interval '1 s')"
        )
        assert migrate(database) == [max(known)]
        assert [due.name for due in RunQueue(database).due_runs(5)] == ["ada"]
        row = RunRow.find(database, "ada")
        assert row is not None
        with PostgresLease(row).hold():
            assert row.epoch == 4
