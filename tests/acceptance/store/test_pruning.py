"""Pruning removes old runs with their unshared contents; new and unfinished runs stay."""

from __future__ import annotations

from datetime import timedelta

import pytest

from skillrun.extensions.workers.commands.open_store import open_database
from skillrun.extensions.workers.postgres.maintenance import RunPruner
from tests.acceptance.conftest import Call, Make
from tests.acceptance.store.test_workers import SCRIPTED

pytestmark = pytest.mark.row("W6")


def _count_contents(store: str) -> int:
    return int(open_database(store).rows("SELECT count(*) FROM blobs")[0][0])


@pytest.mark.slow
def test_old_ended_runs_are_removed_with_their_unshared_contents(project: Make, skillrun: Call, store: str) -> None:
    project("greeting")
    for name in ("old", "young", "waiting"):
        assert skillrun("submit", "greeting", "Ada", "--name", name, *SCRIPTED).code == 0
        assert skillrun("worker", "once", name).code == 0
    database = open_database(store)
    database.rows("UPDATE runs SET ended_at = now() - interval '91 d' WHERE name <> 'young'")
    database.rows("UPDATE runs SET status = 'waiting' WHERE name = 'waiting'")
    database.rows("UPDATE blobs SET made_at = now() - interval '91 d'")
    before = _count_contents(store)
    preview = skillrun("store", "prune", "--before", "90d").out
    assert "1 run would be deleted: completed, failed, cancelled" in preview
    assert _count_contents(store) == before
    done = skillrun("store", "prune", "--before", "90d", "--yes").out
    assert "deleted 1 run and " in done
    assert [run["run"] for run in skillrun("runs", "--json").json] == ["waiting", "young"]
    assert 0 < _count_contents(store) < before
    assert database.rows("SELECT count(*) FROM records WHERE run NOT IN (SELECT id FROM runs)") == [(0,)]
    assert skillrun("show", "young", "--json").json["usage"]["calls"] == 2
    assert "deleted 1 run" in skillrun("store", "prune", "--before", "90d", "--status", "waiting", "--yes").out
    assert skillrun("store", "prune").code == 2


def test_a_new_content_stays_although_no_run_refers_to_it_yet(skillrun: Call, store: str) -> None:
    database = open_database(store)
    database.rows("INSERT INTO blobs (sha, content) VALUES ('a', 'x'), ('b', 'y')")
    database.rows("UPDATE blobs SET made_at = now() - interval '2 d' WHERE sha = 'a'")
    assert RunPruner(database, timedelta(days=1), ["completed"]).remove() == (0, [1])
    assert database.rows("SELECT sha FROM blobs") == [("b",)]
