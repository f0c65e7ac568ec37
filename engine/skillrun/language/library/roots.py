"""Where files are searched: the project, the user's config folder, the library in the package. The first match wins.

Imports nothing that the start of the command line would feel.
"""

from dataclasses import dataclass
from pathlib import Path

import skillrun

_OWN = ("workflows/*.md", "skills/*/*.md", "roles/*.md", "config/*.yaml")  # files of which a project has one


@dataclass(frozen=True)
class Root:
    """One folder of the search path; `label` stands for it in messages. Nothing leads out of a `confined` one."""

    path: Path
    label: str
    name: str
    confined: bool = False

    @property
    def inside(self) -> Path | None:
        """The folder that its files lie in, where that counts."""
        return self.path if self.confined else None


def enclosing_project(place: Path) -> Path | None:
    """The folder with files of a project that a place lies in, or is: the nearest, none above a repository or home."""
    home = Path.home()
    for folder in (place, *place.parents):
        if folder in (home, folder.parent):
            return None
        if any(next(folder.glob(pattern), None) is not None for pattern in _OWN):
            return folder
        if (folder / ".git").exists():
            return None
    return None


def package_library() -> Path:
    """The folder of the shipped library: inside the wheel, or the repository's top in an editable install."""
    package = Path(skillrun.__file__).parent
    inside = package / "library"
    return inside if inside.is_dir() else package.parents[1]


def search_path(project: Path) -> tuple[Root, ...]:
    """The folders that are searched, the first match wins."""
    from platformdirs import user_config_path

    config = user_config_path("skillrun")
    roots = (
        Root(project, "", "project", confined=True),
        # one that is not absolute would be a folder of whatever project one is in
        *((Root(config, "~config/", "user"),) if config.is_absolute() else ()),
        Root(package_library(), "skillrun:", "library"),
    )
    seen: set[Path] = set()
    kept = []
    for root in reversed(roots):
        resolved = root.path.resolve()
        if resolved not in seen:
            seen.add(resolved)
            kept.append(root)
    return tuple(reversed(kept))
