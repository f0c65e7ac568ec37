"""The results of steps by verb, as later templates see them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NotRequired, TypedDict

Item = Mapping[str, object]


class Decision(TypedDict, total=False):
    """Result of `decide`; empty if no row holds."""

    value: object
    because: object


class BaseMemberReply(TypedDict):
    """The outcome for one member of a step: its reply, or the reason for its failure."""

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
    """The outcome for one member, with the values dropped from its reply."""

    dropped: list[dict[str, object]]


class RecordResult(TypedDict, total=False):
    """The records and the answers to points that come with the documents of a step."""

    record: Item | list[Item]
    points: list[Item]


class AgentResult(RecordResult):
    """Result of `agent`: the reply of one member, or the combined replies of several."""

    text: str
    replies: list[MemberReply]
    degraded: bool
    dropped: NotRequired[list[Item]]
    data: NotRequired[object]
    path: NotRequired[str | list[str]]


class EachResult(TypedDict):
    """Result of `each`: the completed items with their step results, and the failed items with the reason."""

    done: list[Item]
    failed: list[Item]
    degraded: bool


class FindResult(TypedDict):
    """Result of `find`: the items grouped by the status of their path, and the requested lines."""

    found: list[object]
    missing: list[object]
    withheld: list[object]
    texts: NotRequired[list[dict[str, str]]]
    left_out: NotRequired[list[str]]


class Failure(TypedDict):
    """The value of `failure` in the `otherwise` of a failed step."""

    kind: str
    reason: str
    text: NotRequired[str]
    replies: list[MemberReply]


@dataclass(frozen=True)
class PartialResult:
    """A result, and the reason for each missing part; the step's breaker decides whether the result counts."""

    result: Any
    missing: Sequence[str]
