"""Walks a workflow through on the scripted model: calls, tokens and price per phase, and every request as it would be.

Spends nothing and asks nobody. The lengths of the replies are guesses, and with them the output tokens and the price.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from skillrun.cli.loading import Loaded
from skillrun.cli.printing import Output
from skillrun.cli.words import equations, money, table
from skillrun.models.messages import Request, Usage
from skillrun.models.scripted import ScriptedGateway
from skillrun.people.person import Asking
from skillrun.runtime.events import CallEnded, Event, RunStarted
from skillrun.runtime.interpreter import Outcome
from skillrun.runtime.run import Spent
from skillrun.runtime.session import rehearse

GUESS: Final = (
    "The lengths of the replies are guesses, and so are the turns that conditions take: the real run will differ."
)


class StandIn:
    """Answers a rehearsal's questions: with the default, otherwise the first choice."""

    attended = False

    async def ask(self, asking: Asking, *, now: bool = True) -> list[dict[str, Any]]:  # noqa: ARG002 (nobody is asked)
        return [{"answer": one.get("default", (one.get("choices") or ["an answer"])[0])} for one in asking.questions]

    def prepares(self, asking: Asking) -> bool:  # noqa: ARG002 (nothing is)
        return False

    def earlier(self, asking: Asking) -> None:
        """Nothing is prepared."""


@dataclass(frozen=True)
class Rehearsal:
    outcome: Outcome
    phases: Mapping[str, Spent]
    total: Spent
    sent: list[tuple[str, Request]]
    models: Mapping[str, str]
    places: Mapping[str, str]
    """Where each provider is that they are of."""


async def rehearsed(
    loaded: Loaded,
    inputs: dict[str, Any],
    override: str,
    script: Iterable[Mapping[str, Any]] = (),
    typed: Collection[str] = (),
) -> Rehearsal:
    """The rehearsal of a run that starts from nothing."""
    phases: dict[str, Spent] = {}
    models: dict[str, str] = {}

    def heard(event: Event) -> None:
        if isinstance(event, CallEnded) and not event.error:
            spent = Spent(1, Usage(**event.usage), event.price)
            phase = event.phase.partition("/")[0]  # what it runs is its own
            phases[phase] = phases.get(phase, Spent()) + spent
        elif isinstance(event, RunStarted):
            phases.update({name: Spent() for name in event.phases})
            models.update(event.models)

    gateway = ScriptedGateway(script, price=loaded.catalogue.price)
    outcome = await rehearse(loaded.session(gateway, StandIn(), heard, override=override, typed=typed), inputs)
    places = loaded.catalogue.places(models.values())
    return Rehearsal(outcome, phases, sum(phases.values(), Spent()), gateway.sent, models, places)


async def estimated(
    loaded: Loaded, inputs: dict[str, Any], override: str, typed: Collection[str]
) -> dict[str, Any] | None:
    """`run.estimate` for a workflow that reads it: calls, tokens and price of a rehearsal that went through."""
    if not any("run.estimate" in source.text for source in loaded.program.library.files.values()):
        return None
    rehearsal = await rehearsed(loaded, inputs, override, typed=typed)
    if rehearsal.outcome.status != "completed":
        return None
    total = rehearsal.total
    price = None if total.price is None else round(total.price, 2)
    return {"calls": total.calls, "tokens": total.usage.input + total.usage.output, "price": price}


def report(rehearsal: Rehearsal, out: Output) -> int:
    """Print what a run would use; 1 when the rehearsal failed."""
    outcome, total = rehearsal.outcome, rehearsal.total
    rows = []
    for name, spent in [*rehearsal.phases.items(), ("total", total)]:
        numbers = (spent.calls, spent.usage.input, spent.usage.output)
        rows.append([name, *(f"{number:,}" for number in numbers), money(spent.price) if spent.calls else ""])
    out.line(f"models: {equations(rehearsal.models)}")
    for name, place in rehearsal.places.items():
        out.line(f"{name}: {place}")
    for line in table(["phase", "calls", "tokens in", "tokens out", "price"], rows, right=(1, 2, 3, 4)):
        out.line(line)
    out.line(GUESS)
    if outcome.status != "completed":
        out.line(f"The rehearsal did not reach the end: {outcome.status}: {outcome.reason}")
    out.data(
        {
            "dry_run": True,
            "status": outcome.status,
            "reason": outcome.reason,
            "models": rehearsal.models,
            "addresses": rehearsal.places,
            "phases": {name: spent.to_dict() for name, spent in rehearsal.phases.items()},
            "total": total.to_dict(),
        }
    )
    return 1 if outcome.status == "failed" else 0
