"""A request to one member, its result, and how a structured reply is parsed."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from skillrun.events import Pruned
from skillrun.models.messages import PERMANENT_ERRORS, Message, Reply, Request, ToolCall, ToolSpec
from skillrun.runtime.prompts.context import estimate_request_tokens
from skillrun.runtime.prompts.step_records import RecordRequest
from skillrun.runtime.run import PhaseRun
from skillrun.structured_output.salvaging import find_list_field, salvage_items
from skillrun.structured_output.values import parse_reply
from skillrun.types.schemas import DroppedValue, Shape, ShapeError

_NUMBERED: Final = re.compile(r"^ *(\d+)\t", re.MULTILINE)


@dataclass(frozen=True, order=True)
class LineRange:
    """Consecutive lines of a file: the number of the first line, counted from 1, and how many lines there are."""

    path: str
    first: int
    count: int

    @property
    def end(self) -> int:
        return self.first + self.count

    def to_dict(self) -> dict[str, str | int]:
        return {"path": self.path, "from": self.first, "lines": self.count}


def lines_from_tool(tool: ToolCall, result: str) -> LineRange | None:
    """Return the lines that a tool call has shown; None if the call failed or showed no file."""
    path = tool.arguments.get("path")
    if tool.name != "Read" or not isinstance(path, str) or result.startswith("error:"):
        return None
    numbers = [int(match[1][:9]) for match in _NUMBERED.finditer(result)]
    return LineRange(path.removeprefix("./"), numbers[0] if numbers else 1, len(numbers))


def merge_line_ranges(reads: Iterable[LineRange]) -> list[LineRange]:
    """Merge overlapping and adjacent ranges of each file. Files keep the order in which they were first read."""
    everything = list(reads)
    order = {path: number for number, path in enumerate(dict.fromkeys(lines.path for lines in everything))}
    merged: list[LineRange] = []
    for lines in sorted(everything, key=lambda lines: (order[lines.path], lines)):
        last = merged[-1] if merged else None
        if last is not None and last.path == lines.path and lines.first <= last.end:
            merged[-1] = LineRange(lines.path, last.first, max(last.end, lines.end) - last.first)
        else:
            merged.append(lines)
    return merged


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
    skill_folders: Mapping[str, Path] = field(default_factory=dict)
    """The folders of the member's Agent Skills, which its tools can read, by name."""
    repository_tools: Collection[str] = ()
    """The tools that can read the repository, because the role lists them."""
    max_output: int = 0
    """The model's `max_output`. The request allows less if the window has less room."""

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
    def would_recur(self) -> bool:
        """Whether the same request would fail in the same way: it is invalid, or the reply reached its limit."""
        return self.status == "truncated" or self.kind in PERMANENT_ERRORS

    @property
    def is_permanent(self) -> bool:
        """Whether an immediate retry is useless."""
        return self.refused or self.given_up or self.would_recur

    def template_value(self) -> dict[str, Any]:
        """Return the value of the reply in templates."""
        reads = [lines.to_dict() for lines in merge_line_ranges(self.reads)]
        value: dict[str, Any] = {"member": self.member, "status": self.status, "reads": reads}
        optional = {"text": self.text or None, "data": self.data, "record": self.record}
        value |= {key: part for key, part in optional.items() if part is not None}
        if self.points:
            value["points"] = list(self.points)
        if self.reason:
            value |= {"reason": self.reason, "kind": self.kind or self.status}
        return value | {"dropped": [dict(vars(item)) for item in self.dropped]}


CUT_OFF: Final = "the reply was cut off at the length limit"
EARLY: Final = 0.9  # a reply that is shorter than this share of its limit may have been cut off by the server's limit
GATHER: Final = "gather"  # a value of `invalid`
MOST_TOLD: Final = 3  # dropped values named in a warning; the event lists all of them


def parse_value(
    member_request: MemberRequest, reply: Reply, *, repaired: bool
) -> tuple[Any, list[ShapeError], tuple[DroppedValue, ...]]:
    """Return the structured value of a reply, its errors, and the dropped values; all empty for free text.

    With `invalid: drop`, invalid values are dropped only after the member was asked to repair the reply.
    """
    if member_request.shape is None:
        return None, [], ()
    dropped: list[DroppedValue] = []
    if member_request.invalid == GATHER and find_list_field(member_request.shape.schema):
        value, dropped, errors = salvage_items(reply.text, member_request.shape.schema)
        return value, errors, tuple(dropped)
    value, errors = parse_reply(reply.text, member_request.shape.schema)
    if errors and member_request.invalid and value is not None:
        value, dropped = member_request.shape.trim_lists(value)
        errors = member_request.shape.check_reply(value)
    if errors and member_request.invalid and repaired and value is not None:
        value, pruned = member_request.shape.drop_invalid(value)
        dropped += pruned
        errors = member_request.shape.check_reply(value)
    return value, errors, tuple(dropped)


def salvage_truncated_reply(member_request: MemberRequest, reply: Reply) -> MemberReply | None:
    """Return a result with the complete items of a truncated reply; None unless the step sets `invalid: gather` and an
    item is complete."""
    if member_request.shape is None or member_request.invalid != GATHER:
        return None
    value, _, dropped = parse_value(member_request, reply, repaired=True)
    if value is None or not any(value.values()):
        return None
    cut = DroppedValue("", CUT_OFF, "")
    return MemberReply(member_request.member, "success", reply.text, value, dropped=(*dropped, cut))


def explain_truncation(member_request: MemberRequest, request: Request, reply: Reply) -> tuple[str, str]:
    """Return why a reply was cut off, with the limit, its value and its key, and the next step of the user."""
    limit, key = request.max_tokens, f"of {request.model} in config/models.yaml"
    if limit < member_request.max_output:
        reason = f"{CUT_OFF} of {limit:,} tokens, the room that the prompt leaves in the window of "
        reason += f"{member_request.window:,} tokens (`window` {key})"
        next_step = f"Correct `window` {key}, use a model with a larger window, or shorten the prompt."
    else:
        reason = f"{CUT_OFF} of {limit:,} tokens (`max_output` {key})"
        next_step = f"Raise `max_output` {key}, or ask for a shorter reply."
    if 0 < reply.usage.output < limit * EARLY:
        reason += f"; it has about {reply.usage.output:,} tokens, so the server may have a lower limit"
    return reason, next_step


def report_pruned_items(phase: PhaseRun, address: str, member: str, dropped: tuple[DroppedValue, ...]) -> None:
    """Report the values dropped from a member's reply: emit an event, and record a warning and their number."""
    if not dropped:
        return
    places = "; ".join(f"{item.path} ({item.reason})" for item in dropped[:MOST_TOLD])
    more = f"; and {len(dropped) - MOST_TOLD} more" if len(dropped) > MOST_TOLD else ""
    text = f"parts of the reply of {member} were invalid; dropped: {places}{more}"
    if address not in phase.record.dropped_counts:
        phase.run.emit(Pruned(address, phase.name, member, tuple(dict(vars(item)) for item in dropped), text))
        phase.record.warnings.append(text)
    phase.record.dropped_counts[address] = len(dropped)
