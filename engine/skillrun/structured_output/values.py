"""The one JSON value that a reply to a shape is, whatever prose stands around it, and checking it. Never raises.

A text that holds more than one value that could be meant is an error: which of them is the reply is not guessed.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Final, NamedTuple

from skillrun.syntax.sanitizing import sanitize
from skillrun.types.schemas import Shape, ShapeError, quote_value

MAX_REPLY: Final = 1_000_000
"""Characters of a reply that is parsed; a longer one is an error."""
MAX_DEPTH: Final = 25
"""Levels of a reply's value; frontmatter, in which it may end up, takes 40."""

_TOO_DEEP: Final = f"it is nested more than {MAX_DEPTH} levels deep"
_MOST_STARTS: Final = 1000
_LONGEST_NUMBER: Final = 300
_FENCED: Final = re.compile(r"(`{3,}|~{3,})[^\n`{[]*\n(?P<inside>.*)\n[ \t]*\1[`~]*", re.DOTALL)
# A bracket behind which a value may begin; others, such as those of `{this}` or `[see]`, are prose.
_START: Final = re.compile(
    r"""\{\s*+(?:(?P<object>["}])|(?P<almost>['“”‘’]|//|/\*|[\w$-]+\s*+:))|\[\s*+(?=[\]\[{"\d\-tfn])"""
)


class JsonCandidate(NamedTuple):
    """A JSON value in a text; `alone` where nothing else stands on its lines."""

    value: Any
    is_alone: bool


class _Unreadable(Exception):
    """JSON begins in the text and cannot be read, so that nobody knows what it was to say."""


def parse_reply(text: str, schema: dict[str, Any]) -> tuple[Any, list[ShapeError]]:
    """The value of a reply and what is wrong with it; no value when there is not exactly one that can be read.

    The value is the whole text or one fence, or stands on lines of its own. Said twice it counts once. Letter case of
    an enum, numbers in quotes and whole numbers such as `3.0` are read; an optional field that is null is left out.
    A text that only repeats the form is wrong.
    """
    if len(text) > MAX_REPLY:
        return None, [ShapeError("", f"the reply is longer than {MAX_REPLY:,} characters")]
    shape = Shape(schema)
    try:
        value = shape.normalize(_single_value(text, shape))
        return value, shape.check_reply(value)
    except _Unreadable as error:
        return None, [ShapeError("", str(error))]


def _single_value(text: str, shape: Shape) -> Any:
    """The one value of the text. Raises _Unreadable where there is none, or more than one that could be meant."""
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
        key = json.dumps(candidate.value, sort_keys=True)  # in which true is not 1
        distinct_values[key] = JsonCandidate(
            candidate.value, candidate.is_alone or (key in distinct_values and distinct_values[key].is_alone)
        )
    if not distinct_values:
        raise _Unreadable("there is no JSON in the reply")
    if len(distinct_values) > 1:
        raise _Unreadable(
            f"the reply holds {len(distinct_values)} different JSON values; send the one that is meant alone"
        )
    single = next(iter(distinct_values.values()))
    if not single.is_alone:
        raise _Unreadable("the JSON stands within a sentence, like a quotation; send it alone")
    return single.value


def _iter_candidates(text: str, shape: Shape) -> Iterator[JsonCandidate]:
    """Every JSON value of the text that could be meant, outermost ones only. Raises _Unreadable."""
    place = 0
    for number in range(_MOST_STARTS + 1):
        start = _START.search(text, place)
        if start is None:
            return
        if number == _MOST_STARTS:
            break
        at = start.start()
        if start["almost"]:
            raise _Unreadable(f"the JSON cannot be read: {_at(text, at)} begins an object whose names are not quoted")
        try:
            value, place = _decoder().raw_decode(text, at)
            value = _sanitize_value(value)
        except json.JSONDecodeError as error:
            if start["object"] or shape.accepts_lists or "{" in text[at : error.pos + 1]:
                raise _Unreadable(_describe_error(error)) from None
            place = max(error.pos, at + 1)  # a list of single values, which can neither be meant nor hold what is
        except (ValueError, RecursionError) as error:
            raise _Unreadable(_describe_error(error)) from None
        else:
            if _is_plausible(value, shape):
                yield JsonCandidate(value, not _surrounding_text(text, at, place))
    raise _Unreadable("the reply has too many brackets to tell which JSON is meant; send it alone")


def _surrounding_text(text: str, start: int, end: int) -> str:
    """What else stands on the lines of a value."""
    line_end = text.find("\n", end)
    return (text[text.rfind("\n", 0, start) + 1 : start] + text[end : line_end if line_end >= 0 else None]).strip()


def _is_plausible(value: Any, shape: Shape) -> bool:
    """Any object with something in it; a list of single values, such as that of `arr[0]`, only where lists are."""
    if isinstance(value, dict):
        return bool(value) or not shape.check(value)
    return shape.accepts_lists or "{" in json.dumps(value)


def _sanitize_value(value: Any) -> Any:
    """The value with its texts made valid. Raises ValueError where it is too deep."""
    layer = [value]
    for _ in range(MAX_DEPTH + 1):
        layer = [
            inner
            for parent in layer
            if isinstance(parent, dict | list)
            for inner in (parent.values() if isinstance(parent, dict) else parent)
        ]
        if not layer:
            return sanitize(value)
    raise ValueError(_TOO_DEEP)


@lru_cache(maxsize=1)
def _decoder() -> json.JSONDecoder:
    return json.JSONDecoder(
        strict=False,  # a line break within a text is one
        parse_constant=_reject_constant,
        parse_float=_float,
        parse_int=_integer,
        object_pairs_hook=_record,
    )


def _reject_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")


def _float(written: str) -> float:
    if not math.isfinite(value := float(written)):
        raise ValueError(f"the number {quote_value(written)} is too large")
    return value


def _integer(written: str) -> int:
    if len(written) > _LONGEST_NUMBER:
        raise ValueError(f"the number {quote_value(written)} is too long")
    return int(written)


def _record(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """The object of its fields; one that is given twice could mean either."""
    value = dict(pairs)
    if len(value) < len(pairs) or (not "".join(value).isprintable() and len(set(map(sanitize, value))) < len(pairs)):
        names = [sanitize(name) for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the field {quote_value(twice)} is given twice")
    return value


def _describe_error(error: Exception) -> str:
    if isinstance(error, json.JSONDecodeError):
        return f"the JSON cannot be read: {error.msg}, line {error.lineno}, column {error.colno}"
    return f"the JSON cannot be read: {_TOO_DEEP if isinstance(error, RecursionError) else error}"


def _at(text: str, place: int) -> str:
    return f"line {text.count(chr(10), 0, place) + 1}"
