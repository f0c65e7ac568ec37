"""Samples of two versions of a workflow on its cases: which calls are compared, and what each sample gives.

Asks models by the gateway that it is given. Which version is better is for `judging` and `figures`.
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
from skillrun.definitions.step_paths import unmarked
from skillrun.extensions.testing.case_run import Trial, followed
from skillrun.extensions.testing.checking import ReadyCase
from skillrun.extensions.testing.mismatches import misses
from skillrun.extensions.testing.recorded_prompts import prompt_differences, texts_of
from skillrun.extensions.testing.sample_replies import Answered, SampleGateway
from skillrun.models.catalogue import Catalogue
from skillrun.models.messages import Request
from skillrun.questions.prepared_answers import Prepared
from skillrun.questions.responder import Person
from skillrun.runtime.run import Session
from skillrun.runtime.usage_totals import Spent
from skillrun.store.frontmatter import legible

AT_ONCE: Final = 4
"""Samples that run beside one another; how many calls do is for the providers."""
_TURN: Final = re.compile(r"/\d+\.\d+$")

Paths = Collection[str]


@dataclass(frozen=True)
class Side:
    """One of the two versions: what it is called, its workflow, and its cases by their names."""

    name: str
    program: Program
    cases: Mapping[str, ReadyCase]


@dataclass(frozen=True)
class Scope:
    """What is compared: all calls (`whole`), those of a phase or a step, or those whose prompts the versions have
    otherwise."""

    whole: bool = False
    phase: str = ""
    step: str = ""

    def paths(self, before: Sequence[tuple[str, Request]], after: Sequence[tuple[str, Request]]) -> Paths:
        """The conversations that are compared, by their addresses without the turn, in their order."""
        addresses = [address for address, _ in chain(before, after)]
        if not (self.whole or self.phase):
            kept = [(address, texts_of(request)) for address, request in before]
            addresses = [difference.address for difference in prompt_differences(kept, after)]
        return list(dict.fromkeys(path_of(address) for address in addresses if self._has(address)))

    def _has(self, address: str) -> bool:
        _, phase, *steps = unmarked(address).split("/")
        named = [step.partition("@")[0] for step in steps]
        return (not self.phase or phase == self.phase) and (not self.step or self.step in named)


@dataclass(frozen=True)
class Circumstances:
    """What the samples share: what models mean, how long the list of models is kept, and whom calls are sent to."""

    catalogue: Catalogue
    environ: Mapping[str, str]
    answered: Answered
    override: str = ""
    cache: Path | None = None

    def session(self, program: Program, project: Path, gateway: Any, prepared: Prepared, typed: Paths) -> Session:
        person = Person(prepared, None, attended=False)
        return Session(
            program,
            self.catalogue,
            gateway,
            person,
            [],
            self.environ,
            project,
            override=self.override,
            cache=self.cache,
            typed=typed,
        )


@dataclass(frozen=True)
class Sample:
    """What one run of a case in one version has given. `expected`: how many of its expectations hold, of how many;
    `asked`: how many of its calls were not on record; `made_up`: how many replies before them were generated."""

    side: str
    case: str
    number: int
    status: str
    reason: str
    result: str
    expected: tuple[int, int]
    spent: Spent
    asked: int = 0
    made_up: int = 0

    @property
    def is_whole(self) -> bool:
        """Whether it has something that can be judged."""
        return self.status == "completed" and bool(self.result)


def path_of(address: str) -> str:
    """An address without its turn and attempt."""
    return _TURN.sub("", address)


async def walked(side: Side, case: str, circumstances: Circumstances) -> list[tuple[str, Request]]:
    """What a run of a case would send, on the case's own replies alone."""
    ready = side.cases[case]
    rules = [reply.rule for reply in ready.case.replies]
    gateway = SampleGateway(circumstances.answered, "", rules, circumstances.catalogue.price, lambda _address: False)
    session = circumstances.session(
        side.program, ready.project, gateway, Prepared(ready.case.answers), ready.case.input_names
    )
    await followed(ready, session)
    return gateway.sent


async def sampled(
    side: Side, case: str, number: int, paths: Paths, circumstances: Circumstances, *, whole: bool
) -> Sample:
    """One sample: the compared calls are asked, all others have the case's replies."""
    ready = side.cases[case]

    def is_compared(address: str) -> bool:
        return whole or path_of(address) in paths

    rules = [reply.rule for reply in ready.case.replies]
    gateway = SampleGateway(circumstances.answered, f"{number}", rules, circumstances.catalogue.price, is_compared)
    session = circumstances.session(
        side.program, ready.project, gateway, Prepared(ready.case.answers), ready.case.input_names
    )
    trial = await followed(ready, session)
    status = trial.outcome.status
    result = _artifacts(trial) if whole else _replies(gateway)
    held, reason = _expected(ready, trial), trial.outcome.reason
    calls = gateway.spent, gateway.asked, gateway.made_up
    return Sample(side.name, case, number, status, reason, result, held, *calls)


async def all_sampled(
    sides: Sequence[Side],
    paths: Mapping[str, Paths],
    count: int,
    circumstances: Circumstances,
    told: Callable[[Sample], None],
    *,
    whole: bool,
) -> list[Sample]:
    """So many samples of each case in each version, the versions by turns; `told` hears each when it is there."""
    places = asyncio.Semaphore(AT_ONCE)

    async def one(side: Side, case: str, number: int) -> Sample:
        async with places:
            sample = await sampled(side, case, number, paths[case], circumstances, whole=whole)
        told(sample)
        return sample

    order = [(side, case, number) for case in paths for number in range(1, count + 1) for side in sides]
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(one(*place)) for place in order]
    return [task.result() for task in tasks]


def _replies(gateway: SampleGateway) -> str:
    """What the compared calls have said last, each under its address where there are several; data as YAML."""
    last = {path_of(address): reply.text for address, _, reply in gateway.answers if not reply.calls}
    texts = {path: legible(text).strip() for path, text in last.items()}
    if len(texts) == 1:
        return next(iter(texts.values()))
    return "\n\n".join(f"# {path.partition('/')[2]}\n\n{text}" for path, text in texts.items())


def _artifacts(trial: Trial) -> str:
    """What the run has written; each under its name where there are several."""
    if len(trial.artifacts) == 1:
        return next(iter(trial.artifacts.values())).strip()
    return "\n\n".join(f"# {name}\n\n{text.strip()}" for name, text in sorted(trial.artifacts.items()))


def _expected(ready: ReadyCase, trial: Trial) -> tuple[int, int]:
    """How many of the case's expectations hold, and of how many; what only the recorded replies give is none."""
    wanted = tuple(
        each
        for each in ready.case.expected
        if each.kind not in ("calls", "price") and each.test not in ("equals", "at_most")
    )
    if not wanted:
        return 0, 0
    held = sum(not misses(replace(ready, case=replace(ready.case, expected=(each,))), trial) for each in wanted)
    return held, len(wanted)
