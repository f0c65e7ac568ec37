"""Performs a dry run with the scripted model. The result has all requests, and each phase's calls, tokens and price.

Reply lengths are taken from measurements of finished runs, or estimated.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from skillrun.checker.program import Program
from skillrun.cli.formatting import count_noun, format_pairs, format_price, format_table, format_warning
from skillrun.cli.loading import LoadedWorkflow
from skillrun.cli.output import Output
from skillrun.definitions.definitions import enclosing_loops
from skillrun.events import CallEnded, Event, RunStarted, Said
from skillrun.library.settings import ReplySize, load_reply_sizes, step_address
from skillrun.models.catalogue import Catalogue
from skillrun.models.messages import NULL_LISTENER, AttemptListener, Reply, Request, Usage
from skillrun.models.scripted import Rule, ScriptedGateway
from skillrun.questions.answers import DEFAULT, Answer, build_answer, choices_of, default_of
from skillrun.questions.prepared_answers import PreparedAnswers
from skillrun.questions.responder import QuestionSet
from skillrun.runtime.phase_record import UsageTotals
from skillrun.runtime.run import Estimate, Simulation
from skillrun.runtime.session import simulate_run
from skillrun.runtime.summaries import TIER
from skillrun.scoring.compaction import estimate_tokens
from skillrun.store.memory import MemoryFiles
from skillrun.store.outcome import Outcome
from skillrun.store.seal import NO_INPUTS, GivenInputs
from skillrun.structured_output.trailing_record import find_last_block
from skillrun.syntax.diagnostics import SkillrunError
from skillrun.types.types import identifier

SIZES_NOTE: Final = (
    "Reply lengths and turns with tools were measured in finished runs (`skillrun sizes`) for {measured} of {steps}. "
    "The others are estimated."
)
SUMMARY_SUFFIX: Final = f"/summary/{TIER}"  # in the address of a call that summarises a phase, before the attempt
BRANCHES_NOTE: Final = "Branches are guessed; the real run may differ."


@dataclass
class AutoResponder:
    """Answers the questions of a dry run.

    The answer comes from the first source that has one: `given`, the prepared answers, the default, the first choice.
    `given` is keyed by question id. `choices_by_question` collects the choices of each question, also keyed by question
    id.
    """

    given: Mapping[str, Any] = field(default_factory=dict)
    prepared: PreparedAnswers = field(default_factory=PreparedAnswers)
    choices_by_question: dict[str, list[Any]] = field(default_factory=dict)
    attended = False
    resume_flags: Mapping[str, str] = field(default_factory=dict)

    async def ask(self, question_set: QuestionSet, *, interactive: bool = True) -> list[Answer]:  # noqa: ARG002 (no user is asked)
        """Return an answer to each question, and collect the choices."""
        answers = []
        for question in question_set.questions:
            name, choices, default = str(question["id"]), choices_of(question), default_of(question)
            if choices:
                self.choices_by_question[name] = choices
            answer = None
            if name not in self.given:
                with suppress(SkillrunError):  # an invalid answer is reported when the run asks the question
                    answer = self.prepared.take(question_set.key, question)
            chosen = default if default is not None else next(iter(choices), "an answer")
            answers.append(answer or build_answer(self.given.get(name, chosen), answered_by=DEFAULT))
        return answers


@dataclass(frozen=True)
class ExpectedSizes:
    """The expected sizes of calls: `by_step` from finished runs, and `default` for steps that are not in `by_step`."""

    by_step: Mapping[str, ReplySize]
    default: ReplySize

    @classmethod
    def from_program(cls, program: Program) -> ExpectedSizes:
        rule = program.engine.get("estimate") or {}
        usual = (int(rule.get(key, 0)) for key in ("reply_tokens", "tool_turns", "result_tokens"))
        return cls(load_reply_sizes(program.library), ReplySize(*usual))

    def size_at(self, address: str) -> ReplySize:
        return self.by_step.get(step_address(address), self.default)


class PaddedScriptedGateway(ScriptedGateway):
    """A scripted gateway that repeats generated text up to the expected length.

    The length matters because later prompts may contain the text. A structured reply is unchanged, but its usage is
    that of a reply with the expected length.
    """

    def __init__(self, expected: ExpectedSizes, *given: Any, **more: Any) -> None:
        super().__init__(*given, **more)
        self.expected = expected

    async def send(self, request: Request, address: str, attempts: AttemptListener = NULL_LISTENER) -> Reply:
        reply = await super().send(request, address, attempts)
        tokens = self.expected.size_at(address).reply
        is_measured = step_address(address) in self.expected.by_step
        if self.rules or not tokens or (request.schema is not None and not is_measured):
            return reply
        text = reply.text
        if request.schema is None:
            block = find_last_block(text)
            document = block.text_before if block is not None else text
            record = text.removeprefix(document)
            room = tokens - estimate_tokens(record) if is_measured else tokens
            text = "\n\n".join([document] * max(1, round(room / max(1, estimate_tokens(document))))) + record
        usage = Usage(reply.usage.input, tokens if is_measured else estimate_tokens(text))
        return replace(reply, text=text, usage=usage, price=self.price(request.model, usage))


@dataclass(frozen=True)
class RunPreview:
    """The expected usage of a run, with its expected tool turns."""

    outcome: Outcome
    phases: Mapping[str, UsageTotals]
    tool_turns: Mapping[str, int]
    """Expected tool turns, keyed by phase."""
    requests: list[tuple[str, Request]]
    data: Mapping[str, Any]
    """The preview as JSON data. `messages` has what the run says before its first call. `each` is keyed by the path of
    an `each` step, `measured` counts the steps whose reply sizes are measured, and `summaries` the calls that summarise
    a phase for later phases."""


async def preview_run(  # noqa: PLR0913 (options of a run)
    loaded: LoadedWorkflow,
    inputs: dict[str, Any],
    override: str,
    script: Iterable[Rule] = (),
    given_inputs: GivenInputs = NO_INPUTS,
    responder: AutoResponder | None = None,
    *,
    skips_jumps: bool = False,
    runs: Path | None = None,
    estimate: Estimate | None = None,
) -> RunPreview:
    """Return the result of a dry run. If `skips_jumps` is set, ignore `goto`, and `stop: failed` after a
    call. `runs` is the folder of other runs, and `estimate` computes `run.estimate`."""
    phases: dict[str, UsageTotals] = {}
    phase_by_address: dict[str, str] = {}
    calls: list[tuple[str, UsageTotals]] = []
    models: dict[str, str] = {}
    warnings: dict[str, None] = {}
    messages: list[str] = []

    def on_event(event: Event) -> None:
        if warning := format_warning(event.to_dict()):
            warnings[warning] = None
        elif isinstance(event, Said) and not calls:
            messages.append(event.text)
        if isinstance(event, CallEnded) and not event.error:
            spent = UsageTotals(1, Usage(**event.usage), event.price)
            phase = event.phase.partition("/")[0]  # includes phases of a workflow that the phase runs
            phases[phase] = phases.get(phase, UsageTotals()) + spent
            phase_by_address[event.address] = phase
            calls.append((event.address, spent))
        elif isinstance(event, RunStarted):
            phases.update({name: UsageTotals() for name in event.phases})
            models.update(event.models)

    expected = ExpectedSizes.from_program(loaded.program)
    padding = expected if skips_jumps else ExpectedSizes({}, ReplySize(0))
    gateway = PaddedScriptedGateway(padding, script, price=loaded.catalogue.price)
    simulation, responder = Simulation(expected.by_step, ignore_jumps=skips_jumps), responder or AutoResponder()
    session = loaded.build_session(
        gateway, responder, on_event, model=override, given_inputs=given_inputs, simulation=simulation
    )
    session.services.estimate = estimate
    outcome = await simulate_run(session, inputs, files=MemoryFiles(runs=runs))
    turns: Counter[str] = Counter()
    for address, request in gateway.calls:
        if request.tools and address in phase_by_address:
            size = expected.size_at(address)
            turns[phase_by_address[address]] += size.turns
            more = tool_turn_usage(loaded.catalogue, request, size)
            phases[phase_by_address[address]] += more
            calls.append((address, more))
    steps = set(map(step_address, phase_by_address))
    data = {
        "dry_run": True,
        "status": outcome.status,
        "reason": outcome.reason,
        "messages": messages,
        "models": models,
        "addresses": loaded.catalogue.provider_locations(models.values()),
        "phases": {name: spent.to_dict() for name, spent in phases.items()},
        "each": _average_by_each(calls),
        "turns": sum(turns.values()),
        "steps": len(steps),
        "measured": len(steps & expected.by_step.keys()),
        "summaries": sum(address.rpartition("/")[0].endswith(SUMMARY_SUFFIX) for address in phase_by_address),
        "total": sum(phases.values(), UsageTotals()).to_dict(),
        "warnings": list(warnings),
    }
    return RunPreview(outcome, phases, turns, gateway.calls, data)


def _average_by_each(calls: Iterable[tuple[str, UsageTotals]]) -> dict[str, dict[str, Any]]:
    """Return, for each `each` step, the number of its items and their average calls, tokens and price."""
    items: dict[str, set[str]] = {}
    spent: dict[str, UsageTotals] = {}
    for address, more in calls:
        for place, item in enclosing_loops(address.partition("/")[2]):
            items.setdefault(place, set()).add(item)
            spent[place] = spent.get(place, UsageTotals()) + more
    averages = {}
    for place, ids in items.items():
        number, total = len(ids), spent[place]
        tokens = round((total.usage.input + total.usage.output) / number)
        price = None if total.price is None else round(total.price / number, 4)
        averages[place] = {"items": number, "calls": round(total.calls / number, 1), "tokens": tokens, "price": price}
    return averages


def tool_turn_usage(catalogue: Catalogue, request: Request, size: ReplySize) -> UsageTotals:
    """Return the usage of the tool turns before a reply. Each turn reads the results of all earlier turns."""
    turns, result = size.turns, size.found
    prompt_tokens = sum(estimate_tokens(block.text) for block in request.system)
    prompt_tokens += sum(estimate_tokens(block.text) for message in request.messages for block in message.blocks)
    usage = Usage(turns * prompt_tokens + result * turns * (turns + 1) // 2)
    return UsageTotals(0, usage, catalogue.price(request.model, usage))


async def estimate_run(
    loaded: LoadedWorkflow,
    inputs: dict[str, Any],
    override: str,
    given_inputs: GivenInputs,
    prepared: Callable[[], PreparedAnswers] = PreparedAnswers,
) -> dict[str, Any] | None:
    """Return the value of `run.estimate`, or None if the dry run does not complete.

    If a template reads `run.estimate.answers.<id>`, the value has an estimate for each choice of the question `<id>`.
    """
    responder = AutoResponder(prepared=prepared())

    async def preview_with(stand_in: AutoResponder) -> dict[str, Any] | None:
        with suppress(SkillrunError):  # the run itself reports the error
            preview = await preview_run(loaded, inputs, override, (), given_inputs, stand_in, skips_jumps=True)
            if preview.outcome.status == "interrupted":  # the dry run ends normally when its task is cancelled
                raise asyncio.CancelledError
            return _estimate_data(preview)
        return None

    estimate = await preview_with(responder)
    answers: dict[str, dict[str, Any]] = {}
    for name, choices in responder.choices_by_question.items():
        if loaded.program.reads_name(f"run.estimate.answers.{identifier(name)}"):
            for choice in choices:
                stand_in = AutoResponder({name: choice}, prepared())
                if (chosen := await preview_with(stand_in)) is not None:
                    answers.setdefault(identifier(name), {})[str(choice)] = chosen
    return {**estimate, **({"answers": answers} if answers else {})} if estimate is not None else None


def _estimate_data(preview: RunPreview) -> dict[str, Any] | None:
    if preview.outcome.status != "completed":
        return None
    turns = preview.tool_turns
    phases = {name: _usage_data(spent, turns[name]) for name, spent in preview.phases.items() if spent.calls}
    totals = _usage_data(sum(preview.phases.values(), UsageTotals()), preview.data["turns"])
    totals |= {"steps": preview.data["steps"], "measured": preview.data["measured"], "phases": phases}
    return {**totals, "each": preview.data["each"]} if preview.data["each"] else totals


def _usage_data(spent: UsageTotals, turns: int) -> dict[str, Any]:
    price = None if spent.price is None else round(spent.price, 2)
    return {"calls": spent.calls, "turns": turns, "tokens": spent.usage.input + spent.usage.output, "price": price}


def print_preview(preview: RunPreview, out: Output) -> int:
    """Print the expected usage. Return 1 if the dry run failed, otherwise 0."""
    outcome, data, rows = preview.outcome, preview.data, []
    for name, spent in [*preview.phases.items(), ("total", sum(preview.phases.values(), UsageTotals()))]:
        numbers = (spent.calls, spent.usage.input, spent.usage.output)
        rows.append([name, *(f"{number:,}" for number in numbers), format_price(spent.price) if spent.calls else ""])
    out.lines(data["messages"])
    out.line(f"models: {format_pairs(data['models'])}")
    out.lines(f"{name}: {place}" for name, place in data["addresses"].items())
    out.lines(format_table(["phase", "calls", "tokens in", "tokens out", "price"], rows, right=(1, 2, 3, 4)))
    for place, each in data["each"].items():
        usage_text = f"{each['calls']:g} calls, {each['tokens']:,} tokens, {format_price(each['price'])}"
        out.line(
            f"for each of {count_noun(each['items'], 'item')} in `{place}` "
            f"(the number may differ in a real run): about {usage_text}"
        )
    if number := data["summaries"]:
        out.line(
            f"{number} of the calls {'summarises' if number == 1 else 'summarise'} a phase for the phases after it"
        )
    if data["turns"]:
        out.line(f"plus {count_noun(data['turns'], 'turn')} with tools")
    out.line(SIZES_NOTE.format(measured=data["measured"], steps=count_noun(data["steps"], "step")))
    out.line(BRANCHES_NOTE)
    out.lines(data["warnings"])
    if outcome.status != "completed":
        out.line(f"The dry run did not complete: {outcome.status}: {outcome.reason}")
    out.data(data)
    return 1 if outcome.status == "failed" else 0
