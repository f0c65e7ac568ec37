"""Gets the replies to compared calls. They are stored in a journal, so that no comparison repeats a completed call.

The journal identifies a call by its prompt, its address and its sample.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from skillrun.models.messages import NULL_LISTENER, AttemptListener, Gateway, ModelError, Reply, Request, Usage
from skillrun.models.scripted import Rule, ScriptedGateway
from skillrun.replay import CALLS, Body, Replay
from skillrun.runtime.phase_record import UsageTotals
from skillrun.store.journal import Journal

CallExchange = tuple[str, Request, Reply]


@dataclass
class SampleReplies:
    """Returns replies from the journal, or calls the models. Identical concurrent calls are sent once.

    If `saves` is false, the gateway is a simulation, and `new_calls` lists the calls that a comparison would make.
    """

    journal: Journal
    gateway: Gateway
    saves: bool = True
    new_calls: list[CallExchange] = field(default_factory=list)
    recorded_calls: int = 0
    _in_flight: dict[tuple[str, str], asyncio.Future[Reply]] = field(default_factory=dict)

    async def get_reply(
        self, request: Request, address: str, sample: str, attempts: AttemptListener
    ) -> tuple[Reply, bool]:
        """Return the reply to a call of a sample, and whether the reply was in the journal. Raises ModelError."""
        place, fingerprint = f"{sample}/{address}", request.fingerprint()
        key = place, fingerprint
        if key in self._in_flight:
            return await asyncio.shield(self._in_flight[key]), False
        replay = Replay(self.journal)
        recorded = replay.find(CALLS, place, fingerprint)
        if recorded is not None:
            self.recorded_calls += 1
            return Reply.from_dict(recorded), True
        future = self._in_flight[key] = asyncio.get_running_loop().create_future()

        async def send() -> Body:
            if self.saves:
                await self.journal.record("sent", place, fingerprint, request.to_dict())
            reply = await self.gateway.send(request, address, attempts)
            future.set_result(reply)
            return reply.to_dict()

        try:
            await (replay.once(CALLS, place, fingerprint, send) if self.saves else send())
            self.new_calls.append((address, request, future.result()))
        except BaseException as error:
            if not future.done():
                future.set_exception(
                    error if isinstance(error, ModelError) else ModelError("other", "it was cancelled")
                )
                future.exception()  # marks the exception as retrieved, since no other call may wait for it
            raise
        finally:
            if self.saves:
                del self._in_flight[key]
        return future.result(), False


@dataclass
class SampleGateway:
    """The gateway of one sample. Models reply to compared calls; all other calls get scripted replies.

    `sent` lists all requests in order, `compared_calls` the compared calls with their replies.
    """

    replies: SampleReplies
    sample: str
    rules: Iterable[Rule]
    price: Callable[[str, Usage], float | None]
    is_compared: Callable[[str], bool]
    sent: list[tuple[str, Request]] = field(default_factory=list)
    compared_calls: list[CallExchange] = field(default_factory=list)
    new_calls: int = 0
    """The number of compared calls that had no recorded reply."""
    generated_replies: int = 0
    """The number of replies that were generated, because no rule matched, before the last compared call."""

    def __post_init__(self) -> None:
        self._generated = 0
        self._scripted = ScriptedGateway(self.rules, self.price)

    async def send(self, request: Request, address: str, attempts: AttemptListener = NULL_LISTENER) -> Reply:
        self.sent.append((address, request))
        if not self.is_compared(address):
            matching = (rule for rule in self._scripted.rules if rule.matches(address, request.model))
            self._generated += next(matching, None) is None
            return await self._scripted.send(request, address, attempts)
        self.generated_replies = self._generated
        await attempts.on_sent(1)
        reply, is_known = await self.replies.get_reply(request, address, self.sample, NULL_LISTENER)
        self.new_calls += not is_known
        self.compared_calls.append((address, request, reply))
        return reply

    async def close(self) -> None:
        return None

    @property
    def spent(self) -> UsageTotals:
        """The usage of the compared calls, including recorded ones."""
        return sum((UsageTotals(1, reply.usage, reply.price) for _, _, reply in self.compared_calls), UsageTotals())
