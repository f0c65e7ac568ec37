"""What there is on the search path, by name and description: read from the frontmatter alone, so that it is quick.

Says nothing about whether a file is right; that is for the checker.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from skillrun.language.roots import Root, search_path

LARGEST = 1_000_000
BROKEN = "(cannot be read: `skillrun validate` says why)"


@dataclass(frozen=True)
class Item:
    name: str
    description: str
    origin: str


def workflows(project: Path) -> list[Item]:
    return sorted(_items(search_path(project), "workflows"), key=lambda item: item.name)


def protocols(project: Path) -> list[Item]:
    return sorted(_items(search_path(project), "skills/protocols"), key=lambda item: item.name)


def roles(project: Path) -> list[Item]:
    return sorted(_items(search_path(project), "roles"), key=lambda item: item.name)


def has_workflow(project: Path, name: str) -> bool:
    return any((root.path / "workflows" / f"{name}.md").is_file() for root in search_path(project))


def _items(roots: tuple[Root, ...], folder: str) -> Iterator[Item]:
    """The markdown files of a folder, each from the first root that has it."""
    seen: set[str] = set()
    for root in roots:
        base = root.path / folder
        for path in base.glob("*.md") if base.is_dir() else ():
            if path.stem not in seen and not path.name.startswith("."):
                seen.add(path.stem)
                yield Item(path.stem, _description(path), root.name)


def _description(path: Path) -> str:
    front = _frontmatter(path)
    if front is None:
        return BROKEN
    description = front.get("description", "")
    return " ".join(description.split()) if isinstance(description, str) else BROKEN


def _frontmatter(path: Path) -> dict[Any, Any] | None:
    """The frontmatter with every scalar as text; None where there is no reading it."""
    import yaml

    try:
        if path.stat().st_size > LARGEST:
            return None
        text = path.read_text(encoding="utf-8-sig")
        if not text.startswith("---"):
            return {}
        found = yaml.load(text.split("\n---", 1)[0][3:], Loader=yaml.CBaseLoader)  # noqa: S506 (makes only texts, lists and mappings)
    except (OSError, ValueError, yaml.YAMLError, RecursionError):
        return None
    return found if isinstance(found, dict) else None
