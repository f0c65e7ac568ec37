"""Infers the type of a template from its syntax tree.

Reports undefined names, printed values that may be absent, and comparisons that are never true. The caller passes the
names, so this module is independent of workflows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from jinja2 import nodes

from skillrun.checker.comparisons import KINDS, check_arguments, check_comparison, find_hyphenated_name
from skillrun.checker.facts import TypeEnvironment, dotted_path, facts_if_false, facts_if_true, prefix_facts
from skillrun.checker.phase_effects import RECORD_FIELD
from skillrun.syntax.diagnostics import suggest
from skillrun.templates.filters import SIGNS
from skillrun.templates.interpreter import expression_text
from skillrun.templates.return_types import constant_value, keyword_value
from skillrun.templates.vocabulary import BUILTINS, TEXT_FILTERS
from skillrun.types.types import (
    ANY,
    BOOLEAN,
    NEVER_TRUE,
    NO_FACTS,
    NUMBER,
    TEXT,
    Fact,
    Facts,
    Path,
    Type,
    identifier,
    infer_type,
    list_of,
    map_of,
    merge_types,
    record,
)

MAX_STEPS: Final = 2_000  # expressions inferred for one template, including repetitions
STEPS_PER_CHARACTER: Final = 2  # additional expressions for each character of the template
HISTORY: Final = "history"
SUMMARY_READ: Final = "*.summary"  # entry of `reads`: some phase's summary text, which a model writes
OTHERS_FUNCTION: Final = "others"  # the function that reads only the replies of a step
ENGINE_FIELDS: Final = frozenset(
    {"artifacts", "checkpoint", "flags", "number", "phase", "quality_warnings", "round", "status"}
)
"""The fields of a phase's summary that the engine sets without a model."""
_EMPTY: Final = dict.fromkeys(
    ("config", "features"),
    "set `config:` in the workflow to a file in `config/` that has this key; most shipped protocols need `planning`",
)
_STRUCTURED: Final = {  # hints for results without `.data`, keyed by a field that identifies the kind of result
    "replies": "add an `output:` to the step; without one, the reply is in `.text`",
    "files": "add a `shape:` to the step; without one, the content is in `.text`",
}
_MIRRORED_OPERATORS: Final = {"lt": "gt", "gt": "lt", "lteq": "gteq", "gteq": "lteq"}


class Access(NamedTuple):
    """A read of a name, or of a field of the record `label`.

    `shift` is the offset of the name from the node, in characters. `key` is empty if the name of the field is computed.
    """

    node: nodes.Node
    key: str
    label: Path | None = None
    shift: int = 0


