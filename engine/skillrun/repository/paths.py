"""What is said of paths and names that are refused, and the names that runs may have."""

from __future__ import annotations

from skillrun.syntax.diagnostics import SkillrunError, UsageError
from skillrun.types.fields import SLUG
from skillrun.types.schemas import quote_value


class PathRefused(SkillrunError):
    """A path leads out of its folder, or cannot be one."""


def require_slug(name: str) -> str:
    """The name, which is a slug. Raises UsageError when it is none."""
    if SLUG.fullmatch(name):
        return name
    raise UsageError(
        f"{quote_value(name)} is not a valid name",
        "Use small letters, digits and `-`, at most 64, not starting with `-`: `my-feature`.",
    )
