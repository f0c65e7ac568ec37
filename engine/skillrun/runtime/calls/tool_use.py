"""The tools that a member uses on the way to its reply: what each answers, once, and as much of it as has room."""

from __future__ import annotations

from skillrun.definitions.verbs import LOOKUP
from skillrun.events import ToolUsed
from skillrun.models.messages import Block, Message, ToolCall
from skillrun.runtime.calls.lookup import look_up
from skillrun.runtime.calls.member_request import MemberRequest
from skillrun.runtime.calls.reads import Lines, lines_shown
from skillrun.runtime.calls.tools import repository_of
from skillrun.runtime.prompts.context import LEAST_REPLY
from skillrun.runtime.run import PhaseRun
from skillrun.scoring.compaction import clip, estimate_tokens
from skillrun.syntax.sanitizing import clean
from skillrun.templates.functions import untrusted
from skillrun.types.schemas import quoted


async def results_of(
    phase: PhaseRun,
    asked: MemberRequest,
    address: str,
    messages: list[Message],
    calls: tuple[ToolCall, ...],
    reads: list[Lines],
) -> list[tuple[str, str]]:
    """What the tools answer, each in its part of the room that is left for it and those that follow."""
    left = asked.room([*messages, *(Message("tool", (Block(untrusted("")),)) for _ in calls)]) - LEAST_REPLY
    results = []
    for number, tool in enumerate(calls):
        share = max(0, left) // max(1, min(len(calls), asked.calls) - number)
        text = await _use(phase, asked, address, number, tool, share, reads)
        left -= estimate_tokens(text)
        results.append((tool.id, text))
    return results


async def _use(
    phase: PhaseRun, asked: MemberRequest, address: str, number: int, tool: ToolCall, room: int, reads: list[Lines]
) -> str:
    """What a tool answers in so many tokens, or why it was not used; one that has run before is not run again."""
    offered = [spec.name for spec in asked.tools]
    if number >= asked.calls:
        return f"error: at most {asked.calls} calls of tools are carried out in one turn, and this one was not"
    if tool.name not in offered:
        return f"error: you have no tool {quoted(tool.name)}; there are {', '.join(offered)}"
    run = phase.run
    where = f"{address}/{tool.id}"
    fingerprint = tool.fingerprint()
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
    if (lines := lines_shown(tool, result)) is not None:
        reads.append(lines)
    return result


def messages_of(asked: MemberRequest, messages: list[Message], results: list[tuple[str, str]]) -> list[Message]:
    """The results of tools as material, cut to equal parts of what is left where they leave no room for a reply."""

    def fenced(texts: list[str]) -> list[Message]:
        pairs = zip(results, texts, strict=True)
        return [Message("tool", (Block(untrusted(text)),), call_id=known) for (known, _), text in pairs]

    texts = [text for _, text in results]
    whole = fenced(texts)
    if asked.room([*messages, *whole]) >= LEAST_REPLY:
        return whole
    left = asked.room([*messages, *fenced([""] * len(texts))]) - LEAST_REPLY
    return fenced([clip(text, max(0, left) // len(texts)) for text in texts])
