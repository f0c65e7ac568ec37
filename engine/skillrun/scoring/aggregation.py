"""Aggregates the replies of several members: means, and the latest reply of each member."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

SUCCESS = "success"


def mean(records: Iterable[Any] | Mapping[str, Any]) -> dict[str, float]:
    """Return the arithmetic mean per field, over the records that have a number there, rounded to two decimals.

    Fields are in order of first appearance; a single record counts as a list of one. Booleans are not numbers.
    """
    values: dict[str, list[float]] = {}
    for record in [records] if isinstance(records, Mapping) else records:
        if isinstance(record, Mapping):
            for field, value in record.items():
                if isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value):
                    values.setdefault(field, []).append(value)
    return {field: round(math.fsum(each) / len(each), 2) for field, each in values.items()}


def latest(*steps: Any) -> list[Mapping[str, Any]]:
    """Return each member's last reply over several steps, members in order of first appearance.

    A member without a successful later reply keeps its earlier one.
    Accepts steps, including ones that did not run, and lists of replies.

    Source: the two-round deliberation of Owlex, where first-round replies are used for members missing in the second.
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
