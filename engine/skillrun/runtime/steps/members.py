"""`agent` and `panel`: one or more members reply to the step's prompt section, in a panel by a protocol."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import count
from typing import Any

from skillrun.definitions.definitions import Protocol, Step
from skillrun.models.messages import PERMANENT_ERRORS
from skillrun.repository.paths import fold_path
from skillrun.runtime.calls.conversation import converse, is_last_attempt
from skillrun.runtime.calls.member_request import MemberReply, MemberRequest, report_pruned_items
from skillrun.runtime.calls.tools import lookup_tool, member_skill_folders, member_tools
from skillrun.runtime.errors import StepFailed, Stopped
from skillrun.runtime.frame import Frame, SeatedMember, StepResult, Task, resolve_members
from skillrun.runtime.prompts.context import (
    PromptParts,
    build_followup_request,
    build_request,
    conversation,
    forget_conversation,
    is_persistent,
)
from skillrun.runtime.prompts.shared_prefix import is_worth_caching, material_blocks
from skillrun.runtime.prompts.step_records import (
    MOST_NAMED,
    RecordRequest,
    build_record_request,
    render_task,
    save_records,
)
from skillrun.runtime.scope import frame_names, new_frame
from skillrun.runtime.steps.files import write_reply
from skillrun.store.outcome import NextStep
from skillrun.templates.values import Absent
from skillrun.types.fields import resolve_inputs
from skillrun.types.schemas import Shape


async def run_agent(step: Step, frame: Frame) -> StepResult:
    """Call the members that have not replied yet, and return the combined result of all members.

    Raises StepFailed if fewer than `at_least` members have replied.
    """
    value = frame.main(step)
    several = isinstance(value, list)
    seated = await resolve_members(frame, value if several else [value])
    if not seated and several:
        return StepResult({"text": "", "data": [], "replies": [], "dropped": [], "degraded": False})
    shape = frame.shape(step)
    record_request = build_record_request(step, frame)
    replies = await _call_members(step, frame, seated, shape, record_request)
    values = [reply.template_value() for reply in replies]
    succeeded = [reply for reply in replies if reply.ok]
    failed = [reply for reply in replies if not reply.ok]
    least = frame.whole(step, "at_least", 1) if several else 1
    if failed and all(reply.refused for reply in replies):  # the user must fix the key or the model
        least = max(1, least)
    reasons = [f"{reply.member}: {reply.reason}" for reply in failed]
    if len(succeeded) < least:
        way = NextStep.parse(next((reply.next_step for reply in failed if reply.is_permanent), ""))
        message = f"`{step.id}` was not answered ({'; '.join(reasons)})"
        raise StepFailed(message, frame.at(step), way, {"replies": values, "degraded": True})
    for reply in succeeded:
        report_pruned_items(frame.phase, f"{frame.at(step)}/{reply.member}", reply.member, reply.dropped)
    dropped = [{"member": value["member"], **item} for value in values for item in value["dropped"]]
    common = {"replies": values, "degraded": bool(failed)}
    result: dict[str, Any]
    if several:
        text = "\n\n".join(f"{reply.member}:\n\n{reply.text}" for reply in succeeded)
        data = [reply.data for reply in succeeded if reply.data is not None]
        result = {"text": text, "data": data, **common, "dropped": dropped}
    else:
        only = {"data": succeeded[0].data} if succeeded[0].data is not None else {}
        result = {"text": succeeded[0].text, **common, **only, "dropped": dropped}
    names = {member.id: member.names for member in seated}
    await _write_replies(step, frame, succeeded, names, result)
    if record_request is not None:
        result |= _collect_records(step, frame, record_request, several, succeeded, result.get("path", ()))
    return StepResult(result, reasons)


async def _call_members(
    step: Step, frame: Frame, seated: list[SeatedMember], shape: Shape | None, record_request: RecordRequest | None
) -> list[MemberReply]:
    """Call all members, in parallel or sequentially, and return their replies in the same order.

    If the shared prefix is worth caching, each model first gets only one call. The other calls wait until the model
    responds for the first time, because the provider's cache is filled then. All requests are built before any is sent,
    so that no request depends on which reply arrives first.
    """
    build = partial(_build_request, step, frame, shape=shape, record_request=record_request, shared=len(seated) > 1)
    requests = {member.id: build(member) for member in seated}
    if len(requests) < len(seated):
        twice = next(member.id for index, member in enumerate(seated) if member in seated[:index])
        raise StepFailed(f"`{step.id}` calls {twice} twice; use different variants or models", frame.at(step))
    starts: dict[str, asyncio.Future[bool]] = {}
    wait_for_first = len(seated) > 1 and not frame.sequential and is_worth_caching(frame.phase)

    async def ask(member: SeatedMember) -> MemberReply | None:
        """Make one attempt of a member, and return the result.

        A member that has replied or failed permanently is not called again. If the provider rejects a request that
        continues a conversation, the member is called once more in a new conversation. Returns None without a call if
        the first call of the member's model raised an error.
        """
        asked = requests[member.id]
        phase, model = frame.phase, asked.request.model
        if wait_for_first and model in starts and not await asyncio.shield(starts[model]):
            return None
        start = starts.setdefault(model, asyncio.get_running_loop().create_future())
        key = f"{asked.address} {asked.request.fingerprint()}"
        result: MemberReply | None = phase.attempts.results.get(key) or phase.attempts.permanent_failures.get(key)

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
        if asked.request.continues_conversation and result.kind in PERMANENT_ERRORS | {"other"}:
            forget_conversation(frame, member, f"the earlier one was rejected ({result.reason})")
            with suppress(StepFailed):  # the new prompt does not fit either
                requests[member.id] = build(member)
                return await ask(member)
        _record_result(step, frame, asked, key, result)
        return result

    if frame.sequential:
        results: list[MemberReply | BaseException | None] = [await ask(member) for member in seated]
    else:  # wait for active calls even after an error
        results = await asyncio.gather(*map(ask, seated), return_exceptions=True)
    replies = []
    for result in results:
        if isinstance(result, BaseException):
            raise result
        assert result is not None, "the first call of the model has raised"
        replies.append(result)
    return replies


def _build_request(
    step: Step,
    frame: Frame,
    seated: SeatedMember,
    shape: Shape | None,
    record_request: RecordRequest | None,
    *,
    shared: bool,
) -> MemberRequest:
    run, schema = frame.run, shape.schema if shape else None
    resolved = run.resolve_model(seated.model)
    folders = member_skill_folders(frame, seated)
    tools = member_tools(frame, seated, has_skill_files=bool(folders))

    def build_parts(*, remembers: bool) -> PromptParts:
        """Return the member's prompt parts, depending on whether it remembers its conversation."""
        member = {**seated.names, "remembers": remembers}
        names, prompt, panel = frame_names(frame, member), frame.prompts.get(step.id or ""), frame.task
        task = prompt.template.render_text(names) if prompt is not None else ""
        pieces = material_blocks(run, step.material, names)
        if panel is not None and prompt is not None and prompt.template.mentions_any("task"):
            pieces = [*material_blocks(run, panel.step.material, frame_names(panel.frame, member)), *pieces]
        task = render_task(step, frame, task, record_request, ends=resolved.records)
        criteria, where = frame.text(step, "criteria") or frame.criteria, step.id or step.verb
        return PromptParts(frame.phase, resolved, where, seated.id, task, schema, pieces, tools, criteria)

    request = None
    if conversation(frame, step, seated):
        request = build_followup_request(frame, step, seated, build_parts(remembers=True))
    if request is None:
        request = build_request(frame, step, seated, build_parts(remembers=False), shared=shared)
    if record_request is not None and resolved.records:
        request = replace(request, record_schema=record_request.shape.schema)
    fresh = frame.fresh or frame.value(step, "fresh", False) is True
    address = f"{frame.at(step)}{f'@{frame.phase.round_path}' if fresh else ''}/{seated.id}"
    invalid, limits = frame.text(step, "invalid"), run.program.engine.get("limits") or {}
    turns, calls = 1, 0
    if tools:
        turns, calls = int(limits.get("tool_turns", 8)), int(limits.get("tool_calls", 20))
        tools = (*tools, *lookup_tool(frame.phase))
    return MemberRequest(
        seated.id,
        address,
        request,
        resolved.window,
        shape,
        invalid,
        tools,
        turns,
        calls,
        record_request,
        folders,
        seated.role.tools.keys(),
        resolved.max_output,
    )


