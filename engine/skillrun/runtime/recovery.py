"""Summaries that are not what they should be: an incomplete one is used with a warning, a lost one is made again.

A phase that has ended and whose summary is lost is evaluated again over the journal, from the state that it began with.
Where the journal knows nothing of it, its artifacts speak for it; where there are none, the person says what to do.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from skillrun.definitions.definitions import PhaseUse
from skillrun.events import Notice
from skillrun.questions.answers import Question
from skillrun.runtime.asking.asking import RETRY, ask_questions
from skillrun.runtime.frame import Evaluator
from skillrun.runtime.run import PhaseRun, Run
from skillrun.runtime.scope import new_frame, past_summaries
from skillrun.runtime.summaries import FINAL, base_summary
from skillrun.store.summary import WAITING_STATUS, Summary
from skillrun.syntax.diagnostics import SkillrunError
from skillrun.types.input_values import resolve_inputs
from skillrun.types.schemas import quote_value

SKIP: Final = "skip"


def usable_summary(run: Run, name: str) -> Summary | None:
    """The summary of a phase that is over; what is wrong with it is said, and what cannot be used is set aside."""
    try:
        summary = run.store.summaries.find(name)
        problem = _summary_problem(run, name, summary) if summary is not None else ""
    except SkillrunError as error:
        summary, problem = None, error.message
    if problem:
        run.emit(Notice(f"summaries/{name}.md cannot be used, and the phase is recovered: {problem}", "warn"))
        run.store.summaries.quarantine(name)
    if problem or summary is None or summary.status not in FINAL:
        return None
    if run.store.summaries.is_edited(name):
        _warn_of_edit(run, f"summaries/{name}.md")
    if summary.missing_keys:
        run.emit(
            Notice(f"summaries/{name}.md lacks {', '.join(summary.missing_keys)}; went on with what it has", "warn")
        )
    return Summary.from_record({"phase": name, "round": run.state.round, **summary.record})


def warn_of_edits(run: Run) -> None:
    """Say which summaries of the rounds that are over are not as they were written."""
    for place in run.store.summaries.list_edited_in_past_rounds():
        _warn_of_edit(run, place)


def _warn_of_edit(run: Run, place: str) -> None:
    run.emit(Notice(f"{place} was changed by hand, and counts as it is now", "warn"))


def _summary_problem(run: Run, name: str, summary: Summary) -> str:
    """Why a summary is none of this phase; empty where it is."""
    if summary.status not in (*FINAL, WAITING_STATUS):
        return f"its status is `{summary.status}`"
    if summary.record.get("phase", name) != name:
        return f"it is that of {quote_value(summary.phase)}"
    if summary.round > run.state.round:
        return f"its round is {summary.round}, and the run is in round {run.state.round}"
    if summary.goto is not None and summary.goto["target"] not in run.program.workflow.phases:
        return f"it goes back to {quote_value(summary.goto['target'])}, which is no phase"
    return ""


def phases_to_rebuild(run: Run, done: Collection[str], begun: Collection[str]) -> set[str]:
    """The phases without a summary that must have ended: one that follows them has begun, or is over."""
    workflow = run.program.workflow
    later = {*done, *begun}
    return {name for name in workflow.phases if name not in done and later & (set(workflow.followers(name)) - {name})}


def state_at_phase_start(run: Run, use: PhaseUse) -> dict[str, object]:
    """The state that a phase of this round began with: the defaults, and what the phases before it set."""
    names = {"config": run.program.config, "inputs": run.state.inputs}
    state, _, _ = resolve_inputs(run.program.workflow.state, {}, names)
    for summary in past_summaries(run, use):
        state |= summary.set
    return {name: value for name, value in state.items() if value is not None}


async def rebuild_summary(phase: PhaseRun, evaluator: Evaluator) -> Summary | None:
    """The summary that a lost phase's artifacts allow; None where the phase has to be evaluated.

    Raises Waiting when there are no artifacts either and nobody is there to choose.
    """
    run, address = phase.run, phase.address()
    asks = any(step.verb in ("agent", "panel", "ask", "run") for step in phase.phase.walk())
    journal_addresses = (entry.address for kind in ("reply", "failed", "answer") for entry in run.journal.entries(kind))
    if not asks or any(place.startswith(f"{address}/") for place in journal_addresses):
        return None
    paths = dict.fromkeys(step.artifact.literal for step in phase.phase.walk() if step.artifact is not None)
    artifacts = [path for path in paths if isinstance(path, str) and run.store.artifacts.text(path) is not None]
    phase.record.artifacts = artifacts
    if not artifacts:
        text = f"{phase.name} has ended before and left neither a summary nor an artifact. Do it again, or skip it?"
        asked: Question = {"id": "recover", "text": text, "choices": [RETRY, SKIP], "default": RETRY}
        asked["round"] = phase.round
        frame = new_frame(phase, address, phase.phase, phase.names, evaluator)
        answers = (await ask_questions(frame, f"{address}.recover", [asked]))["answers"]
        if answers[0].get("answer") != SKIP:
            run.lost_phases.discard(phase.name)
            return None
    artifact_names = ", ".join(artifacts) or "nothing"
    summary = base_summary(phase, "completed" if artifacts else "skipped")
    return summary.with_fields(
        summary=f"Rebuilt from what the phase left: {artifact_names}.", flags={"recovered": True}
    )
