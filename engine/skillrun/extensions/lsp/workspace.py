"""Keeps the state of a project that is open in an editor: its files, unsaved changes and check results.

This module does not depend on LSP.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

from skillrun.checker.checker import CheckedLibrary, CheckedPart, recheck
from skillrun.checker.program import Program
from skillrun.extensions.lsp.symbol_index import SymbolIndex
from skillrun.extensions.testing.cases import CaseFile, case_files, is_case_file
from skillrun.extensions.testing.checking import case_problems
from skillrun.library.library import Library
from skillrun.library.roots import enclosing_project, is_in_library, search_path
from skillrun.syntax.diagnostics import Problem
from skillrun.syntax.source import normalize_newlines


class CheckedCase(NamedTuple):
    """The problems of a checked case, and what determines them.

    `stamp` identifies the version of the file, or is the unsaved text. `part` is the check of the workflow.
    """

    stamp: object
    part: CheckedPart | None
    problems: tuple[Problem, ...]


@dataclass
class CheckedCases:
    """The checked cases of a project. A result is kept until something that it depends on changes."""

    project: Path
    cases: dict[Path, CheckedCase] = field(default_factory=dict)

    def problems(self, parts: Mapping[str, CheckedPart], unsaved: Mapping[Path, str]) -> Iterator[Problem]:
        """Yield the problems of all cases, including cases whose workflow is unknown."""
        cases: dict[Path, CheckedCase] = {}
        for file in self._files(unsaved):
            before, part = self.cases.get(file.path), parts.get(file.workflow)
            stamp = _stamp(file.path, unsaved)
            if before is None or before.stamp != stamp or before.part is not part:
                program = part.program if part is not None and not part.library.problems.has_errors else None
                problems = tuple(case_problems(file, parts, program, self.project, unsaved.get(file.path)))
                before = CheckedCase(stamp, part, problems)
            cases[file.path] = before
            yield from before.problems
        self.cases = cases

    def _files(self, unsaved: Mapping[Path, str]) -> Iterator[CaseFile]:
        """Yield the cases on disk, and new cases that are not saved yet."""
        files = {file.path: file for file in case_files(self.project)}
        for path in unsaved:
            if path.is_relative_to(self.project) and is_case_file(path.relative_to(self.project)):
                label = path.relative_to(self.project).as_posix()
                files[path] = CaseFile(path.parent.name, path.stem, path, label)
        yield from files.values()


def _stamp(path: Path, unsaved: Mapping[Path, str]) -> object:
    if path in unsaved:
        return unsaved[path]
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino


DEPTHS: Final = (2, 3)  # how many levels below its project a library file can be


class Workspace:
    """One project. Check results are from the last check, but files are read in their newest version.

    `programs` has the last valid program of each workflow, for completion while a file is invalid.
    """

    def __init__(self, project: Path, commands: Collection[str] = (), sibling: Workspace | None = None) -> None:
        """Create the workspace of the folder `project`, whose path must have no symbolic links.

        `commands` are names that workflows cannot have. Files that the `sibling` has read, such as the shipped files,
        are not read again.
        """
        self.project = project
        self.commands = commands
        self.unsaved: dict[Path, str] = {}
        self.checked: CheckedLibrary | None = None
        self.programs: dict[str, Program] = {}
        self._cases = CheckedCases(project)
        self._changes = 0
        read = sibling.library if sibling is not None else None
        self._opened = (
            -1,
            Library(search_path(project), read),
        )  # a number of changes, and the library after so many changes
        self._read = (-1, self._opened[1])
        self._index = SymbolIndex(self._opened[1])

    @property
    def library(self) -> Library:
        """The library of the current files. Its problems are from reading the files, not from a check."""
        changes = self._changes
        if self._read[0] != changes:
            self._read = changes, self._load_latest().fork()
        return self._read[1]

    @property
    def index(self) -> SymbolIndex:
        """The symbol index of the current files and the last check."""
        self._index.library = self.library
        return self._index

    def _load_latest(self) -> Library:
        changes, (then, library) = self._changes, self._opened
        if then != changes:
            library = Library(library.roots, library, dict(self.unsaved))
            self._opened = changes, library
        return library

    def edit(self, path: Path, text: str) -> None:
        """Use this text for a file instead of the text on disk."""
        self.unsaved[path] = normalize_newlines(text)
        self.invalidate()

    def forget(self, path: Path) -> None:
        """Use the text on disk for a file again."""
        self.unsaved.pop(path, None)
        self.invalidate()

    def invalidate(self) -> None:
        """Record a change, in the editor or on disk."""
        self._changes += 1

    def text(self, path: Path) -> str | None:
        """Return the current text of a file, with `\\n` line ends; None if it cannot be read."""
        if path in self.unsaved:
            return self.unsaved[path]
        try:
            return normalize_newlines(path.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError):
            return None

    def relative(self, path: Path) -> str:
        """Return the path of a file below its root, such as `skills/plan/research.md`; empty if no root contains it."""
        roots = (root.path for root in self.library.roots)
        below = (path.relative_to(root).as_posix() for root in (self.project, *roots) if path.is_relative_to(root))
        return next(below, "")

    def resolve_label(self, label: str) -> Path:
        """Return the file that the label of a problem names."""
        for root in self.library.roots:
            if root.label and label.startswith(root.label):
                return root.path / label.removeprefix(root.label)
        return self.project / label

    def check(self, outdated: Callable[[], bool] = lambda: False) -> Mapping[Path, list[Problem]]:
        """Check the project, and return the problems keyed by path. Raises CheckOutdated if `outdated` returns true.

        Can be called in a separate thread, but not in two threads at the same time.
        """
        library = self._load_latest()
        checked = self.checked = recheck(library, self.commands, self.checked, outdated)
        self.programs |= checked.programs
        self._index.update(part.symbols for part in checked.parts.values())
        problems: dict[Path, list[Problem]] = {}
        for problem in (*checked.problems, *self._cases.problems(checked.parts, library.unsaved)):
            problems.setdefault(self.resolve_label(problem.path), []).append(problem)
        return problems


def find_project(path: Path) -> Path | None:
    """Return the project folder of a file; None if the file is not in a project.

    A file in a folder such as `workflows/` makes the parent a project, even if the project has no other file.
    """
    project = enclosing_project(path.parent)
    if project is not None:
        return project
    above = (path.parents[depth - 1] for depth in DEPTHS if len(path.parents) >= depth)
    return next((folder for folder in above if is_in_library(path.relative_to(folder).as_posix())), None)
