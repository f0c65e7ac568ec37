"""skillrun on the benchmark's works: generated workflows on the real interpreter, journal and run folder.

Only the gateway is the fake model. The runs see the shipped library, and nothing of the user's own.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.subject import CallFailed, Work, main
from skillrun.checker.checker import check_workflow
from skillrun.checker.program import Program
from skillrun.library.library import Library
from skillrun.library.roots import Root, package_library
from skillrun.models.catalogue import Catalogue
from skillrun.models.messages import NULL_LISTENER, AttemptListener, ModelError, Reply, Request, Usage
from skillrun.models.scripted import ScriptedGateway
from skillrun.questions.responder import open_responder
from skillrun.runtime.inputs import validate_inputs
from skillrun.runtime.run import RunOptions, Services, Session
from skillrun.runtime.session import resume_run, start_run
from skillrun.store.journal import Journal
from skillrun.store.local.local_run import LocalRun
from skillrun.store.local.local_store import LocalStore
from skillrun.store.outcome import Outcome
from skillrun.store.stored_run import Store
from skillrun.syntax.diagnostics import render_problem
from skillrun.watch.in_flight_calls import InFlightCalls
from skillrun.watch.watch_loop import Evaluation, WatchLoop

if TYPE_CHECKING:
    from skillrun.extensions.workers.commands.open_store import OpenStore

NAME = "run"
NUMBER = re.compile(r"#(\d+)/|:n(\d+)/")
QUESTION = re.compile(r"^Answer question .+$", re.MULTILINE)
UNLIMITED = {"calls": 1e9, "tokens": 1e12, "price": 1e9, "minutes": 1e6}

WORKFLOW = """---
name: bench
description: One phase of many calls.
inputs:
  calls: integer 1..100000
  members(array): {{type: member, default: []}}
phases:
  {phase}:
---
"""

CHAIN = """---
kind: phase
description: Sequential calls; each prompt contains the previous reply.
steps:
  - id: calls
    repeat:
      - {id: call, agent: caller}
    at_most: "{{ inputs.calls }}"
---
## call
{% if pass.previous.call %}The answer before was: {{ pass.previous.call.text }}{% endif %}
Go on with number {{ pass.index }}.
"""

FAN_OUT = """---
kind: phase
description: All calls at once.
steps:
  - {id: calls, agent: "{{ inputs.members }}"}
---
## calls
Answer as {{ member.id }}.
"""

QUESTIONS = """---
kind: phase
description: All prompts at once, one for each member; the replies are written to a file.
steps:
  - {id: calls, agent: "{{ inputs.members }}", at_least: "{{ inputs.calls }}"}
  - {id: replies, write: replies.md}
---
## calls
{% if member.lens %}{{ member.lens }}{% endif %}

