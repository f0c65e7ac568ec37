"""What a template expression can yield: types, inferred from the syntax tree without running anything.

Finds names that nothing defines, and values printed into text that may be absent. Knows expressions and nothing of
workflows: `check` says which names there are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Final

from jinja2 import nodes

from skillrun.language.diagnostics import Problems, allowed, did_you_mean
from skillrun.language.expressions import Template

Facts = frozenset[str]
NOTHING: Final[Facts] = frozenset()
NEVER: Final[Facts] = frozenset({"nothing proves it"})


@dataclass(frozen=True)
class Type:
    """What a value is. `unless` names the facts under which it is present; None means that it always is.

    A record has the fields it has; a map has any key, a list any index, both with values of the type `item`.
    """

    kind: str = "any"  # any, text, number, boolean, list, record, map
    fields: Mapping[str, "Type"] = field(default_factory=lambda: MappingProxyType({}))
    item: "Type | None" = None
    label: str = ""
    unless: Facts | None = None
    values: tuple[Any, ...] | None = None  # every value it can take, where that is known

    def maybe(self, unless: Facts = NEVER) -> Type:
        return replace(self, unless=(self.unless or NOTHING) | unless)

    def present(self) -> Type:
        return self if self.unless is None else replace(self, unless=None)


ANY: Final = Type()
TEXT: Final = Type("text")
NUMBER: Final = Type("number")
BOOLEAN: Final = Type("boolean")


def record(fields: Mapping[str, Type], label: str = "") -> Type:
    return Type("record", fields=fields, label=label)


def list_of(item: Type) -> Type:
    return Type("list", item=item)


def map_of(item: Type) -> Type:
    return Type("map", item=item)


def merged(types: Iterable[Type]) -> Type:
    """The type of a value that is one of `types`: a record has every field that one of them has."""
    several = list(types)
    if not several:
        return ANY
    first = several[0]
    unless: Facts | None = None
    for one in several:
        unless = one.unless if unless is None else unless | (one.unless or NOTHING)
    values = None
    if all(one.values is not None for one in several):
        values = tuple(value for one in several for value in one.values or ())
    if any(one.kind != first.kind for one in several):
        return Type(unless=unless, values=values)
    if first.kind == "record":
        names = list(dict.fromkeys(name for one in several for name in one.fields))
        fields = {}
        for name in names:
            having = [one.fields[name] for one in several if name in one.fields]
            one_type = merged(having)
            fields[name] = one_type if len(having) == len(several) else one_type.maybe()
        return Type("record", fields, label=first.label, unless=unless)
    items = [one.item for one in several if one.item is not None]
    return Type(first.kind, item=merged(items) if items else None, unless=unless, values=values)


def of_value(value: Any, label: str) -> Type:
    """The type of plain data, such as merged configuration."""
    if isinstance(value, Mapping):
        return record({str(k): of_value(v, f"{label}.{k}") for k, v in value.items()}, label)
    if isinstance(value, list):
        item = merged(of_value(v, f"{label}[]") for v in value) if value else ANY
        return Type("list", item=item, values=(value,))
    if isinstance(value, bool):
        return Type("boolean", values=(value,))
    if isinstance(value, int | float):
        return Type("number", values=(value,))
    return Type("text", values=(value,)) if isinstance(value, str) else ANY


def of_schema(schema: Mapping[str, Any], label: str) -> Type:
    """The type of data that a JSON Schema describes; what is not required may be absent."""
    kind = schema.get("type")
    if kind == "object":
        required = schema.get("required", ())
        fields = {
            name: (one := of_schema(sub, f"{label}.{name}")) if name in required else one.maybe()
            if (one := of_schema(sub, f"{label}.{name}"))
            else ANY
            for name, sub in schema.get("properties", {}).items()
        }
        return record(fields, label) if fields else ANY
    if kind == "array":
        return list_of(of_schema(schema.get("items", {}), f"{label}[]"))
    names = {"string": TEXT, "integer": NUMBER, "number": NUMBER, "boolean": BOOLEAN}
    return names.get(str(kind), ANY)


def facts(condition: nodes.Node) -> Facts:
    """What is known when `condition` holds: paths that are present, and the condition itself."""
    if isinstance(condition, nodes.And):
        return facts(condition.left) | facts(condition.right)
    if isinstance(condition, nodes.Or):
        return (facts(condition.left) & facts(condition.right)) | {repr(condition)}
    known = {repr(condition)} | _paths(condition)
    if isinstance(condition, nodes.Compare):
        for side in (condition.expr, *(op.expr for op in condition.ops)):
            known |= _paths(side)
    elif isinstance(condition, nodes.Filter) and condition.node is not None:
        known |= facts(condition.node)
    elif isinstance(condition, nodes.Test) and condition.name == "defined":
        known |= _paths(condition.node)
    elif isinstance(condition, nodes.Not):
        known |= facts_of_failure(condition.node)
    return frozenset(known)


def facts_of_failure(condition: nodes.Node) -> Facts:
    """What is known when `condition` does not hold."""
    if isinstance(condition, nodes.Not):
        return facts(condition.node)
    if isinstance(condition, nodes.Or):
        return facts_of_failure(condition.left) | facts_of_failure(condition.right)
    return frozenset({repr(nodes.Not(condition))})


def _paths(node: nodes.Node) -> set[str]:
    """The path that `node` is, and each of its beginnings: all of them are present where it is."""
    found: set[str] = set()
    current: nodes.Node | None = node
    while isinstance(current, nodes.Getattr | nodes.Getitem | nodes.Name):
        found.add(repr(current))
        current = None if isinstance(current, nodes.Name) else current.node
    return found


class Inference:
    """Infers one template's types in a scope of names; findings go to `problems`."""

    def __init__(
        self,
        template: Template,
        names: Mapping[str, Type],
        known: Facts,
        problems: Problems,
        unknown: Callable[[str], str | None] = lambda _name: None,
    ) -> None:
        self.template = template
        self.names = dict(names)
        self.problems = problems
        self.unknown = unknown  # a better message for a missing field of a record with this label
        self.known: Facts = NOTHING
        self.learn(known)

    def result(self) -> Type:
        """The type of the whole: of the expression where it is a single one, otherwise text."""
        body = self.template.tree.body
        expression = self.template.expression
        if expression is not None:
            return self.infer(expression)
        self.statements(body)
        return TEXT

    def learn(self, new: Facts) -> None:
        """Add facts, and what follows from them: where a name is present, so is what it needed to be."""
        pending = set(new) - self.known
        self.known |= new
        if not pending:
            return
        for name, one in self.names.items():
            if one.unless and not one.unless <= self.known and repr(nodes.Name(name, "load")) in self.known:
                self.learn(one.unless - NEVER)

    def gained(self, condition: nodes.Node) -> Facts:
        """What is known where `condition` holds: its facts, and why the paths in it could have been absent."""
        new = facts(condition)
        for node in (condition, *condition.find_all((nodes.Getattr, nodes.Getitem))):
            if isinstance(node, nodes.Getattr | nodes.Getitem) and repr(node) in new:
                quiet = Inference(self.template, self.names, NOTHING, Problems())
                quiet.known = self.known
                new |= (quiet.infer(node).unless or NOTHING) - NEVER
        return new

    def holds(self, node: nodes.Node, one: Type) -> bool:
        return one.unless is None or repr(node) in self.known or (one.unless <= self.known)

    # statements

    def statements(self, body: Iterable[nodes.Node]) -> None:
        for node in body:
            if isinstance(node, nodes.Output):
                for part in node.nodes:
                    if not isinstance(part, nodes.TemplateData):
                        self.printed(part)
            elif isinstance(node, nodes.If):
                self.branches(node)
            elif isinstance(node, nodes.For):
                self.loop(node)
            elif isinstance(node, nodes.Assign) and isinstance(node.target, nodes.Name):
                self.names[node.target.name] = self.infer(node.node)
            elif isinstance(node, nodes.AssignBlock) and isinstance(node.target, nodes.Name):
                self.statements(node.body)
                self.names[node.target.name] = TEXT
            else:
                for child in node.iter_child_nodes():
                    if isinstance(child, nodes.Expr):
                        self.infer(child)
                    else:
                        self.statements([child])

    def printed(self, node: nodes.Node) -> None:
        one = self.infer(node)
        if not self.holds(node, one):
            self._report(node, "absent", f"`{shown(node)}` may be absent here", f"put it into `{{% if {shown(node)} %}}`, or give it a `default`")

    def branches(self, node: nodes.If) -> None:
        failed: Facts = NOTHING
        for branch in (node, *node.elif_):
            self.under(failed, lambda branch=branch: self.infer(branch.test))  # type: ignore[misc]
            self.under(failed | self.gained(branch.test), lambda branch=branch: self.statements(branch.body))  # type: ignore[misc]
            failed |= facts_of_failure(branch.test)
        self.under(failed, lambda: self.statements(node.else_))

    def under(self, new: Facts, act: Callable[[], Any]) -> Any:
        """Do `act` with more facts, and forget them again."""
        before = self.known
        self.learn(new)
        try:
            return act()
        finally:
            self.known = before

    def loop(self, node: nodes.For) -> None:
        items = self.infer(node.iter)
        outer = self.names
        self.names = dict(outer)
        self.names["loop"] = ANY
        item = items.item if items.kind == "list" and items.item is not None else ANY
        if isinstance(node.target, nodes.Name):
            self.names[node.target.name] = TEXT if items.kind in ("map", "record") else item
        else:
            for target in node.target.find_all(nodes.Name):
                self.names[target.name] = ANY
        new = NOTHING
        if node.test is not None:
            self.infer(node.test)
            new = self.gained(node.test)
        self.under(new | _paths(node.iter), lambda: self.statements(node.body))
        self.names = outer
        self.statements(node.else_)

    # expressions

    def infer(self, node: nodes.Node) -> Type:
        handler = _HANDLERS.get(type(node))
        if handler is not None:
            return handler(self, node)
        for child in node.iter_child_nodes():
            if isinstance(child, nodes.Expr):
                self.infer(child)
        return BOOLEAN if isinstance(node, nodes.Test) else ANY

    def name(self, node: nodes.Name) -> Type:
        one = self.names.get(node.name)
        if one is None:
            special = self.unknown(node.name)
            hint = special or did_you_mean(node.name, self.names) or allowed(sorted(self.names))
            self._report(node, "unknown-name", f"unknown name `{node.name}`", hint)
            return ANY
        return one.present() if self.holds(node, one) else one

    def look_up(self, node: nodes.Getattr | nodes.Getitem) -> Type:
        owner = self.infer(node.node)
        key = node.attr if isinstance(node, nodes.Getattr) else _constant(node.arg)
        if isinstance(node, nodes.Getitem) and key is None:
            self.infer(node.arg)
        found = self._field(node, owner, key)
        unless = owner.unless
        found = found if unless is None else found.maybe(unless)
        return found.present() if self.holds(node, found) else found

    def _field(self, node: nodes.Getattr | nodes.Getitem, owner: Type, key: Any) -> Type:
        if owner.kind == "record":
            if not isinstance(key, str):
                return merged(owner.fields.values())
            for name, one in owner.fields.items():
                if name == key or name.replace("-", "_") == key:
                    return one
            self._report(node, "unknown-field", *self._missing(owner, key))
            return ANY
        if owner.kind in ("map", "list") and owner.item is not None:
            if owner.kind == "list" and isinstance(key, str):
                self._report(node, "unknown-field", f"a list has no `{key}`", "use `| map(attribute=…)` or a `for`")
                return ANY
            if owner.kind == "list" and isinstance(node, nodes.Getitem) and isinstance(node.arg, nodes.Slice):
                return owner
            return owner.item.maybe()
        if owner.kind in ("text", "number", "boolean") and isinstance(key, str):
            self._report(node, "unknown-field", f"`{shown(node.node)}` is {_ARTICLE[owner.kind]}; it has no `{key}`")
        return ANY

    def _missing(self, owner: Type, key: str) -> tuple[str, str]:
        label = owner.label or "it"
        special = self.unknown(f"{label}.{key}")
        if special:
            return f"`{label}` has no `{key}` here", special
        names = [name.replace("-", "_") for name in owner.fields]
        return f"`{label}` has no `{key}`", did_you_mean(key, names) or (allowed(names) if names else "it has no fields")

    def constant(self, node: nodes.Const) -> Type:
        return of_value(node.value, "")

    def listing(self, node: nodes.List | nodes.Tuple) -> Type:
        items = [self.infer(item) for item in node.items]
        literal = [_constant(item) for item in node.items]
        values = (literal,) if all(one is not None for one in literal) else None
        return replace(list_of(merged(items) if items else ANY), values=values)

    def mapping(self, node: nodes.Dict) -> Type:
        fields = {str(_constant(pair.key)): self.infer(pair.value) for pair in node.items}
        return record(fields, "the mapping")

    def both(self, node: nodes.And) -> Type:
        left = self.infer(node.left)
        right: Type = self.under(self.gained(node.left), lambda: self.infer(node.right))
        return replace(merged([left, right]), unless=left.unless if left.unless is not None else right.unless)

    def either(self, node: nodes.Or) -> Type:
        left = self.infer(node.left)
        right: Type = self.under(facts_of_failure(node.left), lambda: self.infer(node.right))
        return replace(merged([left.present(), right]), unless=right.unless)

    def conditional(self, node: nodes.CondExpr) -> Type:
        self.infer(node.test)
        first: Type = self.under(self.gained(node.test), lambda: self.infer(node.expr1))
        if node.expr2 is None:
            return first.maybe(facts(node.test))
        second: Type = self.under(facts_of_failure(node.test), lambda: self.infer(node.expr2))  # type: ignore[arg-type]
        return merged([first, second])

    def sum(self, node: nodes.Add) -> Type:
        left, right = self.infer(node.left), self.infer(node.right)
        for side, one in ((node.left, left), (node.right, right)):
            if not self.holds(side, one):
                self._report(side, "absent", f"`{shown(side)}` may be absent here", "write `(… or [])`, or give it a `default`")
        return replace(merged([left, right]), values=None, unless=None)

    def concat(self, node: nodes.Concat) -> Type:
        for part in node.nodes:
            self.printed(part)
        return TEXT

    def call(self, node: nodes.Call) -> Type:
        arguments = [self.infer(argument) for argument in node.args]
        for keyword in node.kwargs:
            self.infer(keyword.value)
        name = node.node.name if isinstance(node.node, nodes.Name) else ""
        if name in _RESULTS:
            return _RESULTS[name](self, node.args[0] if node.args else node, arguments)
        if isinstance(node.node, nodes.Name):
            return ANY
        self.infer(node.node)
        return ANY

    def filter(self, node: nodes.Filter) -> Type:
        one = self.infer(node.node) if node.node is not None else TEXT
        arguments = [self.infer(argument) for argument in node.args]
        for keyword in node.kwargs:
            self.infer(keyword.value)
        rule = _RESULTS.get(node.name)
        if rule is not None and node.node is not None:
            return rule(self, node, [one, *arguments])
        return ANY

    def attribute(self, node: nodes.Node, items: Type, path: str) -> Type:
        """The field at `path` of a list's items, reported at `node` where no item can have it."""
        current = items.item if items.item is not None else ANY
        for key in path.split("."):
            if current.kind == "record":
                fields = {name.replace("-", "_"): one for name, one in current.fields.items()} | dict(current.fields)
                if key not in fields:
                    self._report(node, "unknown-field", *self._missing(current, key))
                    return ANY
                current = fields[key]
            else:
                return ANY
        return current

    def _report(self, node: nodes.Node, code: str, message: str, hint: str = "") -> None:
        self.problems.report(self.template.span(node), code, message, hint)


