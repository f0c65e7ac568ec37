"""Operations on plain template values: description, lookup, arithmetic, comparison and conversion to text.

This module does not depend on syntax or positions. Its errors are `TemplateError`. A value is absent if its step was
skipped, its optional field was omitted or its output does not exist. Each operation and filter defines how it treats
absent values.
"""

from __future__ import annotations

import json
import math
import operator
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from jinja2 import Undefined

from skillrun.templates.limits import (
    MAX_TEXT,
    TemplateError,
    handling_cost,
    spend,
    spend_on_text,
    spend_on_values,
)
from skillrun.types.records import MAX_NUMBER


class Absent(Undefined):
    """An absent value. It is empty and false, as in Jinja, and any lookup on it is absent as well.

    Every comparison with an absent value is false. Printing an absent value is an error. `path` is the path that was
    looked up (`phases.research.outputs.x`), and `gap` is the part of the path that is missing (`phases.research`). Each
    failed lookup creates its own instance, so test for absence with `isinstance(value, Absent)`.
    """

    __slots__ = ("gap", "path")

    def __init__(self, path: str = "", gap: str = "") -> None:
        super().__init__(name=path)
        self.path = path
        self.gap = gap or path

    @property
    def explanation(self) -> str:
        """A message that says which value is absent, and which part of its path is missing."""
        if not self.path:
            return "the value is absent"
        return f"`{self.path}` is absent" + (f": there is no `{self.gap}`" if self.gap != self.path else "")

    _undefined_message = explanation  # Jinja's message when the value is used

    def _false(self, _other: Any) -> bool:
        return False

    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = __contains__ = _false  # type: ignore[assignment]
    __hash__ = Undefined.__hash__

    def __str__(self) -> str:
        return self._fail_with_undefined_error()

    def __repr__(self) -> str:
        return f"Absent({self.path!r})"


ABSENT: Final = Absent()
CONTAINERS: Final = (list, tuple, Mapping)
_KINDS: Final[tuple[tuple[Any, str], ...]] = (
    (Absent, "an absent value"),
    (type(None), "null"),
    (bool, "true or false"),
    ((int, float), "a number"),
    (str, "a text"),
    ((list, tuple), "a list"),
    (Mapping, "a mapping"),
)


def describe_kind(value: Any) -> str:
    """Return the name of a value's kind for messages, such as `a text`."""
    return next((word for sort, word in _KINDS if isinstance(value, sort)), "an unsupported value")


def to_list(value: Any) -> list[Any]:
    """Return a list, the keys of a mapping, or [] for an absent value. Raises TemplateError for any other value."""
    if type(value) is list:
        return value
    if isinstance(value, (Absent, *CONTAINERS)):
        return list(value)
    raise TemplateError(f"{describe_kind(value)} is not a list", "" if value is None else "put it in brackets: `[x]`")


def to_number(value: Any) -> int | float:
    """Return the value unchanged. Raises TemplateError if it is not a number."""
    if isinstance(value, (int, float)):
        return value
    if isinstance(value, Absent):
        raise TemplateError(value.explanation, "it cannot be used in a calculation; give it a `default`")
    raise TemplateError(
        f"{describe_kind(value)} is not a number",
        "`| int` converts a text to a number" if isinstance(value, str) else "",
    )


def to_integer(value: Any) -> int:
    """Return the value as an integer. Raises TemplateError if it is not a whole number."""
    read = to_number(value)
    if isinstance(read, float) and not read.is_integer():
        raise TemplateError(f"{to_text(read)} is not a whole number")
    return int(read)


# Lookups


def lookup_name(owner: Any, name: str, missing: Any = ABSENT) -> Any:
    """Return `owner.name`, or `missing` if it does not exist. A `_` in the name also matches a `-` in a key."""
    if not isinstance(owner, Mapping):
        return missing
    entry = owner.get(name, missing)
    if entry is missing and "_" in name:
        entry = owner.get(name.replace("_", "-"), missing)
        if entry is missing and name.count("_") > 1:
            spend(len(owner))
            return next((owner[key] for key in owner if str(key).replace("-", "_") == name), missing)
    return entry


def lookup_item(owner: Any, key: Any) -> Any:
    """Return `owner[key]` of a mapping, list or text, or ABSENT if it does not exist."""
    if not isinstance(owner, Mapping) and not (isinstance(owner, (list, tuple, str)) and type(key) is int):
        return ABSENT
    try:
        return owner[key]
    except LookupError:
        return ABSENT
    except TypeError:
        raise TemplateError(f"{describe_kind(key)} cannot be a key") from None


def lookup_path(owner: Any, path: Any) -> Any:
    """Return the item at a dotted path, such as the `attribute` of a filter."""
    if not isinstance(path, (str, int)):
        raise TemplateError(f"{describe_kind(path)} is not the name of a field")
    parts = str(path).split(".")
    spend(len(parts))
    for part in parts:
        owner = lookup_item(owner, int(part)) if part.isdecimal() else lookup_name(owner, part)
    return Absent(f"….{path}") if owner is ABSENT else owner


def slice_value(owner: Any, *bounds: Any) -> Any:
    """Return a slice of a list or text."""
    if not isinstance(owner, (list, tuple, str)):
        raise TemplateError(f"{describe_kind(owner)} cannot be sliced", "only a list or a text can be sliced")
    spend(handling_cost(owner))
    start, stop, step = (None if bound is None else to_integer(bound) for bound in bounds)
    if step == 0:
        raise TemplateError("a slice cannot have the step 0")
    return owner[start:stop:step]