@dataclass
class Inference(TypeEnvironment):
    """Infers the types of expressions.

    `reads` has the paths read: both `a.b` and `a.b.c` if the template reads `a.b.c`, and `a.*` if it reads `a` as a
    whole. `calls` lists the called functions and filters with their arguments and argument types. `accesses` lists the
    names and fields read, with their positions. `empty_texts` are the paths that must not be printed without a
    condition, because their default is an empty text.
    """

    empty_texts: frozenset[str] = frozenset()
    reads: set[str] = field(default_factory=set)
    _engine_field_nodes: set[int] = field(default_factory=set)  # ids of nodes of which only one known field is read
    calls: list[tuple[str, list[nodes.Expr], list[Type]]] = field(default_factory=list)
    accesses: list[Access] = field(default_factory=list)
    assigned: list[tuple[str, Type | None]] = field(default_factory=list)  # names set so far, with their earlier types
    remaining_steps: int = field(init=False, default=0)
    _outer_names: Mapping[str, Type] = field(init=False)  # the names bound outside of the template

    def __post_init__(self) -> None:
        super().__post_init__()
        self._outer_names = dict(self.names)
        self.remaining_steps = MAX_STEPS + STEPS_PER_CHARACTER * len(self.template.text.value)

    def infer_template(self) -> Type:
        """Return the type of the template: that of its expression if it is a single expression, otherwise text."""
        if self.template.expression is not None:
            return self.infer(self.template.expression)
        self.check_statements(self.template.tree.body)
        return TEXT

    def infer_condition(self) -> Facts:
        """Check the template as a condition, and return the facts that hold if the condition is true."""
        self.infer_template()
        expression = self.template.expression
        return self.infer_facts(expression) if expression is not None else NO_FACTS

    def check_as_text(self) -> None:
        """Check the template as text, even if it is a single expression."""
        if self.template.expression is not None:
            self.check_printed_expression(self.template.expression)
        else:
            self.infer_template()

    def check_statements(self, body: Iterable[nodes.Node]) -> None:
        for node in body:
            match node:
                case nodes.Output():
                    for part in node.nodes:
                        if not isinstance(part, nodes.TemplateData):
                            self.check_printed_expression(part)
                case nodes.If():
                    self.check_branches(node)
                case nodes.For():
                    self.check_loop(node)
                case nodes.Assign(target=nodes.Name(name=name)):
                    self.assign(name, self.infer(node.node))
                case nodes.AssignBlock(target=nodes.Name(name=name)):
                    self.check_statements(node.body)
                    self.assign(name, TEXT)

    def assign(self, name: str, type_: Type) -> None:
        self.assigned.append((name, self.names.get(name)))
        self.names[name] = type_

    def check_branches(self, node: nodes.If) -> None:
        failed: Facts = NO_FACTS
        ends: list[dict[str, Type]] = []
        for branch in (node, *node.elif_):
            with self.assuming(failed):
                self.infer(branch.test)
                with self.assuming(self.infer_facts(branch.test)):
                    ends.append(self.check_branch(branch.body))
            failed |= facts_if_false(branch.test)
        with self.assuming(failed):
            ends.append(self.check_branch(node.else_))
        for name in dict.fromkeys(name for end in ends for name in end):
            options = [end.get(name) or self.names.get(name) for end in ends]
            self.assign(name, merge_types(option for option in options if option is not None))

    def check_branch(self, body: Iterable[nodes.Node]) -> dict[str, Type]:
        """Check a branch and restore the outer names. Return the types of the names that the branch set."""
        mark = len(self.assigned)
        self.check_statements(body)
        undone, self.assigned[mark:] = self.assigned[mark:], []
        bound = {name: self.names[name] for name, _ in undone}
        for name, before in reversed(undone):
            if before is None:
                del self.names[name]
            else:
                self.names[name] = before
        return bound

    def check_loop(self, node: nodes.For) -> None:
        items = self.infer(node.iter)
        outer, self.names, mark = self.names, {**self.names, "loop": ANY}, len(self.assigned)
        item = items.item if items.kind == "list" and items.item is not None else ANY
        if isinstance(node.target, nodes.Name):
            self.names[node.target.name] = TEXT if items.kind in ("map", "record") else item
        else:
            for target, end in zip(node.target.find_all(nodes.Name), ("first", "last"), strict=False):
                self.names[target.name] = item.fields.get(end, ANY)
        new = NO_FACTS
        if node.test is not None:
            self.infer(node.test)
            new = self.infer_facts(node.test)
        with self.assuming(new | prefix_facts(node.iter)):
            self.check_statements(node.body)
        self.names, self.assigned[mark:] = outer, []
        self.check_statements(node.else_)

    def check_printed_expression(self, node: nodes.Node) -> None:
        type_ = self.infer(node)
        while isinstance(node, nodes.Filter) and node.node is not None and node.name in TEXT_FILTERS:
            node = node.node
        guard = expression_text(node)
        inside = f"print it inside `{{% if {guard} %}}`, or " if "…" not in guard else ""
        self.require_present(node, type_, f"{inside}give it a `default`")
        if dotted_path(node) in self.empty_texts and not self.is_known_non_empty(node):
            message = f"`{guard}` is an empty text by default, and then nothing is printed here"
            self.report(node, "empty-text", message, f"{inside}give it another default", "warning")

    def infer(self, node: nodes.Node) -> Type:
        self.remaining_steps -= 1
        if self.remaining_steps < 0:
            hint = "compute parts of it with `set`"
            span = self.template.span(node)
            self.problems.report_and_stop(span, "too-deep", "this template is too complex to check", hint)
        rule = _RULES.get(type(node))
        if rule is not None:
            return rule(self, node)
        for child in node.iter_child_nodes():
            self.infer(child)
        return BOOLEAN if isinstance(node, nodes.Not) else ANY

    def infer_name(self, node: nodes.Name) -> Type:
        type_ = self.names.get(node.name)
        if type_ is not None and type_ is self._outer_names.get(node.name):
            self.accesses.append(Access(node, node.name))
        if node.name == HISTORY:
            self.reads.add(HISTORY)
        if type_ is None:
            hint = self.explain(node.name) or suggest(node.name, sorted(self.names))
            self.report(node, "unknown-name", f"unknown name `{node.name}`", hint)
            return ANY
        return self.refine_type(node, type_)

    def infer_whole_name(self, node: nodes.Name) -> Type:
        """Return the type of a name that is read as a whole, or whose field is computed."""
        self.reads.add(f"{node.name}.*")
        return self.infer_name(node)

    def infer_lookup(self, node: nodes.Getattr | nodes.Getitem) -> Type:
        key = node.attr if isinstance(node, nodes.Getattr) else constant_value(node.arg)
        if key in ENGINE_FIELDS:
            self._engine_field_nodes.add(id(node.node))
        if key == "summary" and id(node) not in self._engine_field_nodes:
            self.reads.add(SUMMARY_READ)
        owner_name = node.node.name if isinstance(node.node, nodes.Name) else "*"
        if owner_name == "*" and (path := dotted_path(node)):
            self.reads.add(path)
        if isinstance(key, str) and (record_owner := self._record_owner(node.node)):
            self._engine_field_nodes.add(id(node.node))
            self.reads.add(f"{record_owner}.{RECORD_FIELD}.{identifier(key)}")
        if key is None or (key == RECORD_FIELD and id(node) not in self._engine_field_nodes):
            self.reads.add(f"{owner_name}.{RECORD_FIELD}")
        if isinstance(node.node, nodes.Name) and isinstance(key, str):
            if key != RECORD_FIELD:
                self.reads.add(f"{node.node.name}.{identifier(key)}")
            owner = self.infer_name(node.node)
        else:
            owner = self.infer(node.node)
        index = self.infer(node.arg) if isinstance(node, nodes.Getitem) and key is None else ANY
        if key is None and owner.kind == "record":
            self.accesses.append(Access(node, "", owner.label))
            type_ = self.infer_dynamic_field(owner, index)
        else:
            type_ = self.infer_field(node, owner, key)
        if owner.unless is not None:
            type_ = type_.maybe(owner.unless)
        type_ = self.refine_type(node, type_)
        if type_.unless is not None:
            self._required_facts[id(node)] = type_.unless - NEVER_TRUE
        return type_

    def _record_owner(self, node: nodes.Node) -> str:
        """Return the name `x` if the node is `x.record`, and `*` if it is the record of another expression. Empty for
        other nodes."""
        match node:
            case nodes.Getattr(attr=key) | nodes.Getitem(arg=nodes.Const(value=key)) if key == RECORD_FIELD:
                owner = node.node
                return owner.name if isinstance(owner, nodes.Name) else "*"
        return ""

    def infer_field(self, node: nodes.Getattr | nodes.Getitem, owner: Type, key: Any) -> Type:
        if owner.kind == "none":
            return owner
        if owner.kind == "record":
            return (self.resolve_field(node, owner, key) if isinstance(key, str) else None) or ANY
        if owner.kind == "list" and isinstance(key, str):
            self.report(node, "unknown-field", f"a list has no `{key}`", "use `| map(attribute=…)` or a `for` loop")
        elif owner.kind == "list" and isinstance(node, nodes.Getitem) and isinstance(node.arg, nodes.Slice):
            return owner
        elif owner.kind in ("map", "list") and owner.item is not None:
            return owner.item.maybe()
        elif owner.kind in ("text", "number", "boolean") and isinstance(key, str):
            message = f"`{expression_text(node.node)}` is {KINDS[owner.kind]} and has no `{key}`"
            self.report(node, "unknown-field", message)
        return ANY

    def infer_dynamic_field(self, owner: Type, index: Type) -> Type:
        """Return the type of a field whose name is computed. If `index` has no known values, it can be any field."""
        if index.kind != "text" or index.values is None:
            return merge_types(owner.fields.values())
        names = [str(value) for value in index.values]
        lacking = frozenset(Fact((*owner.label, name)) for name in names if identifier(name) not in owner.fields)
        any_of_them = merge_types(owner.fields[identifier(name)] for name in names if identifier(name) in owner.fields)
        return any_of_them.maybe(lacking) if lacking else any_of_them

    def resolve_field(
        self, node: nodes.Node, owner: Type, key: str, place: nodes.Node | None = None, shift: int = 0
    ) -> Type | None:
        """Return the type of a record's field. If it does not exist, report a problem and return None."""
        type_ = owner.fields.get(identifier(key))
        if type_ is not None:
            place = place or (node.arg if isinstance(node, nodes.Getitem) else node)
            self.accesses.append(Access(place, key, owner.label, shift))
            return type_
        label = owner.display_name or "it"
        special = self.explain(f"{label}.{identifier(key)}")
        advice = [_STRUCTURED[name] for name in _STRUCTURED if name in owner.fields and key == "data"]
        hint = special or "".join(advice[:1]) or suggest(key, owner.fields) or _EMPTY.get(label, "it has no fields")
        self.report(node, "unknown-field", f"`{label}` has no `{key}`{' here' if special else ''}", hint)
        return None

    def infer_attribute(self, node: nodes.Node, items: Type, path: str) -> Type:
        """Return the type of the field at `path` in the items of a list."""
        current = items.item or ANY
        _, reads_record, following = f".{path}.".partition(f".{RECORD_FIELD}.")
        if reads_record:
            self.reads.add(f"*.{RECORD_FIELD}.{identifier(following.split('.')[0])}".removesuffix("."))
        arguments = [*node.args, *(each.value for each in node.kwargs)] if isinstance(node, nodes.Filter) else [node]
        literals = (each for each in arguments if isinstance(each, nodes.Const) and each.value == path)
        place, shift = next(literals, None), 1
        for key in path.split("."):
            if current.kind != "record":
                return current if current.kind == "none" else ANY
            current = self.resolve_field(node, current, key, place, shift) or ANY
            shift += len(key) + 1
        return current

    def infer_list(self, node: nodes.List | nodes.Tuple) -> Type:
        items = [self.infer(item) for item in node.items]
        literal = [constant_value(item) for item in node.items]
        values = (literal,) if all(value is not None for value in literal) else None
        return list_of(merge_types(items))._replace(values=values)

    def infer_mapping(self, node: nodes.Dict) -> Type:
        for key in (pair.key for pair in node.items):
            self.check_key(key)
        entries = [(constant_value(pair.key), self.infer(pair.value)) for pair in node.items]
        if any(key is None for key, _ in entries):
            return map_of(merge_types(value for _, value in entries))
        return record({str(key): value for key, value in entries}, "the mapping")

    def check_key(self, key: nodes.Node) -> None:
        """Report a key of a mapping that may be another value than text, may be absent, or is a name without quotes."""
        if isinstance(key, nodes.Name) and key.name not in self.names:
            hint = f"a key that is text needs quotes: `'{key.name}'`"
            self.report(key, "unknown-name", f"unknown name `{key.name}`", hint)
            return
        type_ = self.infer(key)
        if type_.kind in ("list", "record", "map"):
            self.report(key, "type", f"a key of a mapping is {KINDS[type_.kind]}", "expected text")
        self.require_present(key, type_, "a key of a mapping needs a value: give it a `default`")

    def infer_and(self, node: nodes.And) -> Type:
        left = self.infer(node.left)
        with self.assuming(self.infer_facts(node.left)):
            right = self.infer(node.right)
        return merge_types([left, right])._replace(unless=left.unless if left.unless is not None else right.unless)

    def infer_or(self, node: nodes.Or) -> Type:
        left = self.infer(node.left)
        with self.assuming(facts_if_false(node.left)):
            right = self.infer(node.right)
        return merge_types([left.present(), right])._replace(unless=right.unless)

    def infer_conditional(self, node: nodes.CondExpr) -> Type:
        self.infer(node.test)
        with self.assuming(self.infer_facts(node.test)):
            first = self.infer(node.expr1)
        if node.expr2 is None:
            return first.maybe(facts_if_true(node.test))
        with self.assuming(facts_if_false(node.test)):
            second = self.infer(node.expr2)
        return merge_types([first, second])

    def infer_comparison(self, node: nodes.Compare) -> Type:
        side, left = node.expr, self.infer(node.expr)
        for operand in node.ops:
            right = self.infer(operand.expr)
            if isinstance(side, nodes.Const) and operand.op not in ("in", "notin"):
                sign = _MIRRORED_OPERATORS.get(operand.op, operand.op)
                self.report_comparison(side, right, sign, left, expression_text(operand.expr))
            else:
                self.report_comparison(operand.expr, left, operand.op, right, expression_text(side))
            side, left = operand.expr, right
        return BOOLEAN

    def report_comparison(self, node: nodes.Node, left: Type, sign: str, right: Type, name: str) -> None:
        """Report a comparison that can never be true.

        `node` is the right side; `name` is the left side as the author wrote it.
        """
        if sign in ("in", "notin") and isinstance(node, nodes.List | nodes.Tuple):
            for item in node.items:
                self.report_comparison(item, left, "eq", self.infer(item), name)
        elif (doubt := check_comparison(left, sign, right, name)) is not None:
            self.report(node, *doubt)

    def infer_test(self, node: nodes.Test) -> Type:
        left, right = self.infer(node.node), [self.infer(argument) for argument in node.args]
        if node.name in SIGNS and right:
            self.report_comparison(node.args[0], left, SIGNS[node.name], right[0], expression_text(node.node))
        return BOOLEAN

    def infer_arithmetic(self, node: nodes.BinExpr) -> Type:
        if isinstance(node, nodes.Sub) and (suggested_name := find_hyphenated_name(node, self.names)):
            message = "a `-` in a name is written as `_` in expressions"
            self.report(node.left, "hyphen", message, f"write `{suggested_name}`")
            return ANY
        sides = [(side, self.infer(side)) for side in (node.left, node.right)]
        for side, type_ in sides:
            self.require_present(side, type_, f"write `({expression_text(side)} or …)`, or give it a `default`")
        if not isinstance(node, nodes.Add):
            return NUMBER
        filled = any(type_.filled for _, type_ in sides)
        return merge_types(type_ for _, type_ in sides)._replace(values=None, unless=None, filled=filled, bounds=None)

    def infer_concatenation(self, node: nodes.Concat) -> Type:
        for part in node.nodes:
            self.check_printed_expression(part)
        return TEXT

    def infer_call(self, node: nodes.Call) -> Type:
        name = node.node.name if isinstance(node.node, nodes.Name) else ""
        arguments = self.infer_arguments(node) if name != OTHERS_FUNCTION else []
        for argument in node.args if name == OTHERS_FUNCTION else ():  # reads only the replies of a step
            if isinstance(argument, nodes.Name):
                self.reads.add(f"{argument.name}.replies")
            arguments.append(self.infer_name(argument) if isinstance(argument, nodes.Name) else self.infer(argument))
        self.calls.append((name, node.args, arguments))
        return self.infer_builtin(node, name, arguments)

    def infer_filter(self, node: nodes.Filter) -> Type:
        type_ = self.infer(node.node) if node.node is not None else TEXT
        arguments = self.infer_arguments(node)
        attribute = keyword_value(node, "attribute")
        if isinstance(attribute, str) and node.name != "map":
            self.infer_attribute(node, type_, attribute)
        self.calls.append((node.name, [node, *node.args], [type_, *arguments]))
        return self.infer_builtin(node, node.name, [type_, *arguments])

    def infer_builtin(self, node: nodes.Call | nodes.Filter, name: str, types: list[Type]) -> Type:
        """Check the arguments of a filter or function, and return its result type."""
        if name not in BUILTINS:
            return ANY
        check_arguments(self, node, name, BUILTINS[name], types)
        return BUILTINS[name].infer_result(self, node, types)

    def infer_filter_result(self, node: nodes.Filter, types: list[Type]) -> Type:
        """Return the result type of a filter. `types` are the types of its arguments."""
        return BUILTINS[node.name].infer_result(self, node, types) if node.name in BUILTINS else ANY

    def infer_arguments(self, node: nodes.Call | nodes.Filter) -> list[Type]:
        for argument in node.kwargs:
            self.infer(argument.value)
        return [self.infer(argument) for argument in node.args]


_RULES: Final[Mapping[type, Callable[[Inference, Any], Type]]] = {
    nodes.Name: Inference.infer_whole_name,
    nodes.Getattr: Inference.infer_lookup,
    nodes.Getitem: Inference.infer_lookup,
    nodes.Const: lambda _, node: infer_type(node.value),
    nodes.List: Inference.infer_list,
    nodes.Tuple: Inference.infer_list,
    nodes.Dict: Inference.infer_mapping,
    nodes.And: Inference.infer_and,
    nodes.Or: Inference.infer_or,
    nodes.CondExpr: Inference.infer_conditional,
    nodes.Compare: Inference.infer_comparison,
    nodes.Test: Inference.infer_test,
    **dict.fromkeys(
        (nodes.Add, nodes.Sub, nodes.Mul, nodes.Div, nodes.FloorDiv, nodes.Mod), Inference.infer_arithmetic
    ),
    nodes.Concat: Inference.infer_concatenation,
    nodes.Call: Inference.infer_call,
    nodes.Filter: Inference.infer_filter,
}
