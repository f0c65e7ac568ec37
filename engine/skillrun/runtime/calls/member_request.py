"""A request to one member, and its result."""

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
    """A request to one member, before its turns, and the window of its model in tokens.

    With tools: `turns` is the maximum number of turns, and `calls` that of tool calls in each.
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
        """Return the tokens of the model's window that the messages leave free."""
        size = estimate_request_tokens(self.request.system, tuple(messages), self.request.schema)
        return self.window - size - estimate_tool_tokens(self.tools)


@dataclass(frozen=True)
class MemberResult:
    """The result of a request. `text` is the whole reply, also of a failed attempt; `dropped` is not in `data`.

    For a document with a record, `text` is the document; `record_problem` says what the record lacks, if anything.
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
    """The key or the model is wrong: this does not count as an attempt, and a resumed run sends the call again."""
    given_up: bool = False
    """The call was sent as often as allowed."""
    next_step: str = ""

    @property
    def ok(self) -> bool:
        return self.status == "success"

    @property
    def is_permanent(self) -> bool:
        """Whether an immediate retry is useless."""
        return self.refused or self.given_up
