"""One member's answer: the turns until there is a reply, and its repair; the journal answers what it has seen before.

Looks at every stop reason before a reply is used. Retries of the transport are the gateway's; attempts are the step's.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from skillrun.models.messages import (
    FATAL_KINDS,
    REFUSED_KINDS,
    Block,
    Message,
    ModelError,
    Reply,
    Request,
)
from skillrun.runtime.calls.member_request import MemberAnswer, MemberRequest
from skillrun.runtime.calls.model_call import call
from skillrun.runtime.calls.reads import Lines
from skillrun.runtime.calls.tool_use import messages_of, results_of
from skillrun.runtime.calls.values import CUT_OFF, value_of, whole_part
from skillrun.runtime.prompts.context import LEAST_REPLY, size_of, size_of_tools
from skillrun.runtime.prompts.shared_prefix import template
from skillrun.runtime.prompts.step_records import (
    Attachment,
    DocumentReply,
    cut_inside,
    record_request,
    split_reply,
    with_second_record,
)
from skillrun.runtime.run import PhaseRun
from skillrun.types.schemas import quoted

_STATUS: Final = {"length": "truncated", "refusal": "refused", "other": "error"}
_WHY: Final = {
    "length": CUT_OFF,
    "refusal": "the model refused to answer",
    "other": "the model stopped for an unknown reason",
}


async def answer(
    phase: PhaseRun, asked: MemberRequest, attempt: int, responded: Callable[[], object] = bool
) -> MemberAnswer:
    """One attempt: turns with tools until there is a reply, and one repair of a malformed one.

    `responded` is told when the model has responded for the first time.
    """
    messages = list(asked.request.messages)
    reads: list[Lines] = []
    repaired, no_room = False, ""
    turn = 0
    while True:
        turn += 1
        address = f"{asked.address}/{turn}.{attempt}"
        request = asked.request
        if asked.tools or turn > 1:
            room = asked.room(messages)
            last = bool(asked.tools) and (turn >= asked.turns or room < 2 * LEAST_REPLY)
            most = max(LEAST_REPLY, min(request.max_tokens, room))
            request = replace(request, messages=tuple(messages), max_tokens=most, tools=asked.tools, answer_now=last)
        try:
            reply = await call(phase, address, asked.member, request)
        except ModelError as error:
            return _unanswered(phase, asked, error, tuple(reads))
        responded()
        whole = asked.attachment is not None and reply.stop == "length" and cut_inside(reply.text)
        if reply.stop == "length" and (cut := whole_part(asked, reply)) is not None:
            return replace(cut, reads=tuple(reads))
        if reply.stop not in ("end", "tool") and not whole:
            why = f"{request.model}: {_WHY[reply.stop]}" if reply.stop == "refusal" else _WHY[reply.stop]
            return MemberAnswer(_STATUS[reply.stop], reply.text, reason=why, reads=tuple(reads))
        if reply.calls and request.answer_now:
            return MemberAnswer(
                "error", reply.text, reason="the model asks for tools and does not answer", reads=tuple(reads)
            )
        if reply.calls and request.tools:
            messages.append(Message("assistant", (Block(reply.text),) if reply.text else (), reply.calls))
            results = await results_of(phase, asked, address, messages, reply.calls, reads)
            messages.extend(messages_of(asked, messages, results))
            continue
        if asked.attachment is not None:
            again = f"{asked.address}/{turn + 1}.{attempt}"
            return await _document(phase, asked, asked.attachment, reply, request, again, tuple(reads))
        value, errors, dropped = value_of(asked, reply, repaired=repaired)
        if errors and not repaired:
            repaired = True
            fix = Message("user", (Block(_repair(phase, errors, asked)),))
            asking_again = [*messages, Message("assistant", (Block(reply.text),)), fix]
            if asked.room(asking_again) >= LEAST_REPLY:
                messages = asking_again
                continue
            no_room = f"; the window of {request.model} has no room to ask again"
        if errors:
            reason = "; ".join(f"{error['path']}: {error['message']}".removeprefix(": ") for error in errors[:3])
            reason = f"the reply has not the shape asked for: {reason}; it begins {quoted(reply.text)}{no_room}"
            return MemberAnswer("parse_error", reply.text, reason=reason, reads=tuple(reads))
        if not reply.text.strip():
            return MemberAnswer("empty", reason="the reply is empty", reads=tuple(reads))
        history = (*messages, Message("assistant", (Block(reply.text),)))
        return MemberAnswer("success", reply.text, value, dropped=dropped, reads=tuple(reads), messages=history)


async def _document(
    phase: PhaseRun,
    asked: MemberRequest,
    attachment: Attachment,
    reply: Reply,
    request: Request,
    again: str,
    reads: tuple[Lines, ...],
) -> MemberAnswer:
    """A document with its record, which alone is asked for once more where it is missing or malformed."""
    document = split_reply(attachment, reply.text)
    if not document.document:
        return MemberAnswer("empty", reply.text, reason="the reply holds no document", reads=reads)
    history = (*request.messages, Message("assistant", (Block(reply.text),)))
    why = ""
    if document.errors:
        document, why = await _record_again(phase, asked, attachment, document, request, history, again)
    lacking = why or document.reason
    return MemberAnswer(
        "success",
        document.document,
        record=document.record,
        lacking=lacking,
        dropped=document.dropped,
        reads=reads,
        messages=history,
    )


async def _record_again(
    phase: PhaseRun,
    asked: MemberRequest,
    attachment: Attachment,
    document: DocumentReply,
    request: Request,
    history: tuple[Message, ...],
    address: str,
) -> tuple[DocumentReply, str]:
    """What a second reply makes of it, and why there was none."""
    errors = document.errors if asked.request.record is not None else ()  # otherwise it is asked for here first
    messages = (*history, Message("user", (Block(record_request(phase.run, attachment, errors)),)))
    schema = attachment.shape.schema
    size = size_of(request.system, messages, schema) + size_of_tools(asked.tools)
    room = min(request.max_tokens, asked.window - size)
    if room < LEAST_REPLY:
        return document, f"{document.reason}; the window of {request.model} has no room to ask again"
    request = replace(
        request, messages=messages, schema=schema, record=None, max_tokens=room, answer_now=bool(asked.tools)
    )
    try:
        reply = await call(phase, address, asked.member, request)
    except ModelError as error:
        return document, f"{document.reason}; {_unanswered(phase, asked, error, ()).reason}"
    if reply.stop != "end":
        return document, f"{document.reason}; {_WHY.get(reply.stop, 'the model asks for tools and does not answer')}"
    return with_second_record(attachment, document, reply.text), ""


def _unanswered(phase: PhaseRun, asked: MemberRequest, error: ModelError, reads: tuple[Lines, ...]) -> MemberAnswer:
    """A member without a reply. Raises the error, with the phase and the model, where nobody else can go on either."""
    model = asked.request.model
    if error.kind in FATAL_KINDS:
        message = f"{phase.name}: {asked.member} on {model}: {error.message}"
        raise ModelError(error.kind, message, error.retryable, error.next_step) from None
    refused = error.kind in REFUSED_KINDS
    return MemberAnswer(
        "timeout" if error.kind == "timeout" else "error",
        reason=f"{model}: {error.message}" if refused else error.message,
        reads=reads,
        kind=error.kind,
        refused=refused,
        given_up=error.given_up,
        next_step=error.next_step,
    )


def _repair(phase: PhaseRun, errors: list[dict[str, str]], asked: MemberRequest) -> str:
    schema = json.dumps(asked.shape.schema if asked.shape else {}, ensure_ascii=False)
    return template(phase.run, "system/repair", {"errors": errors, "schema": schema})
