"""The finished run in the documentation can be shown, rendered and edited without a key."""

import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.dev.test_saves import read_turn

Call = Callable[..., Any]
SHIPPED = Path(__file__).parents[2] / "docs" / "finished"
RUN = "reminders"
FLAGS = (
    "--repo",
    "shelf",
    "--mode",
    "standard",
    "--name",
    RUN,
    "--script",
    "replies.yaml",
    "--model",
    "scripted:reader",
)

pytestmark = pytest.mark.row("Q9")


@pytest.fixture
def finished(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "finished"
    shutil.copytree(SHIPPED, folder)
    (folder / "runs" / RUN / ".run").chmod(0o755)  # as in a clone
    monkeypatch.chdir(folder)
    return folder


def documents(run: Path) -> dict[str, str]:
    names = ("plan", "spec", "design", "test-plan", "tasks")
    return {name: (run / f"{name}.md").read_text("utf-8") for name in names}


def test_it_is_small_and_reveals_nothing_about_the_machine_that_created_it() -> None:
    files = [path for path in SHIPPED.rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) < 2_000_000
    texts = [path.read_text("utf-8") for path in files if path.suffix in (".md", ".yaml", ".ndjson")]
    assert not re.search(r"/(?:tmp/(?:go|arms)|work|root)/", "\n".join(texts))


@pytest.mark.slow  # it checks a shipped workflow
def test_it_is_shown_and_its_prompts_are_rendered(finished: Path, skillrun: Call) -> None:
    shown = skillrun("show", RUN)
    assert shown.code == 0, shown.err
    assert "completed" in shown.out.splitlines()[0]
    assert re.search(r"^architecture +completed", shown.out, re.MULTILINE)
    request = (finished / "request.md").read_text("utf-8").strip()
    prompt = skillrun("render", "plan", "architecture", "draft", "-i", f"request={request}", "-i", "repo=shelf")
    assert prompt.code == 0, prompt.err
    assert "Nobody is reminded of a thing more often than every 7 days" in prompt.out


@pytest.mark.slow  # a whole run of a shipped workflow
def test_its_replies_reproduce_its_documents(finished: Path, skillrun: Call) -> None:
    before = documents(finished / "runs" / RUN)
    shutil.rmtree(finished / "runs")
    request = (finished / "request.md").read_text("utf-8").strip()
    done = skillrun("plan", request, *FLAGS, "--unattended")
    assert done.code == 0, done.err
    assert documents(finished / "runs" / RUN) == before, "its README says how to record it again"


@pytest.mark.slow  # a whole run of a shipped workflow
def test_a_role_can_be_edited_without_a_key_as_the_readme_says(finished: Path) -> None:
    readme = (SHIPPED.parents[1] / "README.md").read_text("utf-8")
    counts = re.search(r"a finished run of (\d+) calls: one role is edited, (\d+) calls are made", readme)
    assert counts is not None
    calls, new_calls = map(int, counts.groups())
    request = (finished / "request.md").read_text("utf-8").strip()
    command = [sys.executable, "-u", "-m", "skillrun", "dev", "plan", request, *FLAGS, "--unattended"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as run:
        try:
            first = read_turn(run)
            expected = rf"completed in .*; calls: {calls} reused, 0 made; 0 artifacts changed"
            assert re.search(expected, first[-1]), first[-1]
            role = finished / "roles" / "judge.md"
            role.parent.mkdir()
            shipped = Path(__file__).parents[2] / "roles" / "judge.md"
            role.write_text(shipped.read_text("utf-8") + "\nYou are brief.\n", encoding="utf-8")
            edited = read_turn(run)
            lines = [line for line in edited if line.startswith("calling ")]
            assert lines
            assert all("judge:" in line for line in lines)
            assert f"{calls - new_calls} reused, {new_calls} made; 0 artifacts changed" in edited[-1]
        finally:
            run.terminate()
