"""Runs beside each other and inside each other, in processes of their own: none disturbs another."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from subprocess import DEVNULL, PIPE, STDOUT
from typing import Any

import pytest

from skillrun.store.frontmatter import from_frontmatter
from skillrun.store.local.journal import read_journal
from skillrun.store.local.local_files import open_run_data
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
def here(project: Call) -> Path:
    folder: Path = project()
    for name, text in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    return folder


def at_once(*commands: tuple[str, ...]) -> list[tuple[int, str]]:
    """Each command in a process of its own, all at the same time: how they ended, and what they said."""
    streams: dict[str, Any] = {"stdin": DEVNULL, "stdout": PIPE, "stderr": STDOUT, "text": True}
    started = [start_skillrun(*command, **streams) for command in commands]
    said = [one.communicate(timeout=60)[0] for one in started]
    return [(one.returncode, text) for one, text in zip(started, said, strict=True)]


def whole(run: Path) -> tuple[str, list[str], int, list[str]]:
    """A run: how it stands, its artifacts, the calls that its journal has answered, and what its own step has read."""
    state, _ = from_frontmatter(run / "state.md")
    summary, _ = from_frontmatter(run / "summaries" / "one.md")
    with closing(read_journal(run)) as journal:
        calls = len(list(journal.entries("reply")))
        assert not journal.pending_calls()
    artifacts = sorted(path.name for path in run.glob("*.md") if path.name != "state.md")
    return state["status"], artifacts, calls, summary["outputs"].get("files", [])


@pytest.mark.slow
@pytest.mark.finding("FL16")
def test_three_runs_of_one_request_that_start_at_once_have_names_and_folders_of_their_own(here: Path) -> None:
    ended = at_once(*[("w", "Paint it blue", *SCRIPTED)] * 3)
    assert [code for code, _ in ended] == [0, 0, 0], ended
    names = ["paint-it-blue", "paint-it-blue-2", "paint-it-blue-3"]
    assert sorted(path.name for path in (here / "runs").iterdir()) == [".gitignore", *names]
    for name in names:
        assert whole(here / "runs" / name) == ("completed", ARTIFACTS, 3, ARTIFACTS)
    for _, said in ended:
        name = said.rstrip().rpartition("show ")[2].partition("`")[0]
        assert f"folder: {here / 'runs' / name}\n" in said


@pytest.mark.slow
def test_of_two_runs_that_want_one_name_one_has_it_and_the_other_is_told(here: Path) -> None:
    ended = at_once(*[("w", "it", *SCRIPTED, "--name", "same")] * 2, ("w", "it", *SCRIPTED))
    codes = [code for code, _ in ended]
    assert sorted(codes[:2]) in ([0, 1], [0, 2]), ended
    assert codes[2] == 0
    refused = ended[0 if codes[0] else 1][1]
    assert "the run `same` already exists" in refused or "is being run by" in refused
    assert whole(here / "runs" / "same")[:3] == whole(here / "runs" / "it")[:3]


@pytest.mark.slow
def test_a_run_inside_the_folder_of_one_that_waits_disturbs_neither(here: Path, skillrun: Call) -> None:
    assert skillrun("w", "outer", "--wait", *SCRIPTED).code == 75
    (here / "answers.yaml").write_text("sure: yes\n")
    ended = at_once(
        ("w", "inner", *SCRIPTED, "--out", "runs/outer"),
        ("resume", "outer", "--answers", "answers.yaml"),
        ("w", "beside", *SCRIPTED),
    )
    assert [code for code, _ in ended] == [0, 0, 0], ended
    outer = whole(here / "runs" / "outer")
    assert outer == ("completed", ARTIFACTS, 3, ARTIFACTS), "the inner one is nothing of its own"
    assert whole(here / "runs" / "outer" / "inner")[:3] == outer[:3]
    assert "edited:" not in skillrun("show", "outer").out
    assert skillrun("show", "runs/outer/inner").code == 0
    half = here / "runs" / "outer" / "inner" / ".one.md.0123abcd.tmp"
    half.write_text("of a write that is under way")
    assert skillrun("resume", "outer").code == 0
    assert open_run_data(here / "runs" / "outer").matching("inner/*.md") == []
    assert half.exists(), "it is the other run's"
    assert [line.split()[0] for line in skillrun("runs").out.splitlines()[1:]] == ["beside", "outer"]


@pytest.mark.parametrize("name", ["round-1", "summaries"])
def test_no_run_stands_where_the_one_around_it_keeps_its_own(here: Path, skillrun: Call, name: str) -> None:
    assert skillrun("w", "outer", "--wait", *SCRIPTED).code == 75
    before = sorted(path.relative_to(here) for path in (here / "runs").rglob("*"))
    for command in (("--out", "runs/outer", "--name", name), ("--out", f"runs/outer/{name}")):
        done = skillrun("w", "inner", *SCRIPTED, *command)
        assert (done.code, f"`{name}` in {here / 'runs/outer'} is reserved for that run" in done.err) == (2, True)
    assert sorted(path.relative_to(here) for path in (here / "runs").rglob("*")) == before


@pytest.mark.slow
def test_a_run_of_the_name_that_has_come_and_gone_meanwhile_is_said_to_be_there(
    here: Path, skillrun: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the first look and the lock, where only luck would bring another process."""

    def held(lease: LocalLease) -> Any:
        monkeypatch.setattr(LocalLease, "hold", hold)
        assert at_once(("w", "it", *SCRIPTED, "--name", "same"))[0][0] == 0
        return hold(lease)

    hold = LocalLease.hold
    monkeypatch.setattr(LocalLease, "hold", held)
    done = skillrun("w", "it", *SCRIPTED, "--name", "same")
    assert (done.code, "the run `same` already exists" in done.err) == (2, True)
    assert whole(here / "runs" / "same") == ("completed", ARTIFACTS, 3, ARTIFACTS)
