"""`agent` and `panel`: one or more members reply to the step's prompt section, in a panel by a protocol."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import count
from typing import Any

from skillrun.definitions.definitions import Prompt, Protocol, Step
from skillrun.models.messages import ToolSpec
from skillrun.runtime.calls.conversation import converse
from skillrun.runtime.calls.lookup import lookup_tool
from skillrun.runtime.calls.member_request import MemberRequest, MemberResult
from skillrun.runtime.calls.reads import merge_line_ranges
from skillrun.runtime.calls.tools import member_tools
from skillrun.runtime.calls.values import report_pruned_items
from skillrun.runtime.errors import AgentFailed, StepFailed, Stopped
from skillrun.runtime.frame import Frame, Task
from skillrun.runtime.members import SeatedMember, resolve_members
from skillrun.runtime.prompts.context import (
    PromptParts,
    build_followup_request,
    build_request,
    conversation,
    is_persistent,
)
from skillrun.runtime.prompts.material import MaterialBlock
from skillrun.runtime.prompts.shared_prefix import is_worth_caching, material_blocks
from skillrun.runtime.prompts.step_records import (
    RecordRequest,
    build_record_request,
    point_answers,
    render_task,
    save_records,
    warn_of_missing_record,
)
from skillrun.runtime.results import AgentResult, BaseMemberReply, Item, MemberReply, PartialResult, RecordResult
from skillrun.runtime.scope import frame_names, new_frame
from skillrun.runtime.steps.files import write_reply
from skillrun.store.next_step import NextStep
from skillrun.templates.absent import Absent
from skillrun.types.fields import resolve_inputs
from skillrun.types.schemas import Shape


async def run_agent(step: Step, frame: Frame) -> AgentResult | PartialResult:
    """Call the members that have not replied yet, and return the combined result of all members.

    Raises AgentFailed if fewer than `at_least` members have replied.
    """
    value = frame.main(step)
    is_list = isinstance(value, list)
    seated = await resolve_members(frame, value if is_list else [value])
    if not seated and is_list:
        return {"text": "", "data": [], "replies": [], "dropped": [], "degraded": False}
    shape = frame.shape(step)
    record_request = build_record_request(step, frame)
    answers = await _call_members(step, frame, seated, shape, record_request)
    replies = [_reply_value(member, answers[member.id], record_request) for member in seated]
    succeeded = [member for member in seated if answers[member.id].ok]
    least = frame.whole(step, "at_least", 1) if is_list else 1
    missing = [member for member in seated if not answers[member.id].ok]
    if missing and all(answers[member.id].refused for member in seated):  # the user must fix the key or the model
        least = max(1, least)
    if len(succeeded) < least:
        reasons = "; ".join(f"{member.id}: {answers[member.id].reason}" for member in missing)
        ways = (answers[member.id].next_step for member in missing if answers[member.id].is_permanent)
        way = NextStep.parse(next(ways, ""))
        raise AgentFailed(f"`{step.id}` was not answered ({reasons})", frame.at(step), replies, way)
    for member in succeeded:
        if answers[member.id].dropped:
            report_pruned_items(frame.phase, f"{frame.at(step)}/{member.id}", member.id, answers[member.id].dropped)
    result = _result(is_list, succeeded, answers, replies)
    await _write_replies(step, frame, succeeded, answers, result)
    if record_request is not None:
        records = _collect_records(step, frame, record_request, is_list, succeeded, answers, result.get("path", ()))
        result = {**result, **records}
    if missing:
        return PartialResult(result, [f"{member.id}: {answers[member.id].reason}" for member in missing])
    return result


async def _call_members(
    step: Step, frame: Frame, seated: list[SeatedMember], shape: Shape | None, record_request: RecordRequest | None
) -> dict[str, MemberResult]:
    """Call all members, in parallel or sequentially, and return their results, keyed by member.

    If the shared prefix is worth caching, each model first gets only one call. The other calls wait until the model
    responds for the first time, because the provider's cache is filled then. All requests are built before any is sent,
    so that no request depends on which reply arrives first.
    """
    requests = {
        member.id: _build_request(step, frame, member, shape, record_request, shared=len(seated) > 1)
        for member in seated
    }
    if len(requests) < len(seated):
        twice = next(member.id for index, member in enumerate(seated) if member in seated[:index])
        raise StepFailed(f"`{step.id}` calls {twice} twice; use different variants or models", frame.at(step))
    starts: dict[str, asyncio.Future[bool]] = {}
    wait_for_first = len(seated) > 1 and not frame.sequential and is_worth_caching(frame.phase)

    async def ask(asked: MemberRequest) -> MemberResult | None:
        """Make one attempt of a member, and return the result.

        A member that has replied or failed permanently is not called again. Returns None without a call if the first
        call of the member's model raised an error.
        """
        phase, model = frame.phase, asked.request.model
        if wait_for_first and model in starts and not await asyncio.shield(starts[model]):
            return None
        start = starts.setdefault(model, asyncio.get_running_loop().create_future())
        key = f"{asked.address} {asked.request.fingerprint()}"
        result: MemberResult | None = phase.attempts.results.get(key) or phase.attempts.permanent_failures.get(key)

        def begin() -> None:
            if not start.done():
                start.set_result(True)

        try:
            while result is None:
                attempt = phase.attempts.tries.get(key, 0) + 1
                latest = await converse(phase, asked, attempt, begin)
                if not latest.refused:
                    phase.attempts.tries[key] = attempt
                if latest.ok or latest.refused or attempt > phase.voided_attempts(key):
                    result = latest
        finally:  # after an error, no waiting call starts
            if not start.done():
                start.set_result(result is not None)
        _record_result(step, frame, asked, key, result)
        return result

    if frame.sequential:
        results: list[MemberResult | BaseException | None] = [await ask(asked) for asked in requests.values()]
    else:  # wait for active calls even after an error
        results = await asyncio.gather(*map(ask, requests.values()), return_exceptions=True)
    answers: dict[str, MemberResult] = {}
    for id_, result in zip(requests, results, strict=True):
        if isinstance(result, BaseException):
            raise result
        assert result is not None, "the first call of the model has raised"
        answers[id_] = result
    return answers


def _build_request(
    step: Step,
    frame: Frame,
    seated: SeatedMember,
    shape: Shape | None,
    record_request: RecordRequest | None,
    *,
    shared: bool,
) -> MemberRequest:
    resolved = frame.run.resolve_model(seated.member.model or seated.role.model)
    fresh = frame.fresh or frame.value(step, "fresh", False) is True
    address = f"{frame.at(step)}{f'@{frame.phase.round_path}' if fresh else ''}/{seated.id}"
    tools = member_tools(frame, seated)
    schema = shape.schema if shape else None
    request = None
    if conversation(frame, step, seated):
        parts = _prompt_parts(step, frame, seated, record_request, schema, tools, remembers=True)
        request = build_followup_request(frame, step, seated, parts)
    if request is None:
        parts = _prompt_parts(step, frame, seated, record_request, schema, tools, remembers=False)
        request = build_request(frame, step, seated, parts, shared=shared)
    if record_request is not None and resolved.records:
        request = replace(request, record_schema=record_request.shape.schema)
    invalid = frame.text(step, "invalid")
    limits = frame.run.program.engine.get("limits") or {}
    turns = int(limits.get("tool_turns", 8)) if tools else 1
    calls = int(limits.get("tool_calls", 20)) if tools else 0
    if tools:
        tools = (*tools, *lookup_tool(frame.phase))
    return MemberRequest(
        seated.id, address, request, resolved.window, shape, invalid, tools, turns, calls, record_request
    )


def _prompt_parts(
    step: Step,
    frame: Frame,
    seated: SeatedMember,
    record_request: RecordRequest | None,
    schema: dict[str, Any] | None,
    tools: tuple[ToolSpec, ...],
    *,
    remembers: bool,
) -> PromptParts:
    """Return a member's prompt parts, depending on whether it remembers its conversation."""
    member = {**seated.names, "remembers": remembers}
    names = frame_names(frame, member)
    prompt = frame.prompts.get(step.id or "")
    ends = frame.run.resolve_model(seated.member.model or seated.role.model).records
    task = prompt.template.render_text(names) if prompt is not None else ""
    pieces = [*_task_material(frame.task, prompt, member), *material_blocks(frame.run, step.material, names)]
    return PromptParts(render_task(step, frame, task, record_request, ends=ends), schema, pieces, tools)


