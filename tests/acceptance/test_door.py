"""One door for calls: what is sent has room in the budget, stands on record first, and is retried in one place.

Sixty members and a provider that takes four calls at once; what it was asked is counted there.
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
from skillrun.store import checkpoints
from skillrun.store.local.journal import read_journal
from tests.acceptance.conftest import Call, Done, Make
from tests.servers import openai
from tests.servers.wire import Answer, Asked, Wire, serve

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


def member(asked: Asked) -> str:
    """The lens of the member whose prompt this is; nothing for the summary of a phase."""
    found = re.search(r"lens (n\d+)\b", json.dumps(asked.body["messages"]))
    return found[1] if found else ""


class Crowd:
    """A project whose one phase asks guests, at a server; and what came of its runs."""

    def __init__(self, folder: Path, skillrun: Call) -> None:
        self.folder, self.skillrun = folder, skillrun
        self.wire = Wire([])
        self.wire.url = "http://127.0.0.1:9"

    @contextmanager
    def served(
        self, answers: Callable[[Asked], Answer] | Answer, members: int = MEMBERS, **step: Any
    ) -> Iterator[None]:
        """A provider that answers the guests so, and puts phases on record."""

        def answer(asked: Asked) -> Answer:
            if not member(asked):
                return openai.completion(json.dumps(RECORD))
            return answers if isinstance(answers, Answer) else answers(asked)

        with serve(answer) as self.wire:
            self.write(members, **step)
            yield

    def write(self, members: int, **step: Any) -> None:
        seated = [f"guest:n{number}" for number in range(members)]
        one = {
            "members": json.dumps(seated if members > 1 else seated[0]),
            "more": json.dumps(step)[1:-1] or "when: true",
        }
        lenses = "".join(f"  n{number}: the lens n{number}\n" for number in range(members))
        files = {
            "workflows/crowd.md": WORKFLOW,
            "skills/crowd/meeting.md": PHASE.format(steps=STEP.format(**one)),
            "roles/guest.md": ROLE.format(lenses=lenses),
            "config/models.yaml": MODELS.format(url=f"{self.wire.url}/v1"),
            "config/crowd.yaml": BREAKERS,
        }
        for name, text in files.items():
            path = self.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")

    def run(self, *words: str) -> Done:
        return self.skillrun("crowd", "--name", "it", "--unattended", *words)

    def resume(self, *words: str) -> Done:
        return self.skillrun("resume", "it", "--unattended", "--yes", *words)

    def asked(self) -> Counter[str]:
        """How often the provider was asked for each guest."""
        return Counter(filter(None, map(member, self.wire.asked)))

    def recorded(self, *kinds: Any) -> Counter[str]:
        """How many records of a kind the journal has of each guest."""
        with closing(read_journal(self.folder / "runs" / "it")) as journal:
            found = (entry.address for kind in kinds for entry in journal.entries(kind))
            return Counter(name[1] for one in found if (name := re.search(r"guest:(n\d+)", one)))

    def unanswered(self) -> list[str]:
        with closing(read_journal(self.folder / "runs" / "it")) as journal:
            return [address for address, _ in journal.pending_calls()]


@pytest.fixture
def crowd(project: Make, skillrun: Call) -> Crowd:
    return Crowd(project(), skillrun)


def next_command(done: Done) -> list[str]:
    """The command behind `next:`, without the program's name."""
    found = re.search(r"next: .*?`skillrun ([^`]*)`", done.out)
    assert found is not None, done.out
    return found[1].split()


# -- budgets -------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.finding("FM1")
def test_a_budget_of_calls_holds_back_those_that_queue_and_its_command_goes_on(crowd: Crowd) -> None:
    with crowd.served(HELLO):
        done = crowd.run("--budget", "calls=10")
        assert (done.code, crowd.asked().total()) == (75, 10)
        assert crowd.recorded("sent") == crowd.recorded("reply") == crowd.asked()
        assert "waiting: the budget of 10 calls is spent" in done.out
        assert next_command(done) == ["resume", "it", "--unattended", "--budget", "calls=60"]
        done = crowd.skillrun(*next_command(done))
        assert crowd.asked() == Counter(f"n{number}" for number in range(MEMBERS))
        assert done.code == 0


