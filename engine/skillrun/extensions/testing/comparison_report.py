"""Formats a comparison of two versions: price, sample lines, result table, markdown report and JSON data."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from math import comb
from statistics import fmean, stdev
from typing import Any, Final

from skillrun.cli.formatting import count_noun, format_price, format_table
from skillrun.extensions.testing.judging import JudgedPair
from skillrun.extensions.testing.sampling import ConversationPaths, Sample
from skillrun.runtime.phase_record import UsageTotals
from skillrun.syntax.diagnostics import indent_continuation

SIGNIFICANCE_LEVEL: Final = 0.05  # differences with a smaller p-value are significant
MIN_DECIDED_PAIRS: Final = 6  # even if fewer pairs all agree, the result can be chance


@dataclass(frozen=True)
class Spread:
    """Count, mean and standard deviation of numbers. A single number has no deviation."""

    count: int
    mean: float
    deviation: float | None


def compute_spread(numbers: Sequence[float]) -> Spread | None:
    """Return the count, mean and standard deviation of `numbers`; None for an empty sequence."""
    if not numbers:
        return None
    return Spread(len(numbers), fmean(numbers), stdev(numbers) if len(numbers) > 1 else None)


@dataclass(frozen=True)
class Verdict:
    """How often each version was better. `undecided` counts ties, and pairs whose two judgements disagree."""

    before: int
    after: int
    undecided: int = 0

    @property
    def decided(self) -> int:
        return self.before + self.after

    @property
    def p_value(self) -> float:
        """The p-value of the two-sided sign test."""
        most, all_ = max(self.before, self.after), self.decided
        tail = sum(comb(all_, wins) for wins in range(most, all_ + 1))
        return min(1.0, float(2 * tail / 2**all_))

    @property
    def is_significant(self) -> bool:
        """Whether the difference is statistically significant."""
        return self.decided >= MIN_DECIDED_PAIRS and self.p_value < SIGNIFICANCE_LEVEL


MAX_NAMED: Final = 8
HEADER: Final = ("case", "version", "samples", "expected", "score", "better", "tokens in", "tokens out", "price")
_FENCE: Final = re.compile(r"^(`{3,})", re.MULTILINE)


@dataclass(frozen=True)
class ComparisonCost:
    """The estimated usage of a comparison. Recorded calls are not included, because they cost nothing."""

    totals: UsageTotals
    judge_calls: int
    recorded_calls: int
    models: Sequence[str]
    provider_addresses: Mapping[str, str]
    first_unreplied: Mapping[str, str]
    """Cases that lack a reply to a compared call, with the address of the first such call. Later calls differ too."""


@dataclass(frozen=True)
class Comparison:
    """Two versions, their samples and the judged pairs."""

    workflow: str
    sides: tuple[str, str]
    judge: str
    count: int
    paths: Mapping[str, ConversationPaths]
    samples: Sequence[Sample]
    judged: Sequence[JudgedPair]

    @property
    def pairs(self) -> list[tuple[Sample, Sample]]:
        """Pairs of samples, one of each version, with the same case and number."""
        return list(zip(self.samples[::2], self.samples[1::2], strict=True))  # the versions alternate

    def samples_of(self, side: str, case: str = "") -> list[Sample]:
        return [sample for sample in self.samples if sample.side == side and case in ("", sample.case)]

    def judged_in(self, case: str = "") -> list[JudgedPair]:
        """Return the pairs with scores, in `case` or, if it is empty, in all cases."""
        return [pair for pair in self.judged if case in ("", pair.before.case) and pair.is_judged]

    def verdict(self, case: str = "") -> Verdict:
        """Return how often each version won, in `case` or, if it is empty, in all cases. A draw is undecided."""
        winners = [pair.winner for pair in self.judged_in(case)]
        return Verdict(winners.count("before"), winners.count("after"), winners.count(""))

    def summary(self) -> list[dict[str, Any]]:
        """Return the scores, wins and usage of both versions per case. Several cases also have totals."""
        rows = []
        for case in (*self.paths, "") if len(self.paths) > 1 else self.paths:
            pairs, verdict = self.judged_in(case), self.verdict(case)
            for at, side in enumerate(self.sides):
                spread = compute_spread([pair.scores[at] for pair in pairs])
                row = {
                    "case": case or None,
                    "version": side,
                    "score": asdict(spread) if spread is not None else None,
                    "better": verdict.after if at else verdict.before,
                    **sum((sample.spent for sample in self.samples_of(side, case)), UsageTotals()).to_dict(),
                }
                rows.append(row)
        return rows

    def data(self) -> dict[str, Any]:
        verdict = self.verdict()
        return {
            "workflow": self.workflow,
            "before": self.sides[0],
            "after": self.sides[1],
            "judge": self.judge,
            "samples_each": self.count,
            "compared": {case: list(paths) for case, paths in self.paths.items()},
            "summary": self.summary(),
            "verdict": {**asdict(verdict), "chance": round(verdict.p_value, 4), "tells": verdict.is_significant},
            "samples": [{**asdict(sample), "spent": sample.spent.to_dict()} for sample in self.samples],
            "judged": [
                {
                    "case": pair.before.case,
                    "number": pair.before.number,
                    "winner": pair.winner,
                    "swayed_by_order": pair.is_position_biased,
                    "looks": [asdict(look) for look in pair.judgements],
                    "spent": pair.spent.to_dict(),
                }
                for pair in self.judged
            ],
        }


def price_lines(comparison: Comparison, cost: ComparisonCost) -> Iterator[str]:
    """Yield the lines that the user confirms: the compared calls, their estimated price, and notes."""
    cases = count_noun(len(comparison.paths), "case")
    yield (
        f"{comparison.workflow}: {comparison.sides[0]} compared with the {comparison.sides[1]}, {cases}, "
        f"{count_noun(comparison.count, 'sample')} of each"
    )
    paths = list(dict.fromkeys(path.partition("/")[2] for several in comparison.paths.values() for path in several))
    named = ", ".join(paths[:MAX_NAMED])
    more = f" and {len(paths) - MAX_NAMED} more" if len(paths) > MAX_NAMED else ""
    yield f"compared: {named}{more}" if paths else "compared: whole runs"
    usage = cost.totals.usage
    judging = f", {cost.judge_calls} of them by the judge" if cost.judge_calls else ""
    known = f"; {cost.recorded_calls:,} more already recorded" if cost.recorded_calls else ""
    tokens = f"about {usage.input:,} tokens in, {usage.output:,} out"
    yield f"makes {count_noun(cost.totals.calls, 'call')}{judging}{known}: {tokens}, {format_price(cost.totals.price)}"
    if cost.models:
        yield f"models: {', '.join(cost.models)}"
    yield from (f"{name}: {place}" for name, place in cost.provider_addresses.items())
    generated = sorted({sample.case for sample in comparison.samples if sample.made_up})
    if generated:
        yield (
            f"note: in {', '.join(generated)}, some calls that are not compared get generated placeholder replies. "
            "To use real replies, record the case from a run, or make all calls with `--whole`"
        )
    for case, path in cost.first_unreplied.items():
        yield (
            f"note: {case} has no reply for {path.partition('/')[2]}, the first call that differs. Each version gets a "
            "generated reply, so later calls that read this reply differ too. To compare only your edits, add the "
            "reply to `replies:` of the case"
        )
    pairs = len(comparison.paths) * comparison.count
    if comparison.judge and pairs < MIN_DECIDED_PAIRS:
        number = count_noun(pairs, "pair")
        yield f"note: {number} cannot show a significant difference: compare {MIN_DECIDED_PAIRS} pairs or more"


def format_sample(sample: Sample) -> str:
    """Return the line for a finished sample."""
    status = "" if sample.status == "completed" else f": {sample.status}: {indent_continuation(sample.reason)}"
    known = ", recorded" if sample.spent.calls and not sample.asked else ""
    spent = f"{count_noun(sample.spent.calls, 'call')}, {format_price(sample.spent.price)}{known}"
    return f"{sample.case} {sample.number}, {sample.side} ({spent}){status}"


def format_judged_pair(pair: JudgedPair) -> str:
    """Return the line for a judged pair. It has no scores, which could bias the reader."""
    failed = next((look.failure for look in pair.judgements if look.failure), "")
    status = f"was not judged: {indent_continuation(failed)}" if failed else "judged in both orders"
    return f"{pair.before.case} {pair.before.number}: {status}"


def table_lines(comparison: Comparison) -> Iterator[str]:
    """Yield the lines of the result table and of the conclusions."""
    rows = _rows(comparison)
    columns = [at for at in range(len(HEADER)) if at < 3 or at > 5 or any(row[at] for row in rows)]
    header = [HEADER[at] for at in columns]
    right = [header.index(name) for name in HEADER[6:]]
    yield ""
    yield from format_table(header, [[row[at] for at in columns] for row in rows], right=right)
    yield ""
    yield from verdict_lines(comparison)


def verdict_lines(comparison: Comparison) -> Iterator[str]:
    """Yield the conclusions: how often each version won, and whether the difference is significant."""
    failed = [sample for sample in comparison.samples if not sample.has_result]
    if failed:
        yield f"{count_noun(len(failed), 'sample')} had no result: run the same command to retry the failed calls"
    if not comparison.judge:
        yield "not judged: `--judge judge-pair` scores each pair. The report contains the results of both versions"
        return
    verdict = comparison.verdict()
    before, after = comparison.sides
    yield (
        f"better: {before} {verdict.before}, {after} {verdict.after}, undecided {verdict.undecided} "
        f"(a pair is decided if the judge prefers the same version in both orders)"
    )
    whole = [(old, new) for old, new in comparison.pairs if old.has_result and new.has_result]
    same = sum(old.result == new.result for old, new in whole)
    repeated = len(whole) - same - len(pairs_to_judge(comparison.pairs))
    if same:
        yield f"{count_noun(same, 'pair')} had identical results and {'was' if same == 1 else 'were'} not judged"
    if repeated:
        yield f"{count_noun(repeated, 'pair')} had the same results as an earlier pair of the case and were not judged"
    swayed = sum(pair.is_position_biased for pair in comparison.judged)
    if swayed:
        yield f"in {count_noun(swayed, 'pair')} the order biased the judge: it chose the same position in both orders"
    if verdict.is_significant:
        better = after if verdict.after > verdict.before else before
        chance = f"the probability of this result by chance is {verdict.p_value:.1%}"
        yield f"{better} is better in these cases, according to this judge: {chance}"
    elif verdict.decided < MIN_DECIDED_PAIRS:
        number = count_noun(verdict.decided, "decided pair")
        limit = f"at least {MIN_DECIDED_PAIRS} are needed"
        yield f"too few pairs: {number}, {limit}; use more `--samples`, or more cases"
    else:
        yield f"no significant difference: the probability of this result by chance is {verdict.p_value:.0%}"


def pairs_to_judge(pairs: Iterable[tuple[Sample, Sample]], *, is_estimate: bool = False) -> list[tuple[Sample, Sample]]:
    """Return the pairs to judge.

    A pair is judged if both samples have results, the two results differ, and no earlier pair has the same two results.
    In an estimate, results of unrecorded calls are simulated, and each counts as different.
    """
    first: dict[tuple[str, str, str], tuple[Sample, Sample]] = {}
    for before, after in pairs:
        unknown = is_estimate and bool(before.asked or after.asked)
        if before.has_result and after.has_result and (unknown or before.result != after.result):
            number = str(before.number) if unknown else ""
            first.setdefault((before.case, before.result + number, after.result), (before, after))
    return list(first.values())


def _rows(comparison: Comparison) -> list[list[str]]:
    """Return the rows of the result table, with the columns of `HEADER`."""
    rows = []
    for figures in comparison.summary():
        samples = comparison.samples_of(figures["version"], figures["case"] or "")
        whole = sum(sample.has_result for sample in samples)
        met, total = (sum(sample.expected[at] for sample in samples) for at in (0, 1))
        score = ""
        if figures["score"] is not None:
            mean, deviation = figures["score"]["mean"], figures["score"]["deviation"]
            score = f"{mean:.1f}" if deviation is None else f"{mean:.1f} ± {deviation:.1f}"
        row = [
            figures["case"] or "all",
            figures["version"],
            str(whole) if whole == len(samples) else f"{whole} of {len(samples)}",
            f"{met} of {total}" if total else "",
            score,
            str(figures["better"]) if comparison.judge else "",
            f"{figures['input']:,}",
            f"{figures['output']:,}",
            format_price(figures["price"]),
        ]
        rows.append(row)
    return rows


def render_markdown(comparison: Comparison) -> str:
    """Return the report as markdown: the table, the conclusions, and the results and judgements of each pair."""
    parts = [
        f"# {comparison.workflow}: {comparison.sides[0]} compared with the {comparison.sides[1]}",
        "\n".join(f"| {' | '.join(line)} |" for line in (HEADER, ["---"] * len(HEADER), *_rows(comparison))),
        "\n".join(f"- {line}" for line in verdict_lines(comparison)),
    ]
    judged = {(pair.before.case, pair.before.number): pair for pair in comparison.judged}
    before, after = comparison.sides
    for samples in comparison.pairs:
        case, number = samples[0].case, samples[0].number
        parts.append(f"## {case}, sample {number}")
        for sample in samples:
            status = f" ({sample.status}: {sample.reason})" if not sample.has_result else ""
            longest = max((len(match[1]) for match in _FENCE.finditer(sample.result)), default=2)
            fence = "`" * max(3, longest + 1)
            parts += [f"### {sample.side}{status}", f"{fence}\n{sample.result}\n{fence}"]
        lines = []
        for count, look in enumerate(judged[case, number].judgements if (case, number) in judged else (), 1):
            first = before if look.first == "before" else after
            summary = look.failure or f"{before} {look.before:g}, {after} {look.after:g}. {look.reason}"
            lines.append(f"- judgement {count}, {first} shown first: {' '.join(summary.split())}")
        if lines:
            parts.append("\n".join(lines))
    return "\n\n".join(parts) + "\n"
