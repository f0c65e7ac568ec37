"""Converses with a member: sends requests, runs tools, asks once for a valid reply, and journals each call."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from typing import Final

from skillrun.events import CallEnded, CallStarted
from skillrun.models.catalogue import Catalogue
from skillrun.models.messages import (
    CONFIGURATION_ERRORS,
    FATAL_ERRORS,
    AttemptListener,
    Block,
    Message,
    ModelError,
    Reply,
    Request,
    ToolCall,
    Usage,
)
from skillrun.replay import CALLS, Body, turn_address
from skillrun.runtime.calls.member_request import (
    CUT_OFF,
    GATHER,
    LineRange,
    MemberReply,
    MemberRequest,
    explain_truncation,
    parse_value,
    salvage_truncated_reply,
)
from skillrun.runtime.calls.tools import run_tools
from skillrun.runtime.prompts.context import MIN_REPLY_TOKENS, estimate_request_tokens
from skillrun.runtime.prompts.shared_prefix import render_template
from skillrun.runtime.prompts.step_records import (
    RecordRequest,
    merge_second_record,
    point_answers,
    render_record_request,
    split_reply,
)
from skillrun.runtime.run import PhaseRun, Run
from skillrun.runtime.run_budget import Reservation
from skillrun.store.files import sha256_of
from skillrun.store.journal import JournalUnwritable
from skillrun.store.kill_points import kill_point
from skillrun.structured_output.markup import find_text_calls, split_thoughts
from skillrun.structured_output.trailing_record import find_last_block
from skillrun.structured_output.values import contains_json
from skillrun.types.schemas import quote_value

_STATUS: Final = {"length": "truncated", "refusal": "refused", "other": "error"}
_WHY: Final = {
    "length": CUT_OFF,
    "refusal": "the model refused to answer",
    "other": "the model stopped for an unknown reason",
}
_NAMES_OUTPUT_LIMIT: Final = re.compile(r"max_?(?:new|completion|output)?_?tokens", re.IGNORECASE)
_CALLS_TOOLS: Final = "the model calls tools instead of replying"


async def converse(
    phase: PhaseRun, member_request: MemberRequest, attempt: int, on_response: Callable[[], object] = bool
) -> MemberReply:
    """Make one attempt to get a member's reply, and return the result.

    The member may use tools for several turns before it replies. If the reply is malformed, the member is asked once
    to repair it. `on_response` is called after every response of the model.
    """
    messages = list(member_request.request.messages)
    reads: list[LineRange] = []
    repaired, no_room = False, ""
    for turn in count(1):
        address = turn_address(member_request.address, turn, attempt)
        request = _turn_request(member_request, messages, turn)
        try:
            gathers = member_request.invalid == GATHER
            reply = await call_model(phase, address, member_request.member, request, takes_all_items=gathers)
        except ModelError as error:
            return replace(_failed_result(phase, member_request, error), reads=tuple(reads))
        on_response()
        answer = partial(MemberReply, member_request.member, text=reply.text, reads=tuple(reads))
        record_request = member_request.record_request
        if reply.stop == "length" and (cut := salvage_truncated_reply(member_request, reply)) is not None:
            return replace(cut, reads=tuple(reads))
        if _has_complete_value(member_request, reply):
            reply = replace(reply, stop="end")
        has_document = record_request is not None and reply.stop == "length" and find_last_block(reply.text) is not None
        if reply.stop not in ("end", "tool") and not has_document:
            why, next_step = _explain_stop(member_request, request, reply)
            return answer(_STATUS[reply.stop], reason=why, next_step=next_step)
        if reply.calls and (request.tools or request.answer_now):
            is_last = request.answer_now
            used = [] if is_last else await run_tools(phase, member_request, address, messages, reply, reads)
            if not used:
                too_long = f"the tool calls of the reply exceed the window of {request.model}"
                return answer("error", reason=_CALLS_TOOLS if is_last else too_long)
            messages += used
            continue
        history = (*messages, Message("assistant", (Block(reply.text),)))
        if record_request is not None:
            address = turn_address(member_request.address, turn + 1, attempt)
            request = replace(request, messages=history)
            result = await _finish_document(phase, member_request, record_request, reply, request, address)
            return replace(result, reads=tuple(reads))
        value, errors, dropped = parse_value(member_request, reply, repaired=repaired)
        if errors and not repaired:
            repaired = True
            schema = json.dumps(member_request.shape.schema if member_request.shape else {}, ensure_ascii=False)
            names = {"errors": [vars(error) for error in errors], "schema": schema}
            fix = Message("user", (Block(render_template(phase.run, "system/repair", names)),))
            if member_request.room((*history, fix)) >= MIN_REPLY_TOKENS:
                messages = [*history, fix]
                continue
            no_room = f"; the window of {request.model} has no room for another request"
        if not reply.text.strip():
            detail = reply.stop_detail or "the reply is empty"
            return answer("empty", text="", reason=f"{detail}{no_room}")
        if errors:
            reason = "; ".join(map(str, errors[:3]))
            reason = f"the reply does not match the schema: {reason}; it begins {quote_value(reply.text)}{no_room}"
            return answer("parse_error", reason=reason)
        return answer("success", data=value, dropped=dropped, messages=history)
    raise AssertionError("the loop has no end")


def _has_complete_value(member_request: MemberRequest, reply: Reply) -> bool:
    """Whether a reply that ended for an unknown reason is complete, because its value matches the step's schema."""
    if reply.stop != "other" or member_request.shape is None or member_request.record_request is not None:
        return False
    value, errors, _ = parse_value(member_request, reply, repaired=False)
    return value is not None and not errors


