"""Predicts which calls a run would make if it resumed. No model is called."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass, replace

from skillrun.events import (
    Answered,
    CallEnded,
    Event,
    PhaseStarted,
    WentBack,
)
from skillrun.models.scripted import Rule, ScriptedGateway
from skillrun.runtime.run import Session, Simulation
from skillrun.runtime.session import simulate_run
from skillrun.store.stored_run import StoredRun


@dataclass(frozen=True)
class PredictedCall:
    """A call that would be sent, because the journal has no reply to it.

    `again`: the journal has a reply to another call of the same step and member. `certain`: the prompt depends on no
    generated reply or answer.
    """

    address: str
    phase: str
    model: str
    tokens: int
    price: float | None
    again: bool
    certain: bool


@dataclass(frozen=True)
class Forecast:
    """The calls that a run would make, and the number of replies that it would reuse from its journal."""

    calls: list[PredictedCall]
    reused: int


async def forecast_calls(
    session: Session, run: StoredRun, rules: Iterable[Rule] = (), *, from_start: bool = False
) -> Forecast:
    """Return the calls that a run would make if it resumed and its models replied as `rules` say.

    A reply that no rule gives is generated. The run itself is not changed. With `from_start`, all phases are evaluated
    again, including those that have ended. In each phase, the first step that calls a model is certain, unless an
    answer or reply before it was generated. After a generated reply, `goto` steps are ignored.
    """
    calls: list[PredictedCall] = []
    reused: set[tuple[str, str]] = set()  # address and reply, so that a reply reused in a later round counts once
    known: set[str] = set()
    guessed: dict[str, str] = {}  # keyed by phase: the step with generated replies; "" for an answer
    sure: set[str] = set()  # the phases that began before anything was generated

    def listen(event: Event) -> None:
        if isinstance(event, WentBack):
            if not from_start:
                known.clear()
        elif isinstance(event, PhaseStarted) and not guessed:
            sure.add(event.phase)
        elif isinstance(event, Answered) and not event.replayed:
            guessed[event.phase] = ""
        elif isinstance(event, CallEnded) and event.replayed:
            reused.add((event.address, event.text))
        elif isinstance(event, CallEnded):
            simulation.ignore_gotos = True
            step, first = event.address.rsplit("/", 2)[0], event.address.endswith("/1.1")
            certain = event.phase in sure and guessed.setdefault(event.phase, step) == step and first
            tokens, again = event.usage.get("input", 0), event.address in known
            calls.append(PredictedCall(event.address, event.phase, event.model, tokens, event.price, again, certain))

    gateway = ScriptedGateway([replace(rule, delay=0) for rule in rules], price=session.services.catalogue.price)
    simulation = Simulation()
    simulated_session = replace(
        session,
        services=replace(session.services, gateway=gateway, listeners=[listen]),
        options=replace(session.options, simulation=simulation),
    )
    with closing(run.read_journal()) as journal:
        known.update(entry.address for entry in journal.entries("reply"))
    await simulate_run(simulated_session, {}, base=run, from_start=from_start)
    return Forecast(calls, len(reused))
