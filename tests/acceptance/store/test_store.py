"""Every command works on runs in a store, and a run is imported and exported unchanged."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from skillrun.cli.options import STORE_VARIABLE
from skillrun.extensions.workers.commands.open_store import open_database
from skillrun.extensions.workers.postgres.maintenance import migrate
from tests.acceptance.conftest import Call, Done, Make
from tests.launcher import run_skillrun
from tests.servers.wire_postgres import another_protocol, fake_postgres

pytestmark = pytest.mark.row("W1")
SCRIPTED = ("--model", "scripted:x")
PLAN = ("plan", "Add a dark mode", "--mode", "rapid", "--unattended", *SCRIPTED)


def contents(run: Path) -> dict[str, bytes]:
    """The files of a run by name, without those of the engine."""
    files = (path for path in run.rglob("*") if path.is_file() and ".run" not in path.parts)
    return {path.relative_to(run).as_posix(): path.read_bytes() for path in files}


def records(run: Path) -> list[Any]:
    with sqlite3.connect(run / ".run" / "journal.db") as database:
        return database.execute("SELECT * FROM records ORDER BY seq").fetchall()


@pytest.mark.slow
def test_a_run_in_a_store_starts_waits_resumes_and_is_shown(project: Make, skillrun: Call, store: str) -> None:
    folder = project("visit")
    started = skillrun("visit", *SCRIPTED)
    assert started.code == 75
    assert "resume with `skillrun resume visit`" in started.out.splitlines()[-1]
    assert [(run["run"], run["status"]) for run in skillrun("runs", "--json").json] == [("visit", "waiting")]
    (folder / "answers.yaml").write_text("choose/where: the lake\n")
    done = skillrun("resume", "visit", "--answers", "answers.yaml")
    assert done.code == 0
    assert "folder: `visit` in the store postgres" in done.out
    assert "note.md" in done.out
    report = skillrun("show", "visit", "--json").json
    assert (report["status"], report["round"], report["artifacts"]) == ("completed", 2, ["visit.md", "note.md"])
    assert "choose: answered from the prepared answers: where = the lake" in skillrun("logs", "visit").out
    assert skillrun("show", "visit", "plan").code == 0
    assert not (folder / "runs").exists()


def test_the_option_names_a_store_as_the_environment_does(
    project: Make, skillrun: Call, store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(STORE_VARIABLE)
    folder = project("greeting")
    assert skillrun("greeting", "Ada", "--store", store, *SCRIPTED).code == 0
    assert [run["run"] for run in skillrun("runs", "--store", store, "--json").json] == ["ada"]
    assert skillrun("runs", "--json").json == []
    assert not (folder / "runs").exists()


@pytest.mark.slow
def test_a_plan_makes_the_same_calls_and_files_in_a_store_as_in_a_folder(
    project: Make, skillrun: Call, store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = project()
    assert skillrun(*PLAN, "--name", "plan").code == 0
    assert skillrun("store", "export", "plan").code == 0
    monkeypatch.delenv(STORE_VARIABLE)
    assert skillrun(*PLAN, "--name", "other").code == 0
    stored, local = contents(folder / "runs" / "plan"), contents(folder / "runs" / "other")
    assert {
        name: stored[name] for name in stored if name.endswith(".md") and "/" not in name and name != "state.md"
    } == {name: local[name] for name in local if name.endswith(".md") and "/" not in name and name != "state.md"}
    runs = [records(folder / "runs" / name) for name in ("plan", "other")]
    calls = [[row[1:4] for row in rows if row[1] in ("sent", "reply")] for rows in runs]
    assert calls[0] == calls[1]
    assert calls[0]


@pytest.mark.slow
def test_a_run_is_imported_and_exported_byte_for_byte_and_resumes_in_the_store(
    project: Make, skillrun: Call, store: str
) -> None:
    folder = project("visit")
    environment = {key: value for key, value in os.environ.items() if key != STORE_VARIABLE}
    run_skillrun("visit", *SCRIPTED, env=environment, cwd=folder)
    before = folder / "runs" / "visit"
    assert skillrun("store", "import", "visit").code == 0
    assert skillrun("store", "export", "visit", "--name", "back").code == 0
    after = folder / "runs" / "back"
    assert contents(after) == contents(before)
    assert records(after) == records(before)
    assert (after / ".run" / "transcript.ndjson").read_bytes() == (before / ".run" / "transcript.ndjson").read_bytes()
    (folder / "answers.yaml").write_text("choose/where: the lake\n")
    count = len(records(before))
    assert skillrun("resume", "visit", "--answers", "answers.yaml").code == 0
    assert skillrun("show", "visit", "--json").json["usage"]["calls"] > 0
    assert len(records(before)) == count


@pytest.mark.slow
def test_answers_are_kept_in_a_store_and_exported_with_the_run(project: Make, skillrun: Call, store: str) -> None:
    folder = project("visit")
    assert skillrun("visit", *SCRIPTED).code == 75
    (folder / "answers.yaml").write_text("choose/where: the lake\n")
    saved = skillrun("answers", "visit", "--answers", "answers.yaml")
    assert (saved.code, saved.out.splitlines()[-1]) == (0, "next: `skillrun resume visit`")
    assert skillrun("store", "export", "visit").code == 0
    for run in ("visit", "runs/visit"):
        assert skillrun("resume", run, "--adopt").code == 0
        assert "where = the lake" in skillrun("logs", run).out


@pytest.mark.parametrize("direction", ["import", "export"])
def test_a_taken_name_is_refused_and_nothing_changes(project: Make, skillrun: Call, store: str, direction: str) -> None:
    folder = project("greeting")
    assert skillrun("greeting", "Ada", *SCRIPTED).code == 0
    assert skillrun("store", "export", "ada").code == 0
    before = contents(folder / "runs" / "ada"), skillrun("show", "ada", "--json").json
    done = skillrun("store", direction, "ada")
    assert done.code == 2
    assert "the run `ada` already exists" in done.err
    assert (contents(folder / "runs" / "ada"), skillrun("show", "ada", "--json").json) == before


def test_a_run_that_another_process_executes_is_refused(project: Make, skillrun: Call, store: str) -> None:
    project("visit")
    assert skillrun("visit", *SCRIPTED).code == 75
    claim = (
        "UPDATE runs SET status = 'running', owner = 'process 1 on otherhost', lease_until = now() + interval '1 min'"
    )
    open_database(store).rows(claim)
    done = skillrun("resume", "visit")
    assert done.code == 1
    assert "visit is being run by process 1 on otherhost" in done.err
    open_database(store).rows("UPDATE runs SET lease_until = now() - interval '1 s'")
    assert skillrun("resume", "visit").code == 75


def test_a_database_is_migrated_once_and_a_newer_store_is_left_unchanged(
    project: Make, skillrun: Call, database: str
) -> None:
    project("greeting")
    refused = skillrun("greeting", "Ada", *SCRIPTED)
    assert refused.code == 1
    assert "is not a skillrun store yet" in refused.err
    assert "skillrun store migrate" in refused.err
    assert "applied version" in skillrun("store", "migrate").out
    assert "is up to date" in skillrun("store", "migrate").out
    assert "0 runs" in skillrun("store", "check").out
    from skillrun.extensions.workers.commands.open_store import open_store

    open_database(database).rows("DELETE FROM store_versions WHERE version = 2")
    open_store.cache_clear()
    assert "must be migrated to version 2 for this skillrun" in skillrun("runs").err
    open_database(database).rows("INSERT INTO store_versions (version) VALUES (2), (99)")
    open_store.cache_clear()
    for command in (("greeting", "Ada", *SCRIPTED), ("store", "migrate"), ("store", "check"), ("runs",)):
        refused = skillrun(*command)
        assert refused.code == 1
        assert "has version 99" in refused.err
    assert open_database(database).rows("SELECT count(*) FROM runs") == [(0,)]


@pytest.mark.parametrize(
    ("url", "code", "message"),
    [
        ("sqlite:///runs.db", 2, "no store is registered for URLs that start with `sqlite://`"),
        ("postgresql://nobody@127.0.0.1:9/none", 1, "does not answer"),
    ],
)
def test_an_unavailable_store_is_reported_and_nothing_starts(
    project: Make, skillrun: Call, monkeypatch: pytest.MonkeyPatch, url: str, code: int, message: str
) -> None:
    folder = project("greeting")
    monkeypatch.setenv(STORE_VARIABLE, url)
    done: Done = skillrun("greeting", "Ada", *SCRIPTED)
    assert (done.code, done.out) == (code, "")
    assert message in done.err
    assert not (folder / "runs").exists()


@pytest.mark.parametrize(
    "command",
    [
        ("submit", "greeting", "Ada", *SCRIPTED),
        ("worker",),
        ("worker", "once", "x"),
        ("worker", "list"),
        ("cancel", "x"),
    ],
)
def test_each_command_on_a_store_reports_that_it_does_not_answer(
    project: Make, skillrun: Call, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]
) -> None:
    project("greeting")
    monkeypatch.setenv(STORE_VARIABLE, "postgresql://nobody@127.0.0.1:9/none")
    done = skillrun(*command)
    assert (done.code, done.out) == (1, "")
    assert "the store none at 127.0.0.1:9 does not answer" in done.err
    assert "check that the server is running, and check the store's URL" in done.err


def test_a_user_without_privileges_is_refused_and_nothing_changes(
    project: Make, skillrun: Call, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    project("greeting")
    owner = open_database(database)
    role = f"r{uuid4().hex}"
    ((schema,),) = owner.rows("SELECT current_schema()")
    owner.script(f"CREATE ROLE {role} LOGIN; GRANT USAGE ON SCHEMA {schema} TO {role}")
    try:
        url = database.replace("//skillrun@", f"//{role}@")
        monkeypatch.setenv(STORE_VARIABLE, url)
        refused = skillrun("store", "migrate")
        assert (refused.code, "denied access: permission denied for schema" in refused.err) == (1, True)
        assert "check the user in the store's URL, and this user's privileges" in refused.err
        migrate(owner)
        for command in (("greeting", "Ada", *SCRIPTED), ("submit", "greeting", "Ada", *SCRIPTED), ("worker",)):
            refused = skillrun(*command)
            assert (refused.code, "denied access: permission denied for table" in refused.err) == (1, True), refused.err
        assert owner.rows("SELECT count(*) FROM runs") == [(0,)]
        open_database(url).close()
    finally:
        owner.script(f"DROP OWNED BY {role}; DROP ROLE {role}")


@pytest.mark.allow_hosts(["127.0.0.1"])
@pytest.mark.parametrize(
    ("version", "words", "message"),
    [
        ("9.6.24", "PostgreSQL 9.6.24 on x86_64", "is PostgreSQL 9.6.24, which is too old"),
        ("13.23", "PostgreSQL 13.23 on x86_64", "is PostgreSQL 13.23, which is too old"),
        ("15.2", "PostgreSQL 15.2-YB-2.25.1.0-b0 on x86_64", "is not PostgreSQL: PostgreSQL 15.2-YB"),
        ("13.0.0", "CockroachDB CCL v23.1.11", "is not PostgreSQL: CockroachDB CCL v23.1.11"),
    ],
)
def test_a_server_that_is_too_old_or_not_postgres_is_refused_with_the_requirement(
    project: Make, skillrun: Call, monkeypatch: pytest.MonkeyPatch, version: str, words: str, message: str
) -> None:
    project("greeting")
    with fake_postgres(version, words) as url:
        monkeypatch.setenv(STORE_VARIABLE, url)
        for command in (("greeting", "Ada", *SCRIPTED), ("store", "migrate"), ("runs",), ("worker",)):
            refused = skillrun(*command)
            assert (refused.code, refused.out) == (1, "")
            assert message in refused.err
            assert "a store needs PostgreSQL 14 or newer" in refused.err


@pytest.mark.allow_hosts(["127.0.0.1"])
@pytest.mark.parametrize("more", ["", "?sslmode=disable&gssencmode=disable"])
def test_a_server_of_another_protocol_is_refused(
    project: Make, skillrun: Call, monkeypatch: pytest.MonkeyPatch, more: str
) -> None:
    project("greeting")
    with another_protocol() as url:
        monkeypatch.setenv(STORE_VARIABLE, url + more)
        refused = skillrun("runs")
        assert refused.code == 1
        assert "is not PostgreSQL" in refused.err


def test_a_password_is_never_shown(project: Make, skillrun: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    project("greeting")
    monkeypatch.setenv(STORE_VARIABLE, "postgresql://me:hush-hush@127.0.0.1:9/none")
    done = skillrun("greeting", "Ada", *SCRIPTED)
    assert done.code == 1
    assert "hush-hush" not in done.out + done.err
