"""Runs the cases of a workflow in two versions, several times each: selects the compared calls, collects the results.

`judging` and `comparison_report` decide which version is better.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any, Final

from skillrun.checker.program import Program
from skillrun.definitions.definitions import strip_markers
from skillrun.extensions.testing.case_run import CaseRun, run_case_in_memory
from skillrun.extensions.testing.checking import ReadyCase
from skillrun.extensions.testing.mismatches import find_mismatches
from skillrun.extensions.testing.recorded_prompts import list_prompt_texts, prompt_differences
from skillrun.extensions.testing.sample_replies import SampleGateway, SampleReplies
from skillrun.models.catalogue import Catalogue
from skillrun.models.messages import Request
from skillrun.questions.prepared_answers import PreparedAnswers
from skillrun.questions.responder import InteractiveResponder
from skillrun.runtime.phase_record import UsageTotals
from skillrun.runtime.run import RunOptions, Services, Session
from skillrun.store.frontmatter import format_json_text

MAX_CONCURRENT_SAMPLES: Final = 4
"""The number of samples that run in parallel. Providers limit parallel calls themselves."""
_TURN: Final = re.compile(r"/\d+\.\d+$")

ConversationPaths = Collection[str]


@dataclass(frozen=True)
class ComparisonSide:
    """One of the two versions: its name, its program, and the cases keyed by name."""

    name: str
    program: Program
    cases: Mapping[str, ReadyCase]


@dataclass(frozen=True)
class ComparisonScope:
    """Selects the calls to compare: all (`whole`), those of a phase or step, or those whose prompts differ."""

    whole: bool = False
    phase: str = ""
    step: str = ""

    def paths(self, before: Sequence[tuple[str, Request]], after: Sequence[tuple[str, Request]]) -> ConversationPaths:
        """Return the conversations to compare, in call order. A conversation is an address without turn and attempt."""
        addresses = [address for address, _ in chain(before, after)]
        if not (self.whole or self.phase):
            kept = [(address, list_prompt_texts(request)) for address, request in before]
            addresses = [difference.address for difference in prompt_differences(kept, after)]
        return list(dict.fromkeys(conversation_path(address) for address in addresses if self._has(address)))

    def _has(self, address: str) -> bool:
        _, phase, *steps = strip_markers(address).split("/")
        named = [step.partition("@")[0] for step in steps]
        return (not self.phase or phase == self.phase) and (not self.step or self.step in named)


@dataclass(frozen=True)
class SampleContext:
    """The context that all samples share. `override` is the model to use for every call."""

    catalogue: Catalogue
    environ: Mapping[str, str]
    replies: SampleReplies
    override: str = ""
    cache: Path | None = None

    def create_session(
        self, program: Program, project: Path, gateway: Any, prepared: PreparedAnswers, typed: ConversationPaths
    ) -> Session:
        person = InteractiveResponder(prepared, None, attended=False)
        services = Services(self.catalogue, gateway, person, environ=self.environ, cache=self.cache)
        return Session(program, services, RunOptions(project, self.override, explicit_inputs=typed))


@dataclass(frozen=True)
class Sample:
    """The result of one run of a case in one version.

    `expected` is the number of expectations met and their total number. `asked` counts the compared calls that had no
    recorded reply. `made_up` counts the replies that were generated before the last compared call.
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


async def collect_requests(side: ComparisonSide, case: str, context: SampleContext) -> list[tuple[str, Request]]:
    """Return the requests that a run of a case sends if every call gets a scripted reply of the case."""
    ready = side.cases[case]
    rules = [reply.rule for reply in ready.case.replies]
    gateway = SampleGateway(context.replies, "", rules, context.catalogue.price, lambda _address: False)
    session = context.create_session(
        side.program, ready.project, gateway, PreparedAnswers(ready.case.answers), ready.case.input_names
    )
    await run_case_in_memory(ready, session)
    return gateway.sent


async def run_sample(
    side: ComparisonSide, case: str, number: int, paths: ConversationPaths, context: SampleContext, *, whole: bool
) -> Sample:
    """Run one sample. Models reply to the compared calls; all other calls get the scripted replies of the case."""
    ready = side.cases[case]

    def is_compared(address: str) -> bool:
        return whole or conversation_path(address) in paths

    rules = [reply.rule for reply in ready.case.replies]
    gateway = SampleGateway(context.replies, f"{number}", rules, context.catalogue.price, is_compared)
    session = context.create_session(
        side.program, ready.project, gateway, PreparedAnswers(ready.case.answers), ready.case.input_names
    )
    case_run = await run_case_in_memory(ready, session)
    status = case_run.outcome.status
    result = _artifacts(case_run) if whole else _replies(gateway)
    met_expectations, reason = _count_met_expectations(ready, case_run), case_run.outcome.reason
    calls = gateway.spent, gateway.new_calls, gateway.generated_replies
    return Sample(side.name, case, number, status, reason, result, met_expectations, *calls)


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

    The versions alternate.
    """
    semaphore = asyncio.Semaphore(MAX_CONCURRENT_SAMPLES)

    async def run_one(side: ComparisonSide, case: str, number: int) -> Sample:
        async with semaphore:
            sample = await run_sample(side, case, number, paths[case], context, whole=whole)
        on_sample(sample)
        return sample

    order = [(side, case, number) for case in paths for number in range(1, count + 1) for side in sides]
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(run_one(*place)) for place in order]
    return [task.result() for task in tasks]


def _replies(gateway: SampleGateway) -> str:
    """Return the last reply of each compared conversation as one text; JSON becomes YAML.

    Several replies get their addresses as headings.
    """
    last = {conversation_path(address): reply.text for address, _, reply in gateway.compared_calls if not reply.calls}
    texts = {path: format_json_text(text).strip() for path, text in last.items()}
    if len(texts) == 1:
        return next(iter(texts.values()))
    return "\n\n".join(f"# {path.partition('/')[2]}\n\n{text}" for path, text in texts.items())


def _artifacts(case_run: CaseRun) -> str:
    """Return the run's artifacts as one text. Several artifacts get their names as headings."""
    if len(case_run.artifacts) == 1:
        return next(iter(case_run.artifacts.values())).strip()
    return "\n\n".join(f"# {name}\n\n{text.strip()}" for name, text in sorted(case_run.artifacts.items()))


def _count_met_expectations(ready: ReadyCase, case_run: CaseRun) -> tuple[int, int]:
    """Return how many expectations were met, and how many there are.

    Expectations that only the recorded replies can meet are not counted.
    """
    expectations = tuple(
        each
        for each in ready.case.expectations
        if each.kind not in ("calls", "price") and each.test not in ("equals", "at_most")
    )
    if not expectations:
        return 0, 0
    met = sum(
        not find_mismatches(replace(ready, case=replace(ready.case, expectations=(each,))), case_run)
        for each in expectations
    )
    return met, len(expectations)
