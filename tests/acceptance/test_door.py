"""The path of every call: it fits the budget, is recorded before it is sent, and is retried in one place.

Sixty members call a provider that accepts four calls at a time and counts its requests.
"""

from __future__ import annotations

import asyncio
import errno
import json
import os
import re
import signal
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from threading import Event
from types import SimpleNamespace
from typing import Any

import pytest

from skillrun.models.messages import AttemptListener, Reply, Request
from skillrun.models.scripted import ScriptedGateway
from skillrun.runtime import run_budget
from skillrun.store import kill_points
from skillrun.store.local.journal import read_journal
from tests.acceptance.conftest import Call, Done, Make
from tests.servers import openai
from tests.servers.wire import Answer, Wire, WireRequest, serve

pytestmark = pytest.mark.allow_hosts(["127.0.0.1"])

MEMBERS = 60
RECORD = {"summary": "Done.", "key_decisions": [], "open_questions": [], "risks_identified": []}
HELLO = openai.completion("Hello.")
BROKEN = openai.error(500, "no such luck")
WORKFLOW = "---\nname: crowd\nconfig: crowd\nphases:\n  meeting:\n---\n"
STEP = "  - {{id: words, agent: {members}, {more}}}\n"
PHASE = "---\nkind: phase\nsteps:\n{steps}---\n## words\nSay hello.\n"
ROLE = "---\nname: guest\nmodel: strong\nvariants:\n{lenses}---\nYou are brief.\n"
MODELS = """providers:
  here: {{kind: openai, base_url: "{url}", key: "", concurrency: 4}}
models: {{"here:m": {{window: 100000, max_output: 1000, input: 1000, output: 1000}}}}
tiers: {{strong: "here:m", fast: "here:m"}}
retry: {{attempts: 6, seconds: 60, first: 0}}
"""
BREAKERS = "breakers: {slow: {limit: 3, then: fall back}}\n"


def member(asked: WireRequest) -> str:
    """The lens of the member whose prompt this is; nothing for the summary of a phase."""
    found = re.search(r"lens (n\d+)\b", json.dumps(asked.body["messages"]))
    return found[1] if found else ""


class Crowd:
    """A project whose only phase calls guests at a server, and the results of its runs."""

    def __init__(self, folder: Path, skillrun: Call) -> None:
        self.folder, self.skillrun = folder, skillrun
        self.wire = Wire([])
        self.wire.url = "http://127.0.0.1:9"

    @contextmanager
    def serve(
        self, replies: Callable[[WireRequest], Answer] | Answer, members: int = MEMBERS, **step: Any
    ) -> Iterator[None]:
        """Serve these replies to the guests, and a valid record for the summary of a phase."""

        def reply(asked: WireRequest) -> Answer:
            if not member(asked):
                return openai.completion(json.dumps(RECORD))
            return replies if isinstance(replies, Answer) else replies(asked)

        with serve(reply) as self.wire:
            self.write(members, **step)
            yield

    def write(self, members: int, **step: Any) -> None:
        guests = [f"guest:n{number}" for number in range(members)]
        values = {
            "members": json.dumps(guests if members > 1 else guests[0]),
            "more": json.dumps(step)[1:-1] or "when: true",
        }
        lenses = "".join(f"  n{number}: the lens n{number}\n" for number in range(members))
        files = {
            "workflows/crowd.md": WORKFLOW,
            "skills/crowd/meeting.md": PHASE.format(steps=STEP.format(**values)),
            "roles/guest.md": ROLE.format(lenses=lenses),
            "config/models.yaml": MODELS.format(url=f"{self.wire.url}/v1"),
            "config/crowd.yaml": BREAKERS,
        }
        for name, text in files.items():
            path = self.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")

    def run(self, *arguments: str) -> Done:
        return self.skillrun("crowd", "--name", "it", "--unattended", *arguments)

    def resume(self, *arguments: str) -> Done:
        return self.skillrun("resume", "it", "--unattended", "--yes", *arguments)

    def requests(self) -> Counter[str]:
        """The number of requests that the provider received for each guest."""
        return Counter(filter(None, map(member, self.wire.asked)))

    def entries(self, *kinds: Any) -> Counter[str]:
        """The number of journal entries of these kinds for each guest."""
        with closing(read_journal(self.folder / "runs" / "it")) as journal:
            found = (entry.address for kind in kinds for entry in journal.entries(kind))
            return Counter(name[1] for one in found if (name := re.search(r"guest:(n\d+)", one)))

    def pending_calls(self) -> list[str]:
        with closing(read_journal(self.folder / "runs" / "it")) as journal:
            return [address for address, _ in journal.pending_calls()]