## replies
{% for reply in calls.replies %}{{ reply.text | default('no reply') }}
{% endfor %}
"""


class FakeModel:
    """A gateway whose calls wait before they reply; the summary at the end of the phase is replied to at once."""

    def __init__(self, work: Work) -> None:
        self.work = work
        self.scripted = ScriptedGateway()

    async def send(self, request: Request, address: str, attempts: AttemptListener = NULL_LISTENER) -> Reply:
        match = NUMBER.search(address)
        if match is None:
            return await self.scripted.send(request, address, attempts)
        await attempts.on_sent(1)
        number = int(match[1]) - 1 if match[1] else int(match[2])
        question = QUESTION.search("\n".join(block.text for block in request.messages[-1].blocks))
        try:
            text = await (self.work.answer(number, question[0]) if question else self.work.call(number))
        except CallFailed as error:
            raise ModelError("invalid_request", "the reply was refused") from error
        return Reply(text, (), Usage(100, 20), "end", request.model, self.work.delay, 0.0)

    async def close(self) -> None:
        """There is nothing to close."""


def write_project(
    folder: Path, phase: str, text: str, variants: int, lens: Callable[[int], str] = "the one with number {}".format
) -> None:
    lenses = "".join(f"  n{number}: {lens(number)}\n" for number in range(variants))
    role = f"---\nname: caller\nmodel: fast\nvariants:\n{lenses}---\nYou answer in one sentence.\n"
    files = {
        "workflows/bench.md": WORKFLOW.format(phase=phase),
        f"skills/bench/{phase}.md": text,
        "roles/caller.md": role,
    }
    for name, body in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(body, encoding="utf-8")


def check_project(project: Path) -> Program:
    library = Library([Root(project, "", "project"), Root(package_library(), "skillrun:", "library")])
    program = check_workflow(library, "bench")
    if program is None or library.problems.has_errors:
        raise SystemExit("\n".join(render_problem(problem) for problem in library.problems))
    return program


def session_of(work: Work, program: Program) -> Session:
    models = program.library.config("models")
    assert models is not None
    services = Services(Catalogue.from_config(models.data), FakeModel(work), open_responder(unattended=True))
    return Session(program, services, RunOptions(program.library.roots[0].path, "scripted:bench", UNLIMITED))


async def run(work: Work, phase: str, text: str, members: int = 1, name: str = NAME) -> Session:
    """Write the project, start or resume the run, and require that it completes."""
    project = work.folder / "project"
    write_project(project, phase, text, members)
    session = session_of(work, check_project(project))
    work.start()
    if work.resume:
        outcome = await resume_run(session, runs_of(work).open_run(NAME))
    else:
        outcome = await start_run(session, inputs_of(work, session.program, members), runs_of(work), name)
    work.stop()
    require_completed(outcome)
    return session


def inputs_of(work: Work, program: Program, members: int) -> dict[str, Any]:
    given = {"calls": work.calls, "members": [f"caller:n{number}" for number in range(members)]}
    return validate_inputs(program, given)[0]


def runs(work: Work) -> Path:
    return work.folder / "runs"


def runs_of(work: Work) -> Store:
    """The store of the runs: a folder, or a Postgres store for the variant `postgres`."""
    return store(os.environ["BENCH_POSTGRES"]).runs if work.variant == "postgres" else LocalStore(runs(work))


def store(url: str) -> OpenStore:
    """Create a store of the current version and open it."""
    from skillrun.extensions.workers.commands.open_store import open_database, open_store
    from skillrun.extensions.workers.dispatch import install
    from skillrun.extensions.workers.postgres.maintenance import migrate

    migrate(open_database(url))
    install(open_database(url))
    return open_store(url)


def require_completed(outcome: Outcome) -> None:
    if outcome.status != "completed":
        raise SystemExit(f"{outcome.status}: {outcome.reason}; {outcome.next_step}")


async def warm_up(work: Work) -> None:
    """Run once, so that imports at the first call count as set-up, as for the peers. A resume is not warmed up."""
    if not work.resume:
        warm = Work(1, 0, work.reply, work.folder / "warm-up", variant=work.variant)
        await run(warm, "chain", CHAIN, name="warm-up")
        shutil.rmtree(work.folder / "warm-up")


async def chain(work: Work) -> None:
    await warm_up(work)
    await run(work, "chain", CHAIN)


async def fan_out(work: Work) -> None:
    await warm_up(work)
    await run(work, "fan-out", FAN_OUT, work.calls)


async def evaluate_once(session: Session, folder: LocalRun, journal: Journal, inputs: dict[str, Any]) -> Evaluation:
    """Evaluate a run once as `dev` does, without waiting for confirmation of its calls."""
    calls = InFlightCalls(session.services.gateway, journal)
    running = await WatchLoop(folder, journal, calls).begin(session, inputs)
    calls.gate.open()
    return await running


async def again(work: Work) -> None:
    """Send all prompts at once; resume after a failure, and reevaluate as `dev` does after an edit."""
    write_project(work.folder / "project", "questions", QUESTIONS, work.calls, work.prompt)
    session = session_of(work, check_project(work.folder / "project"))
    inputs = inputs_of(work, session.program, work.calls)
    if work.edit is not None:
        folder = LocalRun(runs(work) / NAME)
        with folder.lease.hold():
            journal = folder.open_journal()
            outcome = (await evaluate_once(session, folder, journal, inputs)).outcome
            journal.close()
    elif work.resume:
        outcome = await resume_run(session, runs_of(work).open_run(NAME))
    else:
        outcome = await start_run(session, inputs, runs_of(work), NAME)
    if outcome.status == "failed" and work.fail is not None:
        raise CallFailed
    require_completed(outcome)
    work.check((runs(work) / NAME / "replies.md").read_text(encoding="utf-8").splitlines())


async def dev(work: Work) -> None:
    """A save that changes no prompt: check and evaluate the workflow again, with the journal."""
    first = await run(work, "chain", CHAIN)
    call_count = len(work.asked)
    path = first.options.project / "workflows" / "bench.md"
    path.write_text(path.read_text(encoding="utf-8") + "A line of help.\n", encoding="utf-8")
    folder = LocalRun(runs(work) / NAME)
    with folder.lease.hold():
        journal = folder.open_journal()
        work.start()
        session = session_of(work, check_project(first.options.project))
        result = await evaluate_once(session, folder, journal, inputs_of(work, session.program, 1))
        work.stop()
        journal.close()
    require_completed(result.outcome)
    if len(work.asked) != call_count:
        raise SystemExit(f"{len(work.asked) - call_count} calls were repeated")


if __name__ == "__main__":
    main(chain=chain, fan_out=fan_out, again=again, dev=dev)
