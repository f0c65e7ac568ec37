"""A reply of which every valid item counts, wherever it stands: several values add up. Never raises.

For `invalid: gather`. What is not taken is named, so that it can be put on record.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from skillrun.structured_output.lenient_json import Fields, Lenient
from skillrun.structured_output.values import MAX_REPLY
from skillrun.syntax.sanitizing import clean
from skillrun.types.schemas import Dropped, Shape, ShapeError

MOST_KEPT: Final = 200  # characters of what could not be read
DEFINED: Final = ("#/$defs/", "#/definitions/")
_TWICE: Final = "a field is given twice"


class Gathered(NamedTuple):
    """The value, what is not in it, and why there is none."""

    value: dict[str, Any] | None
    dropped: list[Dropped]
    errors: list[ShapeError]


def list_field(schema: dict[str, Any]) -> str:
    """The name of the only field of a record, where that is a list; empty for other shapes, and for one whose parts
    refer to each other but by its definitions."""
    fields: dict[str, Any] = schema.get("properties") or {}
    if len(fields) != 1 or any(not reference.startswith(DEFINED) for reference in _references(schema)):
        return ""
    return next((name for name, rules in fields.items() if _is_list(rules)), "")


def gather(text: str, schema: dict[str, Any]) -> Gathered:
    """The items of a reply whose shape is a record with one list: in a record, in a list, or each by itself.

    An item that is there twice counts once. What breaks off counts up to there.
    """
    if len(text) > MAX_REPLY:
        return Gathered(None, [], [ShapeError("", f"the reply is longer than {MAX_REPLY:,} characters")])
    name = list_field(schema)
    reading = Lenient(text)
    gathered = _Items(name, Shape(schema).items_of(name))
    gathered.look(reading.values())
    dropped = [*gathered.dropped, *(_unread(text, broken.at, broken.why) for broken in reading.broken)]
    value, beyond = Shape(schema).trimmed({name: gathered.items})
    errors = Shape(schema).check(value)
    if not gathered.items and not gathered.lists:
        errors = [ShapeError(problem.path, problem.reason) for problem in dropped] or [
            ShapeError("", "there is no JSON in the reply")
        ]
    elif not gathered.items:
        errors = errors or [ShapeError(problem.path, problem.reason) for problem in dropped]
    return Gathered(value if not errors else None, [*dropped, *beyond], errors)


class _Items:
    """The items that were found, each once, and those that are none."""

    def __init__(self, name: str, shape: Shape) -> None:
        self.name, self.shape = name, shape
        self.known = shape.schema.get("properties") or {}
        self.items: list[Any] = []
        self.dropped: list[Dropped] = []
        self.lists = 0
        self._seen: set[str] = set()

    def look(self, values: list[Any]) -> None:
        """Take the items of values in their order. A list of lists or of records is looked into."""
        waiting = values[::-1]
        while waiting:
            value = waiting.pop()
            if isinstance(value, Fields):
                inside = list(self._of_record(value))
                waiting += inside[::-1]
            elif isinstance(value, list) and not self.known and not any(isinstance(each, list) for each in value):
                self._take_all(value)
            elif isinstance(value, list):
                self.lists += not value
                waiting += value[::-1]

    def _of_record(self, fields: Fields) -> Iterator[Any]:
        """Take the items of a record that has the list, or is an item; give what is in any other to look at."""
        lists = [value for name, value in fields if _same(name, self.name) and isinstance(value, list)]
        if lists:
            for items in lists:
                self._take_all(items)
            for name, value in fields:
                if not _same(name, self.name):
                    self.dropped.append(Dropped(clean(name), "nobody asked for it", _json(_plain(value))))
        elif any(name in self.known for name, _ in fields):
            self._take(fields)
        else:
            yield from (value for _, value in fields)

    def _take_all(self, items: list[Any]) -> None:
        self.lists += 1
        for item in items:
            self._take(item)

    def _take(self, item: Any) -> None:
        """An item, without what nobody asked for; dropped where it does not fit."""
        value, place = self.shape.read(clean(_plain(item))), f"{self.name}[{len(self.items)}]"
        if isinstance(item, Fields) and len({clean(name) for name, _ in item}) < len(item):
            self.dropped.append(Dropped(place, _TWICE, _json(value)))
            return
        kept, left_out = self.shape.prune(value)
        errors = self.shape.check_reply(kept)
        if errors:
            reasons = "; ".join(error.message for error in errors)
            self.dropped.append(Dropped(place, reasons, _json(value)))
            return
        self.dropped += [Dropped(f"{place}.{each.path}", each.reason, each.text) for each in left_out]
        if (key := _json(kept)) not in self._seen:
            self._seen.add(key)
            self.items.append(kept)


def _references(rules: Any) -> Iterator[str]:
    """Each `$ref` in a schema."""
    waiting = [rules]
    while waiting:
        part = waiting.pop()
        waiting += part.values() if isinstance(part, dict) else part if isinstance(part, list) else ()
        if isinstance(part, dict) and isinstance(part.get("$ref"), str):
            yield part["$ref"]


def _is_list(rules: Any) -> bool:
    return isinstance(rules, dict) and rules.get("type") == "array"


def _same(name: str, wanted: str) -> bool:
    return name.strip().casefold() == wanted.casefold()


def _plain(value: Any) -> Any:
    if isinstance(value, Fields):
        return {name: _plain(part) for name, part in value}
    return [_plain(part) for part in value] if isinstance(value, list) else value


def _json(value: Any) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=False)


def _unread(text: str, at: int, why: str) -> Dropped:
    """What stands around a place that could not be read."""
    start = max(0, at - MOST_KEPT // 2)
    return Dropped(f"line {text.count(chr(10), 0, at) + 1}", why, clean(text[start : start + MOST_KEPT]))
