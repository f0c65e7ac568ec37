"""How a comparison of two versions is told: its price, a line for each sample, the table, a file to read, plain data.

Prints and asks nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from skillrun.cli.formatting import counted, money, table
from skillrun.extensions.testing.comparison_stats import LEAST, Verdict, spread_of
from skillrun.extensions.testing.judging import JudgedPair
from skillrun.extensions.testing.sampling import Paths, Sample
from skillrun.runtime.usage_totals import Spent
from skillrun.syntax.diagnostics import hanging

MOST_NAMED: Final = 8
HEADER: Final = ("case", "version", "samples", "expected", "score", "better", "tokens in", "tokens out", "price")
_FENCE: Final = re.compile(r"^(`{3,})", re.MULTILINE)


@dataclass(frozen=True)
class Expense:
    """What a comparison will use, about, without what is on record. `judging`: how many calls are the judge's."""

    spent: Spent
    judging: int
    known: int
    models: Sequence[str]
    places: Mapping[str, str]
    unreplied: Mapping[str, str]
    """By case the first of several compared calls that its replies say nothing of, so that what follows differs too."""

    @property
    def calls(self) -> int:
        return self.spent.calls

    def data(self) -> dict[str, Any]:
        return {"expected": {**self.spent.to_dict(), "judging": self.judging, "on_record": self.known}}


@dataclass(frozen=True)
class Comparison:
    """Two versions, their samples, and what the judge says of them."""

    workflow: str
    sides: tuple[str, str]
    judge: str
    count: int
    paths: Mapping[str, Paths]
    samples: Sequence[Sample]
    judged: Sequence[JudgedPair]

    @property
    def shown(self) -> tuple[str, ...]:
        """The cases of the table, and behind several of them all together."""
        return (*self.paths, "") if len(self.paths) > 1 else tuple(self.paths)

    def of(self, side: str, case: str = "") -> list[Sample]:
        return [sample for sample in self.samples if sample.side == side and case in ("", sample.case)]

    def verdict(self, case: str = "") -> Verdict:
        """Who was better how often; two samples with the same result are a pair that is undecided."""
        pairs = [pair for pair in self.judged if case in ("", pair.before.case) and pair.is_judged]
        before, after = (sum(pair.winner == name for pair in pairs) for name in ("before", "after"))
        return Verdict(before, after, len(pairs) - before - after)

    def data(self) -> dict[str, Any]:
        verdict = self.verdict()
        return {
            "workflow": self.workflow,
            "before": self.sides[0],
            "after": self.sides[1],
            "judge": self.judge,
            "samples_each": self.count,
            "compared": {case: list(paths) for case, paths in self.paths.items()},
            "summary": [self._figures(case, side) for case in self.shown for side in self.sides],
            "verdict": {**asdict(verdict), "chance": round(verdict.chance, 4), "tells": verdict.tells},
            "samples": [{**asdict(sample), "spent": sample.spent.to_dict()} for sample in self.samples],
            "judged": [
                {
                    "case": pair.before.case,
                    "number": pair.before.number,
                    "winner": pair.winner,
                    "swayed_by_order": pair.is_swayed,
                    "looks": [asdict(look) for look in pair.looks],
                    "spent": pair.spent.to_dict(),
                }
                for pair in self.judged
            ],
        }

    def _figures(self, case: str, side: str) -> dict[str, Any]:
        spread, verdict = spread_of(self.scores(side, case)), self.verdict(case)
        return {
            "case": case or None,
            "version": side,
            "score": asdict(spread) if spread is not None else None,
            "better": verdict.before if side == self.sides[0] else verdict.after,
            **self.spent(side, case).to_dict(),
        }

    def scores(self, side: str, case: str = "") -> list[float]:
        at = self.sides.index(side)
        return [pair.scores[at] for pair in self.judged if case in ("", pair.before.case) and pair.is_judged]

    def spent(self, side: str, case: str = "") -> Spent:
        return sum((sample.spent for sample in self.of(side, case)), Spent())


