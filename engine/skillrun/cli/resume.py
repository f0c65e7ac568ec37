"""`skillrun resume`: resumes or reruns a run. It first lists the calls that changed files cause."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any, Final

import click

from skillrun.checker.checker import check_workflow
from skillrun.checker.program import Program
from skillrun.cli import adoption, completion, options
from skillrun.cli.execution import execute_session
from skillrun.cli.formatting import count_noun, format_price
from skillrun.cli.loading import LoadedWorkflow, exit_on_errors, load, load_script, open_library
from skillrun.cli.options import current_project
from skillrun.cli.output import Output
from skillrun.cli.preview import AutoResponder
from skillrun.cli.registry import RESERVED_NAMES
from skillrun.cli.run_request import AnswerOptions
from skillrun.cli.run_summary import summarize_run
from skillrun.cli.trust import require_trust
from skillrun.library.library import Library
from skillrun.models.scripted import ScriptedGateway
from skillrun.questions.expected_questions import check_answers
from skillrun.runtime import session as sessions
from skillrun.runtime.forecast import Forecast, PredictedCall, forecast_calls
from skillrun.runtime.foreign_runs import effective_state
from skillrun.runtime.run import Session
from skillrun.runtime.state_migration import changed_files
from skillrun.store.clock import utc_timestamp
from skillrun.store.local.local_run import LocalRun
from skillrun.store.next_step import ResumeCommand, recorded_flags
from skillrun.store.outcome import Outcome
from skillrun.store.state import STATE, State
from skillrun.store.stored_run import StoredRun
from skillrun.syntax.diagnostics import UsageError

RUN_UNCHANGED: Final = "No model was called; the run is unchanged."
ESTIMATE_NOTE: Final = "Possible calls depend on generated replies: the real run may make fewer or different calls."


@click.command(
    help="Resume RUN. RUN is the name of a run or the path of its folder.\n\nCalls that have a reply are not repeated."
)
@click.argument("run", shell_complete=completion.runs)
@click.option("--yes", is_flag=True, help="Repeat the calls that changed files affect, without asking.")
@click.option("--preview", is_flag=True, help="Only show the calls that would be made.")
@click.option(
    "--from-start",
    is_flag=True,
    help="Rerun all phases, even if the run is completed. Replies to unchanged prompts are reused.",
)
@options.unattended
@options.interactive
@options.answers
@options.budget
@options.runs_folder
@options.script
@options.share
@options.trust_project
@adoption.adopt
@options.quiet
@options.as_json
def resume(run: str, **options_given: Any) -> int:
    return resume_from_request(build_resume_request(run, options_given))


@dataclass(frozen=True)
class ResumeRequest:
    """The run to resume, and the values of the options."""

    run: str
    runs: Path
    script: Path | None
    presence: AnswerOptions
    budget: Mapping[str, float]
    share: bool
    trust_project: bool
    adopt: bool | None
    yes: bool
    preview: bool
    from_start: bool
    quiet: bool
    json: bool


def build_resume_request(run: str, values: Mapping[str, Any]) -> ResumeRequest:
    """Return the request for a run, built from option values that are keyed by name."""
    answer_options = AnswerOptions(**{field.name: values[field.name] for field in fields(AnswerOptions)})
    option_names = [field.name for field in fields(ResumeRequest) if field.name not in ("run", "presence")]
    return ResumeRequest(run, presence=answer_options, **{name: values[name] for name in option_names})


def resume_from_request(request: ResumeRequest, workflow: str = "") -> int:
    """Resume a run, and return the exit code. If `workflow` is given, raises UsageError for runs of other workflows."""
    out, answer_options, preview = Output(request.json, request.quiet), request.presence, request.preview
    runs, name = options.locate_run(request.run, request.runs)
    run = runs.open_run(name)
    command_name = run.command_argument(current_project())
    if (project := current_project()) != Path.cwd():
        out.note(f"project: {project}")
    library = open_library()
    if isinstance(run, LocalRun):  # other stores have no runs of older versions
        _migrate_run(run, library, out, preview=preview)
    state = run.state()
    if workflow not in ("", state.workflow):
        raise UsageError(
            f"`{name}` is a run of `{state.workflow}`, not of `{workflow}`", f"`skillrun resume {command_name}`"
        )
    from_start = request.from_start or (preview and state.status == "completed")
    if state.status == "completed" and not from_start:
        _report_completed_run(run, state, library, command_name, out)
        return 0
    if library.locate(f"workflows/{state.workflow}.md") is None:
        raise UsageError(
            f"this project has no workflow `{state.workflow}`",
            f"run this command in {state.project}, where the run was started",
        )
    loaded = load(state.workflow, out, library)
    changed = changed_files(loaded.program, state)
    if answer_options.answers is not None and not preview:
        exit_on_errors(
            check_answers(loaded.program, answer_options.load_prepared_answers()), out, RUN_UNCHANGED, code=2
        )
    adopt = request.adopt
    if not preview:
        adopt = adoption.resolve_adopt_option(loaded, run, adopt, out, can_ask=not answer_options.unattended)
    script = load_script(request.script, out)
    flags = {**answer_options.command_flags, **(script.command_flags if script is not None else {})}
    planned = Forecast([], 0)
    if preview or ((changed or from_start) and not request.yes):
        rules = script.rules if script is not None else ()
        planned = asyncio.run(forecast_calls(_preview_session(loaded, adopt=adopt), run, rules, from_start=from_start))
    planned_calls = planned.calls
    ignored_edits = [] if from_start else _ignored_edits(loaded.program, changed, run)
    repeated = [call for call in planned_calls if call.again]
    if preview:
        lines = _preview_lines(planned, changed, ignored_edits, command_name, flags, from_start=from_start)
        out.line("\n".join(lines))
        calls = [asdict(call) for call in planned_calls]
        data = {"would_ask": calls, "reused": planned.reused, "from_start": from_start, "changed": changed}
        out.data({**data, "ignored": ignored_edits})
        return 0
    if repeated:
        files = [f"changed since the run last executed: {', '.join(changed)}"] if changed else []
        out.note("\n".join([*files, *_call_lines(repeated)]))
        out.note(f"error: resuming would make {_describe_repeats(repeated)}; no model was called yet")
        more = "--from-start --yes" if from_start else "--yes"
        out.note(f"hint: {ResumeCommand(more).render(command_name, flags)} resumes anyway")
        out.data({"status": "refused", "changed": changed, "would_ask": [asdict(call) for call in repeated]})
        return 1

    _print_warnings(request, run, ignored_edits, flags, out)
    if script is None:
        state = effective_state(_preview_session(loaded, adopt=adopt), run)
        models = loaded.resolve_models(state.override, state.models)
        loaded = require_trust(
            loaded, models, out, unattended=answer_options.unattended, is_granted=request.trust_project
        )

    async def resume_session(session: Session) -> Outcome:
        session.options = replace(session.options, budget=request.budget, share=request.share, adopt=adopt)
        return await sessions.resume_run(session, run, from_start=from_start)

    return execute_session(loaded, answer_options, resume_session, runs, name, script, out, is_resumed=True)


def _print_warnings(
    request: ResumeRequest, run: StoredRun, ignored_edits: list[str], flags: Mapping[str, str], out: Output
) -> None:
    """Warn about edits that the run ignores, and about a script that the run used but this command does not name."""
    name = run.command_argument(current_project())
    for line in ignored_edits:
        out.note(f"warning: {line}")
    if ignored_edits:
        out.note(f"hint: {ResumeCommand('--from-start').render(name, flags)} runs all phases again")
    recorded = recorded_flags(run.events())
    if "--script" in recorded and request.script is None:
        command = ResumeCommand("--from-start" if request.from_start else "").render(name, {**recorded, **flags})
        out.note(
            f"warning: the run was started with `--script {recorded['--script']}`; without it, replies are generated"
        )
        out.note(f"hint: {command} uses the script")


def _report_completed_run(run: StoredRun, state: State, library: Library, name: str, out: Output) -> None:
    """Print that there is nothing to resume, which files have changed since, and how to rerun."""
    out.line(f"{run.name} is completed; `skillrun show {name}` shows the details")
    if changed := _changed_since(library, state):
        out.line(f"changed since the run, and not used: {', '.join(changed)}")
    out.line(f"{ResumeCommand('--preview').render(name, {})} shows the calls that a rerun would make")
    out.data(summarize_run(run))


def _changed_since(library: Library, state: State) -> list[str]:
    """Return the changed files of a run's workflow; none if the workflow is missing or has errors."""
    if library.locate(f"workflows/{state.workflow}.md") is None:
        return []
    program = check_workflow(library, state.workflow, RESERVED_NAMES)
    return changed_files(program, state) if program is not None and not library.problems.has_errors else []


