"""Collects the valid items from all JSON values of a reply, for steps with `invalid: gather`. Never raises.

Dropped values are returned with the reasons, so that the journal can record them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from skillrun.structured_output.lenient_json import LenientParser, ObjectFields
from skillrun.structured_output.values import MAX_REPLY
from skillrun.syntax.sanitizing import sanitize
from skillrun.types.schemas import DroppedValue, Shape, ShapeError

MAX_EXCERPT: Final = 200  # characters of an unreadable part
DEFINITION_PREFIXES: Final = ("#/$defs/", "#/definitions/")
_TWICE: Final = "a field is given twice"


class SalvageResult(NamedTuple):
    """The value and the dropped parts of a reply. If the value is missing, `errors` says why."""

    value: dict[str, Any] | None
    dropped: list[DroppedValue]
    errors: list[ShapeError]


def find_list_field(schema: dict[str, Any]) -> str:
    """Return the name of a record's only field if the field is a list, or else "".

    Also return "" if the schema has a reference to anything but its definitions.
    """
    fields: dict[str, Any] = schema.get("properties") or {}
    if len(fields) != 1 or any(not reference.startswith(DEFINITION_PREFIXES) for reference in _references(schema)):
        return ""
    return next((name for name, rules in fields.items() if _is_list(rules)), "")


def salvage_items(text: str, schema: dict[str, Any]) -> SalvageResult:
    """Collect the items of a reply whose shape is a record with one list.

    The items may be in several such records, in lists, or on their own. Duplicates count once. A truncated value is
    used up to the point where it breaks off.
    """
    if len(text) > MAX_REPLY:
        return SalvageResult(None, [], [ShapeError("", f"the reply is longer than {MAX_REPLY:,} characters")])
    name = find_list_field(schema)
    parser = LenientParser(text)
    collector = _ItemCollector(name, Shape(schema).item_shape(name))
    collector.collect(parser.parse_values())
    dropped = [
        *collector.dropped,
        *(_unreadable_part(text, broken.offset, broken.reason) for broken in parser.unreadable),
    ]
    value, excess = Shape(schema).trim_lists({name: collector.items})
    errors = Shape(schema).check(value)
    if not collector.items and not collector.lists:
        errors = [ShapeError(problem.path, problem.reason) for problem in dropped] or [
            ShapeError("", "the reply contains no JSON")
        ]
    elif not collector.items:
        errors = errors or [ShapeError(problem.path, problem.reason) for problem in dropped]
    return SalvageResult(value if not errors else None, [*dropped, *excess], errors)


class _ItemCollector:
    """Collects the valid items without duplicates, and the dropped values."""

    def __init__(self, name: str, shape: Shape) -> None:
        self.name, self.shape = name, shape
        self.known = shape.schema.get("properties") or {}
        self.items: list[Any] = []
        self.dropped: list[DroppedValue] = []
        self.lists = 0
        self._seen: set[str] = set()

    def collect(self, values: list[Any]) -> None:
        """Collect the items of the values in order, including items in nested lists and records."""
        pending = values[::-1]
        while pending:
            value = pending.pop()
            if isinstance(value, ObjectFields):
                inside = list(self._collect_record(value))
                pending += inside[::-1]
            elif isinstance(value, list) and not self.known and not any(isinstance(each, list) for each in value):
                self._add_list(value)
            elif isinstance(value, list):
                self.lists += not value
                pending += value[::-1]

    def _collect_record(self, fields: ObjectFields) -> Iterator[Any]:
        """Collect the items of a record that contains the requested list, or a record that is itself an item.

        Yield the values of any other record, because they may contain items.
        """
        lists = [value for name, value in fields if _is_same_name(name, self.name) and isinstance(value, list)]
        if lists:
            for items in lists:
                self._add_list(items)
            for name, value in fields:
                if not _is_same_name(name, self.name):
                    self.dropped.append(
                        DroppedValue(sanitize(name), "the field was not requested", _json(_plain(value)))
                    )
        elif any(name in self.known for name, _ in fields):
            self._add_item(fields)
        else:
            yield from (value for _, value in fields)

    def _add_list(self, items: list[Any]) -> None:
        self.lists += 1
        for item in items:
            self._add_item(item)

    def _add_item(self, item: Any) -> None:
        """Add an item without its invalid optional parts. Drop it if it is still invalid without them."""
        value, place = self.shape.normalize(sanitize(_plain(item))), f"{self.name}[{len(self.items)}]"
        if isinstance(item, ObjectFields) and len({sanitize(name) for name, _ in item}) < len(item):
            self.dropped.append(DroppedValue(place, _TWICE, _json(value)))
            return
        kept, left_out = self.shape.drop_invalid(value)
        errors = self.shape.check_reply(kept)
        if errors:
            reasons = "; ".join(error.message for error in errors)
            self.dropped.append(DroppedValue(place, reasons, _json(value)))
            return
        self.dropped += [DroppedValue(f"{place}.{each.path}", each.reason, each.text) for each in left_out]
        if (key := _json(kept)) not in self._seen:
            self._seen.add(key)
            self.items.append(kept)


def _references(rules: Any) -> Iterator[str]:
    """Yield each `$ref` in a schema."""
    waiting = [rules]
    while waiting:
        part = waiting.pop()
        waiting += part.values() if isinstance(part, dict) else part if isinstance(part, list) else ()
        if isinstance(part, dict) and isinstance(part.get("$ref"), str):
            yield part["$ref"]


def _is_list(rules: Any) -> bool:
    return isinstance(rules, dict) and rules.get("type") == "array"


def _is_same_name(name: str, wanted: str) -> bool:
    return name.strip().casefold() == wanted.casefold()


def _plain(value: Any) -> Any:
    if isinstance(value, ObjectFields):
        return {name: _plain(part) for name, part in value}
    return [_plain(part) for part in value] if isinstance(value, list) else value


def _json(value: Any) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=False)


def _unreadable_part(text: str, at: int, why: str) -> DroppedValue:
    """Return a dropped value with the text around an unreadable place."""
    start = max(0, at - MAX_EXCERPT // 2)
    return DroppedValue(f"line {text.count(chr(10), 0, at) + 1}", why, sanitize(text[start : start + MAX_EXCERPT]))
