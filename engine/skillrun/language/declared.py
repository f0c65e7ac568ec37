"""Checks what inputs and state declare, and says what types that gives."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from skillrun.language.diagnostics import suggest
from skillrun.language.fields import Field
from skillrun.language.lookups import Settings
from skillrun.language.names import of_fields
from skillrun.language.scope import Scope
from skillrun.language.source import Document, Mapping, Node, Scalar, Sequence, Text
from skillrun.language.types import ANY, Type, identifier, record

if TYPE_CHECKING:
    from skillrun.language.check import Checker

_NOTATION: Final = re.compile(r"[?(].*", re.DOTALL)


def declared(
    checker: Checker,
    document: Document,
    label: str,
    fields: tuple[Field, ...],
    settings: Settings,
    inputs: Type | None = None,
) -> Type:
    """The record of the inputs or the state; what is declared wrongly can be anything."""
    names = {"config": settings.config, "inputs": inputs or of_fields(fields, label)}
    scope = Scope(checker, settings, names, checker.problems)
    choices = {one.name: scope.text(one.type.values) for one in fields if isinstance(one.type.values, Text)}
    for one in fields:
        texts = list(_texts(one.default)) if one.default is not None else []
        for text in (*texts, *(one.type.templates() if one.type.kind == "object" else ())):
            scope.text(text)
    found = of_fields(fields, label, choices).fields
    node = document.front.get(label)
    written: dict[str, Node] = {}
    if isinstance(node, Mapping):
        written = {identifier(_NOTATION.sub("", key)): entry.value for key, entry in node.entries.items()}
    for name, declaration in written.items():
        if name in found and isinstance(declaration, Mapping):
            _check_choices(checker, found[name], declaration)
    return record({**dict.fromkeys(written, ANY), **found}, label)


def _check_choices(checker: Checker, one: Type, declaration: Mapping) -> None:
    """The literal default and fallback are among the values that a template yields."""
    known = [str(value) for value in one.values or ()] if one.tunable else []
    for name in ("default", "fallback"):
        node = declaration.get(name)
        literal = node.value if isinstance(node, Scalar) and isinstance(node.value, str) else ""
        if node is not None and known and literal not in ("", *known) and "{{" not in literal:
            checker.problems.report(node.span, "default", f"`{name}` is `{literal}`", suggest(literal, known))


def _texts(node: Node) -> Iterator[Text]:
    if isinstance(node, Scalar):
        if node.text is not None:
            yield node.text
        return
    for child in node.items if isinstance(node, Sequence) else [entry.value for entry in node.entries.values()]:
        yield from _texts(child)