def _record_result(step: Step, frame: Frame, asked: MemberRequest, key: str, result: MemberReply) -> None:
    """Remember the result of a member, so that a later attempt of the step does not call the member again."""
    attempts = frame.phase.attempts
    attempt = attempts.tries.get(key, 0) + result.refused  # a refusal is not counted in `tries`
    if is_last_attempt(frame.phase, asked, result, attempt):
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
    succeeded: list[MemberReply],
    paths: str | Iterable[str],
) -> dict[str, Any]:
    """Return the records and the answers to points for the step's result.

    Also save the records for the phase's summary, and warn of missing records and answers.
    """
    for reply in succeeded:
        silent = [point["id"] for point in reply.points if "answer" not in point]
        if not reply.record_problem or (reply.record is not None and not silent):
            continue
        if reply.record is None:
            text = f"{step.id}: the document of {reply.member} has no record ({reply.record_problem})"
        else:
            more = f" and {len(silent) - MOST_NAMED} more" if len(silent) > MOST_NAMED else ""
            text = f"{step.id}: {reply.member} has not answered {', '.join(silent[:MOST_NAMED])}{more}"
        frame.phase.warn(text)
        frame.phase.record.degrade(text)
    records = [reply.record for reply in succeeded if reply.record is not None]
    save_records(step, frame, record_request, records, [paths] if isinstance(paths, str) else paths)
    result: dict[str, Any] = {}
    if several or records:
        result["record"] = records if several else records[0]
    if record_request.points:
        result["points"] = [point for reply in succeeded for point in reply.points]
    return result


