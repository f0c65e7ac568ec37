"""`skillrun resume`: resumes a run, or runs it again, and first says which calls a change of files causes."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any, Final

import click

from skillrun.cli import adoption, completers, options
from skillrun.cli.answer_options import Presence
from skillrun.cli.execution import carry_out
from skillrun.cli.formatting import counted, money
from skillrun.cli.loading import Loaded, load, load_script, open_library, refuse
from skillrun.cli.output import Output
from skillrun.cli.preview import StandIn
from skillrun.cli.project_folder import project_here
from skillrun.cli.run_summary import story
from skillrun.cli.trust import trusted
from skillrun.library.library import Library
from skillrun.models.scripted import ScriptedGateway
from skillrun.questions.expected_questions import check_answers
from skillrun.runtime import session as sessions
from skillrun.runtime.forecast import Forecast, WouldAsk, forecast
from skillrun.runtime.foreign_runs import decided_state
from skillrun.runtime.run import Session
from skillrun.runtime.state_migration import changed_files
from skillrun.store.clock import moment
from skillrun.store.local.local_run import RunFolder
from skillrun.store.next_step import Resume
from skillrun.store.outcome import Outcome
from skillrun.store.state import STATE
from skillrun.syntax.diagnostics import UsageError

UNTOUCHED: Final = "No model was called and nothing was spent; the run is unchanged."
GUESSED: Final = "Possible calls depend on replies that this preview made up: a real run may make fewer, or others."


@click.command(
    help="Resume RUN. RUN is the name of a run, or the path of its folder.\n\nCalls that have a reply are not repeated."
)
@click.argument("run", shell_complete=completers.runs)
@click.option("--yes", is_flag=True, help="Repeat the calls that changed files affect, without asking.")
@click.option("--preview", is_flag=True, help="Only show which calls would be made.")
@click.option(
    "--from-start",
    is_flag=True,
    help="Run all phases again, also of a completed run; calls whose prompts are unchanged are reused.",
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
    return go_on(resuming(run, options_given))


@dataclass(frozen=True)
class Resuming:
    """The run to go on with, and what the options say."""

    run: str
    runs: Path
    script: Path | None
    presence: Presence
    budget: Mapping[str, float]
    share: bool
    trust_project: bool
    adopt: bool | None
    yes: bool
    preview: bool
    from_start: bool
    quiet: bool
    json: bool


def resuming(run: str, values: Mapping[str, Any]) -> Resuming:
    """The same from the values of the options, by their names."""
    presence = Presence(**{field.name: values[field.name] for field in fields(Presence)})
    own = [field.name for field in fields(Resuming) if field.name not in ("run", "presence")]
    return Resuming(run, presence=presence, **{name: values[name] for name in own})


def go_on(request: Resuming, workflow: str = "") -> int:
    """Go on with a run; the exit code. Raises UsageError where it is none of the `workflow`, if one is named."""
    out, presence, preview = Output(request.json, request.quiet), request.presence, request.preview
    runs, name = options.run_named(request.run, request.runs)
    run = runs.existing(name)
    command_name = run.called(project_here())
    if (project := project_here()) != Path.cwd():
        out.note(f"project: {project}")
    library = open_library()
    if isinstance(run, RunFolder):  # stores came later
        _bring_forward(run, library, out, preview=preview)
    state = run.state()
    if workflow not in ("", state.workflow):
        raise UsageError(
            f"`{name}` is a run of `{state.workflow}`, not of `{workflow}`", f"`skillrun resume {command_name}`"
        )
    from_start = request.from_start or (preview and state.status == "completed")
    if state.status == "completed" and not from_start:
        out.line(f"{name} is completed; `skillrun show {command_name}` shows the details")
        out.line(f"{Resume('--preview').words(command_name, {})} shows which calls a re-run would make")
        out.data(story(run))
        return 0
    if library.locate(f"workflows/{state.workflow}.md") is None:
        raise UsageError(
            f"there is no workflow `{state.workflow}` here",
            f"the run was started in {state.project}: run this command there",
        )
    loaded = load(state.workflow, out, library)
    changed = changed_files(loaded.program, state)
    if presence.answers is not None and not preview:
        refuse(check_answers(loaded.program, presence.prepared()), out, UNTOUCHED, code=2)
    adopt = request.adopt
    if not preview:
        adopt = adoption.decided(loaded, run, adopt, out, attended=not presence.unattended)
    script = load_script(request.script, out)
    flags = {**presence.typed, **(script.typed if script is not None else {})}
    ahead = Forecast([], 0)
    if preview or ((changed or from_start) and not request.yes):
        rules = script.rules if script is not None else ()
        ahead = asyncio.run(forecast(_asking_nobody(loaded, adopt=adopt), run, rules, from_start=from_start))
    asked = ahead.calls
    again = [call for call in asked if call.again]
    if preview:
        ended = run.store().summaries.artifacts()
        out.line("\n".join(_preview(ahead, changed, command_name, flags, from_start=from_start, ended=bool(ended))))
        calls = [asdict(call) for call in asked]
        out.data({"would_ask": calls, "reused": ahead.reused, "from_start": from_start, "changed": changed})
        return 0
    if again:
        files = [f"changed since the run was last evaluated: {', '.join(changed)}"] if changed else []
        out.note("\n".join([*files, *_lines(again)]))
        out.note(f"error: resuming would make {_again(again)}; no model was called yet")
        more = "--from-start --yes" if from_start else "--yes"
        out.note(f"hint: {Resume(more).words(command_name, flags)} resumes anyway")
        out.data({"status": "refused", "changed": changed, "would_ask": [asdict(call) for call in again]})
        return 1

    if script is None:
        state = decided_state(_asking_nobody(loaded, adopt=adopt), run)
        models = loaded.resolved(state.override, state.models)
        loaded = trusted(loaded, models, out, unattended=presence.unattended, given=request.trust_project)

    async def go(session: Session) -> Outcome:
        chosen = replace(session, budget=request.budget, share=request.share, adopt=adopt)
        return await sessions.resume_run(chosen, run, from_start=from_start)

    return carry_out(loaded, presence, go, runs, name, script, out)


def _asking_nobody(loaded: Loaded, *, adopt: bool | None) -> Session:
    """A session that only looks."""
    return replace(loaded.session(ScriptedGateway(), StandIn()), adopt=adopt)


def _bring_forward(run: RunFolder, library: Library, out: Output, *, preview: bool) -> None:
    """Migrate a run that an older version has left; nothing for any other. Raises SkillrunError."""
    old = run.old_state()
    if old is None:
        return
    if preview or not old.get("workflow"):
        hint = "resume it without --preview" if preview else "add `workflow: NAME` to its frontmatter"
        raise UsageError(f"{run.store().place(STATE)} is of schema version 1", hint)
    program = load(str(old["workflow"]), out, library).program
    for line in run.bring_forward(old, program, moment()):
        out.line(line)


def _preview(
    ahead: Forecast,
    changed: list[str],
    name: str,
    flags: Mapping[str, str],
    *,
    from_start: bool,
    ended: bool,
) -> Iterator[str]:
    """The changed files, the calls, and the command that comes next. `ended`: whether a phase has."""
    if changed:
        yield f"changed since the run: {', '.join(changed)}"
    yield from _lines(ahead.calls, ahead.reused if from_start else None)
    if from_start and ahead.calls:
        yield f"next: {Resume('--from-start --yes').words(name, flags)} makes this re-run"
    elif changed and ended and not from_start:
        command = Resume("--from-start --preview").words(name, flags)
        yield f"Phases that have ended do not take up a change; {command} previews a re-run of all phases."


def _again(asked: list[WouldAsk]) -> str:
    sure = sum(call.certain for call in asked)
    if sure == len(asked):
        return f"{counted(sure, 'call')} again"
    return f"{counted(sure, 'call')} again, and possibly {len(asked) - sure} more" if sure else "some calls again"


def _lines(asked: list[WouldAsk], reused: int | None = None) -> list[str]:
    """The calls with their tokens: what is certain, and what only follows from generated replies.

    `reused` is how many calls a re-run of the whole run takes from its journal; None for a run that resumes.
    """
    total = f" of {len(asked) + reused:,}" if reused is not None else ""
    if not asked:
        return [f"no call would be made: all {reused:,} are reused" if reused is not None else "no call would be made"]
    sure, possible = [call for call in asked if call.certain], [call for call in asked if not call.certain]
    lines = [*(_line(call) for call in sure), f"certain: {_sum(sure, total)}"] if sure else []
    if possible:
        lines += [*(f"{_line(call)}, possibly" for call in possible), f"possible: {_sum(possible, total)}"]
    if reused is not None:
        lines.append(f"reused: {reused:,}{total} calls")
    return [*lines, GUESSED] if possible else lines


def _line(call: WouldAsk) -> str:
    kind = "called again" if call.again else "new"
    return f"  {call.address} ({call.model}, {call.tokens:,} tokens): {kind}"


def _sum(asked: list[WouldAsk], total: str) -> str:
    """How many, how long, and the price: how long the replies are is a guess in any case."""
    prices = [call.price for call in asked if call.price is not None]
    price = f"about {money(sum(prices))}" if len(prices) == len(asked) else "price unknown"
    if prices and len(prices) < len(asked):
        price = f"about {money(sum(prices))}, and {counted(len(asked) - len(prices), 'call')} of unknown price"
    calls = f"{len(asked):,}{total} calls" if total else counted(len(asked), "call")
    return f"{calls}, {sum(call.tokens for call in asked):,} tokens in, {price}"
