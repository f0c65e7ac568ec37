"""Run folders from untrusted sources: nothing outside is read or changed, and no command hangs or crashes."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import re
import shutil
import signal
import sqlite3
import stat
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from subprocess import DEVNULL
from typing import Any

import pytest

from skillrun.store.files import sha256_of
from skillrun.store.local.journal import SqliteJournal
from skillrun.store.local.lock import LocalLease
from skillrun.store.local.verification import JOURNAL, LARGEST
from skillrun.store.rows import chain_hash
from tests.acceptance.conftest import Call, Done, Make
from tests.acceptance.hostile import write
from tests.acceptance.mounts import simulate_mount
from tests.faults.numbers import rewrite_bodies
from tests.launcher import run_skillrun

SCRIPTED = ("--model", "scripted:default")
USER_TEXT = "# mine\nexport KEEP=1\n"
READ_COMMANDS = (("show", "ada"), ("logs", "ada"), ("runs",), ("resume", "ada", "--preview"))
OTHER_USER_COMMANDS = (("show", "ada"), ("logs", "ada"), ("show", "ada", "--json"), ("runs",))
RESUME = ("resume", "ada", "--answers", "answers.yaml", "--adopt")
COMMANDS = (*READ_COMMANDS, RESUME)
SECONDS = 300  # limit for each test; a hang never ends


@pytest.fixture(autouse=True)
def clock() -> Iterator[None]:
    """End a test whose command hangs."""

    def on_timeout(*_: object) -> None:
        raise TimeoutError(f"not finished after {SECONDS} s")

    previous = signal.signal(signal.SIGALRM, on_timeout)
    signal.alarm(SECONDS)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, previous)


@pytest.fixture
def run(project: Make, skillrun: Call) -> Path:
    """The folder of a run in the user's project that waits for an answer after its first call."""
    folder = project("greeting")
    draft = folder / "skills" / "greeting" / "draft.md"
    draft.write_text(draft.read_text().replace("outputs:", "  - {id: fine, ask: 'Is it fine?'}\noutputs:"))
    assert skillrun("greeting", "Ada", *SCRIPTED).code == 75
    (folder / "answers.yaml").write_text("fine: it is\n")
    return folder / "runs" / "ada"


@pytest.fixture
def user_file(home: Path) -> Path:
    """A file of the user, outside every project."""
    path = home / "mine.rc"
    path.write_text(USER_TEXT)
    path.chmod(0o644)
    os.utime(path, ns=(10**18, 10**18))
    return path


def is_untouched(user_file: Path) -> bool:
    status = user_file.stat()
    return (user_file.read_text(), status.st_mtime_ns, stat.S_IMODE(status.st_mode)) == (USER_TEXT, 10**18, 0o644)


def snapshot(folder: Path) -> dict[str, tuple[Any, ...]]:
    """Content, mode and modification time of each file and folder."""
    found: dict[str, tuple[Any, ...]] = {}
    for path in [folder, *folder.rglob("*")]:
        status = path.lstat()
        content = hashlib.sha256(path.read_bytes()).hexdigest() if stat.S_ISREG(status.st_mode) else ""
        found[path.relative_to(folder).as_posix()] = (status.st_mode, status.st_mtime_ns, status.st_nlink, content)
    return found


