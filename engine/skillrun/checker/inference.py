"""Infers the type of a template from its syntax tree.

Reports undefined names, printed values that may be absent, and comparisons that never hold. Is independent of
workflows: the caller passes the names.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from jinja2 import nodes

from skillrun.checker.expression_types import ExpressionInference
from skillrun.checker.facts import facts_if_false, prefix_facts
from skillrun.types.types import ANY, NO_FACTS, TEXT, Facts, Type, merge_types


@dataclass
class Inference(ExpressionInference):
    """Infers the types of one template, statement by statement."""

    assigned: list[tuple[str, Type | None]] = field(default_factory=list)  # names set so far, with their earlier types

    def infer_template(self) -> Type:
        """Return the type of the expression if the template is a single one, and text for any other template."""
        if self.template.expression is not None:
            return self.infer(self.template.expression)
        self.check_statements(self.template.tree.body)
        return TEXT

    def infer_condition(self) -> Facts:
        """Infer the template as a condition, and return the facts that hold if it is true."""
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
        """Check a branch, restore the outer names, and return the names that the branch set, with their types."""
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
