"""`skillrun resume`: resumes or reruns a run. It first lists the calls that are repeated because files have changed."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, replace
from itertools import chain
from pathlib import Path
from typing import Any, Final

import click

from skillrun.checker.checker import check_workflow
from skillrun.checker.program import Program
from skillrun.cli import completion, options
from skillrun.cli.execution import execute_session
from skillrun.cli.formatting import count_noun, format_price
from skillrun.cli.loading import LoadedWorkflow, exit_on_errors, load, load_script, open_library
from skillrun.cli.options import MODEL_VARIABLE, current_project
from skillrun.cli.output import Output
from skillrun.cli.preview import AutoResponder
from skillrun.cli.registry import RESERVED_NAMES
from skillrun.cli.run_request import AnswerOptions, grant_inputs
from skillrun.cli.run_summary import summarize_run
from skillrun.cli.trust import require_trust
from skillrun.definitions.definitions import strip_markers
from skillrun.definitions.reader import LOOPS
from skillrun.library.library import Library
from skillrun.models.scripted import ScriptedGateway
from skillrun.questions.prepared_answers import check_answers
from skillrun.questions.responder import answer_flags, has_terminal
from skillrun.runtime import session as sessions
from skillrun.runtime.resumed_state import (
    FOREIGN_RUN,
    changed_files,
    effective_state,
    foreign_claims,
    format_claims,
    phases_using,
    raise_undecided_error,
    unused_edits,
)
from skillrun.runtime.run import Session
from skillrun.runtime.session import Forecast, PredictedCall, forecast_calls
from skillrun.store.event_lines import utc_timestamp
from skillrun.store.journal import LOST_SUFFIX
from skillrun.store.local.local_run import LocalRun
from skillrun.store.outcome import Outcome, ResumeCommand
from skillrun.store.run_view import RunView
from skillrun.store.seal import CHANGE_INPUT_HINT
from skillrun.store.state import STATE, State
from skillrun.store.stored_run import StoredRun
from skillrun.syntax.diagnostics import SkillrunError, UsageError

RUN_UNCHANGED: Final = "No model was called; the run is unchanged."
MOST_NAMED: Final = 3
SUMMARY: Final = "summary"  # in the addresses of calls that summarize a phase
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
@click.option(
    "--adopt/--no-adopt",
    default=None,
    help="For a run folder from another machine: keep its models and paths, or use this project's.",
)
@options.quiet
@options.as_json
def resume(run: str, **values: Any) -> int:
    return resume_run(run, values)


def resume_run(run_name: str, values: Mapping[str, Any], workflow: str = "") -> int:
    """Resume a run, and return the exit code. `values` holds the option values, keyed by name.

    Raises UsageError if `workflow` is given and the run belongs to another workflow.
    """
    out, preview = replace(values["out"], quiet=values["quiet"]), values["preview"]
    answer_options = AnswerOptions(values["unattended"], values["interactive"], values["answers"])
    runs, name = options.locate_run(run_name, values["runs"])
    run = runs.open_run(name)
    command_name = run.command_argument(current_project())
    if (project := current_project()) != Path.cwd():
        out.note(f"project: {project}")
    library = open_library()
    if isinstance(run, LocalRun):  # other stores have no runs of older versions
        _migrate_run(run, library, out, preview=preview)
    state = run.state()
    if workflow not in ("", state.workflow):
        message = f"`{name}` is a run of `{state.workflow}`, not of `{workflow}`"
        raise UsageError(message, f"`skillrun resume {command_name}`")
    from_start = values["from_start"] or (preview and state.status == "completed")
    if state.status == "completed" and not from_start:
        _report_completed_run(run, state, library, command_name, out)
        return 0
    if library.locate(f"workflows/{state.workflow}.md") is None:
        hint = f"run this command in {state.project}, where the run was started"
        raise UsageError(f"this project has no workflow `{state.workflow}`", hint)
    loaded = load(state.workflow, out, library)
    changed, adopt = changed_files(loaded.program, state), values["adopt"]
    if not preview:
        if answer_options.answers is not None:
            problems = check_answers(loaded.program, answer_options.load_prepared_answers())
            exit_on_errors(problems, out, RUN_UNCHANGED, code=2)
        adopt = _resolve_adopt_option(loaded, run, adopt, out, can_ask=not answer_options.unattended)
    script = load_script(values["script"], out)
    flags = {
        **answer_flags(answer_options.answers, unattended=answer_options.unattended),
        **(script.command_flags if script is not None else {}),
    }
    preview_session = _preview_session(loaded, state, adopt)
    planned = Forecast([], 0)
    if preview or ((changed or from_start) and not values["yes"]):
        rules = script.rules if script is not None else ()
        planned = asyncio.run(forecast_calls(preview_session, run, rules, from_start=from_start))
    ignored = [] if from_start else _ignored_edits(preview_session, state, run)
    lost_replies = _find_lost_replies(loaded.program, run, from_start=from_start) if changed else {}
    lost = _lost_reply_lines(lost_replies) if planned.calls and not from_start else []
    pinned = _pinned_model_lines(preview_session, run)
    if preview:
        out.lines([*lost, *pinned])
        _print_preview(
            planned, sorted({*changed, *planned.edited}), ignored, (command_name, flags), out, from_start=from_start
        )
        return 0
    if repeated := [call for call in planned.calls if call.again or (lost and call.certain)]:
        command = ResumeCommand("--from-start --yes" if from_start else "--yes").render(command_name, flags)
        _print_refusal(lost, repeated, changed, command, out)
        return 1

    hint = f"hint: {ResumeCommand('--from-start').render(command_name, flags)} runs all phases again"
    out.notes([*pinned, *([*(f"warning: {line}" for line in ignored), hint] if ignored else [])])
    state = effective_state(preview_session, run)
    is_unpinned = not (state.models or state.override)  # such as a run of version 1
    override = os.environ.get(MODEL_VARIABLE, "") if is_unpinned else state.override
    if script is None:
        _warn_about_script(run, ResumeCommand("--from-start" if values["from_start"] else ""), flags, out)
        models, granted = loaded.resolve_models(override, state.models), values["trust_project"]
        loaded = require_trust(loaded, models, out, unattended=answer_options.unattended, is_granted=granted)

    async def resume_session(session: Session) -> Outcome:
        given, share = preview_session.options.given_inputs, values["share"]
        model = ("scripted:default" if script is not None else override) if is_unpinned else session.options.model
        chosen = {"budget": values["budget"], "share": share, "adopt": adopt, "given_inputs": given, "model": model}
        session.options = replace(session.options, **chosen)
        accepted = chain.from_iterable(lost_replies.values() if values["yes"] else ())
        return await sessions.resume_run(session, run, from_start=from_start, lost_replies=accepted)

    return execute_session(loaded, answer_options, resume_session, runs, name, script, out, is_resumed=True)


def _warn_about_script(run: StoredRun, command: ResumeCommand, flags: Mapping[str, str], out: Output) -> None:
    """Print a warning if the run was started with a script. The current command does not name a script."""
    recorded = RunView(run).resume_flags
    if "--script" in recorded:
        path, name = recorded["--script"], run.command_argument(current_project())
        out.note(f"warning: the run was started with `--script {path}`; without it, replies are generated")
        out.note(f"hint: {command.render(name, {**recorded, **flags})} uses the script")


def _report_completed_run(run: StoredRun, state: State, library: Library, name: str, out: Output) -> None:
    """Report that the run is completed. Print the files that have changed since, and the command to rerun.

    If the workflow is missing or has errors, changed files are not printed.
    """
    out.line(f"{run.name} is completed; `skillrun show {name}` shows the details")
    if library.locate(f"workflows/{state.workflow}.md") is not None:
        program = check_workflow(library, state.workflow, RESERVED_NAMES)
        changed = []
        if program is not None and not library.problems.has_errors:
            changed = [*unused_edits(program, state, program.phases)]
        if changed:
            out.line(f"changed since the run, and not used: {', '.join(changed)}")
    out.line(f"{ResumeCommand('--preview').render(name, {})} shows the calls that a rerun would make")
    out.data(summarize_run(RunView(run)))


def _preview_session(loaded: LoadedWorkflow, state: State, adopt: bool | None) -> Session:
    """Return a session that calls no model. With `adopt`, the user gives the inputs that the run already has."""
    given = grant_inputs(state.inputs, state.inputs if adopt else ())
    return loaded.build_session(ScriptedGateway(), AutoResponder(), adopt=adopt, given_inputs=given)


def _resolve_adopt_option(
    loaded: LoadedWorkflow, run: StoredRun, adopt: bool | None, out: Output, *, can_ask: bool
) -> bool | None:
    """Return whether a run folder from another machine keeps its models and its paths outside the project.

    The result is the value of `--adopt` or, without it, the user's answer. It is None if there is nothing to decide.
    The run keeps its records in any case. Raises SkillrunError if the user must decide and cannot be asked.
    """
    session = _preview_session(loaded, run.state(), adopt)
    claims = foreign_claims(session, run)
    if claims is None:
        return adopt
    if adopt is None and claims.lines:
        if not (can_ask and has_terminal()):
            raise_undecided_error(session, run, claims)
        out.note(format_claims(claims))
        otherwise = f"stop, so that you can {CHANGE_INPUT_HINT}." if claims.paths else "use this project's settings."
        adopt = click.confirm(f"Keep these settings? No: {otherwise}", default=False, err=True)
    if adopt:
        out.line(f"{FOREIGN_RUN}; its settings are kept")
    return adopt


def _migrate_run(run: LocalRun, library: Library, out: Output, *, preview: bool) -> None:
    """Migrate the run if an older version created it. Raises SkillrunError if migration is not possible."""
    old = run.v1_state()
    if old is None:
        return
    if preview or not old.get("workflow"):
        hint = "resume the run without `--preview`" if preview else "add `workflow: NAME` to its frontmatter"
        raise UsageError(f"{run.data().location(STATE)} has schema version 1, and must be migrated first", hint)
    program = load(str(old["workflow"]), out, library).program
    out.lines(run.migrate_v1_run(old, program, utc_timestamp()))


def _print_preview(
    planned: Forecast,
    changed: list[str],
    ignored: list[str],
    run: tuple[str, Mapping[str, str]],
    out: Output,
    *,
    from_start: bool,
) -> None:
    """Print the changed files, the calls, the ignored edits and the next command. `run` is the run's name and flags."""
    changed = sorted({*changed, *planned.edited})
    lines = [f"changed since the run: {', '.join(changed)}"] if changed else []
    lines += _call_lines(planned.calls, planned.reused if from_start else None)
    if from_start and planned.calls:
        lines.append(f"next: {ResumeCommand('--from-start --yes').render(*run)} starts this rerun")
    elif ignored:
        command = ResumeCommand("--from-start --preview").render(*run)
        lines += [*ignored, f"Finished phases ignore changes; {command} previews a rerun of all phases."]
    out.lines(lines)
    data = {"would_ask": list(map(asdict, planned.calls)), "reused": planned.reused, "from_start": from_start}
    out.data({**data, "changed": changed, "ignored": ignored})


