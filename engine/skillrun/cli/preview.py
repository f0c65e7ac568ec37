"""Walks a workflow through on the scripted model: calls, tokens and price per phase, and every request as it would be.

Spends nothing and asks nobody. Replies are as long as those of finished runs, or as a rule of thumb says.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from skillrun.checker.program import Program
from skillrun.cli.formatting import counted, equations, money, table
from skillrun.cli.loading import Loaded
from skillrun.cli.output import Output
from skillrun.definitions.step_paths import eaches_of
from skillrun.events import CallEnded, Event, RunStarted
from skillrun.library.reply_sizes import Size, measured, step_of
from skillrun.models.catalogue import Catalogue
from skillrun.models.messages import UNTOLD, AttemptListener, Reply, Request, Usage
from skillrun.models.scripted import Rule, ScriptedGateway
from skillrun.questions.answers import DEFAULT, Answer, Question, QuestionRecord, answered, choices_of, default_of
from skillrun.questions.prepared_answers import Prepared, Read
from skillrun.questions.responder import Questions
from skillrun.runtime.session import rehearse
from skillrun.runtime.summaries import TIER
from skillrun.runtime.usage_totals import Spent
from skillrun.scoring.compaction import estimate_tokens
from skillrun.store.outcome import Outcome
from skillrun.structured_output.trailing_record import last_block
from skillrun.syntax.diagnostics import SkillrunError
from skillrun.types.types import identifier

LENGTHS: Final = (
    "Reply lengths and turns with tools: {measured} of {steps} measured in finished runs (`skillrun sizes`), "
    "the others estimated."
)
SUMMARY: Final = f"/summary/{TIER}"  # in the address of a call that summarises a phase, before the attempt
GUESS: Final = "Branches are guessed; the real run may differ."


@dataclass
class StandIn:
    """Answers a rehearsal's questions: as told by their ids, or prepared, or by default, or else with the first choice.

    `met` holds the choices of each question that has some, by its id.
    """

    given: Mapping[str, Any] = field(default_factory=dict)
    prepared: Prepared = field(default_factory=Prepared)
    met: dict[str, list[Any]] = field(default_factory=dict)
    attended = False
    typed: Mapping[str, str] = field(default_factory=dict)

    async def ask(self, asking: Questions, *, now: bool = True) -> list[Answer]:  # noqa: ARG002 (nobody is asked)
        """A default that is none is no answer here either: what a person decides is taken to be the first choice."""
        for question in asking.questions:
            if choices_of(question):
                self.met[str(question["id"])] = choices_of(question)
        return [self._answer(asking.key, question) for question in asking.questions]

    def _answer(self, key: str, question: Question) -> Answer:
        if question["id"] in self.given:
            return answered(self.given[question["id"]], answered_by=DEFAULT)
        default = default_of(question)
        chosen = default if default is not None else next(iter(choices_of(question)), "an answer")
        answer = None
        with suppress(SkillrunError):  # what does not fit is said when the question is put
            answer = self.prepared.take(key, question)
        return answer or answered(chosen, answered_by=DEFAULT)

    def prepares(self, asking: Questions) -> bool:
        return all(self.prepared.ready(asking.key, question) for question in asking.questions)

    def earlier(self, asking: Questions) -> None:
        """What a rehearsal goes on with is not prepared."""

    def asked_before(self, address: str, questions: Sequence[Question]) -> None:
        """Nor is what an earlier process asked."""

    def came_late(self, asking: Questions, records: Sequence[QuestionRecord], read: Read) -> None:
        """Nor is there anything to tell of it."""


@dataclass(frozen=True)
class Expectation:
    """What a call is expected to be like: as its step was in finished runs, or else by the rule of thumb."""

    known: Mapping[str, Size]
    usual: Size

    @classmethod
    def of(cls, program: Program) -> Expectation:
        rule = program.engine.get("estimate") or {}
        usual = (int(rule.get(key, 0)) for key in ("reply_tokens", "tool_turns", "result_tokens"))
        return cls(measured(program.library), Size(*usual))

    def at(self, address: str) -> Size:
        return self.known.get(step_of(address), self.usual)


class LongWinded(ScriptedGateway):
    """Texts that are generated are said again until they are about as long as expected: what is written is read again.

    A reply to a shape stays as it is, and counts as long as it is expected to be.
    """

    def __init__(self, expected: Expectation, *given: Any, **more: Any) -> None:
        super().__init__(*given, **more)
        self.expected = expected

    async def send(self, request: Request, address: str, attempts: AttemptListener = UNTOLD) -> Reply:
        reply = await super().send(request, address, attempts)
        tokens = self.expected.at(address).reply
        known = step_of(address) in self.expected.known
        if self.rules or not tokens or (request.schema is not None and not known):
            return reply
        text = reply.text
        if request.schema is None:
            block = last_block(text)
            document = block.before if block is not None else text
            record = text.removeprefix(document)
            room = tokens - estimate_tokens(record) if known else tokens
            text = "\n\n".join([document] * max(1, round(room / max(1, estimate_tokens(document))))) + record
        usage = Usage(reply.usage.input, tokens if known else estimate_tokens(text))
        return replace(reply, text=text, usage=usage, price=self.price(request.model, usage))


@dataclass(frozen=True)
class Rehearsal:
    """What a run would use; in `phases` and `total` are the turns with tools that are expected beside the calls."""

    outcome: Outcome
    phases: Mapping[str, Spent]
    total: Spent
    eaches: Mapping[str, tuple[int, Spent]]
    """By the place of an `each`, the items that it was walked through for, and what they have used together."""
    turns: Mapping[str, int]
    """With tools, by phase."""
    steps: int
    """That ask somebody."""
    measured: int
    """Of them."""
    summaries: int
    """Calls that summarise a phase for the ones after it."""
    sent: list[tuple[str, Request]]
    models: Mapping[str, str]
    places: Mapping[str, str]
    """Where each provider is that they are of."""


async def rehearsed(
    loaded: Loaded,
    inputs: dict[str, Any],
    override: str,
    script: Iterable[Rule] = (),
    typed: Collection[str] = (),
    person: StandIn | None = None,
    *,
    straight: bool = False,
    runs: Path | None = None,
) -> Rehearsal:
    """The rehearsal of a run that starts from nothing; a `straight` one goes back nowhere. `runs`: where others are."""
    phases: dict[str, Spent] = {}
    asked: dict[str, str] = {}
    calls: list[tuple[str, Spent]] = []
    models: dict[str, str] = {}

    def heard(event: Event) -> None:
        if isinstance(event, CallEnded) and not event.error:
            spent = Spent(1, Usage(**event.usage), event.price)
            phase = event.phase.partition("/")[0]  # what it runs is its own
            phases[phase] = phases.get(phase, Spent()) + spent
            asked[event.address] = phase
            calls.append((event.address, spent))
        elif isinstance(event, RunStarted):
            phases.update({name: Spent() for name in event.phases})
            models.update(event.models)

    expected = Expectation.of(loaded.program)
    lengths = expected if straight else Expectation({}, Size(0))
    gateway = LongWinded(lengths, script, price=loaded.catalogue.price)
    session = replace(
        loaded.session(gateway, person or StandIn(), heard),
        override=override,
        typed=typed,
        straight=straight,
        runs=runs,
        sizes=expected.known,
    )
    outcome = await rehearse(session, inputs)
    places = loaded.catalogue.places(models.values())
    turns: Counter[str] = Counter()
    for address, request in gateway.sent:
        if request.tools and address in asked:
            size = expected.at(address)
            turns[asked[address]] += size.turns
            more = with_tools(loaded.catalogue, request, size)
            phases[asked[address]] += more
            calls.append((address, more))
    steps = set(map(step_of, asked))
    known = len(steps & expected.known.keys())
    eaches = _by_each(calls)
    total = sum(phases.values(), Spent())
    summaries = sum(address.rpartition("/")[0].endswith(SUMMARY) for address in asked)
    return Rehearsal(outcome, phases, total, eaches, turns, len(steps), known, summaries, gateway.sent, models, places)


def _by_each(calls: Iterable[tuple[str, Spent]]) -> dict[str, tuple[int, Spent]]:
    items: dict[str, set[str]] = {}
    spent: dict[str, Spent] = {}
    for address, more in calls:
        for place, item in eaches_of(address.partition("/")[2]):
            items.setdefault(place, set()).add(item)
            spent[place] = spent.get(place, Spent()) + more
    return {place: (len(ids), spent[place]) for place, ids in items.items()}


def with_tools(catalogue: Catalogue, request: Request, size: Size) -> Spent:
    """What the turns with tools before a reply read: each of them all before it."""
    turns, result = size.turns, size.found
    given = sum(estimate_tokens(block.text) for block in request.system)
    given += sum(estimate_tokens(block.text) for message in request.messages for block in message.blocks)
    usage = Usage(turns * given + result * turns * (turns + 1) // 2)
    return Spent(0, usage, catalogue.price(request.model, usage))


async def estimated(
    loaded: Loaded,
    inputs: dict[str, Any],
    override: str,
    typed: Collection[str],
    prepared: Callable[[], Prepared] = Prepared,
) -> dict[str, Any] | None:
    """`run.estimate` for a workflow that reads it: what a rehearsal that went through has used.

    Where a template reads `run.estimate.answers.<id>`, also what it would be with each choice of that question.
    """
    if not loaded.program.reads_name("run.estimate"):
        return None
    person = StandIn(prepared=prepared())

    async def rehearse_with(stand_in: StandIn) -> dict[str, Any] | None:
        with suppress(SkillrunError):  # what is wrong is said by the run itself, when it gets there
            return _estimate(await rehearsed(loaded, inputs, override, typed=typed, person=stand_in, straight=True))
        return None

    estimate = await rehearse_with(person)
    answers: dict[str, dict[str, Any]] = {}
    for name, choices in person.met.items():
        if loaded.program.reads_name(f"run.estimate.answers.{identifier(name)}"):
            for choice in choices:
                stand_in = StandIn({name: choice}, prepared())
                if (chosen := await rehearse_with(stand_in)) is not None:
                    answers.setdefault(identifier(name), {})[str(choice)] = chosen
    return {**estimate, **({"answers": answers} if answers else {})} if estimate is not None else None


def _estimate(rehearsal: Rehearsal) -> dict[str, Any] | None:
    if rehearsal.outcome.status != "completed":
        return None
    turns = rehearsal.turns
    phases = {name: _sum(spent, turns[name]) for name, spent in rehearsal.phases.items() if spent.calls}
    totals = {**_sum(rehearsal.total, sum(turns.values())), "steps": rehearsal.steps, "measured": rehearsal.measured}
    eaches = {place: {"items": items, **_of_one(spent, items)} for place, (items, spent) in rehearsal.eaches.items()}
    return {**totals, "phases": phases, **({"each": eaches} if eaches else {})}


def _of_one(spent: Spent, items: int) -> dict[str, Any]:
    """What one of so many items uses, about."""
    price = None if spent.price is None else round(spent.price / items, 4)
    tokens = round((spent.usage.input + spent.usage.output) / items)
    return {"calls": round(spent.calls / items, 1), "tokens": tokens, "price": price}


def _sum(spent: Spent, turns: int) -> dict[str, Any]:
    price = None if spent.price is None else round(spent.price, 2)
    return {"calls": spent.calls, "turns": turns, "tokens": spent.usage.input + spent.usage.output, "price": price}


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
    for place, (items, spent) in rehearsal.eaches.items():
        each = _of_one(spent, items)
        what = f"{each['calls']:g} calls, {each['tokens']:,} tokens, {money(each['price'])}"
        out.line(f"for each of {counted(items, 'item')} in `{place}` (a real run may have more or fewer): about {what}")
    turns = sum(rehearsal.turns.values())
    if rehearsal.summaries:
        verb = "summarises" if rehearsal.summaries == 1 else "summarise"
        out.line(f"{rehearsal.summaries} of the calls {verb} a phase for the phases after it")
    if turns:
        out.line(f"with {counted(turns, 'turn')} with tools beside the calls")
    out.line(LENGTHS.format(measured=rehearsal.measured, steps=counted(rehearsal.steps, "step")))
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
            "each": {place: {"items": n, **_of_one(spent, n)} for place, (n, spent) in rehearsal.eaches.items()},
            "turns": turns,
            "steps": rehearsal.steps,
            "measured": rehearsal.measured,
            "summaries": rehearsal.summaries,
            "total": total.to_dict(),
        }
    )
    return 1 if outcome.status == "failed" else 0
