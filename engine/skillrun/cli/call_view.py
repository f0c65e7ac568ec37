"""Formats a call as text and as JSON data: its prompt by parts, its turns with tool results, its reply.

Text from models, files and users is indented; only the program's own lines start at the margin.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from skillrun.cli.formatting import count_noun, format_duration, format_price, format_table
from skillrun.definitions.definitions import strip_markers
from skillrun.models.messages import Block, Request, Usage
from skillrun.scoring.compaction import estimate_tokens
from skillrun.store.run_view import PER_ROUND_SUFFIX, Conversation, ConversationTurn, RunCalls
from skillrun.syntax.diagnostics import UsageError, allowed_hint, did_you_mean, indent_continuation, make_printable

MAX_NAMED: Final = 12  # addresses in a hint
_TURN: Final = re.compile(r"(\d+)\.(\d+)")


@dataclass(frozen=True)
class CallSelector:
    """The command-line arguments that select calls.

    `phase` is a phase or the address of a call. `step` is the id of a step, or (part of) its address. `version` is the
    number of the prompt at the address, 0 for the latest.
    """

    phase: str
    step: str = ""
    member: str = ""
    version: int = 0

    @property
    def turn(self) -> int:
        """The turn that the address names; 0 if it names none."""
        turn = _TURN.fullmatch((self.step or self.phase).rpartition("/")[2])
        return int(turn[1]) if turn is not None else 0

    def __str__(self) -> str:
        return "/".join(filter(None, (self.phase, self.step, self.member)))


def select_calls(calls: RunCalls, selector: CallSelector) -> list[Conversation]:
    """Return the matching conversations: for each address, the latest version or the selected one.

    Raises UsageError if no call matches; the hint lists the existing calls or versions.
    """
    at = selector
    if "/" in selector.phase:  # an address such as `workflow/phase/step/…`; the workflow may be left out
        segments = selector.phase.split("/")
        phase, *steps = segments[1:] if segments[0] not in calls.phases and len(segments) > 1 else segments
        at = replace(selector, phase=phase, step="/".join(filter(None, (*steps, selector.step))))
    in_phase = [each for each in calls.conversations if each.phase == at.phase]
    if not in_phase:
        with_calls = list(dict.fromkeys(each.phase for each in calls.conversations))
        if at.phase in calls.phases:
            reason = f"phases with calls: {', '.join(with_calls)}" if with_calls else "no phase has made a call yet"
            raise UsageError(f"`{at.phase}` of {calls.name} has made no calls", reason)
        known = calls.phases or with_calls
        hint = did_you_mean(at.phase, known) or (allowed_hint(known) if known else "it has made no calls")
        raise UsageError(f"{calls.name} has no phase `{at.phase}`", hint)
    matches = [each for each in in_phase if _is_at_step(each, at.step) and matches_member(each.member, at.member)]
    if not matches:
        names = list(dict.fromkeys(each.path.partition("/")[2] for each in in_phase))
        text = "/".join(filter(None, (at.step, at.member)))
        last = [part for name in names for part in name.split("/")]
        shortest = dict.fromkeys(strip_markers(name) for name in names)  # names without passes and items
        hint = did_you_mean(at.member or at.step, last) or allowed_hint(list(shortest)[:MAX_NAMED])
        raise UsageError(f"`{at.phase}` of {calls.name} has no call at `{text}`", hint)
    chosen = [each for each in matches if (each.version == at.version if at.version else each.is_latest)]
    if not chosen:
        most = max(each.versions for each in matches)
        raise UsageError(
            f"there is no prompt version {at.version} at `{at}`", f"use a version from 1 (the first) to {most}"
        )
    return chosen


def _is_at_step(conversation: Conversation, step: str) -> bool:
    """Whether the conversation is at `step`, which is a step's id or part of an address.

    If `step` names no pass or item, every pass and item matches.
    """
    if not step:
        return True
    wanted = step.strip("/").split("/")
    attempt = _TURN.fullmatch(wanted[-1])
    if attempt is not None and int(attempt[2]) == conversation.attempt:
        wanted = wanted[:-1]
    segments = conversation.steps if len(wanted) == 1 else [*conversation.steps, *conversation.member.split("/")]
    starts = range(len(segments) - len(wanted) + 1)
    names = [  # of each segment
        {name for each in (segment, strip_markers(segment)) for name in (each, PER_ROUND_SUFFIX.sub("", each))}
        for segment in segments
    ]
    return any(all(name in known for name, known in zip(wanted, names[at:], strict=False)) for at in starts)


def matches_member(member_id: str, pattern: str) -> bool:
    """Whether the pattern is the member's id, role, variant or model; an empty pattern matches any member."""
    who, _, model = member_id.partition("@")
    return not pattern or pattern in (member_id, who, model, *who.split(":"))


