"""`agent`: a member, or several in parallel, answer the step's section."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from itertools import count
from typing import Any

from skillrun.definitions.definitions import Prompt, Step
from skillrun.models.messages import ToolSpec
from skillrun.runtime.calls.lookup import tool_for
from skillrun.runtime.calls.member import answer
from skillrun.runtime.calls.member_request import MemberAnswer, MemberRequest
from skillrun.runtime.calls.reads import merged_lines
from skillrun.runtime.calls.tools import tools_of
from skillrun.runtime.calls.values import tell_dropped
from skillrun.runtime.errors import AgentFailed, StepFailed
from skillrun.runtime.frame import Frame, Task
from skillrun.runtime.members import Seated, seat_all
from skillrun.runtime.prompts.context import PromptParts, conversation, persistent, request_for, request_going_on
from skillrun.runtime.prompts.material import Piece
from skillrun.runtime.prompts.shared_prefix import pieces_of, worth_caching
from skillrun.runtime.prompts.step_records import (
    Attachment,
    attachment_of,
    point_answers,
    put_on_record,
    task_with,
    tell_missing,
)
from skillrun.runtime.results import AgentResult, Item, MemberReply, RecordResult, Spoken
from skillrun.runtime.scope import frame_names
from skillrun.runtime.steps.partial_result import Partial
from skillrun.runtime.steps.writing import put_reply
from skillrun.store.next_step import NextStep
from skillrun.types.schemas import Shape


async def act(step: Step, frame: Frame) -> AgentResult | Partial:
    """`.text`, `.data`, `.record`, `.points`, `.path`, `.replies`, `.dropped`, `.degraded`.

    Asks only who has not answered yet.
    """
    value = frame.main(step)
    several = isinstance(value, list)
    seated = await seat_all(frame, value if several else [value])
    if not seated and several:
        return {"text": "", "data": [], "replies": [], "dropped": [], "degraded": False}
    shape = frame.shape(step)
    attachment = attachment_of(step, frame)
    answers = await _ask_all(step, frame, seated, shape, attachment)
    replies = [_reply(member, answers[member.id], attachment) for member in seated]
    good = [member for member in seated if answers[member.id].ok]
    least = frame.whole(step, "at_least", 1) if several else 1
    missing = [member for member in seated if not answers[member.id].ok]
    if missing and all(answers[member.id].refused for member in seated):  # to be mended, and nothing to go on without
        least = max(1, least)
    if len(good) < least:
        reasons = "; ".join(f"{member.id}: {answers[member.id].reason}" for member in missing)
        ways = (answers[member.id].next_step for member in missing if answers[member.id].vain)
        way = NextStep.read(next(ways, ""))
        raise AgentFailed(f"`{step.id}` was not answered ({reasons})", frame.at(step), replies, way)
    for member in good:
        if answers[member.id].dropped:
            tell_dropped(frame.open, f"{frame.at(step)}/{member.id}", member.id, answers[member.id].dropped)
    result = _result(several, good, answers, replies)
    await _write(step, frame, good, answers, result)
    if attachment is not None:
        records = _with_records(step, frame, attachment, several, good, answers, result.get("path", ()))
        result = {**result, **records}
    if missing:
        return Partial(result, [f"{member.id}: {answers[member.id].reason}" for member in missing])
    return result


async def _ask_all(
    step: Step, frame: Frame, seated: list[Seated], shape: Shape | None, attachment: Attachment | None
) -> dict[str, MemberAnswer]:
    """Everyone at once, or in turn when told so.

    Where members share a prefix that is worth keeping in a provider's cache, the first of each model goes ahead until
    the model has responded for the first time: that makes the cache that the others read. All requests are made before
    the first is sent: none of them depends on who answers first.
    """
    requests = {member.id: _asked(step, frame, member, shape, attachment, shared=len(seated) > 1) for member in seated}
    if len(requests) < len(seated):
        twice = next(member.id for index, member in enumerate(seated) if member in seated[:index])
        raise StepFailed(f"`{step.id}` asks {twice} twice; a variant or a model tells members apart", frame.at(step))
    if frame.in_turn:
        return {id_: await _ask(step, frame, asked) for id_, asked in requests.items()}
    starts: dict[str, asyncio.Future[bool]] = {}
    waits = len(seated) > 1 and worth_caching(frame.open)

    async def ask(asked: MemberRequest) -> MemberAnswer | None:
        model = asked.request.model
        if waits and model in starts:
            return await _ask(step, frame, asked) if await asyncio.shield(starts[model]) else None
        start = starts.setdefault(model, asyncio.get_running_loop().create_future())

        def settle(begin: bool = True) -> None:
            if not start.done():
                start.set_result(begin)

        try:
            return await _ask(step, frame, asked, settle)
        finally:  # where it ends the step, nothing more begins
            settle(False)

    results = await asyncio.gather(*map(ask, requests.values()), return_exceptions=True)  # none under way is dropped
    answers: dict[str, MemberAnswer] = {}
    for id_, result in zip(requests, results, strict=True):
        if isinstance(result, BaseException):
            raise result
        assert result is not None, "whoever went ahead has raised before"
        answers[id_] = result
    return answers


def _asked(
    step: Step, frame: Frame, seated: Seated, shape: Shape | None, attachment: Attachment | None, *, shared: bool
) -> MemberRequest:
    resolved = frame.run.resolve(seated.member.model or seated.role.model)
    fresh = frame.fresh or frame.value(step, "fresh", False) is True
    address = f"{frame.at(step)}{f'@{frame.open.rounds}' if fresh else ''}/{seated.id}"
    tools = tools_of(frame, seated)
    schema = shape.schema if shape else None
    request = None
    if conversation(frame, step, seated):
        parts = _prompt_parts(step, frame, seated, attachment, schema, tools, remembers=True)
        request = request_going_on(frame, step, seated, parts)
    if request is None:
        parts = _prompt_parts(step, frame, seated, attachment, schema, tools, remembers=False)
        request = request_for(frame, step, seated, parts, shared=shared)
    if attachment is not None and resolved.records:
        request = replace(request, record=attachment.shape.schema)
    invalid = frame.text(step, "invalid")
    limits = frame.run.program.engine.get("limits") or {}
    turns = int(limits.get("tool_turns", 8)) if tools else 1
    calls = int(limits.get("tool_calls", 20)) if tools else 0
    if tools:
        tools = (*tools, *tool_for(frame.open))
    return MemberRequest(seated.id, address, request, resolved.window, shape, invalid, tools, turns, calls, attachment)


def _prompt_parts(
    step: Step,
    frame: Frame,
    seated: Seated,
    attachment: Attachment | None,
    schema: dict[str, Any] | None,
    tools: tuple[ToolSpec, ...],
    *,
    remembers: bool,
) -> PromptParts:
    """What is said to a member who remembers what it was told before, or does not."""
    member = {**seated.names, "remembers": remembers}
    names = frame_names(frame, member)
    prompt = frame.prompts.get(step.id or "")
    ends = frame.run.resolve(seated.member.model or seated.role.model).records
    task = prompt.template.render_text(names) if prompt is not None else ""
    pieces = [*_with_task(frame.task, prompt, member), *pieces_of(frame.run, step.material, names)]
    return PromptParts(task_with(step, frame, task, attachment, ends=ends), schema, pieces, tools)


def _with_task(task: Task | None, prompt: Prompt | None, member: Mapping[str, Any]) -> list[Piece]:
    """What came with a protocol's task; it goes wherever the task goes."""
    if task is None or prompt is None or not prompt.template.mentions("task"):
        return []
    return pieces_of(task.frame.run, task.step.material, frame_names(task.frame, member))