def clone_project(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Clone the project of the run, enter the clone, and return the run in it."""
    project, clone = run.parents[1], tmp_path / "clone"
    git = (
        "git",
        "-c",
        "user.name=a",
        "-c",
        "user.email=a@b",
        "-c",
        "init.defaultBranch=main",
        "-c",
        "core.symlinks=true",
    )
    for arguments in (("init", "-q"), ("add", "-fA"), ("commit", "-qm", "a")):
        subprocess.run([*git, "-C", str(project), *arguments], check=True, capture_output=True)
    subprocess.run([*git, "clone", "-q", str(project), str(clone)], check=True, capture_output=True)
    monkeypatch.chdir(clone)
    return clone / "runs" / "ada"


def assert_no_crash(done: Done) -> None:
    assert done.code in (0, 1, 2, 75), (done.code, done.err)
    assert "bug in skillrun" not in done.err


LINK_NAMES = (
    ".run/owner.json", ".run/transcript.ndjson", ".run/lock", ".run/witness", ".run/journal.db", ".run/journal.db-wal",
    ".run/journal.db-shm", ".run/journal.db-journal", "state.md", "greeting.md", "summaries/draft.md", "sub",
)  # fmt: skip


@pytest.mark.slow
@pytest.mark.row("Z3")
@pytest.mark.finding("FZ3")
@pytest.mark.parametrize("name", LINK_NAMES)
def test_a_linked_file_in_a_cloned_run_leaves_its_target_unchanged(
    run: Path, user_file: Path, skillrun: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    (run / name).unlink(missing_ok=True)
    (run / name).symlink_to(user_file)
    clone = clone_project(run, tmp_path, monkeypatch)
    assert (clone / name).is_symlink()
    for command in COMMANDS:
        done = skillrun(*command)
        assert_no_crash(done)
        assert is_untouched(user_file), command
        if command is RESUME and name.startswith(".run/"):
            assert done.code == 1
            assert name in done.err
            assert "hint: links are not allowed here" in done.err


@pytest.mark.slow
@pytest.mark.row("Z3")
@pytest.mark.finding("FZ3")
@pytest.mark.parametrize("name", [".run", "summaries", "round-1"])
def test_a_linked_folder_in_a_cloned_run_leaves_its_target_unchanged(
    run: Path, home: Path, skillrun: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    target = home / "elsewhere"
    target.mkdir(mode=0o755)
    (target / "draft.md").write_text("mine")
    if (run / name).is_dir():
        shutil.rmtree(run / name)
    (run / name).symlink_to(target)
    clone = clone_project(run, tmp_path, monkeypatch)
    before = snapshot(target)
    for command in COMMANDS:
        assert_no_crash(skillrun(*command))
        assert snapshot(target) == before, command
    done = skillrun(*RESUME)
    assert (done.code, f"`{name}` in {clone}" in done.err) == (1, True)


@pytest.mark.row("Z3")
@pytest.mark.finding("FZ3")
@pytest.mark.parametrize("name", LINK_NAMES)
def test_a_hard_linked_file_is_not_written(run: Path, user_file: Path, skillrun: Call, name: str) -> None:
    (run / name).unlink(missing_ok=True)
    (run / name).hardlink_to(user_file)
    for command in COMMANDS:
        assert_no_crash(skillrun(*command))
        assert (user_file.read_text(), stat.S_IMODE(user_file.stat().st_mode)) == (USER_TEXT, 0o644), command


@pytest.mark.slow
@pytest.mark.row("Z3")
@pytest.mark.finding("FZ3")
@pytest.mark.parametrize("name", [".run/transcript.ndjson", ".run/owner.json", ".run/lock", "."])
def test_dev_refuses_a_run_folder_with_links(project: Make, user_file: Path, process: Call, name: str) -> None:
    folder = project("greeting") / "runs" / "dev-greeting"
    (folder / name).parent.mkdir(parents=True)
    (folder / name).symlink_to(user_file if name != "." else user_file.parent)
    before = snapshot(user_file.parent) if name == "." else {}
    done = process("dev", "greeting", "Ada", *SCRIPTED)
    assert (done.code, "symbolic link" in done.err) == (1, True), done.err
    assert is_untouched(user_file)
    assert name != "." or snapshot(user_file.parent) == before


@pytest.mark.row("Z3")
@pytest.mark.finding("FZ3")
@pytest.mark.parametrize("argument", ["ada", "runs/ada"])
def test_a_run_that_is_a_link_is_refused(run: Path, home: Path, skillrun: Call, argument: str) -> None:
    shutil.move(run, home / "theirs")
    run.symlink_to(home / "theirs")
    before = snapshot(home / "theirs")
    for command in (("show", argument), ("logs", argument), ("resume", argument), ("resume", argument, "--preview")):
        done = skillrun(*command)
        assert (done.code, "ada is a symbolic link" in done.err) == (1, True)
    done = skillrun("greeting", "Ada", "--name", "ada", *SCRIPTED)
    assert (done.code, "symbolic link" in done.err) == (1, True)
    done = skillrun("runs")
    assert (done.code, "unreadable" in done.out) == (0, True)
    assert snapshot(home / "theirs") == before


@pytest.mark.row("Z3")
@pytest.mark.finding("FZ4")
@pytest.mark.parametrize("kind", ["absolute", "relative", "link", "reserved"])
def test_paths_in_a_forged_journal_are_neither_removed_nor_read(
    run: Path, user_file: Path, skillrun: Call, kind: str
) -> None:
    name = {
        "absolute": str(user_file), "relative": os.path.relpath(user_file, run),
        "link": "notes.md", "reserved": "round-1/x.md",
    }[kind]  # fmt: skip
    if kind == "link":
        (run / name).symlink_to(user_file)
    with closing(SqliteJournal.open(run)) as journal:
        asyncio.run(journal.record("wrote", name, sha256_of(USER_TEXT), {}))
    shown = skillrun("show", "ada", "--json").json
    assert name not in shown["changed_by_hand"]
    assert any(name in line for line in shown["not_followed"])
    done = skillrun("resume", "ada", "--answers", "answers.yaml")
    assert (done.code, "not followed: " in done.out) == (0, True), done.err
    assert is_untouched(user_file)


@pytest.mark.row("Z3")
@pytest.mark.finding("FZ4")
def test_paths_in_a_forged_summary_are_neither_moved_nor_shown(run: Path, user_file: Path, skillrun: Call) -> None:
    summary = run / "summaries" / "draft.md"
    text = summary.read_text()
    assert "artifacts:" in text
    names = [os.path.relpath(user_file, run), str(user_file), ".run/journal.db", "notes.md", 5]
    (run / "notes.md").symlink_to(user_file)
    summary.write_text(text.replace("artifacts:", f"artifacts: {names}\nformer:", 1))
    shown = skillrun("show", "ada", "--json").json
    assert shown["artifacts"] == ["greeting.md"], "the artifacts recorded in the journal"
    assert all(any(str(name) in line for line in shown["not_followed"]) for name in names)
    assert_no_crash(skillrun(*RESUME))
    assert is_untouched(user_file)


@pytest.mark.row("Z3")
@pytest.mark.finding("FL2", "FZ5")
def test_a_step_does_not_read_a_linked_run(project: Make, user_file: Path, skillrun: Call) -> None:
    folder = project("greeting")
    send = folder / "skills" / "greeting" / "send.md"
    send.write_text(send.read_text().replace("steps:\n", 'steps:\n  - {id: theirs, read: "*.rc", from: theirs}\n'))
    (folder / "runs").mkdir()
    (folder / "runs" / "theirs").symlink_to(user_file.parent)
    done = skillrun("greeting", "Ada", *SCRIPTED)
    assert (done.code, "is a symbolic link" in done.out) == (1, True), done.out
    assert not any("KEEP" in path.read_text(errors="replace") for path in folder.rglob("*") if path.is_file())
    (folder / "runs" / "theirs").unlink()
    (folder / "runs" / "theirs").mkdir()
    (folder / "runs" / "theirs" / "a.rc").write_text("theirs")
    assert skillrun("resume", "ada").code == 0


@pytest.mark.slow
@pytest.mark.row("Z3", "Z6")
@pytest.mark.finding("FZ16")
@pytest.mark.parametrize("name", LINK_NAMES)
def test_a_fifo_in_a_run_blocks_no_command(run: Path, skillrun: Call, name: str) -> None:
    (run / name).unlink(missing_ok=True)
    os.mkfifo(run / name)
    for command in COMMANDS:
        assert_no_crash(skillrun(*command))


INVALID_STATES = (
    ("round: 1", "round: 999999999", "`round` is `999999999`"),
    ("round: 1", "round: -1", "`round` is `-1`"),
    ("phase:\n- draft", "phase: [5]", "`phase` is"),
    ("models:\n  strong: scripted:default", "models:\n  strong: 5", "`models` is"),
    ("models:", "models: 5\nformer:", "`models` is `5`"),
    ("  calls: 500", "  calls: .inf", "`budget` is"),
    ("status: waiting", "status: waiting\nbacks: {x: y}", "`backs` is"),
    ("status: waiting", "status: waiting\ngoing: {target: [1]}", "`going` is"),
    ("status: waiting", "status: waiting\nfeatures: [1]", "`features` is"),
    ("project:", "project: [1]\nformer:", "`project` is"),
    ("schema_version: 2", "schema_version: [2]", "schema version `[2]`"),
    ("schema_version: 2", "schema_version: 1\ncurrent_round: .nan", ""),
)


@pytest.mark.row("Z3")
@pytest.mark.finding("FZ16")
@pytest.mark.parametrize(("old", "new", "message"), INVALID_STATES)
def test_an_invalid_state_is_reported_and_other_runs_are_listed(
    run: Path, skillrun: Call, old: str, new: str, message: str
) -> None:
    assert skillrun("greeting", "Eve", *SCRIPTED, "--name", "eve").code == 75
    text = (run / "state.md").read_text()
    assert old in text
    (run / "state.md").write_text(text.replace(old, new, 1))
    for command in COMMANDS:
        assert_no_crash(skillrun(*command))
    done = skillrun("runs")
    assert (done.code, "eve" in done.out, "unreadable" in done.out, message in done.err) == (0, True, True, True), done
    if message:
        assert message in skillrun("resume", "ada").err


def endless_view(run: Path) -> None:
    with closing(sqlite3.connect(run / ".run" / "journal.db")) as database:
        database.execute("DROP TABLE records")
        rows = "SELECT 1 UNION ALL SELECT seq + 1 FROM r"
        columns = "seq, 'note' AS kind, '' AS address, '' AS fingerprint, x'7b7d' AS body, x'00' AS chain"
        database.execute(f"CREATE VIEW records AS WITH RECURSIVE r(seq) AS ({rows}) SELECT {columns} FROM r")
        database.commit()


def invalid_reply(run: Path) -> None:
    with closing(SqliteJournal.open(run)) as journal:
        asyncio.run(journal.record("reply", "a", "b", {"usage": 5}))


def deep_folders(run: Path) -> None:
    folder = run
    for _ in range(150):
        folder = folder / "d"
        folder.mkdir()


def invalid_events(run: Path) -> None:
    with (run / ".run" / "transcript.ndjson").open("a") as file:
        file.write("1\n{}\n[]\n" + '{"event": "RunStarted"}\n{"event": "PhaseEnded", "phase": [1]}\n')
        file.write('{"event": "RunStarted", "run": "", "workflow": "", "folder": "", "phases": ["../../x"], ')
        file.write('"inputs": {}, "models": {}}\n{"event": "Said", "phase": "draft", "text": 5}\n')
        file.write(f"{'[' * 100_000}\n")
        file.write('{"event": "PhaseOdd", "phase": "draft", "round": [], "reason": "x"}\n')
        file.write('{"event": "Asked", "address": "", "phase": "draft", "questions": [{}]}\n')
        answered = '"address": "", "phase": "draft", "replayed": false, "answers": [{"answer": 1}, {}]'
        file.write(f'{{"event": "Answered", {answered}}}\n')


def sparse(name: str) -> Any:
    def enlarge(run: Path) -> None:
        with (run / name).open("a") as file:
            file.truncate(10 << 30)

    enlarge.__name__ = f"sparse-{name}"
    return enlarge


def wrong_summary(run: Path) -> None:
    (run / "summaries" / "draft.md").write_text(
        "---\nphase: draft\nstatus: completed\nround: [1]\nusage: 5\nflags: []\nset: x\ngoto: 1\nfailures: {a: b}\n"
        "outputs: 5\nartifacts: 7\nkey_decisions: [1]\nasked: {}\n---\n"
    )


def endless_links(run: Path) -> None:
    (run / "zero.md").symlink_to("/dev/zero")
    (run / "loop").symlink_to(".")


LIMITED = """
import json, resource, sys
resource.setrlimit(resource.RLIMIT_AS, (1_500_000_000,) * 2)
resource.setrlimit(resource.RLIMIT_FSIZE, (600_000_000,) * 2)
from skillrun.cli.main import main
print(json.dumps([main(words) for words in json.loads(sys.argv[1])]))
"""
DAMAGES = (
    endless_view, invalid_reply, deep_folders, invalid_events, wrong_summary, endless_links,
    sparse(".run/transcript.ndjson"), sparse(".run/witness"), sparse(".run/journal.db-wal"), sparse(".run/journal.db"),
    sparse("greeting.md"), sparse("state.md"), sparse("summaries/draft.md"), sparse(".run/owner.json"),
)  # fmt: skip


@pytest.mark.slow
@pytest.mark.row("Z3", "Z6")
@pytest.mark.finding("FZ16")
@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_run_crashes_no_command_and_uses_limited_memory(
    run: Path, process: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damage: Any
) -> None:
    damage(run)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    done = process(json.dumps(COMMANDS), program=("-c", LIMITED))
    codes = json.loads(done.out.splitlines()[-1])
    assert set(codes) <= {0, 1, 2, 75}, done.err
    assert "MemoryError" not in done.err


@pytest.mark.row("Z5")
@pytest.mark.finding("FZ17")
def test_resume_with_share_shares_all_files_of_a_private_run(run: Path, skillrun: Call) -> None:
    (run / "notes.md").hardlink_to(run.parents[1] / "answers.yaml")
    (run.parents[1] / "answers.yaml").chmod(0o600)
    assert skillrun("resume", "ada", "--answers", "answers.yaml", "--share").code == 0
    assert stat.S_IMODE((run / "notes.md").stat().st_mode) == 0o600
    (run / "notes.md").unlink()
    inside = modes(run / ".run")
    shutil.rmtree(run / ".run")
    assert (inside, modes(run)) == (({0o700}, {0o600}), ({0o755}, {0o644}))


@pytest.mark.row("Z5")
@pytest.mark.finding("FZ17")
@pytest.mark.skipif(os.geteuid() != 0, reason="only root becomes another user")
def test_another_user_can_view_only_shared_runs(project: Make, home: Path, skillrun: Call) -> None:
    folder = project("greeting")
    before = os.umask(0o022)
    try:
        assert skillrun("greeting", "Eve", *SCRIPTED).code == 0
        assert skillrun("greeting", "Ada", *SCRIPTED, "--share").code == 0
    finally:
        os.umask(before)
    for path in (folder, *folder.parents[:-2], home, *home.parents[:-2]):
        path.chmod(0o755)
    os.seteuid(12345)
    try:
        show, logs, json_, runs = (skillrun(*command) for command in OTHER_USER_COMMANDS)
        private = skillrun("show", "eve")
    finally:
        os.seteuid(0)
    assert (show.code, "only the run's owner can read its journal" in show.out) == (0, True), show
    assert (logs.code, "only the owner of this run may read its transcript" in logs.out) == (0, True), logs
    assert [phase["phase"] for phase in json_.json["phases"]] == ["draft", "send"]
    assert (runs.code, "ada" in runs.out) == (0, True), runs
    assert (private.code, "draft" in private.out) == (1, False), private


@pytest.mark.slow
@pytest.mark.row("Z3")
@pytest.mark.finding("FM12")
def test_read_only_commands_change_no_content_mode_or_time(project: Make, process: Call, home: Path) -> None:
    folder = project("greeting")
    log = folder / "points"
    command = ("greeting", "Ada", *SCRIPTED, "--name")
    whole = run_skillrun(*command, "whole", env={**os.environ, "SKILLRUN_KILL_LOG": str(log)}, stdout=DEVNULL)
    assert whole.returncode == 0
    last = [number for number, name in enumerate(log.read_text().splitlines(), 1) if name == "commit: witnessed"][-1]
    killed = run_skillrun(*command, "ada", env={**os.environ, "SKILLRUN_KILL_AT": str(last)}, stdout=DEVNULL)
    assert killed.returncode == -signal.SIGKILL
    assert (folder / "runs" / "ada" / ".run" / "journal.db-wal").stat().st_size
    for path in (folder / "runs").rglob("*"):
        path.chmod(0o500 if path.is_dir() else 0o400)
    shutil.rmtree(home / ".local", ignore_errors=True)
    before, home_before = snapshot(folder), snapshot(home)
    for arguments in (*READ_COMMANDS, ("show", "whole"), ("doctor",), ("list",), ("graph", "greeting"), ("validate",)):
        done = process(*arguments)
        assert done.code == 0, (arguments, done.err)
        assert snapshot(folder) == before, arguments
        assert snapshot(home) == home_before, arguments
    assert "interrupted" in process("show", "ada").out
    assert process("show", "ada", "--json").json["usage"]["calls"] > 0


@pytest.fixture
def foreign_run(run: Path, home: Path) -> Path:
    """A run whose seal cannot be verified, because the user's key is gone."""
    shutil.rmtree(home / ".local")
    return run


@pytest.fixture
def foreign_run_with_model(foreign_run: Path) -> Path:
    """A foreign run that also selects a model."""
    edit_state(foreign_run, "  strong: scripted:default\n", "  strong: scripted:default\n  dear: openai:gpt-9\n")
    return foreign_run


def edit_state(run: Path, old: str, new: str) -> None:
    text = (run / "state.md").read_text()
    assert old in text
    (run / "state.md").write_text(text.replace(old, new, 1))


@pytest.mark.slow
@pytest.mark.row("Z3")
@pytest.mark.finding("FZ16")
def test_models_of_a_foreign_run_are_used_only_after_adoption(foreign_run_with_model: Path, skillrun: Call) -> None:
    before = snapshot(foreign_run_with_model)
    resume = ("resume", "ada", "--answers", "answers.yaml")
    for command in (resume, (*resume, "--unattended")):
        done = skillrun(*command)
        assert done.code == 1
        assert "is from another source, or from an older version of skillrun:" in done.err
        assert "`dear` means the model openai:gpt-9 in the run, and " in done.err
        assert "skillrun resume ada --adopt" in done.err
    assert snapshot(foreign_run_with_model) == before
    done = skillrun(*resume, "--adopt")
    assert (done.code, "its settings are kept" in done.out) == (0, True), done.err
    assert skillrun("show", "ada", "--json").json["models"]["strong"] == "scripted:default"


@pytest.mark.row("Z3")
@pytest.mark.finding("FZ16")
def test_a_foreign_run_resumes_with_the_current_project_and_budget(
    foreign_run: Path, skillrun: Call, tmp_path: Path
) -> None:
    project = foreign_run.parents[1]
    (project / "config").mkdir(exist_ok=True)
    (project / "config" / "models.yaml").write_text("tiers: {strong: 'scripted:default', fast: 'scripted:default'}\n")
    (tmp_path / "victim").mkdir()
    edit_state(foreign_run, f"project: {project}", f"project: {tmp_path / 'victim'}")
    edit_state(foreign_run, "  calls: 500", "  calls: 1000000")
    text = (foreign_run / "state.md").read_text()
    assert "strong: scripted:default" in text
    done = skillrun("resume", "ada", "--answers", "answers.yaml", "--yes")
    assert done.code == 0, done.err
    assert "it uses this project, its budget and its models" in done.out
    text = (foreign_run / "state.md").read_text()
    assert f"project: {project}\n" in text
    assert "  calls: 500\n" in text


@pytest.mark.slow
@pytest.mark.row("Z3")
@pytest.mark.finding("FZ16")
def test_an_outside_path_of_a_foreign_run_is_refused(project: Make, skillrun: Call, tmp_path: Path, home: Path) -> None:
    folder = project("greeting")
    workflow = folder / "workflows" / "greeting.md"
    workflow.write_text(workflow.read_text().replace("inputs:\n", "inputs:\n  place?: {type: path, default: .}\n", 1))
    draft = folder / "skills" / "greeting" / "draft.md"
    draft.write_text(draft.read_text().replace("outputs:", "  - {id: fine, ask: 'Is it fine?'}\noutputs:"))
    (folder / "config").mkdir(exist_ok=True)
    (folder / "config" / "models.yaml").write_text("tiers: {strong: 'scripted:default', fast: 'scripted:default'}\n")
    (folder / "answers.yaml").write_text("fine: it is\n")
    assert skillrun("greeting", "Ada", "--place", "/").code == 75
    shutil.copytree(folder / "runs" / "ada", folder / "runs" / "eve")
    assert skillrun("resume", "ada", "--answers", "answers.yaml").code == 0  # the user gave the path
    shutil.rmtree(home / ".local")
    done = skillrun("resume", "eve", "--answers", "answers.yaml")
    assert (done.code, "`place` is `/`, which is outside of this project" in done.err) == (1, True)
    assert ("change the path under `inputs`" in done.err, "--no-adopt" in done.err) == (True, False)
    done = skillrun("resume", "eve", "--answers", "answers.yaml", "--no-adopt")
    assert (done.code, "change the path under `inputs`" in done.err) == (1, True)
    assert skillrun("resume", "eve", "--preview", "--adopt").code == 0
    assert skillrun("resume", "eve", "--answers", "answers.yaml", "--adopt").code == 0


CHOOSER = {
    "workflows/choose.md": "---\nname: choose\ndescription: Chooses a model.\ninputs:\n  what: string\n"
    "  judge?: {type: model, default: fast}\n  panel?(array): {type: member, default: [clerk]}\n  note?: string\n"
    "state:\n  expert?: {type: member, default: clerk}\n  seats?(array): {id: string}\nphases:\n  say:\n---\n",
    "skills/choose/say.md": "---\nkind: phase\nsteps:\n  - {id: fine, ask: 'Is it fine?'}\n"
    "  - {id: words, agent: \"{{ inputs.panel | first | default('clerk') }}\", writes: words.md}\n---\n"
    "## words\n{{ inputs.what }} {{ inputs.judge }} {{ inputs.note | default('') }} {{ state.expert }} "
    "{{ state.seats | default([]) }}\n",
    "roles/clerk.md": "---\nname: clerk\ndescription: Writes.\nmodel: fast\n---\nYou write.\n",
    "config/models.yaml": "tiers: {strong: 'scripted:default', fast: 'scripted:default'}\n",
    "answers.yaml": "fine: it is\n",
}
DEAR = "anthropic:claude-opus-5-5"


@pytest.fixture
def choosing_run(project: Make, skillrun: Call) -> Path:
    """The folder of a run that waits, with inputs and state that can name models."""
    folder = project()
    write(folder, CHOOSER)
    done = skillrun("choose", "hi", "--panel", "clerk", "--judge", "fast", "--note", "mine", "--name", "ada")
    assert done.code == 75, done
    return folder / "runs" / "ada"


@pytest.mark.row("Z3", "Z7")
@pytest.mark.finding("FS16")
@pytest.mark.parametrize(
    ("old", "new", "shown"),
    [
        ("  judge: fast", f"  judge: {DEAR}", f"`inputs.judge` chooses `{DEAR}`"),
        ("  judge: fast", "  judge: claude-opus-5-5", "`inputs.judge` chooses `claude-opus-5-5`"),
        ("  - clerk", f"  - clerk@{DEAR}", f"`inputs.panel` chooses `{DEAR}`"),
        ("  - clerk", "  - clerk\n  - clerk@gpt-9", "`inputs.panel` chooses `gpt-9`"),
        ("  note: mine", f"  note: clerk@{DEAR}", f"`inputs.note` chooses `{DEAR}`"),
        ("  expert: clerk", f"  expert: clerk@{DEAR}", f"`state.expert` chooses `{DEAR}`"),
        ("  expert: clerk", f"  seats: [{{id: 'clerk@{DEAR}'}}]", f"`state.seats` chooses `{DEAR}`"),
    ],
)
@pytest.mark.parametrize("is_known", [False, True])
def test_models_that_a_foreign_run_names_itself_are_used_only_after_adoption(
    choosing_run: Path, skillrun: Call, home: Path, old: str, new: str, shown: str, is_known: bool
) -> None:
    if not is_known:  # else the edit breaks the seal
        shutil.rmtree(home / ".local")
    edit_state(choosing_run, old, new)
    resume = ("resume", "ada", "--answers", "answers.yaml")
    done = skillrun(*resume)
    assert (done.code, shown in done.err, "--no-adopt" in done.err) == (1, True, True), done
    done = skillrun(*resume, "--no-adopt")
    assert done.code == 0, done
    assert DEAR not in (choosing_run / "state.md").read_text()
    assert "gpt-9" not in skillrun("logs", "ada").out


@pytest.mark.row("Z7")
@pytest.mark.finding("FS16")
def test_texts_that_name_no_model_need_no_decision(choosing_run: Path, skillrun: Call, home: Path) -> None:
    shutil.rmtree(home / ".local")
    edit_state(choosing_run, "  note: mine", "  note: 'openai: is it good? ada@example.org'")
    edit_state(choosing_run, "  judge: fast", "  judge: strong")
    assert skillrun("resume", "ada", "--answers", "answers.yaml").code == 0


@pytest.mark.row("Z7")
@pytest.mark.finding("FS16")
def test_a_required_model_of_a_foreign_run_must_be_changed_or_adopted(
    choosing_run: Path, skillrun: Call, home: Path
) -> None:
    shutil.rmtree(home / ".local")
    workflow = choosing_run.parents[1] / "workflows" / "choose.md"
    workflow.write_text(workflow.read_text().replace("judge?: {type: model, default: fast}", "judge: model"))
    edit_state(choosing_run, "  judge: fast", f"  judge: {DEAR}")
    done = skillrun("resume", "ada", "--answers", "answers.yaml", "--no-adopt")
    assert (done.code, "`inputs.judge` would choose its models" in done.err) == (1, True), done


@pytest.mark.row("Z3")
@pytest.mark.finding("FZ16")
@pytest.mark.parametrize("pinned", ["ghost:m", "x:m"])
def test_models_that_are_not_adopted_are_removed_from_a_foreign_run(
    foreign_run: Path, skillrun: Call, pinned: str
) -> None:
    config = foreign_run.parents[1] / "config"
    config.mkdir(exist_ok=True)
    (config / "models.yaml").write_text(
        "providers: {x: {kind: openai, base_url: 'https://x.test', key: X_API_KEY}}\n"
        "tiers: {strong: 'scripted:default', fast: 'scripted:default'}\n"
    )
    edit_state(foreign_run, "strong: scripted:default", f"strong: {pinned}")
    edit_state(foreign_run, "override: scripted:default", "override: ghost:m")
    done = skillrun("resume", "ada", "--answers", "answers.yaml", "--yes", "--no-adopt")
    assert (done.code, "it uses this project" in done.out) == (0, True), done
    assert "ghost" not in (foreign_run / "state.md").read_text()


@pytest.mark.row("Z3")
@pytest.mark.finding("FZ2", "FZ16")
def test_the_replacement_for_a_foreign_model_needs_trust(foreign_run: Path, skillrun: Call) -> None:
    config = foreign_run.parents[1] / "config"
    config.mkdir(exist_ok=True)
    (config / "models.yaml").write_text(
        "providers: {x: {kind: openai, base_url: 'https://x.test', key: X_API_KEY}}\n"
        "tiers: {strong: 'x:m', fast: 'scripted:default'}\n"
    )
    edit_state(foreign_run, "strong: scripted:default", "strong: openai:m")
    done = skillrun("resume", "ada", "--answers", "answers.yaml", "--yes", "--no-adopt", "--unattended")
    assert (done.code, "calls to x are blocked: config/models.yaml:1 is not trusted" in done.err) == (1, True), done


@pytest.mark.slow
@pytest.mark.row("Z3")
@pytest.mark.finding("FZ16")
def test_a_copied_run_on_the_same_machine_stays_trusted(run: Path, skillrun: Call) -> None:
    shutil.copytree(run, run.parent / "eve")
    done = skillrun("resume", "eve", "--answers", "answers.yaml")
    assert (done.code, "from another source" in done.out + done.err) == (0, False)


@pytest.mark.row("Z3")
@pytest.mark.finding("FZ16")
def test_a_terminal_user_is_asked_once(
    foreign_run_with_model: Path, skillrun: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    questions: list[str] = []

    def confirm(text: str, **_: object) -> bool:
        questions.append(text)
        return True

    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    monkeypatch.setattr("click.confirm", confirm)
    done = skillrun("resume", "ada", "--answers", "answers.yaml")
    assert (done.code, len(questions)) == (0, 1), done.err


@pytest.mark.slow
@pytest.mark.row("Z3")
@pytest.mark.finding("FZ16")
@pytest.mark.parametrize("defect", ["open", "short", "link"])
def test_a_key_that_others_could_have_written_is_not_used_and_is_named(
    run: Path, home: Path, skillrun: Call, defect: str
) -> None:
    key = home / ".local" / "share" / "skillrun" / "seal.key"
    assert (stat.S_IMODE(key.stat().st_mode), stat.S_IMODE(key.parent.stat().st_mode)) == (0o600, 0o700)
    if defect == "open":
        key.chmod(0o644)
    elif defect == "short":
        key.write_bytes(b"x")
    else:
        key.rename(key.with_name("other"))
        key.symlink_to("other")
    assert skillrun("resume", "ada", "--preview").code == 0
    edit_state(run, "strong: scripted:default", "strong: openai:m")
    done = skillrun("resume", "ada", "--answers", "answers.yaml")
    assert (done.code, "--no-adopt" in done.err) == (1, True), done
    assert f"cannot verify that you started it: {key}" in done.err
    edit_state(run, "strong: openai:m", "strong: scripted:default")
    done = skillrun("resume", "ada", "--answers", "answers.yaml")
    assert (done.code, f"so `resume` will treat it as if it came from another source: {key}" in done.out) == (
        0, True
    ), done.err  # fmt: skip


@pytest.mark.row("Z3")
@pytest.mark.finding("FZ16")
@pytest.mark.parametrize("case", ["linked folder", "killed write"])
def test_a_key_is_used_in_a_linked_folder_and_after_a_killed_write(
    run: Path, home: Path, skillrun: Call, case: str
) -> None:
    folder = home / ".local" / "share" / "skillrun"
    if case == "linked folder":
        folder.rename(home / "dotfiles")
        folder.symlink_to(home / "dotfiles")
    else:
        (folder / ".0123456789abcdef.new").hardlink_to(folder / "seal.key")
    done = skillrun("resume", "ada", "--answers", "answers.yaml")
    assert (done.code, "from another source" in done.out + done.err) == (0, False), done


def modes(folder: Path) -> tuple[set[int], set[int]]:
    """The modes of all folders, and of all files."""
    paths = [folder, *folder.rglob("*")]
    return tuple({stat.S_IMODE(p.stat().st_mode) for p in paths if p.is_dir() == wanted} for wanted in (True, False))  # type: ignore[return-value]


@pytest.mark.row("Z5")
@pytest.mark.finding("FZ17")
@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077])
def test_a_run_is_private_with_every_umask(project: Make, skillrun: Call, umask: int) -> None:
    folder = project("visit")
    (folder / "answers.yaml").write_text("where: the lake\n")
    before = os.umask(umask)
    try:
        assert skillrun("visit", "--answers", "answers.yaml", *SCRIPTED).code == 0
    finally:
        os.umask(before)
    assert list((folder / "runs" / "visit").glob("round-1/**/*.md"))
    assert modes(folder / "runs" / "visit") == ({0o700}, {0o600})
    assert stat.S_IMODE((folder / "runs").stat().st_mode) == 0o755 & ~umask


