"""Indexes the symbols of a project: the references and scopes that the last successful check found in each file.

An invalid file keeps its earlier entries, so that completion works while the file is edited.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from skillrun.definitions.definitions import Workflow
from skillrun.library.library import Library
from skillrun.library.symbols import ScopeRange, Symbol, SymbolReference, SymbolTable
from skillrun.syntax.source import Mapping as Node
from skillrun.syntax.source import Source, Span


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

    def references_at(self, offset: int) -> Iterator[SymbolReference]:
        """Yield the references at an offset. An offset at either end of a name counts."""
        for reference in self.references:
            if reference.span.offset <= offset <= reference.span.offset + reference.length:
                yield reference

    def scope_at(self, offset: int, step: str = "") -> ScopeRange | None:
        """Return the scope at an offset; None if the file has no scopes.

        It is the scope of the innermost template at the offset. If the offset is not in a template, it is the scope of
        the named step or, without a name, the nearest scope above.
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
    _references_by_symbol: tuple[Mapping[Path, IndexedFile], dict[Symbol, list[SymbolReference]]] = (
        {},
        {},
    )  # the files, and the references found in them

    def update(self, sightings: Iterable[SymbolTable]) -> None:
        """Add the results of a check. Files that the check did not read keep their entries.

        Can be called in another thread. Concurrent readers then see the earlier entries.
        """
        tables = list(sightings)
        references: dict[Source, dict[SymbolReference, None]] = defaultdict(dict)
        views: dict[Source, list[ScopeRange]] = defaultdict(list)
        for table in tables:
            for source, places in table.references.items():
                references[source].update(places)
            for source, known in table.scopes.items():
                views[source] += known
        files = dict(self.files)
        for source in {*references, *views}:
            files[source.path] = IndexedFile(
                source,
                tuple(sorted(references[source], key=lambda mention: mention.span.offset)),
                tuple(sorted(views[source], key=lambda view: view.start)),
            )
        self.indexed_symbols = frozenset(symbol for table in tables for symbol in table.indexed)
        self.files = files

    def indexed_file(self, path: Path) -> IndexedFile | None:
        """Return the entry of a file; None if no check has read the file."""
        return self.files.get(path)

    def references_to(self, symbol: Symbol) -> list[SymbolReference]:
        """Return all references to a symbol."""
        files, by_thing = self._references_by_symbol
        if files is not self.files:
            files, by_thing = self.files, defaultdict(list)
            for file in files.values():
                for reference in file.references:
                    by_thing[reference.symbol].append(reference)
            self._references_by_symbol = files, by_thing
        return by_thing.get(symbol, [])

    def front(self, library_path: str) -> Node | None:
        """Return the frontmatter of a library file, or the first layer of a config.

        If it is invalid now, return the last valid version; None if it was never valid.
        """
        library = self.library
        found: Node | None = None
        folder, _, name = library_path.partition("/")
        stem = name.rpartition(".")[0]
        if library.locate(library_path) is not None:
            match folder:
                case "workflows":
                    workflow = library.workflow(stem)
                    found = workflow.document.frontmatter if workflow is not None else None
                case "roles":
                    role = library.role(stem)
                    found = role.document.frontmatter if role is not None else None
                case "skills":
                    document = library.skill(stem)
                    found = document.frontmatter if document is not None else None
                case "config":
                    config = library.config(stem)
                    found = config.layers[0] if config is not None else None
        if found is not None:
            self.fronts[library_path] = found
        return self.fronts.get(library_path)

    def layers(self, name: str) -> tuple[Node, ...]:
        """Return the layers of a config, in order of precedence."""
        config = self.library.config(name)
        return config.layers if config is not None else ()

    def workflow(self, name: str) -> Workflow | None:
        """Return a workflow. If it is invalid now, return the last valid version; None if it was never valid."""
        workflow = self.library.workflow(name) if self.library.locate(f"workflows/{name}.md") is not None else None
        if workflow is not None:
            self.workflows[name] = workflow
        return self.workflows.get(name)

    def file_start(self, library_path: str) -> Span | None:
        """Return the start of a library file; None if the file does not exist."""
        place = self.library.locate(library_path)
        if place is None:
            return None
        root, path = place
        file = self.library.loaded_files.get(path)
        if file is not None and file.source is not None:
            return Span(file.source, 0)
        return Span(Source(path, root.label + library_path, ""), 0)


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
    """Return the length of the common prefix of two texts."""
    least, most = 0, min(len(text), len(other))
    while least < most:
        middle = (least + most + 1) // 2
        if text[least:middle] == other[least:middle]:
            least = middle
        else:
            most = middle - 1
    return least
