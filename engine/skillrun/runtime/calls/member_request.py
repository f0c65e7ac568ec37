"""A request to one member, and what came of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from skillrun.models.messages import Message, Request, ToolSpec
from skillrun.runtime.calls.reads import Lines
from skillrun.runtime.prompts.context import size_of, size_of_tools
from skillrun.runtime.prompts.step_records import Attachment
from skillrun.types.schemas import Dropped, Shape


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
    attachment: Attachment | None = None

    def room(self, messages: Sequence[Message]) -> int:
        """The tokens that the messages leave of the model's window."""
        size = size_of(self.request.system, tuple(messages), self.request.schema)
        return self.window - size - size_of_tools(self.tools)


@dataclass(frozen=True)
class MemberAnswer:
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