@pytest.mark.row("Z5")
@pytest.mark.finding("FZ17", "FT8")
@pytest.mark.parametrize("source", ["flag", "own config", "config of the project"])
def test_a_run_is_shared_by_the_flag_or_the_users_own_config(
    project: Make, home: Path, skillrun: Call, source: str
) -> None:
    folder = project("greeting")
    if source != "flag":
        root = folder if source == "config of the project" else home / ".config" / "skillrun"
        (root / "config").mkdir(parents=True, exist_ok=True)
        (root / "config" / "skillrun.yaml").write_text("share: true\n")
    before = os.umask(0o077)
    try:
        assert skillrun("greeting", "Ada", *SCRIPTED, *(["--share"] if source == "flag" else [])).code == 0
    finally:
        os.umask(before)
    run = folder / "runs" / "ada"
    shared = source != "config of the project"
    assert stat.S_IMODE(run.stat().st_mode) == (0o755 if shared else 0o700)
    assert stat.S_IMODE((run / "greeting.md").stat().st_mode) == (0o644 if shared else 0o600)
    assert stat.S_IMODE((run / "summaries" / "draft.md").stat().st_mode) == (0o644 if shared else 0o600)
    assert modes(run / ".run") == ({0o700}, {0o600})


@pytest.mark.row("Z5")
@pytest.mark.finding("FZ17")
def test_resume_makes_an_open_run_folder_private(run: Path, skillrun: Call) -> None:
    for path in [run, *run.rglob("*")]:
        path.chmod(0o777 if path.is_dir() else 0o666)
    assert skillrun("resume", "ada", "--answers", "answers.yaml").code == 0
    assert stat.S_IMODE(run.stat().st_mode) == 0o700
    assert stat.S_IMODE((run / ".run").stat().st_mode) == 0o700