@pytest.mark.slow
@pytest.mark.finding("FM1", "FM8")
@pytest.mark.parametrize(("budget", "most"), [("tokens=1500", 15), ("price=1.5", 15)])
def test_what_calls_could_use_holds_others_back_and_not_the_run(budget: str, most: int, crowd: Crowd) -> None:
    silent = Answer({key: value for key, value in HELLO.body.items() if key != "usage"})
    with crowd.served(silent, members=20):
        done = crowd.run("--budget", budget)
        assert done.code == 75
        assert 1 < crowd.asked().total() < most
        assert crowd.wire.most == 1  # each could use all that is left
        before = crowd.asked().total()
        crowd.skillrun(*next_command(done))
        assert crowd.asked().total() > before


@pytest.mark.slow
@pytest.mark.finding("FM1")
def test_the_time_is_looked_at_again_by_who_has_waited_for_a_place(crowd: Crowd, monkeypatch: Any) -> None:
    clock = [0.0]
    monkeypatch.setattr(run_budget, "time", SimpleNamespace(monotonic=lambda: clock[0]))

    def late(_asked: Asked) -> Answer:
        clock[0] = 100.0
        return HELLO

    with crowd.served(late):
        done = crowd.run("--budget", "minutes=1")
        assert done.code == 75
        assert crowd.asked().total() <= 4
        assert crowd.recorded("sent") == crowd.asked()
        assert "the budget of 1 minute is spent" in done.out
        assert next_command(done) == ["resume", "it", "--unattended", "--budget", "minutes=2"]


# -- the journal ---------------------------------------------------------------------------------------------------


def failing(monkeypatch: Any, at: int, times: int) -> None:
    """So many commits find no room on the disk, from this one on."""
    commits = 0

    def hook(name: str) -> None:
        nonlocal commits
        commits += name == "commit: before"
        if name == "commit: before" and at <= commits < at + times:
            raise OSError(errno.ENOSPC, "no space left")

    monkeypatch.setattr(checkpoints, "hook", hook)


@pytest.mark.slow
@pytest.mark.finding("FM2")
@pytest.mark.parametrize("at", [1, 5, 8, 13])
def test_nothing_is_sent_once_a_record_could_not_be_written_and_nothing_that_came_is_lost(
    at: int, crowd: Crowd, monkeypatch: Any
) -> None:
    with crowd.served(HELLO):
        failing(monkeypatch, at, 1)
        done = crowd.run()
        assert done.code == 1
        assert crowd.asked().total() <= at + 4
        assert crowd.recorded("reply") == crowd.asked()
        assert crowd.unanswered() == []
        assert "no space left); all replies are recorded" in done.out
        assert "Nothing was lost" not in done.out
        monkeypatch.setattr(checkpoints, "hook", None)
        assert crowd.skillrun(*next_command(done)).code == 0
        assert crowd.asked() == Counter(f"n{number}" for number in range(MEMBERS))


@pytest.mark.slow
@pytest.mark.finding("FM2")
def test_answers_that_could_not_be_kept_are_said_to_be_lost(crowd: Crowd, monkeypatch: Any) -> None:
    with crowd.served(HELLO):
        failing(monkeypatch, 8, 10**6)
        done = crowd.run()
        lost = crowd.asked() - crowd.recorded("reply")
        assert done.code == 1
        assert 0 < lost.total() <= 4
        assert re.search(rf"{lost.total()} (reply|replies) could not be stored and will be requested again", done.out)
        assert "Nothing was lost" not in done.out
        assert len(crowd.unanswered()) == lost.total()
        monkeypatch.setattr(checkpoints, "hook", None)
        assert crowd.skillrun(*next_command(done)).code == 0
        assert crowd.asked() == Counter(f"n{number}" for number in range(MEMBERS)) + lost