_ARTICLE: Final = {"text": "text", "number": "a number", "boolean": "true or false"}
Rule = Callable[[Inference, nodes.Node, list[Type]], Type]


def _keyword(node: nodes.Node, name: str) -> Any:
    for keyword in getattr(node, "kwargs", None) or ():
        if keyword.key == name:
            return _constant(keyword.value)
    return None


def _first_argument(node: nodes.Node) -> Any:
    arguments = getattr(node, "args", None) or ()
    return _constant(arguments[0]) if arguments else None


def _same(_: Inference, __: nodes.Node, types: list[Type]) -> Type:
    """The filters that keep what they are given, such as `sort`; an absent list becomes an empty one."""
    return replace(types[0], unless=None, values=None)


def _mapped(inference: Inference, node: nodes.Node, types: list[Type]) -> Type:
    attribute = _keyword(node, "attribute")
    if isinstance(attribute, str):
        return list_of(inference.attribute(node, types[0], attribute))
    if _first_argument(node) in ("last", "first"):
        return list_of(ANY)
    return list_of(ANY)


def _selected(inference: Inference, node: nodes.Node, types: list[Type]) -> Type:
    attribute = _first_argument(node)
    if isinstance(attribute, str):
        inference.attribute(node, types[0], attribute)
    return replace(types[0], unless=None, values=None)