@pytest.fixture
def crowd(project: Make, skillrun: Call) -> Crowd:
    return Crowd(project(), skillrun)


def next_command(done: Done) -> list[str]:
    """The command after `next:`, without the program's name."""
    found = re.search(r"next: .*?`skillrun ([^`]*)`", done.out)
    assert found is not None, done.out
    return found[1].split()


# -- budgets -------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.finding("FM1")
def test_a_call_budget_holds_back_queued_calls_and_the_printed_command_resumes(crowd: Crowd) -> None:
    with crowd.serve(HELLO):
        done = crowd.run("--budget", "calls=10")
        assert (done.code, crowd.requests().total()) == (75, 10)
        assert crowd.entries("sent") == crowd.entries("reply") == crowd.requests()
        assert "waiting: the budget of 10 calls is spent" in done.out
        assert next_command(done) == ["resume", "it", "--unattended", "--budget", "calls=60"]
        done = crowd.skillrun(*next_command(done))
        assert crowd.requests() == Counter(f"n{number}" for number in range(MEMBERS))
        assert done.code == 0


@pytest.mark.slow
@pytest.mark.finding("FM1", "FM8")
@pytest.mark.parametrize(("budget", "most"), [("tokens=1500", 15), ("price=1.5", 15)])
def test_the_maximum_cost_of_a_call_holds_back_calls_but_not_the_run(budget: str, most: int, crowd: Crowd) -> None:
    without_usage = Answer({key: value for key, value in HELLO.body.items() if key != "usage"})
    with crowd.serve(without_usage, members=20):
        done = crowd.run("--budget", budget)
        assert done.code == 75
        assert 1 < crowd.requests().total() < most
        assert crowd.wire.most == 1  # each could use the whole remaining budget
        before = crowd.requests().total()
        crowd.skillrun(*next_command(done))
        assert crowd.requests().total() > before


@pytest.mark.slow
@pytest.mark.finding("FM1")
def test_a_call_that_waited_for_a_slot_checks_the_time_budget_again(crowd: Crowd, monkeypatch: Any) -> None:
    clock = [0.0]
    monkeypatch.setattr(run_budget, "time", SimpleNamespace(monotonic=lambda: clock[0]))

    def reply_late(_asked: WireRequest) -> Answer:
        clock[0] = 100.0
        return HELLO

    with crowd.serve(reply_late):
        done = crowd.run("--budget", "minutes=1")
        assert done.code == 75
        assert crowd.requests().total() <= 4
        assert crowd.entries("sent") == crowd.requests()
        assert "the budget of 1 minute is spent" in done.out
        assert next_command(done) == ["resume", "it", "--unattended", "--budget", "minutes=2"]


# -- the journal ---------------------------------------------------------------------------------------------------


def fail_commits(monkeypatch: Any, at: int, times: int) -> None:
    """Let `times` commits fail with a full disk, starting with number `at`."""
    commits = 0

    def hook(name: str) -> None:
        nonlocal commits
        commits += name == "commit: before"
        if name == "commit: before" and at <= commits < at + times:
            raise OSError(errno.ENOSPC, "no space left")

    monkeypatch.setattr(kill_points, "hook", hook)


@pytest.mark.slow
@pytest.mark.finding("FM2")
@pytest.mark.parametrize("at", [1, 5, 8, 13])
def test_after_a_failed_write_no_call_is_sent_and_no_reply_is_lost(at: int, crowd: Crowd, monkeypatch: Any) -> None:
    with crowd.serve(HELLO):
        fail_commits(monkeypatch, at, 1)
        done = crowd.run()
        assert done.code == 1
        assert crowd.requests().total() <= at + 4
        assert crowd.entries("reply") == crowd.requests()
        assert crowd.pending_calls() == []
        assert "no space left); all replies are recorded" in done.out
        assert "Nothing was lost" not in done.out
        monkeypatch.setattr(kill_points, "hook", None)
        assert crowd.skillrun(*next_command(done)).code == 0
        assert crowd.requests() == Counter(f"n{number}" for number in range(MEMBERS))


