"""Previews the calls of a `dev` evaluation and their price, and decides whether the user must confirm them."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from typing import Final

import click

from skillrun.cli.formatting import count_noun, format_price
from skillrun.cli.preview import ExpectedSizes, PaddedScriptedGateway, tool_turn_usage
from skillrun.events import CallEnded, Event
from skillrun.models.messages import Usage
from skillrun.models.scripted import Rule
from skillrun.runtime.phase_record import UsageTotals
from skillrun.runtime.run import Responder, Session, Simulation
from skillrun.runtime.session import simulate_reevaluation
from skillrun.store.local.local_run import LocalRun

DEFAULT_PRICE: Final = 0.50  # dollars
DEFAULT_CALLS: Final = 10
MAX_NAMED: Final = 3


@dataclass(frozen=True)
class CostThreshold:
    """The limit above which calls need confirmation. `price` is in dollars."""

    price: float = DEFAULT_PRICE
    calls: float = DEFAULT_CALLS
    always_limits_calls: bool = False
    """Whether `calls` applies even if the price is known. Otherwise, `calls` applies only if the price is unknown."""

    def is_exceeded_by(self, preview: CostPreview) -> bool:
        price, calls = preview.totals.price, preview.totals.calls
        exceeds_calls = (self.always_limits_calls or price is None) and calls > self.calls
        return exceeds_calls or (price is not None and price > self.price)

    def __str__(self) -> str:
        return f"--ask-above {self.price:g},calls={self.calls:g}"


class CostThresholdType(click.ParamType[CostThreshold]):
    """Parses `0.50`, `calls=20`, or both separated by a comma."""

    name = "amount"

    def convert(self, value: object, parameter: click.Parameter | None, context: click.Context | None) -> CostThreshold:
        if isinstance(value, CostThreshold):
            return value
        amounts: dict[str, float] = {}
        for part in str(value).split(","):
            name, _, amount = part.strip().rpartition("=")
            name = name.strip() or "price"
            try:
                number = float(amount)
            except ValueError:
                number = -1
            if name not in ("price", "calls") or not 0 <= number <= math.inf:
                message = f"`{part}` is not a valid limit; use dollars (`0.50`), calls (`calls=20`), or both"
                self.fail(message, parameter, context)
            amounts[name] = number
        return CostThreshold(**amounts, always_limits_calls="calls" in amounts)


@dataclass(frozen=True)
class CostPreview:
    """The new calls that a simulated evaluation makes, and their total usage. The usage excludes calls in progress."""

    addresses: list[str]
    totals: UsageTotals
    pending_calls: frozenset[tuple[str, str]]
    """Address and fingerprint of each call that has no recorded reply, including calls in progress."""

    def __str__(self) -> str:
        usage = self.totals.usage
        places = [address.partition("/")[2].rsplit("/", 1)[0] for address in self.addresses]
        places = list(dict.fromkeys(places))
        named = ", ".join(places[:MAX_NAMED])
        more = f" and {len(places) - MAX_NAMED} more" if len(places) > MAX_NAMED else ""
        tokens = f"about {usage.input:,} tokens in and {usage.output:,} out, {format_price(self.totals.price)}"
        return f"{count_noun(self.totals.calls, 'call')}, {tokens}: {named}{more}"


async def preview_cost(
    session: Session,
    folder: LocalRun,
    inputs: dict[str, object],
    responder: Responder,
    calls_in_flight: Collection[tuple[str, str]],
    script: Iterable[Rule] | None,
) -> CostPreview:
    """Return the calls that an evaluation would make, by simulating it on the run's journal. Raises SkillrunError.

    Generated replies have the length measured in finished runs, or a default length. The simulation ends when the user
    must answer.
    """
    usage_by_address: dict[str, UsageTotals] = {}

    def on_event(event: Event) -> None:
        if isinstance(event, CallEnded) and not event.replayed and not event.error:
            usage_by_address[event.address] = UsageTotals(1, Usage(**event.usage), event.price)

    catalogue = session.services.catalogue
    price = catalogue.price if script is None else lambda _model, _usage: 0.0
    expected = ExpectedSizes.from_program(session.program)
    rules = [replace(rule, delay=0) for rule in script or ()]
    gateway = PaddedScriptedGateway(expected, rules, price=price)
    services = replace(
        session.services,
        gateway=gateway,
        on_replayed=gateway.on_replayed,
        responder=responder,
        listeners=[on_event],
    )
    rerun = replace(session.options.rerun, called_addresses=set(session.options.rerun.called_addresses))
    options = replace(session.options, rerun=rerun, simulation=Simulation(ignore_jumps=True))
    await simulate_reevaluation(replace(session, services=services, options=options), folder, inputs)
    sent_calls = [(address, request) for address, request in gateway.calls if address in usage_by_address]
    new = [call for call in sent_calls if (call[0], call[1].fingerprint()) not in calls_in_flight]
    total = sum((usage_by_address[address] for address, _ in new), UsageTotals())
    for address, request in new if script is None else ():
        if request.tools:
            total += tool_turn_usage(catalogue, request, expected.size_at(address))
    pending_calls = frozenset((address, request.fingerprint()) for address, request in gateway.calls)
    return CostPreview([address for address, _ in new], total, pending_calls)
