"""The error for refused paths, and the check of run names."""

from __future__ import annotations

from skillrun.syntax.diagnostics import SkillrunError, UsageError
from skillrun.types.fields import SLUG
from skillrun.types.schemas import quote_value


class PathRefused(SkillrunError):
    """A path leads outside its folder, or is invalid."""


def require_slug(name: str) -> str:
    """Return the name unchanged. Raises UsageError unless it is a slug."""
    if SLUG.fullmatch(name):
        return name
    raise UsageError(
        f"{quote_value(name)} is not a valid name",
        "Use lower-case letters, digits and `-`, at most 64, not starting with `-`: `my-feature`.",
    )