def _task_material(task: Task | None, prompt: Prompt | None, member: Mapping[str, Any]) -> list[MaterialBlock]:
    """Return the material of a panel's task if the prompt contains the task; empty if it does not."""
    if task is None or prompt is None or not prompt.template.mentions_any("task"):
        return []
    return material_blocks(task.frame.run, task.step.material, frame_names(task.frame, member))


def _record_result(step: Step, frame: Frame, asked: MemberRequest, key: str, result: MemberResult) -> None:
    """Remember the result of a member, so that a later attempt of the step does not call the member again."""
    attempts = frame.phase.attempts
    if result.is_permanent:
        attempts.permanent_failures[key] = result
    if result.ok:
        attempts.results[key] = result
        if is_persistent(frame, step):
            frame.sessions.setdefault(asked.member, {})[frame.at(step)] = result.messages


def _collect_records(
    step: Step,
    frame: Frame,
    record_request: RecordRequest,
    several: bool,
    good: list[SeatedMember],
    answers: Mapping[str, MemberResult],
    paths: str | Iterable[str],
) -> RecordResult:
    """Return the records and the answers to points for the step's result.

    Also save the records for the phase's summary, and warn of missing records and answers.
    """
    records = {member.id: answers[member.id].record for member in good}
    for member in good:
        if answers[member.id].record_problem:
            warn_of_missing_record(
                step, frame, member.id, record_request, records[member.id], answers[member.id].record_problem
            )
    there = [entry for entry in records.values() if entry is not None]
    save_records(step, frame, record_request, there, [paths] if isinstance(paths, str) else paths)
    result: RecordResult = {}
    if several or there:
        result["record"] = there if several else there[0]
    if record_request.points:
        result["points"] = [
            point for name, entry in records.items() for point in point_answers(record_request, entry, name)
        ]
    return result


