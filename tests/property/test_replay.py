"""Replay is exact: whatever a workflow does, and wherever it is killed, going on is as if nothing had happened.

Workflows are generated with loops, ways back, parallel phases, panels, questions, inline workflows, breakers and
failing models. What a killed process and the next ones ask, write and set together is what an undisturbed one does.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.property.runs import NAME, Bench, Call, Keep, Moment, Story, answered, folder
from tests.property.workflows import Workflows, workflows

SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example, HealthCheck.filter_too_much]


@contextmanager
def bench(case: Workflows) -> Iterator[tuple[Bench, Path]]:
    with folder() as here:
        yield Bench(here / "project", case), here


def kept(story: Story) -> list[Moment]:
    return [moment for moment in story.moments if moment.runs is not None]


def assert_goes_on(made: Bench, whole: Story, before: list[Call], moment: Moment, keep: Keep | None = None) -> Story:
    """Go on from a moment: the calls of all processes are those of the undisturbed run, and one more for each call
    that was under way; the artifacts, summaries and the state are the same. `before` are the calls until then."""
    assert moment.runs is not None
    lost = Counter(before) - answered(moment.runs)
    story = made.go_on(moment, keep)
    assert Counter(before) + Counter(story.calls) == Counter(whole.calls) + lost, moment.name
    assert story.files == whole.files, moment.name
    assert story.state == whole.state, moment.name
    return story


@pytest.mark.row("X4")
@settings(max_examples=5, suppress_health_check=SLOW, derandomize=True)
@given(workflows(), st.integers(0, 1000))
def test_a_killed_run_goes_on_exactly(case: Workflows, offset: int) -> None:
    with bench(case) as (made, here):
        whole = made.begin(here / "runs", Keep(here / "kept"))
        moments = kept(whole)
        apart = max(1, len(moments) // 5)
        for moment in moments[offset % apart :: apart]:
            assert_goes_on(made, whole, whole.calls[: moment.sent], moment)


@pytest.mark.row("X4")
@settings(max_examples=2, suppress_health_check=SLOW, derandomize=True)
@given(workflows(most=2))
def test_a_run_that_is_killed_at_any_moment_goes_on_exactly(case: Workflows) -> None:
    with bench(case) as (made, here):
        whole = made.begin(here / "runs", Keep(here / "kept"))
        for moment in kept(whole)[:40]:
            assert_goes_on(made, whole, whole.calls[: moment.sent], moment)


@pytest.mark.row("X4")
@settings(max_examples=3, suppress_health_check=SLOW, derandomize=True)
@given(workflows(), st.data())
def test_a_run_that_is_killed_twice_goes_on_exactly(case: Workflows, data: st.DataObject) -> None:
    with bench(case) as (made, here):
        whole = made.begin(here / "runs", Keep(here / "kept"))
        for number in range(1):
            first = data.draw(st.sampled_from(kept(whole)))
            assert first.runs is not None
            copy = here / f"copy-{number}"
            shutil.copytree(first.runs, copy)
            moment = Moment(first.name, first.sent, first.begun, first.away, copy)
            before = whole.calls[: first.sent]
            second = assert_goes_on(made, whole, before, moment, Keep(here / f"kept-{number}"))
            for later in kept(second)[number :: max(1, len(kept(second)) // 3)]:
                assert_goes_on(made, whole, before + second.calls[: later.sent], later)


@pytest.mark.row("X4")
@settings(max_examples=5, suppress_health_check=SLOW, derandomize=True)
@given(workflows())
def test_evaluating_a_completed_run_again_asks_nothing_and_changes_nothing(case: Workflows) -> None:
    with bench(case) as (made, here):
        whole = made.begin(here / "runs")
        if not whole.completed:
            return
        files, state = whole.files, whole.state
        story = made.again(here / "runs")
        assert story.calls == []
        assert [outcome.status for outcome in story.outcomes] == ["completed"]
        assert story.files == files
        assert story.state == state
        assert (here / "runs" / NAME / "state.md").exists()
