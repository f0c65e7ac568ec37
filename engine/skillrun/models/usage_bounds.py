"""Limits the usage that a provider reports to plausible values, because budgets and prices depend on the usage."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from skillrun.models.messages import Block, Reply, Request, Usage
from skillrun.scoring.compaction import estimate_tokens

if TYPE_CHECKING:
    from pydantic_ai.usage import RequestUsage

OVERHEAD_TOKENS: Final = 20_000
"""How many tokens a provider may add, such as instructions about tools and schemas, or hidden thinking."""
MAX_RATIO: Final = 10


def clamp_usage(reported: RequestUsage, request: Request, reply: Reply, max_tokens: int) -> tuple[Usage, str]:
    """Return the usage to count, and a description of the implausible values that the provider reported, which may be
    empty.

    A token has at least one byte, so the bytes of the request limit the input tokens; a margin is added. The output is
    limited to a multiple of `max_tokens`, because `max_tokens` may not include thinking. If a value is missing, or is
    less than a tenth of our estimate, the estimate is used.
    """
    request_texts = _request_texts(request)
    reply_texts = [reply.text, *(json.dumps(call.arguments, default=str) for call in reply.calls)]
    highest = 2 * sum(len(text.encode("utf-8", "replace")) for text in request_texts) + OVERHEAD_TOKENS
    implausible: list[str] = []
    most_output = MAX_RATIO * max_tokens + OVERHEAD_TOKENS
    used = Usage(
        _clamp_total("input", reported.input_tokens, request_texts, highest, implausible),
        _clamp_total("output", reported.output_tokens, reply_texts, most_output, implausible),
    )
    read = _clamp_cache_tokens("cache_read", reported.cache_read_tokens, used.input, implausible)
    write = _clamp_cache_tokens("cache_write", reported.cache_write_tokens, used.input - read, implausible)
    return Usage(used.input, used.output, read, write), ", ".join(implausible)


def _clamp_total(what: str, reported: Any, texts: list[str], highest: int, implausible: list[str]) -> int:
    number = _as_integer(reported)
    if number is not None and number > highest:
        implausible.append(f"{what}: {_format_tokens(number)}")
        return highest
    # The estimate is expensive. It is needed only if the number is small in relation to the length of the text.
    if number is not None and number > 0 and number * 2 * MAX_RATIO >= sum(map(len, texts)):
        return number
    estimate = sum(map(estimate_tokens, texts))
    if number is None or number < estimate / MAX_RATIO:
        implausible.append(f"{what}: {_format_tokens(number)}")
        return estimate
    return number


def _clamp_cache_tokens(what: str, reported: Any, whole: int, implausible: list[str]) -> int:
    number = _as_integer(reported)
    if number is None or not 0 <= number <= whole:
        implausible.append(f"{what}: {_format_tokens(number)}")
        return 0 if number is None else max(0, min(number, whole))
    return number


def _format_tokens(number: int | None) -> str:
    return "nothing" if number is None else f"{max(-(10**18), min(number, 10**18)):.3g} tokens"


def _as_integer(reported: Any) -> int | None:
    return reported if isinstance(reported, int) and not isinstance(reported, bool) else None


def _request_texts(request: Request) -> list[str]:
    blocks: list[Block] = [*request.system, *(block for message in request.messages for block in message.blocks)]
    plain = [vars(tool) for tool in request.tools], request.schema
    calls = [call.to_dict() for message in request.messages for call in message.calls]
    return [*(block.text for block in blocks), json.dumps([*plain, calls], default=str)]
