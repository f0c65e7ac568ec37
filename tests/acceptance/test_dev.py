"""Hot reload through the command line: a run, an edit, a broken file, an edit again."""

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

Call = Callable[..., Any]


def told(run: "subprocess.Popen[str]") -> list[str]:
    """The lines up to the one that says that it watches."""
    assert run.stdout is not None
    lines: list[str] = []
    for line in run.stdout:
        if line.startswith("watching"):
            return lines
        lines.append(line.rstrip("\n"))
    raise AssertionError(lines)


@pytest.mark.row("X3")
def test_a_save_asks_what_it_changed_and_a_broken_file_changes_nothing(project: Call) -> None:
    folder = project("greeting")
    draft, send = (folder / "skills" / "greeting" / f"{name}.md" for name in ("draft", "send"))
    text = send.read_text()
    command = [sys.executable, "-u", "-m", "skillrun", "dev", "greeting", "Ada", "--model", "scripted:default"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as run:
        try:
            first = told(run)
            assert first[0] == f"starting dev-greeting in {folder / 'runs' / 'dev-greeting'}"
            assert [line[:9] for line in first if "completed" in line].count("completed") == 1
            assert first[-1].endswith("0 reused, 2 asked, 2 artifacts changed")
            send.write_text(text.replace("To ", "For "))
            edited = told(run)
            assert edited[-1].endswith("2 reused, 0 asked, 1 artifact changed")
            assert "  +For Ada:" in edited
            send.write_text(text.replace("phases.draft", "phases.draff"))
            broken = told(run)
            assert broken[-2] == "the last good version stays in force; mend the file and save it"
            assert "Nothing was run" not in "\n".join(broken)
            draft.write_text(draft.read_text().replace("Greet ", "Kindly greet "))
            send.write_text(text)
            mended = told(run)
            assert "asking greeting/draft/words/writer/1.1" in mended
            assert "changed: greeting.md" in mended
        finally:
            run.terminate()


@pytest.mark.row("X3")
def test_a_phase_is_run_again_when_that_is_wanted(project: Call) -> None:
    project("greeting")
    command = [sys.executable, "-u", "-m", "skillrun", "dev", "greeting", "Ada", "--model", "scripted:default"]
    ended = []
    for more in ((), ("--rerun", "send"), ("--rerun", "draft+"), ()):
        with subprocess.Popen([*command, *more], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as run:
            try:
                ended.append(told(run)[-1].split("; ")[1])
            finally:
                run.terminate()
    assert ended == [
        "0 reused, 2 asked, 2 artifacts changed",
        "2 reused, 0 asked, 0 artifacts changed",
        "0 reused, 2 asked, 0 artifacts changed",
        "2 reused, 0 asked, 0 artifacts changed",
    ]


def test_a_workflow_to_watch_has_to_be_there(project: Call, skillrun: Call) -> None:
    project("greeting")
    done = skillrun("dev", "greting", "Ada")
    assert (done.code, done.err) == (2, "error: there is no workflow `greting`\nhint: did you mean `greeting`?\n")


def test_a_phase_to_run_again_has_to_be_there(project: Call, skillrun: Call) -> None:
    project("greeting")
    done = skillrun("dev", "greeting", "Ada", "--rerun", "drafft")
    assert (done.code, done.err.splitlines()[1]) == (2, "hint: did you mean `draft`?")
