"""Where files are searched: the project, the user's config folder, the library in the package. The first match wins.

Imports nothing that the start of the command line would feel.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import skillrun

_OWN = ("workflows/*.md", "skills/*/*.md", "roles/*.md")  # files of which a project has one, or of the config
_RUNS = ("runs/*/state.md",)


@dataclass(frozen=True)
class Root:
    """One folder of the search path; `label` stands for it in messages. Nothing leads out of a `confined` one."""

    path: Path
    label: str
    name: str
    is_confined: bool = False

    @property
    def boundary(self) -> Path | None:
        """The folder that its files lie in, where that counts."""
        return self.path if self.is_confined else None


def enclosing_project(place: Path) -> Path | None:
    """The folder of the project that a place lies in, or is, none above a repository or home.

    The nearest with files of a project, or else with runs. A folder `config` is many a program's, so that only files
    of the shipped config's names count there.
    """
    folders = list(_candidate_folders(place))
    config = tuple(f"config/{path.name}" for path in (package_library() / "config").glob("*.yaml"))
    for patterns in ((*_OWN, *config), _RUNS):
        for folder in folders:
            if any(next(folder.glob(pattern), None) is not None for pattern in patterns):
                return folder
    return None


def _candidate_folders(place: Path) -> Iterator[Path]:
    """The folders that may be the project of a place, the nearest first."""
    home = Path.home()
    for folder in (place, *place.parents):
        if folder in (home, home.resolve(), folder.parent):
            return
        yield folder
        if os.path.lexists(folder / ".git"):
            return


def package_library() -> Path:
    """The folder of the shipped library: inside the wheel, or the repository's top in an editable install."""
    package = Path(skillrun.__file__).parent
    inside = package / "content"
    return inside if inside.is_dir() else package.parents[1]


def shipped_files() -> list[str]:
    """The files of the shipped library, by their paths below its folder, sorted."""
    folder = package_library()
    paths = (path for pattern in (*_OWN, "config/*.yaml") for path in folder.glob(pattern))
    return sorted(path.relative_to(folder).as_posix() for path in paths if path.name != "README.md")


def search_path(project: Path) -> tuple[Root, ...]:
    """The folders that are searched, the first match wins."""
    from platformdirs import user_config_path

    config = user_config_path("skillrun")
    roots = (
        Root(project, "", "project", is_confined=True),
        # one that is not absolute would be a folder of whatever project one is in
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
