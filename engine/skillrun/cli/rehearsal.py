"""Walks a workflow through on the scripted model: calls, tokens and price per phase, and every request as it would be.

Spends nothing and asks nobody. The lengths of the replies are guesses, and with them the output tokens and the price.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, Final

from skillrun.cli.loading import Loaded
from skillrun.cli.printing import Output
from skillrun.cli.words import equations, money, table
from skillrun.collaboration.compaction import estimate_tokens
from skillrun.language.attached import last_block
from skillrun.language.diagnostics import SkillrunError
from skillrun.models.messages import UNTOLD, Attempts, Reply, Request, Usage
from skillrun.models.scripted import ScriptedGateway
from skillrun.people.answers import DEFAULT, Question, answered, choices_of, default_of
from skillrun.people.person import Asking
from skillrun.people.prepared import Prepared, Read
from skillrun.runtime.events import CallEnded, Event, RunStarted
from skillrun.runtime.interpreter import Outcome
from skillrun.runtime.run import Spent
from skillrun.runtime.session import rehearse

GUESS: Final = (
    "The lengths of the replies are guesses, and so are the turns that conditions take: the real run will differ."
)


@dataclass
class StandIn:
    """Answers a rehearsal's questions: as told by their ids, or prepared, or by default, or else with the first choice.

    `met` holds the choices of each question that has some, by its id.
    """

    told: Mapping[str, Any] = field(default_factory=dict)
    prepared: Prepared = field(default_factory=Prepared)
    met: dict[str, list[Any]] = field(default_factory=dict)
    attended = False
    typed: Mapping[str, str] = field(default_factory=dict)

    async def ask(self, asking: Asking, *, now: bool = True) -> list[dict[str, Any]]:  # noqa: ARG002 (nobody is asked)
        """A default that is none is no answer here either: what a person decides is taken to be the first choice."""
        for one in asking.questions:
            if choices_of(one):
                self.met[str(one["id"])] = choices_of(one)
        return [self._answer(asking.key, one) for one in asking.questions]

    def _answer(self, key: str, question: Question) -> dict[str, Any]:
        if question["id"] in self.told:
            return answered(self.told[question["id"]], answered_by=DEFAULT)
        default = default_of(question)
        chosen = default if default is not None else next(iter(choices_of(question)), "an answer")
        found = None
        with suppress(SkillrunError):  # what does not fit is said when the question is put
            found = self.prepared.take(key, question)
        return found or answered(chosen, answered_by=DEFAULT)

    def prepares(self, asking: Asking) -> bool:
        return all(self.prepared.ready(asking.key, question) for question in asking.questions)

    def earlier(self, asking: Asking) -> None:
        """What a rehearsal goes on with is not prepared."""

    def came_late(self, asking: Asking, records: Sequence[dict[str, Any]], read: Read) -> None:
        """Nor is there anything to tell of it."""


class LongWinded(ScriptedGateway):
    """Texts that are generated are said again until they have about so many tokens: what is written is read again."""

    def __init__(self, tokens: int, *given: Any, **more: Any) -> None:
        super().__init__(*given, **more)
        self.tokens = tokens

    async def send(self, request: Request, address: str, attempts: Attempts = UNTOLD) -> Reply:
        reply = await super().send(request, address, attempts)
        if request.schema is not None or self.rules or not self.tokens:
            return reply
        found = last_block(reply.text)
        said = found.before if found is not None else reply.text
        text = "\n\n".join([said] * max(1, round(self.tokens / max(1, estimate_tokens(said)))))
        text += reply.text.removeprefix(said)
        usage = Usage(reply.usage.input, estimate_tokens(text))
        return replace(reply, text=text, usage=usage, price=self.price(request.model, usage))


@dataclass(frozen=True)
class Rehearsal:
    """What a run would use; in `phases` and `total` are the turns with tools that are expected beside the calls."""

    outcome: Outcome
    phases: Mapping[str, Spent]
    total: Spent
    turns: int
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
    person: StandIn | None = None,
    *,
    straight: bool = False,
) -> Rehearsal:
    """The rehearsal of a run that starts from nothing; a `straight` one goes back nowhere."""
    phases: dict[str, Spent] = {}
    asked: dict[str, str] = {}
    models: dict[str, str] = {}

    def heard(event: Event) -> None:
        if isinstance(event, CallEnded) and not event.error:
            spent = Spent(1, Usage(**event.usage), event.price)
            phase = event.phase.partition("/")[0]  # what it runs is its own
            phases[phase] = phases.get(phase, Spent()) + spent
            asked[event.address] = phase
        elif isinstance(event, RunStarted):
            phases.update({name: Spent() for name in event.phases})
            models.update(event.models)

    rule = loaded.program.engine.get("estimate") or {}
    length = int(rule.get("reply_tokens", 0)) if straight else 0
    gateway = LongWinded(length, script, price=loaded.catalogue.price)
    session = loaded.session(gateway, person or StandIn(), heard, override=override, typed=typed, straight=straight)
    outcome = await rehearse(session, inputs)
    places = loaded.catalogue.places(models.values())
    turns = 0
    for address, request in gateway.sent:
        if request.tools and address in asked:
            number, more = _with_tools(loaded, request)
            turns += number
            phases[asked[address]] += more
    return Rehearsal(outcome, phases, sum(phases.values(), Spent()), turns, gateway.sent, models, places)


def _with_tools(loaded: Loaded, request: Request) -> tuple[int, Spent]:
    """The turns with tools before a reply, by the rule of thumb in `config/skillrun.yaml`: each reads all before it."""
    rule = loaded.program.engine.get("estimate") or {}
    turns, result = int(rule.get("tool_turns", 0)), int(rule.get("result_tokens", 0))
    given = sum(estimate_tokens(block.text) for block in request.system)
    given += sum(estimate_tokens(block.text) for message in request.messages for block in message.blocks)
    usage = Usage(turns * given + result * turns * (turns + 1) // 2)
    return turns, Spent(0, usage, loaded.catalogue.price(request.model, usage))


async def estimated(
    loaded: Loaded,
    inputs: dict[str, Any],
    override: str,
    typed: Collection[str],
    prepared: Callable[[], Prepared] = Prepared,
) -> dict[str, Any] | None:
    """`run.estimate` for a workflow that reads it: what a rehearsal that went through has used.

    Where a file reads `run.estimate.answers.<id>`, also what it would be with each choice of that question.
    """
    texts = [source.text for source in loaded.program.library.files.values() if "run.estimate" in source.text]
    if not texts:
        return None
    person = StandIn(prepared=prepared())

    async def told(stand_in: StandIn) -> dict[str, Any] | None:
        with suppress(SkillrunError):  # what is wrong is said by the run itself, when it gets there
            return _told(await rehearsed(loaded, inputs, override, typed=typed, person=stand_in, straight=True))
        return None

    found = await told(person)
    answers: dict[str, dict[str, Any]] = {}
    for name, choices in person.met.items():
        if any(f"run.estimate.answers.{name.replace('-', '_')}" in text for text in texts):
            for choice in choices:
                stand_in = StandIn({name: choice}, prepared())
                if (one := await told(stand_in)) is not None:
                    answers.setdefault(name.replace("-", "_"), {})[str(choice)] = one
    return {**found, **({"answers": answers} if answers else {})} if found is not None else None


def _told(rehearsal: Rehearsal) -> dict[str, Any] | None:
    if rehearsal.outcome.status != "completed":
        return None
    total = rehearsal.total
    price = None if total.price is None else round(total.price, 2)
    tokens = total.usage.input + total.usage.output
    return {"calls": total.calls, "turns": rehearsal.turns, "tokens": tokens, "price": price}


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
    if rehearsal.turns:
        out.line(f"with {rehearsal.turns} turns with tools beside the calls, by `estimate` in config/skillrun.yaml")
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
            "turns": rehearsal.turns,
            "total": total.to_dict(),
        }
    )
    return 1 if outcome.status == "failed" else 0