@pytest.mark.slow
@pytest.mark.finding("FM6")
def test_only_what_was_at_the_provider_is_said_to_be_unknown(crowd: Crowd) -> None:
    over = Event()

    def hang(_asked: Asked) -> Answer:
        if len(crowd.wire.asked) == 4:
            os.kill(os.getpid(), signal.SIGINT)
        over.wait(30)
        return HELLO

    with crowd.served(hang):
        done = crowd.run()
        over.set()
        assert (done.code, crowd.asked().total()) == (130, 4)
        assert Counter(crowd.unanswered()).total() == 4
        assert crowd.recorded("sent") == crowd.asked()
        told = [crowd.skillrun(*next_command(done), "--budget", f"calls={most}") for most in (4, 4, 500)]
        assert [one.code for one in told] == [75, 75, 0]
        assert [(one.out + one.err).count("its reply is unknown") for one in told] == [4, 0, 0], "told once"


@pytest.mark.slow
@pytest.mark.finding("FM6", "FL5")
def test_a_refused_key_is_on_record_and_those_that_wait_are_not_sent(crowd: Crowd) -> None:
    with crowd.served(openai.error(401, "wrong key")):
        done = crowd.run()
        assert done.code == 1
        assert crowd.asked().total() <= 4
        assert crowd.recorded("sent") == crowd.recorded("tried") == crowd.asked()
        assert crowd.recorded("reply", "failed").total() == 0
        assert crowd.unanswered() == []
        assert "failed: meeting: `words` was not answered (guest:n0: here:m: here rejects the key" in done.out
    with crowd.served(HELLO):
        assert crowd.skillrun(*next_command(done), "--yes").code == 0
        assert crowd.asked() == Counter(f"n{number}" for number in range(MEMBERS))


# -- retries -------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.finding("FM7", "FM6")
@pytest.mark.parametrize("step", [{}, {"retry": "slow"}, {"retry": "slow", "otherwise": {"say": "Nobody came."}}])
def test_a_lasting_error_is_tried_six_times_and_each_is_on_record(step: dict[str, Any], crowd: Crowd) -> None:
    with crowd.served(BROKEN, members=1, **step):
        done = crowd.run()
        assert done.code == (0 if "otherwise" in step else 1)
        assert crowd.asked() == crowd.recorded("sent") == crowd.recorded("tried") == {"n0": 6}
        assert crowd.recorded("failed") == {"n0": 1}
        if done.code:
            assert "given up after 6 attempts" in done.out
            crowd.resume()
            assert crowd.asked() == {"n0": 12}


@pytest.mark.slow
@pytest.mark.finding("FM7")
def test_members_that_are_tried_no_more_are_left_out_while_others_are_asked_again(crowd: Crowd) -> None:
    def answer(asked: Asked) -> Answer:
        odd = crowd.asked()["n1"] == 1
        return {"n0": BROKEN, "n1": openai.completion("", "length") if odd else HELLO}.get(member(asked), HELLO)

    with crowd.served(answer, members=3):
        assert crowd.run().code == 0
        assert crowd.asked() == {"n0": 6, "n1": 2, "n2": 1}


# -- replies -------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.finding("FM5", "FM8")
def test_odd_replies_are_failures_of_their_members_alone(crowd: Crowd) -> None:
    whole = HELLO.body
    loop = Answer({}, 307, {"Location": "/v1/chat/completions"})
    odd = {
        "n0": Answer({**whole, "choices": []}),
        "n1": Answer({**whole, "choices": {}}),
        "n2": Answer({**whole, "created": 10**30}),
        "n3": Answer('{"choices":' + "[" * 200_000),
        "n4": openai.completion(finish_reason=None),
        "n5": openai.completion("Hello.", "tool_calls"),
        "n6": loop,
    }
    with crowd.served(lambda asked: odd.get(member(asked), HELLO), members=10):
        done = crowd.run()
        assert done.code == 0, done.out + done.err
        assert "this is a bug" not in done.err
        assert crowd.recorded("reply") - Counter(["n4", "n5"] * 2) == {"n7": 1, "n8": 1, "n9": 1}
        assert crowd.asked() == {**dict.fromkeys(odd, 2), "n7": 1, "n8": 1, "n9": 1}
        assert "continued without guest:n0" in done.out


# -- refusals ------------------------------------------------------------------------------------------------------

REFUSED = "- {address: '*/guest:n1/*', fail: %s, message: no such luck}\n"


