"""What is known at a point of a template: its names, the facts that hold there, and what they leave open."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from jinja2 import nodes

from skillrun.checker.absences import Absence, Absences
from skillrun.checker.facts import dotted_path, fact, facts, paths_in
from skillrun.syntax.diagnostics import Problems, Severity
from skillrun.syntax.source import Span
from skillrun.templates.expressions import Template
from skillrun.templates.interpreter import written
from skillrun.types.types import ANY, NEVER, NOTHING, Fact, Facts, Type


@dataclass
class Known:
    """The names that a template reads and the facts that hold; problems go to `problems`.

    `explain` gives a better hint for a name or field that does not exist here, `place` where a missing fact belongs,
    `absences` why a name may be absent.
    """

    template: Template
    names: dict[str, Type]
    problems: Problems
    known: Facts = NOTHING
    explain: Callable[[str], str] = lambda _path: ""
    place: Callable[[Fact], Span | None] = lambda _fact: None
    absences: Absences = field(default_factory=dict)
    _unless: dict[int, Facts] = field(default_factory=dict)  # by node: what a path that may be absent needs

    def __post_init__(self) -> None:
        known, self.known = self.known, NOTHING
        self.learn(known)

    def learn(self, new: Facts) -> None:
        """Add facts, and what follows from them: where a name is present, so is what it needed to be."""
        waiting = new - self.known
        if not waiting:
            return
        known = {*self.known}
        while waiting:
            known |= waiting
            present = (self.names.get(fact_.path[0]) for fact_ in waiting if len(fact_.path) == 1)
            needed = NOTHING.union(
                *(type_.unless for type_ in present if type_ is not None and type_.unless is not None)
            )
            waiting = needed - NEVER - known
        self.known = frozenset(known)

    def gained(self, condition: nodes.Node) -> Facts:
        """What is known where `condition`, which has been inferred, holds: its facts, and what its paths needed."""
        new = facts(condition)
        for node in paths_in(condition):
            if id(node) in self._unless and fact(node) in new:
                new |= self._unless[id(node)]
        return new

    def holds(self, node: nodes.Node, type_: Type) -> bool:
        return type_.unless is None or type_.unless <= self.known or fact(node) in self.known

    def proof(self, node: nodes.Node) -> Facts:
        """What has to be known so that the value of `node` is there and not empty."""
        return frozenset({fact(node)})

    def proved(self, node: nodes.Node) -> bool:
        return fact(node) in self.known

    def settled(self, node: nodes.Node, type_: Type) -> Type:
        """The type with what is known here: that it is present, and of a list that it has items."""
        if type_.kind == "list" and fact(node) in self.known:
            return type_._replace(unless=None, filled=True)
        return type_.present() if self.holds(node, type_) else type_

    @contextmanager
    def under(self, new: Facts) -> Iterator[None]:
        before = self.known
        self.learn(new)
        yield
        self.known = before

    def needed(self, node: nodes.Node, type_: Type, hint: str) -> None:
        """Report a value that may be absent: at what its config lacks, or else here."""
        if type_.unless is None or self.holds(node, type_):
            return
        for missing in sorted(type_.unless - self.known, key=lambda each: ".".join(each.path)):
            if (span := self.place(missing)) is not None:
                line = f"{self.template.text.source.label}:{self.template.span(node).line}"
                self.problems.report(span, "missing-key", f"`{missing.path[-1]}` is missing here", f"{line} needs it")
                return
        message, absence, here = f"`{written(node)}` may be absent here", self._absence(node), self.template.span(node)
        message += f": {absence.told(here)}" if absence is not None else ""
        self.problems.report(here, "absent", message, hint, elsewhere=absence.span if absence is not None else None)

    def _absence(self, node: nodes.Node) -> Absence | None:
        """What makes the value of a path absent: of its beginnings the first that is not known to be there."""
        steps = [node]
        while isinstance(steps[-1], nodes.Getattr | nodes.Getitem):
            steps.append(steps[-1].node)
        type_ = ANY
        for place, part in enumerate(reversed(steps)):
            path = dotted_path(part)
            type_ = self.names.get(path, ANY) if place == 0 else type_.fields.get(path.rpartition(".")[2], ANY)
            if not path or not self.holds(part, type_):
                return self.absences.get(path) or self.absences.get(f"{path.rpartition('.')[0]}.*")
        return None

    def report(self, node: nodes.Node, code: str, message: str, hint: str = "", severity: Severity = "error") -> None:
        self.problems.report(self.template.span(node), code, message, hint, severity)
