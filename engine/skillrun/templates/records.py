"""The types of the records that functions and steps return, such as a reply, a question or a hit in a text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from skillrun.types.types import ANY, BOOLEAN, NUMBER, TEXT, Type, list_of, map_of, record

STATUSES: Final = ("success", "error", "timeout", "truncated", "refused", "parse_error", "empty")
FAILURES: Final = (
    *STATUSES[1:], "auth", "not_found", "rate_limit", "overloaded", "connection", "invalid_request", "too_long",
    "other", "failed",
)  # fmt: skip
"""The kinds of failures: first those of replies, then those of calls, then any other."""
_STATUS: Final = TEXT._replace(values=STATUSES)
_KIND: Final = TEXT._replace(values=FAILURES)
READ_LINES: Final = record({"path": TEXT, "from": NUMBER, "lines": NUMBER}, "the lines read")
_DROPPED: Final = {"path": TEXT, "reason": TEXT, "text": TEXT}
DROPPED: Final = record({"member": TEXT, **_DROPPED}, "the dropped item")
REPLY: Final = record(
    {
        "member": TEXT, "status": _STATUS, "text": TEXT.maybe(), "data": ANY.maybe(),
        "reason": TEXT.maybe(), "kind": _KIND.maybe(), "reads": list_of(READ_LINES),
        "dropped": list_of(record(_DROPPED, "the dropped item")), "record": ANY.maybe(), "points": ANY.maybe(),
    },
    "the reply",
)  # fmt: skip
QUESTION: Final = record(
    {
        "id": TEXT, "text": TEXT, "choices": list_of(ANY).maybe(), "multiple": BOOLEAN.maybe(), "priority": ANY.maybe(),
        "section": TEXT.maybe(), "notes": ANY.maybe(), "default": ANY.maybe(), "group": TEXT.maybe(),
        "recommended": TEXT.maybe(), "depends": TEXT.maybe(),
    },
    "the question",
)  # fmt: skip
ANSWER: Final[Mapping[str, Type]] = {
    "id": TEXT, "asked_at": TEXT, "confidence": TEXT.maybe(), "comment": TEXT.maybe(), "round": NUMBER,
    "answered_by": TEXT._replace(values=("person", "prepared", "default")).maybe(),
}  # fmt: skip
_LEVEL: Final = TEXT._replace(values=("high", "medium", "low"))
FAILURE: Final = record({"kind": _KIND, "reason": TEXT, "text": TEXT.maybe(), "replies": list_of(REPLY)}, "the failure")
"""The failure of a step, which the step's `otherwise` can read."""
CONVERGENCE: Final = record(
    {"score": NUMBER, "ratio": ANY, "stability": NUMBER, "level": _LEVEL, "agree": NUMBER, "disagree": NUMBER},
    "the convergence",
)
AMENDED: Final = record({"text": TEXT, "made": list_of(ANY), "missed": list_of(ANY)}, "the amended text")
MODEL: Final = record(
    {"name": TEXT, "id": TEXT, "provider": TEXT, "model": TEXT, "window": NUMBER, "tools": BOOLEAN},
    "the model",
)
NEWS: Final = record({"member": TEXT, "status": _STATUS, "new": list_of(ANY), "alike": map_of(NUMBER)}, "the new items")
_PLACE: Final = {"document": TEXT, "line": NUMBER, "text": TEXT}
_LINES: Final = list_of(record({"first": NUMBER, "last": NUMBER}, "the lines"))
_CITED: Final = list_of(record(_PLACE, "the place"))
_WITHIN: Final = {**_PLACE, "within": list_of(TEXT)}
_PLACES: Final = list_of(record(_WITHIN, "the place"))
HIT: Final = record({"kind": TEXT, "hit": TEXT, **_PLACE}, "the hit")
ID: Final = record({"id": TEXT, "kind": TEXT, "defined": _PLACES, "cited": _PLACES}, "the id")
LINKED: Final = record(
    {"id": TEXT, "kind": TEXT, **_WITHIN, "links": list_of(record({"id": TEXT.maybe(), **_WITHIN}, "the link"))},
    "the id",
)
PATH: Final = record({"path": TEXT, "new": BOOLEAN, "lines": _LINES, "cited": _CITED}, "the path")
AMOUNT: Final = record({"number": TEXT, "value": NUMBER, "unit": TEXT, "cited": _CITED}, "the number")