def price_lines(comparison: Comparison, expense: Expense) -> Iterator[str]:
    """What is compared, and what that costs: before anything is asked."""
    cases = counted(len(comparison.paths), "case")
    yield (
        f"{comparison.workflow}: {comparison.sides[0]} beside the {comparison.sides[1]}, {cases}, "
        f"{counted(comparison.count, 'sample')} of each"
    )
    paths = list(dict.fromkeys(path.partition("/")[2] for several in comparison.paths.values() for path in several))
    named = ", ".join(paths[:MOST_NAMED])
    more = f" and {len(paths) - MOST_NAMED} more" if len(paths) > MOST_NAMED else ""
    yield f"compared: {named}{more}" if paths else "compared: whole runs"
    usage = expense.spent.usage
    judging = f", {expense.judging} of them the judge's" if expense.judging else ""
    known = f"; {expense.known:,} more are on record" if expense.known else ""
    tokens = f"about {usage.input:,} tokens in, {usage.output:,} out"
    yield f"asks {counted(expense.calls, 'call')}{judging}{known}: {tokens}, {money(expense.spent.price)}"
    if expense.models:
        yield f"models: {', '.join(expense.models)}"
    yield from (f"{name}: {place}" for name, place in expense.places.items())
    made_up = sorted({sample.case for sample in comparison.samples if sample.made_up})
    if made_up:
        yield (
            f"note: in {', '.join(made_up)} replies that are not compared are generated, and mean nothing: "
            "a case that is recorded has those of its run, and `--whole` asks for all"
        )
    for case, path in expense.unreplied.items():
        yield (
            f"note: {case} has no reply for {path.partition('/')[2]}, the first call that differs: one was generated "
            "for each version, and later calls differ, too, where they read it; with a reply in `replies:` of the case "
            "only what was edited is compared"
        )
    pairs = len(comparison.paths) * comparison.count
    if comparison.judge and pairs < LEAST:
        number = counted(pairs, "pair")
        yield f"note: {number} cannot tell which is better, whatever comes of them: take {LEAST} or more"


def line_of_sample(sample: Sample) -> str:
    """One sample that is there."""
    stands = "" if sample.status == "completed" else f": {sample.status}: {hanging(sample.reason)}"
    known = ", on record" if sample.spent.calls and not sample.asked else ""
    spent = f"{counted(sample.spent.calls, 'call')}, {money(sample.spent.price)}{known}"
    return f"{sample.case} {sample.number}, {sample.side} ({spent}){stands}"


def line_of_pair(pair: JudgedPair) -> str:
    """One pair that is judged; not which is which, so that who looks on is not swayed either."""
    failed = next((look.failure for look in pair.looks if look.failure), "")
    stands = f"was not judged: {hanging(failed)}" if failed else "judged in both orders"
    return f"{pair.before.case} {pair.before.number}: {stands}"


def table_lines(comparison: Comparison) -> Iterator[str]:
    """The table, and what it tells."""
    rows = [_row(comparison, case, side) for case in comparison.shown for side in comparison.sides]
    kept = [at for at in range(len(HEADER)) if at < 3 or at > 5 or any(row[at] for row in rows)]
    header = [HEADER[at] for at in kept]
    right = [header.index(name) for name in HEADER[6:]]
    yield ""
    yield from table(header, [[row[at] for at in kept] for row in rows], right=right)
    yield ""
    yield from verdict_lines(comparison)


def verdict_lines(comparison: Comparison) -> Iterator[str]:
    """Which version is better, how often, and whether that is more than chance."""
    failed = [sample for sample in comparison.samples if not sample.is_whole]
    if failed:
        yield f"{counted(len(failed), 'sample')} did not come to a result: the same command asks what failed again"
    if not comparison.judge:
        yield "nobody has judged them: `--judge judge-pair` has each pair scored; the results are in the file"
        return
    verdict = comparison.verdict()
    before, after = comparison.sides
    yield (
        f"better: {before} {verdict.before}, {after} {verdict.after}, undecided {verdict.undecided} "
        f"(a pair is decided where the judge, who saw it in both orders, said the same twice)"
    )
    same, again = _left_out(comparison)
    if same:
        yield f"{counted(same, 'pair')} had the same result twice, and {'was' if same == 1 else 'were'} not judged"
    if again:
        yield f"{counted(again, 'pair')} came out as an earlier one of the case, which counts once"
    swayed = sum(pair.is_swayed for pair in comparison.judged)
    if swayed:
        yield f"in {counted(swayed, 'pair')} the judge was for the same place both times: the order swayed it"
    if verdict.tells:
        better = after if verdict.after > verdict.before else before
        yield f"{better} is better in these cases, by this judge: chance gives as much in {verdict.chance:.1%} of times"
    elif verdict.decided < LEAST:
        number = counted(verdict.decided, "decided pair")
        yield f"too few to tell: {number}, and fewer than {LEAST} can be chance; take more `--samples`, or more cases"
    else:
        yield f"no difference that is more than chance, which gives as much in {verdict.chance:.0%} of times"


