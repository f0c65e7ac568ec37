"""The search path: the project, the user's config folder, and the library in the package. The first match wins.

Imports only modules that do not slow down the start of the command line.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import skillrun

_OWN = ("workflows/*.md", "skills/*/*.md", "roles/*.md")  # a project has at least one of these, or a config file
_RUNS = ("runs/*/state.md",)


@dataclass(frozen=True)
class Root:
    """A folder of the search path; `label` is its prefix in messages. Links cannot lead out if `is_confined`."""

    path: Path
    label: str
    name: str
    is_confined: bool = False

    @property
    def boundary(self) -> Path | None:
        """The folder that its files must be in, if confined."""
        return self.path if self.is_confined else None


def enclosing_project(place: Path) -> Path | None:
    """Return the project folder that contains a path, or is it; the search stops at a repository root or home.

    This is the nearest folder with project files, or else with runs. Many programs have a folder `config`, so only
    files with the names of shipped config files count there.
    """
    folders = list(_candidate_folders(place))
    config = tuple(f"config/{path.name}" for path in (package_library() / "config").glob("*.yaml"))
    for patterns in ((*_OWN, *config), _RUNS):
        for folder in folders:
            if any(next(folder.glob(pattern), None) is not None for pattern in patterns):
                return folder
    return None


def _candidate_folders(place: Path) -> Iterator[Path]:
    """Yield the folders that may be the project of a path, nearest first."""
    home = Path.home()
    for folder in (place, *place.parents):
        if folder in (home, home.resolve(), folder.parent):
            return
        yield folder
        if os.path.lexists(folder / ".git"):
            return


def package_library() -> Path:
    """The folder of the shipped library: inside the wheel, or the repository root in an editable install."""
    package = Path(skillrun.__file__).parent
    inside = package / "content"
    return inside if inside.is_dir() else package.parents[1]


def shipped_files() -> list[str]:
    """The sorted paths of the shipped library's files, relative to its folder."""
    folder = package_library()
    paths = (path for pattern in (*_OWN, "config/*.yaml") for path in folder.glob(pattern))
    return sorted(path.relative_to(folder).as_posix() for path in paths if path.name != "README.md")


def search_path(project: Path) -> tuple[Root, ...]:
    """Return the folders to search, strongest first."""
    from platformdirs import user_config_path

    config = user_config_path("skillrun")
    roots = (
        Root(project, "", "project", is_confined=True),
        # a relative folder would depend on the current directory
        *((Root(config, "~config/", "user"),) if config.is_absolute() else ()),
        Root(package_library(), "skillrun:", "library"),
    )
    seen: set[Path] = set()
    unique_roots = []
    for root in reversed(roots):
        resolved = root.path.resolve()
        if resolved not in seen:
            seen.add(resolved)
            unique_roots.append(root)
    return tuple(reversed(unique_roots))
