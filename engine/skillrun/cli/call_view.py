"""How a call is told: its prompt by parts, its turns with what tools answered, its reply; as lines and as plain data.

What a model, a file or a person has said is indented, line by line; only the program's own lines begin at the edge.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from skillrun.cli.formatting import counted, duration, money, table
from skillrun.models.messages import Block, Request, Usage
from skillrun.scoring.compaction import estimate_tokens
from skillrun.store.conversations import Conversation, ToolUse, Turn
from skillrun.syntax.diagnostics import hanging, printable

GLANCE: Final = 60  # characters of a part that are shown of it at a glance
MOST_LINES: Final = 12  # of a tool's result, where not all is wanted
HEADER: Final = ("call", "model", "turns", "tokens in", "tokens out", "price", "")
EARLIER: Final = {"assistant": "earlier reply"}
"""What a message without parts is called: of a member that goes on with its conversation."""
STOPS: Final = {"length": "cut off at the limit of its length", "refusal": "a refusal", "other": "stopped, unknown why"}

# a request


def blocks_of(request: Request) -> list[tuple[str, list[tuple[str, Block]]]]:
    """The blocks of a request below the title that each message has; a block by its part's name, or by that title."""
    titled = [("system", request.system), *((message.role, message.blocks) for message in request.messages)]
    return [(title, [(block.part or title, block) for block in blocks]) for title, blocks in titled]


def prompt_lines(request: Request) -> Iterator[str]:
    """All of what is sent, below a title for each message."""
    asked = [(), *(message.calls for message in request.messages)]
    for (title, blocks), calls in zip(blocks_of(request), asked, strict=True):
        yield f"──── {title} ────"
        for _, block in blocks:
            yield block.text
            yield "──── cached up to here ────" if block.cache else ""
        for call in calls:
            yield f"──── calls {call.name} {json.dumps(call.arguments, ensure_ascii=False)} ────"
    if request.tools:
        yield f"──── tools: {', '.join(tool.name for tool in request.tools)} ────"
    if request.schema is not None:
        yield "──── shape of the reply ────"
        yield json.dumps(request.schema, indent=2, ensure_ascii=False)


def parts_of(request: Request) -> list[dict[str, Any]]:
    """The parts of a prompt, each with its tokens, its text and what was left out of it; tools and shape come last."""
    parts = [
        {
            "part": EARLIER.get(name, name),
            "tokens": estimate_tokens(block.text),
            "text": block.text,
            "left_out": list(block.left_out),
        }
        for _, blocks in blocks_of(request)
        for name, block in blocks
    ]
    described = [("tools", [dict(vars(tool)) for tool in request.tools]), ("shape of the reply", request.schema)]
    for name, value in described:
        if value:
            text = json.dumps(value, indent=2, ensure_ascii=False)
            parts.append({"part": name, "tokens": estimate_tokens(str(value)), "text": text, "left_out": []})
    return parts


def parts_table(parts: Sequence[dict[str, Any]]) -> list[str]:
    """Each part with its tokens and how it begins; below it what was left out."""
    parts = [part for part in parts if part["text"]]  # of criteria, where a phase has none, there is an empty one
    rows = [[part["part"], f"{part['tokens']:,}", _glance(part["text"])] for part in parts]
    header, *lines = table(("part", "tokens", "begins"), rows, right=(1,))
    told = [header]
    for line, part in zip(lines, parts, strict=True):
        told += [line, *(f"  left out: {text}" for text in part["left_out"])]
    return told


def _glance(text: str) -> str:
    line = " ".join(printable(text[: 4 * GLANCE]).split())
    return line if len(line) <= GLANCE else f"{line[: GLANCE - 1]}…"


# a conversation


def status_of(turn: Turn, *, is_held: bool) -> str:
    """What came of a turn, in words."""
    if turn.reply is not None:
        return STOPS.get(turn.reply.stop, "answered")
    if turn.failed:
        return f"failed: {turn.failed}"
    last = f" (the last attempt: {turn.tried[-1]})" if turn.tried else ""
    return f"{'no answer so far' if is_held else 'no answer came'}{last}"


def spent_by(conversation: Conversation) -> tuple[Usage, float | None]:
    """What its replies have used, and their price; None where one is unknown."""
    replies = [turn.reply for turn in conversation.turns if turn.reply is not None]
    prices = [reply.price for reply in replies]
    known = None if None in prices else sum(price for price in prices if price is not None)
    return sum((reply.usage for reply in replies), Usage()), known


def name_of(conversation: Conversation) -> str:
    """Its place in its phase, with the attempt and the version where there are several."""
    several = conversation.versions > 1
    version = f", version {conversation.version} of {conversation.versions}" if several else ""
    return f"{place_of(conversation)}{version}"


