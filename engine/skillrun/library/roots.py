"""The search path: the project, the user's config folder, and the library in the package. The first match wins.

Imports only modules that do not slow down the start of the command line.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import skillrun
from skillrun.syntax.diagnostics import Problems
from skillrun.syntax.reading import is_outside, outside_problem

PROJECT: Final = "project"
USER: Final = "user"
_OWN = ("workflows/*.md", "skills/*/*.md", "roles/*.md")  # a project has at least one of these, or a config file
_RUNS = ("runs/*/state.md",)


@dataclass(frozen=True)
class Root:
    """A folder of the search path.

    `label` is the prefix of its files in messages. If `is_confined`, links cannot lead out of the folder.
    """

    path: Path
    label: str
    name: str
    is_confined: bool = False

    @property
    def boundary(self) -> Path | None:
        """The folder that must contain the root's files; None if the root is not confined."""
        return self.path if self.is_confined else None


def enclosing_project(place: Path) -> Path | None:
    """Return the project folder of a path: the path itself, or a folder that contains it.

    The project is the nearest folder with project files; if there is none, it is the nearest folder with runs. The
    search stops at the root of a repository and at the home folder. Many programs have a folder `config`, so a file in
    `config` counts only if it has the name of a shipped config file.
    """
    folders = list(_candidate_folders(place))
    config = tuple(f"config/{path.name}" for path in (package_library() / "config").glob("*.yaml"))
    for patterns in ((*_OWN, *config), _RUNS):
        for folder in folders:
            if any(next(folder.glob(pattern), None) is not None for pattern in patterns):
                return folder
    return None


def _candidate_folders(place: Path) -> Iterator[Path]:
    """Yield the folders that can be the project of a path, nearest first."""
    home = Path.home()
    for folder in (place, *place.parents):
        if folder in (home, Path(os.path.realpath(home)), folder.parent):
            return
        yield folder
        if os.path.lexists(folder / ".git"):
            return


def package_library() -> Path:
    """Return the folder of the shipped library.

    It is inside the wheel or, in an editable install, the root of the repository.
    """
    package = Path(skillrun.__file__).parent
    inside = package / "content"
    return inside if inside.is_dir() else package.parents[1]


def shipped_files() -> list[str]:
    """Return the sorted paths of the shipped library's files, relative to its folder."""
    folder = package_library()
    paths = (path for pattern in (*_OWN, "config/*.yaml") for path in folder.glob(pattern))
    return sorted(path.relative_to(folder).as_posix() for path in paths if path.name != "README.md")


def search_path(project: Path) -> tuple[Root, ...]:
    """Return the folders to search, strongest first."""
    from platformdirs import user_config_path

    config = user_config_path("skillrun")
    roots = (
        Root(project, "", PROJECT, is_confined=True),
        # a relative folder would depend on the current directory
        *((Root(config, "~config/", USER),) if config.is_absolute() else ()),
        Root(package_library(), "skillrun:", "library"),
    )
    by_path: dict[Path, Root] = {}
    for root in reversed(roots):
        by_path.setdefault(Path(os.path.realpath(root.path)), root)
    return tuple(reversed(by_path.values()))


FOLDERS: Final = ("workflows", "skills", "roles", "config")
FileIndex = dict[str, list[tuple[Root, Path]]]
"""The locations of every library file, strongest root first, keyed by the file's path below a root."""


def is_in_library(relative: str) -> bool:
    """Whether a file with this path below a root belongs to the library."""
    *folders, name = relative.split("/")
    if not folders or name == "README.md" or any(part.startswith(".") for part in (*folders, name)):
        return False
    depth, suffix = (2, ".md") if folders[0] == "skills" else (1, ".yaml" if folders[0] == "config" else ".md")
    return folders[0] in FOLDERS and len(folders) == depth and name.endswith(suffix)


def build_file_index(roots: Iterable[Root], unsaved: Iterable[Path], problems: Problems) -> FileIndex:
    """Return the locations of every library file, strongest root first, keyed by the file's path below a root."""
    places: FileIndex = {}
    for root in roots:
        new = (path.relative_to(root.path).as_posix() for path in unsaved if path.is_relative_to(root.path))
        for relative in dict.fromkeys((*_files(root, problems), *filter(is_in_library, new))):
            places.setdefault(relative, []).append((root, root.path / relative))
    return places


def _files(root: Root, problems: Problems) -> Iterator[str]:
    for folder in FOLDERS:
        inside = [folder]
        if folder == "skills":
            inside = [f"{folder}/{name}" for name, is_dir in _entries(root, folder, problems) if is_dir]
        suffix = ".yaml" if folder == "config" else ".md"
        for parent in inside:
            for name, is_dir in _entries(root, parent, problems):
                if not is_dir and name.endswith(suffix) and name != "README.md":
                    yield f"{parent}/{name}"


def _entries(root: Root, folder: str, problems: Problems) -> list[tuple[str, bool]]:
    """Return the names in a folder, and whether each is a folder. Hidden names are left out.

    The list is empty if the folder is outside of a confined root.
    """
    path = root.path / folder
    if is_outside(path, root.boundary):
        problems.add(outside_problem(root.label + folder))
        return []
    try:
        with os.scandir(path) as entries:
            return [(entry.name, entry.is_dir()) for entry in entries if not entry.name.startswith(".")]
    except OSError:
        return []