async def _ask(step: Step, frame: Frame, asked: MemberRequest, responded: Callable[[], object] = bool) -> MemberAnswer:
    """One attempt of one member; a member that has answered already, or is asked in vain, is not asked again.

    Attempts that are forgiven are followed by another one. `responded` is told when the first response is there, or
    there will be none.
    """
    phase, key = frame.open, f"{asked.address} {asked.request.fingerprint()}"
    final: MemberAnswer | None = phase.attempts.answers.get(key) or phase.attempts.vain.get(key)
    while final is None:
        attempt = phase.attempts.tries.get(key, 0) + 1
        latest = await answer(phase, asked, attempt, responded)
        if not latest.refused:
            phase.attempts.tries[key] = attempt
        if latest.ok or latest.refused or attempt > phase.forgiven(key):
            final = latest
    responded()
    if final.vain:
        phase.attempts.vain[key] = final
    if final.ok:
        phase.attempts.answers[key] = final
        if persistent(frame, step):
            frame.sessions.setdefault(asked.member, {})[frame.at(step)] = final.messages
    return final


def _with_records(
    step: Step,
    frame: Frame,
    attachment: Attachment,
    several: bool,
    good: list[Seated],
    answers: Mapping[str, MemberAnswer],
    paths: str | Iterable[str],
) -> RecordResult:
    """What the id gives of the records, which are kept for the phase; what is missing of them is said."""
    records = {member.id: answers[member.id].record for member in good}
    for member in good:
        if answers[member.id].lacking:
            tell_missing(step, frame, member.id, attachment, records[member.id], answers[member.id].lacking)
    there = [entry for entry in records.values() if entry is not None]
    put_on_record(step, frame, attachment, there, [paths] if isinstance(paths, str) else paths)
    result: RecordResult = {}
    if several or there:
        result["record"] = there if several else there[0]
    if attachment.points:
        result["points"] = [
            point for name, entry in records.items() for point in point_answers(attachment, entry, name)
        ]
    return result


