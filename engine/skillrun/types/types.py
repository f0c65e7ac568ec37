"""What a value is, as an author declares it and as far as the files tell: types, and how they come together.

One is read from the notation of shapes by `picoschema`, and goes to and from JSON Schema in `converting`. Knows nothing
of expressions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final, Literal, NamedTuple, Protocol

from skillrun.syntax.source import Text

Names = Mapping[str, Any]
Path = tuple[str, ...]


class Fact(NamedTuple):
    """Something that holds: what stands at a path is there, a condition is true, or something has happened.

    A condition is an expression as its tree writes itself, the same for the same one wherever it stands.
    """

    path: Path = ()
    condition: str = ""
    event: str = ""


Facts = frozenset[Fact]
NOTHING: Final[Facts] = frozenset()
NEVER: Final[Facts] = frozenset({Fact(event="nothing proves it")})

Kind = Literal["any", "none", "text", "number", "boolean", "list", "record", "map"]
Form = Literal["", "integer", "path", "slug", "model", "member"]
WORDS: Final[Mapping[Kind, str]] = {
    "any": "any", "none": "any", "text": "string", "number": "number", "boolean": "boolean", "list": "array",
    "record": "object", "map": "object",
}  # fmt: skip
"""The kinds in the notation of shapes, and in JSON Schema."""
MAX_PARTS: Final = 10_000  # of a value that files put together: values share parts, so that few lines make many
MAX_MERGES: Final = 200  # of types inside types that come together; what has more can be anything
NO_FIELDS: Final[Mapping[str, Any]] = MappingProxyType({})


class Late(Protocol):
    """A text that is known when it is rendered."""

    @property
    def text(self) -> Text:
        """As it is written."""
        ...

    @property
    def constant(self) -> bool:
        """Whether there is nothing in it to render."""
        ...

    def render(self, names: Names) -> Any:
        """The value that it gives."""
        ...

    def render_text(self, names: Names) -> str:
        """The text that it gives."""
        ...


class Type(NamedTuple):
    """What a value is. It is absent `unless` all of these facts hold; None means that it is always there.

    A record has the fields it has; a map has any key, a list any index, both with values of the type `item`. `values`
    are all that it can be, where that is known; where they are `tunable` they come from config and may change. A number
    lies within its `bounds`. A list that is `filled` has an item. `label` is where it stands, or what it is called.

    As it is declared, it may have a `form`, the word for what more is asked of a text or number, a `length`, and a
    description (`about`); a template may give some of its values or, as `choices`, all of them.
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
    length: tuple[int, int] | None = None  # the least and the most: characters of a text, items of a list
    choices: Late | None = None
    about: Late | None = None

    @property
    def called(self) -> str:
        """Its label as authors write it."""
        return ".".join(self.label).replace(".[]", "[]")

    @property
    def word(self) -> str:
        """Its name in the notation of shapes."""
        return "enum" if self.values is not None or self.choices is not None else self.form or WORDS[self.kind]

    def maybe(self, unless: Facts = NEVER) -> Type:
        return self._replace(unless=(self.unless or NOTHING) | unless)

    def present(self) -> Type:
        return self if self.unless is None else self._replace(unless=None)


ANY: Final = Type()
NONE: Final = Type("none")  # of what is not there: an item of an empty list, what no pass has left behind
TEXT: Final = Type("text")
NUMBER: Final = Type("number")
BOOLEAN: Final = Type("boolean")
INTEGER: Final = Type("number", form="integer")


def identifier(name: str) -> str:
    """A name as expressions write it."""
    return name.replace("-", "_")


def record(fields: Mapping[str, Type], label: str | Path = (), values: tuple[Any, ...] | None = None) -> Type:
    """A record as expressions see it; its label may be written with dots."""
    where = tuple(label.split(".")) if isinstance(label, str) else label
    return Type("record", {identifier(name): type_ for name, type_ in fields.items()}, label=where, values=values)


def list_of(item: Type, *, filled: bool = False) -> Type:
    return Type("list", item=item, filled=filled)


def map_of(item: Type) -> Type:
    return Type("map", item=item)


def merged(types: Iterable[Type]) -> Type:
    """The type of a value that is one of `types`: a record has every field that one of them has."""
    everything = list(types)
    if len(everything) < 2 or (len(everything) == 2 and everything[0] is everything[1]):
        return everything[0] if everything else NONE
    try:
        return _merged(everything, {})
    except _TooManyError:
        return ANY._replace(unless=NOTHING.union(*(type_.unless or NOTHING for type_ in everything)) or None)


class _TooManyError(Exception):
    """More types come together than anybody has written."""


