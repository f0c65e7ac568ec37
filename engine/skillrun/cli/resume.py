"""`skillrun resume`: goes on with a run; says first which calls a change of files would ask again."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any, Final

import click

from skillrun.cli import adoption, completing, options
from skillrun.cli.here import project_here
from skillrun.cli.loading import Loaded, load, load_script, open_library, refuse
from skillrun.cli.presence import Presence
from skillrun.cli.printing import Output
from skillrun.cli.rehearsal import StandIn
from skillrun.cli.running import carry_out
from skillrun.cli.story import story
from skillrun.cli.trust import trusted
from skillrun.cli.words import counted, money
from skillrun.language.library.library import Library
from skillrun.language.text.diagnostics import UsageError
from skillrun.models.scripted import ScriptedGateway
from skillrun.people.refusal import check_answers
from skillrun.runtime import session as sessions
from skillrun.runtime.admission import decided_state
from skillrun.runtime.clock import moment
from skillrun.runtime.foretelling import WouldAsk, would_ask
from skillrun.runtime.forward import changed_files
from skillrun.runtime.next_step import Resume
from skillrun.runtime.outcome import Outcome
from skillrun.runtime.run import Session
from skillrun.runtime.store.disk.run_folder import RunFolder
from skillrun.runtime.store.state import STATE
from skillrun.runtime.store.stored_run import StoredRun

UNTOUCHED: Final = "Nothing was asked and nothing was spent; the run stands where it stood."


@click.command(
    help="Resume RUN. RUN is the name of a run, or the path of its folder.\n\nCalls that have a reply are not repeated."
)
@click.argument("run", shell_complete=completing.runs)
@click.option("--yes", is_flag=True, help="Repeat the calls that changed files affect, without asking.")
@click.option("--preview", is_flag=True, help="Only show which calls would be made.")
@options.unattended
@options.interactive
@options.answers
@options.budget
@options.runs_folder
@options.script
@options.share
@options.trust_project
@adoption.adopt
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
    json: bool


def resuming(run: str, values: Mapping[str, Any]) -> Resuming:
    """The same from the values of the options, by their names."""
    presence = Presence(**{field.name: values[field.name] for field in fields(Presence)})
    own = [field.name for field in fields(Resuming) if field.name not in ("run", "presence")]
    return Resuming(run, presence=presence, **{name: values[name] for name in own})


def go_on(request: Resuming, workflow: str = "") -> int:
    """Go on with a run; the exit code. Raises UsageError where it is none of the `workflow`, if one is named."""
    out, presence, preview = Output(request.json), request.presence, request.preview
    runs, name = options.run_named(request.run, request.runs)
    run = runs.existing(name)
    typed = run.called(project_here())
    if (project := project_here()) != Path.cwd():
        out.note(f"project: {project}")
    library = open_library()
    if isinstance(run, RunFolder):  # stores came later
        _bring_forward(run, library, out, preview=preview)
    state = run.state()
    if workflow not in ("", state.workflow):
        raise UsageError(f"`{name}` is a run of `{state.workflow}`, not of `{workflow}`", f"`skillrun resume {typed}`")
    if state.status == "completed":
        out.line(f"{name} is completed; `skillrun show {typed}` tells how it went")
        out.data({"would_ask": []} if preview else story(run))
        return 0
    if library.locate(f"workflows/{state.workflow}.md") is None:
        raise UsageError(
            f"there is no workflow `{state.workflow}` here", f"the run was begun in {state.project}: go there"
        )
    loaded = load(state.workflow, out, library)
    changed = changed_files(loaded.program, state)
    if presence.answers is not None and not preview:
        refuse(check_answers(loaded.program, presence.prepared()), out, UNTOUCHED, code=2)
    adopt = request.adopt
    if not preview:
        adopt = adoption.decided(loaded, run, adopt, out, attended=not presence.unattended)
    asked = asyncio.run(_would_ask(loaded, run, adopt=adopt)) if preview or (changed and not request.yes) else []
    again = [call for call in asked if call.again]
    if preview:
        out.line("\n".join(_lines(asked)))
        out.data({"would_ask": [asdict(call) for call in asked]})
        return 0
    script = load_script(request.script, out)
    if again:
        out.note("\n".join([f"changed since the run was last evaluated: {', '.join(changed)}", *_lines(again)]))
        out.note(f"error: going on asks {_again(again)}; nothing was asked yet")
        flags = {**presence.typed, **(script.typed if script is not None else {})}
        out.note(f"hint: {Resume('--yes').words(typed, flags)} goes on all the same")
        out.data({"status": "refused", "changed": changed, "would_ask": [asdict(call) for call in again]})
        return 1

    if script is None:
        state = decided_state(_asking_nobody(loaded, adopt=adopt), run)
        models = loaded.resolved(state.override, state.models)
        loaded = trusted(loaded, models, out, unattended=presence.unattended, given=request.trust_project)

    async def go(session: Session) -> Outcome:
        chosen = replace(session, budget=request.budget, share=request.share, adopt=adopt)
        return await sessions.resume_run(chosen, run)

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


async def _would_ask(loaded: Loaded, run: StoredRun, *, adopt: bool | None) -> list[WouldAsk]:
    return await would_ask(_asking_nobody(loaded, adopt=adopt), run)


def _again(asked: list[WouldAsk]) -> str:
    sure = sum(call.certain for call in asked)
    if sure == len(asked):
        return f"{counted(sure, 'call')} again"
    return f"{counted(sure, 'call')} again, and perhaps {len(asked) - sure} more" if sure else "some calls again"


def _lines(asked: list[WouldAsk]) -> list[str]:
    """The calls with their tokens; what is certain, and what only generated replies have led to."""
    if not asked:
        return ["nothing would be asked"]
    sure, perhaps = [call for call in asked if call.certain], [call for call in asked if not call.certain]
    lines = [*(_line(call) for call in sure), f"certain: {_sum(sure)}"] if sure else []
    if perhaps:
        lines += [*(f"{_line(call)}, perhaps" for call in perhaps), f"a guess: {_sum(perhaps)}"]
        lines += ["It follows replies that were made up: loops may end sooner, conditions may not hold, or others may."]
    return lines


def _line(call: WouldAsk) -> str:
    kind = "asked again" if call.again else "new"
    return f"  {call.address} ({call.model}, {call.tokens:,} tokens): {kind}"


def _sum(asked: list[WouldAsk]) -> str:
    """How many, how long, and the price: how long the replies are is a guess in any case."""
    prices = [call.price for call in asked if call.price is not None]
    price = f"about {money(sum(prices))}" if len(prices) == len(asked) else "price unknown"
    if prices and len(prices) < len(asked):
        price = f"about {money(sum(prices))}, and {counted(len(asked) - len(prices), 'call')} of unknown price"
    return f"{counted(len(asked), 'call')}, {sum(call.tokens for call in asked):,} tokens in, {price}"