def _reply_value(member: SeatedMember, answer: MemberResult, record_request: RecordRequest | None) -> MemberReply:
    reads = [lines.to_dict() for lines in merge_line_ranges(answer.reads)]
    reply: BaseMemberReply = {"member": member.id, "status": answer.status, "reads": reads}
    if answer.text:
        reply["text"] = answer.text
    if answer.data is not None:
        reply["data"] = answer.data
    if answer.record is not None:
        reply["record"] = answer.record
    if record_request is not None and record_request.points and answer.ok:
        reply["points"] = point_answers(record_request, answer.record, member.id)
    if answer.reason:
        reply["reason"], reply["kind"] = answer.reason, answer.kind or answer.status
    return {**reply, "dropped": [dict(vars(item)) for item in answer.dropped]}


def _result(
    several: bool, good: list[SeatedMember], answers: Mapping[str, MemberResult], replies: list[MemberReply]
) -> AgentResult:
    dropped: list[Item] = [{"member": reply["member"], **item} for reply in replies for item in reply["dropped"]]
    if not several:
        only = answers[good[0].id]
        result: AgentResult = {"text": only.text, "replies": replies, "degraded": False}
        if only.data is not None:
            result["data"] = only.data
        result["dropped"] = dropped
        return result
    text = "\n\n".join(f"{member.id}:\n\n{answers[member.id].text}" for member in good)
    data = [answers[member.id].data for member in good if answers[member.id].data is not None]
    return {"text": text, "data": data, "replies": replies, "degraded": len(good) < len(replies), "dropped": dropped}


async def _write_replies(
    step: Step, frame: Frame, good: list[SeatedMember], answers: Mapping[str, MemberResult], result: AgentResult
) -> None:
    value = step.values.get("writes")
    if value is None:
        return
    paths: list[str] = []
    for member in good:
        named = value.text(frame_names(frame, member.names))
        path = _unique_path(named, paths)
        if path != named:
            frame.phase.warn(f"{step.id}: {named} belongs to another member; the reply of {member.id} is in {path}")
        answer = answers[member.id]
        text = await write_reply(frame, step, path, answer.text, answer.data)
        if len(good) == 1 and "data" not in result:
            result["text"] = text
        paths.append(path)
    if paths:
        result["path"] = paths[0] if len(paths) == 1 else paths


