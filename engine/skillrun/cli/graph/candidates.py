"""Determines from the files alone which members, protocols and values an expression can have."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice, product
from typing import Any, Final

from jinja2 import nodes

from skillrun.definitions.definitions import Phase, Step, Workflow
from skillrun.library.library import Library
from skillrun.library.lookups import Settings
from skillrun.scoring.overlap import iterate_texts
from skillrun.templates.expressions import Value
from skillrun.types.fields import MEMBER
from skillrun.types.types import identifier

MAX_VALUES: Final = 40  # values of one expression; more do not fit in a picture
MAX_DEPTH: Final = 40  # levels of nested expressions and names
MAX_EVALUATIONS: Final = 5_000  # expressions evaluated for one value
SELECTING_FILTERS: Final = frozenset(
    {"default", "first", "last", "top", "list", "unique", "reverse", "sort", "select", "reject"}
)
"""Filters whose result consists of items of their input."""


class Candidates:
    """The values that expressions of a workflow can have, according to its config, defaults and steps.

    Values that only a run knows (inputs, replies, answers) are missing, so the result may be incomplete.
    """

    def __init__(self, workflow: Workflow, library: Library, settings: Settings, phases: Iterable[Phase]) -> None:
        self._library = library
        self._configs = [settings.data or {}, *settings.modes.values()]
        fields = [*(("inputs", field) for field in workflow.inputs), *(("state", field) for field in workflow.state)]
        known = [(f"{owner}.{identifier(field.name)}", field.default) for owner, field in fields]
        known += [(f"state.{name}", value) for phase in phases for name, value in _assignments(phase.walk())]
        self._global = [(name, value) for name, value in known if value is not None]
        self._known: dict[str, list[Value]] = {}  # the values of names, and of fields such as `state.x`
        self._work = 0

    def enter_phase(self, phase: Phase | None) -> None:
        """From now on, resolve local names in this phase."""
        steps = list(phase.walk()) if phase is not None else []
        decisions = {identifier(step.id): step for step in steps if step.verb == "decide" and step.id}
        results = [(f"{name}.value", value) for name, step in decisions.items() for value in _results(step)]
        known: defaultdict[str, list[Value]] = defaultdict(list)
        for name, value in (*self._global, *_assignments(steps), *results):
            known[name].append(value)
        self._known = dict(known)

    def members(self, value: Value | None) -> tuple[tuple[str, ...], bool]:
        """Return the possible members, and whether they are exact because they are literal."""

        def has_role(member: str) -> bool:
            match = MEMBER.fullmatch(member)
            return match is not None and self._library.role(match["role"]) is not None

        return self._names(value, has_role)

    def protocols(self, value: Value | None) -> tuple[tuple[str, ...], bool]:
        """Return the possible protocols, and whether they are exact because they are literal."""
        return self._names(value, lambda name: self._library.locate(f"skills/protocols/{name}.md") is not None)

    def _names(self, value: Value | None, exists: Callable[[str], bool]) -> tuple[tuple[str, ...], bool]:
        if value is None:
            return (), True
        if not value.is_computed:
            return tuple(iterate_texts(value.literal)), True
        texts = (text for found in self.values_of(value) for text in iterate_texts(found))
        return tuple(dict.fromkeys(filter(exists, texts))), False

    def outcomes(self, step: Step) -> tuple[tuple[str, ...], bool]:
        """Return the possible results of a decision, and whether the list is complete."""
        found = [self.values_of(value) for value in _results(step)]
        known = (str(value) for values in found for value in values if isinstance(value, str | int))
        return tuple(dict.fromkeys(known)), all(found)

    def values_of(self, value: Value) -> list[Any]:
        """Return the values that a YAML value can have."""
        self._work = 0
        return self._values_of(value, 0)

    def _values_of(self, value: Value, depth: int) -> list[Any]:
        if value.items is not None:
            return [[item for entry in value.items for item in self._values_of(entry, depth)]]
        if value.entries is not None:
            return [{name: next(iter(self._values_of(entry, depth)), None) for name, entry in value.entries.items()}]
        if value.template is None:
            return [] if value.plain is None else [value.plain]
        template = value.template
        if template.is_constant:
            return [template.text.value]
        if template.expression is not None:
            return self._values(template.expression, depth)
        match template.tree.body:
            case [nodes.Output(nodes=parts)]:
                texts = ([value for value in self._values(part, depth) if isinstance(value, str)] for part in parts)
                return ["".join(words) for words in islice(product(*texts), MAX_VALUES)]
        return []

    def _values(self, node: nodes.Node | None, depth: int) -> list[Any]:
        self._work += 1
        unique: list[Any] = []
        if depth < MAX_DEPTH and self._work <= MAX_EVALUATIONS:
            for value in self._evaluate(node, depth + 1):
                if value not in unique:
                    unique.append(value)
                if len(unique) == MAX_VALUES:
                    break
        return unique

    def _evaluate(self, node: nodes.Node | None, depth: int) -> Iterator[Any]:
        match node:
            case nodes.Const(value=value) if value is not None:
                yield value
            case nodes.TemplateData(data=text):
                yield text
            case nodes.List(items=items):
                yield [value for item in items for value in self._values(item, depth)]
            case nodes.Name(name="config"):
                yield from self._configs
            case nodes.Name(name=name):
                yield from (each for value in self._known.get(name, ()) for each in self._values_of(value, depth))
            case nodes.Getattr(node=nodes.Name(name=owner), attr=field) if (
                f"{owner}.{identifier(field)}" in self._known
            ):
                known = self._known[f"{owner}.{identifier(field)}"]
                yield from (each for value in known for each in self._values_of(value, depth))
            case nodes.Getattr(node=owner, attr=attribute):
                yield from _items(self._values(owner, depth), [attribute])
            case nodes.Getitem(node=owner, arg=key):
                yield from _items(self._values(owner, depth), self._values(key, depth))
            case _:
                yield from self._evaluate_operator(node, depth)

    def _evaluate_operator(self, node: nodes.Node | None, depth: int) -> Iterator[Any]:
        """Yield the values of an expression that selects or combines the values of other expressions."""
        match node:
            case nodes.Or(left=left, right=right) | nodes.CondExpr(expr1=left, expr2=right):
                yield from (*self._values(left, depth), *self._values(right, depth))
            case nodes.Add(left=left, right=right):
                for first, other in product(self._values(left, depth), self._values(right, depth)):
                    if type(first) is type(other) and isinstance(first, int | list):
                        yield first + other
            case nodes.Filter(node=inner, name=name, args=arguments) if name in SELECTING_FILTERS:
                yield from self._values(inner, depth)
                if name == "default" and arguments:
                    yield from self._values(arguments[0], depth)


def _results(step: Step) -> list[Value]:
    """Return the values that the rows of a decision can give it."""
    return [value for row in step.rows for value in (row.then, row.at_least) if value is not None]


def _assignments(steps: Iterable[Step]) -> Iterator[tuple[str, Value]]:
    """Yield the names that `set` steps assign, with their values."""
    for step in steps:
        if step.verb == "set" and step.main is not None:
            yield from ((identifier(name), value) for name, value in (step.main.entries or {}).items())


def _items(owners: Iterable[Any], keys: Iterable[Any]) -> Iterator[Any]:
    """Yield the items of `owners` at `keys`. If no key is known, yield every item."""
    wanted = {identifier(key) if isinstance(key, str) else key for key in keys if isinstance(key, str | int)}
    for owner in owners:
        if isinstance(owner, Mapping):
            yield from (value for key, value in owner.items() if not wanted or identifier(str(key)) in wanted)
        elif isinstance(owner, list):
            yield from (value for at, value in enumerate(owner) if not wanted or at in wanted)