def _preview_session(loaded: LoadedWorkflow, *, adopt: bool | None) -> Session:
    """Return a session that calls no model."""
    session = loaded.build_session(ScriptedGateway(), AutoResponder())
    session.options.adopt = adopt
    return session


def _migrate_run(run: LocalRun, library: Library, out: Output, *, preview: bool) -> None:
    """Migrate a run that an older version created; do nothing with other runs. Raises SkillrunError."""
    old = run.v1_state()
    if old is None:
        return
    if preview or not old.get("workflow"):
        hint = "resume it without `--preview`" if preview else "add `workflow: NAME` to its frontmatter"
        raise UsageError(f"{run.data().location(STATE)} has schema version 1, and must be migrated first", hint)
    program = load(str(old["workflow"]), out, library).program
    for line in run.migrate_v1_run(old, program, utc_timestamp()):
        out.line(line)


def _preview_lines(
    planned: Forecast,
    changed: list[str],
    ignored_edits: list[str],
    name: str,
    flags: Mapping[str, str],
    *,
    from_start: bool,
) -> Iterator[str]:
    """Yield lines about the changed files, the calls, the ignored edits, and the next command."""
    if changed:
        yield f"changed since the run: {', '.join(changed)}"
    yield from _call_lines(planned.calls, planned.reused if from_start else None)
    if from_start and planned.calls:
        yield f"next: {ResumeCommand('--from-start --yes').render(name, flags)} starts this rerun"
    elif ignored_edits:
        yield from ignored_edits
        command = ResumeCommand("--from-start --preview").render(name, flags)
        yield f"Finished phases ignore changes; {command} previews a rerun of all phases."