def _explain_stop(member_request: MemberRequest, request: Request, reply: Reply) -> tuple[str, str]:
    """Return why a reply is incomplete, and the next step of the user."""
    if reply.stop == "length":
        return explain_truncation(member_request, request, reply)
    if reply.stop == "refusal":
        return f"{request.model}: {_WHY[reply.stop]}", ""
    detail = f": {quote_value(reply.stop_detail)}" if reply.stop_detail else ""
    return _WHY[reply.stop] + detail, ""


def _turn_request(member_request: MemberRequest, messages: list[Message], turn: int) -> Request:
    """Return the request of a turn. In the last turn, and when little room is left, the member must reply."""
    request, tools = member_request.request, member_request.tools
    if turn == 1 and not tools:
        return request
    room = member_request.room(messages)
    last = bool(tools) and (turn >= member_request.turns or room < 2 * MIN_REPLY_TOKENS)
    most = max(MIN_REPLY_TOKENS, min(request.max_tokens, room))
    return replace(request, messages=tuple(messages), max_tokens=most, tools=tools, answer_now=last)


async def _finish_document(
    phase: PhaseRun,
    member_request: MemberRequest,
    record_request: RecordRequest,
    reply: Reply,
    request: Request,
    retry_address: str,
) -> MemberReply:
    """Return a document with its record. If the record is missing or malformed, request the record once more.

    `request` has the messages of the conversation, with the reply.
    """
    document, member, why = split_reply(record_request, reply.text), member_request.member, ""
    if not document.document:
        return MemberReply(member, "empty", reply.text, reason="the reply contains no document")
    if document.errors:
        # If the request had no record schema, the record is requested for the first time: nothing is wrong yet.
        errors = document.errors if member_request.request.record_schema is not None else ()
        ask = Message("user", (Block(render_record_request(phase.run, record_request, errors)),))
        messages, schema, tools = (*request.messages, ask), record_request.shape.schema, member_request.tools
        size = estimate_request_tokens(request.system, messages, schema, tools)
        room = min(request.max_tokens, member_request.window - size)
        again = replace(request, messages=messages, schema=schema, record_schema=None, max_tokens=room)
        try:
            if room < MIN_REPLY_TOKENS:
                why = f"the window of {request.model} has no room for another request"
            else:
                second = await call_model(phase, retry_address, member, replace(again, answer_now=bool(tools)))
                if second.stop == "end":
                    document = merge_second_record(record_request, document, second.text)
                else:
                    why = _WHY.get(second.stop, _CALLS_TOOLS)
        except ModelError as error:
            why = _failed_result(phase, member_request, error).reason
    return MemberReply(
        member,
        "success",
        document.document,
        record=document.record,
        record_problem=f"{document.reason}; {why}" if why else document.reason,
        points=point_answers(record_request, document.record, member),
        dropped=document.dropped,
        messages=request.messages,
    )


