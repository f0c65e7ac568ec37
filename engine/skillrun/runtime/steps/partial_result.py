"""The result of a step for which some members or items failed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class PartialResult:
    """A result, and the reason for each missing part; the step's breaker decides whether the result counts."""

    result: Any
    missing: Sequence[str]