def _print_refusal(
    lost: list[str], repeated: list[PredictedCall], changed: list[str], command: str, out: Output
) -> None:
    """Print the replies that are lost, the calls that would be repeated, and the command that resumes anyway."""
    lines = [*lost, *([f"changed since the run last executed: {', '.join(changed)}"] if changed else [])]
    out.notes([*lines, *_call_lines(repeated)])
    certain = sum(call.certain for call in repeated)
    calls = f"{count_noun(certain, 'call')} again" if certain else "some calls again"
    more = f", and possibly {len(repeated) - certain} more" if 0 < certain < len(repeated) else ""
    out.note(f"error: resuming would make {calls}{more}; no model was called yet")
    out.note(f"hint: {command} resumes anyway")
    out.data({"status": "refused", "changed": changed, "would_ask": list(map(asdict, repeated))})


def _ignored_edits(session: Session, state: State, run: StoredRun) -> list[str]:
    """Return lines about edited files that have no effect, because the phases that use them have finished."""
    program, summaries = session.program, run.data().summaries
    ended = [name for name in program.phases if (found := summaries.find_readable(name)) and found.is_over]
    edited: Mapping[str, Sequence[str]] = {}
    if ended:
        with closing(run.read_journal()) as journal:
            has_read = any("tool" not in entry.body for entry in journal.entries("tool"))  # a step, and not a model
        edited = asyncio.run(forecast_calls(session, run, from_start=True)).edited if has_read else {}
    unused = {file: used for file, phases in edited.items() if (used := [one for one in phases if one in ended])}
    partly_used = list[str]()
    for file, phases in unused_edits(program, state, ended).items():
        if len(phases) < len(phases_using(program, file)):
            partly_used.append(file)
        else:
            unused[file] = [*dict.fromkeys([*phases, *unused.get(file, [])])]
    verbs = {file: "has" if len(phases) == 1 else "have" for file, phases in unused.items()}
    places = [f"{file} (phase `{'`, `'.join(unused[file])}` {verbs[file]} ended)" for file in sorted(unused)]
    lines = [f"not used: {', '.join(places)}"] if places else []
    return [*lines, *([f"used only by phases that have not ended: {', '.join(partly_used)}"] if partly_used else [])]


