"""Lists the names of the runs in a folder. For speed, imports only the standard library and opens no run."""

from __future__ import annotations

from pathlib import Path
from typing import Final

STATE: Final = "state.md"  # every run that has started has it


def newest_first(folder: Path) -> list[str]:
    """Return the names of the runs in a folder, the most recently changed first. Links are left out."""
    states = [path / STATE for path in folder.iterdir() if not path.is_symlink()] if folder.is_dir() else []
    states = sorted((path for path in states if path.is_file()), key=lambda path: path.stat().st_mtime, reverse=True)
    return [path.parent.name for path in states]
