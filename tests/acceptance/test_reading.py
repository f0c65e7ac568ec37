"""What steps and models can read in a cloned project: symbolic links, `repository`, file steps and tools."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from skillrun.store.local.journal import SqliteJournal

Call = Callable[..., Any]
CANARY = "CANARY-of-the-home"
SECRETS = (".env", ".npmrc", "deploy/id_rsa", "deploy/.ssh/config", "app/.env.local", "tls/server.pem")
WORKFLOW = """---
name: look
description: Looks for files.
inputs:
  request: string, what to look for
  repo?: path, the code base
  other: {type: path, default: "..", description: a path by default}
repository: REPOSITORY
phases:
  look:
---
Looks.
"""
PHASE = """---
kind: phase
description: Looks.
steps:
  - STEP
---
## seen
Look. NOTES
"""
AGENT = "{id: seen, agent: looker, writes: seen.md}"
ROLE = "---\nname: looker\ndescription: Looks.\nmodel: fast\ntools: [Read, Grep, Glob, List]\n---\nYou look.\n"


@pytest.fixture
def clone(tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """A project from a real `git clone` that contains links, with local files that git ignores.

    The temporary home folder contains secrets that must not leak.
    """
    (home / ".ssh").mkdir()
    (home / ".ssh" / "id_ed25519").write_text(CANARY)
    (home / "notes.txt").write_text(CANARY)

    def make(repository: str = ".", step: str = AGENT) -> Path:
        origin, folder = tmp_path / "origin", tmp_path / "clone"
        files = {
            "workflows/look.md": WORKFLOW.replace("REPOSITORY", json.dumps(repository)),
            "skills/look/look.md": phase(step),
            "roles/looker.md": ROLE,
            "src/app.py": "print('hello')\n",
            ".env.example": "KEY=\n",
            ".gitignore": "local/\nruns/\n",
            "pkg/.gitignore": "token.txt\n",
            **dict.fromkeys(SECRETS, f"committed {CANARY}\n"),
        }
        for name, text in files.items():
            (origin / name).parent.mkdir(parents=True, exist_ok=True)
            (origin / name).write_text(text)
        links: dict[str, str | Path] = {
            "home": home,
            "near.py": "src/app.py",
            "key": home / ".ssh" / "id_ed25519",
            "up": "../../..",
            "env": ".env",
        }
        for name, target in links.items():
            (origin / name).symlink_to(target)
        for arguments in (["init", "-q"], ["add", "-Af"], ["commit", "-qm", "all"]):
            subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a", *arguments], cwd=origin, check=True)
        subprocess.run(["git", "clone", "-q", str(origin), str(folder)], check=True)
        for name in ("local/own.txt", "pkg/token.txt", "excluded.txt"):
            (folder / name).parent.mkdir(exist_ok=True)
            (folder / name).write_text(CANARY)
        (folder / ".git" / "info" / "exclude").write_text("excluded.txt\n")
        monkeypatch.chdir(folder)
        return folder

    return make


def phase(step: str) -> str:
    """A phase with one step, and the section of its agent."""
    text = PHASE.replace("STEP", step).replace("NOTES", "{{ notes.text }}" if "notes" in step else "")
    return text if AGENT in step else text.partition("## seen")[0]


def script(folder: Path, *calls: tuple[str, dict[str, Any]]) -> tuple[str, ...]:
    """Options for a scripted model that makes these tool calls, at most 20 per turn, and then answers."""
    tool_calls: list[dict[str, Any]] = [{"name": tool, "arguments": arguments} for tool, arguments in calls]
    turns = [tool_calls[start : start + 20] for start in range(0, len(tool_calls), 20)]
    rules: list[dict[str, Any]] = [
        {"address": f"look/look/seen/*/{turn}.1", "calls": turn_calls} for turn, turn_calls in enumerate(turns, 1)
    ]
    rules.append({"address": "*", "text": "Seen."})
    (folder.parent / "script.yaml").write_text(json.dumps(rules))
    return "--script", "../script.yaml"


def results(folder: Path) -> list[str]:
    """The results of the run's tool calls, in order."""
    with closing(SqliteJournal.open(folder / "runs" / "it")) as journal:
        return [entry.body["result"] for entry in journal.entries("tool")]


def stored_bytes(folder: Path) -> bytes:
    """The content of all files of the run, including its requests."""
    return b"".join(path.read_bytes() for path in (folder / "runs").rglob("*") if path.is_file())


