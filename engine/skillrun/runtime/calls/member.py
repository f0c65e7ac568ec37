"""Calls one member: turns with tools until there is a reply, and one repair of an invalid reply.

Checks the stop reason before a reply is used. The gateway retries failed transports; the step makes new attempts.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from skillrun.models.messages import (
    CONFIGURATION_ERRORS,
    FATAL_ERRORS,
    Block,
    Message,
    ModelError,
    Reply,
    Request,
)
from skillrun.runtime.calls.member_request import MemberRequest, MemberResult
from skillrun.runtime.calls.model_call import call_model
from skillrun.runtime.calls.reads import LineRange
from skillrun.runtime.calls.tool_use import run_tools, tool_messages
from skillrun.runtime.calls.values import CUT_OFF, parse_value, salvage_truncated_reply
from skillrun.runtime.prompts.context import MIN_REPLY_TOKENS, estimate_request_tokens, estimate_tool_tokens
from skillrun.runtime.prompts.shared_prefix import render_template
from skillrun.runtime.prompts.step_records import (
    DocumentReply,
    RecordRequest,
    has_complete_document,
    merge_second_record,
    render_record_request,
    split_reply,
)
from skillrun.runtime.run import PhaseRun
from skillrun.types.schemas import quote_value

_STATUS: Final = {"length": "truncated", "refusal": "refused", "other": "error"}
_WHY: Final = {
    "length": CUT_OFF,
    "refusal": "the model refused to answer",
    "other": "the model stopped for an unknown reason",
}


async def converse(
    phase: PhaseRun, member_request: MemberRequest, attempt: int, on_response: Callable[[], object] = bool
) -> MemberResult:
    """Make one attempt: turns with tools until there is a reply, and one repair of a malformed one.

    `on_response` is called after every response of the model.
    """
    messages = list(member_request.request.messages)
    reads: list[LineRange] = []
    repaired, no_room = False, ""
    turn = 0
    while True:
        turn += 1
        address = f"{member_request.address}/{turn}.{attempt}"
        request = member_request.request
        if member_request.tools or turn > 1:
            room = member_request.room(messages)
            last = bool(member_request.tools) and (turn >= member_request.turns or room < 2 * MIN_REPLY_TOKENS)
            most = max(MIN_REPLY_TOKENS, min(request.max_tokens, room))
            request = replace(
                request, messages=tuple(messages), max_tokens=most, tools=member_request.tools, answer_now=last
            )
        try:
            reply = await call_model(phase, address, member_request.member, request)
        except ModelError as error:
            return _failed_result(phase, member_request, error, tuple(reads))
        on_response()
        is_document_complete = (
            member_request.record_request is not None and reply.stop == "length" and has_complete_document(reply.text)
        )
        if reply.stop == "length" and (cut := salvage_truncated_reply(member_request, reply)) is not None:
            return replace(cut, reads=tuple(reads))
        if reply.stop not in ("end", "tool") and not is_document_complete:
            why = f"{request.model}: {_WHY[reply.stop]}" if reply.stop == "refusal" else _WHY[reply.stop]
            return MemberResult(_STATUS[reply.stop], reply.text, reason=why, reads=tuple(reads))
        if reply.calls and request.answer_now:
            return MemberResult(
                "error", reply.text, reason="the model calls tools instead of replying", reads=tuple(reads)
            )
        if reply.calls and request.tools:
            messages.append(Message("assistant", (Block(reply.text),) if reply.text else (), reply.calls))
            results = await run_tools(phase, member_request, address, messages, reply.calls, reads)
            messages.extend(tool_messages(member_request, messages, results))
            continue
        if member_request.record_request is not None:
            retry_address = f"{member_request.address}/{turn + 1}.{attempt}"
            return await _finish_document(
                phase, member_request, member_request.record_request, reply, request, retry_address, tuple(reads)
            )
        value, errors, dropped = parse_value(member_request, reply, repaired=repaired)
        if errors and not repaired:
            repaired = True
            fix = Message("user", (Block(_repair(phase, errors, member_request)),))
            retry_messages = [*messages, Message("assistant", (Block(reply.text),)), fix]
            if member_request.room(retry_messages) >= MIN_REPLY_TOKENS:
                messages = retry_messages
                continue
            no_room = f"; the window of {request.model} has no room for another request"
        if errors:
            reason = "; ".join(f"{error['path']}: {error['message']}".removeprefix(": ") for error in errors[:3])
            reason = f"the reply does not match the schema: {reason}; it begins {quote_value(reply.text)}{no_room}"
            return MemberResult("parse_error", reply.text, reason=reason, reads=tuple(reads))
        if not reply.text.strip():
            return MemberResult("empty", reason="the reply is empty", reads=tuple(reads))
        history = (*messages, Message("assistant", (Block(reply.text),)))
        return MemberResult("success", reply.text, value, dropped=dropped, reads=tuple(reads), messages=history)


async def _finish_document(
    phase: PhaseRun,
    member_request: MemberRequest,
    record_request: RecordRequest,
    reply: Reply,
    request: Request,
    retry_address: str,
    reads: tuple[LineRange, ...],
) -> MemberResult:
    """Return a document with its record; requests a missing or malformed record once more."""
    document = split_reply(record_request, reply.text)
    if not document.document:
        return MemberResult("empty", reply.text, reason="the reply contains no document", reads=reads)
    history = (*request.messages, Message("assistant", (Block(reply.text),)))
    why = ""
    if document.errors:
        document, why = await _request_record(
            phase, member_request, record_request, document, request, history, retry_address
        )
    lacking = why or document.reason
    return MemberResult(
        "success",
        document.document,
        record=document.record,
        record_problem=lacking,
        dropped=document.dropped,
        reads=reads,
        messages=history,
    )


async def _request_record(
    phase: PhaseRun,
    member_request: MemberRequest,
    record_request: RecordRequest,
    document: DocumentReply,
    request: Request,
    history: tuple[Message, ...],
    address: str,
) -> tuple[DocumentReply, str]:
    """Request the record alone; return the document with it, and why the request failed."""
    # A request without a record schema has not asked for the record yet.
    errors = document.errors if member_request.request.record_schema is not None else ()
    messages = (*history, Message("user", (Block(render_record_request(phase.run, record_request, errors)),)))
    schema = record_request.shape.schema
    size = estimate_request_tokens(request.system, messages, schema) + estimate_tool_tokens(member_request.tools)
    room = min(request.max_tokens, member_request.window - size)
    if room < MIN_REPLY_TOKENS:
        return document, f"{document.reason}; the window of {request.model} has no room for another request"
    request = replace(
        request,
        messages=messages,
        schema=schema,
        record_schema=None,
        max_tokens=room,
        answer_now=bool(member_request.tools),
    )
    try:
        reply = await call_model(phase, address, member_request.member, request)
    except ModelError as error:
        return document, f"{document.reason}; {_failed_result(phase, member_request, error, ()).reason}"
    if reply.stop != "end":
        return document, f"{document.reason}; {_WHY.get(reply.stop, 'the model calls tools instead of replying')}"
    return merge_second_record(record_request, document, reply.text), ""


def _failed_result(
    phase: PhaseRun, member_request: MemberRequest, error: ModelError, reads: tuple[LineRange, ...]
) -> MemberResult:
    """Return the result of a failed call. Raises an error that affects all members, with phase and model."""
    model = member_request.request.model
    if error.kind in FATAL_ERRORS:
        message = f"{phase.name}: {member_request.member} on {model}: {error.message}"
        raise ModelError(error.kind, message, error.retryable, error.next_step) from None
    refused = error.kind in CONFIGURATION_ERRORS
    return MemberResult(
        "timeout" if error.kind == "timeout" else "error",
        reason=f"{model}: {error.message}" if refused else error.message,
        reads=reads,
        kind=error.kind,
        refused=refused,
        given_up=error.given_up,
        next_step=error.next_step,
    )


def _repair(phase: PhaseRun, errors: list[dict[str, str]], member_request: MemberRequest) -> str:
    schema = json.dumps(member_request.shape.schema if member_request.shape else {}, ensure_ascii=False)
    return render_template(phase.run, "system/repair", {"errors": errors, "schema": schema})
