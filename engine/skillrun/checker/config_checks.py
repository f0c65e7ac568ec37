"""Evaluates a workflow's `checks` of its config, and locates the config values that an expression reads."""

from __future__ import annotations

from collections.abc import Iterator

from jinja2 import nodes

from skillrun.checker.facts import fact
from skillrun.checker.scope import ReferenceChecker, Scope
from skillrun.definitions.definitions import Check
from skillrun.library.configuration import MODES
from skillrun.library.lookups import Settings
from skillrun.library.symbols import ScopeOwners
from skillrun.syntax.source import Mapping, MappingEntry, Node, Span
from skillrun.templates.expressions import RenderError, Template
from skillrun.types.types import identifier


def check_config(checker: ReferenceChecker, checks: tuple[Check, ...], settings: Settings) -> None:
    """Report each check that fails, at the config value that it reads.

    If several layers set the value, it is reported in the strongest one.
    """
    problems = checker.problems
    for check in checks:
        problem_count = len(list(problems))
        scope = Scope(
            checker, settings, {"config": settings.config}, problems, owners=ScopeOwners(config=settings.name)
        )
        scope.record_view(check.span, "")
        scope.check_condition(check.must)
        if check.say is not None:
            scope.infer_required_value(check.say, "say")
        if check.must is None or check.say is None or settings.data is None or len(list(problems)) > problem_count:
            continue
        for mode, data in (("", settings.data), *settings.modes.items()):
            names = {"config": data}
            try:
                if not check.must.render(names):
                    place = locate_config_value(check.must, settings, mode) or check.span
                    problems.report(place, "check", str(check.say.evaluate(names)))
                    break
            except RenderError as error:
                problems.report(check.span, "check", f"this check cannot be evaluated: {error.message}")
                break


def locate_config_value(template: Template, settings: Settings, mode: str = "") -> Span | None:
    """Return the location of a config value that the expression reads; None if no file sets any of them.

    Searches the strongest file first, and in each file the values of the mode before the other values.
    """
    paths = list(_paths(template.expression)) if template.expression is not None else []
    for layer in settings.layers:
        for path in (*([MODES, identifier(mode), *path] for path in paths if mode), *paths):
            if (entry := _entry(layer, path)) is not None:
                return entry.value.span
    return None


def _paths(expression: nodes.Expr) -> Iterator[list[str]]:
    """Yield the longest paths below `config` that an expression reads, in source order."""
    inner: set[int] = set()
    inner_paths = expression.find_all((nodes.Getattr, nodes.Getitem))
    for node in [*([expression] if isinstance(expression, nodes.Getattr | nodes.Getitem) else []), *inner_paths]:
        if id(node) not in inner:
            inner.update(id(part) for part in node.find_all((nodes.Getattr, nodes.Getitem)))
            owner, *path = fact(node).path or ("",)
            if owner == "config" and path:
                yield path


def _entry(layer: Mapping, path: list[str]) -> MappingEntry | None:
    entry: MappingEntry | None = None
    node: Node = layer
    for name in path:
        entries = node.entries if isinstance(node, Mapping) else {}
        entry = next((entry for key, entry in entries.items() if identifier(key) == name), None)
        if entry is None:
            return None
        node = entry.value
    return entry