# Operators

_OPERATORS: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "//": operator.floordiv,
    "%": operator.mod,
}


def compute(sign: str, left: Any, right: Any) -> Any:
    """Apply an operator to two numbers. `+` also joins two texts or two lists."""
    if sign == "+" and isinstance(left, str) and isinstance(right, str):
        return join_texts((left, right))
    if sign == "+" and isinstance(left, (list, tuple)) and isinstance(right, (list, tuple)):
        spend(len(left) + len(right))
        return [*left, *right]
    for side in (left, right):
        if isinstance(side, Absent):
            raise TemplateError(
                side.explanation, f"`{sign}` needs two values; give the absent one a `default`, or write `(x or [])`"
            )
    if not isinstance(left, (int, float)) or not isinstance(right, (int, float)):
        raise TemplateError(
            f"`{sign}` cannot take {describe_kind(left)} and {describe_kind(right)}", "`~` joins values into a text"
        )
    try:
        return check_number_size(_OPERATORS[sign](left, right))
    except ArithmeticError as error:
        raise TemplateError(f"this cannot be computed: {error}", "for a division, write `x // (y or 1)`") from None


def check_number_size(value: Any) -> Any:
    """Return the value unchanged. Raises TemplateError if it is a number that is too large."""
    if isinstance(value, (int, float)) and not -MAX_NUMBER <= value <= MAX_NUMBER:
        raise TemplateError("the number is too large")
    return value


def compare(left: Any, sign: str, right: Any) -> bool:
    """Whether a comparison is true. `sign` is Jinja's name of the operator, such as `lteq`."""
    if isinstance(left, Absent) or isinstance(right, Absent):
        return False
    if sign in ("in", "notin"):
        return _contains(right, left) is (sign == "in")
    if isinstance(left, str) and isinstance(right, str):
        spend(min(len(left), len(right)) >> 10)  # a fraction of `handling_cost`
    elif isinstance(left, CONTAINERS) and isinstance(right, CONTAINERS):
        spend_on_values(left, right)
    try:
        return bool(getattr(operator, {"lteq": "le", "gteq": "ge"}.get(sign, sign))(left, right))
    except TypeError:
        raise TemplateError(f"{describe_kind(left)} cannot be compared with {describe_kind(right)}") from None


def _contains(container: Any, value: Any) -> bool:
    spend(handling_cost(container))
    if isinstance(container, str):
        if not isinstance(value, str):
            raise TemplateError(f"{describe_kind(value)} cannot be in a text")
        return value in container
    if isinstance(value, CONTAINERS):
        spend_on_values(container, value)
    elif isinstance(container, Mapping):
        return value in container
    elif isinstance(value, str):
        spend(len(container) * (len(value) >> 10))
    return any(value == other for other in to_list(container))


# Output


def to_text(value: Any) -> str:
    """Return a value as text. Raises TemplateError for absent values and null.

    Whole numbers have no decimal point, other numbers have at most two decimals, and lists and mappings become JSON.
    """
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and not math.isfinite(value):
        raise TemplateError("the number is too large")
    if isinstance(value, float) and not value.is_integer():
        return f"{round(value, 2) + 0.0:.2f}".rstrip("0").rstrip(".")
    if isinstance(value, (int, float)):
        return str(int(value))
    if isinstance(value, Absent):
        raise TemplateError(value.explanation, "print it inside `{% if … %}`, or give it a `default`")
    if isinstance(value, CONTAINERS):
        return to_json(value)
    raise TemplateError(f"{describe_kind(value)} cannot be printed", "give it a `default`" if value is None else "")


def join_texts(parts: Iterable[Any], between: str = "") -> str:
    """Convert the parts to text and join them with the separator `between`."""
    texts = [to_text(part) for part in parts]
    spend_on_text(sum(map(len, texts)) + len(between) * len(texts))
    return between.join(texts)


def to_json(value: Any, indent: int | None = None) -> str:
    """Return the value as JSON without needless escapes. Absent items are left out, and keys keep their order."""
    values = drop_absent(value)
    characters, waiting = 0, [(values, 1)]  # the minimum length is charged before the JSON is built
    while waiting and characters <= MAX_TEXT:
        part, depth = waiting.pop()
        if isinstance(part, (list, dict)):
            characters += 2 + len(part) * (1 + depth * (indent or 0))
            waiting += [(member, depth + 1) for member in (part.values() if isinstance(part, dict) else part)]
            characters += sum(2 + len(key) for key in part if isinstance(key, str)) if isinstance(part, dict) else 0
        else:
            characters += 2 + len(part) if isinstance(part, str) else 1
    spend_on_text(characters)
    return json.dumps(values, ensure_ascii=False, indent=indent)


def drop_absent(value: Any) -> Any:
    """Return the value as plain data. Absent items of lists and mappings are left out. An absent value stays absent."""
    if isinstance(value, CONTAINERS):
        spend_on_values(value)
        return _drop_nested_absent(value)
    if value is None or isinstance(value, (str, int, float, Absent)):
        return value
    raise TemplateError(f"{describe_kind(value)} cannot be the value of an expression")


def _drop_nested_absent(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return [_drop_nested_absent(member) for member in value if not isinstance(member, Absent)]
    if isinstance(value, Mapping):
        return {key: _drop_nested_absent(member) for key, member in value.items() if not isinstance(member, Absent)}
    return value
