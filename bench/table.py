"""Renders the table of the benchmark: a block per figure, skillrun against each subject, and the targets."""

from collections.abc import Iterator

from bench.works import OURS, Figure, Results


def lines(results: Results) -> Iterator[str]:
    """The results of one work, line by line."""
    yield results.work.title
    for figure in results.work.figures:
        yield from _block(results, figure)
    for subject, error in results.failures.items():
        yield f"  {subject} failed:"
        yield from (f"    {line}" for line in error.splitlines())
    yield ""


def _block(results: Results, figure: Figure) -> Iterator[str]:
    medians = results.medians(figure)
    if not medians:
        return
    yield f"  {figure.name}{f' ({figure.unit})' if figure.unit else ''}"
    ours = medians.get(OURS)
    for subject, median in medians.items():
        values = results.values[figure.name][subject]
        spread = f"{_number(min(values))} – {_number(max(values))}" if len(values) > 1 else ""
        ratio = f"skillrun is {ours / median:.2f} ×" if ours is not None and median and subject != OURS else ""
        yield f"    {subject:<32}{_number(median):>10}   {spread:<20}{ratio}".rstrip()
    for target in figure.targets:
        reached = target.reached(medians)
        if reached is None:
            yield f"    · {target.shown()}: not measured"
        else:
            value, within = reached
            yield f"    {'✓' if within else '✗'} {target.shown()}: {_number(value)}"


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 or value == int(value) else f"{value:.3g}"
