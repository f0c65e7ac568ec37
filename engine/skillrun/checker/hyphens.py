"""Names that are written with a `-`, which an expression reads as a difference."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from jinja2 import nodes

from skillrun.types.types import ANY, TEXT, Type, identifier


def find_hyphenated_name(node: nodes.Sub, names: Mapping[str, Type]) -> str:
    """The name that is meant where a difference is read: `a_b` for `a-b`; nothing where none of `names` is."""
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
    """Whether it is a name with fields of it, and nothing that is computed."""
    while isinstance(node, nodes.Getattr):
        node = node.node
    return isinstance(node, nodes.Name)


def _type_at(path: nodes.Node, names: Mapping[str, Type]) -> Type:
    """What a path leads to, as far as the names tell; it is not checked."""
    if isinstance(path, nodes.Name):
        return names.get(path.name, ANY)
    assert isinstance(path, nodes.Getattr)
    owner = _type_at(path.node, names)
    return owner.fields.get(identifier(path.attr), ANY) if owner.kind == "record" else owner.item or ANY