@pytest.mark.finding("FL5")
@pytest.mark.parametrize("kind", ["auth", "not_found"])
def test_a_refused_member_is_carried_like_any_other_failure(kind: str, crowd: Crowd) -> None:
    (crowd.folder / "script.yaml").write_text(REFUSED % kind)
    crowd.write(3, at_least=2)
    done = crowd.run("--script", "script.yaml")
    assert done.code == 0, done.out
    assert "meeting: warning: words: continued without guest:n1: scripted:default: no such luck" in done.out
    assert crowd.recorded("sent") == {"n0": 1, "n1": 1, "n2": 1}


@pytest.mark.slow
@pytest.mark.finding("FL5")
@pytest.mark.parametrize("kind", ["auth", "not_found"])
def test_too_many_refused_end_the_run_at_once_or_are_stood_in_for(kind: str, crowd: Crowd) -> None:
    (crowd.folder / "script.yaml").write_text(REFUSED % kind)
    crowd.write(3, at_least=3, otherwise={"say": "Too few."})
    assert crowd.run("--script", "script.yaml").code == 0
    (crowd.folder / "runs" / "it").rename(crowd.folder / "runs" / "first")
    crowd.write(3, at_least=3)
    done = crowd.run("--script", "script.yaml")
    assert done.code == 1
    assert "failed: meeting: `words` was not answered (guest:n1: scripted:default: no such luck)" in done.out
    assert crowd.recorded("sent")["n1"] == 1
    assert crowd.recorded("failed").total() == 0
    done = crowd.resume("--script", "script.yaml")
    assert (done.code, crowd.recorded("sent")["n1"]) == (1, 2)
    (crowd.folder / "script.yaml").write_text("[]\n")
    assert crowd.resume("--script", "script.yaml").code == 0
    assert crowd.recorded("sent") == {"n0": 1, "n1": 3, "n2": 1}


@pytest.mark.finding("FL5")
def test_a_phase_is_not_over_without_anybody_because_of_a_wrong_key(crowd: Crowd) -> None:
    (crowd.folder / "script.yaml").write_text("- {address: '*/guest:*', fail: auth}\n")
    crowd.write(2, at_least=0)
    done = crowd.run("--script", "script.yaml")
    assert done.code == 1
    assert "failed: meeting: `words` was not answered (guest:n0: scripted:default: " in done.out
    (crowd.folder / "script.yaml").write_text("- {address: '*/guest:*', fail: other}\n")
    assert crowd.resume("--script", "script.yaml").code == 0


# -- bugs ----------------------------------------------------------------------------------------------------------


@pytest.mark.finding("FM5")
def test_a_bug_in_one_phase_cuts_no_call_of_another_off(crowd: Crowd, monkeypatch: Any) -> None:
    crowd.write(1)
    other = {
        "workflows/crowd.md": WORKFLOW.replace(
            "  meeting:\n", "  meeting:\n  other: {after: []}\n  broken: {after: []}\nparallel: true\n"
        )
    }
    phase = PHASE.format(steps=STEP.format(members="guest:n0", more="when: true"))
    for name in ("other", "broken"):
        other[f"skills/crowd/{name}.md"] = phase
    for name, text in other.items():
        (crowd.folder / name).write_text(text, encoding="utf-8")
    send = ScriptedGateway.send

    async def sent(self: ScriptedGateway, request: Request, address: str, attempts: AttemptListener) -> Reply:
        if "/broken/" in address:
            raise ZeroDivisionError
        for _ in range(50):
            await asyncio.sleep(0)
        return await send(self, request, address, attempts)

    monkeypatch.setattr(ScriptedGateway, "send", sent)
    (crowd.folder / "script.yaml").write_text("[]\n")
    assert crowd.run("--script", "script.yaml").code == 3
    assert crowd.recorded("reply") == crowd.recorded("sent") == {"n0": 2}
    assert "status: failed\n" in (crowd.folder / "runs" / "it" / "state.md").read_text()
    monkeypatch.undo()
    monkeypatch.chdir(crowd.folder)
    assert crowd.resume("--script", "script.yaml").code == 0
    assert crowd.recorded("sent") == {"n0": 3}
