"""Types of the results of steps: the values that later templates see."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NotRequired, TypedDict

Item = Mapping[str, object]


class Decision(TypedDict, total=False):
    """The result of `decide`; empty if the condition of no row is true."""

    value: object
    because: object


class BaseMemberReply(TypedDict):
    """The outcome for one member of a step: the reply, or the reason for the failure."""

    member: str
    status: str
    reads: list[dict[str, str | int]]
    text: NotRequired[str]
    data: NotRequired[object]
    record: NotRequired[Item]
    points: NotRequired[list[Item]]
    reason: NotRequired[str]
    kind: NotRequired[str]


class MemberReply(BaseMemberReply):
    """The outcome for one member of a step, with the values that were dropped from the reply."""

    dropped: list[dict[str, object]]


class RecordResult(TypedDict, total=False):
    """What a step returns besides its documents: records, and answers to points."""

    record: Item | list[Item]
    points: list[Item]


class AgentResult(RecordResult):
    """The result of `agent`: the reply of one member, or the combined replies of several members."""

    text: str
    replies: list[MemberReply]
    degraded: bool
    dropped: NotRequired[list[Item]]
    data: NotRequired[object]
    path: NotRequired[str | list[str]]


class EachResult(TypedDict):
    """The result of `each`: the completed items with the results of their steps, and the failed items with reasons."""

    done: list[Item]
    failed: list[Item]
    degraded: bool


class FindResult(TypedDict):
    """The result of `find`: the items, grouped by the status of their paths, and the requested lines."""

    found: list[object]
    missing: list[object]
    withheld: list[object]
    texts: NotRequired[list[dict[str, str]]]
    left_out: NotRequired[list[str]]


class Failure(TypedDict):
    """The value of the name `failure` in the `otherwise` of a failed step."""

    kind: str
    reason: str
    text: NotRequired[str]
    replies: list[MemberReply]


@dataclass(frozen=True)
class PartialResult:
    """A result that lacks parts, and the reason for each missing part. The step's breaker decides whether the step is
    attempted again or continues with this result."""

    result: Any
    missing: Sequence[str]
