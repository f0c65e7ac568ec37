"""The type environment at a point of a template: its names and facts, and the values that may be absent."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from jinja2 import nodes

from skillrun.checker.absences import Absence, Absences
from skillrun.checker.facts import dotted_path, fact, facts_if_true, path_nodes
from skillrun.syntax.diagnostics import Problems, Severity
from skillrun.syntax.source import Span
from skillrun.templates.expressions import Template
from skillrun.templates.interpreter import expression_text
from skillrun.types.types import ANY, NEVER_TRUE, NO_FACTS, Fact, Facts, Type


@dataclass
class TypeEnvironment:
    """The names that a template can read and the facts that hold.

    `explain` returns a specific hint for a name or field that does not exist at this point. `locate_fact` returns the
    place in the config where the value that a fact requires is missing. `absences` explain why names may be absent.
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
        """Add facts and their consequences: if a name is present, the facts that it depends on hold too."""
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
        """Return the facts under which the value of `node` is present and not empty."""
        return frozenset({fact(node)})

    def is_known_non_empty(self, node: nodes.Node) -> bool:
        return fact(node) in self.known_facts

    def refine_type(self, node: nodes.Node, type_: Type) -> Type:
        """Return the type narrowed by the known facts: present, or a list that is not empty."""
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
        """Report a value that may be absent.

        The report points to the config if the value is missing there, or else to the node.
        """
        if type_.unless is None or self.is_present(node, type_):
            return
        for missing in sorted(type_.unless - self.known_facts, key=lambda each: ".".join(each.path)):
            if (span := self.locate_fact(missing)) is not None:
                line = f"{self.template.text.source.label}:{self.template.span(node).line}"
                self.problems.report(
                    span, "missing-key", f"`{missing.path[-1]}` is missing here", f"add it: {line} reads it"
                )
                return
        message, absence, node_span = (
            f"`{expression_text(node)}` may be absent here",
            self._find_absence(node),
            self.template.span(node),
        )
        message += f": {absence.describe(node_span)}" if absence is not None else ""
        self.problems.report(
            node_span, "absent", message, hint, elsewhere=absence.span if absence is not None else None
        )

    def _find_absence(self, node: nodes.Node) -> Absence | None:
        """Return why a path may be absent: the reason for its first part that is not known to be present."""
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
