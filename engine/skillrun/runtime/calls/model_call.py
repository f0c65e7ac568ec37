"""The only path for model calls: replies from the journal, or else budget, journal entry and gateway.

Every call is journaled before it is sent.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Final

from skillrun.events import CallEnded, CallStarted
from skillrun.models.messages import CONFIGURATION_ERRORS, FATAL_ERRORS, ModelError, Reply, Request, Usage
from skillrun.replay import CALLS, Body
from skillrun.runtime.prompts.context import estimate_request_tokens
from skillrun.runtime.run import PhaseRun, Run
from skillrun.runtime.run_budget import Reservation
from skillrun.store.checkpoints import kill_point
from skillrun.store.journal import JournalUnwritable

MOST_TOKENS: Final = 10**12  # more than any prompt has


async def call_model(phase: PhaseRun, address: str, member: str, request: Request) -> Reply:
    """Return the reply to one request, from the journal or the model; durable on return. Raises ModelError."""
    run, fingerprint = phase.run, request.fingerprint()
    phase.record.prompts.count += 1
    run.outermost.latest_prompts[address] = fingerprint
    sent: list[Reply] = []

    async def send() -> Body:
        """Send the request within the budget. Raises ModelError, BudgetExhausted and JournalUnwritable."""
        run.session.on_replayed(address, request, _refusals(run, address, fingerprint))
        last_refusal = run.refusals.get(request.model)
        if last_refusal is not None and last_refusal.kind == "missing":
            raise last_refusal
        reservation = await run.budget.reserve(partial(_max_usage, run, request))
        try:
            run.session.rerun.called_addresses.add(address)
            run.journal.check()
            attempts = AttemptRecorder(phase, address, member, request, reservation, last_refusal)
            sent.append(await run.session.gateway.send(request, address, attempts))
            run.budget.record_usage(reservation, sent[0].usage, sent[0].price)
        except ModelError as error:
            if error.kind == "missing":  # nothing was sent, and the run ends
                run.refusals[request.model] = error
            else:
                run.emit(CallEnded(address, phase.name, member, request.model, replayed=False, error=str(error)))
            raise
        finally:
            run.budget.release(reservation)
        run.responsive_models.add(request.model)
        kill_point("call: after")
        return sent[0].to_dict()

    try:
        result = await run.replay.once(CALLS, address, fingerprint, send, ModelError.from_dict)
    except ModelError as error:
        if error.is_replayed:
            run.session.on_replayed(address, request, [error])
        raise
    if result.is_replayed:
        reply = Reply.from_dict(result.body)
        run.session.on_replayed(address, request, [reply])
        phase.count_replay(address, request, reply)
    else:
        reply = sent[0]
        phase.count(reply.usage, reply.price, goes_on=request.continues_conversation)
    run.emit(_call_ended_event(phase, address, member, reply, replayed=result.is_replayed))
    return reply


@dataclass(frozen=True)
class AttemptRecorder:
    """Journals every attempt of a call: `sent` before it is sent, `tried` if it fails.

    A call is not sent if its model has refused another call and has not replied yet, or has refused one since this call
    was created (`last_refusal` is the latest refusal before that): the same key would be refused again.
    """

    phase: PhaseRun
    address: str
    member: str
    request: Request
    reservation: Reservation
    last_refusal: ModelError | None

    async def on_sent(self, number: int) -> None:
        """Journal an attempt. Raises BudgetExhausted, JournalUnwritable or ModelError if it must not be sent."""
        run = self.phase.run
        since = run.refusals.get(self.request.model)
        if since is not None and (since is not self.last_refusal or self.request.model not in run.responsive_models):
            raise ModelError(since.kind, f"{since.message}; this call was not sent", next_step=since.next_step)
        run.budget.check_minutes()
        run.journal.check()
        run.outermost.begin_sending()
        attempt = {"attempt": number} if number > 1 else {}
        try:
            body = {**self.request.to_dict(), **self.phase.round_fields(), **attempt}
            await run.journal.record("sent", self.address, self.request.fingerprint(), body)
        except (asyncio.CancelledError, JournalUnwritable):  # it was not sent after all
            with suppress(JournalUnwritable):
                await self._record_failure({"message": "the call was not sent", **attempt})
            raise
        if number == 1:
            run.budget.count_call(self.reservation)
            run.emit(CallStarted(self.address, self.phase.name, self.member, self.request.model))
        kill_point("call: before")

    async def on_failed(self, number: int, error: ModelError) -> None:
        model = self.request.model
        scripted = model.startswith("scripted:")  # its rules apply to single calls
        if error.kind in FATAL_ERRORS | CONFIGURATION_ERRORS and not scripted:
            self.phase.run.refusals[model] = error
        await self._record_failure({"kind": error.kind, "message": error.message, "attempt": number})

    async def _record_failure(self, body: dict[str, object]) -> None:
        await self.phase.run.journal.record("tried", self.address, self.request.fingerprint(), body)


def _refusals(run: Run, address: str, fingerprint: str) -> list[ModelError]:
    """Return the refusals of this call, which is sent again."""
    last = run.journal.find("tried", address, fingerprint)
    if last is None or last.get("kind") not in FATAL_ERRORS | CONFIGURATION_ERRORS:
        return []
    tries = (
        entry for entry in run.journal.entries("tried") if (entry.address, entry.fingerprint) == (address, fingerprint)
    )
    return [ModelError(entry.body["kind"], entry.body.get("message", "")) for entry in tries if "kind" in entry.body]


def _max_usage(run: Run, request: Request, exactly: bool) -> Reservation:
    """Return a call's maximum usage: its input, and a reply of maximum length."""
    catalogue = run.session.catalogue
    provider = catalogue.providers.get(request.model.partition(":")[0])
    output = request.max_tokens + (provider.thinking if provider is not None else 0)
    enough = 0 if exactly else MOST_TOKENS
    used = estimate_request_tokens(request.system, request.messages, request.schema, enough)
    used += len(str(request.tools)) if request.tools else 0
    return Reservation(1, used + output, catalogue.price(request.model, Usage(used, output)) or 0)


def _call_ended_event(phase: PhaseRun, address: str, member: str, reply: Reply, *, replayed: bool) -> CallEnded:
    usage, price = reply.usage.to_dict(), reply.price
    return CallEnded(
        address, phase.name, member, reply.model, replayed, reply.seconds, usage, price, reply.text, reply.stop
    )
