"""Keeps the state of a project that is open in an editor, and checks what has changed in it.

This module does not depend on LSP.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from skillrun.checker.checker import Checker
from skillrun.checker.program import Program
from skillrun.extensions.lsp.symbol_index import SymbolIndex
from skillrun.extensions.testing.cases import CaseFile, case_files, is_case_file
from skillrun.extensions.testing.checking import case_problems
from skillrun.library.library import Library, Stamp
from skillrun.library.roots import enclosing_project, is_in_library, search_path
from skillrun.library.symbols import SymbolTable
from skillrun.syntax.diagnostics import Problem, Problems
from skillrun.syntax.reading import read_source
from skillrun.syntax.source import normalize_newlines


@dataclass(frozen=True)
class CheckedPart:
    """The result of checking one workflow, or all files that no workflow uses.

    `library` holds the files that the check read.
    """

    library: Library
    used_names: frozenset[str]
    symbols: SymbolTable
    program: Program | None = None


@dataclass(frozen=True)
class CheckedLibrary:
    """A library with one check result per workflow. The empty key has the result for unused files."""

    library: Library
    parts: Mapping[str, CheckedPart]

    @property
    def problems(self) -> list[Problem]:
        """All problems of all files."""
        problems = Problems()
        for library in (self.library, *(part.library for part in self.parts.values())):
            for problem in library.problems:
                problems.add(problem)
        return list(problems)


class CheckOutdated(Exception):
    """The library changed during the check, so the result would be outdated."""


def recheck(
    library: Library,
    commands: Collection[str],
    earlier: CheckedLibrary | None = None,
    is_outdated: Callable[[], bool] = lambda: False,
) -> CheckedLibrary:
    """Check the library. A workflow keeps its result in `earlier` if none of its files has changed.

    The errors are those of `check_library`. Some warnings of `check_library` require a library without errors; here,
    they only require a workflow without errors. Raises CheckOutdated as soon as `is_outdated` returns true.
    """
    earlier_parts: Mapping[str, CheckedPart] = earlier.parts if earlier is not None else {}
    parts: dict[str, CheckedPart] = {}
    for name in library.names("workflows"):
        part = earlier_parts.get(name)
        if part is None or not library.matches(part.library):
            if is_outdated():
                raise CheckOutdated
            symbols = SymbolTable()
            checker = Checker(library.fork(), commands, symbols=symbols)
            program = checker.check_workflow(name)
            checker.warn_about_unused_inputs()
            part = CheckedPart(checker.library, frozenset(checker.used_names), symbols, program)
        parts[name] = part
    used_names = frozenset(name for part in parts.values() for name in part.used_names)
    has_errors = any(part.library.problems.has_errors for part in parts.values())
    symbols = SymbolTable()
    checker = Checker(library.fork(), used_names=used_names, has_errors=has_errors, symbols=symbols)
    checker.check_unused_files()
    checker.finish()
    parts[""] = CheckedPart(checker.library, used_names, symbols)
    return CheckedLibrary(library, parts)


class CheckedCase(NamedTuple):
    """The problems of a case, with the version of its text and the check of its workflow."""

    version: Stamp
    part: CheckedPart | None
    problems: tuple[Problem, ...]


class Workspace:
    """One project. Check results are from the last check; the files always have their current text."""

    def __init__(self, project: Path, commands: Collection[str] = (), sibling: Workspace | None = None) -> None:
        """Create the workspace of the folder `project`, whose path must not contain symbolic links.

        `commands` are names that workflows cannot have. Files that `sibling` has read, such as the shipped files, are
        not read again.
        """
        self.project = project
        self.commands = commands
        self.unsaved: dict[Path, str] = {}
        self.checked: CheckedLibrary | None = None
        self._cases: dict[Path, CheckedCase] = {}
        self._changes = 0
        library = Library(search_path(project), sibling.library if sibling is not None else None)
        self._loaded = -1, library, library  # a number of changes, and the result of `_load_latest` after them
        self._index = SymbolIndex(library)

    @property
    def library(self) -> Library:
        """The library of the current files. Its problems are from reading the files, not from a check."""
        return self._load_latest()[1]

    @property
    def index(self) -> SymbolIndex:
        """The symbol index of the current files and the last check."""
        self._index.library = self.library
        return self._index

    def _load_latest(self) -> tuple[Library, Library]:
        """Return the library of the current files, and a fork of it that collects the problems of requests."""
        changes, (then, library, fork) = self._changes, self._loaded
        if then != changes:
            library = Library(library.roots, library, dict(self.unsaved))
            fork = library.fork()
            self._loaded = changes, library, fork
        return library, fork

    def edit(self, path: Path, text: str | None) -> None:
        """Use `text` as the content of a file. None restores the content on disk."""
        if text is not None:
            self.unsaved[path] = normalize_newlines(text)
        else:
            self.unsaved.pop(path, None)
        self.invalidate()

    def invalidate(self) -> None:
        """Record a change, in the editor or on disk."""
        self._changes += 1

    def text(self, path: Path) -> str | None:
        """Return the current text of a file, with `\\n` line ends; None if it cannot be read."""
        if path in self.unsaved:
            return self.unsaved[path]
        boundary = next((root.boundary for root in self.library.roots if path.is_relative_to(root.path)), None)
        source = read_source(path, "", Problems(), boundary=boundary)
        return source.text if source is not None else None

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
        library, _ = self._load_latest()
        checked = self.checked = recheck(library, self.commands, self.checked, outdated)
        self._index.update(part.symbols for part in checked.parts.values())
        problems: dict[Path, list[Problem]] = {}
        for problem in (*checked.problems, *self._check_cases(checked.parts, library)):
            problems.setdefault(self.resolve_label(problem.path), []).append(problem)
        return problems

    def _check_cases(self, parts: Mapping[str, CheckedPart], library: Library) -> Iterator[Problem]:
        """Yield the problems of saved and unsaved cases, including cases of unknown workflows.

        A case is not checked again until its text or the check of its workflow has changed.
        """
        files = {file.path: file for file in case_files(self.project)}
        for path in library.unsaved:
            if path.is_relative_to(self.project) and is_case_file(path.relative_to(self.project)):
                label = path.relative_to(self.project).as_posix()
                files[path] = CaseFile(path.parent.name, path.stem, path, label)
        cases: dict[Path, CheckedCase] = {}
        for path, file in files.items():
            part, version = parts.get(file.workflow), library.stamp(path)
            case = self._cases.get(path)
            if case is None or case.version != version or case.part is not part:
                program = part.program if part is not None and not part.library.problems.has_errors else None
                problems = tuple(case_problems(file, parts, program, self.project, library.unsaved.get(path)))
                case = CheckedCase(version, part, problems)
            cases[path] = case
            yield from case.problems
        self._cases = cases


def find_project(path: Path) -> Path | None:
    """Return the project folder of a file; None if the file is not in a project.

    A file in a folder such as `workflows/` makes the parent a project, even if the project has no other file.
    """
    project = enclosing_project(path.parent)
    if project is not None:
        return project
    above = list(path.parents)[1:3]  # a library file is two or three levels below its project
    return next((folder for folder in above if is_in_library(path.relative_to(folder).as_posix())), None)