@pytest.mark.row("Z3")
@pytest.mark.finding("FM12")
def test_a_locked_run_can_be_viewed_but_not_resumed(run: Path, skillrun: Call) -> None:
    with LocalLease(run).hold():
        before = snapshot(run)
        done = skillrun("show", "ada")
        assert (done.code, f"is being run by process {os.getpid()}" in done.out) == (0, True)
        assert skillrun("runs").code == 0
        done = skillrun("resume", "ada", "--preview")
        assert (done.code, "is being run by" in done.err) == (1, True)
        assert snapshot(run) == before


@pytest.mark.row("Z3")
@pytest.mark.finding("FZ16")
def test_a_run_without_a_stored_key_completes_with_a_notice(
    project: Make, skillrun: Call, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project("greeting")
    (home / "file").touch()
    monkeypatch.setenv("XDG_DATA_HOME", str(home / "file"))
    done = skillrun("greeting", "Ada", *SCRIPTED)
    assert (done.code, "the state of this run is not sealed" in done.out) == (0, True), done.err
    assert skillrun("show", "ada").code == 0


@pytest.mark.slow
@pytest.mark.row("Z3")
@pytest.mark.finding("FZ16")
def test_a_run_of_a_project_whose_name_is_not_utf8_is_sealed(
    run: Path, skillrun: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    odd = tmp_path / os.fsdecode(b"caf\xe9")
    run.parents[1].rename(odd)
    monkeypatch.chdir(odd)
    assert skillrun("greeting", "Eve", *SCRIPTED).code == 75
    done = skillrun("resume", "eve", "--answers", "answers.yaml")
    assert (done.code, "from another source" in done.out + done.err) == (0, False), done


@pytest.mark.row("Z3")
@pytest.mark.finding("FZ3")
@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives a folder to another user")
def test_a_run_of_another_user_can_be_viewed_but_not_resumed(run: Path, skillrun: Call) -> None:
    for path in [run, *run.rglob("*")]:
        os.chown(path, 12345, -1)
    assert skillrun("show", "ada").code == 0
    done = skillrun("resume", "ada", "--answers", "answers.yaml")
    assert (done.code, "belongs to another user (uid 12345)" in done.err) == (1, True)


@pytest.mark.slow
@pytest.mark.row("Z3")
@pytest.mark.finding("FZ3", "FZ16")
def test_a_run_is_sealed_when_the_file_system_sets_the_owner(
    run: Path, skillrun: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    simulate_mount(monkeypatch, owner=12345)
    done = skillrun("greeting", "Eve", *SCRIPTED)
    assert (done.code, "not sealed" in done.out) == (75, False), done
    for name in ("ada", "eve"):
        done = skillrun("resume", name, "--answers", "answers.yaml")
        assert (done.code, "from another source" in done.out + done.err) == (0, False), done


@pytest.mark.slow
@pytest.mark.row("Z3")
@pytest.mark.finding("FZ16")
def test_a_run_is_not_sealed_but_resumes_when_the_file_system_ignores_modes(
    project: Make, skillrun: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = project("greeting")
    simulate_mount(monkeypatch, mode=0o777)
    done = skillrun("greeting", "Ada", *SCRIPTED)
    assert (done.code, "only you may read it" in done.out) == (0, True), done
    edit_state(folder / "runs" / "ada", "status: completed", "status: interrupted")
    assert skillrun("resume", "ada", "--preview").code == 0
    assert skillrun("resume", "ada").code == 0


@pytest.mark.row("Z3")
@pytest.mark.finding("FZ16")
def test_an_edited_prompt_does_not_hide_the_hint_to_adopt_a_run(foreign_run_with_model: Path, skillrun: Call) -> None:
    draft = foreign_run_with_model.parents[1] / "skills" / "greeting" / "draft.md"
    draft.write_text(draft.read_text().replace("Greet ", "Kindly greet "))
    done = skillrun("resume", "ada", "--answers", "answers.yaml")
    assert (done.code, "--adopt" in done.err, "--yes" in done.err) == (1, True, False)


@pytest.mark.row("Z3")
@pytest.mark.finding("FC1")
@pytest.mark.parametrize("kind", ["file", "log", "record", "count"])
@pytest.mark.parametrize("command", [("show", "ada"), RESUME], ids=["show", "resume"])
def test_a_journal_beyond_its_limits_is_refused(
    run: Path, skillrun: Call, monkeypatch: pytest.MonkeyPatch, kind: str, command: tuple[str, ...]
) -> None:
    """A repository holds such a journal in a few kilobytes, and readers hold all of its records in memory."""
    journal = run / JOURNAL
    if kind in ("file", "log"):
        path = journal if kind == "file" else journal.with_name("journal.db-wal")
        path.touch()
        os.truncate(path, LARGEST + 1)
    elif kind == "record":
        add_record(journal, b'{"text":"%s"}' % (b"a" * 17_000_000))
    else:
        monkeypatch.setattr("skillrun.store.local.verification.MOST_RECORDS", 2)
    size = journal.stat().st_size
    done = skillrun(*command)
    said = {"record": "too big", "count": "more than 2 records"}.get(kind, f"more than {LARGEST:,} bytes")
    assert (done.code != 0 or command[0] == "show", said in done.out + done.err) == (True, True), done
    assert_no_crash(done)
    assert journal.stat().st_size == size


def add_record(journal: Path, body: bytes) -> None:
    """Add a record to a closed journal."""
    with closing(sqlite3.connect(journal)) as database:
        seq, chain = database.execute("SELECT seq, chain FROM records ORDER BY seq DESC").fetchone()
        row = ("note", "a", "b", body)
        database.execute("INSERT INTO records VALUES (?, ?, ?, ?, ?, ?)", (seq + 1, *row, chain_hash(chain, *row)))
        database.commit()


HUGE = "9" * 400


@pytest.mark.row("Z3")
@pytest.mark.finding("FD7")
@pytest.mark.parametrize(
    ("file", "old", "said"),
    [
        (JOURNAL, r'(?<="input":)\d+', "is not a valid `reply`"),
        (JOURNAL, r'(?<="price":)[\d.]+', "is not a valid `reply`"),
        ("state.md", r"(?<=round: )\d+", "`round` is"),
        ("state.md", r"(?<=  calls: )\d+", "a mapping of names to numbers from 0 to 10^18"),
        (".run/transcript.ndjson", r'(?<="seconds": )[\d.]+', ""),
    ],
)
def test_a_number_of_four_hundred_digits_in_a_run_is_refused(
    run: Path, skillrun: Call, file: str, old: str, said: str
) -> None:
    if file == JOURNAL:
        rewrite_bodies(run / JOURNAL, lambda body: re.sub(old.encode(), HUGE.encode(), body))
    else:
        text = (run / file).read_text()
        assert re.search(old, text)
        (run / file).write_text(re.sub(old, HUGE, text, count=1))
    for command in (("show", "ada"), ("logs", "ada"), ("resume", "ada", "--preview"), ("runs",)):
        done = skillrun(*command)
        assert_no_crash(done)
        assert command[0] != "show" or said in done.out + done.err


LOOP_COMMANDS = [
    ("show", "loop/ada"),
    ("resume", "loop/ada"),
    ("report", "loop/ada"),
    ("test", "--record", "loop/ada", "--as", "ada"),
    ("show", "ada", "--out", "loop"),
    ("runs", "--out", "loop"),
    ("validate", "loop"),
    ("init", "loop"),
    ("test", "greeting", "--compare", "./loop"),
]


@pytest.mark.finding("FC4")
@pytest.mark.parametrize("command", LOOP_COMMANDS, ids=" ".join)
def test_a_link_that_leads_to_itself_is_no_bug(run: Path, skillrun: Call, command: tuple[str, ...]) -> None:
    (run.parents[1] / "loop").symlink_to("loop")
    case = run.parents[1] / "tests" / "greeting" / "ada.md"
    case.parent.mkdir(parents=True, exist_ok=True)
    case.write_text("---\ninputs: {person: Ada}\nexpect: {outcome: waiting}\n---\n")
    done = skillrun(*command)
    assert done.code in (0, 1, 2), done
    assert_no_crash(done)


@pytest.mark.finding("FC4")
@pytest.mark.parametrize("variable", ["HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME"])
def test_a_folder_of_the_user_that_is_a_link_to_itself_is_no_bug(
    run: Path, skillrun: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    (tmp_path / "loop").symlink_to("loop")
    monkeypatch.setenv(variable, str(tmp_path / "loop"))
    assert skillrun("validate").code == 0
    assert skillrun("greeting", "Eve", *SCRIPTED).code == 75


@pytest.mark.finding("FD1", "FD2")
@pytest.mark.parametrize("name", ["summaries/draft.md", "questions.md", ".run/inbox/0.json"])
def test_a_run_does_not_start_in_a_folder_with_files(project: Make, skillrun: Call, name: str) -> None:
    path = project("greeting") / "runs" / "ci" / name
    path.parent.mkdir(parents=True)
    path.write_text("x")
    done = skillrun("greeting", "Ada", "--name", "ci", "--unattended", "--model", "scripted:default")
    assert done.code == 2
    assert "runs/ci has no run, but it has files" in done.err
    assert name.startswith(".run") or path.read_text() == "x"


READER = {
    "workflows/reader.md": "---\nname: reader\ndescription: Reads.\ninputs: {topic: string}\nphases:\n  one:\n---\n",
    "skills/reader/one.md": "---\nkind: phase\nsteps:\n  - {id: theirs, read: '*.md', from: ada}\n"
    "  - {id: copy, write: copy.md}\n---\n## copy\n{{ theirs.text }}\n",
}


def start_reader(folder: Path, skillrun: Call, monkeypatch: pytest.MonkeyPatch, *more: str) -> str:
    """Run a workflow of the project `folder` that reads the run `ada`. Return what the command has printed."""
    write(folder, READER)
    monkeypatch.chdir(folder)
    done = skillrun("reader", "Eve", *SCRIPTED, *more)
    return done.out + done.err


@pytest.fixture
def shared_runs(project: Make, skillrun: Call, tmp_path: Path) -> Path:
    """A folder outside of all projects, with a run of the user's project."""
    project("greeting")
    assert skillrun("greeting", "Ada", *SCRIPTED, "--out", str(tmp_path / "shared")).code == 0
    return tmp_path / "shared"


@pytest.mark.row("Z3")
@pytest.mark.finding("FD6")
@pytest.mark.parametrize("command", [(), ("--dry-run",)], ids=["run", "dry run"])
def test_a_project_does_not_read_runs_of_another_project(
    shared_runs: Path, skillrun: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]
) -> None:
    greeting = (shared_runs / "ada" / "greeting.md").read_text().strip()
    shown = start_reader(tmp_path / "clone", skillrun, monkeypatch, "--out", str(shared_runs), *command)
    assert "`ada` is not a run of this project" in shown
    files = [path for path in shared_runs.glob("eve/**/*") if path.is_file()]
    assert greeting not in "".join(path.read_text(errors="replace") for path in files)


@pytest.mark.row("Z3")
@pytest.mark.finding("FD6")
def test_a_project_reads_its_own_runs_in_a_shared_folder(
    shared_runs: Path, skillrun: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    start_reader(tmp_path / "project", skillrun, monkeypatch, "--out", str(shared_runs))
    assert (shared_runs / "ada" / "greeting.md").read_text().strip() in (shared_runs / "eve" / "copy.md").read_text()


@pytest.mark.row("Z3")
@pytest.mark.finding("FD6")
@pytest.mark.parametrize("state", ["missing", "invalid", "without project"])
def test_a_folder_outside_of_the_project_is_read_only_as_a_run_of_the_project(
    shared_runs: Path, skillrun: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, state: str
) -> None:
    """`--out ~` does not make each folder of the home a run."""
    path = shared_runs / "ada" / "state.md"
    text = path.read_text()
    path.unlink()
    if state != "missing":
        text = "---\nstatus: 1\n---\n" if state == "invalid" else re.sub(r"(?m)^project: .*\n", "", text)
        path.write_text(text)
    shown = start_reader(tmp_path / "project", skillrun, monkeypatch, "--out", str(shared_runs))
    assert "`ada` is not a run of this project" in shown


@pytest.mark.row("Z3")
@pytest.mark.finding("FD6")
def test_runs_in_the_folder_of_a_project_that_was_moved_are_readable(
    project: Make, skillrun: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = project("greeting")
    assert skillrun("greeting", "Ada", *SCRIPTED).code == 0
    folder.rename(tmp_path / "moved")
    start_reader(tmp_path / "moved", skillrun, monkeypatch)
    assert (tmp_path / "moved" / "runs" / "eve" / "copy.md").exists()
