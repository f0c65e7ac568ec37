"""Rules that apply across all workers: provider limits, run budgets and priorities."""

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
from tests.servers.wire import Answer, Wire, WireRequest, serve

pytestmark = [pytest.mark.row("W4"), pytest.mark.allow_hosts(["127.0.0.1"])]
TIMEOUT = 60.0  # seconds
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
    other_folder = folder.parent / "elsewhere"
    other_folder.mkdir(exist_ok=True)
    with ExitStack() as stack:
        for _ in range(number):
            process = start_skillrun("worker", "--lease", "4", *arguments, cwd=other_folder, stdout=DEVNULL)
            stack.enter_context(process)
            stack.callback(process.kill)
        yield


def wait_until(condition: Callable[[], Any]) -> None:
    end = time.monotonic() + TIMEOUT
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.1)


def count_completed(store: str) -> int:
    ((number,),) = open_database(store).rows("SELECT count(*) FROM runs WHERE status = 'completed'")
    return int(number)


@contextmanager
def serve_anthropic(monkeypatch: pytest.MonkeyPatch, reply_to_call: Callable[[WireRequest], Answer]) -> Iterator[Wire]:
    def reply(request: WireRequest) -> Answer:
        models = request.path.startswith("/v1/models")
        return anthropic.models("claude-opus-5-5", "claude-haiku-5-5") if models else reply_to_call(request)

    with serve(reply) as wire:
        monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-secret")
        monkeypatch.setenv("ANTHROPIC_BASE_URL", wire.url)
        yield wire


def reply_with_note(request: WireRequest) -> Answer:
    text = anthropic.text("A note.")
    answer = anthropic.stream("A note.") if request.body.get("stream") else anthropic.message(text)
    answer.delay = 0.1
    return answer


@pytest.mark.slow
def test_a_limit_applies_across_all_workers(
    notes: Path, skillrun: Call, store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    max_held = 0

    def count_held_slots(request: WireRequest) -> Answer:
        nonlocal max_held
        ((held,),) = open_database(store).rows("SELECT count(*) FROM tickets WHERE is_held")
        max_held = max(max_held, held)
        return reply_with_note(request)

    with serve_anthropic(monkeypatch, count_held_slots) as wire:
        assert skillrun("worker", "limits", "anthropic=2").out == "anthropic: 0 of 2 slots held\n"
        for number in range(6):
            assert skillrun("submit", "notes", "Ada", "--name", f"a{number}").code == 0
        with workers(notes, "--runs", "3", number=2):
            wait_until(lambda: count_completed(store) == 6)
    assert sum(request.path.startswith("/v1/messages") for request in wire.asked) == 6 * CALLS
    assert (wire.most, max_held) == (2, 2)
    assert skillrun("worker", "limits", "--json").json == [
        {"provider": "anthropic", "most": 2, "pause": 0.0, "held": 0, "waiting": 0}
    ]


@pytest.mark.slow
def test_a_retry_after_header_pauses_all_workers(
    notes: Path, skillrun: Call, store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    times: list[float] = []

    def limit_the_eighth_call(request: WireRequest) -> Answer:
        times.append(time.monotonic())
        if len(times) == 8:
            return anthropic.error(429, "rate_limit_error", "Slow down", retry_after="2")
        return reply_with_note(request)

    with serve_anthropic(monkeypatch, limit_the_eighth_call):
        for number in range(4):
            assert skillrun("submit", "notes", "Ada", "--name", f"a{number}").code == 0
        with workers(notes, "--runs", "2", number=2):
            wait_until(lambda: count_completed(store) == 4)
    limited_at = times[7]
    assert len([each for each in times if limited_at + 0.5 < each < limited_at + 1.9]) == 0
    assert len(times) == 4 * CALLS + 1


@pytest.mark.slow
def test_a_budget_applies_across_workers_that_take_over_a_run(notes: Path, skillrun: Call, store: str) -> None:
    assert skillrun("submit", "notes", "Ada", "--name", "ada", "--budget", "calls=4", *SCRIPTED).code == 0
    replies = "SELECT count(*) FROM records WHERE kind = 'reply'"
    takeovers = 0
    while open_database(store).rows(replies) < [(4,)]:
        environment = {**os.environ, "SKILLRUN_KILL_AT": str(12 + takeovers)}
        worker = run_skillrun("worker", "once", "ada", cwd=notes, env=environment, stdout=DEVNULL)
        takeovers += worker.returncode == -signal.SIGKILL
        open_database(store).rows("UPDATE runs SET lease_until = now() - interval '1 s' WHERE status = 'running'")
        if worker.returncode != -signal.SIGKILL:
            break
    assert takeovers > 1
    skillrun("worker", "once", "ada")
    sent = "SELECT count(*) FROM records WHERE kind = 'sent'"
    assert open_database(store).rows(sent) == [(4,)]
    assert skillrun("show", "ada", "--json").json["status"] == "waiting"


@pytest.mark.slow
def test_runs_with_a_higher_priority_start_earlier(notes: Path, skillrun: Call, store: str) -> None:
    for number, priority in enumerate([0, 0, 5, 0, 9, 5]):
        run = ("submit", "notes", "Ada", "--name", f"a{number}", "--priority", str(priority), *SCRIPTED)
        assert skillrun(*run).code == 0
    with workers(notes, "--runs", "1"):
        wait_until(lambda: count_completed(store) == 6)
    order = open_database(store).rows("SELECT name FROM runs ORDER BY ended_at")
    assert [name for (name,) in order] == ["a4", "a2", "a5", "a0", "a1", "a3"]


def test_invalid_limits_are_refused(skillrun: Call, store: str) -> None:
    assert skillrun("worker", "limits").out.startswith("no provider has a shared limit")
    for wrong in ("anthropic", "anthropic=0", "anthropic=-1", "anthropic=many", "=3"):
        done = skillrun("worker", "limits", wrong)
        assert done.code == 2
        assert f"`{wrong}` is not a valid limit" in done.err
    unknown = skillrun("worker", "limits", "antropic=3")
    assert unknown.code == 0
    assert "no provider is named `antropic`; did you mean `anthropic`?" in unknown.err
    assert skillrun("worker", "limits", "antropic=none").out.startswith("no provider has a shared limit")
