"""What a stranger's clone gets to read: its links, its `repository`, what its steps and a model's tools ask for."""

from __future__ import annotations

import json
import subprocess
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
description: Looks at what there is.
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
    """A project made by a real `git clone`, with links in it, and then with the user's own files that git ignores.

    The home, which is the test's own, has something that nobody should get.
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
        for words in (["init", "-q"], ["add", "-Af"], ["commit", "-qm", "all"]):
            subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a", *words], cwd=origin, check=True)
        subprocess.run(["git", "clone", "-q", str(origin), str(folder)], check=True)
        for name in ("local/own.txt", "pkg/token.txt", "excluded.txt"):
            (folder / name).parent.mkdir(exist_ok=True)
            (folder / name).write_text(CANARY)
        (folder / ".git" / "info" / "exclude").write_text("excluded.txt\n")
        monkeypatch.chdir(folder)
        return folder

    return make


def phase(step: str) -> str:
    """A phase with a step, and the section of its agent."""
    text = PHASE.replace("STEP", step).replace("NOTES", "{{ notes.text }}" if "notes" in step else "")
    return text if AGENT in step else text.partition("## seen")[0]


def script(folder: Path, *calls: tuple[str, dict[str, Any]]) -> tuple[str, ...]:
    """The flags for a scripted model that makes these calls, as many a turn as it may, and then answers."""
    asked: list[dict[str, Any]] = [{"name": tool, "arguments": given} for tool, given in calls]
    turns = [asked[start : start + 20] for start in range(0, len(asked), 20)]
    rules: list[dict[str, Any]] = [
        {"address": f"look/look/seen/*/{turn}.1", "calls": each} for turn, each in enumerate(turns, 1)
    ]
    rules.append({"address": "*", "text": "Seen."})
    (folder.parent / "script.yaml").write_text(json.dumps(rules))
    return "--script", "../script.yaml"


def results(folder: Path) -> list[str]:
    """What tools answered in the run, in order."""
    with closing(SqliteJournal.open(folder / "runs" / "it")) as journal:
        return [entry.body["result"] for entry in journal.entries("tool")]


def kept(folder: Path) -> bytes:
    """Everything that the run has kept, its requests included."""
    return b"".join(path.read_bytes() for path in (folder / "runs").rglob("*") if path.is_file())


READS = [
    *("home/notes.txt", "home/.ssh/id_ed25519", "key", "up/notes.txt", "../notes.txt", "~/notes.txt", "/etc/passwd"),
    *(".git/config", ".GIT/info/exclude", "src/../.git/config", "local/own.txt", "pkg/token.txt", "excluded.txt"),
    *(*SECRETS, "env", ".ENV", "runs/it/.run/transcript.ndjson"),
]


@pytest.mark.slow
@pytest.mark.finding("FZ5", "FZ12")
@pytest.mark.row("Z3", "Z5")
def test_tools_show_nothing_from_outside_no_secret_and_nothing_that_git_ignores(clone: Call, skillrun: Call) -> None:
    folder = clone()
    asked = [("Read", {"path": path}) for path in READS]
    asked += [("Grep", {"pattern": "CANARY|passwd"}), ("Grep", {"pattern": "CANARY", "path": "pkg"})]
    asked += [("List", {"path": path}) for path in ("home", "up", ".git", "local", "deploy/.ssh")]
    seen = [("Glob", {"pattern": "*"}), ("List", {}), ("Read", {"path": "near.py"}), ("Read", {"path": ".env.example"})]
    done = skillrun("look", "hello", "--name", "it", *script(folder, *asked, *seen))
    assert done.code == 0
    *refused, files, top, near, example = results(folder)
    assert [answer for answer in refused if not answer.startswith("error:")] == ["(no hits)", "(no hits)"]
    assert CANARY.encode() not in kept(folder)
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
def test_the_start_says_which_folder_models_read_and_what_is_withheld(clone: Call, skillrun: Call) -> None:
    folder = clone("src")
    done = skillrun("look", "hello", "--name", "it", *script(folder))
    line = next(line for line in done.out.splitlines() if line.startswith("reads: "))
    assert line.startswith(f"reads: {folder}/src (withheld: .git; files that git ignores; ")
    assert ".env, " in line
    assert done.out.count("reads: ") == 1


@pytest.mark.slow
@pytest.mark.finding("FZ5")
@pytest.mark.row("Z3")
@pytest.mark.parametrize("repository", ["/", "..", "../..", "src/../../x", "./../clone2", "/etc"])
def test_a_folder_outside_that_is_written_out_is_a_problem(clone: Call, skillrun: Call, repository: str) -> None:
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
    ("repository", "request_", "because"),
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
def test_a_repository_that_is_not_the_projects_ends_the_run_before_anything_is_sent(
    clone: Call, skillrun: Call, repository: str, request_: str, because: str
) -> None:
    folder = clone(repository)
    done = skillrun("look", request_, "--name", "it", *script(folder))
    assert done.code == 1
    assert "failed: the repository" in done.out
    assert because in done.out
    with closing(SqliteJournal.open(folder / "runs" / "it")) as journal:
        assert not list(journal.entries("sent"))
    if "outside" in because or "leads" in because:
        assert "`skillrun look … --repo FOLDER`" in done.out


@pytest.mark.slow
@pytest.mark.row("Z3")
def test_a_folder_outside_is_read_where_the_user_typed_it_and_still_after_a_pause(
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
def test_a_workflow_inside_another_is_held_to_the_same_folder(clone: Call, skillrun: Call, tmp_path: Path) -> None:
    step = '{id: inner, run: inner, with: {repo: "WITH"}}'
    for given, code in (("..", 1), ("{{ inputs.repo }}", 0)):
        folder = clone(".", step.replace("WITH", given))
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
        for made in ("clone", "origin"):
            (tmp_path / made).rename(tmp_path / f"{made}-{code}")


READ = '{{id: notes, read: "{}", from: project}}\n  - {}'


@pytest.mark.finding("FZ12")
@pytest.mark.row("Z3", "Z5")
@pytest.mark.parametrize("pattern", ["*", "**/*", ".*/*", ".e*", "[.]env", "*/id_*", "local/*", "pkg/*.txt", "home/*"])
def test_a_pattern_reads_no_secret_and_nothing_that_git_ignores(clone: Call, skillrun: Call, pattern: str) -> None:
    folder = clone(".", READ.format(pattern, AGENT))
    done = skillrun("look", "hello", "--name", "it", *script(folder))
    assert done.code == 0 or f"no file matches `{pattern}` in the project" in done.out
    assert CANARY.encode() not in kept(folder)
    assert b"[remote" not in kept(folder)


@pytest.mark.parametrize("pattern", ["src/*.py", "./src/*.py", "src//*.py", "src/./app.*"])
def test_a_pattern_may_be_written_as_a_path_may(clone: Call, skillrun: Call, pattern: str) -> None:
    folder = clone(".", READ.format(pattern, AGENT))
    done = skillrun("look", "hello", "--name", "it", *script(folder))
    assert done.code == 0, done.out
    assert b"print('hello')" in kept(folder)


@pytest.mark.finding("FZ12")
@pytest.mark.row("Z3", "Z5")
@pytest.mark.parametrize(
    ("name", "because"),
    [
        (".env", "`.env` is withheld"),
        ("env", "`env` is withheld"),
        (".git/config", "`.git/config` is withheld"),
        ("key", "leads out of its folder"),
        ("home/notes.txt", "leads out of its folder"),
        ("../origin/.env", "leads out of its folder"),
        ("x" * 5000, "at most 4,096 characters"),
    ],
)
def test_a_step_that_reads_what_it_should_not_says_so(clone: Call, skillrun: Call, name: str, because: str) -> None:
    folder = clone(".", READ.format(name, AGENT))
    done = skillrun("look", "hello", "--name", "it", *script(folder))
    assert done.code == 1
    assert because in done.out
    assert CANARY.encode() not in kept(folder)


def test_a_step_may_name_a_file_that_git_ignores(clone: Call, skillrun: Call) -> None:
    folder = clone(".", READ.format("local/own.txt", AGENT))
    assert skillrun("look", "hello", "--name", "it", *script(folder)).code == 0
    assert CANARY.encode() in kept(folder)


@pytest.mark.row("Z6")
def test_a_step_reads_so_much_and_no_more(clone: Call, skillrun: Call) -> None:
    folder = clone(".", READ.format("*.bin", AGENT))
    for name in ("a.bin", "b.bin"):
        (folder / name).write_bytes(b"x" * 3_000_000)
    done = skillrun("look", "hello", "--name", "it", *script(folder))
    assert done.code == 1
    assert "a step reads at most 5,000,000 bytes; `b.bin` exceeds that" in done.out


@pytest.mark.finding("FZ5")
@pytest.mark.row("Z3")
def test_another_run_that_is_a_link_is_not_read(clone: Call, skillrun: Call, home: Path) -> None:
    folder = clone(".", '{id: notes, read: "*.txt", from: linked}\n  - ' + AGENT)
    (folder / "runs").mkdir()
    (folder / "runs" / "linked").symlink_to(home)
    done = skillrun("look", "hello", "--name", "it", *script(folder))
    assert done.code == 1
    assert "symbolic link" in done.out
    (folder / "runs" / "linked").unlink()
    assert CANARY.encode() not in kept(folder)


@pytest.mark.finding("FZ14")
@pytest.mark.row("Z6")
def test_what_a_model_asks_for_is_refused_and_not_repeated_where_it_is_too_large(clone: Call, skillrun: Call) -> None:
    folder = clone()
    large = "c/" * 40_000
    asked: list[tuple[str, dict[str, Any]]] = [
        ("Read", {"path": large}),
        ("Grep", {"pattern": "x", "path": large}),
        ("Grep", {"pattern": large}),
        ("Glob", {"pattern": large}),
        ("Glob", {"pattern": "{a,b}" * 90}),
        ("Read", {"path": [[large]]}),
        ("Read", {"path": "src/app.py", "offset": 10**300}),
        (large, {}),
    ]
    assert skillrun("look", "hello", "--name", "it", *script(folder, *asked)).code == 0
    answers = results(folder)
    assert len(answers) == len(asked) - 1, "a tool that was not offered is not run"
    assert all(answer.startswith("error:") and len(answer) < 300 for answer in answers)


@pytest.mark.slow
@pytest.mark.row("Z5")
def test_a_project_adds_to_the_names_that_are_withheld_and_takes_none_back(clone: Call, skillrun: Call) -> None:
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
def test_the_users_own_list_stands_in_place_of_the_shipped_one(clone: Call, skillrun: Call, home: Path) -> None:
    folder = clone()
    own = home / ".config" / "skillrun" / "config"
    own.mkdir(parents=True)
    (own / "skillrun.yaml").write_text('repository: {withheld: ["*.pem"]}\n')
    reads = [("Read", {"path": path}) for path in (".npmrc", "tls/server.pem")]
    assert skillrun("look", "hello", "--name", "it", *script(folder, *reads)).code == 0
    npmrc, pem = results(folder)
    assert CANARY in npmrc
    assert "withheld" in pem
