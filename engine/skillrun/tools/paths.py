"""The one guard for paths that come from authors, people and models: nothing outside the folder that was meant."""

from __future__ import annotations

from pathlib import Path

from skillrun.language.diagnostics import SkillrunError, UsageError
from skillrun.language.fields import SLUG
from skillrun.language.schemas import shown


class PathRefused(SkillrunError):
    """A path leads out of its folder, or cannot be one."""


def confined(root: Path, relative: str | Path) -> Path:
    """The place of a path in the folder `root`, every symbolic link followed; it need not exist.

    Raises PathRefused when the place lies outside, however the path is written.
    """
    written = str(relative)
    if "\0" in written:
        raise PathRefused(f"the path {shown(written)} has a NUL character in it")
    try:
        base = root.resolve()
        place = (base / written).resolve()
    except (OSError, RuntimeError, ValueError):
        raise PathRefused(f"{shown(written)} is no path that can be followed") from None
    if place == base or base in place.parents:
        return place
    raise PathRefused(f"{shown(written)} leads out of its folder", _way_out(Path(written)))


def checked_slug(name: str) -> str:
    """The name, which is a slug. Raises UsageError when it is none."""
    if SLUG.fullmatch(name):
        return name
    raise UsageError(
        f"{shown(name)} is no slug",
        "Use small letters, digits and `-`, at most 64, not starting with `-`: `my-feature`.",
    )


def _way_out(path: Path) -> str:
    if path.is_absolute():
        return "It is absolute; write it from the folder on."
    return "It goes up with `..`." if ".." in path.parts else "A symbolic link in it leads out."
