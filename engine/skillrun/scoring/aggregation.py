"""Aggregates the replies of several members: means, and the latest reply of each member."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

SUCCESS = "success"


def mean(records: Iterable[Any] | Mapping[str, Any]) -> dict[str, float]:
    """Return the arithmetic mean of each numeric field, rounded to two decimals.

    A record in which the field is not a number does not count for the field; booleans are not numbers. Fields are in
    order of first appearance. A single record counts as a list of one.
    """
    values: dict[str, list[float]] = {}
    for record in [records] if isinstance(records, Mapping) else records:
        if isinstance(record, Mapping):
            for field, value in record.items():
                if isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value):
                    values.setdefault(field, []).append(value)
    return {field: round(math.fsum(each) / len(each), 2) for field, each in values.items()}


def latest(*steps: Any) -> list[Mapping[str, Any]]:
    """Return the last reply of each member in several steps. Members are in order of first appearance.

    A later reply that failed does not replace a successful one. Each argument is a step or a list of replies; a step
    that did not run counts as one without replies.

    Source: the two rounds of deliberation in Owlex. If a member is missing in the second round, Owlex uses the member's
    reply from the first.
    """
    last: dict[str, Mapping[str, Any]] = {}
    for step in steps:
        replies = step.get("replies") if isinstance(step, Mapping) else step if isinstance(step, list) else ()
        for reply in replies or ():
            if not isinstance(reply, Mapping) or "member" not in reply:
                continue
            earlier = last.get(reply["member"])
            if earlier is None or _is_answer(reply) or not _is_answer(earlier):
                last[reply["member"]] = reply
    return list(last.values())


def _is_answer(reply: Mapping[str, Any]) -> bool:
    return bool(reply.get("text")) and reply.get("status", SUCCESS) == SUCCESS