def _merged(types: list[Type], done: dict[tuple[int, ...], Type]) -> Type:
    """As `merged`; what several types share is looked at once, and `done` has what has been: types are graphs."""
    everything = list({id(type_): type_ for type_ in types}.values())
    several = [type_ for type_ in everything if type_.kind != "none"] or everything[:1]
    if len(several) < 2:
        return several[0] if several else NONE
    key = tuple(map(id, several))
    if key not in done:
        if len(done) == MAX_MERGES:
            raise _TooManyError
        done[key] = ANY  # it counts from the beginning
        done[key] = _of_several(several, done)
    return done[key]


def _of_several(several: list[Type], done: dict[tuple[int, ...], Type]) -> Type:
    first = several[0]
    absent = [type_.unless for type_ in several if type_.unless is not None]
    known = all(type_.values is not None for type_ in several)
    together = Type(
        unless=NOTHING.union(*absent) if absent else None,
        values=distinct(value for type_ in several for value in type_.values or ()) if known else None,
        tunable=any(type_.tunable for type_ in several),
        filled=all(type_.filled for type_ in several),
        bounds=_around(several),
    )
    if any(type_.kind != first.kind for type_ in several):
        return together
    if first.kind == "record":
        return together._replace(kind="record", fields=_common(several, done), label=first.label)
    items = [type_.item for type_ in several if type_.item is not None]
    return together._replace(kind=first.kind, item=_merged(items, done) if items else None)


def _around(numbers: list[Type]) -> tuple[float, float] | None:
    """The range that holds those of all; None where one of them has none."""
    ranges = [type_.bounds for type_ in numbers if type_.bounds is not None]
    if len(ranges) < len(numbers):
        return None
    return min(least for least, _ in ranges), max(most for _, most in ranges)


def _common(records: list[Type], done: dict[tuple[int, ...], Type]) -> dict[str, Type]:
    """The fields of one of several records; a field is absent unless those that lack it are to have it."""
    given: dict[str, list[tuple[Path, Type]]] = {}  # by name, the label of each record that has it, and the field there
    for type_ in records:
        for name, field in type_.fields.items():
            given.setdefault(name, []).append((type_.label, field))
    labels = Counter(type_.label for type_ in records)
    fields = {}
    for name, having_it in given.items():
        field = _merged([type_ for _, type_ in having_it], done)
        if len(having_it) < len(records):
            having = Counter(label for label, _ in having_it)
            field = field.maybe(frozenset(Fact((*label, name)) for label in labels if having[label] < labels[label]))
        fields[name] = field
    return fields


def distinct(values: Iterable[Any]) -> tuple[Any, ...]:
    """The values without repetitions of the same one."""
    kept: dict[tuple[Any, ...], Any] = {}
    for value in values:
        kept[(type(value), value) if isinstance(value, str | int | float) else (id(value),)] = value
    return tuple(kept.values())


def known(value: Any) -> tuple[Any, ...] | None:
    """A value as the only one that something can be; None when it has too many parts to be looked at."""
    left, waiting = MAX_PARTS, [value]
    while waiting:
        part = waiting.pop()
        parts = part if isinstance(part, list) else part.values() if isinstance(part, Mapping) else ()
        left -= 1 + len(parts)
        if left < 0:
            return None
        waiting += parts
    return (value,)


def of_value(value: Any, label: Path = (), *, tunable: bool = False) -> Type:
    """The type of plain data, such as merged configuration."""
    if isinstance(value, Mapping):
        fields = {str(key): of_value(part, (*label, str(key)), tunable=tunable) for key, part in value.items()}
        return record(fields, label, (value,))._replace(tunable=tunable)
    kind: Kind = "any"
    item = None
    match value:
        case list():
            kind, item = "list", merged(of_value(part, (*label, "[]"), tunable=tunable) for part in value)
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


def declared_at(type_: Type, label: Path) -> Type:
    """A declared type as expressions see it where it stands: what a template gives of it is not known."""
    match type_.kind:
        case "record":
            fields = {name: declared_at(inner, (*label, name)) for name, inner in type_.fields.items()}
            return record(fields, label)._replace(unless=type_.unless)
        case "list" if type_.item is not None:
            return type_._replace(item=declared_at(type_.item, (*label, "[]")))
    late = any(not isinstance(value, str | int | float) for value in type_.values or ())
    return type_._replace(values=None) if late else type_


def one_of(choices: Iterable[Any], *, tunable: bool = False) -> Type:
    """The type of what is one of some texts or numbers."""
    values = tuple(choices)
    kind: Kind = "any"
    if all(isinstance(choice, str) for choice in values):
        kind = "text"
    elif all(isinstance(choice, int | float) and not isinstance(choice, bool) for choice in values):
        kind = "number"
    return Type(kind, values=values, tunable=tunable)
