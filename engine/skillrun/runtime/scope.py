"""Provides the values of the names that templates read. `checker/names` declares the types of the names."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from skillrun.definitions.definitions import PhaseUse, Procedure, Step
from skillrun.runtime.asking.forms import form_answers
from skillrun.runtime.breakers import Breakers
from skillrun.runtime.calls.tools import report_repository
from skillrun.runtime.frame import Evaluator, Frame, Task
from skillrun.runtime.phase_record import PhaseRecord, Prompts, UsageTotals
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


def prior_summaries(run: Run, use: PhaseUse) -> dict[str, Summary]:
    """Return the summaries of the phases that `use` follows, directly or not, in the order of the workflow file."""
    ancestors = run.program.workflow.ancestors(use.name)
    return run.store.summaries.completed_summaries(name for name in run.program.workflow.phases if name in ancestors)


def past_summaries(run: Run, use: PhaseUse) -> list[Summary]:
    """Return the summaries, of all rounds, of the phases that always end before this one starts, oldest first."""
    workflow = run.program.workflow
    order = {name: (len(workflow.ancestors(name)), index) for index, name in enumerate(workflow.phases)}
    summaries = run.store.summaries.all_summaries(run.state.round, prior_summaries(run, use))
    return sorted(summaries, key=lambda summary: (summary.record.get("round", 0), order.get(summary.phase, ())))


def state_at_phase_start(run: Run, use: PhaseUse) -> dict[str, object]:
    """Return the state at the start of a phase in this round: values set by earlier phases, or else the defaults."""
    names = {"config": run.program.config, "inputs": run.state.inputs}
    state, _, _ = resolve_inputs(run.program.workflow.state, {}, names)
    for summary in past_summaries(run, use):
        state |= summary.set
    return {name: value for name, value in state.items() if value is not None}


def open_phase(run: Run, use: PhaseUse, previous: PhaseRun | None = None) -> PhaseRun:
    """Return a phase that is ready for evaluation, with a copy of the state.

    `previous` is the failed attempt of a phase that is retried. Its answers and attempts still count. A phase that has
    lost its summary gets the state at its first start.
    """
    state = state_at_phase_start(run, use) if use.name in run.lost_phases else dict(run.state.state)
    workflow, prior, over = run.program.workflow, prior_summaries(run, use), past_summaries(run, use)
    completed = {name: summary for name, summary in prior.items() if summary.status == "completed"}
    names = base_values(run, state) | {
        "phases": {name: phase_value(run, summary, use.name) for name, summary in completed.items()},
        "history": [earlier.template_value() for earlier in run.store.summaries.history(run.state.round)],
    }
    folder = workflow.repository.evaluate(names) if workflow.repository is not None else None
    names["repository"] = str(folder) if folder else ""
    report_repository(run, names["repository"])
    failures: dict[str, int] = {}
    for summary in over:
        failures |= summary.failures
    breakers = Breakers(run.config(state).get("breakers") or {}, {name: n for name, n in failures.items() if n})
    asked = frozenset(question for summary in over for question in summary.asked)
    if run.parent_phase is not None:
        asked |= run.parent_phase.prior.question_ids | frozenset(run.parent_phase.record.question_ids)
    phase = PhaseRun(
        run,
        use.name,
        names,
        breakers,
        PriorPhases(prior, asked, UsageTotals.from_summaries(over)),
    )
    phase.fallback_depth = int(use.otherwise is not None)
    names["run"]["answers"] = form_answers(run, phase, workflow.ancestors(use.name))
    if previous is not None:
        phase.breakers, failed = previous.breakers, previous.record
        phase.record = PhaseRecord(failed.usage, artifacts=failed.artifacts, prompts=Prompts(failed.prompts.count))
    attempts_owner = previous or run.parent_phase
    if attempts_owner is not None:
        phase.attempts = attempts_owner.attempts
    phase.update_usage()
    phase.is_reentry = run.journal.find("note", phase.pause_address, "") is not None
    return phase


def phase_value(run: Run, summary: Summary, reader: str = "") -> dict[str, object]:
    """Return the value of an ended phase in templates of the phase `reader`: summary, outputs and artifacts.

    Artifacts have their current text. But if `reader` itself has overwritten an artifact, it gets the earlier text, so
    that it reads the same after it is resumed.
    """
    artifacts = {}
    for name in summary.artifacts:
        text = run.store.artifacts.text(name)
        if text is not None:
            known = (
                run.journal.find("note", overwritten_text_address(run, reader, name), sha256_of(text))
                if reader
                else None
            )
            artifacts[name] = known.get("text", text) if known is not None else text
    record = {
        **SUMMARY_DEFAULTS,
        **{key: value for key, value in summary.record.items() if key not in ("outputs", "set", "usage")},
    }
    return {"summary": record, "outputs": dict(summary.outputs), "artifacts": artifacts}


def overwritten_text_address(run: Run, phase: str, name: str) -> str:
    """Return the journal address of an artifact's text before `phase` overwrote it."""
    rounds = (
        f"{run.parent_phase.round_path}.{run.state.round}" if run.parent_phase is not None else str(run.state.round)
    )
    return f"{run.inline_address or run.program.workflow.name}/{phase}@{rounds}/{name}"


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
    features = {name: feature.on for name, feature in run.features(state).items()}
    return {
        "inputs": run.state.inputs,
        "state": state,
        "config": dict(run.config(state)),  # a copy, because setting the mode changes it
        "features": features,
        "run": names,
    }


def new_frame(
    phase: PhaseRun, address: str, score: Procedure, names: dict[str, Any], evaluator: Evaluator, **more: Any
) -> Frame:
    """Return a frame for the steps of a phase or protocol. The names that the steps bind are absent at first."""
    frame = Frame(phase, address, names, score.prompts, evaluator, **more)
    frame.mark_absent(locals_of(score.steps).names)
    frame.mark_absent(["failure"])
    return with_functions(frame)


def with_functions(frame: Frame) -> Frame:
    """Add the functions that templates can call, and return the frame."""
    frame.names |= {"others": _others(None), "bank": _bank(frame), "members": members, "model": _model(frame.run)}
    return frame


def frame_names(frame: Frame, member: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return the frame's names. For the prompt of a member, add `member`, and in a protocol the panel's `task`."""
    if member is None:
        return frame.names
    names = {**frame.names, "others": _others(member), "member": member}
    if frame.task is not None:
        names["task"] = _task_text(frame.task, member)
    return names


def _task_text(task: Task, member: Mapping[str, Any]) -> str:
    """Return the text of a panel's task, rendered for a member."""
    return task.prompt.template.render_text(frame_names(task.frame, member)).strip() if task.prompt is not None else ""


@dataclass(frozen=True)
class Locals:
    """The names that steps may bind, in order. `ids` are the ids of steps; `names` also include the names in `set`."""

    names: tuple[str, ...]
    ids: tuple[str, ...]


def locals_of(steps: Iterable[Step]) -> Locals:
    """Return every name that the steps, including nested ones, may bind."""
    names: list[str] = []
    ids: list[str] = []
    for top in steps:
        for step in top.walk():
            if step.id is not None:
                ids.append(identifier(step.id))
                names.append(ids[-1])
            if step.verb == "set" and step.main is not None:
                names.extend(map(identifier, step.main.entries or {}))
    return Locals(tuple(names), tuple(ids))


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
