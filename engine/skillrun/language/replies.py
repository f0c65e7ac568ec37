"""Finding the JSON in a model's reply, whatever stands around it, and checking it. Never raises."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import suppress
from functools import lru_cache
from typing import Any, Final

from skillrun.language.schemas import Shape, ShapeError

MAX_REPLY: Final = 1_000_000
"""Characters of a reply that is parsed; a longer one is an error."""

_TOO_MUCH: Final = "the JSON cannot be read: a number in it is too long, or it is nested too deeply"
_MOST_STARTS: Final = 200
_START: Final = re.compile(r"[{\[]")


def parse_reply(text: str, schema: dict[str, Any]) -> tuple[Any, list[ShapeError]]:
    """The value of a reply and what is wrong with it; no value when there is no JSON that can be read.

    The JSON may be fenced and have text before and after it. Of several the first that fits is taken, otherwise the
    longest. Where the schema is an object with exactly one list, a bare list is taken as that list. An optional field
    that is null counts as left out.
    """
    if len(text) > MAX_REPLY:
        return None, [ShapeError("", f"the reply is longer than {MAX_REPLY:,} characters")]
    shape = Shape(schema)
    longest: tuple[int, Any, list[ShapeError]] = (0, None, [ShapeError("", "there is no JSON in the reply")])
    for length, found, broken in _values(text):
        value, errors = (None, [ShapeError("", broken)]) if broken else _checked(found, shape)
        if not errors:
            return value, []
        if length > longest[0]:
            longest = (length, value, errors)
    return longest[1], longest[2]


def _checked(found: Any, shape: Shape) -> tuple[Any, list[ShapeError]]:
    try:
        value = _tidied(_as_object(found, shape.schema), shape.schema)
        return value, shape.check(value)
    except RecursionError:
        return None, [ShapeError("", _TOO_MUCH)]


def _values(text: str) -> Iterator[tuple[int, Any, str]]:
    """Every JSON value that stands in the text: how long it is, the value, or why it cannot be read."""
    whole = text.strip()
    if whole[:1] not in ("{", "["):
        with suppress(ValueError, RecursionError):
            yield 0, _decoder().decode(whole), ""
    place = 0
    for _ in range(_MOST_STARTS):
        start = _START.search(text, place)
        if start is None:
            return
        try:
            value, place = _decoder().raw_decode(text, start.start())
        except json.JSONDecodeError as error:
            reason = f"the JSON cannot be read: {error.msg}, line {error.lineno}, column {error.colno}"
            yield error.pos - start.start(), None, reason
            place = start.end()
        except (ValueError, RecursionError):
            yield 1, None, _TOO_MUCH
            place = start.end()
        else:
            yield place - start.start(), value, ""


@lru_cache(maxsize=1)
def _decoder() -> json.JSONDecoder:
    return json.JSONDecoder(parse_constant=_refused)


def _refused(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")


def _as_object(value: Any, schema: dict[str, Any]) -> Any:
    """A bare list as the one list of the object that was asked for."""
    fields = schema.get("properties", {})
    lists = [name for name, field in fields.items() if isinstance(field, dict) and field.get("type") == "array"]
    return (
        {lists[0]: value} if isinstance(value, list) and schema.get("type") == "object" and len(lists) == 1 else value
    )


def _tidied(value: Any, schema: Any) -> Any:
    """The value without nulls in optional fields and without characters that cannot be written as UTF-8."""
    if isinstance(value, str):
        return value if value.isascii() else value.encode("utf-8", "replace").decode("utf-8")
    rules = schema if isinstance(schema, dict) else {}
    if isinstance(value, list):
        return [_tidied(each, rules.get("items")) for each in value]
    if isinstance(value, dict):
        fields, required = rules.get("properties", {}), rules.get("required", ())
        left_out = {name for name, each in value.items() if each is None and name in fields and name not in required}
        return {name: _tidied(each, fields.get(name)) for name, each in value.items() if name not in left_out}
    return value
