"""Computes the layout of a report's charts: timeline, token bars, scales and trends.

Positions and widths are in per cent of the chart's width.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import accumulate, pairwise
from typing import Any, Final, NamedTuple

from skillrun.extensions.report.call_views import CallView, StepView
from skillrun.store.run_history import CallSpan

MIN_BAR_WIDTH: Final = 0.6  # per cent
PAUSE_WIDTH: Final = 2.0  # per cent
MAX_PAUSES_WIDTH: Final = 80.0  # per cent, for all pauses together
MIN_PAUSE_SECONDS: Final = 30.0  # shorter gaps between calls are drawn to scale
MIN_PAUSE_SHARE: Final = 0.1  # share of the busy time; gaps with a smaller share are drawn to scale
CONVERGENCE_FIELDS: Final = ("score", "ratio", "stability", "level")
"""The fields by which a result of the `convergence` filter is recognized."""


class Bar(NamedTuple):
    """A call on a timeline. Concurrent calls are in different lanes, counted from the top."""

    span: CallSpan
    start: float
    width: float
    lane: int


@dataclass(frozen=True)
class TimelineRow:
    """The row of a timeline that shows the calls of a phase in one round."""

    phase: str
    round: int
    bars: Sequence[Bar]

    @property
    def lanes(self) -> int:
        return max(bar.lane for bar in self.bars) + 1

    @property
    def seconds(self) -> float:
        """The time between the start of the first call and the end of the last call."""
        ends = [bar.span.end or bar.span.start for bar in self.bars]
        return max(ends) - min(bar.span.start for bar in self.bars)


@dataclass(frozen=True)
class TimelineChart:
    """A timeline of all calls. `pauses` contains (position, seconds) of each long gap between calls."""

    rows: Sequence[TimelineRow]
    pauses: Sequence[tuple[float, float]]
    seconds: float
    """The time that the chart covers, not counting the pauses."""

    @property
    def members(self) -> list[str]:
        """The members that were called, in the order of their first calls."""
        bars = sorted((bar for row in self.rows for bar in row.bars), key=lambda bar: bar.span.start)
        return list(dict.fromkeys(bar.span.member for bar in bars))

    @property
    def has_failed(self) -> bool:
        return any(bar.span.error for row in self.rows for bar in row.bars)


def build_timeline_chart(spans: Sequence[CallSpan], now: float) -> TimelineChart | None:
    """Return the timeline, with a row for each phase and round; None if there are no calls.

    Long pauses are shortened.
    """
    if not spans:
        return None
    calls = ((span.start, max(span.end if span.end is not None else now, span.start)) for span in spans)
    busy_periods = _merge_periods(calls, 0.0)
    busy_seconds = sum(end - start for start, end in busy_periods)
    periods = _merge_periods(busy_periods, max(MIN_PAUSE_SECONDS, MIN_PAUSE_SHARE * busy_seconds))
    total = sum(end - start for start, end in periods) or 1e-3
    gap = min(PAUSE_WIDTH, MAX_PAUSES_WIDTH / max(1, len(periods) - 1))
    scale = (100 - gap * (len(periods) - 1)) / total

    ends = [end for _, end in periods]
    offsets = [0.0, *accumulate((end - start) * scale + gap for start, end in periods)]

    def to_percent(moment: float) -> float:
        number = bisect_left(ends, moment)
        if number == len(periods):
            return offsets[-1] - gap
        return offsets[number] + max(0.0, moment - periods[number][0]) * scale

    pauses = [(to_percent(end) + gap / 2, after[0] - end) for (_, end), after in pairwise(periods)]
    return TimelineChart(_rows(spans, now, to_percent), pauses, total)


def _merge_periods(periods: Iterable[tuple[float, float]], least: float) -> list[tuple[float, float]]:
    """Return the periods, ordered by start, after merging those with less than `least` seconds between them."""
    merged: list[tuple[float, float]] = []
    for start, end in periods:
        if merged and start - merged[-1][1] < least:
            merged[-1] = (merged[-1][0], max(merged[-1][1], end))
        else:
            merged.append((start, end))
    return merged


def _rows(spans: Iterable[CallSpan], now: float, to_percent: Callable[[float], float]) -> list[TimelineRow]:
    """Return the rows with their bars. Each bar is in the first lane that is free at its start."""
    rows: dict[tuple[str, int], list[Bar]] = {}
    busy: defaultdict[tuple[str, int], list[tuple[float, int]]] = defaultdict(list)  # heaps of (end, lane)
    free: defaultdict[tuple[str, int], list[int]] = defaultdict(list)  # heaps of lanes
    for span in spans:
        key = (span.phase, span.round)
        start = min(to_percent(span.start), 100 - MIN_BAR_WIDTH)
        width = max(MIN_BAR_WIDTH, to_percent(span.end if span.end is not None else now) - start)
        while busy[key] and busy[key][0][0] <= start + 1e-9:
            heappush(free[key], heappop(busy[key])[1])
        lane = heappop(free[key]) if free[key] else len(busy[key])
        heappush(busy[key], (start + width, lane))
        rows.setdefault(key, []).append(Bar(span, start, min(width, 100 - start), lane))
    return [TimelineRow(phase, number, bars) for (phase, number), bars in rows.items()]


class Segment(NamedTuple):
    """A segment of a token bar."""

    kind: str
    start: float
    width: float


def token_bar(usage: Mapping[str, Any], most: int) -> list[Segment]:
    """Return the segments of a phase's token bar.

    They show uncached input, input written to the cache, input read from the cache, and output. The full width stands
    for `most` tokens.
    """
    cached, written = usage.get("cache_read", 0), usage.get("cache_write", 0)
    pieces = {
        "fresh": max(0, usage.get("input", 0) - cached - written),
        "written": written,
        "cached": cached,
        "out": usage.get("output", 0),
    }
    at, segments = 0.0, []
    for kind, tokens in pieces.items():
        width = 100 * tokens / most if most else 0
        if width:
            segments.append(Segment(kind, at, width))
        at += width
    return segments


class Mark(NamedTuple):
    """A value on a scale. `place` is its position in per cent. Marks with the same value have different levels."""

    who: str
    value: float
    place: float
    level: int
    colour: int
    anchor: str


@dataclass(frozen=True)
class Scale:
    """The values of one field on a scale from `low` to `high`. A single value has no `mean`."""

    field: str
    low: float
    high: float
    marks: Sequence[Mark]
    note: str = ""

    @property
    def mean(self) -> float | None:
        values = [mark.value for mark in self.marks]
        return sum(values) / len(values) if len(values) > 1 and not self.note else None

    @property
    def mean_place(self) -> float:
        return _position_on_scale(self.mean or 0, self.low, self.high)

    @property
    def levels(self) -> int:
        return max((mark.level for mark in self.marks), default=0) + 1


@dataclass(frozen=True)
class ScaleCard:
    """The numbers that members returned in one turn of a step."""

    title: str
    scales: Sequence[Scale]

    @property
    def alone(self) -> Mark | None:
        """The first mark if all marks come from one call; None if they come from several."""
        marks = [mark for scale in self.scales for mark in scale.marks]
        return marks[0] if len({mark.anchor for mark in marks}) == 1 and marks[0].anchor else None


def build_scale_cards(steps: Iterable[StepView]) -> list[ScaleCard]:
    """Return one card for each turn of a step, showing the bounded numbers that its members returned."""
    cards = []
    for step in steps:
        for turn, calls in step.turns:
            scales = []
            bounds: dict[str, tuple[float, float]] = {}
            for call in calls:
                bounds |= _iter_bounds(call.conversation.first.request.schema)
            for field, (low, high) in bounds.items():
                values = [(call, _number(call, field)) for call in calls]
                entries = [
                    (call.member, value, call.colour, call.anchor) for call, value in values if value is not None
                ]
                if entries:
                    scales.append(Scale(field.rpartition(".")[2], low, high, _place_marks(entries, low, high)))
            if scales:
                cards.append(ScaleCard(" › ".join(filter(None, (step.name, turn))), scales))
    return cards


def _iter_bounds(schema: Any, path: str = "") -> Iterator[tuple[str, tuple[float, float]]]:
    properties = schema.get("properties") if isinstance(schema, dict) else None
    for name, field in properties.items() if isinstance(properties, dict) else ():
        if not isinstance(field, dict):
            continue
        low, high = field.get("minimum"), field.get("maximum")
        if low is not None and high is not None and _is_number(low) and _is_number(high) and low < high:
            yield f"{path}{name}", (low, high)
        elif not path:
            yield from _iter_bounds(field, f"{name}.")


def _number(call: CallView, field: str) -> float | None:
    value = call.turns[-1].value
    for name in field.split("."):
        value = value.get(name) if isinstance(value, dict) else None
    return value if _is_number(value) else None


def _place_marks(entries: Iterable[tuple[str, float, int, str]], low: float, high: float) -> list[Mark]:
    levels: dict[float, int] = {}
    marks = []
    for who, value, colour, anchor in entries:
        level = levels[value] = levels.get(value, -1) + 1
        marks.append(Mark(who, value, _position_on_scale(value, low, high), level, colour, anchor))
    return marks


def build_convergence_cards(outputs: Mapping[str, Any]) -> list[ScaleCard]:
    """Return a card for each phase output that the `convergence` filter produced."""
    cards = []
    for name, value in outputs.items():
        if isinstance(value, dict) and all(key in value for key in CONVERGENCE_FIELDS):
            measures = [(key, value[key]) for key in CONVERGENCE_FIELDS[:3] if _is_number(value[key])]
            marks = _place_marks([(key, number, at, "") for at, (key, number) in enumerate(measures)], 0, 1)
            cards.append(ScaleCard(name, [Scale("agreement of replies", 0, 1, marks, str(value["level"]))]))
    return cards


@dataclass(frozen=True)
class OutputTrend:
    """The values of one numeric output of a phase, round by round."""

    title: str
    points: Sequence[tuple[int, float, float, float]]
    """Points as (round, value, position from the left, position from the top)."""


def build_output_trends(phases: Iterable[Mapping[str, Any]]) -> list[OutputTrend]:
    """Return a trend for each numeric phase output whose value changed between rounds."""
    values: dict[tuple[str, str], list[tuple[int, float]]] = {}
    for phase in phases:
        for name, value in phase["outputs"].items():
            if _is_number(value):
                values.setdefault((phase["phase"], name), []).append((phase["round"], value))
    trends = []
    for (phase_name, name), points in values.items():
        if len({number for number, _ in points}) < 2 or len({value for _, value in points}) < 2:
            continue
        low, high = min(value for _, value in points), max(value for _, value in points)
        coordinates = [
            (number, value, 8 + 84 * at / (len(points) - 1), 85 - 70 * (value - low) / (high - low))
            for at, (number, value) in enumerate(points)
        ]
        trends.append(OutputTrend(f"{phase_name} › {name}", coordinates))
    return trends


def _position_on_scale(value: float, low: float, high: float) -> float:
    return 100 * min(1.0, max(0.0, (value - low) / (high - low)))


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value == value  # noqa: PLR0124 (no NaN)