def _unique_path(path: str, taken: list[str]) -> str:
    """Return a path that no other member of the step has written: the given one, or else one with a number added."""
    if path not in taken:
        return path
    head, dot, ending = path.rpartition(".")
    name, last = (head, dot + ending) if dot and "/" not in ending else (path, "")
    return next(free for number in count(2) if (free := f"{name}-{number}{last}") not in taken)


async def run_panel(step: Step, frame: Frame) -> Mapping[str, object]:
    """Run a protocol, and return its outputs and `degraded`. A `stop` step in the protocol makes this step fail."""
    name = frame.text(step, "protocol")
    protocol = frame.run.program.library.protocol(name)
    if protocol is None:
        raise StepFailed(f"the protocol `{name}` does not exist", frame.at(step))
    value = step.values.get("protocol")
    literal = value is not None and value.template is not None and value.template.is_constant
    given = frame.value(step, "with", {})
    names = {
        "inputs": _inputs(protocol, given if isinstance(given, Mapping) else {}, frame, strict=literal),
        "seats": await _assign_seats(protocol, frame.main(step), frame),
        **{key: frame.names[key] for key in ("config", "features", "run")},
    }
    inner = new_frame(
        frame.phase,
        frame.at(step),
        protocol,
        names,
        frame.evaluator,
        task=Task(step, frame, frame.shape(step)),
        fresh=frame.fresh or frame.value(step, "fresh", False) is True,
        criteria=frame.text(step, "criteria") or frame.criteria,
        sequential=frame.sequential,
    )
    try:
        for inner_step in protocol.steps:
            await inner.evaluate(inner_step)
    except Stopped as stopped:
        raise StepFailed(stopped.reason or f"`{name}` stopped", frame.at(step)) from None
    names = frame_names(inner)
    outputs = {name: value.evaluate(names) for name, value in protocol.outputs.items()}
    outputs = {name: value for name, value in outputs.items() if not isinstance(value, Absent)}
    outputs["degraded"] = bool(inner.degraded_steps) or bool(outputs.get("degraded"))
    frame.degraded_steps.extend(inner.degraded_steps)
    return outputs


def _inputs(protocol: Protocol, given: Mapping[str, Any], frame: Frame, *, strict: bool) -> dict[str, object]:
    """Return the inputs of a protocol. An unknown input is an error if `strict`, and is ignored if not."""
    known = {field.name for field in protocol.inputs}
    taken = {name: value for name, value in given.items() if strict or name in known}
    values, errors, warnings = resolve_inputs(protocol.inputs, taken, {"config": frame.names.get("config")})
    for text in warnings:
        frame.phase.warn(text)
    if errors:
        raise StepFailed(f"invalid inputs of the protocol `{protocol.name}`: {'; '.join(errors)}", frame.address)
    return values


async def _assign_seats(protocol: Protocol, value: Any, frame: Frame) -> dict[str, object]:
    """Return the seats of a protocol: the written form of the member in each named seat, or a list of all members."""
    seats = protocol.seats
    if isinstance(value, Mapping):
        unknown = [name for name in value if name not in seats.names]
        if unknown:
            raise StepFailed(f"`{protocol.name}` has no seat `{unknown[0]}` (its seats: {', '.join(seats.names)})")
        missing = [name for name in seats.names if name not in value]
        if missing:
            raise StepFailed(f"the seat `{missing[0]}` of `{protocol.name}` has no member")
        members = await resolve_members(frame, list(value.values()))
        return {name: member.id for name, member in zip(value, members, strict=True)}
    members = await resolve_members(frame, value if isinstance(value, list) else [value])
    if not members:
        raise StepFailed(f"`{protocol.name}` was given no members")
    if seats.names:
        return {name: members[index % len(members)].id for index, name in enumerate(seats.names)}
    if not seats.least <= len(members) <= seats.most:
        raise StepFailed(f"`{protocol.name}` takes {seats.least} to {seats.most} members, not {len(members)}")
    return {"members": [dict(member.names) for member in members]}
