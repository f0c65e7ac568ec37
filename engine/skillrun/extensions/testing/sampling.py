"""Runs the cases of two versions of a workflow several times each, and collects the results.

A journal stores the replies to compared calls by prompt, address and sample, each with a seal of this user, so no
comparison repeats a completed call.
The modules `judging` and `comparison_report` decide which version is better.
"""

from __future__ import annotations

import asyncio
import hmac
import json
import os
import re
from collections import defaultdict
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from hashlib import sha256
from itertools import chain
from pathlib import Path
from typing import Any, Final, TypeVar

from skillrun.checker.program import Program
from skillrun.definitions.definitions import strip_markers
from skillrun.events import Listener
from skillrun.extensions.testing.case_run import CaseRun, find_mismatches, run_case_in_memory
from skillrun.extensions.testing.cases import Case
from skillrun.extensions.testing.checking import ReadyCase
from skillrun.extensions.testing.differences import prompt_differences
from skillrun.models.catalogue import Catalogue
from skillrun.models.messages import NULL_LISTENER, AttemptListener, Gateway, Reply, Request
from skillrun.models.scripted import Rule, ScriptedGateway
from skillrun.questions.prepared_answers import PreparedAnswers
from skillrun.questions.responder import InteractiveResponder
from skillrun.replay import CALLS, Body, Replay
from skillrun.runtime.calls.conversation import max_usage
from skillrun.runtime.errors import BudgetExhausted
from skillrun.runtime.phase_record import UsageTotals
from skillrun.runtime.run import RunOptions, Services, Session
from skillrun.runtime.run_budget import RunBudget
from skillrun.store.frontmatter import format_json_text
from skillrun.store.journal import Journal, Kind
from skillrun.store.memory import MemoryJournal

MAX_CONCURRENT_SAMPLES: Final = 4
"""The number of samples that run in parallel. Providers limit parallel calls themselves."""
_TURN: Final = re.compile(r"/\d+\.\d+$")

CallExchange = tuple[str, Request, Reply]
ConversationPaths = Sequence[str]
Result = TypeVar("Result")


@dataclass
class SealedReplies:
    """The replies in the journal of a comparison that this user recorded. A project can contain anyone's journal.

    A note at the address of a reply has its seal by the user's key, which covers the prompt and the reply. `unsealed`
    has the address and fingerprint of each reply that was found and not used.
    """

    journal: Journal
    key: bytes
    unsealed: set[tuple[str, str]] = field(default_factory=set)

    def find(self, kind: Kind, address: str, fingerprint: str) -> Body | None:
        body = self.journal.find(kind, address, fingerprint)
        if body is None or self.journal.find("note", address, self._seal(address, fingerprint, body)) is not None:
            return body
        self.unsealed.add((address, fingerprint))
        return None

    async def record(self, kind: Kind, address: str, fingerprint: str, body: Body) -> None:
        records = [self.journal.record(kind, address, fingerprint, body)]
        if kind == CALLS.record:
            records.append(self.journal.record("note", address, self._seal(address, fingerprint, body), {}))
        await asyncio.gather(*records)  # in one commit

    def _seal(self, address: str, fingerprint: str, body: Body) -> str:
        text = json.dumps([address, fingerprint, body], sort_keys=True)
        return hmac.new(self.key, b"skillrun reply 1\n" + text.encode(), sha256).hexdigest()


