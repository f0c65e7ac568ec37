"""What the bodies of journal records look like that a run writes: a journal from elsewhere may hold others."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, Final, get_args

from skillrun.models.messages import Reply, Stop, Usage

Check = Callable[[Any], bool]


def fits(kind: str, body: Any) -> bool:
    """Whether a run can have written a record of this kind with this body."""
    if not isinstance(body, dict) or not NEEDED.get(kind, frozenset()) <= body.keys():
        return False
    known = FIELDS.get(kind)
    if known is None:
        return True
    return all(known[key](value) if key in known else kind not in CLOSED for key, value in body.items())


def is_text(value: Any) -> bool:
    return isinstance(value, str)


def is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) and value >= 0


def is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_price(value: Any) -> bool:
    return value is None or is_number(value)


def _is_usage(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and value.keys() <= Usage.__dataclass_fields__.keys()
        and all(map(is_whole, value.values()))
    )


def _are_calls(value: Any) -> bool:
    return isinstance(value, list) and all(
        isinstance(call, dict)
        and call.keys() - {"extra"} == {"id", "name", "arguments"}
        and is_text(call["id"])
        and is_text(call["name"])
        and isinstance(call["arguments"], dict)
        and isinstance(call.get("extra", {}), dict)
        for call in value
    )


def _are_records(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(one, dict) for one in value)


def _are_answers(value: Any) -> bool:
    return _are_records(value) and bool(value)


def _is_form(value: Any) -> bool:
    """How a form stood when it was read; see `runtime/questions/forms`."""
    return (
        isinstance(value, dict)
        and value.keys() == {"name", "hash", "read", "why"}
        and is_text(value["name"])
        and is_text(value["hash"])
        and _are_records(value["read"])
        and isinstance(value["why"], list)
        and all(map(_are_texts, value["why"]))
        and len(value["why"]) == len(value["read"])
    )


def _are_texts(value: Any) -> bool:
    return isinstance(value, list) and all(map(is_text, value))


def _are_counts(value: Any) -> bool:
    return isinstance(value, dict) and all(map(is_whole, value.values()))


def _are_verdicts(value: Any) -> bool:
    """What `find` has found of each path."""
    return isinstance(value, dict) and all(one in ("found", "missing", "withheld") for one in value.values())


CLOSED: Final = frozenset({"reply", "failed"})  # no other keys than these
NEEDED: Final[Mapping[str, frozenset[str]]] = {
    "reply": frozenset({"text", "calls", "usage", "price"}),
    "failed": frozenset({"kind", "message"}),
    "answer": frozenset({"answers"}),
    "void": frozenset({"round", "tries"}),
}
FIELDS: Final[Mapping[str, Mapping[str, Check]]] = {
    "reply": {
        **dict.fromkeys(Reply.__dataclass_fields__, lambda _: True),
        **dict.fromkeys(("text", "model"), is_text),
        "stop": lambda value: value in get_args(Stop),
        "calls": _are_calls,
        "usage": _is_usage,
        "price": _is_price,
        "seconds": is_number,
    },
    "failed": {
        **dict.fromkeys(("kind", "message", "next_step"), is_text),
        "retryable": lambda value: value is None or isinstance(value, bool),
        "given_up": lambda value: isinstance(value, bool),
    },
    "tried": {**dict.fromkeys(("kind", "message", "next_step"), is_text), "attempt": is_whole},
    "tool": {
        **dict.fromkeys(("tool", "result", "error", "text"), is_text),
        "arguments": lambda value: isinstance(value, dict),
        **dict.fromkeys(("files", "texts"), _are_texts),
        "answers": _are_records,
        "paths": _are_verdicts,
        "excerpts": lambda value: isinstance(value, dict) and all(map(is_text, value.values())),
        "left_out": _are_texts,
    },
    "answer": {"answers": _are_answers, "notes": is_text, "form": _is_form},
    "void": {"round": is_whole, "tries": _are_counts},
    "note": {**dict.fromkeys(("text", "reason", "form"), is_text)},
}
