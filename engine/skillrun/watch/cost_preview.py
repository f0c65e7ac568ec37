"""What a turn of `dev` is about to ask and what that costs, and up to which limit nobody has to agree to it."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from typing import Final

import click

from skillrun.cli.formatting import counted, money
from skillrun.cli.preview import Expectation, LongWinded, with_tools
from skillrun.events import CallEnded, Event
from skillrun.models.messages import Usage
from skillrun.models.scripted import Rule
from skillrun.runtime.rerun import Rerun
from skillrun.runtime.run import Respondent, Session
from skillrun.runtime.session import rehearse_again
from skillrun.runtime.usage_totals import Spent
from skillrun.store.local.local_run import RunFolder

PRICE: Final = 0.50  # dollars
CALLS: Final = 10
MOST_NAMED: Final = 3


@dataclass(frozen=True)
class AskAbove:
    """Above this somebody has to say yes: dollars, or calls where a price is not known, or where they were typed."""

    price: float = PRICE
    calls: float = CALLS
    counts: bool = False
    """Whether calls count whatever they cost."""

    def is_passed(self, foretold: Foretold) -> bool:
        price, calls = foretold.spent.price, foretold.spent.calls
        counted_out = (self.counts or price is None) and calls > self.calls
        return counted_out or (price is not None and price > self.price)

    def __str__(self) -> str:
        return f"--ask-above {self.price:g},calls={self.calls:g}"


class AskAboveType(click.ParamType[AskAbove]):
    """`0.50`, `calls=20`, or both with a comma between them."""

    name = "amount"

    def convert(self, value: object, parameter: click.Parameter | None, context: click.Context | None) -> AskAbove:
        if isinstance(value, AskAbove):
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
                words = f"`{part}` is none; write dollars (`0.50`), calls (`calls=20`) or both (`0.50,calls=20`)"
                self.fail(words, parameter, context)
            amounts[name] = number
        return AskAbove(**amounts, counts="calls" in amounts)


@dataclass(frozen=True)
class Foretold:
    """The calls that a turn makes as far as generated replies lead, without those that are under way, and their sum."""

    addresses: list[str]
    spent: Spent
    wanted: frozenset[tuple[str, str]]
    """The address and fingerprint of each call that the journal does not answer, those under way too."""

    def __str__(self) -> str:
        usage = self.spent.usage
        places = [address.partition("/")[2].rsplit("/", 1)[0] for address in self.addresses]
        places = list(dict.fromkeys(places))
        named = ", ".join(places[:MOST_NAMED])
        more = f" and {len(places) - MOST_NAMED} more" if len(places) > MOST_NAMED else ""
        tokens = f"about {usage.input:,} tokens in and {usage.output:,} out, {money(self.spent.price)}"
        return f"{counted(self.spent.calls, 'call')}, {tokens}: {named}{more}"


async def foretold(
    session: Session,
    folder: RunFolder,
    inputs: dict[str, object],
    person: Respondent,
    under_way: Collection[tuple[str, str]],
    script: Iterable[Rule] | None,
) -> Foretold:
    """What the turn of this session asks, walked through over the run's journal. Raises SkillrunError.

    Replies are as long as those of finished runs, or as a rule of thumb says. It ends where a person is needed.
    """
    calls: dict[str, Spent] = {}

    def heard(event: Event) -> None:
        if isinstance(event, CallEnded) and not event.replayed and not event.error:
            calls[event.address] = Spent(1, Usage(**event.usage), event.price)

    catalogue = session.catalogue
    price = catalogue.price if script is None else lambda _model, _usage: 0.0
    expected = Expectation.of(session.program)
    rules = [replace(rule, delay=0) for rule in script or ()]
    gateway = LongWinded(expected, rules, price=price)
    quiet = replace(
        session,
        gateway=gateway,
        replayed=gateway.replayed,
        person=person,
        listeners=[heard],
        straight=True,
        rerun=Rerun(session.rerun.places, set(session.rerun.asked)),
    )
    await rehearse_again(quiet, folder, inputs)
    asked = [(address, request) for address, request in gateway.sent if address in calls]
    new = [call for call in asked if (call[0], call[1].fingerprint()) not in under_way]
    total = sum((calls[address] for address, _ in new), Spent())
    for address, request in new if script is None else ():
        if request.tools:
            total += with_tools(catalogue, request, expected.at(address))
    wanted = frozenset((address, request.fingerprint()) for address, request in gateway.sent)
    return Foretold([address for address, _ in new], total, wanted)
