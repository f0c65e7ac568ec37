"""A project as an editor sees it: its files, those of them with unsaved changes, and what came of checking them.

Knows nothing of the protocol that editors speak.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Final

from skillrun.checker.program import Program
from skillrun.checker.rechecking import CheckedLibrary, recheck
from skillrun.extensions.lsp.checked_cases import CheckedCases
from skillrun.extensions.lsp.symbol_index import SymbolIndex
from skillrun.library.library import Library
from skillrun.library.listing import is_in_library
from skillrun.library.roots import enclosing_project, search_path
from skillrun.syntax.diagnostics import Problem
from skillrun.syntax.source import normalize_newlines

DEPTHS: Final = (2, 3)  # of a file of a library below its project


class Workspace:
    """One project. What is checked is the last state that was; what is read is always the newest.

    `programs` has for each workflow the last program that could be made of it, so that there is something to complete
    from while a file is broken.
    """

    def __init__(self, project: Path, commands: Collection[str] = (), sibling: Workspace | None = None) -> None:
        """`project` is its folder with all links followed; `commands` are names that no workflow can take.

        Files that the one `beside` it has read, such as the shipped ones, are not read again.
        """
        self.project = project
        self.commands = commands
        self.unsaved: dict[Path, str] = {}
        self.checked: CheckedLibrary | None = None
        self.programs: dict[str, Program] = {}
        self._cases = CheckedCases(project)
        self._changes = 0
        read = sibling.library if sibling is not None else None
        self._opened = (-1, Library(search_path(project), read))  # after so many changes
        self._read = (-1, self._opened[1])
        self._index = SymbolIndex(self._opened[1])

    @property
    def library(self) -> Library:
        """What the files say now. Its problems are those of what was read through it, and not those of a check."""
        changes = self._changes
        if self._read[0] != changes:
            self._read = changes, self._load_latest().fork()
        return self._read[1]

    @property
    def index(self) -> SymbolIndex:
        """What is known of names: by the files as they are now, and by the newest check."""
        self._index.library = self.library
        return self._index

    def _load_latest(self) -> Library:
        changes, (then, library) = self._changes, self._opened
        if then != changes:
            library = Library(library.roots, library, dict(self.unsaved))
            self._opened = changes, library
        return library

    def edit(self, path: Path, text: str) -> None:
        """Take the text for that of the file, whatever the disk says."""
        self.unsaved[path] = normalize_newlines(text)
        self.invalidate()

    def forget(self, path: Path) -> None:
        """Take the file as it is on the disk."""
        self.unsaved.pop(path, None)
        self.invalidate()

    def invalidate(self) -> None:
        """Something has changed, here or on the disk."""
        self._changes += 1

    def text(self, path: Path) -> str | None:
        """The text of a file as it is now, with `\\n` line ends; None where it cannot be read."""
        if path in self.unsaved:
            return self.unsaved[path]
        try:
            return normalize_newlines(path.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError):
            return None

    def relative(self, path: Path) -> str:
        """The path of a file below the root that it is in: `skills/plan/research.md`; empty where it is in none."""
        roots = (root.path for root in self.library.roots)
        below = (path.relative_to(root).as_posix() for root in (self.project, *roots) if path.is_relative_to(root))
        return next(below, "")

    def resolve_label(self, label: str) -> Path:
        """The file that a problem names."""
        for root in self.library.roots:
            if root.label and label.startswith(root.label):
                return root.path / label.removeprefix(root.label)
        return self.project / label

    def check(self, outdated: Callable[[], bool] = lambda: False) -> Mapping[Path, list[Problem]]:
        """The problems of all files, by path. Raises Outdated where nobody waits for them any more.

        May be called in a thread of its own, once at a time.
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
    """The folder of the project that a file is in, or begins; None where it is in none."""
    project = enclosing_project(path.parent)
    if project is not None:
        return project
    above = (path.parents[depth - 1] for depth in DEPTHS if len(path.parents) >= depth)
    return next((folder for folder in above if is_in_library(path.relative_to(folder).as_posix())), None)
