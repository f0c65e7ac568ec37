"""Circuit breakers: consecutive failures by name, a limit, and what happens when it is reached.

Source: the circuit breaker pattern (M. Nygard, "Release It!"), with success resetting the count.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

Action = Literal["fall back", "skip", "ask", "sequential"]
ACTIONS: Final[tuple[Action, ...]] = ("fall back", "skip", "ask", "sequential")


@dataclass(frozen=True)
class Limit:
    limit: int = 2
    then: Action = "fall back"


class Breakers:
    """The breakers of a run. `failures` is durable with the run's state."""

    def __init__(self, settings: Mapping[str, Any], failures: Mapping[str, int] | None = None) -> None:
        self._limits = {name: _limit(entry) for name, entry in settings.items() if isinstance(entry, Mapping)}
        self.failures: dict[str, int] = dict(failures or {})

    def limit(self, name: str) -> Limit:
        return self._limits.get(name, Limit())

    def failed(self, name: str) -> bool:
        """Count a failure; whether the limit is reached."""
        self.failures[name] = self.failures.get(name, 0) + 1
        return self.failures[name] >= self.limit(name).limit

    def succeeded(self, name: str) -> None:
        self.failures.pop(name, None)


def _limit(entry: Mapping[str, Any]) -> Limit:
    then = entry.get("then")
    return Limit(int(entry.get("limit", 2)), then if then in ACTIONS else "fall back")
