"""The items of an `each`, identified by content, not by position."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from skillrun.definitions.definitions import Step
from skillrun.runtime.errors import StepFailed
from skillrun.runtime.frame import Frame
from skillrun.store.files import sha256_of
from skillrun.store.frontmatter import plain_data
from skillrun.store.next_step import NextStep
from skillrun.templates.absent import Absent
from skillrun.templates.functions import slug
from skillrun.types.schemas import quote_value

MOST: Final = 200  # items of one list, unless `limits` sets another number
LONGEST: Final = 40  # characters of a key
LONGEST_ID: Final = 80
MARK: Final = 12  # characters of a hash
_KEY: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_MARKED: Final = re.compile(rf"(?:^|-)[0-9a-f]{{{MARK}}}$")


@dataclass(frozen=True)
class Item:
    """An item, its readable id, and its key in addresses: letters, digits, `.`, `_` and `-`."""

    id: str
    key: str
    value: Any


def each_items(step: Step, frame: Frame) -> list[Item]:
    """Return the items in the order of the list, without duplicates. Raises StepFailed."""
    given = frame.main(step)
    if given is None or isinstance(given, Absent):
        return []
    if not isinstance(given, list | tuple):
        raise StepFailed(f"`each` is {quote_value(plain_data(given))}; expected a list", frame.at(step))
    name, most = step.id or step.verb, int((frame.run.program.engine.get("limits") or {}).get("items", MOST))
    if len(given) > most:
        way = NextStep.of("use fewer, as with `| top(…)`, or raise `limits.items` in config/skillrun.yaml")
        raise StepFailed(f"`{name}` has {len(given):,} items; a list may have at most {most:,}", frame.at(step), way)
    written = [(_canonical_json(value), _id(value, step.by or "id"), value) for value in given]
    different = {text: (known, value) for text, known, value in written}
    times = Counter(known for known, _ in different.values() if known)
    items = []
    for text, (known, value) in different.items():
        key = _key(known, text, alone=times[known] == 1)
        items.append(Item(known if times[known] == 1 and len(known) <= LONGEST_ID else key, key, value))
    if len(items) < len(given):
        frame.phase.warn(f"{name}: {len(given) - len(items)} of {len(given)} items are duplicates and count once")
    for duplicate_id in (known for known, number in times.items() if number > 1):
        ids = ", ".join(item.id for item in items if item.id.startswith(_start(duplicate_id)))
        frame.phase.warn(
            f"{name}: {times[duplicate_id]} items have the id {quote_value(duplicate_id)}; they are identified as {ids}"
        )
    return items


def _canonical_json(value: Any) -> str:
    return json.dumps(plain_data(value), sort_keys=True, ensure_ascii=False, default=str)


def _id(value: Any, field: str) -> str:
    """Return the id that an item has itself; empty if it has none."""
    named = value.get(field) if isinstance(value, Mapping) else value
    if isinstance(named, bool) or not isinstance(named, str | int):
        return ""
    return " ".join(str(named).split())


def _key(known: str, text: str, *, alone: bool) -> str:
    """Return the id itself if it is unique and valid in an address; otherwise add a hash of the item."""
    if alone and len(known) <= LONGEST and _KEY.fullmatch(known) and not _MARKED.search(known):
        return known
    return f"{_start(known)}{sha256_of(known if alone else text)[:MARK]}"


def _start(known: str) -> str:
    begins = known if _KEY.fullmatch(known) or not known else slug(known)
    return f"{begins[: LONGEST - MARK - 1].rstrip('-') or 'item'}-"
