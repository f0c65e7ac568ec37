"""A store's limits of calls: tickets in the order of asking, who holds a slot, and until when a provider is not asked.

The functions of SQL that it calls stand in the store's schema; each is one transaction.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from skillrun.extensions.workers.postgres.database import Database

CHANNEL: Final = "skillrun_slots_"
"""With the name of a holder behind it: what is told to that holder, a ticket that is a slot now, or to look."""

_TAKE: Final = "SELECT ticket, granted FROM take_slot(%(provider)s, %(holder)s, %(lease)s)"
_GIVE: Final = "SELECT give_slot(%(provider)s, %(ticket)s)"
_PAUSE: Final = "SELECT pause_provider(%(provider)s, %(seconds)s)"
_SET: Final = "SELECT limit_provider(%(provider)s, %(most)s)"
_SHOWN: Final = """
    SELECT provider, most, greatest(0, extract(epoch FROM paused_until - now()))::double precision,
           count(id) FILTER (WHERE is_held), count(id) FILTER (WHERE NOT is_held)
    FROM limits LEFT JOIN (SELECT * FROM tickets WHERE lease_until >= now()) AS live USING (provider)
    GROUP BY provider ORDER BY provider
"""
_KEEP: Final = "SELECT ticket, granted, pause FROM keep_slots(%(tickets)s::bigint[], %(lease)s)"


@dataclass(frozen=True)
class ProviderLimit:
    """How a provider stands: `most` is None without a limit, `pause` is in seconds."""

    provider: str
    most: int | None
    pause: float
    held: int
    waiting: int


class ProviderLimits:
    """The limits of a store."""

    def __init__(self, database: Database) -> None:
        self.database = database

    def acquire(self, provider: str, holder: str, lease: float) -> tuple[int, bool] | None:
        """A ticket, and whether it is a slot already; None where the provider has no limit and no pause."""
        values = {"provider": provider, "holder": holder, "lease": lease}
        found = self.database.retry(lambda: self.database.rows(_TAKE, values), lease / 2)
        return (found[0][0], found[0][1]) if found else None

    def release(self, provider: str, ticket: int) -> None:
        """Give a ticket back, slot or not."""
        self.database.rows(_GIVE, {"provider": provider, "ticket": ticket})

    def renew(self, tickets: Sequence[int], lease: float) -> list[tuple[int, bool, float]]:
        """Those of the tickets that are still there: whether each is a slot, and its pause in seconds."""
        found = self.database.rows(_KEEP, {"tickets": list(tickets), "lease": lease})
        return [(ticket, granted, pause) for ticket, granted, pause in found]

    def pause(self, provider: str, seconds: float) -> None:
        """Have nobody ask the provider for so long."""
        self.database.rows(_PAUSE, {"provider": provider, "seconds": seconds})

    def set_limit(self, provider: str, most: int | None) -> None:
        """Limit a provider over all workers, or no more."""
        self.database.rows(_SET, {"provider": provider, "most": most})

    def list_limits(self) -> list[ProviderLimit]:
        """Every provider that has or had a limit or a pause."""
        return [ProviderLimit(*row) for row in self.database.rows(_SHOWN)]
