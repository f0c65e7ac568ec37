"""One member's answer: the call, its tools, its repair; each request answered by the journal where it has been seen.

Looks at every stop reason before a reply is used. Retries of the transport are the gateway's; attempts are the step's.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Final

from skillrun.collaboration.compaction import clip, estimate_tokens
from skillrun.language.files.kinds import LOOKUP
from skillrun.language.replies.gathering import gather, list_field
from skillrun.language.replies.values import parse_reply
from skillrun.language.templates.functions import untrusted
from skillrun.language.text.border import clean
from skillrun.language.types.schemas import Dropped, Shape, shown
from skillrun.models.messages import (
    REFUSED_KINDS,
    Block,
    Message,
    ModelError,
    Reply,
    Request,
    ToolCall,
    ToolSpec,
)
from skillrun.runtime.calls.door import FATAL, call
from skillrun.runtime.calls.lookup import look_up
from skillrun.runtime.calls.reads import Lines, lines_shown
from skillrun.runtime.calls.tools import repository_of
from skillrun.runtime.events import Pruned, ToolUsed
from skillrun.runtime.prompt.attached import Attachment, Taken, cut_inside, mended, taken, told_again
from skillrun.runtime.prompt.beginning import template
from skillrun.runtime.prompt.context import LEAST_REPLY, size_of, size_of_tools
from skillrun.runtime.run import PhaseRun

GATHER: Final = "gather"  # of `invalid`
MOST_TOLD: Final = 3  # of what was dropped from a reply; the event has all
_STATUS: Final = {"length": "truncated", "refusal": "refused", "other": "error"}
_WHY: Final = {
    "length": "the reply was cut off at the limit of its length",
    "refusal": "the model refused to answer",
    "other": "the model stopped for an unknown reason",
}


@dataclass(frozen=True)
class Asked:
    """A request to one member, before its turns, and the window of its model in tokens.

    Where it has tools: how many turns, and how many calls of tools in each.
    """

    member: str
    address: str
    request: Request
    window: int
    shape: Shape | None = None
    invalid: str = ""
    tools: tuple[ToolSpec, ...] = ()
    turns: int = 1
    calls: int = 0
    record: Attachment | None = None


@dataclass(frozen=True)
class Answer:
    """What came of it. `text` is the whole reply, kept also where the attempt failed; `dropped` is not in `data`.

    Of a document with a record it is the document; `lacking` says what is missing of the record, if anything.
    """

    status: str
    text: str = ""
    data: Any = None
    record: Any = None
    lacking: str = ""
    dropped: tuple[Dropped, ...] = ()
    reason: str = ""
    reads: tuple[Lines, ...] = ()
    messages: tuple[Message, ...] = field(default=(), repr=False)
    kind: str = ""
    """Why there is no answer: the status, or what kind of failure of the call it was."""
    refused: bool = False
    """It wants another key or model: no attempt was made, and it is asked again when the run is resumed."""
    given_up: bool = False
    """It was sent as often as it may be."""
    next_step: str = ""

    @property
    def ok(self) -> bool:
        return self.status == "success"

    @property
    def vain(self) -> bool:
        """Asking again at once is no use."""
        return self.refused or self.given_up


async def answer(phase: PhaseRun, asked: Asked, attempt: int, responded: Callable[[], object] = bool) -> Answer:
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
            room = _room(asked, messages)
            last = bool(asked.tools) and (turn >= asked.turns or room < 2 * LEAST_REPLY)
            most = max(LEAST_REPLY, min(request.max_tokens, room))
            request = replace(request, messages=tuple(messages), max_tokens=most, tools=asked.tools, answer_now=last)
        try:
            reply = await call(phase, address, asked.member, request)
        except ModelError as error:
            return _unanswered(phase, asked, error, tuple(reads))
        responded()
        whole = asked.record is not None and reply.stop == "length" and cut_inside(reply.text)
        if reply.stop == "length" and (cut := _gathered(asked, reply)) is not None:
            return replace(cut, reads=tuple(reads))
        if reply.stop not in ("end", "tool") and not whole:
            why = f"{request.model}: {_WHY[reply.stop]}" if reply.stop == "refusal" else _WHY[reply.stop]
            return Answer(_STATUS[reply.stop], reply.text, reason=why, reads=tuple(reads))
        if reply.calls and request.answer_now:
            return Answer(
                "error", reply.text, reason="the model asks for tools and does not answer", reads=tuple(reads)
            )
        if reply.calls and request.tools:
            messages.append(Message("assistant", (Block(reply.text),) if reply.text else (), reply.calls))
            results = await _results(phase, asked, address, messages, reply.calls, reads)
            messages.extend(_told(asked, messages, results))
            continue
        if asked.record is not None:
            again = f"{asked.address}/{turn + 1}.{attempt}"
            return await _document(phase, asked, asked.record, reply, request, again, tuple(reads))
        value, errors, dropped = _value(asked, reply, repaired=repaired)
        if errors and not repaired:
            repaired = True
            fix = Message("user", (Block(_repair(phase, errors, asked)),))
            told = [*messages, Message("assistant", (Block(reply.text),)), fix]
            if _room(asked, told) >= LEAST_REPLY:
                messages = told
                continue
            no_room = f"; the window of {request.model} has no room to ask again"
        if errors:
            reason = "; ".join(f"{error['path']}: {error['message']}".removeprefix(": ") for error in errors[:3])
            reason = f"the reply has not the shape asked for: {reason}; it begins {shown(reply.text)}{no_room}"
            return Answer("parse_error", reply.text, reason=reason, reads=tuple(reads))
        if not reply.text.strip():
            return Answer("empty", reason="the reply is empty", reads=tuple(reads))
        history = (*messages, Message("assistant", (Block(reply.text),)))
        return Answer("success", reply.text, value, dropped=dropped, reads=tuple(reads), messages=history)


async def _document(
    phase: PhaseRun,
    asked: Asked,
    record: Attachment,
    reply: Reply,
    request: Request,
    again: str,
    reads: tuple[Lines, ...],
) -> Answer:
    """A document with its record, which alone is asked for once more where it is missing or malformed."""
    found = taken(record, reply.text)
    if not found.document:
        return Answer("empty", reply.text, reason="the reply holds no document", reads=reads)
    history = (*request.messages, Message("assistant", (Block(reply.text),)))
    why = ""
    if found.errors:
        found, why = await _record_again(phase, asked, record, found, request, history, again)
    lacking = why or found.reason
    return Answer(
        "success",
        found.document,
        record=found.record,
        lacking=lacking,
        dropped=found.dropped,
        reads=reads,
        messages=history,
    )


async def _record_again(
    phase: PhaseRun,
    asked: Asked,
    record: Attachment,
    found: Taken,
    request: Request,
    history: tuple[Message, ...],
    address: str,
) -> tuple[Taken, str]:
    """What a second reply makes of it, and why there was none."""
    errors = found.errors if asked.request.record is not None else ()  # otherwise it is asked for here first
    messages = (*history, Message("user", (Block(told_again(phase.run, record, errors)),)))
    schema = record.shape.schema
    size = size_of(request.system, messages, schema) + size_of_tools(asked.tools)
    room = min(request.max_tokens, asked.window - size)
    if room < LEAST_REPLY:
        return found, f"{found.reason}; the window of {request.model} has no room to ask again"
    request = replace(
        request, messages=messages, schema=schema, record=None, max_tokens=room, answer_now=bool(asked.tools)
    )
    try:
        reply = await call(phase, address, asked.member, request)
    except ModelError as error:
        return found, f"{found.reason}; {_unanswered(phase, asked, error, ()).reason}"
    if reply.stop != "end":
        return found, f"{found.reason}; {_WHY.get(reply.stop, 'the model asks for tools and does not answer')}"
    return mended(record, found, reply.text), ""


def _unanswered(phase: PhaseRun, asked: Asked, error: ModelError, reads: tuple[Lines, ...]) -> Answer:
    """A member without a reply. Raises the error, with the phase and the model, where nobody else can go on either."""
    model = asked.request.model
    if error.kind in FATAL:
        message = f"{phase.name}: {asked.member} on {model}: {error.message}"
        raise ModelError(error.kind, message, error.retryable, error.next_step) from None
    refused = error.kind in REFUSED_KINDS
    return Answer(
        "timeout" if error.kind == "timeout" else "error",
        reason=f"{model}: {error.message}" if refused else error.message,
        reads=reads,
        kind=error.kind,
        refused=refused,
        given_up=error.given_up,
        next_step=error.next_step,
    )


def _room(asked: Asked, messages: list[Message]) -> int:
    """The tokens that the messages leave of the model's window."""
    size = size_of(asked.request.system, tuple(messages), asked.request.schema)
    return asked.window - size - size_of_tools(asked.tools)


