"""Bringing several members' structured replies together: means, and the last word of each member."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

SUCCESS = "success"


def mean(records: Iterable[Any] | Mapping[str, Any]) -> dict[str, float]:
    """Arithmetic mean per numeric field, over the records that have a number there, rounded to two digits.

    Fields come in the order in which they are first seen; a single record is a list of one. True and False are no
    numbers.
    """
    values: dict[str, list[float]] = {}
    for record in [records] if isinstance(records, Mapping) else records:
        if isinstance(record, Mapping):
            for field, value in record.items():
                if isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value):
                    values.setdefault(field, []).append(value)
    return {field: round(math.fsum(each) / len(each), 2) for field, each in values.items()}


def latest(*steps: Any) -> list[Mapping[str, Any]]:
    """Each member's last reply over several steps, members in the order in which they are first seen.

    A member that was not asked again, or did not answer, keeps the earlier reply that has a text.
    Steps that did not run may be passed, and lists of replies.

    Source: the two-round deliberation of Owlex, in which the first round stands for whoever is missing in the second.
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
