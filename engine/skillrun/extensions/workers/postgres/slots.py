"""Stores the limits on parallel calls: tickets in order of request, held slots, and pauses of providers.

Calls SQL functions of the store's schema. Each call is one transaction.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from skillrun.extensions.workers.postgres.database import Database

CHANNEL: Final = "skillrun_slots_"
"""The prefix of a holder's notification channel.

A notification contains the number of a granted ticket. If it is empty, the holder checks all of its tickets.
"""

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
    """The limit on parallel calls to a provider. `most` is None if there is no limit. `pause` is in seconds."""

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
        """Take a ticket, and return its number and whether a slot was granted at once.

        Returns None if the provider has neither a limit nor a pause.
        """
        values = {"provider": provider, "holder": holder, "lease": lease}
        found = self.database.retry(lambda: self.database.rows(_TAKE, values), lease / 2)
        return (found[0][0], found[0][1]) if found else None

    def release(self, provider: str, ticket: int) -> None:
        """Release a ticket, whether or not a slot was granted to it."""
        self.database.rows(_GIVE, {"provider": provider, "ticket": ticket})

    def renew(self, tickets: Sequence[int], lease: float) -> list[tuple[int, bool, float]]:
        """Renew tickets, and return those that still exist.

        Returns, for each ticket, its number, whether a slot was granted to it, and the provider's pause in seconds.
        """
        found = self.database.rows(_KEEP, {"tickets": list(tickets), "lease": lease})
        return [(ticket, granted, pause) for ticket, granted, pause in found]

    def pause(self, provider: str, seconds: float) -> None:
        """Pause all calls to the provider for this many seconds."""
        self.database.rows(_PAUSE, {"provider": provider, "seconds": seconds})

    def set_limit(self, provider: str, most: int | None) -> None:
        """Limit the parallel calls of all workers to a provider. None removes the limit."""
        self.database.rows(_SET, {"provider": provider, "most": most})

    def list_limits(self) -> list[ProviderLimit]:
        """Return every provider that has or had a limit or a pause."""
        return [ProviderLimit(*row) for row in self.database.rows(_SHOWN)]