@pytest.mark.slow
@pytest.mark.finding("FM2")
def test_replies_that_could_not_be_stored_are_reported_as_lost(crowd: Crowd, monkeypatch: Any) -> None:
    with crowd.serve(HELLO):
        fail_commits(monkeypatch, 8, 10**6)
        done = crowd.run()
        lost = crowd.requests() - crowd.entries("reply")
        assert done.code == 1
        assert 0 < lost.total() <= 4
        assert re.search(rf"{lost.total()} (reply|replies) could not be stored and will be requested again", done.out)
        assert "Nothing was lost" not in done.out
        assert len(crowd.pending_calls()) == lost.total()
        monkeypatch.setattr(kill_points, "hook", None)
        assert crowd.skillrun(*next_command(done)).code == 0
        assert crowd.requests() == Counter(f"n{number}" for number in range(MEMBERS)) + lost


@pytest.mark.slow
@pytest.mark.finding("FM6")
def test_only_calls_at_the_provider_are_reported_as_unknown(crowd: Crowd) -> None:
    released = Event()

    def hang(_asked: WireRequest) -> Answer:
        if len(crowd.wire.asked) == 4:
            os.kill(os.getpid(), signal.SIGINT)
        released.wait(30)
        return HELLO

    with crowd.serve(hang):
        done = crowd.run()
        released.set()
        assert (done.code, crowd.requests().total()) == (130, 4)
        assert Counter(crowd.pending_calls()).total() == 4
        assert crowd.entries("sent") == crowd.requests()
        runs = [crowd.skillrun(*next_command(done), "--budget", f"calls={most}") for most in (4, 4, 500)]
        assert [run.code for run in runs] == [75, 75, 0]
        assert [(run.out + run.err).count("its reply is unknown") for run in runs] == [4, 0, 0], "reported once"


@pytest.mark.slow
@pytest.mark.finding("FM6", "FL5")
def test_a_rejected_key_is_recorded_and_waiting_calls_are_not_sent(crowd: Crowd) -> None:
    with crowd.serve(openai.error(401, "wrong key")):
        done = crowd.run()
        assert done.code == 1
        assert crowd.requests().total() <= 4
        assert crowd.entries("sent") == crowd.entries("tried") == crowd.requests()
        assert crowd.entries("reply", "failed").total() == 0
        assert crowd.pending_calls() == []
        assert "failed: meeting: `words` was not answered (guest:n0: here:m: here requires a key (HTTP 401" in done.out
    with crowd.serve(HELLO):
        assert crowd.skillrun(*next_command(done), "--yes").code == 0
        assert crowd.requests() == Counter(f"n{number}" for number in range(MEMBERS))


# -- retries -------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.finding("FM7", "FM6")
@pytest.mark.parametrize("step", [{}, {"retry": "slow"}, {"retry": "slow", "otherwise": {"say": "No member came."}}])
def test_a_persistent_error_is_tried_six_times_and_each_attempt_is_recorded(step: dict[str, Any], crowd: Crowd) -> None:
    with crowd.serve(BROKEN, members=1, **step):
        done = crowd.run()
        assert done.code == (0 if "otherwise" in step else 1)
        assert crowd.requests() == crowd.entries("sent") == crowd.entries("tried") == {"n0": 6}
        assert crowd.entries("failed") == {"n0": 1}
        if done.code:
            assert "given up after 6 attempts" in done.out
            crowd.resume()
            assert crowd.requests() == {"n0": 12}


@pytest.mark.slow
@pytest.mark.finding("FM7")
def test_members_without_remaining_attempts_are_left_out_while_others_are_retried(crowd: Crowd) -> None:
    def reply(asked: WireRequest) -> Answer:
        is_first = crowd.requests()["n1"] == 1
        return {"n0": BROKEN, "n1": openai.completion("") if is_first else HELLO}.get(member(asked), HELLO)

    with crowd.serve(reply, members=3):
        assert crowd.run().code == 0
        assert crowd.requests() == {"n0": 6, "n1": 2, "n2": 1}


# -- replies -------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.finding("FM5", "FM8")
def test_an_invalid_reply_fails_only_its_member(crowd: Crowd) -> None:
    valid = HELLO.body
    redirect = Answer({}, 307, {"Location": "/v1/chat/completions"})
    invalid = {
        "n0": Answer({**valid, "choices": []}),
        "n1": Answer({**valid, "choices": {}}),
        "n3": Answer('{"choices":' + "[" * 200_000),
        "n5": openai.completion("Hello.", "tool_calls"),
        "n6": redirect,
    }
    odd = {"n2": Answer({**valid, "created": 10**30}), "n4": openai.completion(finish_reason=None)}
    with crowd.serve(lambda asked: {**invalid, **odd}.get(member(asked), HELLO), members=10):
        done = crowd.run()
        assert done.code == 0, done.out + done.err
        assert "this is a bug" not in done.err
        valid_replies = dict.fromkeys(("n2", "n4", "n7", "n8", "n9"), 1)
        assert crowd.entries("reply") == {**valid_replies, "n5": 2}
        assert crowd.requests() == {**valid_replies, **dict.fromkeys(invalid, 2)}
        assert "continued without guest:n0" in done.out


