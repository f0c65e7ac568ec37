"""What a step gives that some of whom or what it asked for have given nothing to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class PartialResult:
    """A result all the same, and a reason for each that is missing: the step's breaker decides whether it stands."""

    result: Any
    missing: Sequence[str]