def _left_out(comparison: Comparison) -> tuple[int, int]:
    """How many pairs have one result in both versions, and how many are the same as an earlier pair."""
    after = {(sample.case, sample.number): sample for sample in comparison.of(comparison.sides[1])}
    pairs = [(sample, after[sample.case, sample.number]) for sample in comparison.of(comparison.sides[0])]
    whole = [pair for pair in pairs if pair[0].is_whole and pair[1].is_whole]
    same = sum(before.result == other.result for before, other in whole)
    return same, len(whole) - same - len(judged_pairs(pairs))


def judged_pairs(pairs: Iterable[tuple[Sample, Sample]], *, is_walked: bool = False) -> list[tuple[Sample, Sample]]:
    """The pairs that are worth a judge: both have a result, these differ, and no earlier pair has the same two.

    Where it is walked through, results that are not on record are nobody's, and each is taken for another.
    """
    first: dict[tuple[str, str, str], tuple[Sample, Sample]] = {}
    for before, after in pairs:
        unknown = is_walked and bool(before.asked or after.asked)
        if before.is_whole and after.is_whole and (unknown or before.result != after.result):
            number = str(before.number) if unknown else ""
            first.setdefault((before.case, before.result + number, after.result), (before, after))
    return list(first.values())


def _row(comparison: Comparison, case: str, side: str) -> list[str]:
    samples, spent = comparison.of(side, case), comparison.spent(side, case)
    verdict = comparison.verdict(case)
    held, wanted = (sum(sample.expected[at] for sample in samples) for at in (0, 1))
    spread = spread_of(comparison.scores(side, case))
    score = ""
    if spread is not None:
        score = f"{spread.mean:.1f}" + (f" ± {spread.deviation:.1f}" if spread.deviation is not None else "")
    whole = sum(sample.is_whole for sample in samples)
    better = str(verdict.before if side == comparison.sides[0] else verdict.after) if comparison.judge else ""
    return [
        case or "all",
        side,
        str(whole) if whole == len(samples) else f"{whole} of {len(samples)}",
        f"{held} of {wanted}" if wanted else "",
        score,
        better,
        f"{spent.usage.input:,}",
        f"{spent.usage.output:,}",
        money(spent.price),
    ]


def markdown_of(comparison: Comparison) -> str:
    """All of it, to be read: the table, and each pair with both results and what the judge said."""
    rows = [_row(comparison, case, side) for case in comparison.shown for side in comparison.sides]
    parts = [
        f"# {comparison.workflow}: {comparison.sides[0]} beside the {comparison.sides[1]}",
        "\n".join(f"| {' | '.join(line)} |" for line in (HEADER, ["---"] * len(HEADER), *rows)),
        "\n".join(f"- {line}" for line in verdict_lines(comparison)),
    ]
    judged = {(pair.before.case, pair.before.number): pair for pair in comparison.judged}
    for case in comparison.paths:
        for number in range(1, comparison.count + 1):
            parts.append(f"## {case}, sample {number}")
            for side in comparison.sides:
                sample = next(each for each in comparison.of(side, case) if each.number == number)
                stands = f" ({sample.status}: {sample.reason})" if not sample.is_whole else ""
                parts += [f"### {side}{stands}", _fenced(sample.result)]
            if (pair := judged.get((case, number))) is not None:
                parts.append("\n".join(_look_lines(comparison, pair)))
    return "\n\n".join(parts) + "\n"


def _look_lines(comparison: Comparison, pair: JudgedPair) -> Iterator[str]:
    before, after = comparison.sides
    for number, look in enumerate(pair.looks, 1):
        first = before if look.first == "before" else after
        told = look.failure or f"{before} {look.before:g}, {after} {look.after:g}. {look.reason}"
        yield f"- look {number}, {first} stood first: {' '.join(told.split())}"


def _fenced(text: str) -> str:
    longest = max((len(match[1]) for match in _FENCE.finditer(text)), default=2)
    fence = "`" * max(3, longest + 1)
    return f"{fence}\n{text}\n{fence}"
