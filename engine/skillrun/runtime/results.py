"""What steps give to the templates behind them, by verb. Values only: who makes them is in `steps/`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NotRequired, TypedDict

Item = Mapping[str, object]


class Decision(TypedDict, total=False):
    """Of `decide`; empty where no row holds."""

    value: object
    because: object


class BaseMemberReply(TypedDict):
    """What became of one member of a step: its reply, or why there is none."""

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
    """The same, with what was left out of it."""

    dropped: list[dict[str, object]]


class RecordResult(TypedDict, total=False):
    """What the members of a step put on record beside their documents."""

    record: Item | list[Item]
    points: list[Item]


class AgentResult(RecordResult):
    """Of `agent`: of one member its own, of several what they said together."""

    text: str
    replies: list[MemberReply]
    degraded: bool
    dropped: NotRequired[list[Item]]
    data: NotRequired[object]
    path: NotRequired[str | list[str]]


class EachResult(TypedDict):
    """Of `each`: the items that are done with what their steps gave, and those that failed with the reason."""

    done: list[Item]
    failed: list[Item]
    degraded: bool


class FindResult(TypedDict):
    """Of `find`: the items by what there is at their paths, and the lines that were asked for."""

    found: list[object]
    missing: list[object]
    withheld: list[object]
    texts: NotRequired[list[dict[str, str]]]
    left_out: NotRequired[list[str]]


class Failure(TypedDict):
    """`failure`, as what stands in for a failed step sees it."""

    kind: str
    reason: str
    text: NotRequired[str]
    replies: list[MemberReply]
