"""Detects names written with a `-`, which an expression parses as a subtraction."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from jinja2 import nodes

from skillrun.types.types import ANY, TEXT, Type, identifier


def find_hyphenated_name(node: nodes.Sub, names: Mapping[str, Type]) -> str:
    """Return the name meant by a subtraction, such as `a_b` for `a-b`; empty if `names` has no such name."""
    right: Any = node.right
    while isinstance(right, nodes.Getattr | nodes.Getitem | nodes.Filter):
        right = right.node
    match node.left, right:
        case nodes.Name(name=left), nodes.Name(name=base) if names.get(left, TEXT).kind not in ("number", "any"):
            return f"{left}_{base}" if f"{left}_{base}" in names else ""
        case nodes.Getattr(node=owner, attr=left), nodes.Name(name=base) if _is_path(owner):
            fields = _type_at(owner, names).fields
            return f"{left}_{base}" if left not in fields and f"{left}_{base}" in fields else ""
    return ""


def _is_path(node: nodes.Node) -> bool:
    """Whether the node is a name or a chain of fields below one."""
    while isinstance(node, nodes.Getattr):
        node = node.node
    return isinstance(node, nodes.Name)


def _type_at(path: nodes.Node, names: Mapping[str, Type]) -> Type:
    """Return the type at a path, as far as the names show it. Reports no problems."""
    if isinstance(path, nodes.Name):
        return names.get(path.name, ANY)
    assert isinstance(path, nodes.Getattr)
    owner = _type_at(path.node, names)
    return owner.fields.get(identifier(path.attr), ANY) if owner.kind == "record" else owner.item or ANY
