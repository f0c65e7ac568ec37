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
from skillrun.runtime.run import Session
from skillrun.runtime.session import resume_run, start_run
from skillrun.store.local.local_run import LocalRun
from skillrun.store.local.local_store import LocalStore
from skillrun.store.outcome import Outcome
from skillrun.store.stored_run import Store
from skillrun.syntax.diagnostics import render_problem
from skillrun.watch.watch_loop import evaluate_once

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
description: One call after the other; each is told what the one before it said.
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
    """Stands at the gateway's border: calls wait and answer; the summary that ends the phase is answered at once."""

    def __init__(self, work: Work) -> None:
        self.work = work
        self.scripted = ScriptedGateway()

    async def send(self, request: Request, address: str, attempts: AttemptListener = NULL_LISTENER) -> Reply:
        found = NUMBER.search(address)
        if found is None:
            return await self.scripted.send(request, address, attempts)
        await attempts.on_sent(1)
        number = int(found[1]) - 1 if found[1] else int(found[2])
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


def checked(project: Path) -> Program:
    library = Library([Root(project, "", "project"), Root(package_library(), "skillrun:", "library")])
    program = check_workflow(library, "bench")
    if program is None or library.problems.has_errors:
        raise SystemExit("\n".join(render_problem(problem) for problem in library.problems))
    return program


def session_of(work: Work, program: Program) -> Session:
    models = program.library.config("models")
    assert models is not None
    return Session(
        program,
        Catalogue.from_config(models.data),
        FakeModel(work),
        open_responder(unattended=True),
        project=program.library.roots[0].path,
        override="scripted:bench",
        budget=UNLIMITED,
    )


async def run(work: Work, phase: str, text: str, members: int = 1, name: str = NAME) -> Session:
    """Write the project, begin the run or go on with it, and see that it is completed."""
    project = work.folder / "project"
    write_project(project, phase, text, members)
    session = session_of(work, checked(project))
    work.start()
    if work.resume:
        outcome = await resume_run(session, runs_of(work).open_run(NAME))
    else:
        outcome = await start_run(session, inputs_of(work, session.program, members), runs_of(work), name)
    work.stop()
    completed(outcome)
    return session


def inputs_of(work: Work, program: Program, members: int) -> dict[str, Any]:
    given = {"calls": work.calls, "members": [f"caller:n{number}" for number in range(members)]}
    return validate_inputs(program, given)[0]


def runs(work: Work) -> Path:
    return work.folder / "runs"


def runs_of(work: Work) -> Store:
    """Where the runs are: in a folder, or in the store that the variant `postgres` is given."""
    return store(os.environ["BENCH_POSTGRES"]).runs if work.variant == "postgres" else LocalStore(runs(work))


def store(url: str) -> OpenStore:
    """A store of this version."""
    from skillrun.extensions.workers.commands.open_store import open_database, open_store
    from skillrun.extensions.workers.dispatch import install
    from skillrun.extensions.workers.postgres.migrations import migrate

    migrate(open_database(url))
    install(open_database(url))
    return open_store(url)


def completed(outcome: Outcome) -> None:
    if outcome.status != "completed":
        raise SystemExit(f"{outcome.status}: {outcome.reason}; {outcome.next_step}")


async def warm_up(work: Work) -> None:
    """What is imported at the first call belongs to the set-up, as the peers' imports do; a resume pays for it."""
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


async def again(work: Work) -> None:
    """Ask all prompts at once; resume after an accident, and save the prompt in `dev` after an edit."""
    write_project(work.folder / "project", "questions", QUESTIONS, work.calls, work.prompt)
    session = session_of(work, checked(work.folder / "project"))
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
    completed(outcome)
    work.check((runs(work) / NAME / "replies.md").read_text(encoding="utf-8").splitlines())


async def dev(work: Work) -> None:
    """A save that changes nothing a model is asked: check again, evaluate again over the journal."""
    first = await run(work, "chain", CHAIN)
    asked = len(work.asked)
    path = first.project / "workflows" / "bench.md"
    path.write_text(path.read_text(encoding="utf-8") + "A line of help.\n", encoding="utf-8")
    folder = LocalRun(runs(work) / NAME)
    with folder.lease.hold():
        journal = folder.open_journal()
        work.start()
        session = session_of(work, checked(first.project))
        done = await evaluate_once(session, folder, journal, inputs_of(work, session.program, 1))
        work.stop()
        journal.close()
    completed(done.outcome)
    if len(work.asked) != asked:
        raise SystemExit(f"{len(work.asked) - asked} calls were made again")


if __name__ == "__main__":
    main(chain=chain, fan_out=fan_out, again=again, dev=dev)