READS = [
    *("home/notes.txt", "home/.ssh/id_ed25519", "key", "up/notes.txt", "../notes.txt", "~/notes.txt", "/etc/passwd"),
    *(".git/config", ".GIT/info/exclude", "src/../.git/config", "local/own.txt", "pkg/token.txt", "excluded.txt"),
    *(*SECRETS, "env", ".ENV", "runs/it/.run/transcript.ndjson"),
]


@pytest.mark.slow
@pytest.mark.finding("FZ5", "FZ12")
@pytest.mark.row("Z3", "Z5")
def test_tools_do_not_read_outside_files_secrets_or_ignored_files(clone: Call, skillrun: Call) -> None:
    folder = clone()
    forbidden = [("Read", {"path": path}) for path in READS]
    forbidden += [("Grep", {"pattern": "CANARY|passwd"}), ("Grep", {"pattern": "CANARY", "path": "pkg"})]
    forbidden += [("List", {"path": path}) for path in ("home", "up", ".git", "local", "deploy/.ssh")]
    allowed = [
        ("Glob", {"pattern": "*"}),
        ("List", {}),
        ("Read", {"path": "near.py"}),
        ("Read", {"path": ".env.example"}),
    ]
    done = skillrun("look", "hello", "--name", "it", *script(folder, *forbidden, *allowed))
    assert done.code == 0
    *refused, files, top, near, example = results(folder)
    assert [answer for answer in refused if not answer.startswith("error:")] == ["(no hits)", "(no hits)"]
    assert CANARY.encode() not in stored_bytes(folder)
    assert "files with this name may hold secrets" in refused[READS.index("env")]
    assert "git ignores it" in refused[READS.index("pkg/token.txt")]
    assert set(files.split("\n")) == {
        *(".env.example", ".gitignore", "near.py", "pkg/.gitignore", "roles/looker.md"),
        *("skills/look/look.md", "src/app.py", "workflows/look.md"),
    }
    assert "home" not in top
    assert near.endswith("print('hello')")
    assert example.endswith("KEY=")


@pytest.mark.row("Z3", "Z5")
def test_the_start_of_a_run_names_the_readable_folder_and_the_withheld_files(clone: Call, skillrun: Call) -> None:
    folder = clone("src")
    done = skillrun("look", "hello", "--name", "it", *script(folder))
    line = next(line for line in done.out.splitlines() if line.startswith("reads: "))
    assert line.startswith(f"reads: {folder}/src (withheld: .git; files that git ignores; ")
    assert ".env, " in line
    assert done.out.count("reads: ") == 1
    assert "outlines" not in done.out + done.err


def test_a_run_without_the_extra_warns_once_that_code_has_no_outlines(
    clone: Call, skillrun: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "tree_sitter", None)
    folder = clone(step="{id: seen, run: inner, with: {request: b}}")
    (folder / "workflows" / "inner.md").write_text(
        WORKFLOW.replace("name: look", "name: inner").replace("REPOSITORY", "src").replace("  look:\n", "  see:\n")
    )
    (folder / "skills" / "inner").mkdir()
    (folder / "skills" / "inner" / "see.md").write_text(phase(AGENT))
    done = skillrun("look", "hello", "--name", "it", *script(folder))
    warning = "source files have no outlines: the extra `outline` is not installed; install it: "
    lines = [line for line in (done.out + done.err).splitlines() if warning in line]
    assert (done.code, len(lines), (done.out + done.err).count("reads: ")) == (0, 1, 2)
    transcript = (folder / "runs" / "it" / ".run" / "transcript.ndjson").read_text().splitlines()
    events = [event for event in map(json.loads, transcript) if warning in event.get("text", "")]
    assert [(event["event"], event["level"]) for event in events] == [("Notice", "warn")]


@pytest.mark.slow
@pytest.mark.finding("FZ5")
@pytest.mark.row("Z3")
@pytest.mark.parametrize("repository", ["/", "..", "../..", "src/../../x", "./../clone2", "/etc"])
def test_a_literal_repository_outside_the_project_is_a_problem(clone: Call, skillrun: Call, repository: str) -> None:
    clone(repository)
    done = skillrun("validate")
    assert done.code == 1
    assert (
        f"workflows/look.md:8:13: error[repository]: the folder `{repository}` is not in the project"
        in done.err + done.out
    )
    assert "repo?: path" in done.err + done.out


