"""The positions of bars, marks and points in the charts of the report."""

from __future__ import annotations

from dataclasses import replace

import pytest

from skillrun.extensions.report.plots import (
    build_convergence_cards,
    build_output_trends,
    build_timeline_chart,
    token_bar,
)
from skillrun.store.run_history import CallSpan

SPAN = CallSpan("w/one/a/1.1", "one", 1, "a", "m", 0.0, 1, 10.0)

pytestmark = pytest.mark.row("A6")


def test_simultaneous_calls_use_several_lanes_and_consecutive_calls_one() -> None:
    spans = [SPAN, replace(SPAN, member="b", start=2.0, end=6.0), replace(SPAN, start=11.0, end=20.0)]
    chart = build_timeline_chart(spans, 20.0)
    assert chart is not None
    (row,) = chart.rows
    assert [(round(bar.start), round(bar.width), bar.lane) for bar in row.bars] == [
        (0, 50, 0),
        (10, 20, 1),
        (55, 45, 0),
    ]
    assert (row.lanes, row.seconds, chart.pauses) == (2, 20.0, [])


@pytest.mark.slow  # as many calls as the events that are read
@pytest.mark.finding("FC5")
def test_as_many_calls_as_a_transcript_can_have_are_drawn() -> None:
    """A search of each call among the others, or among the pauses, would take longer than the time-out of a test."""
    parallel = [CallSpan("w/a", "a", 1, "m", "m", 1.0, 1) for _ in range(50_000)]
    apart = [CallSpan("w/b", "b", 1, "m", "m", 1e4 * number, 1, 1e4 * number + 1) for number in range(1, 50_000)]
    chart = build_timeline_chart([*parallel, *apart], 2.0)
    assert chart is not None
    lanes = [[bar.lane for bar in row.bars] for row in chart.rows]
    assert lanes[0] == list(range(50_000))
    assert (len(chart.pauses), len(lanes[1])) == (49_999, 49_999)


def test_a_pause_of_days_takes_little_room() -> None:
    days = 3 * 86_400.0
    chart = build_timeline_chart([SPAN, replace(SPAN, phase="two", start=days, end=days + 30)], days + 30)
    assert chart is not None
    assert chart.seconds == 40.0
    ((position, seconds),) = chart.pauses
    assert seconds == days - 10
    first, second = (row.bars[0] for row in chart.rows)
    assert first.start + first.width < position < second.start
    assert second.start + second.width == pytest.approx(100)


def test_a_hundred_pauses_still_leave_room_for_calls() -> None:
    spans = [replace(SPAN, start=1_000.0 * number, end=1_000.0 * number + 1) for number in range(100)]
    chart = build_timeline_chart(spans, 99_001.0)
    assert chart is not None
    (row,) = chart.rows
    assert all(bar.start >= 0 and bar.start + bar.width <= 100.001 for bar in row.bars)
    assert [bar.start for bar in row.bars] == sorted(bar.start for bar in row.bars)


def test_a_running_call_lasts_until_now() -> None:
    chart = build_timeline_chart([SPAN, replace(SPAN, start=10.0, end=None)], 40.0)
    assert chart is not None
    assert round(chart.rows[0].bars[1].width) == 75


def test_the_token_bar_distinguishes_fresh_cached_and_output_tokens() -> None:
    usage = {"input": 100, "cache_read": 60, "cache_write": 10, "output": 20}
    assert [(piece.kind, round(piece.start), round(piece.width)) for piece in token_bar(usage, 240)] == [
        ("fresh", 0, 12),
        ("written", 12, 4),
        ("cached", 17, 25),
        ("out", 42, 8),
    ]


def test_only_convergence_results_get_a_convergence_card() -> None:
    measured = {"score": 0.5, "ratio": 0.25, "stability": 0.5, "level": "medium", "agree": 1, "disagree": 3}
    (card,) = build_convergence_cards({"agreed": measured, "other": {"score": 1}, "text": "x"})
    (scale,) = card.scales
    assert (card.title, scale.note) == ("agreed", "medium")
    assert [(mark.who, mark.place, mark.level) for mark in scale.marks] == [
        ("score", 50, 0),
        ("ratio", 25, 0),
        ("stability", 50, 1),
    ]


def test_a_number_that_changes_between_rounds_has_a_trend() -> None:
    phases = [
        {"phase": "judge", "round": number, "outputs": {"score": value, "same": 1, "sure": True}}
        for number, value in ((1, 10.0), (2, 14.0), (3, 12.0))
    ]
    (trend,) = build_output_trends(phases)
    assert trend.title == "judge › score"
    assert [(number, value, top) for number, value, _, top in trend.points] == [
        (1, 10.0, 85.0),
        (2, 14.0, 15.0),
        (3, 12.0, 50.0),
    ]
