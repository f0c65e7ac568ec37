"""`skillrun submit`, `worker`, `work` and `cancel`: runs of a store that any machine works on."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from skillrun.cli import completing, options
from skillrun.cli.here import project_here
from skillrun.cli.job import Job, prepare
from skillrun.cli.loading import NOTHING, Loaded, cache_folder, load_at
from skillrun.cli.printing import Output
from skillrun.cli.store import Store, open_store, slots_of
from skillrun.cli.workflow import RESUMED, workflow_command
from skillrun.language.library.secrets import secret_names
from skillrun.language.text.diagnostics import SkillrunError, UsageError
from skillrun.people.refusal import check_answers, refusal
from skillrun.runtime.store.frontmatter import legible

if TYPE_CHECKING:
    from skillrun.workers.metrics import Metrics
    from skillrun.workers.work import Workplace

NOT_ITS: Final = frozenset({RESUMED, "dry_run", "interactive", "script", "share", "runs", "trust_project"})
"""Options of a workflow that `submit` does not take: nobody is there, and it says nothing of this machine."""


@dataclass(frozen=True)
class Wanted:
    """By whom a run is to be worked on, and when."""

    queue: str | None
    priority: int
    start: timedelta


@click.command(
    help="Have workers run WORKFLOW with its own inputs and flags; ends at once.",
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
)
@click.argument("workflow", shell_complete=completing.workflows)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def submit(workflow: str, arguments: tuple[str, ...]) -> int:
    values = submit_command(workflow).make_context(f"skillrun submit {workflow}", list(arguments)).params
    out, wanted = Output(values["json"]), Wanted(*(values.pop(name) for name in ("queue", "priority", "start")))
    store = open_store(options.named_store())
    # Which keys there are and what is trusted is for the machine that works on it.
    left_out = {"dry_run": True, "interactive": False, "script": None, "share": False, "trust_project": False}
    job = prepare(workflow, {**values, **left_out, "runs": Path("runs")}, out)
    return _submitted(store, job, wanted, out)


def submit_command(workflow: str) -> click.Command:
    """The command of the workflow, as `submit` takes it."""
    more = [
        click.Option(
            ["--queue"], type=options.Queue(), metavar="NAME", help="For workers of this queue; `default` without it."
        ),
        click.Option(["--priority"], type=int, default=0, metavar="N", help="A higher one is worked on earlier."),
        click.Option(
            ["--in", "start"],
            type=options.Span(),
            default="0s",
            metavar="TIME",
            help="So long from now: 30s, 10m, 2h, 1d.",
        ),
    ]
    command = workflow_command(workflow, more)
    command.params = [parameter for parameter in command.params if parameter.name not in NOT_ITS]
    return command


def _submitted(store: Store, job: Job, wanted: Wanted, out: Output) -> int:
    from skillrun.runtime.store.postgres.queue import DEFAULT
    from skillrun.workers.bundle import packed
    from skillrun.workers.dispatch import Dispatch
    from skillrun.workers.request import Request

    program = job.loaded.program
    prepared = job.presence.prepared()
    problems = check_answers(program, prepared)
    reasons = refusal(program, prepared, job.inputs) if job.presence.unattended else []
    if problems or reasons:
        for problem in [*problems, *reasons]:
            out.note(str(problem))
        out.note(f"error: it could not go without a person. {NOTHING}")
        return 1
    bundle = packed(project_here(), secret_names(program.library))
    first = program.workflow.first_input
    words = legible(str(job.inputs[first.name])) if first is not None else program.workflow.name
    name = job.slug or store.runs.take_name(words)
    request = Request(
        inputs=dict(job.inputs),
        typed=sorted(job.typed),
        model=job.model,
        budget=dict(job.budget),
        answers=job.presence.answers.read_text(encoding="utf-8") if job.presence.answers is not None else "",
        unattended=job.presence.unattended,
    )
    queue = wanted.queue or DEFAULT
    try:
        store.queue.submit(
            name,
            program.workflow.name,
            request.to_data(),
            bundle.sha,
            bundle.content,
            queue=queue,
            priority=wanted.priority,
            in_seconds=wanted.start.total_seconds(),
        )
    except BaseException:
        store.runs.give_back(name)
        raise
    dispatch = Dispatch(store.url)
    try:
        seconds = wanted.start.total_seconds()
        dispatch.wake(name, queue=queue, priority=wanted.priority, in_seconds=seconds)
    finally:
        dispatch.close()
    out.line(f"submitted {name}: {bundle.files} files of the project, {bundle.size / 1000:,.0f} KB")
    out.line(f"next: `skillrun logs -f {name}`, `skillrun show {name}`, `skillrun cancel {name}`")
    if queue != DEFAULT and not store.roster.serves(queue):
        out.note(f"no worker serves the queue `{queue}` now; `skillrun worker --queue {queue}` starts one")
    out.data({"run": name, "files": bundle.files, "bytes": bundle.size, "bundle": bundle.sha})
    return 0


@click.command(help="Work on runs of the store until a signal; a polite one hands back what is under way.")
@click.option("--runs", "most", type=click.IntRange(1, 200), default=10, metavar="N", help="So many at a time.")
@click.option(
    "--queue",
    "queues",
    type=options.Queue(),
    multiple=True,
    metavar="NAME",
    help="Only runs of this queue, or of these; `default` without it.",
)
@click.option(
    "--lease",
    type=click.FloatRange(2, 3600),
    default=30,
    metavar="SECONDS",
    help="How long a run is left to a worker that is not heard of.",
)
@click.option(
    "--metrics",
    default="",
    metavar="[HOST]:PORT",
    help="Answer /metrics, for Prometheus, and /healthz there; this machine alone without a host.",
)
@options.store
def worker(most: int, queues: tuple[str, ...], lease: float, metrics: str) -> int:
    from skillrun.runtime.store.postgres.queue import DEFAULT
    from skillrun.workers.worker import Worker

    out, store = Output(), open_store(options.named_store(), lease)
    counts = _told_at(metrics, store, most, out) if metrics else None
    place = workplace(store, out.line)
    queues = tuple(dict.fromkeys(queues)) or (DEFAULT,)
    made = Worker(store.url, store.queue, store.roster, place, most, store.lease, queues, out.line, counts)

    async def until_told() -> None:
        stopping = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            with suppress(NotImplementedError, RuntimeError):
                loop.add_signal_handler(number, stopping.set)
        what = f"{most} runs at a time of {', '.join(queues)}"
        out.line(f"worker {made.name}: {what}, on {store.runs.place}")
        await made.run(stopping)
        out.line(f"worker {made.name}: ended; what was under way was handed back")

    asyncio.run(until_told())
    return 0


def _told_at(typed: str, store: Store, most: int, out: Output) -> Metrics:
    """What a worker counts, told at an address from now on."""
    try:
        from skillrun.workers.metrics import Metrics, address_of, served
    except ImportError as error:
        hint = "`pip install 'skillrun[workers]'`"
        raise UsageError(f"`--metrics` needs what is not installed: {error.name}", hint) from error

    counts = Metrics(most)
    store.database.told = counts.statement
    host, port = served(counts, address_of(typed), max(2 * store.lease, 10)).server_address[:2]
    shown = f"[{host!s}]" if ":" in str(host) else str(host)
    out.line(f"metrics: http://{shown}:{port}/metrics, http://{shown}:{port}/healthz")
    return counts


@click.command(help="Work on RUN of the store, here and now, to where it ends or waits.")
@click.argument("run", shell_complete=completing.runs)
@options.store
def work(run: str) -> int:
    from skillrun.workers.work import work_on

    out, store = Output(), open_store(options.named_store())
    outcome = asyncio.run(work_on(workplace(store, out.line), run))
    if outcome is None:
        out.line(f"{run}: nothing to do")
        return 0
    out.line(f"{run}: {outcome.status}{f': {outcome.reason}' if outcome.reason else ''}")
    return outcome.exit_code


@click.command(help="End RUN of the store at once, wherever it is worked on; what it has done is kept.")
@click.argument("run", shell_complete=completing.runs)
@options.store
def cancel(run: str) -> int:
    out, store = Output(), open_store(options.named_store())
    if not store.queue.cancel(run, "cancelled"):
        hint = f"`skillrun show {run}` tells where it stands"
        raise UsageError(f"there is no run `{run}` that could be cancelled", hint)
    out.line(f"cancelled {run}")
    return 0


def workplace(store: Store, say: Callable[[str], None]) -> Workplace:
    """This machine's part of the work on a store."""
    from skillrun.workers.work import Workplace

    return Workplace(store.runs, store.queue, cache_folder() / "projects", _loaded, say=say, slots=slots_of(store))


def _loaded(project: Path, workflow: str) -> Loaded:
    """The workflow of an unpacked project. Raises SkillrunError with its first problem."""
    loaded = load_at(project, workflow)
    if isinstance(loaded, Loaded):
        return loaded
    first = loaded[0]
    raise SkillrunError(f"{first.path}:{first.line}: {first.message}", "mend it and submit the run again")
