"""What holds over all workers: limits of providers, budgets of runs, and what is worked on first."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from subprocess import DEVNULL
from typing import Any

import pytest

from skillrun.extensions.workers.commands.open_store import open_database
from tests.acceptance.conftest import Call, Make
from tests.launcher import run_skillrun, start_skillrun
from tests.servers import anthropic
from tests.servers.wire import Answer, Asked, Wire, serve

pytestmark = [pytest.mark.row("W4"), pytest.mark.allow_hosts(["127.0.0.1"])]
PATIENCE = 60.0  # seconds
CALLS = 6
SCRIPTED = ("--model", "scripted:x")
WORKFLOW = "---\nname: notes\ndescription: Write notes.\ninputs:\n  person: string, who writes\nphases:\n  all:\n---\n"
STEPS = "".join(f"  - {{id: n{number}, agent: writer, writes: n{number}.md}}\n" for number in range(CALLS))
TEMPLATES = "".join(f"## n{number}\nWrite note {number} of {{{{ inputs.person }}}}.\n\n" for number in range(CALLS))


@pytest.fixture
def notes(project: Make) -> Path:
    """A project whose workflow makes six calls, one after another."""
    folder = project("greeting")
    phase = folder / "skills" / "notes" / "all.md"
    phase.parent.mkdir(parents=True)
    phase.write_text(f"---\nkind: phase\ndescription: Write notes.\nsteps:\n{STEPS}---\n{TEMPLATES}")
    (folder / "workflows" / "notes.md").write_text(WORKFLOW)
    return folder


@contextmanager
def workers(folder: Path, *arguments: str, number: int = 1) -> Iterator[None]:
    elsewhere = folder.parent / "elsewhere"
    elsewhere.mkdir(exist_ok=True)
    with ExitStack() as stack:
        for _ in range(number):
            process = start_skillrun("worker", "--lease", "4", *arguments, cwd=elsewhere, stdout=DEVNULL)
            stack.enter_context(process)
            stack.callback(process.kill)
        yield


def until(what: Callable[[], Any]) -> None:
    end = time.monotonic() + PATIENCE
    while not what():
        assert time.monotonic() < end
        time.sleep(0.1)


def completed(store: str) -> int:
    ((number,),) = open_database(store).rows("SELECT count(*) FROM runs WHERE status = 'completed'")
    return int(number)


@contextmanager
def claude(monkeypatch: pytest.MonkeyPatch, answer: Callable[[Asked], Answer]) -> Iterator[Wire]:
    def answered(asked: Asked) -> Answer:
        models = asked.path.startswith("/v1/models")
        return anthropic.models("claude-opus-5-5", "claude-haiku-5-5") if models else answer(asked)

    with serve(answered) as wire:
        monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-secret")
        monkeypatch.setenv("ANTHROPIC_BASE_URL", wire.url)
        yield wire


def written(asked: Asked) -> Answer:
    text = anthropic.text("A note.")
    answer = anthropic.stream("A note.") if asked.body.get("stream") else anthropic.message(text)
    answer.delay = 0.1
    return answer


@pytest.mark.slow
def test_a_limit_holds_over_all_workers(
    notes: Path, skillrun: Call, store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    most = 0

    def counted(asked: Asked) -> Answer:
        nonlocal most
        ((held,),) = open_database(store).rows("SELECT count(*) FROM tickets WHERE is_held")
        most = max(most, held)
        return written(asked)

    with claude(monkeypatch, counted) as wire:
        assert skillrun("limits", "anthropic=2").out == "anthropic: 0 of 2 slots held\n"
        for number in range(6):
            assert skillrun("submit", "notes", "Ada", "--name", f"a{number}").code == 0
        with workers(notes, "--runs", "3", number=2):
            until(lambda: completed(store) == 6)
    assert sum(asked.path.startswith("/v1/messages") for asked in wire.asked) == 6 * CALLS
    assert (wire.most, most) == (2, 2)
    assert skillrun("limits", "--json").json == [
        {"provider": "anthropic", "most": 2, "pause": 0.0, "held": 0, "waiting": 0}
    ]


@pytest.mark.slow
def test_a_wait_that_a_provider_asks_for_holds_for_all_workers(
    notes: Path, skillrun: Call, store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    times: list[float] = []

    def limited(asked: Asked) -> Answer:
        times.append(time.monotonic())
        if len(times) == 8:
            return anthropic.error(429, "rate_limit_error", "Slow down", retry_after="2")
        return written(asked)

    with claude(monkeypatch, limited):
        for number in range(4):
            assert skillrun("submit", "notes", "Ada", "--name", f"a{number}").code == 0
        with workers(notes, "--runs", "2", number=2):
            until(lambda: completed(store) == 4)
    asked = times[7]
    assert len([each for each in times if asked + 0.5 < each < asked + 1.9]) == 0
    assert len(times) == 4 * CALLS + 1


@pytest.mark.slow
def test_a_budget_holds_over_those_who_take_a_run_up(notes: Path, skillrun: Call, store: str) -> None:
    assert skillrun("submit", "notes", "Ada", "--name", "ada", "--budget", "calls=4", *SCRIPTED).code == 0
    replies = "SELECT count(*) FROM records WHERE kind = 'reply'"
    taken = 0
    while open_database(store).rows(replies) < [(4,)]:
        environment = {**os.environ, "SKILLRUN_KILL_AT": str(12 + taken)}
        died = run_skillrun("work", "ada", cwd=notes, env=environment, stdout=DEVNULL)
        taken += died.returncode == -signal.SIGKILL
        open_database(store).rows("UPDATE runs SET lease_until = now() - interval '1 s' WHERE status = 'running'")
        if died.returncode != -signal.SIGKILL:
            break
    assert taken > 1
    skillrun("work", "ada")
    sent = "SELECT count(*) FROM records WHERE kind = 'sent'"
    assert open_database(store).rows(sent) == [(4,)]
    assert skillrun("show", "ada", "--json").json["status"] == "waiting"


@pytest.mark.slow
def test_what_has_a_higher_priority_is_worked_on_earlier(notes: Path, skillrun: Call, store: str) -> None:
    for number, priority in enumerate([0, 0, 5, 0, 9, 5]):
        run = ("submit", "notes", "Ada", "--name", f"a{number}", "--priority", str(priority), *SCRIPTED)
        assert skillrun(*run).code == 0
    with workers(notes, "--runs", "1"):
        until(lambda: completed(store) == 6)
    order = open_database(store).rows("SELECT name FROM runs ORDER BY ended_at")
    assert [name for (name,) in order] == ["a4", "a2", "a5", "a0", "a1", "a3"]


def test_limits_that_cannot_be_are_refused(skillrun: Call, store: str) -> None:
    assert skillrun("limits").out.startswith("no provider has a shared limit")
    for wrong in ("anthropic", "anthropic=0", "anthropic=-1", "anthropic=many", "=3"):
        done = skillrun("limits", wrong)
        assert done.code == 2
        assert f"`{wrong}` is not a valid limit" in done.err
    near = skillrun("limits", "antropic=3")
    assert near.code == 0
    assert "no provider is named `antropic`; did you mean `anthropic`?" in near.err
    assert skillrun("limits", "antropic=none").out.startswith("no provider has a shared limit")