def _reply(member: Seated, answer: MemberAnswer, attachment: Attachment | None) -> MemberReply:
    reads = [lines.to_dict() for lines in merged_lines(answer.reads)]
    reply: Spoken = {"member": member.id, "status": answer.status, "reads": reads}
    if answer.text:
        reply["text"] = answer.text
    if answer.data is not None:
        reply["data"] = answer.data
    if answer.record is not None:
        reply["record"] = answer.record
    if attachment is not None and attachment.points and answer.ok:
        reply["points"] = point_answers(attachment, answer.record, member.id)
    if answer.reason:
        reply["reason"], reply["kind"] = answer.reason, answer.kind or answer.status
    return {**reply, "dropped": [dict(vars(item)) for item in answer.dropped]}


def _result(
    several: bool, good: list[Seated], answers: Mapping[str, MemberAnswer], replies: list[MemberReply]
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


async def _write(
    step: Step, frame: Frame, good: list[Seated], answers: Mapping[str, MemberAnswer], result: AgentResult
) -> None:
    value = step.values.get("writes")
    if value is None:
        return
    paths: list[str] = []
    for member in good:
        named = value.text(frame_names(frame, member.names))
        path = _free(named, paths)
        if path != named:
            frame.open.warn(f"{step.id}: {named} is another member's; what {member.id} wrote is {path}")
        answer = answers[member.id]
        text = await put_reply(frame, step, path, answer.text, answer.data)
        if len(good) == 1 and "data" not in result:
            result["text"] = text
        paths.append(path)
    if paths:
        result["path"] = paths[0] if len(paths) == 1 else paths


def _free(path: str, taken: list[str]) -> str:
    """The path, with a number where another member of the step has written there: no reply is lost to another."""
    if path not in taken:
        return path
    head, dot, ending = path.rpartition(".")
    name, last = (head, dot + ending) if dot and "/" not in ending else (path, "")
    return next(free for number in count(2) if (free := f"{name}-{number}{last}") not in taken)
