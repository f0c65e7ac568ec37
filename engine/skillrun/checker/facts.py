"""Derives facts from conditions: which paths are present, and which expressions are true.

If a path is present, so are its prefixes.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Final

from jinja2 import nodes

from skillrun.types.types import Fact, Facts, Path, identifier

FACT_CACHE_SIZE: Final = 1 << 14
"""The number of nodes whose facts are cached. An unchanged file keeps its nodes, so the next check reuses the facts."""


@lru_cache(FACT_CACHE_SIZE)
def fact(node: nodes.Node) -> Fact:
    """Return the fact that a path is present or, for any other expression, that it is true."""
    path = _path(node)
    return Fact(path) if len(path) > 1 or isinstance(node, nodes.Name) else Fact(condition=path[0])


def _path(node: nodes.Node) -> Path:
    """Return the names of a path; an expression that is not a name is represented by its `repr`."""
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
    """Whether a fact mentions a name or a field with this name."""
    return name in candidate.path or any(f"'{name}'" in written for written in (*candidate.path, candidate.condition))


def conjuncts(condition: nodes.Expr | None) -> Facts:
    """Return a fact for each part of a condition that is joined by `and`; all of them must hold."""

    def split(node: nodes.Node) -> Iterator[Fact]:
        if isinstance(node, nodes.And):
            yield from split(node.left)
            yield from split(node.right)
        else:
            yield fact(node)

    return frozenset(split(condition)) if condition is not None else frozenset()


@lru_cache(FACT_CACHE_SIZE)
def path_nodes(node: nodes.Node) -> tuple[nodes.Node, ...]:
    """Return the node and every path in it."""
    return (node, *node.find_all((nodes.Getattr, nodes.Getitem)))


def prefix_facts(node: nodes.Node) -> set[Fact]:
    """Return the facts that a path and all its prefixes are present."""
    paths: set[Fact] = set()
    current: nodes.Node | None = node
    while isinstance(current, nodes.Getattr | nodes.Getitem | nodes.Name):
        paths.add(fact(current))
        current = None if isinstance(current, nodes.Name) else current.node
    return paths
