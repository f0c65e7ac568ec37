"""Indexes the symbols of a project: the references and scopes that the last successful check found in each file.

An invalid file keeps its earlier entries, so that completion works while the file is edited.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from skillrun.definitions.definitions import PhaseUse, Role, Workflow
from skillrun.library.library import Library
from skillrun.library.symbols import ScopeRange, Symbol, SymbolReference, SymbolTable
from skillrun.syntax.source import Mapping as Node
from skillrun.syntax.source import Source


class TextRange(NamedTuple):
    """A range of a file, given by offsets in the text that was last checked."""

    path: Path
    start: int
    end: int


@dataclass(frozen=True)
class IndexedFile:
    """A file with the references and scopes that its last successful check found."""

    source: Source
    references: tuple[SymbolReference, ...]
    scopes: tuple[ScopeRange, ...]

    def scope_at(self, offset: int, step: str = "") -> ScopeRange | None:
        """Return the scope at an offset; None if the file has no scopes.

        In a template, return the scope of the innermost template. Outside of templates, return the scope of `step` or,
        if it is empty, the nearest scope above.
        """
        enclosing_scopes = [
            scope for scope in self.scopes if scope.start <= offset <= scope.end and scope.start < scope.end
        ]
        if enclosing_scopes:
            return min(enclosing_scopes, key=lambda view: view.end - view.start)
        if step:
            return next((scope for scope in reversed(self.scopes) if scope.step == step), None)
        place = bisect_right(self.scopes, offset, key=lambda view: view.start)
        return self.scopes[place - 1] if place else next(iter(self.scopes), None)


@dataclass
class SymbolIndex:
    """The current library and the results of checks. `update` adds the results of a new check."""

    library: Library
    files: dict[Path, IndexedFile] = field(default_factory=dict)
    workflows: dict[str, Workflow] = field(default_factory=dict)
    fronts: dict[str, Node] = field(default_factory=dict)
    indexed_symbols: frozenset[Symbol] = frozenset()

    def update(self, sightings: Iterable[SymbolTable]) -> None:
        """Add the results of a check. Files that the check did not read keep their entries.

        Can be called in another thread. Concurrent readers then see the earlier entries.
        """
        tables = list(sightings)
        references: dict[Source, dict[SymbolReference, None]] = defaultdict(dict)
        scopes: dict[Source, list[ScopeRange]] = defaultdict(list)
        for table in tables:
            for source, found in table.references.items():
                references[source].update(found)
            for source, known in table.scopes.items():
                scopes[source] += known
        files = dict(self.files)
        for source in {*references, *scopes}:
            files[source.path] = IndexedFile(
                source,
                tuple(sorted(references[source], key=lambda reference: reference.span.offset)),
                tuple(sorted(scopes[source], key=lambda scope: scope.start)),
            )
        self.indexed_symbols = frozenset(symbol for table in tables for symbol in table.indexed)
        self.files = files

    def front(self, library_path: str) -> Node | None:
        """Return the frontmatter of a workflow, role or skill.

        If the frontmatter is invalid now, return its last valid version; None if it was never valid.
        """
        folder, _, name = library_path.partition("/")
        stem = name.removesuffix(".md")
        if folder == "skills":
            document = self.library.skill(stem)
        else:
            definition: Workflow | Role | None = None
            if folder in ("workflows", "roles"):
                definition = self.library.workflow(stem) if folder == "workflows" else self.library.role(stem)
            document = definition.document if definition is not None else None
        if document is not None:
            self.fronts[library_path] = document.frontmatter
        return self.fronts.get(library_path)

    def workflow(self, name: str) -> Workflow | None:
        """Return a workflow, by its name or library path.

        If the workflow is invalid now, return its last valid version; None if it was never valid.
        """
        name = name.removeprefix("workflows/").removesuffix(".md")
        workflow = self.library.workflow(name)
        if workflow is not None:
            self.workflows[name] = workflow
        return self.workflows.get(name)

    def phase_uses(self, workflow: str) -> Iterable[PhaseUse]:
        """Return the phases in a workflow, given by its name or library path; empty if the workflow was never valid."""
        known = self.workflow(workflow)
        return known.phases.values() if known is not None else ()


def map_offset(before: str, now: str, offset: int) -> int:
    """Return the offset in the text `before` that corresponds to an offset in the text `now`.

    Assumes that a single edit changed `before` to `now`.
    """
    if before == now:
        return offset
    start = _common_prefix_length(before, now)
    if offset <= start:
        return offset
    behind = min(len(before), len(now)) - start
    end = _common_prefix_length(before[len(before) - behind :][::-1], now[len(now) - behind :][::-1])
    return len(before) - (len(now) - offset) if offset >= len(now) - end else start


def _common_prefix_length(text: str, other: str) -> int:
    shorter = min(len(text), len(other))
    return bisect_left(range(shorter), True, key=lambda place: text[: place + 1] != other[: place + 1])
