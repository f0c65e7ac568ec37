"""Describes the context of the cursor: its file, slot and scope, and the workflow and config that apply to the file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from skillrun.definitions.definitions import Workflow
from skillrun.extensions.lsp.cursor_position import CursorPosition
from skillrun.extensions.lsp.slots import CompletionSlot
from skillrun.extensions.lsp.symbol_index import SymbolIndex
from skillrun.library.symbols import ScopeRange


class CompletionCandidate(NamedTuple):
    """A name that is valid at the cursor, with its kind and a description."""

    name: str
    kind: str
    detail: str = ""


@dataclass(frozen=True)
class CursorContext:
    """The position, slot and scope of the cursor. `relative` is the path of its file in the project."""

    index: SymbolIndex
    relative: str
    place: CursorPosition
    slot: CompletionSlot
    scope: ScopeRange | None

    @property
    def workflow(self) -> Workflow | None:
        """The workflow that the file defines or tests, or to which it belongs."""
        folder, _, rest = self.relative.partition("/")
        if folder in ("workflows", "tests"):
            return self.index.workflow(rest.partition("/")[0].removesuffix(".md"))
        owner = self.scope.owners.owner if self.scope is not None else ""
        if owner.startswith("workflows/"):
            return self.index.workflow(owner.removeprefix("workflows/").removesuffix(".md"))
        if folder == "skills":
            return next(_workflows_using(self.index, self.relative), None)
        return None

    @property
    def config(self) -> Mapping[str, Any]:
        """The data of the config that applies to the file."""
        folder, _, rest = self.relative.partition("/")
        name = rest.removesuffix(".yaml") if folder == "config" else ""
        if not name and self.scope is not None:
            name = self.scope.owners.config
        workflow = self.workflow
        name = name or (workflow.config if workflow is not None else None) or ""
        config = self.index.library.config(name) if name else None
        return config.data if config is not None else {}


def _workflows_using(index: SymbolIndex, relative: str) -> Iterator[Workflow]:
    """Yield the workflows that use the file of a phase, then the workflow with the name of the file's folder."""
    skill = relative.removeprefix("skills/").removesuffix(".md")
    area = skill.partition("/")[0]
    several = [workflow for name in index.library.names("workflows") if (workflow := index.workflow(name))]
    yield from (each for each in several if any(use.skill == skill for use in each.phases.values()))
    yield from (each for each in several if each.name == area)


def config_entries(data: Mapping[str, Any], part: str) -> Mapping[str, Any]:
    """Return the entries of a part of a config; empty if the part is not a mapping."""
    entries = data.get(part)
    return entries if isinstance(entries, Mapping) else {}