EXCERPT_LENGTH: Final = 60  # characters of a part in a table
MAX_RESULT_LINES: Final = 12  # lines of a tool result that are shown without `--full`
MAX_DIFFERENCE_LINES: Final = 40  # lines of one difference that are shown without `--full`
HEADER: Final = ("call", "model", "turns", "tokens in", "tokens out", "price", "")
PART_LABELS: Final = {"assistant": "earlier reply"}
"""Labels of messages without parts, for members that continue a conversation."""
STOP_REASONS: Final = {
    "length": "truncated at the length limit",
    "refusal": "refused",
    "other": "stopped for an unknown reason",
}

# a request


def titled_blocks(request: Request) -> list[tuple[str, list[tuple[str, Block]]]]:
    """Return the title and the named blocks of each message. A block without a part has the title as its name."""
    titled = [("system", request.system), *((message.role, message.blocks) for message in request.messages)]
    return [(title, [(block.part or title, block) for block in blocks]) for title, blocks in titled]


def prompt_lines(request: Request) -> Iterator[str]:
    """Yield the lines of the whole request, with a title before each message."""
    tool_calls = [(), *(message.calls for message in request.messages)]
    for (title, blocks), calls in zip(titled_blocks(request), tool_calls, strict=True):
        yield f"──── {title} ────"
        for _, block in blocks:
            yield block.text
            yield "──── cached up to here ────" if block.cache else ""
        for call in calls:
            yield f"──── calls {call.name} {json.dumps(call.arguments, ensure_ascii=False)} ────"
    if request.tools:
        yield f"──── tools: {', '.join(tool.name for tool in request.tools)} ────"
    if request.schema is not None:
        yield "──── reply schema ────"
        yield json.dumps(request.schema, indent=2, ensure_ascii=False)


def prompt_parts(request: Request) -> list[dict[str, Any]]:
    """Return each part of a prompt with its tokens, text and omissions. The tools and the schema come last."""
    parts = [
        {
            "part": PART_LABELS.get(name, name),
            "tokens": estimate_tokens(block.text),
            "text": block.text,
            "left_out": list(block.left_out),
        }
        for _, blocks in titled_blocks(request)
        for name, block in blocks
    ]
    described = [("tools", [dict(vars(tool)) for tool in request.tools]), ("reply schema", request.schema)]
    for name, value in described:
        if value:
            text = json.dumps(value, indent=2, ensure_ascii=False)
            parts.append({"part": name, "tokens": estimate_tokens(str(value)), "text": text, "left_out": []})
    return parts


def parts_table(parts: Sequence[dict[str, Any]]) -> list[str]:
    """Return a table of the parts with tokens and first words. The omissions of a part follow below it."""
    parts = [part for part in parts if part["text"]]  # a phase without criteria has an empty part
    rows = [[part["part"], f"{part['tokens']:,}", _excerpt(part["text"])] for part in parts]
    header, *lines = format_table(("part", "tokens", "begins"), rows, right=(1,))
    output = [header]
    for line, part in zip(lines, parts, strict=True):
        output += [line, *(f"  left out: {text}" for text in part["left_out"])]
    return output


