"""Has the samples of two versions scored in pairs: blind, each pair in both orders, by a workflow of the library.

What a judge is told stands in its files; here is only what it gets and gives.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from skillrun.checker.program import Program
from skillrun.extensions.testing.sample_replies import SampleGateway
from skillrun.extensions.testing.sampling import AT_ONCE, Circumstances, Sample
from skillrun.questions.prepared_answers import Prepared
from skillrun.runtime.session import rehearse
from skillrun.runtime.usage_totals import Spent
from skillrun.store.files import sha256_of
from skillrun.store.outcome import Outcome
from skillrun.syntax.diagnostics import SkillrunError, UsageError, did_you_mean

TAKES: Final = ("task", "first", "second")
GIVES: Final = ("first", "second")


@dataclass(frozen=True)
class Look:
    """One look of the judge at a pair: which side stood first, what each was given, and why. `failure`: why it gave
    nothing."""

    first: str
    before: float = 0
    after: float = 0
    reason: str = ""
    failure: str = ""


@dataclass(frozen=True)
class JudgedPair:
    """Two samples of one case, and both looks at them, in the order in which they were taken."""

    before: Sample
    after: Sample
    looks: tuple[Look, ...]
    spent: Spent

    @property
    def is_judged(self) -> bool:
        return not any(look.failure for look in self.looks)

    @property
    def scores(self) -> tuple[float, float]:
        """The mean of both looks, for each side."""
        number = len(self.looks)
        return sum(look.before for look in self.looks) / number, sum(look.after for look in self.looks) / number

    @property
    def winner(self) -> str:
        """`before` or `after` where both looks see it so; empty where they do not, or where the scores are equal."""
        seen = {
            "before" if look.before > look.after else "after" if look.after > look.before else "" for look in self.looks
        }
        return seen.pop() if len(seen) == 1 and self.is_judged else ""

    @property
    def is_swayed(self) -> bool:
        """Whether each look was for what stood first, or each for what stood second."""
        better = [
            look.before - look.after if look.first == "before" else look.after - look.before for look in self.looks
        ]
        return self.is_judged and (all(each > 0 for each in better) or all(each < 0 for each in better))


def check_judge(program: Program) -> None:
    """Raises UsageError where a workflow cannot judge: for want of an input or an output."""
    name = program.workflow.name
    inputs = [field.name for field in program.workflow.inputs]
    for word, wanted, there in (("input", TAKES, inputs), ("output", GIVES, list(program.workflow.outputs))):
        for each in wanted:
            if each not in there:
                hint = did_you_mean(each, there) or "`judge-pair` shows what a judge takes and gives"
                raise UsageError(f"`{name}` is no judge: it has no {word} `{each}`", hint)
    for field in program.workflow.inputs:
        if field.name not in TAKES and field.required:
            raise UsageError(f"`{name}` is no judge: nobody gives it `{field.name}`", "give that input a default")


async def all_judged(
    judge: Program,
    pairs: Sequence[tuple[Sample, Sample]],
    tasks: Callable[[str], str],
    circumstances: Circumstances,
    told: Callable[[JudgedPair], None],
) -> list[JudgedPair]:
    """Every pair, in both orders; `tasks` says what a case asks for."""
    places = asyncio.Semaphore(AT_ONCE)

    async def one(before: Sample, after: Sample) -> JudgedPair:
        async with places:
            judged = await _judged(judge, before, after, tasks(before.case), circumstances)
        told(judged)
        return judged

    async with asyncio.TaskGroup() as group:
        tasks_ = [group.create_task(one(*pair)) for pair in pairs]
    return [task.result() for task in tasks_]


async def _judged(judge: Program, before: Sample, after: Sample, task: str, circumstances: Circumstances) -> JudgedPair:
    """Both looks; which order comes first is drawn by what is judged, so that it is the same when it goes on."""
    drawn = int(sha256_of(f"{before.result}\0{after.result}\0{before.number}")[0], 16) % 2
    looks, spent = [], Spent()
    for first in ("before", "after") if drawn else ("after", "before"):
        texts = (before.result, after.result) if first == "before" else (after.result, before.result)
        gateway = SampleGateway(
            circumstances.answered, f"{before.number}", (), circumstances.catalogue.price, lambda _address: True
        )
        outcome = await _looked(judge, task, texts, gateway, circumstances)
        looks.append(_look(first, outcome))
        spent += gateway.spent
    return JudgedPair(before, after, tuple(looks), spent)


async def _looked(
    judge: Program, task: str, texts: tuple[str, str], gateway: SampleGateway, circumstances: Circumstances
) -> Outcome:
    project = judge.library.project
    session = circumstances.session(judge, Path(project), gateway, Prepared(), ())
    try:
        return await rehearse(session, {"task": task, "first": texts[0], "second": texts[1]})
    except SkillrunError as error:
        return Outcome("failed", str(error))


def _look(first: str, outcome: Outcome) -> Look:
    """What a look has given, by the sides again."""
    if outcome.status != "completed":
        return Look(first, failure=outcome.reason or outcome.status)
    values: list[Any] = [outcome.outputs.get(name) for name in GIVES]
    if not all(isinstance(value, int | float) and not isinstance(value, bool) for value in values):
        return Look(first, failure=f"the judge gave no scores: {values}")
    before, after = values if first == "before" else reversed(values)
    return Look(first, before, after, str(outcome.outputs.get("reason") or ""))
