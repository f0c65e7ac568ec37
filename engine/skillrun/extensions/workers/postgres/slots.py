"""Limits the parallel calls to a provider by all workers of a store. A leased ticket stands for a call.

SQL functions in the store's schema grant tickets in order of request. One thread per process renews the process's
tickets, and listens for granted tickets on a separate connection.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import AsyncIterator
from concurrent.futures import Future
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any, Final
from uuid import uuid4

import psycopg

from skillrun.extensions.workers.postgres.database import CONNECTION_OPTIONS, Database
from skillrun.extensions.workers.postgres.lease import LEASE, RENEWALS_PER_LEASE
from skillrun.models.entries import ProviderConfig
from skillrun.syntax.diagnostics import SkillrunError

CHANNEL: Final = "skillrun_slots_"
"""The prefix of a holder's notification channel.

A notification contains the number of a granted ticket. If it is empty, the holder checks all of its tickets.
"""

_SHOWN: Final = """
    SELECT provider, most, greatest(0, extract(epoch FROM paused_until - now()))::double precision,
           count(id) FILTER (WHERE is_held), count(id) FILTER (WHERE NOT is_held)
    FROM limits LEFT JOIN (SELECT * FROM tickets WHERE lease_until >= now()) AS live USING (provider)
    GROUP BY provider ORDER BY provider
"""


@dataclass(frozen=True)
class ProviderLimit:
    """The limit on parallel calls to a provider. `most` is None if there is no limit. `pause` is in seconds."""

    provider: str
    most: int | None
    pause: float
    held: int
    waiting: int


class ProviderLimits:
    """The limits on parallel calls in a store."""

    def __init__(self, database: Database) -> None:
        self.database = database

    def set_limit(self, provider: str, most: int | None) -> None:
        """Limit the parallel calls of all workers to a provider. None removes the limit."""
        self.database.rows("SELECT limit_provider(%(provider)s, %(most)s)", {"provider": provider, "most": most})

    def list_limits(self) -> list[ProviderLimit]:
        """Return the limits of all providers that have, or once had, a limit or a pause."""
        return [ProviderLimit(*row) for row in self.database.rows(_SHOWN, optional=("most",))]


MIN_POLL_SECONDS: Final = 0.05  # minimum seconds between renewals
MAX_EARLY_GRANTS: Final = 1000
RECONNECT_SECONDS: Final = 1.0  # seconds before reconnecting
CONNECTION: Final[dict[str, Any]] = {**CONNECTION_OPTIONS, "application_name": "skillrun slots"}


class LeasedSlots:
    """The concurrency limits of a store, for all runs of this process.

    If the store has no limit for a provider, the limit in the provider's configuration applies. A process that is
    suspended for longer than the lease loses its slots, and takes new slots before its next call.
    """

    def __init__(self, url: str, database: Database, lease: float = LEASE) -> None:
        self._url, self._database, self._lease = url, database, lease
        self._holder = uuid4().hex
        self._gates: dict[str, FairSemaphore] = {}
        self._tickets: dict[int, _Ticket] = {}
        self._early: deque[int] = deque(maxlen=MAX_EARLY_GRANTS)
        self._lock = threading.Lock()
        self._listener: threading.Thread | None = None

    @asynccontextmanager
    async def slot(self, provider: ProviderConfig) -> AsyncIterator[None]:
        """Hold a slot during the block. Slots are granted in order of request.

        Raises SkillrunError if the store is unavailable for too long.
        """
        async with AsyncExitStack() as stack:
            ticket = await self._acquire(provider.name)
            if ticket is None:
                with self._lock:
                    semaphore = self._gates.setdefault(provider.name, FairSemaphore(provider.concurrency))
                if await stack.enter_async_context(semaphore.acquire()):  # a limit may have been set meanwhile
                    ticket = await self._acquire(provider.name)
            if ticket is not None:
                stack.callback(self._release, provider.name, ticket)
            yield

    def pause(self, provider: ProviderConfig, seconds: float) -> None:
        """Pause the calls of all workers to the provider. If the store is unavailable, only the current call waits."""
        values = {"provider": provider.name, "seconds": seconds}
        with suppress(SkillrunError):
            self._database.rows("SELECT pause_provider(%(provider)s, %(seconds)s)", values)

    async def _acquire(self, provider: str) -> int | None:
        """Return a granted ticket, or None if the provider has no limit and no pause."""
        statement = "SELECT ticket, granted FROM take_slot(%(provider)s, %(holder)s, %(lease)s)"
        values = {"provider": provider, "holder": self._holder, "lease": self._lease}
        while True:
            asked = time.monotonic()
            found = self._database.retry(lambda: self._database.rows(statement, values), self._lease / 2)
            if not found:
                return None
            number, granted = found[0]
            with self._lock:
                ticket = self._tickets[number] = _Ticket(asked)
                if granted or number in self._early:
                    ticket.resolve(slot=True)
                if self._listener is None:
                    self._listener = threading.Thread(target=self._listen_loop, name="skillrun-slots", daemon=True)
                    self._listener.start()
            try:
                if await asyncio.wrap_future(ticket.turn) and time.monotonic() - ticket.kept < self._lease:
                    return int(number)
            except BaseException:
                self._release(provider, number)
                raise
            self._release(provider, number)  # the ticket's lease has expired: take a new ticket

    def _release(self, provider: str, number: int) -> None:
        """Release the ticket. If the store is unavailable, the ticket expires with its lease."""
        with self._lock:
            self._tickets.pop(number, None)
        with suppress(SkillrunError):
            self._database.rows("SELECT give_slot(%(provider)s, %(number)s)", {"provider": provider, "number": number})

    # the listener thread

    def _listen_loop(self) -> None:
        """Renew tickets and listen for grants while there are tickets. Reconnect if the connection breaks."""
        while not self._is_idle():
            with suppress(psycopg.Error, SkillrunError), psycopg.connect(self._url, **CONNECTION) as connection:
                connection.execute(f'LISTEN "{CHANNEL}{self._holder}"'.encode())
                while not self._is_idle():
                    self._wait_for_grants(connection, self._renew_tickets())
                return
            time.sleep(RECONNECT_SECONDS)

    def _is_idle(self) -> bool:
        """Whether there are no tickets. If so, this thread ends, and the next ticket starts another thread."""
        with self._lock:
            if not self._tickets:
                self._listener = None
            return not self._tickets

    def _wait_for_grants(self, connection: psycopg.Connection[Any], seconds: float) -> None:
        """Resolve granted tickets until the next renewal is due."""
        until = time.monotonic() + seconds
        while (remaining := until - time.monotonic()) > 0:
            for notice in connection.notifies(timeout=remaining, stop_after=1):
                if not notice.payload:
                    return
                with suppress(ValueError):  # anybody who can reach the store can notify
                    self._resolve_ticket(int(notice.payload), slot=True)

    def _renew_tickets(self) -> float:
        """Renew this process's tickets and resolve granted ones. Return the seconds until the next renewal."""
        with self._lock:
            tickets = dict(self._tickets)
        pause = self._lease / RENEWALS_PER_LEASE
        asked = time.monotonic()
        statement = "SELECT ticket, granted, pause FROM keep_slots(%(tickets)s::bigint[], %(lease)s)"
        renewed = self._database.rows(statement, {"tickets": list(tickets), "lease": self._lease})
        for number, granted, seconds in renewed:
            tickets.pop(number).kept = asked
            if granted:
                self._resolve_ticket(number, slot=True)
            elif seconds:
                pause = min(pause, seconds)
        for number in tickets:
            self._resolve_ticket(number, slot=False)
        return pause + MIN_POLL_SECONDS

    def _resolve_ticket(self, number: int, *, slot: bool) -> None:
        with self._lock:
            ticket = self._tickets.get(number)
            if ticket is not None:
                ticket.resolve(slot=slot)
            else:  # granted before `_acquire` registered it, or already released
                self._early.append(number)