def _one(inference: Inference, node: nodes.Node, types: list[Type]) -> Type:
    """`first`, `last`, `min`, `max`: absent for an empty list."""
    item = types[0].item or ANY
    source = node.node if isinstance(node, nodes.Filter) else node
    assert source is not None
    return item if repr(source) in inference.known else item.maybe(frozenset({repr(source)}))


def _summed(_: Inference, node: nodes.Node, types: list[Type]) -> Type:
    starts = any(keyword.key == "start" for keyword in getattr(node, "kwargs", ()))
    return (types[0].item or ANY).present() if starts else NUMBER


def _text(_: Inference, __: nodes.Node, types: list[Type]) -> Type:
    """The filters that turn text into text: nothing comes of an absent one."""
    return replace(TEXT, unless=types[0].unless)


def _default(_: Inference, __: nodes.Node, types: list[Type]) -> Type:
    return merged([types[0].present(), *types[1:2]])


def _mean(_: Inference, __: nodes.Node, types: list[Type]) -> Type:
    """A number for each numeric field of the records."""
    item = types[0].item if types[0].kind == "list" else types[0]
    if item is None or item.kind != "record":
        return map_of(NUMBER)
    return record({name: one for name, one in item.fields.items() if one.kind in ("number", "any")}, "the means")


