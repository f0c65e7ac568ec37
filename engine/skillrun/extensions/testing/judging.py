"""Scores pairs of samples with a judge workflow.

The judge sees each pair in both orders, but not which version a sample comes from.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any, Final

from skillrun.checker.program import Program
from skillrun.extensions.testing.sampling import Sample, SampleContext, SampleGateway, run_concurrently
from skillrun.runtime.phase_record import UsageTotals
from skillrun.runtime.session import simulate_run
from skillrun.store.files import sha256_of
from skillrun.store.outcome import Outcome
from skillrun.syntax.diagnostics import SkillrunError, UsageError, did_you_mean

JUDGE_INPUTS: Final = ("task", "first", "second")
JUDGE_OUTPUTS: Final = ("first", "second")


@dataclass(frozen=True)
class Judgement:
    """One judgement of a pair, in one order.

    `first` is the side that was shown first; `before` and `after` are the scores. If there are no scores, `failure`
    says why.
    """

    first: str
    before: float = 0
    after: float = 0
    reason: str = ""
    failure: str = ""


@dataclass(frozen=True)
class JudgedPair:
    """Two samples of one case, and the two judgements in the order in which they were made."""

    before: Sample
    after: Sample
    judgements: tuple[Judgement, ...]
    spent: UsageTotals

    @property
    def is_judged(self) -> bool:
        return not any(look.failure for look in self.judgements)

    @property
    def scores(self) -> tuple[float, float]:
        """The mean score of each side."""
        return fmean(look.before for look in self.judgements), fmean(look.after for look in self.judgements)

    @property
    def winner(self) -> str:
        """The side that both judgements prefer, `before` or `after`; empty if they disagree or the scores are equal."""
        leads = [look.before - look.after for look in self.judgements]
        if not self.is_judged:
            return ""
        return "before" if min(leads) > 0 else "after" if max(leads) < 0 else ""

    @property
    def is_position_biased(self) -> bool:
        """Whether both judgements prefer the sample shown first, or both prefer the sample shown second."""
        better = [
            look.before - look.after if look.first == "before" else look.after - look.before for look in self.judgements
        ]
        return self.is_judged and (min(better) > 0 or max(better) < 0)


def check_judge(program: Program) -> None:
    """Raise UsageError if the workflow lacks an input or output that a judge must have, or requires any other input."""
    name = program.workflow.name
    inputs = [field.name for field in program.workflow.inputs]
    for word, wanted, there in (
        ("input", JUDGE_INPUTS, inputs),
        ("output", JUDGE_OUTPUTS, list(program.workflow.outputs)),
    ):
        for each in wanted:
            if each not in there:
                hint = did_you_mean(each, there) or "`judge-pair` has all inputs and outputs of a judge"
                raise UsageError(f"`{name}` is not a judge: it has no {word} `{each}`", hint)
    for field in program.workflow.inputs:
        if field.name not in JUDGE_INPUTS and field.required:
            raise UsageError(
                f"`{name}` is not a judge: it requires the input `{field.name}`", "give the input a default"
            )


async def judge_all_pairs(
    judge: Program,
    pairs: Sequence[tuple[Sample, Sample]],
    task_of: Callable[[str], str],
    context: SampleContext,
    on_pair: Callable[[JudgedPair], None],
) -> list[JudgedPair]:
    """Judge every pair in both orders. `task_of` returns the description of a case; `on_pair` gets each judged pair.

    A hash of the results decides which order comes first, so that a resumed comparison uses the same order.
    """

    async def judge_pair(before: Sample, after: Sample) -> JudgedPair:
        starts_with_before = int(sha256_of(f"{before.result}\0{after.result}\0{before.number}")[0], 16) % 2
        judgements, spent = [], UsageTotals()
        for first in ("before", "after") if starts_with_before else ("after", "before"):
            shown = (before.result, after.result) if first == "before" else (after.result, before.result)
            inputs = dict(zip(JUDGE_INPUTS, (task_of(before.case), *shown), strict=True))
            gateway = SampleGateway(context, f"{before.number}", (), lambda _: True)
            session = context.create_session(judge, Path(judge.library.project), gateway)
            try:
                outcome = await simulate_run(session, inputs)
            except SkillrunError as error:
                outcome = Outcome("failed", str(error))
            judgements.append(_read_judgement(first, outcome))
            spent += gateway.spent
        return JudgedPair(before, after, tuple(judgements), spent)

    return await run_concurrently(judge_pair, pairs, on_pair)


def _read_judgement(first: str, outcome: Outcome) -> Judgement:
    """Return the judgement from the judge's outputs. `first` is the side that was shown first."""
    if outcome.status != "completed":
        return Judgement(first, failure=outcome.reason or outcome.status)
    values: list[Any] = [outcome.outputs.get(name) for name in JUDGE_OUTPUTS]
    if not all(isinstance(value, int | float) and not isinstance(value, bool) for value in values):
        return Judgement(first, failure=f"the judge returned no scores: {values}")
    before, after = values if first == "before" else reversed(values)
    return Judgement(first, before, after, str(outcome.outputs.get("reason") or ""))
