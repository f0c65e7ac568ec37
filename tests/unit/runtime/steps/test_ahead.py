"""The first call of a model in a panel is sent alone until its first response; no reply is lost if a call fails."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from skillrun.checker.checker import check_workflow
from skillrun.library.library import Library
from skillrun.library.roots import search_path
from skillrun.models.catalogue import Catalogue
from skillrun.models.messages import NULL_LISTENER, AttemptListener, ErrorKind, Reply, Request, ToolCall
from skillrun.models.scripted import Rule, ScriptedGateway
from skillrun.questions.responder import open_responder
from skillrun.runtime import session
from skillrun.runtime.run import RunOptions, Services, Session
from skillrun.store.local.journal import SqliteJournal
from skillrun.store.local.local_store import LocalStore
from skillrun.store.outcome import Outcome
from skillrun.syntax.diagnostics import render_problem

pytestmark = pytest.mark.row("Q7")

FILES = {
    "workflows/w.md": (
        "---\nname: w\ndescription: A panel.\ninputs: {repo: path}\nrepository: '{{ inputs.repo }}'\nphases: {look: }\n"
        "---\n## Preamble\n" + "You look at a change. " * 400
    ),
    "skills/w/look.md": (
        "---\nkind: phase\nsteps:\n  - {id: seen, agent: ['looker:one', 'looker:two', 'looker:three'], at_least: 1}\n"
        "---\n## seen\nLook.\n"
    ),
    "roles/looker.md": (
        "---\nname: looker\ndescription: Looks.\ntools: [Read]\nvariants: {one: a, two: b, three: c}\n---\nYou look.\n"
    ),
    "code/a.py": "a = 1\n",
}
READ = ToolCall("call-1", "Read", {"path": "a.py"})
ONE, TWO, THREE = (f"w/look/seen/looker:{name}" for name in ("one", "two", "three"))


class Watched(ScriptedGateway):
    """Records calls and replies in order; delays some calls until a condition holds."""

    def __init__(self, rules: list[Rule], waits: dict[str, Callable[[list[str]], bool]]) -> None:
        super().__init__(rules)
        self.waits = waits
        self.told: list[str] = []
        self.second = asyncio.Event()

    async def send(self, request: Request, address: str, attempts: AttemptListener = NULL_LISTENER) -> Reply:
        self.told.append(f"sent {address}")
        if address == f"{TWO}/1.1":
            self.second.set()
        for _ in range(2000):  # turns of the event loop: enough for every call that could be sent
            if address in self.waits and self.waits[address](self.told):
                break
            await asyncio.sleep(0 if address not in self.waits else 0.001)
        try:
            return await super().send(request, address, attempts)
        finally:
            self.told.append(f"back {address}")


def ran(project: Path, gateway: Watched, *, cancel: bool = False, again: bool = False) -> Outcome:
    for name, text in FILES.items():
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_text(text, encoding="utf-8")
    library = Library(search_path(project))
    program = check_workflow(library, "w")
    models = library.config("models")
    assert not library.problems.has_errors, "\n".join(map(render_problem, library.problems))
    assert program is not None
    assert models is not None
    services = Services(Catalogue.from_config(models.data), gateway, open_responder(unattended=True))
    setting = Session(program, services, RunOptions(project, "scripted:x"))
    inputs = {"repo": "code"}

    async def process() -> Outcome:
        runs = LocalStore(project / "runs")
        going = (
            session.resume_run(setting, runs.open_run("run"))
            if again
            else session.start_run(setting, inputs, runs, "run")
        )
        task = asyncio.ensure_future(going)
        if cancel:
            await gateway.second.wait()
            task.cancel()
        return await task

    return asyncio.run(process())


def firsts(gateway: Watched) -> list[str]:
    return [line for line in gateway.told if line.endswith("/1.1")]


@pytest.mark.slow
def test_the_others_start_when_the_first_has_its_first_response_and_not_before(tmp_path: Path) -> None:
    rules = [Rule(f"{ONE}/1.1", calls=(READ,))]
    others = {f"sent {TWO}/1.1", f"sent {THREE}/1.1"}
    gateway = Watched(rules, {f"{ONE}/2.1": lambda told: others <= set(told)})
    outcome = ran(tmp_path, gateway)
    assert (outcome.status, outcome.reason) == ("completed", "")
    assert firsts(gateway)[:2] == [f"sent {ONE}/1.1", f"back {ONE}/1.1"]
    assert max(map(gateway.told.index, others)) < gateway.told.index(f"back {ONE}/2.1")
    asked = {address: request.fingerprint() for address, request in gateway.calls}
    again = Watched(rules, {})
    assert ran(tmp_path / "again", again).status == "completed"
    first = {address: request.fingerprint() for address, request in again.calls if "/1.1" in address}
    assert first.items() <= asked.items()


@pytest.mark.parametrize("how", ["timeout", "overloaded", "other"])
def test_the_others_start_as_well_where_the_first_gets_no_response(tmp_path: Path, how: ErrorKind) -> None:
    gateway = Watched([Rule(f"{ONE}/*", fail=how)], {})
    assert ran(tmp_path, gateway).status == "completed"
    assert firsts(gateway)[:2] == [f"sent {ONE}/1.1", f"back {ONE}/1.1"]
    assert {f"back {TWO}/1.1", f"back {THREE}/1.1"} < set(gateway.told)


def test_what_ends_the_run_at_the_first_lets_nobody_else_begin(tmp_path: Path) -> None:
    gateway = Watched([Rule(f"{ONE}/*", fail="budget")], {})
    assert ran(tmp_path, gateway).status != "completed"
    assert gateway.told == [f"sent {ONE}/1.1", f"back {ONE}/1.1"]


@pytest.mark.row("X4")
def test_what_ends_the_run_later_loses_no_reply_of_the_others(tmp_path: Path) -> None:
    rules = [
        Rule(f"{ONE}/1.1", calls=(READ,)),
        Rule(f"{ONE}/2.1", fail="budget", times=1),
    ]
    gateway = Watched(rules, {f"{THREE}/1.1": lambda told: f"back {ONE}/2.1" in told})
    assert ran(tmp_path, gateway).status != "completed"
    with closing(SqliteJournal.open(tmp_path / "runs" / "run")) as journal:
        assert {entry.address for entry in journal.entries("reply")} == {f"{one}/1.1" for one in (ONE, TWO, THREE)}
    again = Watched([], {})
    assert ran(tmp_path, again, again=True).status == "completed"
    assert [address for address, _ in again.calls if "/seen/" in address] == [f"{ONE}/2.1"]


@pytest.mark.row("X4")
def test_an_interrupt_while_the_others_are_under_way_is_gone_on_with(tmp_path: Path) -> None:
    gateway = Watched([Rule(f"{ONE}/1.1", calls=(READ,))], {f"{TWO}/1.1": lambda told: len(told) > 10**6})
    assert ran(tmp_path, gateway, cancel=True).status == "interrupted"
    again = Watched([], {})
    assert ran(tmp_path, again, again=True).status == "completed"
    assert f"{ONE}/1.1" not in [address for address, _ in again.calls]
    assert f"{TWO}/1.1" in [address for address, _ in again.calls]
