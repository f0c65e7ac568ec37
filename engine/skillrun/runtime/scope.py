"""Provides the values of the names that templates read. `checker/names` declares the types of the names."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from skillrun.definitions.definitions import PhaseUse, Procedure, Step
from skillrun.runtime.asking.forms import form_answers
from skillrun.runtime.calls.tools import report_repository
from skillrun.runtime.frame import Evaluator, Frame
from skillrun.runtime.phase_record import Breakers, PhaseRecord, Prompts, UsageTotals
from skillrun.runtime.run import PhaseRun, PriorPhases, Run
from skillrun.store.files import sha256_of
from skillrun.store.summaries import Summary
from skillrun.syntax.diagnostics import SkillrunError
from skillrun.templates.limits import TemplateError
from skillrun.templates.values import ABSENT, Absent
from skillrun.types.fields import resolve_inputs
from skillrun.types.types import identifier

SUMMARY_DEFAULTS: Mapping[str, Any] = {
    "artifacts": [],
    "flags": {},
    "key_decisions": [],
    "open_questions": [],
    "risks_identified": [],
    "quality_warnings": [],
}


def past_summaries(run: Run, phases: Iterable[str]) -> list[Summary]:
    """Return the summaries of these phases, of all rounds, oldest first."""
    workflow = run.program.workflow
    order = {name: (len(workflow.ancestors(name)), index) for index, name in enumerate(workflow.phases)}
    summaries = run.store.summaries.all_summaries(run.state.round, phases)
    return sorted(summaries, key=lambda summary: (summary.record.get("round", 0), order.get(summary.phase, ())))


def open_phase(run: Run, use: PhaseUse, previous: PhaseRun | None = None) -> PhaseRun:
    """Return a phase that is ready for evaluation, with a copy of the state.

    `previous` is the failed attempt of a phase that is retried. Its answers and attempts still count. A phase that has
    lost its summary gets the state at its first start.
    """
    workflow = run.program.workflow
    ancestors = workflow.ancestors(use.name)
    prior = run.store.summaries.completed_summaries(name for name in workflow.phases if name in ancestors)
    over = past_summaries(run, prior)  # of the phases that always end before this one starts
    state = dict(run.state.state)
    if use.name in run.lost_phases:
        defaults, _, _ = resolve_inputs(workflow.state, {}, {"config": run.program.config, "inputs": run.state.inputs})
        for summary in over:
            defaults |= summary.set
        state = {name: value for name, value in defaults.items() if value is not None}
    names = base_values(run, state)
    failures: dict[str, int] = {}
    for summary in over:
        failures |= summary.failures
    breakers = Breakers(run.config(state).get("breakers") or {}, {name: n for name, n in failures.items() if n})
    asked = frozenset(question for summary in over for question in summary.asked)
    if run.parent_phase is not None:
        asked |= run.parent_phase.prior.question_ids | frozenset(run.parent_phase.record.question_ids)
    phase = PhaseRun(run, use.name, names, breakers, PriorPhases(prior, asked, UsageTotals.from_summaries(over)))
    completed = {name: summary for name, summary in prior.items() if summary.status == "completed"}
    names["phases"] = {name: phase_value(run, summary, phase) for name, summary in completed.items()}
    names["history"] = [
        {"round": past.round, "phases": past.records} for past in run.store.summaries.history(run.state.round)
    ]
    folder = workflow.repository.evaluate(names) if workflow.repository is not None else None
    names["repository"] = str(folder) if folder else ""
    report_repository(run, names["repository"])
    phase.fallback_depth = int(use.otherwise is not None)
    names["run"]["answers"] = form_answers(run, phase, ancestors)
    if previous is not None:
        phase.breakers, failed = previous.breakers, previous.record
        phase.record = PhaseRecord(failed.usage, artifacts=failed.artifacts, prompts=Prompts(failed.prompts.count))
    attempts_owner = previous or run.parent_phase
    if attempts_owner is not None:
        phase.attempts = attempts_owner.attempts
    phase.update_usage()
    phase.is_reentry = run.journal.find("note", phase.pause_address, "") is not None
    return phase


def phase_value(run: Run, summary: Summary, reader: PhaseRun | None = None) -> dict[str, object]:
    """Return the value of an ended phase in templates of the phase `reader`: summary, outputs and artifacts.

    Artifacts have their current text. But if `reader` itself has overwritten an artifact, it gets the earlier text, so
    that it reads the same after it is resumed.
    """
    artifacts = {}
    for name in summary.artifacts:
        text = run.store.artifacts.text(name)
        if text is not None:
            known = run.journal.find("note", reader.overwritten_text_address(name), sha256_of(text)) if reader else None
            artifacts[name] = known.get("text", text) if known is not None else text
    internal = ("outputs", "set", "usage")
    record = {**SUMMARY_DEFAULTS, **{key: value for key, value in summary.record.items() if key not in internal}}
    return {"summary": record, "outputs": dict(summary.outputs), "artifacts": artifacts}


def base_values(run: Run, state: dict[str, object]) -> dict[str, Any]:
    """Return the names, with values, that templates see in every phase of the workflow."""
    names: dict[str, Any] = {
        "name": run.name,
        "workflow": run.program.workflow.name,
        "round": run.state.round,
        "answers": [],
        "started_at": run.state.started_at,
        "environment": run.state.environment,
        "window": min(run.resolve_model(name).window for name in run.services.catalogue.tiers),
        "models": {name: run.state.models[name] for name in run.services.catalogue.tiers if name in run.state.models},
    }
    if run.state.estimate is not None:
        names["estimate"] = dict(run.state.estimate)
    return {
        "inputs": run.state.inputs,
        "state": state,
        "config": dict(run.config(state)),  # a copy, because setting the mode changes it
        "features": {name: feature.on for name, feature in run.features(state).items()},
        "run": names,
    }


def new_frame(
    phase: PhaseRun, address: str, score: Procedure, names: dict[str, Any], evaluator: Evaluator, **more: Any
) -> Frame:
    """Return a frame for the steps of a phase or protocol. The names that the steps bind are absent at first."""
    frame = Frame(phase, address, names, score.prompts, evaluator, **more)
    frame.mark_absent([*names_bound_by(score.steps), "failure"])
    return with_functions(frame)


def with_functions(frame: Frame) -> Frame:
    """Add the functions that templates can call, and return the frame."""
    frame.names |= {"others": _others(None), "bank": _bank(frame), "members": members, "model": _model(frame.run)}
    return frame


def frame_names(frame: Frame, member: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return the frame's names. For the prompt of a member, add `member`, and in a protocol the panel's `task`."""
    if member is None:
        return frame.names
    names, task = {**frame.names, "others": _others(member), "member": member}, frame.task
    if task is not None:
        prompt = task.frame.prompts.get(task.step.id or "")
        names["task"] = prompt.template.render_text(frame_names(task.frame, member)).strip() if prompt else ""
    return names