@pytest.mark.finding("FZ5")
@pytest.mark.row("Z3")
@pytest.mark.parametrize(
    ("repository", "request_", "reason"),
    [
        ("{{ inputs.request }}", "/", "leads out of its folder"),
        ("{{ '/etc' }}", "hello", "leads out of its folder"),
        ("{{ inputs.other }}", "hello", "leads out of its folder"),
        ("home", "hello", "leads out of its folder"),
        ("up", "hello", "leads out of its folder"),
        (".git", "hello", "is withheld"),
        ("deploy/.ssh", "hello", "is withheld"),
        ("local", "hello", "git ignores it"),
        ("nowhere", "hello", "cannot be opened: no such file or directory"),
    ],
)
def test_a_repository_outside_the_project_fails_the_run_before_any_call(
    clone: Call, skillrun: Call, repository: str, request_: str, reason: str
) -> None:
    folder = clone(repository)
    done = skillrun("look", request_, "--name", "it", *script(folder))
    assert done.code == 1
    assert "failed: the repository" in done.out
    assert reason in done.out
    with closing(SqliteJournal.open(folder / "runs" / "it")) as journal:
        assert not list(journal.entries("sent"))
    if "outside" in reason or "leads" in reason:
        assert "`skillrun look … --repo FOLDER`" in done.out


@pytest.mark.slow
@pytest.mark.row("Z3")
def test_an_outside_folder_from_the_command_line_is_read_also_after_a_resume(
    clone: Call, skillrun: Call, tmp_path: Path
) -> None:
    folder = clone("{{ inputs.repo }}")
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "app.py").write_text("print('mine')\n")
    (tmp_path / "code" / ".env").write_text(CANARY)
    flags = script(folder, ("Read", {"path": "app.py"}), ("Read", {"path": ".env"}))
    assert skillrun("look", "hello", "--name", "it", "--repo", "../code", "--budget", "calls=1", *flags).code == 75
    assert results(folder)[0].endswith("print('mine')")
    assert "withheld" in results(folder)[1]
    assert skillrun("resume", "it", "--budget", "calls=9", *flags).code == 0
    assert skillrun("look", "hello", "--repo", "../code", "--dry-run").code == 0


@pytest.mark.slow
@pytest.mark.finding("FZ5")
@pytest.mark.row("Z3")
def test_an_inline_workflow_is_limited_to_the_same_folders(clone: Call, skillrun: Call, tmp_path: Path) -> None:
    step = '{id: inner, run: inner, with: {repo: "WITH"}}'
    for repo, code in (("..", 1), ("{{ inputs.repo }}", 0)):
        folder = clone(".", step.replace("WITH", repo))
        inner = WORKFLOW.replace("name: look", "name: inner").replace("REPOSITORY", '"{{ inputs.repo }}"')
        inner = inner.replace("  request: string, what to look for\n", "").replace(
            "  look:\n", "  look: {skill: inner/look}\n"
        )
        (folder / "workflows" / "inner.md").write_text(inner)
        (folder / "skills" / "inner").mkdir()
        (folder / "skills" / "inner" / "look.md").write_text(phase(AGENT))
        done = skillrun("look", "hello", "--name", "it", "--repo", str(tmp_path / "origin"), *script(folder))
        assert done.code == code, done.out
        assert ("leads out of its folder" in done.out) == bool(code)
        for name in ("clone", "origin"):
            (tmp_path / name).rename(tmp_path / f"{name}-{code}")


READ = '{{id: notes, read: "{}", from: project}}\n  - {}'


@pytest.mark.finding("FZ12")
@pytest.mark.row("Z3", "Z5")
@pytest.mark.parametrize("pattern", ["*", "**/*", ".*/*", ".e*", "[.]env", "*/id_*", "local/*", "pkg/*.txt", "home/*"])
def test_a_pattern_does_not_match_secrets_or_ignored_files(clone: Call, skillrun: Call, pattern: str) -> None:
    folder = clone(".", READ.format(pattern, AGENT))
    done = skillrun("look", "hello", "--name", "it", *script(folder))
    assert done.code == 0 or f"no file matches `{pattern}` in the project" in done.out
    assert CANARY.encode() not in stored_bytes(folder)
    assert b"[remote" not in stored_bytes(folder)


@pytest.mark.parametrize("pattern", ["src/*.py", "./src/*.py", "src//*.py", "src/./app.*"])
def test_a_pattern_is_normalized_like_a_path(clone: Call, skillrun: Call, pattern: str) -> None:
    folder = clone(".", READ.format(pattern, AGENT))
    done = skillrun("look", "hello", "--name", "it", *script(folder))
    assert done.code == 0, done.out
    assert b"print('hello')" in stored_bytes(folder)


