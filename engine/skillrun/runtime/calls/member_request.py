"""A request to one member, and the result of the request."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from skillrun.models.messages import Message, Request, ToolSpec
from skillrun.runtime.calls.reads import LineRange
from skillrun.runtime.prompts.context import estimate_request_tokens, estimate_tool_tokens
from skillrun.runtime.prompts.step_records import RecordRequest
from skillrun.types.schemas import DroppedValue, Shape


@dataclass(frozen=True)
class MemberRequest:
    """A request to one member. `window` is the context window of the member's model, in tokens.

    If the member has tools, it may take at most `turns` turns, with at most `calls` tool calls in each turn.
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
    record_request: RecordRequest | None = None

    def room(self, messages: Sequence[Message]) -> int:
        """Return how many tokens of the model's window the messages, the schema and the tools leave free."""
        size = estimate_request_tokens(self.request.system, tuple(messages), self.request.schema)
        return self.window - size - estimate_tool_tokens(self.tools)


@dataclass(frozen=True)
class MemberResult:
    """The result of a request. `text` is the whole reply, even of a failed attempt.

    `dropped` lists the invalid values that were removed from `data`. If the reply is a document with a record, `text`
    is only the document, and `record_problem` says what is wrong with the record; empty if nothing is wrong.
    """

    status: str
    text: str = ""
    data: Any = None
    record: Any = None
    record_problem: str = ""
    dropped: tuple[DroppedValue, ...] = ()
    reason: str = ""
    reads: tuple[LineRange, ...] = ()
    messages: tuple[Message, ...] = field(default=(), repr=False)
    kind: str = ""
    """The kind of the failed call; empty if the call did not fail."""
    refused: bool = False
    """Whether the provider refused the key or the model. A refusal does not count as an attempt, and a resumed run
    sends the call again."""
    given_up: bool = False
    """Whether the call was sent as often as allowed, without success."""
    next_step: str = ""

    @property
    def ok(self) -> bool:
        return self.status == "success"

    @property
    def is_permanent(self) -> bool:
        """Whether an immediate retry is useless."""
        return self.refused or self.given_up
