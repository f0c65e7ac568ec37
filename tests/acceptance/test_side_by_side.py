"""Parallel and nested runs in separate processes do not affect each other."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from subprocess import DEVNULL, PIPE, STDOUT
from typing import Any

import pytest

from skillrun.store.frontmatter import from_frontmatter
from skillrun.store.local.journal import read_journal
from skillrun.store.local.local_run import LocalRun
from skillrun.store.local.lock import LocalLease
from tests.launcher import start_skillrun

Call = Callable[..., Any]
SCRIPTED = ("--model", "scripted:default")
FILES: Mapping[str, str] = {
    "workflows/w.md": (
        "---\nname: w\ninputs: {request: string, wait: {type: boolean, default: false}}\nphases:\n  one:\n---\n"
    ),
    "skills/w/one.md": (
        "---\nkind: phase\nsteps:\n"
        "  - {id: draft, agent: [a, a@fast], writes: 'draft-{{ member.id | slug }}.md'}\n"
        "  - {id: sure, when: inputs.wait, ask: Sure?, choices: ['yes', 'no']}\n"
        "  - {id: last, agent: a, writes: last.md}\n"
        "  - {id: notes, read: '*.md'}\n"
        "outputs: {files: '{{ notes.files }}'}\n---\n## draft\nDraft it.\n\n## last\nEnd it.\n"
    ),
    "roles/a.md": "---\nname: a\n---\nYou write.\n",
}
ARTIFACTS = ["draft-a-fast.md", "draft-a.md", "last.md"]


@pytest.fixture
def folder(project: Call) -> Path:
    folder: Path = project()
    for name, text in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    return folder


def run_in_parallel(*commands: tuple[str, ...]) -> list[tuple[int, str]]:
    """Run each command in a separate process at the same time; return exit codes and outputs."""
    streams: dict[str, Any] = {"stdin": DEVNULL, "stdout": PIPE, "stderr": STDOUT, "text": True}
    processes = [start_skillrun(*command, **streams) for command in commands]
    outputs = [process.communicate(timeout=60)[0] for process in processes]
    return [(process.returncode, text) for process, text in zip(processes, outputs, strict=True)]


def run_data(run: Path) -> tuple[str, list[str], int, list[str]]:
    """The status of a run, its artifacts, the number of recorded replies, and the files read by its last step."""
    state, _ = from_frontmatter(run / "state.md")
    summary, _ = from_frontmatter(run / "summaries" / "one.md")
    with closing(read_journal(run)) as journal:
        calls = len(list(journal.entries("reply")))
        assert not journal.pending_calls()
    artifacts = sorted(path.name for path in run.glob("*.md") if path.name != "state.md")
    return state["status"], artifacts, calls, summary["outputs"].get("files", [])


@pytest.mark.slow
@pytest.mark.finding("FL16")
def test_simultaneous_runs_of_one_request_get_separate_names_and_folders(folder: Path) -> None:
    results = run_in_parallel(*[("w", "Paint it blue", *SCRIPTED)] * 3)
    assert [code for code, _ in results] == [0, 0, 0], results
    names = ["paint-it-blue", "paint-it-blue-2", "paint-it-blue-3"]
    assert sorted(path.name for path in (folder / "runs").iterdir()) == [".gitignore", *names]
    for name in names:
        assert run_data(folder / "runs" / name) == ("completed", ARTIFACTS, 3, ARTIFACTS)
    for _, output in results:
        name = output.rstrip().rpartition("show ")[2].partition("`")[0]
        assert f"folder: {folder / 'runs' / name}\n" in output


@pytest.mark.slow
def test_only_one_of_two_simultaneous_runs_gets_a_name(folder: Path) -> None:
    results = run_in_parallel(*[("w", "it", *SCRIPTED, "--name", "same")] * 2, ("w", "it", *SCRIPTED))
    codes = [code for code, _ in results]
    assert sorted(codes[:2]) in ([0, 1], [0, 2]), results
    assert codes[2] == 0
    refused = results[0 if codes[0] else 1][1]
    assert "the run `same` already exists" in refused or "is being run by" in refused
    assert run_data(folder / "runs" / "same")[:3] == run_data(folder / "runs" / "it")[:3]


@pytest.mark.slow
def test_a_run_inside_the_folder_of_a_waiting_run_affects_neither(folder: Path, skillrun: Call) -> None:
    assert skillrun("w", "outer", "--wait", *SCRIPTED).code == 75
    (folder / "answers.yaml").write_text("sure: yes\n")
    results = run_in_parallel(
        ("w", "inner", *SCRIPTED, "--out", "runs/outer"),
        ("resume", "outer", "--answers", "answers.yaml"),
        ("w", "beside", *SCRIPTED),
    )
    assert [code for code, _ in results] == [0, 0, 0], results
    outer = run_data(folder / "runs" / "outer")
    assert outer == ("completed", ARTIFACTS, 3, ARTIFACTS), "files of the inner run are not its artifacts"
    assert run_data(folder / "runs" / "outer" / "inner")[:3] == outer[:3]
    assert "edited:" not in skillrun("show", "outer").out
    assert skillrun("show", "runs/outer/inner").code == 0
    temporary = folder / "runs" / "outer" / "inner" / ".one.md.0123abcd.tmp"
    temporary.write_text("a partial write")
    assert skillrun("resume", "outer").code == 0
    assert LocalRun(folder / "runs" / "outer").data().matching("inner/*.md") == []
    assert temporary.exists(), "it belongs to the other run"
    assert [line.split()[0] for line in skillrun("runs").out.splitlines()[1:]] == ["beside", "outer"]


@pytest.mark.parametrize("name", ["round-1", "summaries"])
def test_a_nested_run_cannot_use_a_reserved_folder_name(folder: Path, skillrun: Call, name: str) -> None:
    assert skillrun("w", "outer", "--wait", *SCRIPTED).code == 75
    before = sorted(path.relative_to(folder) for path in (folder / "runs").rglob("*"))
    for command in (("--out", "runs/outer", "--name", name), ("--out", f"runs/outer/{name}")):
        done = skillrun("w", "inner", *SCRIPTED, *command)
        assert (done.code, f"`{name}` in {folder / 'runs/outer'} is reserved for that run" in done.err) == (2, True)
    assert sorted(path.relative_to(folder) for path in (folder / "runs").rglob("*")) == before


@pytest.mark.slow
def test_a_name_taken_by_a_concurrent_run_is_reported(
    folder: Path, skillrun: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other run starts and ends between the check of the name and the lock."""

    def take_name_first(lease: LocalLease) -> Any:
        monkeypatch.setattr(LocalLease, "hold", hold)
        assert run_in_parallel(("w", "it", *SCRIPTED, "--name", "same"))[0][0] == 0
        return hold(lease)

    hold = LocalLease.hold
    monkeypatch.setattr(LocalLease, "hold", take_name_first)
    done = skillrun("w", "it", *SCRIPTED, "--name", "same")
    assert (done.code, "the run `same` already exists" in done.err) == (2, True)
    assert run_data(folder / "runs" / "same") == ("completed", ARTIFACTS, 3, ARTIFACTS)