class _Ticket:
    """A ticket: when it was last renewed, and whether it was granted or lost."""

    def __init__(self, kept: float) -> None:
        self.kept = kept
        self.turn: Future[bool] = Future()

    def resolve(self, *, slot: bool) -> None:
        if not self.turn.done() and self.turn.set_running_or_notify_cancel():
            self.turn.set_result(slot)


class FairSemaphore:
    """A semaphore for all event loops of a process. Callers acquire it in order of arrival."""

    def __init__(self, most: int) -> None:
        self._free = most
        self._waiting: deque[Future[None]] = deque()
        self._lock = threading.Lock()

    @asynccontextmanager
    async def acquire(self) -> AsyncIterator[bool]:
        """Hold the semaphore during the block. Yields whether the caller had to wait."""
        turn: Future[None] = Future()
        with self._lock:
            has_to_wait = not self._free
            self._waiting.append(turn)
            if not has_to_wait:
                self._free -= 1
                self._grant_next()
        try:
            await asyncio.wrap_future(turn)
            yield has_to_wait
        finally:
            if not turn.cancelled():  # if it was granted
                with self._lock:
                    self._grant_next()

    def _grant_next(self) -> None:
        """Grant a free place to the first caller that still waits."""
        while self._waiting:
            turn = self._waiting.popleft()
            if turn.set_running_or_notify_cancel():
                turn.set_result(None)
                return
        self._free += 1