def _always(one: Type) -> Rule:
    return lambda _inference, _node, _types: one


REPLY: Final = record(
    {"member": TEXT, "status": TEXT, "text": TEXT.maybe(), "data": ANY.maybe(), "reads": list_of(TEXT)}, "the reply"
)
QUESTION: Final = record(
    {
        "id": TEXT, "text": TEXT, "choices": list_of(ANY).maybe(), "multiple": BOOLEAN.maybe(), "priority": ANY.maybe(),
        "section": TEXT.maybe(), "notes": ANY.maybe(), "default": ANY.maybe(), "group": TEXT.maybe(),
    },
    "the question",
)  # fmt: skip
MEMBER: Final = record(
    {
        "id": TEXT, "role": TEXT, "variant": TEXT.maybe(), "lens": TEXT.maybe(), "model": TEXT, "lines": NUMBER,
        "skills": list_of(TEXT),
    },
    "member",
)  # fmt: skip
CONVERGENCE: Final = record(
    {
        "score": NUMBER, "ratio": ANY, "overlap": NUMBER, "stability": NUMBER, "level": TEXT, "agree": NUMBER,
        "disagree": NUMBER, "agree_words": list_of(TEXT), "disagree_words": list_of(TEXT),
    },
    "the convergence",
)  # fmt: skip

