"""What going on with a run would ask, as far as it can be told without asking anybody."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass, replace

from skillrun.models.scripted import ScriptedGateway
from skillrun.runtime.events import (
    Answered,
    CallEnded,
    Event,
    PhaseStarted,
    WentBack,
)
from skillrun.runtime.run import Session
from skillrun.runtime.session import rehearse
from skillrun.runtime.store.stored_run import StoredRun


@dataclass(frozen=True)
class WouldAsk:
    """A call that the journal does not answer. `again`: the same step and member have been asked before.

    `certain`: nothing before it in its phase, or in those that its phase follows, is a guess.
    """

    address: str
    phase: str
    model: str
    tokens: int
    price: float | None
    again: bool
    certain: bool


async def would_ask(session: Session, run: StoredRun) -> list[WouldAsk]:
    """The calls that going on with a run would make, as far as generated replies lead. Changes nothing.

    Where generated replies send it back, a guess, what is asked from there on does not count as asked again. Certain is
    the first step of a phase that asks somebody, unless an answer or a reply before it has been made up.
    """
    calls: list[WouldAsk] = []
    known: set[str] = set()
    guessed: dict[str, str] = {}  # by phase, the step whose replies are made up, or nothing where an answer is
    sure: set[str] = set()  # the phases that began before anything was

    def listen(event: Event) -> None:
        if isinstance(event, WentBack):
            known.clear()
        elif isinstance(event, PhaseStarted) and not guessed:
            sure.add(event.phase)
        elif isinstance(event, Answered) and not event.replayed:
            guessed[event.phase] = ""
        elif isinstance(event, CallEnded) and not event.replayed:
            step, first = event.address.rsplit("/", 2)[0], event.address.endswith("/1.1")
            certain = event.phase in sure and guessed.setdefault(event.phase, step) == step and first
            tokens, again = event.usage.get("input", 0), event.address in known
            calls.append(WouldAsk(event.address, event.phase, event.model, tokens, event.price, again, certain))

    quiet = replace(session, gateway=ScriptedGateway(price=session.catalogue.price), listeners=[listen])
    with closing(run.journal_to_read()) as journal:
        known.update(entry.address for entry in journal.entries("reply"))
    await rehearse(quiet, {}, base=run)
    return calls
