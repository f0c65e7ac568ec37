"""The calls of a run that is evaluated again and again: they outlive the turn that has asked them, and wait at a gate.

Owns what becomes of a call that is under way when its turn is broken off: the next turn takes it over, or its reply is
recorded, or it is obsolete and ended. Sends nothing itself: the gateway inside does.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from skillrun.models.messages import UNTOLD, AttemptListener, Gateway, ModelError, Outcomes, Reply, Request
from skillrun.models.scripted import ScriptedGateway
from skillrun.store.journal import Journal, JournalUnwritable

OBSOLETE: Final = "it was ended, since its prompt is another one now"
Key = tuple[str, str]
"""A call's address, and the fingerprint of its request."""


class Gate:
    """Whether calls may go out: in a turn for which that is settled, while nothing is paused."""

    def __init__(self) -> None:
        self.knocked = asyncio.Event()
        """Set once a call of this turn wants to go out."""
        self._settled, self._going = asyncio.Event(), asyncio.Event()
        self._going.set()

    @property
    def is_paused(self) -> bool:
        return not self._going.is_set()

    def shut(self) -> None:
        """For a turn that begins: its first call knocks and waits."""
        self.knocked.clear()
        self._settled.clear()

    def open(self) -> None:
        """For the rest of this turn."""
        self._settled.set()

    def pause(self, *, on: bool) -> None:
        """Nothing more goes out, whatever is settled; or it does again."""
        if on:
            self._going.clear()
        else:
            self._going.set()

    async def passed(self) -> None:
        self.knocked.set()
        while not (self._settled.is_set() and self._going.is_set()):
            await self._settled.wait()
            await self._going.wait()


@dataclass
class CallUnderWay:
    """A call that has passed the gate. `waiting`: how many wait for its reply; with none of them it is an orphan."""

    attempts: AttemptListener
    task: asyncio.Task[Reply] = field(init=False)
    waiting: int = 0
    is_sent: bool = False
    is_recorded: bool = False

    async def sent(self, number: int) -> None:
        await self.attempts.sent(number)
        self.is_sent = True

    async def failed(self, number: int, error: ModelError) -> None:
        await self.attempts.failed(number, error)


class KeptCalls:
    """A `Gateway` around another one."""

    def __init__(self, gateway: Gateway, journal: Journal) -> None:
        self.gate = Gate()
        self.tell_kept: Callable[[str], object] = bool
        """Is told the address of each call that a turn takes over."""
        self.tell_ended: Callable[[str], object] = bool
        """Is told the address of each call that is ended."""
        self._gateway, self._journal = gateway, journal
        self._under_way: dict[Key, CallUnderWay] = {}
        self._recording: set[asyncio.Task[None]] = set()

    async def send(self, request: Request, address: str, attempts: AttemptListener = UNTOLD) -> Reply:
        """The reply of the call that is under way, or of a new one that has passed the gate. Raises ModelError."""
        key = (address, request.fingerprint())
        call = self._under_way.get(key)
        if call is None:
            await self._end([other for other in self._under_way if other[0] == address and self._is_orphan(other)])
            await self.gate.passed()
            call = self._begin(key, request, attempts)
        else:
            self.tell_kept(address)
        call.waiting += 1
        try:
            return await asyncio.shield(call.task)
        finally:
            call.waiting -= 1
            if not _is_cancelled():
                self._under_way.pop(key, None)  # whoever has waited puts it on record
            elif not call.is_sent:  # it has no place at its provider yet
                self._under_way.pop(key, None)
                call.task.cancel()

    @property
    def under_way(self) -> list[Key]:
        return [key for key, call in self._under_way.items() if not call.task.done()]

    def replayed(self, address: str, request: Request, outcomes: Outcomes) -> None:
        """Have a script go on behind a call that the journal answers."""
        if isinstance(self._gateway, ScriptedGateway):
            self._gateway.replayed(address, request, outcomes)

    async def turn_begins(self) -> None:
        """Have what came of calls while no turn waited for them on record, and the gate shut."""
        await asyncio.gather(*self._recording)
        for key, call in list(self._under_way.items()):
            if call.task.done():
                await self._record(key, call)
                del self._under_way[key]
        self.gate.shut()

    async def keep_only(self, wanted: Collection[Key]) -> None:
        """End the orphans whose place is asked with another prompt now."""
        places = {address for address, _ in wanted}
        ended = [key for key in self._under_way if self._is_orphan(key) and key[0] in places and key not in wanted]
        await self._end(ended)

    async def turn_ended(self) -> None:
        """End what a turn that has come to its end has not asked for."""
        await self._end([key for key in self._under_way if self._is_orphan(key)])

    async def change_gateway(self, gateway: Gateway) -> None:
        """Go on with another one; what is under way with the one before is ended."""
        await self._end(list(self._under_way))
        await self._gateway.close()
        self._gateway = gateway

    async def close(self) -> None:
        """End what is under way; what has been answered is on record."""
        await self.turn_begins()
        for call in self._under_way.values():
            call.task.cancel()
        await asyncio.gather(*(call.task for call in self._under_way.values()), return_exceptions=True)
        self._under_way.clear()
        await self._gateway.close()

    def _begin(self, key: Key, request: Request, attempts: AttemptListener) -> CallUnderWay:
        call = self._under_way[key] = CallUnderWay(attempts)
        call.task = asyncio.create_task(self._gateway.send(request, key[0], call), name=key[0])
        call.task.add_done_callback(lambda _: self._came(key, call))
        return call

    def _came(self, key: Key, call: CallUnderWay) -> None:
        """An orphan has its reply: it is recorded at once, so that a kill does not lose it."""
        if not call.task.cancelled():
            call.task.exception()  # that of an orphan is nobody's
        if call.waiting == 0 and self._under_way.get(key) is call:
            recording = asyncio.get_running_loop().create_task(self._record(key, call))
            self._recording.add(recording)
            recording.add_done_callback(self._recording.discard)

    async def _record(self, key: Key, call: CallUnderWay) -> None:
        if call.is_recorded or call.task.cancelled() or call.task.exception() is not None:
            return
        call.is_recorded = True
        with suppress(JournalUnwritable):  # the next turn says so
            await self._journal.record("reply", *key, call.task.result().to_dict())

    def _is_orphan(self, key: Key) -> bool:
        return self._under_way[key].waiting == 0

    async def _end(self, keys: Collection[Key]) -> None:
        """End calls that nobody waits for; that they were not answered is on record."""
        for key in keys:
            call = self._under_way.pop(key, None)
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
            self.tell_ended(key[0])


def _is_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
