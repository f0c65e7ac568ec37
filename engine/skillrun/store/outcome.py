"""How a run ended, or its current status."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from skillrun.store.next_step import NO_NEXT_STEP, NextStep

Status = Literal["running", "waiting", "completed", "failed", "interrupted"]
EXIT: Final[Mapping[Status, int]] = {"completed": 0, "failed": 1, "waiting": 75, "interrupted": 130}


@dataclass(frozen=True)
class Outcome:
    """How a run ended, or its current status: status, reason and next step."""

    status: Status
    reason: str = ""
    next_step: NextStep = NO_NEXT_STEP
    outputs: Mapping[str, Any] = field(default_factory=dict)

    @property
    def exit_code(self) -> int:
        return EXIT[self.status]
