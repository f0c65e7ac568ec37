"""The search path: the project, the user's config folder, and the library in the package. The first match wins.

Imports only modules that do not slow down the start of the command line.
"""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain, count
from pathlib import Path
from typing import Final

import skillrun
from skillrun.syntax.diagnostics import Problem, Problems
from skillrun.syntax.reading import is_outside, outside_problem
from skillrun.types.slugs import make_slug

PROJECT: Final = "project"
USER: Final = "user"
_OWN = ("workflows/*.md", "skills/*/*.md", "skills/*/*/SKILL.md", "roles/*.md", "roles/*/*.md")
"""A project has at least one of these, or a config file."""
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
            found = (path.name for pattern in patterns for path in folder.glob(pattern))
            with suppress(OSError):  # a folder is removed meanwhile
                if any(name != "README.md" for name in found):
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
"""The locations of every library file, strongest root first, keyed by the file's name in the library.

The name is the file's path below a root, except for roles and Agent Skills, which can be in any folder below `roles/`
and `skills/`: `roles/quality/reader.agent.md` is called `roles/reader.md`.
"""
MAX_DEPTH: Final = 6  # of folders below `roles/` and `skills/`
SKILL_FILE: Final = "SKILL.md"
_SUFFIXES: Final = re.compile(r"\.(?:agent|subagent|chatmode)$", re.IGNORECASE)
_ROLE_NAME: Final = re.compile(r"[^\W_][\w-]*")


def is_in_library(relative: str) -> bool:
    """Whether a file with this path below a root belongs to the library."""
    *folders, name = relative.split("/")
    if not folders or name == "README.md" or any(part.startswith(".") for part in (*folders, name)):
        return False
    if folders[0] == "roles" or (folders[0] == "skills" and name == SKILL_FILE):
        return name.endswith(".md") and len(folders) in range(1 + (folders[0] == "skills"), MAX_DEPTH + 1)
    depth, suffix = (2, ".md") if folders[0] == "skills" else (1, ".yaml" if folders[0] == "config" else ".md")
    return folders[0] in FOLDERS and len(folders) == depth and name.endswith(suffix)


def build_file_index(
    roots: Iterable[Root], unsaved: Iterable[Path], problems: Problems, folders: Collection[str] = FOLDERS
) -> FileIndex:
    """Return the locations of the library files in the folders and of the unsaved files, keyed by their names.

    The strongest root is first. Of two files of a root with the same name, the one deeper in folders gets the names of
    its folders in front.
    """
    index: FileIndex = {}
    for root in roots:
        new = (path.relative_to(root.path).as_posix() for path in unsaved if path.is_relative_to(root.path))
        paths = dict.fromkeys((*_files(root, folders, problems), *filter(is_in_library, new)))
        first: dict[str, str] = {}
        for path in sorted(paths, key=lambda path: (path.count("/"), path)):
            name = library_name(path)
            if (other := first.get(name)) is not None:
                kind, _, last = name.partition("/")
                parents = path.split("/")[1 : -1 if kind == "roles" else -2]
                longer = (f"{kind}/{'-'.join((*parents[at:], last))}" for at in reversed(range(len(parents))))
                numbered = (f"{kind}/{number}-{last}" for number in count(2))
                name = next(each for each in chain(longer, numbered) if each not in first)
                message, hint = f"{root.label}{other} has the same name", f"this file is called `{_short_name(name)}`"
                problems.add(Problem(root.label + path, 1, 1, "name", message, hint, "warning"))
            first[name] = path
            index.setdefault(name, []).append((root, root.path / path))
    return index


def library_name(path: str) -> str:
    """Return the name in the library of the file at a path below a root."""
    folder, _, name = path.rpartition("/")
    if folder == "roles" or folder.startswith("roles/"):
        stem = unicodedata.normalize("NFC", _SUFFIXES.sub("", name.removesuffix(".md")))
        return f"roles/{stem if _ROLE_NAME.fullmatch(stem) else make_slug(stem) or stem}.md"
    if folder.startswith("skills/") and name.upper() == SKILL_FILE.upper():
        return f"skills/{folder.rpartition('/')[2]}/{SKILL_FILE}"
    return path


def _short_name(name: str) -> str:
    return name.removesuffix(f"/{SKILL_FILE}").removesuffix(".md").partition("/")[2]


def _files(root: Root, folders: Collection[str], problems: Problems) -> Iterator[str]:
    """Yield the paths of a root's library files in the folders, below the root."""
    for folder, suffix in (("workflows", ".md"), ("config", ".yaml")):
        for name, is_dir in _entries(root, folder, problems) if folder in folders else ():
            is_file = not is_dir or folder == "workflows"  # `list` shows a folder that is called like a workflow
            if is_file and name.endswith(suffix) and name != "README.md":
                yield f"{folder}/{name}"
    pending = [folder for folder in ("roles", "skills") if folder in folders]
    seen: set[tuple[int, int]] = set()  # links can lead to one folder in very many ways
    while pending:
        folder = pending.pop()
        kind, depth = folder.partition("/")[0], folder.count("/")
        entries = dict(_entries(root, folder, problems))
        if not _is_new_folder(root.path / folder, seen):
            continue
        files = (name for name, is_dir in entries.items() if not is_dir)
        names = [name for name in files if name.endswith(".md") and name != "README.md"]
        skill = next((name for name in (SKILL_FILE, "skill.md", "Skill.md") if name in names), "")
        if kind == "roles" or depth == 1:  # an area, or an Agent Skill
            yield from (f"{folder}/{name}" for name in names)
        elif skill:
            yield f"{folder}/{skill}"
        if not skill and depth < MAX_DEPTH:  # an Agent Skill has no other file of the library below it
            folders = [f"{folder}/{name}" for name, is_dir in entries.items() if is_dir and name != "node_modules"]
            links = [path for path in folders if (root.path / path).is_symlink()]
            pending = [*links, *pending, *(path for path in folders if path not in links)]  # links are read last


def _is_new_folder(path: Path, seen: set[tuple[int, int]]) -> bool:
    """Add a folder to those that were seen, and return whether it is new. False if it does not exist."""
    try:
        status = path.stat()
    except OSError:
        return False
    identity = (status.st_dev, status.st_ino)
    is_new = identity not in seen
    seen.add(identity)
    return is_new


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
            return [(entry.name, _is_folder(entry)) for entry in entries if not entry.name.startswith(".")]
    except OSError:
        return []


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a link that leads to itself
        return False
