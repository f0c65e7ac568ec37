"""Derives facts from conditions (which paths are present, which expressions are true), and applies them to types.

If the path `a.b` is present, so is its prefix `a`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

from jinja2 import nodes

from skillrun.checker.absences import Absence, Absences
from skillrun.syntax.diagnostics import Problems, Severity
from skillrun.syntax.source import Span
from skillrun.templates.expressions import Template
from skillrun.templates.interpreter import expression_text
from skillrun.types.types import ANY, NEVER_TRUE, NO_FACTS, Fact, Facts, Path, Type, identifier

FACT_CACHE_SIZE: Final = 1 << 14
"""The number of nodes whose facts are cached. An unchanged file keeps its nodes, so the next check reuses the facts."""


@lru_cache(FACT_CACHE_SIZE)
def fact(node: nodes.Node) -> Fact:
    """Return the fact that a node is present, if it is a path. For any other expression, return the fact that it is
    true."""
    path = _path(node)
    return Fact(path) if len(path) > 1 or isinstance(node, nodes.Name) else Fact(condition=path[0])


def _path(node: nodes.Node) -> Path:
    """Return the names in a path. If the path starts with another expression, its first part is the `repr` of this
    expression."""
    if isinstance(node, nodes.Name):
        return (node.name,)
    if isinstance(node, nodes.Getattr):
        return (*_path(node.node), node.attr)
    if isinstance(node, nodes.Getitem) and isinstance(node.arg, nodes.Const):
        return (*_path(node.node), identifier(str(node.arg.value)))
    return (repr(node),)


def dotted_path(node: nodes.Node) -> str:
    """Return a path as `a.b.c`; empty if the path does not start with a name."""
    owner = node
    while isinstance(owner, nodes.Getattr) or (isinstance(owner, nodes.Getitem) and isinstance(owner.arg, nodes.Const)):
        owner = owner.node
    return ".".join(_path(node)) if isinstance(owner, nodes.Name) else ""


@lru_cache(FACT_CACHE_SIZE)
def facts_if_true(condition: nodes.Node) -> Facts:
    """Return the facts that hold if the condition is true."""
    if isinstance(condition, nodes.And):
        return facts_if_true(condition.left) | facts_if_true(condition.right)
    if isinstance(condition, nodes.Or):
        return (facts_if_true(condition.left) & facts_if_true(condition.right)) | {fact(condition)}
    if isinstance(condition, nodes.Not):
        return facts_if_false(condition.node) | {fact(condition)}
    known = {fact(condition), *prefix_facts(condition)}
    if isinstance(condition, nodes.Compare):
        for side in (condition.expr, *(operand.expr for operand in condition.ops)):
            known |= prefix_facts(side)
    elif isinstance(condition, nodes.Filter) and condition.node is not None and condition.name != "default":
        known |= facts_if_true(condition.node)
    elif isinstance(condition, nodes.Test):  # an absent value fails every test
        for side in (condition.node, *condition.args):
            known |= prefix_facts(side)
    return frozenset(known)


def facts_if_false(condition: nodes.Node) -> Facts:
    """Return the facts that hold if the condition is false."""
    if isinstance(condition, nodes.Not):
        return facts_if_true(condition.node)
    if isinstance(condition, nodes.Or):
        return facts_if_false(condition.left) | facts_if_false(condition.right)
    return frozenset({fact(nodes.Not(condition))})


def mentions_name(candidate: Fact, name: str) -> bool:
    """Whether a fact mentions a variable or field called `name`."""
    return name in candidate.path or any(f"'{name}'" in written for written in (*candidate.path, candidate.condition))


def conjuncts(condition: nodes.Expr | None) -> Facts:
    """Return one fact for each part of a condition, split at `and`. The condition requires all of these facts."""
    if isinstance(condition, nodes.And):
        return conjuncts(condition.left) | conjuncts(condition.right)
    return frozenset({fact(condition)}) if condition is not None else NO_FACTS


@lru_cache(FACT_CACHE_SIZE)
def path_nodes(node: nodes.Node) -> tuple[nodes.Node, ...]:
    """Return the node and every path in it."""
    return (node, *node.find_all((nodes.Getattr, nodes.Getitem)))


def prefix_facts(node: nodes.Node) -> set[Fact]:
    """Return the facts that a path and all its prefixes are present."""
    if isinstance(node, nodes.Getattr | nodes.Getitem):
        return {fact(node), *prefix_facts(node.node)}
    return {fact(node)} if isinstance(node, nodes.Name) else set()


@dataclass
class TypeEnvironment:
    """The names that a template can read and the facts that hold.

    `explain` returns a hint for a name or field that the template cannot read. If a fact requires a value that the
    config lacks, `locate_fact` returns the place where it is missing. `absences` explain why names may be absent.
    """

    template: Template
    names: dict[str, Type]
    problems: Problems
    known_facts: Facts = NO_FACTS
    explain: Callable[[str], str] = lambda _path: ""
    locate_fact: Callable[[Fact], Span | None] = lambda _fact: None
    absences: Absences = field(default_factory=dict)
    _required_facts: dict[int, Facts] = field(default_factory=dict)  # by node id: the facts that make a path present

    def __post_init__(self) -> None:
        known, self.known_facts = self.known_facts, NO_FACTS
        self.add_facts(known)

    def add_facts(self, new: Facts) -> None:
        """Add facts and their consequences. If a fact says that a name is present, the facts that the name depends on
        are added too."""
        waiting = new - self.known_facts
        if not waiting:
            return
        known = {*self.known_facts}
        while waiting:
            known |= waiting
            present = (self.names.get(fact_.path[0]) for fact_ in waiting if len(fact_.path) == 1)
            needed = NO_FACTS.union(
                *(type_.unless for type_ in present if type_ is not None and type_.unless is not None)
            )
            waiting = needed - NEVER_TRUE - known
        self.known_facts = frozenset(known)

    def infer_facts(self, condition: nodes.Node) -> Facts:
        """Return the facts that hold if `condition` is true. Infer the type of the condition first."""
        new = facts_if_true(condition)
        for node in path_nodes(condition):
            if id(node) in self._required_facts and fact(node) in new:
                new |= self._required_facts[id(node)]
        return new

    def is_present(self, node: nodes.Node, type_: Type) -> bool:
        return type_.unless is None or type_.unless <= self.known_facts or fact(node) in self.known_facts

    def non_empty_facts(self, node: nodes.Node) -> Facts:
        """Return the facts that hold if the value of `node` is present and not empty."""
        return frozenset({fact(node)})

    def is_known_non_empty(self, node: nodes.Node) -> bool:
        return fact(node) in self.known_facts

    def refine_type(self, node: nodes.Node, type_: Type) -> Type:
        """Return `type_`, narrowed by known facts: the value is present, or the list is not empty."""
        if type_.kind == "list" and fact(node) in self.known_facts:
            return type_._replace(unless=None, filled=True)
        return type_.present() if self.is_present(node, type_) else type_

    @contextmanager
    def assuming(self, new: Facts) -> Iterator[None]:
        outer_facts = self.known_facts
        self.add_facts(new)
        yield
        self.known_facts = outer_facts

    def require_present(self, node: nodes.Node, type_: Type, hint: str) -> None:
        """Report the value of `node` if it may be absent.

        The problem is placed in the config if a config value is missing, otherwise at the node.
        """
        if type_.unless is None or self.is_present(node, type_):
            return
        for missing in sorted(type_.unless - self.known_facts, key=lambda each: ".".join(each.path)):
            if (span := self.locate_fact(missing)) is not None:
                hint = f"add this key, which {self.template.text.source.label}:{self.template.span(node).line} reads"
                self.problems.report(span, "missing-key", f"`{missing.path[-1]}` is missing here", hint)
                return
        message = f"`{expression_text(node)}` may be absent here"
        node_span, absence = self.template.span(node), self._find_absence(node)
        if absence is None:
            self.problems.report(node_span, "absent", message, hint)
        else:
            message = f"{message}: {absence.describe(node_span)}"
            self.problems.report(node_span, "absent", message, hint, elsewhere=absence.span)

    def _find_absence(self, node: nodes.Node) -> Absence | None:
        """Return why the path `node` may be absent. If several of its parts may be absent, the first one counts."""
        steps = [node]
        while isinstance(steps[-1], nodes.Getattr | nodes.Getitem):
            steps.append(steps[-1].node)
        type_ = ANY
        for place, part in enumerate(reversed(steps)):
            path = dotted_path(part)
            type_ = self.names.get(path, ANY) if place == 0 else type_.fields.get(path.rpartition(".")[2], ANY)
            if not path or not self.is_present(part, type_):
                return self.absences.get(path) or self.absences.get(f"{path.rpartition('.')[0]}.*")
        return None

    def report(self, node: nodes.Node, code: str, message: str, hint: str = "", severity: Severity = "error") -> None:
        self.problems.report(self.template.span(node), code, message, hint, severity)