def _excerpt(text: str) -> str:
    line = " ".join(make_printable(text[: 4 * EXCERPT_LENGTH]).split())
    return line if len(line) <= EXCERPT_LENGTH else f"{line[: EXCERPT_LENGTH - 1]}…"


# a conversation


def status_text(turn: ConversationTurn, *, is_held: bool) -> str:
    """Return the outcome of a turn as text."""
    if turn.reply is not None:
        return STOP_REASONS.get(turn.reply.stop, "replied")
    if turn.failed:
        return f"failed: {turn.failed}"
    last = f" (last attempt: {turn.tried[-1]})" if turn.tried else ""
    return f"{'no reply yet' if is_held else 'no reply'}{last}"


def call_label(conversation: Conversation) -> str:
    """Return the `call_path` of a call, followed by the version if the call has several versions."""
    several = conversation.versions > 1
    version = f", version {conversation.version} of {conversation.versions}" if several else ""
    return f"{call_path(conversation)}{version}"


def call_path(conversation: Conversation) -> str:
    """Return the call's path within its phase, with the attempt if it is not the first."""
    attempt = f", attempt {conversation.attempt}" if conversation.attempt > 1 else ""
    return f"{conversation.path.partition('/')[2]}{attempt}"


def calls_table(conversations: Iterable[Conversation], *, is_held: bool) -> list[str]:
    """Return a table with a row for each conversation."""
    rows = []
    for each in conversations:
        usage = each.usage
        repeated = ", called again" if any(turn.is_repair for turn in each.turns) else ""
        status = f"{status_text(each.last, is_held=is_held)}{repeated}"
        flow = (f"{usage.input:,}", f"{usage.output:,}", format_price(each.price))
        rows.append([call_label(each), each.first.model, str(len(each.turns)), *flow, _excerpt(status)])
    return format_table(HEADER, rows, right=(2, 3, 4, 5))


def conversation_data(conversation: Conversation, dropped: str = "") -> dict[str, Any]:
    """Return the conversation as JSON data; `dropped` describes omitted items of the reply."""
    request = conversation.first.request
    reply = conversation.last.reply
    return {
        "address": conversation.address,
        "phase": conversation.phase,
        "step": "/".join(conversation.steps),
        "member": conversation.member,
        "attempt": conversation.attempt,
        "version": conversation.version,
        "versions": conversation.versions,
        "round": conversation.first.round,
        "model": request.model,
        "max_tokens": request.max_tokens,
        "parts": prompt_parts(request),
        "turns": list(map(_turn_data, conversation.turns)),
        "status": conversation.last.status,
        "reply": reply.text if reply is not None else None,
        "dropped": dropped,
        "usage": conversation.usage.to_dict(),
        "price": conversation.price,
    }


def _turn_data(turn: ConversationTurn) -> dict[str, Any]:
    reply = turn.reply
    record: dict[str, Any] = {"address": turn.address, "fingerprint": turn.fingerprint, "status": turn.status}
    record |= {"asks_again": turn.asks_again, "failed": turn.failed, "tried": list(turn.tried), "times": turn.times}
    if reply is not None:
        record |= {"reply": reply.text, "stop": reply.stop, "model": reply.model, "seconds": reply.seconds}
        record |= {"usage": reply.usage.to_dict(), "price": reply.price}
    record["tools"] = [
        {"id": use.call.id, "tool": use.call.name, "arguments": use.call.arguments, "result": use.result}
        for use in turn.tools
    ]
    return record


