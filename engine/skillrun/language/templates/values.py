"""Plain values as templates see them: what they are called, how they are looked up, taken and printed.

Knows neither syntax nor positions: what goes wrong is a `Fault`, and `expressions` says where it stands.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from skillrun.language.absent import ABSENT, Absent
from skillrun.language.templates.limits import MAX_ITEMS, Fault, counted, room, size, spend, weigh

CONTAINERS: Final = (list, tuple, Mapping)


def kind(value: Any) -> str:
    """What a value is, for messages."""
    match value:
        case Absent():
            return "an absent value"
        case None:
            return "null"
        case bool():
            return "true or false"
        case int() | float():
            return "a number"
        case str():
            return "a text"
        case list() | tuple() | range():
            return "a list"
        case Mapping():
            return "a mapping"
    return "something that is no plain value"


def listed(value: Any) -> list[Any]:
    """The value as a list: of a mapping its keys, of an absent value nothing."""
    if type(value) is list:
        return value
    if isinstance(value, Absent):
        return []
    if isinstance(value, (Mapping, list, tuple, range)):
        return list(value)
    raise Fault(f"{kind(value)} is not a list", "" if value is None else "put it in brackets: `[x]`")


def number(value: Any) -> int | float:
    """The value as a number to compute with."""
    if isinstance(value, (int, float)):
        return value
    if isinstance(value, Absent):
        raise Fault(value.why, "nothing can be computed with it; give it a `default`")
    raise Fault(f"{kind(value)} is not a number", "`| int` reads one from a text" if isinstance(value, str) else "")


def whole(value: Any) -> int:
    """The value as a whole number."""
    found = number(value)
    if isinstance(found, float) and not found.is_integer():
        raise Fault(f"{printed(found)} is not a whole number")
    return int(found)


def each(items: Any) -> Iterator[Any]:
    """The items of a loop, counted."""
    return counted(listed(items))


def look(owner: Any, name: str, path: str) -> Any:
    """The item of a mapping that an expression names; where none has the name, the one that writes `-` for its `_`.

    `path` is how the expression says it.
    """
    if isinstance(owner, Mapping):
        value = owner.get(name, ABSENT) if type(owner) is dict else _item(owner, name)
        if value is ABSENT and "_" in name:
            value = hyphened(owner, name, ABSENT)
        return Absent(path) if value is ABSENT else value
    return Absent(path, owner.gap if isinstance(owner, Absent) else "")


def item(owner: Any, key: Any, path: str) -> Any:
    """The item of a mapping with exactly this key, or of a list or text at this index."""
    value: Any = ABSENT
    if isinstance(owner, Absent) or isinstance(key, Absent):
        return Absent(path, owner.gap if isinstance(owner, Absent) else key.gap)
    if isinstance(owner, Mapping) or (isinstance(owner, (list, tuple, str)) and type(key) is int):
        value = _item(owner, key)
    return Absent(path) if value is ABSENT else value


def field(owner: Any, path: str | int) -> Any:
    """The item at a dotted path such as a filter's `attribute` gives it."""
    if isinstance(path, int):
        return item(owner, path, f"….{path}")
    if not isinstance(path, str):
        raise Fault(f"{kind(path)} is not the name of a field")
    parts = path.split(".")
    spend(len(parts))
    for part in parts:
        owner = item(owner, int(part), f"….{path}") if part.isdecimal() else look(owner, part, f"….{path}")
        if isinstance(owner, Absent):
            break
    return owner


def cut(owner: Any, start: Any, stop: Any, step: Any, path: str) -> Any:
    """A slice of a list or text."""
    if isinstance(owner, Absent):
        return Absent(path, owner.gap)
    if not isinstance(owner, (list, tuple, str)):
        raise Fault(f"{kind(owner)} has no slices", "a list or a text has")
    bounds = [None if bound is None else whole(bound) for bound in (start, stop, step)]
    if bounds[2] == 0:
        raise Fault("a slice cannot have the step 0")
    spend(size(owner))
    return owner[slice(*bounds)]


def _item(owner: Any, key: Any) -> Any:
    try:
        return owner[key]
    except LookupError:
        return ABSENT
    except TypeError:
        raise Fault(f"{kind(key)} cannot be a key") from None


def hyphened(owner: Mapping[str, Any], name: str, default: Any) -> Any:
    """The value of the first key that is the name with `-` for some of its `_`."""
    found = owner.get(name.replace("_", "-"), default)
    if found is default:
        found = next((owner[key] for key in owner if str(key).replace("-", "_") == name), default)
    return found


def printed(value: Any) -> str:
    """A value as it stands in a text: whole numbers without a point, others with at most two digits after it, lists and
    mappings as JSON. Raises Fault for what is absent or null."""
    if type(value) is str:
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return _decimal(value)
    if isinstance(value, (str, int)):
        return str(value)
    if isinstance(value, Absent):
        raise Fault(value.why, "print it only `{% if … %}` it is there, or give it a `default`")
    if isinstance(value, CONTAINERS):
        return to_json(value)
    raise Fault(f"{kind(value)} cannot be printed", "give it a `default`" if value is None else "")


def joined(parts: Iterable[Any], between: str = "") -> str:
    """The printed parts one after the other."""
    texts = [printed(part) for part in parts]
    room(sum(map(len, texts)) + len(between) * len(texts))
    return between.join(texts)


def to_json(value: Any, indent: int | None = None) -> str:
    """JSON with its keys in the order given and nothing escaped that needs no escaping."""
    weigh(value, MAX_ITEMS)
    text = json.dumps(plain(value), ensure_ascii=False, indent=indent)
    room(len(text))
    return text


def _decimal(value: float) -> str:
    if not math.isfinite(value):
        raise Fault("the number is too large")
    return str(int(value)) if value.is_integer() else f"{round(value, 2) + 0.0:.2f}".rstrip("0").rstrip(".")


def plain(value: Any) -> Any:
    """The value as dicts, lists and single values; what is absent in a list or mapping is left out."""
    if isinstance(value, CONTAINERS):
        weigh(value)
        return _plain(value)
    if value is None or isinstance(value, (str, int, float, Absent)):
        return value
    raise Fault(f"{kind(value)} cannot be the value of an expression")


def _plain(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return [_plain(one) for one in value if not isinstance(one, Absent)]
    if isinstance(value, Mapping):
        return {key: _plain(one) for key, one in value.items() if not isinstance(one, Absent)}
    return value
