"""What an evaluation would ask: walked through over the journal, with generated replies, and nothing kept."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from skillrun.models.messages import Gateway, Reply, Request
from skillrun.models.scripted import ScriptedGateway
from skillrun.runtime.events import CallEnded, Event
from skillrun.runtime.journal import Journal
from skillrun.runtime.lock import hold
from skillrun.runtime.session import Session, existing, read_state, rehearse


@dataclass(frozen=True)
class WouldAsk:
    """A call that the journal does not answer. `again`: the same step and member have been asked before."""

    address: str
    phase: str
    model: str
    tokens: int
    price: float | None
    again: bool


async def would_ask(session: Session, runs: Path, name: str) -> list[WouldAsk]:
    """The calls that going on with a run would make, as far as generated replies lead. Changes nothing."""
    path = existing(runs, name)
    found: list[WouldAsk] = []

    def listen(event: Event) -> None:
        if isinstance(event, CallEnded) and not event.replayed:
            tokens = event.usage.get("input", 0)
            found.append(WouldAsk(event.address, event.phase, event.model, tokens, event.price, event.address in known))

    gateway: Gateway = ScriptedGateway(price=session.catalogue.price)
    quiet = replace(session, gateway=gateway, listeners=[listen])
    with hold(path):
        journal = Journal.open(path)
        try:
            known = {entry.address for entry in journal.entries("reply")}
            state, _ = read_state(path, journal)
        finally:
            journal.close()
        await rehearse(quiet, state.inputs, base=path)
    return found


@dataclass
class Capture:
    """A gateway that keeps every request, and answers with generated replies: a prompt as it would be sent."""

    wanted: Callable[[str], bool]
    requests: dict[str, Request]
    inner: ScriptedGateway

    async def send(self, request: Request, address: str) -> Reply:
        if self.wanted(address):
            self.requests[address] = request
        return await self.inner.send(request, address)

    async def close(self) -> None:
        await self.inner.close()
