"""Parses and checks the single JSON value of a reply. Never raises.

Prose around the value is ignored. A reply with more than one plausible value is an error.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Final, NamedTuple

from skillrun.syntax.diagnostics import sanitize
from skillrun.types.schemas import Shape, ShapeError, quote_value

MAX_REPLY: Final = 1_000_000
"""The maximum number of characters of a reply. A longer reply is an error."""
MAX_DEPTH: Final = 25
"""The maximum depth of a reply's value. It is lower than the 40 levels of frontmatter, which can contain the value."""
MAX_NUMBER: Final = 300  # digits

_TOO_DEEP: Final = f"the value is nested more than {MAX_DEPTH} levels deep"
_MOST_STARTS: Final = 1000
_FENCED: Final = re.compile(r"(`{3,}|~{3,})[^\n`{[]*\n(?P<inside>.*)\n[ \t]*\1[`~]*", re.DOTALL)
# A bracket that may start a value. Other brackets, such as those of `{this}` and `[see]`, belong to prose.
_START: Final = re.compile(
    r"""\{\s*+(?:(?P<object>["}])|(?P<almost>['“”‘’]|//|/\*|[\w$-]+\s*+:))|\[\s*+(?=[\]\[{"\d\-tfn])"""
)


class JsonCandidate(NamedTuple):
    """A JSON value in a text. `is_alone` is true if nothing else is on the lines of the value."""

    value: Any
    is_alone: bool


class _Unreadable(Exception):
    """Raised for a text that has no JSON, invalid JSON, or more than one plausible value."""


def parse_reply(text: str, schema: dict[str, Any]) -> tuple[Any, list[ShapeError]]:
    """Return the value of a reply, and the errors in it.

    The value can be the whole text, also inside a fence, or separate lines between prose. Duplicates count once. If
    there is not exactly one value, return None with an error. `Shape.normalize` corrects the value. A text in the value
    that only repeats the requested form is an error.
    """
    if len(text) > MAX_REPLY:
        return None, [ShapeError("", f"the reply is longer than {MAX_REPLY:,} characters")]
    shape = Shape(schema)
    try:
        value = shape.normalize(_single_value(text, shape))
        return value, shape.check_reply(value)
    except _Unreadable as error:
        return None, [ShapeError("", str(error))]


def contains_json(text: str, schema: dict[str, Any]) -> bool:
    """Whether a text has JSON that can be a reply's value, or that cannot be read."""
    try:
        return any(True for _ in _iter_candidates(text, Shape(schema)))
    except _Unreadable:
        return True


def _single_value(text: str, shape: Shape) -> Any:
    """Return the single plausible value of the text. Raises _Unreadable if the text has none, or more than one."""
    fenced = _FENCED.fullmatch(text.strip())
    for whole in (text.strip(), *([fenced["inside"].strip()] if fenced else [])):
        try:
            return _sanitize_value(_decoder().decode(whole))
        except json.JSONDecodeError:
            continue
        except (ValueError, RecursionError) as error:
            raise _Unreadable(_describe_error(error)) from None
    distinct_values: dict[str, JsonCandidate] = {}
    for candidate in _iter_candidates(text, shape):
        key = json.dumps(candidate.value, sort_keys=True)  # as JSON, true differs from 1
        distinct_values[key] = JsonCandidate(
            candidate.value, candidate.is_alone or (key in distinct_values and distinct_values[key].is_alone)
        )
    if not distinct_values:
        raise _Unreadable("the reply contains no JSON")
    if len(distinct_values) > 1:
        raise _Unreadable(
            f"the reply contains {len(distinct_values)} different JSON values; send only the intended one"
        )
    single = next(iter(distinct_values.values()))
    if not single.is_alone:
        raise _Unreadable("the JSON is part of a sentence, like a quotation; send only the JSON")
    return single.value


def _iter_candidates(text: str, shape: Shape) -> Iterator[JsonCandidate]:
    """Yield each outermost JSON value of the text that can be the reply's value. Raises _Unreadable."""
    place = 0
    for number in range(_MOST_STARTS + 1):
        start = _START.search(text, place)
        if start is None:
            return
        if number == _MOST_STARTS:
            break
        at = start.start()
        if start["almost"]:
            line = text.count("\n", 0, at) + 1
            raise _Unreadable(f"the JSON is invalid: line {line} starts an object with unquoted names")
        try:
            value, place = _decoder().raw_decode(text, at)
            value = _sanitize_value(value)
        except json.JSONDecodeError as error:
            if start["object"] or shape.accepts_lists or "{" in text[at : error.pos + 1]:
                raise _Unreadable(_describe_error(error)) from None
            place = max(error.pos, at + 1)  # a list without objects cannot contain the reply's value
        except (ValueError, RecursionError) as error:
            raise _Unreadable(_describe_error(error)) from None
        else:
            if _is_plausible(value, shape):
                line_end = text.find("\n", place)
                before = text[text.rfind("\n", 0, at) + 1 : at]
                after = text[place : line_end if line_end >= 0 else None]
                yield JsonCandidate(value, is_alone=not (before + after).strip())
    raise _Unreadable("the reply has too many brackets to find the intended JSON; send only the JSON")


def _is_plausible(value: Any, shape: Shape) -> bool:
    """Whether a value can be the reply's value.

    An empty object is plausible only if the schema requires no fields. A list is plausible if the schema allows lists,
    or if the list contains objects.
    """
    if isinstance(value, dict):
        return bool(value) or not shape.check(value)
    return shape.accepts_lists or "{" in json.dumps(value)


def is_deeper(value: Any, levels: int) -> bool:
    """Whether a JSON value is nested more than `levels` deep."""
    layer = [value]
    for _ in range(levels + 1):
        layer = [
            inner
            for parent in layer
            if isinstance(parent, dict | list)
            for inner in (parent.values() if isinstance(parent, dict) else parent)
        ]
        if not layer:
            return False
    return True


def _sanitize_value(value: Any) -> Any:
    """Return `value` with every text sanitized. Raises ValueError if the value is nested too deeply."""
    if is_deeper(value, MAX_DEPTH):
        raise ValueError(_TOO_DEEP)
    return sanitize(value)


@lru_cache(maxsize=1)
def _decoder() -> json.JSONDecoder:
    return json.JSONDecoder(
        strict=False,  # allow literal line breaks in strings
        parse_constant=_reject_constant,
        parse_float=_float,
        parse_int=_integer,
        object_pairs_hook=_record,
    )


def _reject_constant(name: str) -> Any:
    raise ValueError(f"{name} is not valid JSON")


def _float(written: str) -> float:
    if not math.isfinite(value := float(written)):
        raise ValueError(f"the number {quote_value(written)} is too large")
    return value


def _integer(written: str) -> int:
    if len(written) > MAX_NUMBER:
        raise ValueError(f"the number {quote_value(written)} is too long")
    return int(written)


def _record(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Build an object from its fields. Raises ValueError if a field is given twice."""
    value = dict(pairs)
    if len(value) < len(pairs) or (not "".join(value).isprintable() and len(set(map(sanitize, value))) < len(pairs)):
        names = [sanitize(name) for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the field {quote_value(twice)} is given twice")
    return value


def _describe_error(error: Exception) -> str:
    if isinstance(error, json.JSONDecodeError):
        return f"the JSON is invalid: {error.msg}, line {error.lineno}, column {error.colno}"
    return f"the JSON is invalid: {_TOO_DEEP if isinstance(error, RecursionError) else error}"
