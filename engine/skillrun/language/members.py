"""How a member is written: `role`, `role:variant`, `role@model` or `role:variant@model`."""

import re
from dataclasses import dataclass
from typing import Any, Final

_MEMBER: Final = re.compile(
    r"(?P<role>[A-Za-z0-9][A-Za-z0-9_-]*)(?::(?P<variant>[A-Za-z0-9][A-Za-z0-9_-]*))?(?:@(?P<model>\S.*\S|\S))?"
)


class MemberError(ValueError):
    """The text names no member."""


@dataclass(frozen=True)
class Member:
    """A role, perhaps in one of its variants, perhaps on a model of its own."""

    role: str
    variant: str | None = None
    model: str | None = None

    @property
    def id(self) -> str:
        """The written form."""
        variant = f":{self.variant}" if self.variant else ""
        return f"{self.role}{variant}{f'@{self.model}' if self.model else ''}"


def parse_member(written: Any) -> Member:
    """The member that `written` names. Raises MemberError."""
    match = _MEMBER.fullmatch(written.strip()) if isinstance(written, str) else None
    if match is None:
        raise MemberError(f"`{written}` is no member")
    return Member(match["role"], match["variant"], match["model"])