def _told(asked: Asked, messages: list[Message], results: list[tuple[str, str]]) -> list[Message]:
    """The results of tools as material, cut to equal parts of what is left where they leave no room for a reply."""

    def fenced(texts: list[str]) -> list[Message]:
        pairs = zip(results, texts, strict=True)
        return [Message("tool", (Block(untrusted(text)),), call_id=known) for (known, _), text in pairs]

    texts = [text for _, text in results]
    whole = fenced(texts)
    if _room(asked, [*messages, *whole]) >= LEAST_REPLY:
        return whole
    left = _room(asked, [*messages, *fenced([""] * len(texts))]) - LEAST_REPLY
    return fenced([clip(text, max(0, left) // len(texts)) for text in texts])


async def _results(
    phase: PhaseRun,
    asked: Asked,
    address: str,
    messages: list[Message],
    calls: tuple[ToolCall, ...],
    reads: list[Lines],
) -> list[tuple[str, str]]:
    """What the tools answer, each in its part of the room that is left for it and those that follow."""
    left = _room(asked, [*messages, *(Message("tool", (Block(untrusted("")),)) for _ in calls)]) - LEAST_REPLY
    results = []
    for number, tool in enumerate(calls):
        share = max(0, left) // max(1, min(len(calls), asked.calls) - number)
        text = await _use(phase, asked, address, number, tool, share, reads)
        left -= estimate_tokens(text)
        results.append((tool.id, text))
    return results


async def _use(
    phase: PhaseRun, asked: Asked, address: str, number: int, tool: ToolCall, room: int, reads: list[Lines]
) -> str:
    """What a tool answers in so many tokens, or why it was not used; one that has run before is not run again."""
    offered = [one.name for one in asked.tools]
    if number >= asked.calls:
        return f"error: at most {asked.calls} calls of tools are carried out in one turn, and this one was not"
    if tool.name not in offered:
        return f"error: you have no tool {shown(tool.name)}; there are {', '.join(offered)}"
    run = phase.run
    where = f"{address}/{tool.id}"
    fingerprint = Request("tool", (), (Message("tool", (), (tool,)),), 0).fingerprint()
    known = run.journal.find("tool", where, fingerprint)
    if known is None:
        if tool.name == LOOKUP:
            result = clean(look_up(phase, tool.arguments, room))
        else:
            result = clean(await repository_of(phase).run(tool.name, tool.arguments, room))
        known = {"tool": tool.name, "arguments": tool.arguments, "result": result}
        await run.journal.record("tool", where, fingerprint, known)
        run.emit(ToolUsed(where, phase.name, tool.name, tool.arguments, replayed=False))
    else:
        run.emit(ToolUsed(where, phase.name, tool.name, tool.arguments, replayed=True))
    result = str(known.get("result", ""))
    if (shown_lines := lines_shown(tool, result)) is not None:
        reads.append(shown_lines)
    return result


def _value(asked: Asked, reply: Reply, *, repaired: bool) -> tuple[Any, list[dict[str, str]], tuple[Dropped, ...]]:
    """The structured value of a reply, what is wrong with it, and what was left out of it; for free text nothing.

    Only of a reply that has been asked for again is anything left out.
    """
    if asked.shape is None:
        return None, [], ()
    dropped: list[Dropped] = []
    if asked.invalid == GATHER and list_field(asked.shape.schema):
        value, dropped, errors = gather(reply.text, asked.shape.schema)
        return value, [vars(error) for error in errors], tuple(dropped)
    value, errors = parse_reply(reply.text, asked.shape.schema)
    if errors and asked.invalid and value is not None:
        value, dropped = asked.shape.trimmed(value)
        errors = asked.shape.check(value)
    if errors and asked.invalid and repaired and value is not None:
        value, pruned = asked.shape.prune(value)
        dropped += pruned
        errors = asked.shape.check(value)
    return value, [vars(error) for error in errors], tuple(dropped)


def _gathered(asked: Asked, reply: Reply) -> Answer | None:
    """What is whole of a reply that was cut off, where each item counts by itself; None where nothing is."""
    if asked.shape is None or asked.invalid != GATHER:
        return None
    value, _, dropped = _value(asked, reply, repaired=True)
    if value is None or not any(value.values()):
        return None
    cut = Dropped("", _WHY["length"], "")
    return Answer("success", reply.text, value, dropped=(*dropped, cut))


def tell_dropped(phase: PhaseRun, address: str, member: str, dropped: tuple[Dropped, ...]) -> None:
    """Put on record what was left out of a member's reply: an event, a warning and a flag of the phase."""
    if not dropped:
        return
    places = "; ".join(f"{one.path} ({one.reason})" for one in dropped[:MOST_TOLD])
    more = f"; and {len(dropped) - MOST_TOLD} more" if len(dropped) > MOST_TOLD else ""
    text = f"what {member} said was not all understood; dropped: {places}{more}"
    if address not in phase.account.dropped:
        phase.run.emit(Pruned(address, phase.name, member, tuple(dict(vars(one)) for one in dropped), text))
        phase.account.warnings.append(text)
    phase.account.dropped[address] = len(dropped)


def _repair(phase: PhaseRun, errors: list[dict[str, str]], asked: Asked) -> str:
    schema = json.dumps(asked.shape.schema if asked.shape else {}, ensure_ascii=False)
    return template(phase.run, "system/repair", {"errors": errors, "schema": schema})
