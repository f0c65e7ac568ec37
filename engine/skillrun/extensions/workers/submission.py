"""What a run was submitted with: everything that its command line said, so that any machine can begin it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Self

from skillrun.syntax.diagnostics import SkillrunError
from skillrun.types.records import NonNegativeFloat, field_checks, required_fields


@dataclass(frozen=True)
class RunSubmission:
    """Inputs are checked; `typed` are those that were given. `answers` is the text of a file of prepared answers.

    `repositories` are URL@COMMIT by the names of the inputs that are paths to them.
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
            del data["repositories"]  # a worker of the version before does not know it
        return data

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> Self:
        """The same from what stands in a store. Raises SkillrunError for what is no request of this version."""
        checks = field_checks(RunSubmission)
        unknown = sorted(data.keys() - checks.keys())
        invalid = [name for name in checks if name in data and not checks[name](data[name])]
        missing = sorted(required_fields(RunSubmission) - data.keys())
        if unknown or invalid or missing:
            names = ", ".join(f"`{name}`" for name in (*unknown, *invalid, *missing))
            raise SkillrunError(f"what the run was submitted with cannot be read: {names}", "submit it again")
        return cls(**data)