_RESULTS: Final[dict[str, Rule]] = {
    **dict.fromkeys(("sort", "unique", "dedupe", "top", "list", "reverse", "select", "reject"), _same),
    **dict.fromkeys(("selectattr", "rejectattr"), _selected),
    **dict.fromkeys(("first", "last", "min", "max"), _one),
    **dict.fromkeys(("clip", "untrusted", "lower", "upper", "title", "capitalize", "trim", "replace", "indent"), _text),
    **dict.fromkeys(("length", "count", "tokens", "overlap", "round", "int", "float", "abs"), _always(NUMBER)),
    **dict.fromkeys(("join", "string", "tojson", "format", "others", "slug"), _always(TEXT)),
    "default": _default,
    "map": _mapped,
    "sum": _summed,
    "section": _always(TEXT.maybe()),
    "matches": _always(map_of(list_of(TEXT))),
    "mean": _mean,
    "convergence": _always(CONVERGENCE.maybe()),
    "latest": _always(list_of(REPLY)),
    "bank": _always(list_of(QUESTION)),
    "members": _always(list_of(TEXT)),
    "dictsort": _always(list_of(ANY)),
    "items": _always(list_of(ANY)),
}

_HANDLERS: Final[dict[type, Callable[[Inference, Any], Type]]] = {
    nodes.Name: Inference.name,
    nodes.Getattr: Inference.look_up,
    nodes.Getitem: Inference.look_up,
    nodes.Const: Inference.constant,
    nodes.List: Inference.listing,
    nodes.Tuple: Inference.listing,
    nodes.Dict: Inference.mapping,
    nodes.And: Inference.both,
    nodes.Or: Inference.either,
    nodes.CondExpr: Inference.conditional,
    nodes.Add: Inference.sum,
    nodes.Concat: Inference.concat,
    nodes.Call: Inference.call,
    nodes.Filter: Inference.filter,
}


def _constant(node: nodes.Node | None) -> Any:
    return node.value if isinstance(node, nodes.Const) else None


def shown(node: nodes.Node) -> str:
    """The expression as an author writes it, for messages."""
    if isinstance(node, nodes.Name):
        return node.name
    if isinstance(node, nodes.Getattr):
        return f"{shown(node.node)}.{node.attr}"
    if isinstance(node, nodes.Getitem):
        key = _constant(node.arg)
        return f"{shown(node.node)}[{key!r}]" if key is not None else f"{shown(node.node)}[…]"
    if isinstance(node, nodes.Filter) and node.node is not None:
        return f"{shown(node.node)} | {node.name}"
    if isinstance(node, nodes.Or):
        return f"{shown(node.left)} or {shown(node.right)}"
    return repr(_constant(node)) if isinstance(node, nodes.Const) else "this"