async def _write_replies(
    step: Step,
    frame: Frame,
    succeeded: list[MemberReply],
    names: Mapping[str, Mapping[str, Any]],
    result: dict[str, Any],
) -> None:
    """Write each reply to the file that `writes` names, with a number if the name belongs to another member.

    `names` are the template values of each member.
    """
    value = step.values.get("writes")
    if value is None:
        return
    for_each = isinstance(frame.main(step), list) or any(part.mentions_any("member") for part in value.templates())
    paths: list[str] = []
    for reply in succeeded:
        member = reply.member if for_each else ""
        named = path = value.text(frame_names(frame, names[reply.member]))
        head, dot, ending = named.rpartition(".")
        name, last = (head, dot + ending) if dot and "/" not in ending else (named, "")
        taken, numbers = set(map(fold_path, paths)), count(2)
        while fold_path(path) in taken or (member and frame.find_other_owner(frame.at(step), path, member)):
            path = f"{name}-{next(numbers)}{last}"
        if path != named:
            frame.phase.warn(f"{step.id}: {named} belongs to another member; the reply of {reply.member} is in {path}")
        text = await write_reply(frame, step, path, reply.text, reply.data, member)
        if len(succeeded) == 1 and "data" not in result:
            result["text"] = text
        paths.append(path)
    if paths:
        result["path"] = paths[0] if len(paths) == 1 else paths


async def run_panel(step: Step, frame: Frame) -> StepResult:
    """Run a protocol, and return its outputs and `degraded`. A `stop` step in the protocol makes this step fail."""
    name = frame.text(step, "protocol")
    protocol = frame.run.program.library.protocol(name)
    if protocol is None:
        raise StepFailed(f"the protocol `{name}` does not exist", frame.at(step))
    value = step.values.get("protocol")
    literal = value is not None and value.template is not None and value.template.is_constant
    given, known = frame.value(step, "with", {}), {field.name for field in protocol.inputs}
    given = given if isinstance(given, Mapping) else {}
    # An unknown input is an error only if the step names the protocol literally.
    given = {name: value for name, value in given.items() if literal or name in known}
    inputs, errors, warnings = resolve_inputs(protocol.inputs, given, {"config": frame.names.get("config")})
    for text in warnings:
        frame.phase.warn(text)
    if errors:
        raise StepFailed(f"invalid inputs of the protocol `{protocol.name}`: {'; '.join(errors)}", frame.address)
    names = {
        "inputs": inputs,
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
    return StepResult(outputs)


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