def _failed_result(phase: PhaseRun, member_request: MemberRequest, error: ModelError) -> MemberReply:
    """Return the result of a failed call. An error that affects all members is raised, naming phase and model."""
    model = member_request.request.model
    if error.kind in FATAL_ERRORS:
        message = f"{phase.name}: {member_request.member} on {model}: {error.message}"
        raise ModelError(error.kind, message, error.retryable, error.next_step) from None
    refused, reason, next_step = error.kind in CONFIGURATION_ERRORS, error.message, error.next_step
    if error.kind == "too_long":
        reason += f"; its `window` in config/models.yaml is {member_request.window:,} tokens"
        next_step = f"Set `window` of {model} to the limit of the server, choose a larger model, or shorten the prompt."
    elif error.kind == "invalid_request" and _NAMES_OUTPUT_LIMIT.search(reason):
        reason += f"; its `max_output` in config/models.yaml is {member_request.max_output:,} tokens"
        next_step = f"Set `max_output` of {model} to the limit of the server."
    return MemberReply(
        member_request.member,
        {"timeout": "timeout", "refusal": "refused"}.get(error.kind, "error"),
        reason=f"{model}: {reason}" if refused else reason,
        kind=error.kind,
        refused=refused,
        given_up=error.given_up,
        next_step=next_step,
    )


def is_last_attempt(phase: PhaseRun, asked: MemberRequest, reply: MemberReply, attempt: int) -> bool:
    """Return whether a failed attempt is not repeated. An attempt that an earlier process has sent is repeated."""
    following = turn_address(asked.address, 1, attempt + 1)
    return reply.is_permanent and phase.run.journal.find("sent", following, asked.request.fingerprint()) is None


MOST_TOKENS: Final = 10**12  # more tokens than any prompt has


async def call_model(
    phase: PhaseRun, address: str, member: str, request: Request, *, takes_all_items: bool = False
) -> Reply:
    """Return the reply to one request, from the journal or the model. It is durable on return. Raises ModelError.

    The thoughts of the model are removed. They stay in a reply with a schema if its value could be in them, unless
    `takes_all_items`: then every value counts.
    """
    run, fingerprint = phase.run, request.fingerprint()
    phase.record.prompts.count += 1
    run.evaluation.latest_prompts[address] = fingerprint
    sent: list[Reply] = []

    async def send() -> Body:
        """Send the request within the budget. Raises ModelError, BudgetExhausted and JournalUnwritable."""
        run.services.on_replayed(address, request, _refusals(run, address, fingerprint))
        last_refusal = run.evaluation.refusals.get(request.model)
        if last_refusal is not None and last_refusal.kind == "missing":
            raise last_refusal
        run.warn_of_unpriced_models([request.model])
        reservation = await run.budget.reserve(partial(max_usage, run.services.catalogue, request))
        try:
            run.options.rerun.called_addresses.add(address)
            run.journal.check()
            attempts = AttemptRecorder(phase, address, member, request, reservation, last_refusal)
            noted = request
            if request.schema:
                note = render_template(run, "system/schema", {"schema": json.dumps(request.schema)})
                noted = replace(request, schema_note=note)
            sent.append(await run.services.gateway.send(noted, address, attempts))
            run.budget.record_usage(reservation, sent[0].usage, sent[0].price)
        except ModelError as error:
            if error.kind == "missing":  # nothing was sent, and the run ends
                run.evaluation.refusals[request.model] = error
            else:
                run.emit(CallEnded(address, phase.name, member, request.model, replayed=False, error=str(error)))
            raise
        finally:
            run.budget.release(reservation)
        run.evaluation.responsive_models.add(request.model)
        kill_point("call: after")
        return sent[0].to_dict()

    try:
        result = await run.replay.once(CALLS, address, fingerprint, send, ModelError.from_dict)
    except ModelError as error:
        if error.is_replayed:
            run.services.on_replayed(address, request, [error])
        raise
    if result.is_replayed:
        reply = Reply.from_dict(result.body)
        run.services.on_replayed(address, request, [reply])
        phase.count_replay(address, request, reply)
    else:
        reply = sent[0]
        phase.count(reply.usage, reply.price, goes_on=request.continues_conversation)
    used = (reply.seconds, reply.usage.to_dict(), reply.price)
    run.emit(CallEnded(address, phase.name, member, reply.model, result.is_replayed, *used, reply.text, reply.stop))
    text, doubtful = split_thoughts(reply.text)
    schema = request.schema
    if schema is None and doubtful.strip():
        hidden = f"{len(doubtful):,} characters of the reply"
        phase.warn(f"{member}: {hidden} are removed, because tags mark them as thoughts")
    elif schema is not None and not takes_all_items and contains_json(text, schema) and contains_json(doubtful, schema):
        return reply  # the tags may be quoted, and what they hide may be the reply's value
    return take_text_calls(reply if text == reply.text else replace(reply, text=text), request, address)