def _pinned_model_lines(session: Session, run: StoredRun) -> list[str]:
    """Return a warning if the environment or the config now selects other models than the run uses, and a hint."""
    if foreign_claims(session, run) is not None:  # the user decides about the models
        return []
    state, catalogue, other = run.state(), session.services.catalogue, []
    override = os.environ.get(MODEL_VARIABLE) or state.override
    for name, model in state.models.items():
        try:
            if catalogue.can_resolve_to(name, model, os.environ, override):
                continue
            now = catalogue.resolve(name, os.environ, override).model
        except SkillrunError:
            now = "nothing"
        other.append(f"{name} = {model} (now {now})")
    if not other:
        return []
    return [f"warning: the run keeps its models: {', '.join(other)}", "hint: start a new run to use the other models"]


def _find_lost_replies(program: Program, run: StoredRun, *, from_start: bool) -> dict[str, list[tuple[str, str]]]:
    """Return the replies that no step can use, because their phase or step is gone or renamed, keyed by its path.

    Each reply is an address and a fingerprint. Losses that the user has accepted do not count. Replies of phases that
    have ended count only with `from_start`.
    """
    summaries, lost = run.data().summaries, dict[str, list[tuple[str, str]]]()
    with closing(run.read_journal()) as journal:
        for address, fingerprint in dict.fromkeys(entry[1:3] for entry in journal.entries("reply", texts=False)):
            workflow, phase, *path = strip_markers(address).split("/")[:-2]  # without the member and the attempt
            summary = None if from_start else summaries.find_readable(phase)
            is_over = summary is not None and summary.is_over
            is_accepted = journal.find("note", address + LOST_SUFFIX, fingerprint) is not None
            if workflow != program.workflow.name or is_over or is_accepted:
                continue
            if (place := _missing_place(program, phase, path)) is not None:
                lost.setdefault(place, []).append((address, fingerprint))
    return lost