def _ignored_edits(program: Program, changed: list[str], run: StoredRun) -> list[str]:
    """Return lines about the changed files that finished phases ignore."""
    phases_by_file: dict[str, list[str]] = {}
    for name, phase in program.phases.items():
        phases_by_file.setdefault(phase.document.source.label, []).append(name)
    summaries = run.data().summaries
    ended = {name for name in program.phases if (found := summaries.find_readable(name)) and found.is_over}
    of_ended = [file for file in changed if file in phases_by_file and {*phases_by_file[file]} <= ended]
    others = [file for file in changed if file not in of_ended]
    of_both = [file for file in others if ended.intersection(phases_by_file.get(file, program.phases))]
    lines = []
    if of_ended:
        texts = (f"{file} (phase `{'`, `'.join(phases_by_file[file])}` has ended)" for file in of_ended)
        lines.append(f"not used: {', '.join(texts)}")
    if of_both:
        lines.append(f"used only by phases that have not ended: {', '.join(of_both)}")
    return lines


def _describe_repeats(asked: list[PredictedCall]) -> str:
    certain_count = sum(call.certain for call in asked)
    if certain_count == len(asked):
        return f"{count_noun(certain_count, 'call')} again"
    return (
        f"{count_noun(certain_count, 'call')} again, and possibly {len(asked) - certain_count} more"
        if certain_count
        else "some calls again"
    )


def _call_lines(asked: list[PredictedCall], reused: int | None = None) -> list[str]:
    """Return lines about the calls and their tokens: first certain calls, then calls that depend on generated replies.

    `reused` is the number of calls that a rerun takes from the journal; None for a run that resumes.
    """
    total = f" of {len(asked) + reused:,}" if reused is not None else ""
    if not asked:
        return [
            f"no calls would be made: all {reused:,} are reused" if reused is not None else "no calls would be made"
        ]
    certain, possible = [call for call in asked if call.certain], [call for call in asked if not call.certain]
    lines = [*(_format_call(call) for call in certain), f"certain: {_format_total(certain, total)}"] if certain else []
    if possible:
        lines += [
            *(f"{_format_call(call)}, possibly" for call in possible),
            f"possible: {_format_total(possible, total)}",
        ]
    if reused is not None:
        lines.append(f"reused: {reused:,}{total} calls")
    return [*lines, ESTIMATE_NOTE] if possible else lines


def _format_call(call: PredictedCall) -> str:
    kind = "called again" if call.again else "new"
    return f"  {call.address} ({call.model}, {call.tokens:,} tokens): {kind}"


def _format_total(asked: list[PredictedCall], total: str) -> str:
    """Return the number of calls, the input tokens and the price, which depends on estimated reply lengths."""
    prices = [call.price for call in asked if call.price is not None]
    price = f"about {format_price(sum(prices))}" if len(prices) == len(asked) else "price unknown"
    if prices and len(prices) < len(asked):
        price = (
            f"about {format_price(sum(prices))}, and {count_noun(len(asked) - len(prices), 'call')} of unknown price"
        )
    calls = f"{len(asked):,}{total} calls" if total else count_noun(len(asked), "call")
    return f"{calls}, {sum(call.tokens for call in asked):,} tokens in, {price}"