# -- refusals ------------------------------------------------------------------------------------------------------

REFUSED = "- {address: '*/guest:n1/*', fail: %s, message: no such luck}\n"


@pytest.mark.finding("FL5")
@pytest.mark.parametrize("kind", ["auth", "not_found"])
def test_a_refused_member_is_left_out_like_any_other_failure(kind: str, crowd: Crowd) -> None:
    (crowd.folder / "script.yaml").write_text(REFUSED % kind)
    crowd.write(3, at_least=2)
    done = crowd.run("--script", "script.yaml")
    assert done.code == 0, done.out
    assert "meeting: warning: words: continued without guest:n1: scripted:default: no such luck" in done.out
    assert crowd.entries("sent") == {"n0": 1, "n1": 1, "n2": 1}


@pytest.mark.slow
@pytest.mark.finding("FL5")
@pytest.mark.parametrize("kind", ["auth", "not_found"])
def test_too_many_refused_members_fail_the_run_or_use_the_fallback(kind: str, crowd: Crowd) -> None:
    (crowd.folder / "script.yaml").write_text(REFUSED % kind)
    crowd.write(3, at_least=3, otherwise={"say": "Too few."})
    assert crowd.run("--script", "script.yaml").code == 0
    (crowd.folder / "runs" / "it").rename(crowd.folder / "runs" / "first")
    crowd.write(3, at_least=3)
    done = crowd.run("--script", "script.yaml")
    assert done.code == 1
    assert "failed: meeting: `words` was not answered (guest:n1: scripted:default: no such luck)" in done.out
    assert crowd.entries("sent")["n1"] == 1
    assert crowd.entries("failed").total() == 0
    done = crowd.resume("--script", "script.yaml")
    assert (done.code, crowd.entries("sent")["n1"]) == (1, 2)
    (crowd.folder / "script.yaml").write_text("[]\n")
    assert crowd.resume("--script", "script.yaml").code == 0
    assert crowd.entries("sent") == {"n0": 1, "n1": 3, "n2": 1}


@pytest.mark.finding("FL5")
def test_a_phase_does_not_complete_without_members_after_a_wrong_key(crowd: Crowd) -> None:
    (crowd.folder / "script.yaml").write_text("- {address: '*/guest:*', fail: auth}\n")
    crowd.write(2, at_least=0)
    done = crowd.run("--script", "script.yaml")
    assert done.code == 1
    assert "failed: meeting: `words` was not answered (guest:n0: scripted:default: " in done.out
    (crowd.folder / "script.yaml").write_text("- {address: '*/guest:*', fail: other}\n")
    assert crowd.resume("--script", "script.yaml").code == 0


# -- bugs ----------------------------------------------------------------------------------------------------------


@pytest.mark.finding("FM5")
def test_a_bug_in_one_phase_cancels_no_call_of_another_phase(crowd: Crowd, monkeypatch: Any) -> None:
    crowd.write(1)
    files = {
        "workflows/crowd.md": WORKFLOW.replace(
            "  meeting:\n", "  meeting:\n  other: {after: []}\n  broken: {after: []}\nparallel: true\n"
        )
    }
    phase = PHASE.format(steps=STEP.format(members="guest:n0", more="when: true"))
    for name in ("other", "broken"):
        files[f"skills/crowd/{name}.md"] = phase
    for name, text in files.items():
        (crowd.folder / name).write_text(text, encoding="utf-8")
    send = ScriptedGateway.send

    async def send_or_crash(self: ScriptedGateway, request: Request, address: str, attempts: AttemptListener) -> Reply:
        if "/broken/" in address:
            raise ZeroDivisionError
        for _ in range(50):
            await asyncio.sleep(0)
        return await send(self, request, address, attempts)

    monkeypatch.setattr(ScriptedGateway, "send", send_or_crash)
    (crowd.folder / "script.yaml").write_text("[]\n")
    assert crowd.run("--script", "script.yaml").code == 3
    assert crowd.entries("reply") == crowd.entries("sent") == {"n0": 2}
    assert "status: failed\n" in (crowd.folder / "runs" / "it" / "state.md").read_text()
    monkeypatch.undo()
    monkeypatch.chdir(crowd.folder)
    assert crowd.resume("--script", "script.yaml").code == 0
    assert crowd.entries("sent") == {"n0": 3}