@dataclass
class SampleReplies:
    """Returns replies from the journal, and calls the models for missing replies. No call is sent twice.

    All new calls together are within `budget`. `new_calls` has the calls that earlier comparisons did not record, keyed
    by place and fingerprint.
    """

    journal: SealedReplies
    gateway: Gateway
    catalogue: Catalogue
    budget: RunBudget = field(default_factory=lambda: RunBudget({}, MemoryJournal()))
    new_calls: dict[tuple[str, str], CallExchange] = field(default_factory=dict)
    recorded_calls: int = 0
    refusal: str = ""  # why the budget has refused a call
    _locks: defaultdict[tuple[str, str], asyncio.Lock] = field(default_factory=lambda: defaultdict(asyncio.Lock))

    async def get_reply(self, request: Request, address: str, sample: str) -> tuple[Reply, bool]:
        """Return the reply to a call of a sample, and whether the reply was recorded earlier.

        Raises ModelError and BudgetExhausted.
        """
        key = place, fingerprint = f"{sample}/{address}", request.fingerprint()

        async def send() -> Body:
            try:
                reservation = await self.budget.reserve(partial(max_usage, self.catalogue, request))
            except BudgetExhausted as error:
                self.refusal = error.message
                raise
            try:
                await self.journal.record("sent", place, fingerprint, request.to_dict())
                self.budget.count_call(reservation)
                reply = await self.gateway.send(request, address)
                self.budget.record_usage(reservation, reply.usage, reply.price)
            finally:
                self.budget.release(reservation)
            return reply.to_dict()

        async with self._locks[key]:
            result = await Replay(self.journal).once(CALLS, place, fingerprint, send)
        reply = Reply.from_dict(result.body)
        if not result.is_replayed:
            self.new_calls[key] = address, request, reply
        is_known = key not in self.new_calls
        self.recorded_calls += is_known
        return reply, is_known


@dataclass(frozen=True)
class ComparisonSide:
    """One of the two versions: its name, its program, and the cases keyed by name."""

    name: str
    program: Program
    cases: Mapping[str, ReadyCase]


@dataclass(frozen=True)
class ComparisonScope:
    """Selects the calls to compare: all calls (`whole`), calls of a phase or step, or calls whose prompts differ."""

    whole: bool = False
    phase: str = ""
    step: str = ""

    def paths(self, before: Sequence[tuple[str, Request]], after: Sequence[tuple[str, Request]]) -> ConversationPaths:
        """Return the conversations to compare, in call order. A conversation is an address without turn and attempt."""
        addresses = [address for address, _ in chain(before, after)]
        if not (self.whole or self.phase):
            kept = [(address, [block.text for block in request.blocks]) for address, request in before]
            addresses = [difference.address for difference in prompt_differences(kept, after)]
        paths: dict[str, None] = {}
        for address in addresses:
            _, phase, *steps = strip_markers(address).split("/")
            named = [step.partition("@")[0] for step in steps]
            if (not self.phase or phase == self.phase) and (not self.step or self.step in named):
                paths[conversation_path(address)] = None
        return list(paths)


@dataclass(frozen=True)
class SampleContext:
    """The context that all samples share. `override` is the model to use for every call. `listener` gets the events."""

    catalogue: Catalogue
    replies: SampleReplies
    override: str = ""
    cache: Path | None = None
    listener: Listener = lambda _: None

    def create_session(self, program: Program, project: Path, gateway: Gateway, case: Case | None = None) -> Session:
        """Return a session. If `case` is given, use its answers."""
        person = InteractiveResponder(PreparedAnswers(case.answers if case is not None else {}), None, attended=False)
        services = Services(self.catalogue, gateway, person, environ=os.environ, cache=self.cache)
        services.listeners = [self.listener]
        return Session(program, services, RunOptions(project, self.override))


class SampleGateway(ScriptedGateway):
    """The gateway of one sample. Models reply to compared calls; all other calls get scripted replies."""

    def __init__(
        self, context: SampleContext, sample: str, rules: Iterable[Rule], is_compared: Callable[[str], bool]
    ) -> None:
        super().__init__(rules, context.catalogue.price)
        self.replies, self.sample, self.is_compared = context.replies, sample, is_compared
        self.compared_calls: list[CallExchange] = []
        self.new_calls = 0  # compared calls that had no recorded reply
        self.generated_replies = 0  # replies that were generated before the last compared call
        self._generated = 0

    async def send(self, request: Request, address: str, attempts: AttemptListener = NULL_LISTENER) -> Reply:
        if not self.is_compared(address):
            self._generated += not any(rule.matches(address, request.model) for rule in self.rules)
            return await super().send(request, address, attempts)
        self.generated_replies = self._generated
        await attempts.on_sent(1)
        reply, is_known = await self.replies.get_reply(request, address, self.sample)
        self.new_calls += not is_known
        self.compared_calls.append((address, request, reply))
        return reply

    @property
    def spent(self) -> UsageTotals:
        """The usage of the compared calls, including recorded ones."""
        return sum((UsageTotals(1, reply.usage, reply.price) for _, _, reply in self.compared_calls), UsageTotals())

    def last_replies(self) -> dict[str, str]:
        """Return the last reply of each compared conversation, keyed by address without workflow. JSON becomes YAML."""
        last = {conversation_path(address): reply.text for address, _, reply in self.compared_calls if not reply.calls}
        return {path.partition("/")[2]: format_json_text(text).strip() for path, text in last.items()}


