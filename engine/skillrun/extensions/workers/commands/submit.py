"""`skillrun submit`: queues a run of a workflow in a store, for any worker to execute."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from skillrun.cli import completion, options
from skillrun.cli.execution import require_answers
from skillrun.cli.loading import open_library
from skillrun.cli.options import current_project, parameter_name
from skillrun.cli.output import Output
from skillrun.cli.run_request import RunRequest, build_run_request
from skillrun.cli.workflow import RESUME_PARAMETER, load_definition, workflow_command
from skillrun.extensions.workers.commands.open_store import open_store
from skillrun.library.settings import secret_names
from skillrun.repository.readable_folder import MAX_PROJECT_BYTES
from skillrun.runtime.inputs import path_inputs
from skillrun.store.frontmatter import format_json_text
from skillrun.syntax.diagnostics import Problems, UsageError
from skillrun.syntax.reading import read_source

if TYPE_CHECKING:
    from skillrun.extensions.workers.fetching import Commit
    from skillrun.extensions.workers.postgres.queue import RunSubmission

EXCLUDED_OPTIONS: Final = frozenset(
    {RESUME_PARAMETER, "dry_run", "interactive", "script", "share", "runs", "trust_project", "quiet"}
)
"""Workflow options that `submit` does not accept, because they need a terminal or this machine."""


@click.command(
    help="Queue a run of WORKFLOW with the given inputs and options. Does not wait for the run.",
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
)
@click.argument("workflow", shell_complete=completion.workflows)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def submit(workflow: str, arguments: tuple[str, ...]) -> int:
    from skillrun.extensions.workers.bundle import pack_project
    from skillrun.extensions.workers.postgres.queue import DEFAULT_QUEUE

    values = submit_command(workflow).make_context(f"skillrun submit {workflow}", list(arguments)).params
    out: Output = values["out"]
    queue, priority = values.pop("queue") or DEFAULT_QUEUE, values.pop("priority")
    seconds = values.pop("start").total_seconds()
    store = open_store(options.require_store_url())
    commits = _take_remote_inputs(workflow, values)
    # Keys and trust are checked by the worker that executes the run.
    left_out = {"dry_run": True, "interactive": False, "script": None, "share": False, "trust_project": False}
    chosen = {**values, **left_out, "runs": Path("runs")}
    job = build_run_request(workflow, chosen, out, remote_paths={name: each.path for name, each in commits.items()})
    require_answers(job, out)
    program = job.loaded.program
    bundle = pack_project(current_project(), secret_names(program.library))
    data = _build_submission(job, commits, bundle.names).to_data()
    first = program.workflow.first_input
    request_text = format_json_text(str(job.inputs[first.name])) if first is not None else program.workflow.name
    name = job.slug or store.runs.reserve_name(request_text)
    start: dict[str, Any] = {"queue": queue, "priority": priority, "in_seconds": seconds}
    try:
        store.queue.submit(name, program.workflow.name, data, bundle.sha, bundle.content, **start)
    except BaseException:
        store.runs.release_name(name)
        raise
    store.wake_worker(name, **start)
    out.line(f"submitted {name}: {len(bundle.names)} files of the project, {bundle.size / 1000:,.0f} KB")
    for each in commits.values():
        out.line(f"a worker will fetch {each.url} at {each.sha[:12]} (at most {MAX_PROJECT_BYTES / 1e6:,.0f} MB)")
    out.line(f"next: `skillrun logs -f {name}`, `skillrun show {name}`, `skillrun cancel {name}`")
    if queue != DEFAULT_QUEUE and not any(each.serves(queue) for each in store.roster.list_workers()):
        out.note(f"no worker serves the queue `{queue}` now; `skillrun worker --queue {queue}` starts one")
    out.data({"run": name, "files": len(bundle.names), "bytes": bundle.size, "bundle": bundle.sha})
    return 0


def submit_command(workflow: str) -> click.Command:
    """Return the command of the workflow, with the options that `submit` accepts."""
    more = [
        click.Option(["--queue"], type=options.parse_queue, metavar="NAME", help="Queue to use. Default: `default`."),
        click.Option(["--priority"], type=int, default=0, metavar="N", help="Runs with a higher priority start first."),
        click.Option(
            ["--in", "start"],
            type=options.parse_duration,
            default="0s",
            metavar="TIME",
            help="Start after this delay, for example 30s, 10m, 2h or 1d.",
        ),
    ]
    command = workflow_command(workflow, more)
    command.params = [parameter for parameter in command.params if parameter.name not in EXCLUDED_OPTIONS]
    return command


def _take_remote_inputs(workflow: str, values: dict[str, Any]) -> dict[str, Commit]:
    """Clear the inputs in `values` that are URL@COMMIT, and return the commits keyed by input name.

    Raises UsageError for an invalid URL.
    """
    from skillrun.extensions.workers.fetching import Commit, is_remote

    found = {}
    for field in path_inputs(load_definition(workflow, open_library())):
        typed = values[parameter_name(field)]
        if isinstance(typed, str) and is_remote(typed):
            found[field.name] = Commit.parse(typed)
            values[parameter_name(field)] = None
    return found


def _read_answers(path: Path) -> str:
    """Return the text of the prepared answers. Raises UsageError if the file cannot be read."""
    problems = Problems()
    source = read_source(path, str(path), problems)
    if source is None:
        raise UsageError("; ".join(f"{path}: {problem.message}" for problem in problems), "choose another file")
    return source.text


def _build_submission(request: RunRequest, commits: Mapping[str, Commit], sent_files: Sequence[str]) -> RunSubmission:
    """Return what a worker needs to start the run. Paths are relative to the project.

    Raises UsageError if `sent_files` has no file of a path.
    """
    from skillrun.extensions.workers.postgres.queue import RunSubmission

    project, paths = Path(os.path.realpath(current_project())), {}
    for field in path_inputs(request.loaded.program.workflow):
        if field.name in commits or not request.inputs.get(field.name):
            continue
        value = str(request.inputs[field.name])
        path = Path(os.path.normpath(project / value))
        if not path.is_relative_to(project):
            hint = "move it into the project, or use a repository: https://host/name.git@COMMIT"
            raise UsageError(f"`{field.name}` is `{value}`, which is outside of the project and cannot be sent", hint)
        name = path.relative_to(project).as_posix()
        if name != "." and not any(f"{each}/".startswith(f"{name}/") for each in sent_files):
            hint = "git ignores it, its name matches a pattern for secrets, or it contains no files"
            raise UsageError(f"`{field.name}` is `{value}`, which has no files to send", hint)
        paths[field.name] = name
    answers = request.answer_options.answers
    return RunSubmission(
        inputs={**request.inputs, **paths},
        model=request.model,
        budget=dict(request.budget),
        answers=_read_answers(answers) if answers is not None else "",
        unattended=request.answer_options.unattended,
        repositories={field: f"{each.url}@{each.sha}" for field, each in commits.items()},
    )