def conversation_lines(conversation: Conversation, dropped: str = "", *, full: bool, is_held: bool) -> Iterator[str]:
    """Yield the lines of a conversation. Whole prompts and long tool results are included only with `full`."""
    request = conversation.first.request
    label = call_label(conversation)
    in_round = f" · round {conversation.first.round}" if conversation.first.round != "1" else ""
    yield f"{conversation.phase}: {label}{in_round} · {request.model}"
    yield f"{conversation.last.address} · {status_text(conversation.last, is_held=is_held)}"
    parts = prompt_parts(request)
    total = sum(part["tokens"] for part in parts)
    yield ""
    yield f"prompt: about {total:,} tokens, reply limit {request.max_tokens:,}"
    yield from (f"  {line}" for line in parts_table(parts))
    if request.tools:
        yield f"tools: {', '.join(tool.name for tool in request.tools)}"
    measured_tokens = conversation.first.reply.usage.input if conversation.first.reply is not None else 0
    if measured_tokens not in (0, total):  # 0 if the endpoint sends no usage
        yield f"  estimated from the text; the provider counted {measured_tokens:,}, as shown below"
    if full:
        for part in filter(lambda part: part["text"], parts):
            yield f"{part['part']}:"
            yield from indent_lines(part["text"])
    for turn in conversation.turns:
        yield ""
        yield from _turn_lines(turn, several=len(conversation.turns) > 1, full=full, is_held=is_held)
    if dropped:
        yield f"warning: {indent_continuation(dropped)}"
    if len(conversation.turns) > 1:
        yield ""
        yield f"all turns: {_usage_text(conversation.usage, conversation.price)}"


def _turn_lines(turn: ConversationTurn, *, several: bool, full: bool, is_held: bool) -> Iterator[str]:
    if turn.asks_again:
        yield "called again:"
        yield from indent_lines(turn.asks_again)
    title = f"turn {turn.number}: " if several else ""
    for text in turn.tried:
        yield f"{title}attempt without a reply: {_excerpt(text)}"
    reply = turn.reply
    if reply is None:
        yield f"{title}{status_text(turn, is_held=is_held)}"
        return
    times = f", latest of {turn.times} replies to this prompt" if turn.times > 1 else ""
    seconds = f", {format_duration(reply.seconds)}" if reply.seconds else ""
    yield f"{title}{_usage_text(reply.usage, reply.price)}{seconds}{times}"
    if reply.stop in STOP_REASONS:
        yield f"{title}{STOP_REASONS[reply.stop]}"
    if reply.text or not turn.tools:
        yield "reply:" if reply.text.strip() else "reply: empty"
        yield from indent_lines(reply.text) if reply.text.strip() else ()
    for use in turn.tools:
        arguments = json.dumps(use.call.arguments, ensure_ascii=False)
        yield f"tool {_excerpt(use.call.name)}: {arguments if full else _excerpt(arguments)}"
        lines = ["(no recorded result)"] if use.result is None else _printable_lines(use.result)
        yield from truncate_lines(lines, MAX_RESULT_LINES, full=full)


def _usage_text(usage: Usage, price: float | None) -> str:
    cached = f" ({round(100 * usage.cache_read / usage.input)} % cached)" if usage.input and usage.cache_read else ""
    return f"{usage.input:,} tokens in{cached}, {usage.output:,} out, {format_price(price)}"


def indent_lines(text: str) -> Iterator[str]:
    """Return the lines of untrusted text, indented and without control characters."""
    return (f"  {line}".rstrip() for line in _printable_lines(text))


def _printable_lines(text: str) -> list[str]:
    return make_printable(text).strip("\n").split("\n")


def truncate_lines(lines: Sequence[str], longest: int = MAX_DIFFERENCE_LINES, *, full: bool) -> Iterator[str]:
    """Yield the lines, indented. Without `full`, yield at most `longest` lines and the number of the others."""
    shown_lines = lines if full else lines[:longest]
    yield from (line for text in shown_lines for line in indent_lines(text))
    if len(shown_lines) < len(lines):
        yield f"  … {count_noun(len(lines) - len(shown_lines), 'more line')}"
