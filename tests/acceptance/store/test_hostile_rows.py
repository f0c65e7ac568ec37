"""A user who can write to a store controls its rows. No row gives a run more than its project and the worker allow."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from skillrun.extensions.workers.commands.open_store import open_database
from skillrun.extensions.workers.postgres import journal
from skillrun.extensions.workers.postgres.database import Database
from skillrun.extensions.workers.postgres.queue import PIECE
from skillrun.extensions.workers.postgres.stored_run import PostgresStore
from skillrun.repository.paths import PathRefused
from skillrun.store.artifacts import check_artifact_names, normalize_artifact_name
from skillrun.store.files import sha256_of
from tests.acceptance.conftest import Call
from tests.acceptance.store.test_repositories import project  # noqa: F401 (a fixture)
from tests.acceptance.store.test_workers import SCRIPTED

pytestmark = [pytest.mark.row("W5"), pytest.mark.usefixtures("project")]
SECRET = "a key of this machine"


class HostileStore:
    """A store with the submitted run `x`, and one who can write to it."""

    def __init__(self, url: str, skillrun: Call, folder: Path) -> None:
        self.database, self._skillrun = open_database(url), skillrun
        (folder / "code").mkdir()
        (folder / "code/a.txt").write_text("shelf")
        (folder / "secret").mkdir()
        (folder / "secret/a.txt").write_text(SECRET)
        (folder / ".gitignore").write_text("secret\n")
        self.secret = folder / "secret"
        assert skillrun("submit", "look", "shelf", "--name", "x", "--repo", "code", *SCRIPTED).code == 0
        ((self.request, self.bundle),) = self.database.rows("SELECT request, bundle FROM runs")

    def work(self, request: Any = None, bundle: str | None = "") -> Any:
        """Queue the run again with another request, as data or JSON, or bundle, and let a worker execute it."""
        text = request if isinstance(request, str) else json.dumps(request or self.request)
        values = {"request": text, "bundle": self.bundle if bundle == "" else bundle}
        statement = "UPDATE runs SET status = 'queued', reason = '', request = %(request)s::jsonb, bundle = %(bundle)s"
        self.database.rows(statement, values)
        done = self._skillrun("worker", "once", "x")
        assert SECRET not in self._skillrun("logs", "x").out
        return done

    def read_state(self) -> str:
        ((state,),) = self.database.rows("SELECT content FROM blobs JOIN files USING (sha) WHERE path = 'state.md'")
        return str(state.decode())

    def write_file(self, name: str, text: str) -> None:
        sha, values = sha256_of(text), {"path": name, "content": text.encode()}
        statement = "INSERT INTO blobs (sha, content) VALUES (%(sha)s, %(content)s) ON CONFLICT DO NOTHING"
        self.database.rows(statement, {"sha": sha, **values})
        self.database.rows(
            "INSERT INTO files (run, path, sha) SELECT id, %(path)s, %(sha)s FROM runs "
            "ON CONFLICT (run, path) DO UPDATE SET sha = excluded.sha",
            {"sha": sha, **values},
        )


@pytest.fixture
def hostile(store: str, skillrun: Call) -> HostileStore:
    return HostileStore(store, skillrun, Path.cwd())


@pytest.mark.finding("FS3")
def test_a_request_leads_to_no_path_of_the_worker(hostile: HostileStore) -> None:
    inputs = hostile.request["inputs"]
    for path in (
        "/proc/self/environ",
        str(hostile.secret),
        "..",
        "../..",
        "code/../..",
        "../repositories",
        "~",
        "none",
    ):
        done = hostile.work({**hostile.request, "inputs": {**inputs, "repo": path}, "typed": ["repo", "about"]})
        assert done.code == 1, (path, done)
        assert "x: failed: " in done.out
        assert "outside of the project" in done.out or "does not exist" in done.out
    assert hostile.work().out == "x: completed\n"


@pytest.mark.finding("FS3")
def test_the_hash_of_a_project_is_no_path_of_the_worker(hostile: HostileStore) -> None:
    other = "0" * 64
    hostile.database.rows("INSERT INTO blobs (sha, content) VALUES (%(sha)s, 'x')", {"sha": other})
    bundles = [str(Path.cwd()), "..", ".", other, hostile.bundle.upper(), f"{hostile.bundle}/.", hostile.bundle[:63]]
    for bundle in bundles:
        statement = "INSERT INTO blobs (sha, content) VALUES (%(sha)s, 'x') ON CONFLICT DO NOTHING"
        hostile.database.rows(statement, {"sha": bundle})
        done = hostile.work(bundle=bundle)
        assert (done.code, done.err) == (1, ""), (bundle, done)
        assert "no valid hash of a project" in done.out or "does not match its hash" in done.out
    assert hostile.work(bundle=None).out == "x: failed: the row of the run has no valid hash of a project\n"


@pytest.mark.finding("FS3", "FS13")
@pytest.mark.parametrize(
    "change",
    [
        {"inputs": []},
        {"inputs": None},
        {"inputs": {}},
        {"inputs": {"about": "x", "repo": "code", "more": "x"}},
        {"inputs": {"about": {"a": 1}, "repo": "code"}},
        {"inputs": {"about": "x", "repo": ["code"]}},
        {"inputs": {"about": "x", "repo": "code\n"}},
        {"inputs": {"about": 10**400, "repo": "code"}},
        {"model": 5},
        {"model": "no-such-provider:model"},
        {"model": "x" * 1000},
        {"budget": {"calls": -1}},
        {"budget": {"calls": "many"}},
        {"budget": {"other": 1}},
        {"budget": 5},
        {"answers": 5},
        {"answers": "a: [1"},
        {"unattended": "yes"},
        {"estimate": 5},
        {"repositories": {"repo": "file:///etc@" + "0" * 40, "about": "x"}},
        {"repositories": {"about": "https://host/x@" + "0" * 40}},
        {"repositories": {"repo": "/etc"}},
        {"repositories": {"repo": 5}},
        {"queue": "x"},
        {"script": "x"},
        {"name": "x"},
        {"x" * 300: "\u001b[2J"},
    ],
)
def test_an_invalid_request_fails_its_run_with_a_message(hostile: HostileStore, change: dict[str, Any]) -> None:
    done = hostile.work({**hostile.request, **change})
    assert done.code == 1 or "no-such-provider" in done.err, done
    assert "Traceback" not in done.err
    assert len(done.out) < 700
    if done.code == 1:
        assert done.out.startswith("x: failed: ")
        assert hostile.database.rows("SELECT status, reason <> '' FROM runs") == [("failed", True)]


@pytest.mark.finding("FS3", "FS13")
def test_a_request_of_another_shape_fails_its_run(hostile: HostileStore) -> None:
    nested, number = "[" * 2000 + "]" * 2000, "1" + "0" * 5000
    long = '{"inputs": {"about": "' + "y" * 20_000_000 + '"}}'
    for request in (
        '["x"]',
        '"x"',
        "5",
        "true",
        "[]",
        f'{{"inputs": {nested}}}',
        f'{{"inputs": {{"x": {number}}}}}',
        long,
    ):
        done = hostile.work(request)
        assert (done.code, done.err) == (1, "")
        assert done.out.startswith("x: failed: the r")


@pytest.mark.finding("FS3")
def test_a_request_lowers_the_budget_and_never_raises_it(hostile: HostileStore) -> None:
    done = hostile.work({**hostile.request, "budget": {"calls": 10**9, "price": 1, "minutes": 10**9}})
    assert done.code == 0, done
    assert "x: the budget for calls is 500, as the config of this machine says" in done.out
    state = _state(hostile)
    assert "calls: 500" in state
    assert "price: 1" in state
    assert "minutes: 240" in state


@pytest.mark.finding("FS3")
def test_the_state_of_a_run_in_a_store_grants_no_path(hostile: HostileStore) -> None:
    assert hostile.work().code == 0
    state = _state(hostile)
    for path in ("/proc/self/environ", str(hostile.secret), "../.."):
        changed = state.replace("status: completed", "status: running").replace("repo: code", f"repo: {path}")
        hostile.write_file("state.md", changed.replace("\nstate:", "\ntyped: [repo]\nstate:"))
        done = hostile.work()
        assert done.code == 1, done
        assert "outside of the project" in done.out


def _state(hostile: HostileStore) -> str:
    ((content,),) = hostile.database.rows("SELECT content FROM blobs JOIN files USING (sha) WHERE path = 'state.md'")
    return bytes(content).decode()


DANGEROUS = (
    ".git/config", ".GIT/config", ".git /config", ".git./config", "git~1/config", "GIT~1/config", "a/.git/config",
    ".g\u200cit/config", "\ufeff.git/config", ".git::$INDEX_ALLOCATION/config", "a\\.git\\config", "HEAD", "head ",
    ".hg/hgrc", ".envrc", ".vscode/tasks.json", "notes/.vscode/tasks.json", ".idea/x", ".bashrc", ".skillrun-pull.json",
    ".RUN/journal.db", "summaries/.git/config", "round-1/.envrc", "../up.md", "a/../../up.md", "/etc/cron.d/x", "a//b",
    "./a.md", "a/", "", "a\nb", "a\x1b[2Jb", "x" * 300, "x/" * 3000 + "x", "\u202egit",
)  # fmt: skip
CONFUSING = (
    ("A.md", "a.md"),
    ("dir/x", "DIR/y"),
    ("\u00e4.md", "a\u0308.md"),
    ("b", "b/c"),
    ("B", "b/c"),
    ("c.md", "c.md "),
)


@pytest.mark.finding("FS5")
@pytest.mark.parametrize("names", [*((name,) for name in DANGEROUS), *CONFUSING])
def test_dangerous_names_are_refused(names: tuple[str, ...]) -> None:
    with pytest.raises(PathRefused):
        check_artifact_names(["state.md", "plan.md", "round-1/plan.md", "summaries/a.md", *names])
    if len(names) == 1:
        with pytest.raises(PathRefused):
            normalize_artifact_name(names[0] if "//" not in names[0] and names[0] not in ("./a.md", "a/") else "")


@pytest.mark.finding("FS5")
@pytest.mark.parametrize("some", [DANGEROUS[:1], pytest.param(DANGEROUS, marks=pytest.mark.slow)])
def test_files_with_dangerous_names_are_not_written_by_any_command(
    hostile: HostileStore, skillrun: Call, some: tuple[str, ...]
) -> None:
    assert hostile.work().code == 0
    for names in (*((name,) for name in some), *(CONFUSING if some is DANGEROUS else CONFUSING[:1])):
        for name in names:
            hostile.write_file(name, "x")
        before = sorted(Path.cwd().rglob("*"))
        for command in (("pull", "x"), ("export", "x"), ("edit", "x"), ("edit", "x", names[0])):
            done = skillrun("store", *command)
            assert (done.code, "error: " in done.err) == (1, True), (names, command, done)
            assert "restore the store" not in done.err
        made = {str(path.relative_to(Path.cwd())) for path in {*Path.cwd().rglob("*")} - {*before}}
        assert made <= {"runs", "runs/.gitignore"}, names
        hostile.database.rows("DELETE FROM files WHERE path = ANY(%(names)s)", {"names": list(names)})
    assert skillrun("store", "export", "x").code == 0
    assert skillrun("store", "pull", "x").code == 0


@pytest.mark.finding("FS5")
@pytest.mark.usefixtures("store")
def test_files_with_such_names_are_left_out_of_an_import_with_a_note(skillrun: Call) -> None:
    (Path.cwd() / "code").mkdir()
    (Path.cwd() / "code/a.txt").write_text("x")
    assert skillrun("look", "x", "--repo", "code", "--name", "y", *SCRIPTED).code == 0
    assert skillrun("store", "export", "y").code == 0
    (Path("runs/y/.DS_Store")).write_text("x")
    (Path("runs/y/mine.md")).write_text("x")
    done = skillrun("store", "import", "y", "--name", "z")
    assert (done.code, done.err) == (0, "left out: .DS_Store\n")
    assert "mine.md" in skillrun("store", "edit", "z").out


@pytest.mark.slow
@pytest.mark.finding("FA1")
def test_no_statement_returns_a_value_of_any_size(
    hostile: HostileStore, skillrun: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert hostile.work().code == 0
    rows, sizes = Database.rows, list[int]()

    def measure_rows(self: Database, *arguments: Any, **options: Any) -> Any:
        found = rows(self, *arguments, **options)
        sizes.extend(len(value) for row in found for value in row if isinstance(value, str | bytes))
        return found

    monkeypatch.setattr(Database, "rows", measure_rows)
    run = "(SELECT id FROM runs)"
    archive = f"INSERT INTO blobs (sha, content) VALUES ('{'0' * 64}', decode(repeat('41', 60000000), 'hex'))"
    for change in (
        "UPDATE runs SET reason = repeat('x', 60000000), status = 'queued'",
        "UPDATE runs SET workflow = repeat('x', 60000000), reason = ''",
        "UPDATE runs SET owner = repeat('x', 60000000), status = 'running', lease_until = now() + interval '1 h'",
        "UPDATE runs SET status = repeat('x', 100000), owner = '', lease_until = NULL, workflow = 'look'",
        f"INSERT INTO events (run, line) VALUES ({run}, repeat('x', 60000000))",
        f"{archive}; UPDATE runs SET bundle = '{'0' * 64}', status = 'queued'",
        f"UPDATE files SET sha = '{'0' * 64}' WHERE path = 'state.md'",
        "INSERT INTO workers (name, host, process, most, version) VALUES ('w', 'h', 1, 1, repeat('x', 60000000))",
        "UPDATE workers SET version = '', queues = ARRAY[repeat('x', 60000000)]",
    ):
        hostile.database.script(change)
        for command in ("runs", "show x", "logs x", "worker list", "worker once x"):
            assert "bug in skillrun" not in skillrun(*command.split()).err
    assert max(sizes) <= PIECE


@pytest.mark.slow
@pytest.mark.finding("FA1")
@pytest.mark.parametrize(
    "record", ["repeat('x', 60000000), '', '', ''", "'reply', '', '', decode(repeat('41', 60000000), 'hex')"]
)
def test_a_record_of_any_size_is_not_read(hostile: HostileStore, skillrun: Call, record: str) -> None:
    assert hostile.work().code == 0
    hostile.write_file("state.md", hostile.read_state().replace("status: completed", "status: interrupted"))
    columns = "run, seq, kind, address, fingerprint, body, chain, epoch"
    hostile.database.script(f"INSERT INTO records ({columns}) SELECT id, 1000, {record}, '', 1 FROM runs")
    assert "the journal of `x` is larger than any that a run writes" in skillrun("show", "x").out
    done = hostile.work()
    assert (done.code, done.out) == (1, "x: failed: the journal of `x` is larger than any that a run writes\n")


@pytest.mark.finding("FA1")
def test_a_journal_and_a_transcript_are_read_in_batches(
    hostile: HostileStore, skillrun: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert hostile.work().code == 0
    whole = skillrun("logs", "x").out
    shown = skillrun("show", "x").out
    monkeypatch.setattr(journal, "LONGEST", 400)
    monkeypatch.setattr(journal, "SIZE", 2)
    monkeypatch.setattr(journal, "_READ", journal._READ.replace(f"LIMIT {journal.BATCH_ROWS}", "LIMIT 1"))
    assert skillrun("show", "x").out == shown
    assert set(skillrun("logs", "x").out.splitlines()) <= set(whole.splitlines())


@pytest.mark.finding("FC5")
def test_only_the_last_events_of_a_stored_transcript_are_read(
    hostile: HostileStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert hostile.work().code == 0
    line = """'{"event": "Notice", "text": "event ' || number || '"}'"""
    hostile.database.script(f"INSERT INTO events (run, line) SELECT id, {line} FROM runs, generate_series(1, 9) number")
    monkeypatch.setattr(journal, "MAX_EVENTS", 3)
    texts = [event["text"] for event in PostgresStore(hostile.database).open_run("x").events()]
    assert texts == ["only the last 200,000 events of the transcript are read", "event 7", "event 8", "event 9"]


@pytest.mark.finding("FA5", "FA6", "FA7")
@pytest.mark.parametrize("value", ['"a\\0b"', '"a\\ud800"'])
@pytest.mark.parametrize("key", ["project", "repo"])
def test_a_path_that_no_system_has_fails_a_run_with_a_message(
    hostile: HostileStore, skillrun: Call, key: str, value: str
) -> None:
    assert hostile.work().code == 0
    state = hostile.read_state()
    text = re.sub(rf"^(\s*{key}:).*", lambda found: f"{found[1]} {value}", state, flags=re.MULTILINE)
    hostile.write_file("state.md", text)
    done = hostile.work()
    assert done.code in (0, 1), done
    if key == "repo":
        assert "x: failed: " in done.out
        assert hostile.database.rows("SELECT status FROM runs") == [("failed",)]
    for command in ("show x", "runs", "resume x --preview", "resume x"):
        assert "bug in skillrun" not in skillrun(*command.split()).err


@pytest.mark.finding("FA7")
def test_a_run_that_waits_fails_if_its_journal_is_damaged(
    project: Path,  # noqa: F811
    hostile: HostileStore,
    skillrun: Call,
) -> None:
    phase = project / "skills/look/reading.md"
    phase.write_text(phase.read_text().replace("steps:\n", "steps:\n  - {id: fine, ask: 'Is it fine?'}\n"))
    assert skillrun("submit", "look", "shelf", "--name", "y", "--repo", "code", *SCRIPTED).code == 0
    assert skillrun("worker", "once", "y").code == 75
    hostile.database.rows("UPDATE records SET body = 'x'")
    hostile.database.rows("UPDATE runs SET status = 'queued'")
    done = skillrun("worker", "once", "y")
    assert (done.code, "y: failed: record 1 of the journal of `y` is damaged" in done.out) == (1, True)
    assert hostile.database.rows("SELECT status FROM runs WHERE name = 'y'") == [("failed",)]
