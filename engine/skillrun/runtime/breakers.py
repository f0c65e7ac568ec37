"""Circuit breakers: each counts consecutive failures, and acts when its limit is reached.

A phase continues the counts of earlier phases, and records in its summary which counts it has changed.

Source: the circuit breaker pattern (M. Nygard, "Release It!"), with success resetting the count.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

Action = Literal["fall back", "skip", "ask", "sequential"]
ACTIONS: Final[tuple[Action, ...]] = ("fall back", "skip", "ask", "sequential")


@dataclass(frozen=True)
class BreakerSettings:
    """The settings of a breaker: how many consecutive failures it allows, what it does then, and the wording of the
    question and choices if it asks the user."""

    limit: int = 2
    then: Action = "fall back"
    ask: str = ""
    choices: Mapping[str, str] = field(default_factory=dict)


class Breakers:
    """The breakers of one phase. `initial` holds the counts at the start of the phase."""

    def __init__(self, settings: Mapping[str, Any], initial: Mapping[str, int] | None = None) -> None:
        self._settings = {
            name: _parse_settings(entry) for name, entry in settings.items() if isinstance(entry, Mapping)
        }
        self._initial = dict(initial or {})
        self.failures: dict[str, int] = dict(self._initial)

    def settings_for(self, name: str) -> BreakerSettings:
        return self._settings.get(name, BreakerSettings())

    def is_defined(self, name: str) -> bool:
        return name in self._settings

    def record_failure(self, name: str) -> bool:
        """Count a failure, and return whether the limit is reached."""
        self.failures[name] = self.failures.get(name, 0) + 1
        return self.failures[name] >= self.settings_for(name).limit

    def record_success(self, name: str) -> None:
        self.failures.pop(name, None)

    def changes(self) -> dict[str, int]:
        """Return the counts that have changed in this phase. A success sets a count to 0."""
        names = sorted(self._initial.keys() | self.failures.keys())
        counts = {name: self.failures.get(name, 0) for name in names}
        return {name: count for name, count in counts.items() if count != self._initial.get(name, 0)}


def _parse_settings(entry: Mapping[str, Any]) -> BreakerSettings:
    then, choices = entry.get("then"), entry.get("choices")
    words = {str(way): str(word) for way, word in choices.items()} if isinstance(choices, Mapping) else {}
    ask = str(entry.get("ask") or "")
    return BreakerSettings(int(entry.get("limit", 2)), then if then in ACTIONS else "fall back", ask, words)