def names_bound_by(steps: Iterable[Step], *, only_ids: bool = False) -> list[str]:
    """Return every name that the steps, including nested ones, may bind: their ids, and the names in `set`."""
    names: list[str] = []
    for step in (step for top in steps for step in top.walk()):
        if step.id is not None:
            names.append(identifier(step.id))
        if step.verb == "set" and step.main is not None and not only_ids:
            names.extend(map(identifier, step.main.entries or {}))
    return names


def members(role: str, models: list[str]) -> list[str]:
    """Return the written form of one member for each model, all with the same role."""
    return [f"{role}@{model}" for model in models]


def _model(run: Run) -> Callable[[Any], Any]:
    """Return the template function `model`. It returns the model that a name means in this run; for a list, a list."""

    def model(name: Any) -> Any:
        if isinstance(name, list):
            return [model(entry) for entry in name]
        if isinstance(name, Absent):
            return name
        if not isinstance(name, str):
            raise TemplateError("`model` takes the name of a model, or a list of names")
        try:
            resolved = run.resolve_model(name)
        except SkillrunError as error:
            raise TemplateError(str(error), error.next_step) from None
        facts = {key: getattr(resolved, key) for key in ("provider", "window", "tools")}
        return {"name": name, "id": resolved.model, "model": resolved.short_name, **facts}

    return model


def _others(member: Mapping[str, Any] | None) -> Callable[[Any], list[Any]]:
    """Return the template function `others`. It returns the successful replies of all members except `member`."""

    def others(result: Any) -> list[Any]:
        replies = result.get("replies", []) if isinstance(result, Mapping) else result or []
        usable = [reply for reply in replies if reply.get("text") and reply["status"] == "success"]
        return [reply for reply in usable if member is None or reply["member"] != member["id"]]

    return others


def _bank(frame: Frame) -> Callable[..., list[dict[str, object]]]:
    """Return the template function `bank`. It returns the first questions of a group that are new in this run."""

    def bank(name: str, group: str, n: int = 3) -> list[dict[str, object]]:
        groups = frame.run.program.library.bank(name) or {}
        asked = frame.phase.prior.question_ids | set(frame.phase.record.question_ids)
        return [dict(question) for question in groups.get(str(group), []) if question["id"] not in asked][:n]

    return bank


def is_true(value: Any) -> bool:
    return bool(value) and value is not ABSENT