def take_text_calls(reply: Reply, request: Request, address: str) -> Reply:
    """Return a reply whose tool calls in the text are calls. If they cannot be carried out, the reply is incomplete.

    The ids of the calls follow from the address, so that a resumed run finds their results.
    """
    offered = {tool.name for tool in request.tools}
    found = (
        find_text_calls(reply.text, offered) if not reply.calls and reply.stop not in ("length", "refusal") else None
    )
    if found is None or (request.schema is not None and contains_json(reply.text, request.schema)):
        return reply
    text, written = found
    if not written or not offered:
        return replace(reply, stop="other", stop_detail="a tool call in the text that cannot be carried out")
    ids = (sha256_of(f"{address} {number}")[:9] for number in count())
    calls = tuple(ToolCall(identity, call.name, call.arguments) for identity, call in zip(ids, written, strict=False))
    return replace(reply, text=text, calls=calls, stop="tool")


@dataclass(frozen=True)
class AttemptRecorder(AttemptListener):
    """Journals every attempt of a call: a record `sent` before it is sent, and a record `tried` if it fails.

    A call is not sent if its key would be refused again. This is assumed if its model has refused a call and has
    replied to no call in this evaluation, or if the model has refused a call after this recorder was created.
    `last_refusal` is the latest refusal before the recorder was created.
    """

    phase: PhaseRun
    address: str
    member: str
    request: Request
    reservation: Reservation
    last_refusal: ModelError | None

    async def on_sent(self, number: int) -> None:
        """Journal an attempt. Raises BudgetExhausted, JournalUnwritable or ModelError if it must not be sent."""
        run, known, model = self.phase.run, self.phase.run.evaluation, self.request.model
        since = known.refusals.get(model)
        if since is not None and (since is not self.last_refusal or model not in known.responsive_models):
            raise ModelError(since.kind, f"{since.message}; this call was not sent", next_step=since.next_step)
        run.budget.check_minutes()
        run.journal.check()
        run.outermost.begin_sending()
        attempt = {"attempt": number} if number > 1 else {}
        try:
            body = {**self.request.to_dict(), **self.phase.round_fields(), **attempt}
            await run.journal.record("sent", self.address, self.request.fingerprint(), body)
        except (asyncio.CancelledError, JournalUnwritable):  # the call was not sent after all
            with suppress(JournalUnwritable):
                await self._record_failure({"message": "the call was not sent", **attempt})
            raise
        if number == 1:
            run.budget.count_call(self.reservation)
            run.emit(CallStarted(self.address, self.phase.name, self.member, self.request.model))
        kill_point("call: before")

    async def on_failed(self, number: int, error: ModelError) -> None:
        model = self.request.model
        scripted = model.startswith("scripted:")  # fails single calls only
        if error.kind in FATAL_ERRORS | CONFIGURATION_ERRORS and not scripted:
            self.phase.run.evaluation.refusals[model] = error
        used: dict[str, object] = {}
        if error.usage is not None:
            price = self.phase.run.services.catalogue.price(model, error.usage)
            self.phase.run.budget.add(error.usage, price)
            used = {"usage": error.usage.to_dict(), "price": price}
        await self._record_failure({"kind": error.kind, "message": error.message, "attempt": number, **used})

    async def _record_failure(self, body: dict[str, object]) -> None:
        await self.phase.run.journal.record("tried", self.address, self.request.fingerprint(), body)


def _refusals(run: Run, address: str, fingerprint: str) -> list[ModelError]:
    """Return the earlier refusals of a call; empty if its latest attempt was not refused."""
    last = run.journal.find("tried", address, fingerprint)
    if last is None or last.get("kind") not in FATAL_ERRORS | CONFIGURATION_ERRORS:
        return []
    tries = (
        entry for entry in run.journal.entries("tried") if (entry.address, entry.fingerprint) == (address, fingerprint)
    )
    return [ModelError(entry.body["kind"], entry.body.get("message", "")) for entry in tries if "kind" in entry.body]


def max_usage(catalogue: Catalogue, request: Request, exactly: bool) -> Reservation:
    """Return a call's maximum usage: its input, and a reply of maximum length.

    Unless `exactly`, the input may be an upper bound, which is faster.
    """
    provider = catalogue.providers.get(request.model.partition(":")[0])
    output = request.max_tokens + (provider.thinking if provider is not None else 0)
    enough = 0 if exactly else MOST_TOKENS
    used = estimate_request_tokens(request.system, request.messages, request.schema, enough=enough)
    used += len(str(request.tools)) if request.tools else 0
    return Reservation(1, used + output, catalogue.price(request.model, Usage(used, output)) or 0)