def place_of(conversation: Conversation) -> str:
    """Its place in its phase, with the attempt where there are several."""
    attempt = f", attempt {conversation.attempt}" if conversation.attempt > 1 else ""
    return f"{conversation.path.partition('/')[2]}{attempt}"


def calls_table(conversations: Iterable[Conversation], *, is_held: bool) -> list[str]:
    """A line for each conversation."""
    rows = []
    for each in conversations:
        usage, price = spent_by(each)
        again = ", asked again" if any(turn.asks_again for turn in each.turns) else ""
        status = f"{status_of(each.last, is_held=is_held)}{again}"
        flow = (f"{usage.input:,}", f"{usage.output:,}", money(price))
        rows.append([name_of(each), each.first.request.model, str(len(each.turns)), *flow, _glance(status)])
    return table(HEADER, rows, right=(2, 3, 4, 5))


def conversation_data(conversation: Conversation, dropped: str = "") -> dict[str, Any]:
    """The whole of it as plain data; `dropped` says what was left out of the reply."""
    usage, price = spent_by(conversation)
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
        "parts": parts_of(request),
        "turns": [_turn_data(turn) for turn in conversation.turns],
        "status": conversation.last.status,
        "reply": reply.text if reply is not None else None,
        "dropped": dropped,
        "usage": usage.to_dict(),
        "price": price,
    }


def _turn_data(turn: Turn) -> dict[str, Any]:
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
    """The whole of it for a person to read; what is long of the prompt and of tools' results only with `full`."""
    request = conversation.first.request
    place = name_of(conversation)
    in_round = f" · round {conversation.first.round}" if conversation.first.round != "1" else ""
    yield f"{conversation.phase}: {place}{in_round} · {request.model}"
    yield f"{conversation.last.address} · {status_of(conversation.last, is_held=is_held)}"
    parts = parts_of(request)
    total = sum(part["tokens"] for part in parts)
    yield ""
    yield f"prompt: about {total:,} tokens, at most {request.max_tokens:,} of reply"
    yield from (f"  {line}" for line in parts_table(parts))
    counted_in = conversation.first.reply.usage.input if conversation.first.reply is not None else 0
    if counted_in not in (0, total):  # 0 is what an endpoint has that sends no usage
        yield f"  estimated from the texts; the model counted {counted_in:,}, as shown below"
    if full:
        for part in filter(lambda part: part["text"], parts):
            yield f"{part['part']}:"
            yield from indented(part["text"])
    for turn in conversation.turns:
        yield ""
        yield from _turn_lines(turn, several=len(conversation.turns) > 1, full=full, is_held=is_held)
    if dropped:
        yield f"warning: {hanging(dropped)}"
    if len(conversation.turns) > 1:
        yield ""
        yield f"all turns: {_used(*spent_by(conversation))}"


def _turn_lines(turn: Turn, *, several: bool, full: bool, is_held: bool) -> Iterator[str]:
    if turn.asks_again:
        yield "asked again:"
        yield from indented(turn.asks_again)
    title = f"turn {turn.number}: " if several else ""
    for text in turn.tried:
        yield f"{title}an attempt got no reply: {_glance(text)}"
    reply = turn.reply
    if reply is None:
        yield f"{title}{status_of(turn, is_held=is_held)}"
        return
    times = f", the last of {turn.times} replies to this prompt" if turn.times > 1 else ""
    seconds = f", {duration(reply.seconds)}" if reply.seconds else ""
    yield f"{title}{_used(reply.usage, reply.price)}{seconds}{times}"
    if reply.stop in STOPS:
        yield f"{title}{STOPS[reply.stop]}"
    if reply.text or not turn.tools:
        yield "reply:" if reply.text.strip() else "reply: empty"
        yield from indented(reply.text) if reply.text.strip() else ()
    for use in turn.tools:
        yield from _tool_lines(use, full=full)


def _tool_lines(use: ToolUse, *, full: bool) -> Iterator[str]:
    arguments = json.dumps(use.call.arguments, ensure_ascii=False)
    yield f"tool {_glance(use.call.name)}: {arguments if full else _glance(arguments)}"
    if use.result is None:
        yield "  (no result on record)"
        return
    lines = list(indented(use.result))
    yield from lines if full else lines[:MOST_LINES]
    if not full and len(lines) > MOST_LINES:
        yield f"  … {counted(len(lines) - MOST_LINES, 'more line')}"


def _used(usage: Usage, price: float | None) -> str:
    cached = f" ({round(100 * usage.cache_read / usage.input)} % cached)" if usage.input and usage.cache_read else ""
    return f"{usage.input:,} tokens in{cached}, {usage.output:,} out, {money(price)}"


def indented(text: str) -> Iterator[str]:
    """The lines of a text that somebody else wrote."""
    return (f"  {line}".rstrip() for line in printable(text).strip("\n").split("\n"))
