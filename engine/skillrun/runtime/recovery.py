"""Recovers damaged summaries: an incomplete one is used with a warning, a lost one is rebuilt.

A phase that has ended and lost its summary is evaluated again over the journal, from the state at its start. If the
journal has no entries of the phase, the summary is rebuilt from its artifacts. Without artifacts, the user decides.
"""

from __future__ import annotations

from typing import Final

from skillrun.events import Notice
from skillrun.questions.answers import Question
from skillrun.runtime.asking.asking import RETRY, ask_questions
from skillrun.runtime.frame import Evaluator
from skillrun.runtime.run import PhaseRun, Run
from skillrun.runtime.scope import new_frame
from skillrun.runtime.summaries import FINAL, base_summary
from skillrun.store.summaries import WAITING_STATUS, Summary
from skillrun.syntax.diagnostics import SkillrunError
from skillrun.types.schemas import quote_value

SKIP: Final = "skip"


def usable_summary(run: Run, name: str) -> Summary | None:
    """Return the summary of an ended phase, or None. Report problems, and move an unusable file out of the way."""
    try:
        summary = run.store.summaries.find(name)
        problem = _summary_problem(run, name, summary) if summary is not None else ""
    except SkillrunError as error:
        summary, problem = None, error.message
    if problem:
        run.emit(Notice(f"summaries/{name}.md cannot be used, so the phase is recovered: {problem}", "warn"))
        run.store.summaries.quarantine(name)
    if problem or summary is None or summary.status not in FINAL:
        return None
    if run.store.summaries.is_edited(name):
        warn_of_edit(run, f"summaries/{name}.md")
    if summary.missing_keys:
        text = f"summaries/{name}.md lacks {', '.join(summary.missing_keys)}; its other fields are used"
        run.emit(Notice(text, "warn"))
    return Summary.from_record({"phase": name, "round": run.state.round, **summary.record})


def warn_of_edit(run: Run, place: str) -> None:
    run.emit(Notice(f"{place} was edited manually; the edited version is used", "warn"))


def _summary_problem(run: Run, name: str, summary: Summary) -> str:
    """Return the reason why a summary cannot be used for this phase; empty if it can."""
    if summary.status not in (*FINAL, WAITING_STATUS):
        return f"its status is `{summary.status}`"
    if summary.record.get("phase", name) != name:
        return f"it belongs to {quote_value(summary.phase)}"
    if summary.round > run.state.round:
        return f"its round is {summary.round}, but the run is in round {run.state.round}"
    if summary.goto is not None and summary.goto["target"] not in run.program.workflow.phases:
        return f"it goes back to {quote_value(summary.goto['target'])}, which is not a phase"
    return ""


async def rebuild_summary(phase: PhaseRun, evaluator: Evaluator) -> Summary | None:
    """Return a summary rebuilt from the artifacts of a phase; None if the phase must be evaluated again.

    If there are no artifacts, the user is asked whether to skip the phase. Raises WaitingForUser if that is impossible.
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
        text = f"{phase.name} ended earlier, but its summary and its artifacts are missing. Retry it, or skip it?"
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