@dataclass(frozen=True)
class Sample:
    """The result of one run of a case in one version.

    `expected` has the number of met expectations and the number of all expectations. `asked` counts the compared calls
    that had no recorded reply. `made_up` counts the replies that were generated before the last compared call.
    """

    side: str
    case: str
    number: int
    status: str
    reason: str
    result: str
    expected: tuple[int, int]
    spent: UsageTotals
    asked: int = 0
    made_up: int = 0

    @property
    def has_result(self) -> bool:
        """Whether the result can be judged."""
        return self.status == "completed" and bool(self.result)


def conversation_path(address: str) -> str:
    """Return an address without turn and attempt."""
    return _TURN.sub("", address)


async def run_concurrently(
    run: Callable[..., Coroutine[Any, Any, Result]],
    arguments: Iterable[tuple[Any, ...]],
    on_result: Callable[[Result], None],
) -> list[Result]:
    """Call `run` with each tuple of arguments, several at a time, and return the results in order.

    `on_result` gets each result as soon as it is available.
    """
    semaphore = asyncio.Semaphore(MAX_CONCURRENT_SAMPLES)

    async def run_one(each: tuple[Any, ...]) -> Result:
        async with semaphore:
            result = await run(*each)
        on_result(result)
        return result

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(run_one(each)) for each in arguments]
    return [task.result() for task in tasks]


async def collect_requests(side: ComparisonSide, case: str, context: SampleContext) -> list[tuple[str, Request]]:
    """Run a case with its scripted replies only, and return the address and request of each call."""
    ready = side.cases[case]
    gateway = ScriptedGateway(ready.case.replies, context.catalogue.price)
    await run_case_in_memory(ready, context.create_session(side.program, ready.project, gateway, ready.case))
    return gateway.calls


async def run_samples(
    sides: Sequence[ComparisonSide],
    paths: Mapping[str, ConversationPaths],
    count: int,
    context: SampleContext,
    on_sample: Callable[[Sample], None],
    *,
    whole: bool,
) -> list[Sample]:
    """Run `count` samples of each case in each version, and return them. `on_sample` gets each finished sample.

    Models reply to the compared calls; all other calls get the scripted replies of the case. The versions alternate.
    """

    async def run_sample(side: ComparisonSide, case: str, number: int) -> Sample:
        ready = side.cases[case]

        def is_compared(address: str) -> bool:
            return whole or conversation_path(address) in paths[case]

        gateway = SampleGateway(context, f"{number}", ready.case.replies, is_compared)
        session = context.create_session(side.program, ready.project, gateway, ready.case)
        case_run = await run_case_in_memory(ready, session)
        if whole:
            texts = {name: text.strip() for name, text in sorted(case_run.artifacts.items())}
        else:
            texts = gateway.last_replies()
        result = "\n\n".join(f"# {name}\n\n{text}" for name, text in texts.items())
        if len(texts) == 1:
            result = next(iter(texts.values()))
        outcome, met = case_run.outcome, _count_met_expectations(ready, case_run)
        calls = gateway.spent, gateway.new_calls, gateway.generated_replies
        return Sample(side.name, case, number, outcome.status, outcome.reason, result, met, *calls)

    order = [(side, case, number) for case in paths for number in range(1, count + 1) for side in sides]
    return await run_concurrently(run_sample, order, on_sample)


def _count_met_expectations(ready: ReadyCase, case_run: CaseRun) -> tuple[int, int]:
    """Return how many expectations were met, and how many there are.

    Expectations that only the recorded replies can meet are not counted.
    """
    expectations = [
        each
        for each in ready.case.expectations
        if each.kind not in ("calls", "price") and each.test not in ("equals", "at_most")
    ]
    met = sum(
        not find_mismatches(replace(ready, case=replace(ready.case, expectations=(each,))), case_run)
        for each in expectations
    )
    return met, len(expectations)