@pytest.mark.finding("FZ12")
@pytest.mark.row("Z3", "Z5")
@pytest.mark.parametrize(
    ("name", "reason"),
    [
        (".env", "`.env` is withheld"),
        ("env", "`env` is withheld"),
        (".git/config", "`.git/config` is withheld"),
        ("key", "leads out of its folder"),
        ("home/notes.txt", "leads out of its folder"),
        ("../origin/.env", "leads out of its folder"),
        ("x" * 5000, "longer than 4,096 characters"),
    ],
)
def test_a_step_that_reads_a_forbidden_file_fails_with_the_reason(
    clone: Call, skillrun: Call, name: str, reason: str
) -> None:
    folder = clone(".", READ.format(name, AGENT))
    done = skillrun("look", "hello", "--name", "it", *script(folder))
    assert done.code == 1
    assert reason in done.out
    assert CANARY.encode() not in stored_bytes(folder)


def test_a_step_can_read_an_ignored_file_by_name(clone: Call, skillrun: Call) -> None:
    folder = clone(".", READ.format("local/own.txt", AGENT))
    assert skillrun("look", "hello", "--name", "it", *script(folder)).code == 0
    assert CANARY.encode() in stored_bytes(folder)


@pytest.mark.row("Z6")
def test_a_step_reads_at_most_five_megabytes(clone: Call, skillrun: Call) -> None:
    folder = clone(".", READ.format("*.bin", AGENT))
    for name in ("a.bin", "b.bin"):
        (folder / name).write_bytes(b"x" * 3_000_000)
    done = skillrun("look", "hello", "--name", "it", *script(folder))
    assert done.code == 1
    assert "a step reads at most 5,000,000 bytes; `b.bin` exceeds that" in done.out


@pytest.mark.finding("FZ5")
@pytest.mark.row("Z3")
def test_a_run_that_is_a_symbolic_link_is_not_read(clone: Call, skillrun: Call, home: Path) -> None:
    folder = clone(".", '{id: notes, read: "*.txt", from: linked}\n  - ' + AGENT)
    (folder / "runs").mkdir()
    (folder / "runs" / "linked").symlink_to(home)
    done = skillrun("look", "hello", "--name", "it", *script(folder))
    assert done.code == 1
    assert "symbolic link" in done.out
    (folder / "runs" / "linked").unlink()
    assert CANARY.encode() not in stored_bytes(folder)


@pytest.mark.finding("FZ14")
@pytest.mark.row("Z6")
def test_oversized_tool_arguments_are_refused_and_not_echoed(clone: Call, skillrun: Call) -> None:
    folder = clone()
    large = "c/" * 2_200
    tool_calls: list[tuple[str, dict[str, Any]]] = [
        ("Read", {"path": large}),
        ("Grep", {"pattern": "x", "path": large}),
        ("Grep", {"pattern": large}),
        ("Glob", {"pattern": large}),
        ("Glob", {"pattern": "{a,b}" * 90}),
        ("Read", {"path": [[large]]}),
        ("Read", {"path": "src/app.py", "offset": 10**300}),
        (large, {}),
    ]
    assert skillrun("look", "hello", "--name", "it", *script(folder, *tool_calls)).code == 0
    answers = results(folder)
    assert len(answers) == len(tool_calls) - 1, "a tool that was not offered is not run"
    assert all(answer.startswith("error:") and len(answer) < 300 for answer in answers)


@pytest.mark.slow
@pytest.mark.row("Z5")
def test_a_project_can_add_withheld_names_but_not_remove_them(clone: Call, skillrun: Call) -> None:
    folder = clone()
    (folder / "config").mkdir()
    settings = folder / "config" / "skillrun.yaml"
    settings.write_text('repository: {withheld: ["*.py"]}\n')
    reads = [("Read", {"path": path}) for path in ("src/app.py", ".env", ".env.example")]
    assert skillrun("look", "hello", "--name", "it", *script(folder, *reads)).code == 0
    app, env, example = results(folder)
    assert "withheld" in app
    assert "withheld" in env
    assert example.endswith("KEY=")
    settings.write_text('repository: {withheld: ["!.env"]}\n')
    done = skillrun("validate")
    assert done.code == 1
    assert "config/skillrun.yaml:1:25: error[withheld]: `!.env` would allow a withheld name" in done.out + done.err


@pytest.mark.row("Z5")
def test_the_users_list_of_withheld_names_replaces_the_shipped_list(clone: Call, skillrun: Call, home: Path) -> None:
    folder = clone()
    config = home / ".config" / "skillrun" / "config"
    config.mkdir(parents=True)
    (config / "skillrun.yaml").write_text('repository: {withheld: ["*.pem"]}\n')
    reads = [("Read", {"path": path}) for path in (".npmrc", "tls/server.pem")]
    assert skillrun("look", "hello", "--name", "it", *script(folder, *reads)).code == 0
    npmrc, pem = results(folder)
    assert CANARY in npmrc
    assert "withheld" in pem
