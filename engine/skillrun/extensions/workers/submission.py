"""The request of a submitted run: everything from the command line that a machine needs to start the run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Self

from skillrun.syntax.diagnostics import SkillrunError
from skillrun.types.records import NonNegativeFloat, field_checks, required_fields


@dataclass(frozen=True)
class RunSubmission:
    """A request with valid inputs.

    `typed` names the inputs that the user gave. `answers` is the text of a file with prepared answers. `repositories`
    maps the names of path inputs to URL@COMMIT.
    """

    inputs: dict[str, object]
    typed: list[str] = field(default_factory=list)
    model: str = ""
    budget: dict[str, NonNegativeFloat] = field(default_factory=dict)
    answers: str = ""
    unattended: bool = False
    estimate: dict[str, object] | None = None
    repositories: dict[str, str] = field(default_factory=dict)

    def to_data(self) -> dict[str, Any]:
        data = asdict(self)
        if not self.repositories:
            del data["repositories"]  # workers of the previous version do not know this key
        return data

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> Self:
        """Load a stored request. Raises SkillrunError unless it is a valid request of this version."""
        checks = field_checks(RunSubmission)
        unknown = sorted(data.keys() - checks.keys())
        invalid = [name for name in checks if name in data and not checks[name](data[name])]
        missing = sorted(required_fields(RunSubmission) - data.keys())
        if unknown or invalid or missing:
            names = ", ".join(f"`{name}`" for name in (*unknown, *invalid, *missing))
            raise SkillrunError(f"the request of the run has invalid fields: {names}", "submit the run again")
        return cls(**data)
