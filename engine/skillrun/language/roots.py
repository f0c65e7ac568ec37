"""Where files are searched: the project, the user's config folder, the library in the package. The first match wins.

Imports nothing that the start of the command line would feel.
"""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Root:
    """One folder of the search path; `shown` stands for it in messages."""

    path: Path
    shown: str
    name: str


def package_library() -> Path:
    """The folder of the shipped library: inside the wheel, or the repository's top in an editable install."""
    inside = Path(__file__).parent.parent / "library"
    return inside if inside.is_dir() else Path(__file__).parents[3]


def search_path(project: Path) -> tuple[Root, ...]:
    """The folders that are searched, the first match wins."""
    from platformdirs import user_config_path

    roots = (
        Root(project, "", "project"),
        Root(user_config_path("skillrun"), "~config/", "user"),
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
