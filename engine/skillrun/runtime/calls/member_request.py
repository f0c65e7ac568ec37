"""A request to one member, and what came of it."""

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
    record_request: RecordRequest | None = None

    def room(self, messages: Sequence[Message]) -> int:
        """The tokens that the messages leave of the model's window."""
        size = estimate_request_tokens(self.request.system, tuple(messages), self.request.schema)
        return self.window - size - estimate_tool_tokens(self.tools)


@dataclass(frozen=True)
class MemberResult:
    """What came of it. `text` is the whole reply, kept also where the attempt failed; `dropped` is not in `data`.

    Of a document with a record it is the document; `lacking` says what is missing of the record, if anything.
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
    def is_permanent(self) -> bool:
        """Asking again at once is no use."""
        return self.refused or self.given_up
