"""A request to one member, and what its attempts came to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from skillrun.models.messages import Message, Request, ToolSpec
from skillrun.runtime.calls.reads import LineRange, merge_line_ranges
from skillrun.runtime.prompts.context import estimate_request_tokens
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
        return self.window - estimate_request_tokens(self.request.system, messages, self.request.schema, self.tools)


@dataclass(frozen=True)
class MemberReply:
    """What the attempts of a member came to: a reply, or the reason for the failure. `text` is the whole reply, even of
    a failed attempt.

    `dropped` lists the invalid values that were removed from `data`. If the reply is a document with a record, `text`
    is only the document, and `record_problem` says what is wrong with the record; empty if nothing is wrong.
    """

    member: str
    status: str
    text: str = ""
    data: Any = None
    record: Any = None
    record_problem: str = ""
    points: Sequence[Mapping[str, Any]] = ()
    """The points of the step, each with the member's answer if it has one."""
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

    def template_value(self) -> dict[str, Any]:
        """Return the value of the reply in templates."""
        reads = [lines.to_dict() for lines in merge_line_ranges(self.reads)]
        value: dict[str, Any] = {"member": self.member, "status": self.status, "reads": reads}
        if self.text:
            value["text"] = self.text
        if self.data is not None:
            value["data"] = self.data
        if self.record is not None:
            value["record"] = self.record
        if self.points:
            value["points"] = list(self.points)
        if self.reason:
            value |= {"reason": self.reason, "kind": self.kind or self.status}
        return value | {"dropped": [dict(vars(item)) for item in self.dropped]}
