"""Runs the tool calls of a member. Each call runs once, and its result is cut to fit the model's window."""

from __future__ import annotations

from typing import Final

from skillrun.definitions.verbs import LOOKUP
from skillrun.events import Notice, ToolUsed
from skillrun.models.messages import Block, Message, ToolCall
from skillrun.replay import TOOL_CALLS, Body, RefusedInDryRun
from skillrun.runtime.calls.lookup import look_up
from skillrun.runtime.calls.member_request import MemberRequest
from skillrun.runtime.calls.reads import LineRange, lines_from_tool
from skillrun.runtime.calls.tools import build_repository
from skillrun.runtime.prompts.context import MIN_REPLY_TOKENS
from skillrun.runtime.run import PhaseRun
from skillrun.scoring.compaction import clip, estimate_tokens
from skillrun.syntax.diagnostics import UsageError
from skillrun.syntax.sanitizing import sanitize
from skillrun.templates.functions import wrap_untrusted_text
from skillrun.types.schemas import quote_value

INTERRUPTED: Final = "error: the run ended during this tool call; it may have taken effect, and is not repeated"


async def run_tools(
    phase: PhaseRun,
    member_request: MemberRequest,
    address: str,
    messages: list[Message],
    calls: tuple[ToolCall, ...],
    reads: list[LineRange],
) -> list[tuple[str, str]]:
    """Run the tool calls, and return the id and the result of each. The results share the room left in the window."""
    left = (
        member_request.room([*messages, *(Message("tool", (Block(wrap_untrusted_text("")),)) for _ in calls)])
        - MIN_REPLY_TOKENS
    )
    results = []
    for number, tool in enumerate(calls):
        share = max(0, left) // max(1, min(len(calls), member_request.calls) - number)
        text = await _run_tool(phase, member_request, address, number, tool, share, reads)
        left -= estimate_tokens(text)
        results.append((tool.id, text))
    return results


async def _run_tool(
    phase: PhaseRun,
    member_request: MemberRequest,
    address: str,
    number: int,
    tool: ToolCall,
    room: int,
    reads: list[LineRange],
) -> str:
    """Return a tool's result of at most `room` tokens, or an error text. A journaled tool call is not run again."""
    offered = [spec.name for spec in member_request.tools]
    if number >= member_request.calls:
        return f"error: at most {member_request.calls} tool calls run in one turn; this one was not run"
    if tool.name not in offered:
        return f"error: you have no tool {quote_value(tool.name)}; available tools: {', '.join(offered)}"
    run = phase.run
    tool_address = f"{address}/{tool.id}"

    from skillrun.repository.repository import load_tool

    effect = TOOL_CALLS if tool.name == LOOKUP else TOOL_CALLS._replace(name=load_tool(tool.name).effect)
    body: Body = {"tool": tool.name, "arguments": tool.arguments}

    async def use() -> Body:
        if tool.name == LOOKUP:
            text = look_up(phase, tool.arguments, room)
        else:
            try:
                text = await build_repository(phase).run(tool.name, tool.arguments, room)
            except UsageError as error:  # the tool of a package failed
                run.emit(Notice(f"warning: {error}"))
                text = f"error: {error.message}"
        return {**body, "result": sanitize(text)}

    unfinished = {**body, "result": INTERRUPTED} if effect.name == "executes" else None
    try:
        result = await run.replay.once(effect, tool_address, tool.fingerprint(), use, unfinished=unfinished)
    except RefusedInDryRun as error:
        return f"error: {error.message}"
    run.emit(ToolUsed(tool_address, phase.name, tool.name, tool.arguments, replayed=result.is_replayed))
    text = str(result.body.get("result", ""))
    if (lines := lines_from_tool(tool, text)) is not None:
        reads.append(lines)
    return text


def tool_messages(
    member_request: MemberRequest, messages: list[Message], results: list[tuple[str, str]]
) -> list[Message]:
    """Return messages with the tool results. If they leave no room for a reply, cut each result to an equal share."""

    def build_messages(texts: list[str]) -> list[Message]:
        pairs = zip(results, texts, strict=True)
        return [Message("tool", (Block(wrap_untrusted_text(text)),), call_id=known) for (known, _), text in pairs]

    texts = [text for _, text in results]
    whole = build_messages(texts)
    if member_request.room([*messages, *whole]) >= MIN_REPLY_TOKENS:
        return whole
    left = member_request.room([*messages, *build_messages([""] * len(texts))]) - MIN_REPLY_TOKENS
    return build_messages([clip(text, max(0, left) // len(texts)) for text in texts])