def _lost_reply_lines(lost: Mapping[str, list[tuple[str, str]]]) -> list[str]:
    lines = []
    for place, replies in lost.items():
        addresses = [*dict.fromkeys(address for address, _ in replies)]
        more = ", …" if len(addresses) > MOST_NAMED else ""
        calls = f"{count_noun(len(addresses), 'call')} ({', '.join(addresses[:MOST_NAMED])}{more})"
        lines.append(f"the {'step' if '/' in place else 'phase'} `{place}` is gone; its replies are not used: {calls}")
    if lines:
        phase = next((place for place in lost if "/" not in place), "")
        was = f"; `was: {phase}` keeps its summaries under a new name, but no replies" if phase else ""
        lines.append(f"hint: to use them, rename it only when the run is completed{was}")
    return lines


def _missing_place(program: Program, phase: str, path: Sequence[str]) -> str | None:
    """Return the phase, or the path of the step, if the program lacks it. `path` has the ids of nested steps."""
    if phase not in program.phases:
        return phase
    if path[:1] == [SUMMARY]:
        return None
    fallback = program.workflow.phases[phase].otherwise
    tops = (*program.phases[phase].steps, *([fallback] if fallback is not None else []))
    verbs = {step.id or step.verb: step.verb for top in tops for step in top.walk()}
    for part in path:
        verb = verbs.get(part.partition(".")[0])
        if verb is None:
            return "/".join([phase, *path])
        if verb not in LOOPS:  # what follows is a step of a protocol or of another workflow
            return None
    return None


def _call_lines(calls: list[PredictedCall], reused: int | None = None) -> list[str]:
    """Return lines about the calls and their tokens. Calls that depend on generated replies come last.

    `reused` is the number of replies that a rerun takes from the journal, or None if the run is resumed.
    """
    if not calls:
        return ["no calls would be made" + (f": all {reused:,} are reused" if reused is not None else "")]
    total = f" of {len(calls) + reused:,}" if reused is not None else ""
    lines = []
    for kind, note in (("certain", ""), ("possible", ", possibly")):
        if not (chosen := [call for call in calls if call.certain == (kind == "certain")]):
            continue
        for call in chosen:
            again = "called again" if call.again else "new"
            lines.append(f"  {call.address} ({call.model}, {call.tokens:,} tokens): {again}{note}")
        prices = [call.price for call in chosen if call.price is not None]  # they depend on estimated reply lengths
        price = f"about {format_price(sum(prices))}" if prices else "price unknown"
        if 0 < len(prices) < len(chosen):
            price += f", and {count_noun(len(chosen) - len(prices), 'call')} of unknown price"
        number = f"{len(chosen):,}{total} calls" if total else count_noun(len(chosen), "call")
        lines.append(f"{kind}: {number}, {sum(call.tokens for call in chosen):,} tokens in, {price}")
    lines += [f"reused: {reused:,}{total} calls"] if reused is not None else []
    return lines if all(call.certain for call in calls) else [*lines, ESTIMATE_NOTE]
