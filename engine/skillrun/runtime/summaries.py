"""Builds the summary of a phase: by rules where possible, and for the rest by one call to a model of the fast tier.

Also recovers damaged summaries: an incomplete one is used with a warning, a lost one is rebuilt. A phase that has ended
and lost its summary is evaluated again over the journal, from the state at its start. If the journal has no entries of
the phase, the summary is rebuilt from its artifacts. Without artifacts, the user decides.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain
from typing import Any, Final

from skillrun.definitions.verbs import SUMMARY_KEYS
from skillrun.events import Notice
from skillrun.questions.answers import Question
from skillrun.runtime.asking.asking import RETRY, ask_questions
from skillrun.runtime.calls.conversation import converse, is_last_attempt
from skillrun.runtime.calls.member_request import MemberReply, MemberRequest, report_pruned_items
from skillrun.runtime.errors import StepFailed
from skillrun.runtime.frame import Evaluator
from skillrun.runtime.prompts.context import PromptParts, assemble_request
from skillrun.runtime.prompts.shared_prefix import material_blocks
from skillrun.runtime.prompts.step_records import merge_step_records
from skillrun.runtime.run import PhaseRun, Run
from skillrun.runtime.scope import new_frame
from skillrun.scoring.compaction import list_records
from skillrun.store.frontmatter import MAX_DATA, plain_data, to_frontmatter
from skillrun.store.outcome import NextStep
from skillrun.store.summaries import WAITING_STATUS, Summary
from skillrun.structured_output.trailing_record import select_fields
from skillrun.syntax.diagnostics import SkillrunError
from skillrun.templates.expressions import RenderError
from skillrun.templates.values import Absent
from skillrun.types.schemas import Shape, quote_value

FINAL: Final = ("completed", "skipped", "failed")
TIER: Final = "fast"
TEMPLATE: Final = "system/summarise"
MOST_NAMED: Final = 40  # artifacts that a summary names


def evaluate_outputs(phase: PhaseRun, names: Mapping[str, Any]) -> dict[str, Any]:
    """Return the declared outputs of a phase. Absent outputs are left out."""
    outputs = {}
    for name, value in phase.phase.outputs.items():
        data = value.evaluate(names)
        if not isinstance(data, Absent) and data is not None:
            outputs[name] = plain_data(data)
    return outputs


async def build_summary(
    phase: PhaseRun, outputs: Mapping[str, Any], status: str, *, goes_back: bool = False
) -> Summary:
    """Return the summary of an ended phase, with its fields in the order in which they are written.

    `goes_back` says that the run now goes back to an earlier phase. A model is called only if something reads the
    summary later.
    """
    program, account = phase.run.program, phase.record
    prompts = account.prompts
    read = phase.name in (program.history_phases if goes_back else program.summarized_phases | program.history_phases)
    given: dict[str, Any] = {key: outputs[key] for key in SUMMARY_KEYS if key in outputs}
    if isinstance(outputs.get("summary"), str):
        given["summary"] = outputs["summary"]
    recorded, asked = merge_step_records(phase) if status == "completed" else ({}, frozenset[str]())
    known = {**dict.fromkeys(asked), **recorded, **given}
    fields = (
        await _summarize_with_model(phase, outputs, known) if read and prompts.count and status == "completed" else {}
    )
    fields = {**fields, **recorded, **given}
    flags = {key: value for key, value in (given.get("flags") or {}).items() if _is_flag_set(value)}
    if account.degraded_reasons:
        flags = {**flags, "degraded": True}
        flags.setdefault("degraded_because", degraded_flags(phase)["degraded_because"])
    if account.dropped_counts:
        flags["dropped"] = sum(account.dropped_counts.values())
    if phase.name in phase.run.lost_phases:
        flags["recovered"] = True
    summary: dict[str, object] = {"flags": flags}
    if fields.get("summary"):
        summary["summary"] = fields["summary"]
    for key in SUMMARY_KEYS[1:]:
        summary[key] = _records(fields.get(key))
    summary["quality_warnings"] = list(account.warnings)
    if prompts.dropped_records:
        summary["context_dropped"] = plain_data(prompts.dropped_records)
    if prompts.longest:
        summary["prompts"] = {step: dict(parts) for step, (_, parts) in prompts.longest.items()}
    if prompts.omissions:
        summary["left_out"] = [f"{step}: {omission.text}" for (step, _), omission in prompts.omissions.items()]
    if account.question_ids:
        summary["asked"] = list(account.question_ids)
    summary["outputs"] = {key: value for key, value in outputs.items() if key != "flags"}
    summary["set"] = plain_data(account.sets)
    if failures := phase.breakers.changes():
        summary["failures"] = failures
    summary["usage"] = account.usage.to_dict()
    whole = base_summary(phase, status).with_fields(**summary)
    state = phase.run.state
    _check_size(phase, "summary of the phase", whole.record)
    _check_size(phase, "state of the run", {"inputs": state.inputs, "state": {**state.state, **whole.set}})
    return whole


def _check_size(phase: PhaseRun, what: str, data: Mapping[str, Any]) -> None:
    """Raise StepFailed if a file with the data would be too large for a later process to read."""
    size = len(to_frontmatter(data).encode())
    if size > MAX_DATA:
        reason = f"the {what} would have {size:,} bytes, and at most {MAX_DATA:,} are allowed"
        hint = "keep long texts in artifacts, and short values in `state` and in the outputs of phases"
        raise StepFailed(reason, phase.address(), NextStep.of(hint))


def _is_flag_set(value: Any) -> bool:
    """Return whether a flag is set. The number 0 counts as set; false, null and empty values do not."""
    return value is not False and value is not None and value not in ("", [], {})


def base_summary(phase: PhaseRun, status: str) -> Summary:
    """Return a summary with the fields that every summary has, even for a waiting, skipped or recovered phase."""
    artifacts = phase.record.artifacts
    named, more = artifacts[:MOST_NAMED], len(artifacts) - MOST_NAMED
    wrote = f"wrote {', '.join(named)}" + (f" and {more} more" if more > 0 else "") if named else "wrote nothing"
    return Summary().with_fields(
        phase=phase.name,
        number=list(phase.run.program.workflow.phases).index(phase.name) + 1,
        status=status,
        round=phase.round,
        checkpoint=phase.record.checkpoint or "start",
        summary=f"{phase.name} {wrote}.",
        artifacts=list(artifacts),
        flags={},
    )


def degraded_flags(phase: PhaseRun) -> dict[str, object]:
    """Return the flags which say that a phase is degraded, and why; empty if it is not."""
    reasons = phase.record.degraded_reasons
    return {"degraded": True, "degraded_because": "; ".join(reasons)} if reasons else {}


def _records(value: Any) -> list[Any]:
    return [entry for entry in value if isinstance(entry, Mapping)] if isinstance(value, list) else []


async def _summarize_with_model(
    phase: PhaseRun, outputs: Mapping[str, Any], given: Mapping[str, Any]
) -> dict[str, Any]:
    """Request the summary fields that `given` lacks from a model of the fast tier, and return them.

    Without a valid reply, mark the phase as degraded, and return no fields. A field in `given` is not requested, even
    if it is empty because a step's record lacked it.
    """
    text = phase.run.program.library.text(TEMPLATE)
    if text is None or text.output is None:
        raise SkillrunError(
            f"`skills/{TEMPLATE}.md` is missing or has no `output`", "restore it, or reinstall skillrun"
        )
    schema = text.output.resolve({}).schema
    shape = Shape(select_fields(schema, schema["properties"].keys() - given.keys()))
    if not shape.schema["properties"]:
        return {}
    texts = ((path, phase.run.store.artifacts.text(path)) for path in phase.record.artifacts)
    artifacts = [{"path": path, "text": body} for path, body in texts if body]
    records = list_records(earlier["summary"] for earlier in phase.names["phases"].values())
    questions = [entry.record for entry in records if entry.kind == "open_questions" and not entry.status]
    names = {
        "phase": phase.name,
        "description": phase.phase.description,
        "artifacts": artifacts,
        "outputs": {key: value for key, value in outputs.items() if key not in SUMMARY_KEYS},
        "open_questions": questions,
    }
    try:
        material, prompt = material_blocks(phase.run, text.material, names), text.template.render_text(names)
        resolved = phase.run.resolve_model(TIER)
        request = assemble_request(PromptParts(phase, resolved, "summary", TIER, prompt, shape.schema, material))
    except StepFailed as failure:
        hint = f"shorten skills/{TEMPLATE}.md, or use a larger model for `{TIER}`"
        raise SkillrunError(failure.reason, hint) from None
    except RenderError as error:  # the phase keeps its results even if the summary fails
        phase.record.degraded_reasons.append(f"summary: {error.message}")
        return {}
    address = f"{phase.address()}/summary/{TIER}"
    asked = MemberRequest("summarise", address, request, resolved.window, shape, "drop", max_output=resolved.max_output)
    reply = MemberReply(asked.member, "error", reason="not called")
    for attempt in (1, 2):
        reply = await converse(phase, asked, attempt)
        if reply.ok:
            report_pruned_items(phase, asked.address, asked.member, reply.dropped)
            return dict(reply.data)
        if is_last_attempt(phase, asked, reply, attempt):
            break
    phase.record.degrade(f"summary: {reply.reason}")
    phase.warn(f"the summary contains only the outputs: {reply.reason}")
    return {}


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
    entries = chain.from_iterable(run.journal.entries(kind, texts=False) for kind in ("reply", "failed", "answer"))
    if not asks or any(entry.address.startswith(f"{address}/") for entry in entries):
        return None
    paths = dict.fromkeys(step.artifact.literal for step in phase.phase.walk() if step.artifact is not None)
    artifacts = [path for path in paths if isinstance(path, str) and run.store.artifacts.text(path) is not None]
    phase.record.artifacts = artifacts
    if not artifacts:
        text = f"{phase.name} ended earlier, but its summary and its artifacts are missing. Retry it, or skip it?"
        asked: Question = {"id": "recover", "text": text, "choices": [RETRY, "skip"], "default": RETRY}
        asked["round"] = phase.round
        frame = new_frame(phase, address, phase.phase, phase.names, evaluator)
        answers = (await ask_questions(frame, f"{address}.recover", [asked]))["answers"]
        if answers[0].get("answer") != "skip":
            run.lost_phases.discard(phase.name)
            return None
    artifact_names = ", ".join(artifacts) or "nothing"
    summary = base_summary(phase, "completed" if artifacts else "skipped")
    return summary.with_fields(
        summary=f"Rebuilt from what the phase left: {artifact_names}.", flags={"recovered": True}
    )
