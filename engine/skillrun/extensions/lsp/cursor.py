"""Describes the cursor in a file: its slot, the names in scope, and the workflow and config that apply to the file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from skillrun.definitions.definitions import Workflow
from skillrun.extensions.lsp.cursor_position import CursorPosition, PlainKeys, locate_cursor
from skillrun.extensions.lsp.expressions import ExpressionQuery, infer_type, parse_query
from skillrun.extensions.lsp.slots import CompletionSlot, slot_at
from skillrun.extensions.lsp.symbol_index import SymbolIndex, map_offset
from skillrun.library.symbols import ScopeRange
from skillrun.types.types import Type

TEMPLATE_FILE_KINDS: Final = ("workflow", "phase", "protocol", "template", "reference")
"""The kinds of files whose bodies are templates."""
TEMPLATE_VALUES: Final = ("text", "value", "list", "questions", "condition", "mapping", "fields", "shape", "record")


@dataclass(frozen=True)
class Cursor:
    """The cursor in a file. `kind` is the kind of the file, and `relative` is its path in the project.

    `scope` has the names that are known at the cursor. `query` describes the expression at the cursor, if there is one.
    """

    index: SymbolIndex
    relative: str
    kind: str
    place: CursorPosition
    slot: CompletionSlot
    scope: ScopeRange | None
    query: ExpressionQuery | None

    @property
    def names(self) -> Mapping[str, Type]:
        return self.scope.names if self.scope is not None else {}

    @cached_property
    def owner_type(self) -> Type:
        """The type of the expression before the `.`, `|`, `[` or comparison at the cursor."""
        assert self.query is not None
        return infer_type(self.query.owner, self.names, self.query.prefix)

    @cached_property
    def workflow(self) -> Workflow | None:
        """The workflow that the file defines, tests or belongs to.

        A skill that the last check did not read belongs to a workflow that uses the skill or has the name of its
        folder.
        """
        folder, _, rest = self.relative.partition("/")
        area = rest.partition("/")[0].removesuffix(".md")
        owner = self.scope.owners.owner if self.scope is not None else ""
        if folder in ("workflows", "tests"):
            return self.index.workflow(area)
        if owner.startswith("workflows/"):
            return self.index.workflow(owner)
        if folder == "skills":
            for name in self.index.library.names("workflows"):
                if any(use.skill == rest.removesuffix(".md") for use in self.index.phase_uses(name)):
                    return self.index.workflow(name)
            return self.index.workflow(area)
        return None

    @cached_property
    def config(self) -> Mapping[str, Any]:
        """The data of the config that applies to the file."""
        folder, _, rest = self.relative.partition("/")
        name = rest.removesuffix(".yaml") if folder == "config" else ""
        name = name or (self.scope.owners.config if self.scope is not None else "")
        name = name or (self.workflow.config if self.workflow is not None else None) or ""
        config = self.index.library.config(name) if name else None
        return config.data if config is not None else {}


def cursor_at(index: SymbolIndex, path: Path, relative: str, text: str, offset: int) -> Cursor | None:
    """Return the cursor at an offset; None if nothing can be completed there."""
    place = locate_cursor(text, offset, yaml_only=relative.startswith("config/"))
    if place is None:
        return None
    kind = file_kind(relative, place.top)
    slot = slot_at(kind, place.path, place.mappings) if place.part in ("key", "value") else CompletionSlot()
    indexed_file, scope = index.files.get(path), None
    if indexed_file is not None:
        indexed_offset = map_offset(indexed_file.source.text, text, offset)
        scope = indexed_file.scope_at(indexed_offset, place.section if place.part == "body" else "")
        scope = scope or indexed_file.scope_at(indexed_offset)
    query, takes = None, slot.key.kind if slot.key is not None else "value"
    if kind in TEMPLATE_FILE_KINDS and place.part == "body":
        query = parse_query(place.prefix)
    elif kind in TEMPLATE_FILE_KINDS and place.part == "value" and takes in TEMPLATE_VALUES:
        query = parse_query(place.prefix, bare=takes == "condition")
    return Cursor(index, relative, kind, place, slot, scope, query)


def file_kind(relative: str, top: PlainKeys) -> str:
    """Return the kind of a file, from its path in the project and its key `kind`.

    The kind is empty if the file is neither part of a library nor a test case.
    """
    folder, _, rest = relative.partition("/")
    if folder == "skills":
        return "skill" if rest.endswith("/SKILL.md") else top.get("kind", "") or "skill file"
    config = "models" if rest == "models.yaml" else "config"
    return {"workflows": "workflow", "roles": "role", "config": config, "tests": "case"}.get(folder, "")
