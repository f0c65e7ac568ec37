"""Keeps the calls of a run across evaluations, and holds new calls at a gate until they are allowed.

When an evaluation is cancelled, the next one takes over the calls that are in progress. Replies to calls that the next
evaluation does not need are recorded. Obsolete calls are cancelled.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from skillrun.models.messages import NULL_LISTENER, AttemptListener, Gateway, ModelError, Outcomes, Reply, Request
from skillrun.models.scripted import ScriptedGateway
from skillrun.store.journal import Journal, JournalUnwritable

OBSOLETE: Final = "the call was cancelled because its prompt has changed"
CallKey = tuple[str, str]
"""A call's address, and the fingerprint of its request."""


class CallGate:
    """Holds calls until the current evaluation may make them, and while the session is paused."""

    def __init__(self) -> None:
        self.call_waiting = asyncio.Event()
        """Set as soon as a call of this evaluation waits at the gate."""
        self._settled, self._going = asyncio.Event(), asyncio.Event()
        self._going.set()

    @property
    def is_paused(self) -> bool:
        return not self._going.is_set()

    def shut(self) -> None:
        """Hold the calls of a new evaluation."""
        self.call_waiting.clear()
        self._settled.clear()

    def open(self) -> None:
        """Allow the calls of this evaluation."""
        self._settled.set()

    def toggle_pause(self) -> None:
        """Pause or resume all calls, including allowed ones."""
        if self.is_paused:
            self._going.set()
        else:
            self._going.clear()

    async def wait_until_open(self) -> None:
        self.call_waiting.set()
        while not (self._settled.is_set() and self._going.is_set()):
            await self._settled.wait()
            await self._going.wait()


@dataclass
class PendingCall(AttemptListener):
    """A call that has passed the gate.

    `waiters` counts the tasks that wait for its reply. A call without waiters is an orphan.
    """

    attempts: AttemptListener
    task: asyncio.Task[Reply] = field(init=False)
    waiters: int = 0
    is_sent: bool = False
    is_recorded: bool = False

    async def on_sent(self, number: int) -> None:
        await self.attempts.on_sent(number)
        self.is_sent = True

    async def on_failed(self, number: int, error: ModelError) -> None:
        await self.attempts.on_failed(number, error)


class InFlightCalls:
    """A `Gateway` that wraps another gateway, and keeps its calls when an evaluation is cancelled."""

    def __init__(self, gateway: Gateway, journal: Journal) -> None:
        self.gate = CallGate()
        self.on_reuse: Callable[[str], object] = bool
        """Called with the address of each call that an evaluation takes over."""
        self.on_cancel: Callable[[str], object] = bool
        """Called with the address of each cancelled call."""
        self._gateway, self._journal = gateway, journal
        self._in_flight: dict[CallKey, PendingCall] = {}
        self._recording: set[asyncio.Task[None]] = set()

    async def send(self, request: Request, address: str, attempts: AttemptListener = NULL_LISTENER) -> Reply:
        """Return the reply to a request. If the call is in progress, wait for it; if not, make it once the gate opens.

        Raises ModelError.
        """
        key = (address, request.fingerprint())
        call = self._in_flight.get(key)
        if call is None:
            await self._cancel([other for other in self._orphans() if other[0] == address])
            await self.gate.wait_until_open()
            call = self._begin(key, request, attempts)
        else:
            self.on_reuse(address)
        call.waiters += 1
        try:
            return await asyncio.shield(call.task)
        finally:
            call.waiters -= 1
            task = asyncio.current_task()
            if task is None or not task.cancelling():
                self._in_flight.pop(key, None)  # the task that waited for the reply records it
            elif not call.is_sent:  # the call still waits for a slot at its provider
                self._in_flight.pop(key, None)
                call.task.cancel()

    @property
    def in_flight(self) -> list[CallKey]:
        return [key for key, call in self._in_flight.items() if not call.task.done()]

    def on_replayed(self, address: str, request: Request, outcomes: Outcomes) -> None:
        """Advance a script past a call that is replayed from the journal."""
        if isinstance(self._gateway, ScriptedGateway):
            self._gateway.on_replayed(address, request, outcomes)

    async def start_evaluation(self) -> None:
        """Record the replies of orphaned calls and shut the gate."""
        await asyncio.gather(*self._recording)
        for key, call in list(self._in_flight.items()):
            if call.task.done():
                await self._record(key, call)
                del self._in_flight[key]
        self.gate.shut()

    async def cancel_obsolete(self, wanted: Collection[CallKey]) -> None:
        """Cancel the orphans whose addresses now have a different prompt."""
        places = {address for address, _ in wanted}
        await self._cancel([key for key in self._orphans() if key[0] in places and key not in wanted])

    async def finish_evaluation(self) -> None:
        """Cancel the calls that a completed evaluation did not use."""
        await self._cancel(self._orphans())

    async def change_gateway(self, gateway: Gateway) -> None:
        """Switch to another gateway; calls in progress at the old gateway are cancelled."""
        await self._cancel(list(self._in_flight))
        await self._gateway.close()
        self._gateway = gateway

    async def close(self) -> None:
        """Record finished calls, cancel those in progress, and close the gateway."""
        await self.start_evaluation()
        for call in self._in_flight.values():
            call.task.cancel()
        await asyncio.gather(*(call.task for call in self._in_flight.values()), return_exceptions=True)
        self._in_flight.clear()
        await self._gateway.close()

    def _begin(self, key: CallKey, request: Request, attempts: AttemptListener) -> PendingCall:
        call = self._in_flight[key] = PendingCall(attempts)
        call.task = asyncio.create_task(self._gateway.send(request, key[0], call), name=key[0])
        call.task.add_done_callback(lambda _: self._on_done(key, call))
        return call

    def _on_done(self, key: CallKey, call: PendingCall) -> None:
        """Record the reply of an orphan at once, so that a kill does not lose it."""
        if not call.task.cancelled():
            call.task.exception()  # marks the exception of an orphan as retrieved
        if call.waiters == 0 and self._in_flight.get(key) is call:
            recording = asyncio.get_running_loop().create_task(self._record(key, call))
            self._recording.add(recording)
            recording.add_done_callback(self._recording.discard)

    async def _record(self, key: CallKey, call: PendingCall) -> None:
        if call.is_recorded or call.task.cancelled() or call.task.exception() is not None:
            return
        call.is_recorded = True
        with suppress(JournalUnwritable):  # the next evaluation reports the error
            await self._journal.record("reply", *key, call.task.result().to_dict())

    def _orphans(self) -> list[CallKey]:
        return [key for key, call in self._in_flight.items() if call.waiters == 0]

    async def _cancel(self, keys: Collection[CallKey]) -> None:
        """Cancel orphaned calls, and record them as unanswered."""
        for key in keys:
            call = self._in_flight.pop(key, None)
            if call is None:
                continue
            if call.task.done():
                await self._record(key, call)
                continue
            call.task.cancel()
            with suppress(asyncio.CancelledError, ModelError):
                await call.task
            with suppress(JournalUnwritable):
                await self._journal.record("tried", *key, {"message": OBSOLETE})
            self.on_cancel(key[0])
