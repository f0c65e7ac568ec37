"""The one door for calls: budget, a journal that can be written, the place at the provider, `sent`, then the wire.

What the journal answers does not come this far. Nothing is sent that is not on record, and nothing else sends.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Final

from skillrun.events import CallEnded, CallStarted
from skillrun.models.messages import FATAL_KINDS, REFUSED_KINDS, ModelError, Reply, Request, Usage
from skillrun.runtime.prompts.context import size_of
from skillrun.runtime.run import PhaseRun, Run
from skillrun.runtime.run_budget import Reservation
from skillrun.store.checkpoints import reached
from skillrun.store.journal import JournalUnwritable

MOST_TOKENS: Final = 10**12  # more than any prompt has


async def call(phase: PhaseRun, address: str, member: str, request: Request) -> Reply:
    """The reply to one request, from the journal or from the model; durable on return. Raises ModelError."""
    run = phase.run
    fingerprint = request.fingerprint()
    phase.account.prompts.made += 1
    run.outermost.used[address] = fingerprint
    from_journal = not run.session.rerun.wants(address)
    known = run.journal.find("reply", address, fingerprint) if from_journal else None
    if known is not None:
        reply = Reply.from_dict(known)
        run.session.replayed(address, request, [reply])
        phase.count_again(address, request, reply)
        run.emit(_ended(phase, address, member, reply, replayed=True))
        return reply
    failed = run.journal.find("failed", address, fingerprint) if from_journal else None
    if failed is not None:
        error = ModelError.from_dict(failed)
        run.session.replayed(address, request, [error])
        raise error
    run.session.replayed(address, request, _refusals(run, address, fingerprint))
    refused = run.refused.get(request.model)
    if refused is not None and refused.kind == "missing":
        raise refused
    held = await run.limits.let_in(partial(_most, run, request))
    try:
        run.session.rerun.asked.add(address)
        run.journal.check()
        attempts = OnRecord(phase, address, member, request, held, refused)
        try:
            reply = await run.session.gateway.send(request, address, attempts)
        except ModelError as error:
            if error.kind == "missing":  # nothing began, and the run ends with it
                run.refused[request.model] = error
                raise
            run.emit(CallEnded(address, phase.name, member, request.model, replayed=False, error=str(error)))
            if error.kind not in FATAL_KINDS | REFUSED_KINDS:
                await run.journal.record("failed", address, fingerprint, error.to_dict())
            raise
        run.heard.add(request.model)
        reached("call: after")
        await run.journal.record("reply", address, fingerprint, reply.to_dict())
        run.limits.answered(held, reply.usage, reply.price)
    finally:
        run.limits.end(held)
    phase.count(reply.usage, reply.price, goes_on=request.goes_on)
    run.emit(_ended(phase, address, member, reply, replayed=False))
    return reply


@dataclass(frozen=True)
class OnRecord:
    """Puts every attempt of a call on record: `sent` before it goes out, `tried` when it got no reply.

    A call is held back where its model has refused another one and has answered none yet, or has refused one since this
    one was made (`refused` is the last refusal until then): the same key would be refused again.
    """

    phase: PhaseRun
    address: str
    member: str
    request: Request
    held: Reservation
    refused: ModelError | None

    async def sent(self, number: int) -> None:
        """Raises BudgetSpent, JournalUnwritable or ModelError, and then it does not go out."""
        run = self.phase.run
        since = run.refused.get(self.request.model)
        if since is not None and (since is not self.refused or self.request.model not in run.heard):
            raise ModelError(since.kind, f"{since.message}; this call was not sent", next_step=since.next_step)
        run.limits.check_minutes()
        run.journal.check()
        run.outermost.sends()
        attempt = {"attempt": number} if number > 1 else {}
        try:
            body = {**self.request.to_dict(), **self.phase.later(), **attempt}
            await run.journal.record("sent", self.address, self.request.fingerprint(), body)
        except (asyncio.CancelledError, JournalUnwritable):  # what is on record as sent has gone out, or is said not to
            with suppress(JournalUnwritable):
                await self._tried({"message": "it was held back", **attempt})
            raise
        if number == 1:
            run.limits.sent(self.held)
            run.emit(CallStarted(self.address, self.phase.name, self.member, self.request.model))
        reached("call: before")

    async def failed(self, number: int, error: ModelError) -> None:
        model = self.request.model
        scripted = model.startswith("scripted:")  # its rules are for single calls
        if error.kind in FATAL_KINDS | REFUSED_KINDS and not scripted:
            self.phase.run.refused[model] = error
        await self._tried({"kind": error.kind, "message": error.message, "attempt": number})

    async def _tried(self, body: dict[str, object]) -> None:
        await self.phase.run.journal.record("tried", self.address, self.request.fingerprint(), body)


def _refusals(run: Run, address: str, fingerprint: str) -> list[ModelError]:
    """How often this call was refused, after which it is sent again."""
    last = run.journal.find("tried", address, fingerprint)
    if last is None or last.get("kind") not in FATAL_KINDS | REFUSED_KINDS:
        return []
    tries = (
        entry for entry in run.journal.entries("tried") if (entry.address, entry.fingerprint) == (address, fingerprint)
    )
    return [ModelError(entry.body["kind"], entry.body.get("message", "")) for entry in tries if "kind" in entry.body]


def _most(run: Run, request: Request, exactly: bool) -> Reservation:
    """What a call may use at most: its input, and a reply as long as it may be."""
    catalogue = run.session.catalogue
    provider = catalogue.providers.get(request.model.partition(":")[0])
    output = request.max_tokens + (provider.thinking if provider is not None else 0)
    enough = 0 if exactly else MOST_TOKENS
    used = size_of(request.system, request.messages, request.schema, enough)
    used += len(str(request.tools)) if request.tools else 0
    return Reservation(1, used + output, catalogue.price(request.model, Usage(used, output)) or 0)


def _ended(phase: PhaseRun, address: str, member: str, reply: Reply, *, replayed: bool) -> CallEnded:
    usage, price = reply.usage.to_dict(), reply.price
    return CallEnded(
        address, phase.name, member, reply.model, replayed, reply.seconds, usage, price, reply.text, reply.stop
    )
