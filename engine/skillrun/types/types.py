"""The types of values that authors declare or the checker infers, and the union of types.

`picoschema` parses types from the shape notation, and `json_schema` converts them to and from JSON Schema. This module
does not know expressions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

if TYPE_CHECKING:
    from skillrun.templates.expressions import Template

Names = Mapping[str, Any]
Path = tuple[str, ...]


class Fact(NamedTuple):
    """A known fact: the value at a path is present, a condition is true, or an event has occurred.

    `condition` is a normalized expression: conditions that differ only in notation are equal.
    """

    path: Path = ()
    condition: str = ""
    event: str = ""


Facts = frozenset[Fact]
NO_FACTS: Final[Facts] = frozenset()
NEVER_TRUE: Final[Facts] = frozenset({Fact(event="nothing proves it")})

Kind = Literal["any", "none", "text", "number", "boolean", "list", "record", "map"]
Form = Literal["", "integer", "path", "slug", "model", "member"]
WORDS: Final[Mapping[Kind, str]] = {
    "any": "any", "none": "any", "text": "string", "number": "number", "boolean": "boolean", "list": "array",
    "record": "object", "map": "object",
}  # fmt: skip
"""The names of the kinds in the shape notation and in JSON Schema."""
MAX_PARTS: Final = 10_000  # per value from a file; a few lines can create many parts, because values share parts
MAX_MERGES: Final = 200  # merges of nested types per union; a union that needs more becomes `any`
NO_FIELDS: Final[Mapping[str, Any]] = MappingProxyType({})


class Type(NamedTuple):
    """The type of a value.

    If `unless` is None, the value is always present. If `unless` is a set of facts, the value is certainly present only
    when all facts hold. A record has the fields `fields`. A list or map has values of the type `item`. `values` holds
    all possible values, if they are known. `tunable` is set if the values come from config and may change. A number is
    within `bounds`. A `filled` list has at least one item. `label` is the path or name of the value.

    A declared type may have a `form` that restricts a text or number further, a `length`, and a description (`about`).
    An enum may have templates among its `values`, or one template `choices` that yields all values.
    """

    kind: Kind = "any"
    fields: Mapping[str, Type] = NO_FIELDS
    item: Type | None = None
    label: Path = ()
    unless: Facts | None = None
    values: tuple[Any, ...] | None = None
    tunable: bool = False
    filled: bool = False
    bounds: tuple[float, float] | None = None
    form: Form = ""
    length: tuple[int, int] | None = None  # the minimum and maximum, in characters of a text or items of a list
    choices: Template | None = None
    about: Template | None = None

    @property
    def display_name(self) -> str:
        """The label in the notation that authors use, such as `inputs.items[]`."""
        return ".".join(self.label).replace(".[]", "[]")

    @property
    def word(self) -> str:
        """The name of the type in the shape notation."""
        return "enum" if self.values is not None or self.choices is not None else self.form or WORDS[self.kind]

    def maybe(self, unless: Facts = NEVER_TRUE) -> Type:
        return self._replace(unless=(self.unless or NO_FACTS) | unless)

    def present(self) -> Type:
        return self if self.unless is None else self._replace(unless=None)


ANY: Final = Type()
NONE: Final = Type("none")  # an absent value: an item of an empty list, or the result of a pass that did not run
TEXT: Final = Type("text")
NUMBER: Final = Type("number")
BOOLEAN: Final = Type("boolean")
INTEGER: Final = Type("number", form="integer")


def identifier(name: str) -> str:
    """Return the name as expressions write it, with `_` for `-`."""
    return name.replace("-", "_")


def record(fields: Mapping[str, Type], label: str | Path = (), values: tuple[Any, ...] | None = None) -> Type:
    """Return the type of a record. Field names are converted by `identifier`. A text as `label` is split at dots."""
    where = tuple(label.split(".")) if isinstance(label, str) else label
    return Type("record", {identifier(name): type_ for name, type_ in fields.items()}, label=where, values=values)


def list_of(item: Type, *, filled: bool = False) -> Type:
    return Type("list", item=item, filled=filled)


def map_of(item: Type) -> Type:
    return Type("map", item=item)


def merge_types(types: Iterable[Type]) -> Type:
    """Return the union of the types. The union of records has each field that occurs in at least one of the records."""
    everything = list(types)
    if len(everything) < 2 or (len(everything) == 2 and everything[0] is everything[1]):
        return everything[0] if everything else NONE
    try:
        return _merge_types(everything, {})
    except _TooManyError:
        return ANY._replace(unless=NO_FACTS.union(*(type_.unless or NO_FACTS for type_ in everything)) or None)


class _TooManyError(Exception):
    """Raised if a union needs more than MAX_MERGES merges."""


def _merge_types(types: list[Type], done: dict[tuple[int, ...], Type]) -> Type:
    """Return the union of the types.

    `done` holds the finished merges. A part that several types share is merged only once.
    """
    everything = list({id(type_): type_ for type_ in types}.values())
    present_types = [type_ for type_ in everything if type_.kind != "none"] or everything[:1]
    if len(present_types) < 2:
        return present_types[0] if present_types else NONE
    key = tuple(map(id, present_types))
    if key not in done:
        if len(done) == MAX_MERGES:
            raise _TooManyError
        done[key] = ANY  # count this merge before its nested merges
        done[key] = _build_union(present_types, done)
    return done[key]


def _build_union(types: list[Type], done: dict[tuple[int, ...], Type]) -> Type:
    first = types[0]
    absent = [type_.unless for type_ in types if type_.unless is not None]
    known = all(type_.values is not None for type_ in types)
    ranges = [type_.bounds for type_ in types if type_.bounds is not None]
    all_have_ranges = len(ranges) == len(types)
    union = Type(
        unless=NO_FACTS.union(*absent) if absent else None,
        values=distinct(value for type_ in types for value in type_.values or ()) if known else None,
        tunable=any(type_.tunable for type_ in types),
        filled=all(type_.filled for type_ in types),
        bounds=(min(least for least, _ in ranges), max(most for _, most in ranges)) if all_have_ranges else None,
    )
    if any(type_.kind != first.kind for type_ in types):
        return union
    if first.kind != "record":
        items = [type_.item for type_ in types if type_.item is not None]
        return union._replace(kind=first.kind, item=_merge_types(items, done) if items else None)
    owners_by_field: dict[str, list[Type]] = {}
    for type_ in types:
        for name in type_.fields:
            owners_by_field.setdefault(name, []).append(type_)
    labels = Counter(type_.label for type_ in types)
    fields = {}
    for name, owners in owners_by_field.items():
        field = _merge_types([type_.fields[name] for type_ in owners], done)
        if len(owners) < len(types):
            owner_labels = Counter(type_.label for type_ in owners)
            # a field that some of the records lack may be absent
            lacking = [label for label in labels if owner_labels[label] < labels[label]]
            field = field.maybe(frozenset(Fact((*label, name)) for label in lacking))
        fields[name] = field
    return union._replace(kind="record", fields=fields, label=first.label)


def distinct(values: Iterable[Any]) -> tuple[Any, ...]:
    """Return the values without duplicates. Lists and mappings are compared by identity."""
    kept: dict[tuple[Any, ...], Any] = {}
    for value in values:
        kept[(type(value), value) if isinstance(value, str | int | float) else (id(value),)] = value
    return tuple(kept.values())


def single_value(value: Any) -> tuple[Any, ...] | None:
    """Return the value as the only item of a tuple, or None if it has too many parts to compare."""
    remaining, pending = MAX_PARTS, [value]
    while pending:
        part = pending.pop()
        parts = part if isinstance(part, list) else part.values() if isinstance(part, Mapping) else ()
        remaining -= 1 + len(parts)
        if remaining < 0:
            return None
        pending += parts
    return (value,)


def infer_type(value: Any, label: Path = (), *, tunable: bool = False) -> Type:
    """Return the type of plain data, such as merged configuration."""
    if isinstance(value, Mapping):
        fields = {str(key): infer_type(part, (*label, str(key)), tunable=tunable) for key, part in value.items()}
        return record(fields, label, (value,))._replace(tunable=tunable)
    kind: Kind = "any"
    item = None
    match value:
        case list():
            kind, item = "list", merge_types(infer_type(part, (*label, "[]"), tunable=tunable) for part in value)
        case bool():
            kind = "boolean"
        case int() | float():
            kind = "number"
        case str():
            kind = "text"
        case _:
            return ANY
    return Type(
        kind, item=item, values=(value,), tunable=tunable, filled=kind == "list" and not tunable and bool(value)
    )


def label_type(type_: Type, label: Path) -> Type:
    """Return a declared type for use in expressions, with the path `label`. Values from templates become unknown."""
    match type_.kind:
        case "record":
            fields = {name: label_type(inner, (*label, name)) for name, inner in type_.fields.items()}
            return record(fields, label)._replace(unless=type_.unless)
        case "list" if type_.item is not None:
            return type_._replace(item=label_type(type_.item, (*label, "[]")))
    has_templates = any(not isinstance(value, str | int | float) for value in type_.values or ())
    return type_._replace(values=None) if has_templates else type_


def one_of(choices: Iterable[Any], *, tunable: bool = False) -> Type:
    """Return the type of a value that is one of several texts or numbers."""
    values = tuple(choices)
    kind: Kind = "any"
    if all(isinstance(choice, str) for choice in values):
        kind = "text"
    elif all(isinstance(choice, int | float) and not isinstance(choice, bool) for choice in values):
        kind = "number"
    return Type(kind, values=values, tunable=tunable)
