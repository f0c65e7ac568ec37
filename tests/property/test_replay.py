"""Replay is exact: whatever a workflow does, and wherever it is killed, going on is as if nothing had happened.

Workflows are generated with loops, ways back, parallel phases, panels, questions, inline workflows, breakers and
failing models. What a killed process and the next ones ask, write and set together is what an undisturbed one does.
`SKILLRUN_EXAMPLES=20` tries twenty times as many.
"""

from __future__ import annotations

import os
import re
import shutil
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime, tzinfo
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.property.runs import NAME, Bench, Call, Keep, Moment, Story, answered, folder
from tests.property.workflows import Workflows, workflows

MANY = "SKILLRUN_EXAMPLES" in os.environ
USAGE = re.compile(rb"^usage:\n(?:  .*\n)+", re.MULTILINE)
SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example, HealthCheck.filter_too_much]


def examples(share: int) -> settings:
    """So many of a hundred of the profile's examples."""
    return settings(max_examples=max(1, settings().max_examples * share // 100), suppress_health_check=SLOW)


class Still(datetime):
    """A clock that stands: what is asked has its time on record, and a prompt may show it."""

    @classmethod
    def now(cls, tz: tzinfo | None = None) -> Still:
        return cls(2026, 1, 1, tzinfo=tz)


@pytest.fixture(autouse=True, scope="module")
def _one_moment() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("skillrun.store.clock.datetime", Still)
        yield


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


@pytest.mark.slow
@pytest.mark.row("X4")
@examples(40)
@given(workflows(), st.integers(0, 1000))
def test_a_killed_run_goes_on_exactly(case: Workflows, offset: int) -> None:
    with bench(case) as (made, here):
        whole = made.begin(here / "runs", Keep(here / "kept"))
        moments = kept(whole)
        apart = max(1, len(moments) // 6)
        for moment in moments[offset % apart :: apart]:
            assert_goes_on(made, whole, whole.calls[: moment.sent], moment)


@pytest.mark.slow
@pytest.mark.row("X4")
@examples(15)
@given(workflows(most=2))
def test_a_run_that_is_killed_at_any_moment_goes_on_exactly(case: Workflows) -> None:
    with bench(case) as (made, here):
        whole = made.begin(here / "runs", Keep(here / "kept"))
        moments = kept(whole)[:150]
        for moment in moments if MANY else moments[:: max(1, len(moments) // 20)]:
            assert_goes_on(made, whole, whole.calls[: moment.sent], moment)


@pytest.mark.slow
@pytest.mark.row("X4")
@examples(15)
@given(workflows(), st.data())
def test_a_run_that_is_killed_twice_goes_on_exactly(case: Workflows, data: st.DataObject) -> None:
    with bench(case) as (made, here):
        whole = made.begin(here / "runs", Keep(here / "kept"))
        for number in range(2):
            first = data.draw(st.sampled_from(kept(whole)))
            assert first.runs is not None
            copy = here / f"copy-{number}"
            shutil.copytree(first.runs, copy)
            moment = Moment(first.name, first.sent, first.begun, first.away, copy)
            before = whole.calls[: first.sent]
            second = assert_goes_on(made, whole, before, moment, Keep(here / f"kept-{number}"))
            for later in kept(second)[number :: max(1, len(kept(second)) // 2)]:
                assert_goes_on(made, whole, before + second.calls[: later.sent], later)


@pytest.mark.slow
@pytest.mark.row("X4")
@examples(30)
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


@pytest.mark.slow
@examples(30)
@given(workflows(), st.data())
def test_after_an_edit_only_what_it_changed_is_asked(case: Workflows, data: st.DataObject) -> None:
    with bench(case) as (made, here):
        sections = [(name, key) for name, phase in case.phases.items() for key in phase.sections]
        if not sections:
            return
        old = made.begin(here / "runs")
        name, key = data.draw(st.sampled_from(sections))
        case.phases[name].sections[key] += "\nSay it with care."
        assert_again_is_like_new(old, Bench(here / "project", case), here)


@pytest.mark.slow
@examples(15)
@given(workflows())
def test_after_an_edit_of_a_wrapper_everything_is_asked(case: Workflows) -> None:
    with bench(case) as (made, here):
        old = made.begin(here / "runs")
        wrapper = here / "project" / "skills" / "system" / "task.md"
        wrapper.parent.mkdir()
        wrapper.write_text("---\nkind: template\n---\nNow do this:\n\n{{ task }}\n")
        again = assert_again_is_like_new(old, Bench(here / "project", case), here)
        if again is not None:
            assert not [address for address, _ in set(old.calls) & set(again.calls) if "/summary/" not in address]


def assert_again_is_like_new(old: Story, made: Bench, here: Path) -> Story | None:
    """Evaluated again after an edit, a run is what a new run of the edited files is, and asks of it only what the
    journal does not know. Not where a run has failed and was resumed: what it failed on has been asked once more."""
    known = answered(old.runs)
    fresh = made.begin(here / "fresh")
    if not (old.completed and fresh.completed) or "failed" in statuses(old) + statuses(fresh):
        return None
    again = made.again(old.runs)
    assert Counter(again.calls) == Counter({call: n for call, n in Counter(fresh.calls).items() if call not in known})
    assert without_usage(again.files) == without_usage(fresh.files)  # it may have been paid for in an earlier round
    pinned = {**again.state["models"], **fresh.state["models"]}  # what the run before has settled stays so
    assert again.state == {**fresh.state, "models": pinned}
    return again


def without_usage(files: Mapping[str, bytes]) -> dict[str, bytes]:
    """The files, with summaries that do not say what was paid for in their round."""
    return {name: USAGE.sub(b"", content) for name, content in files.items()}


def statuses(story: Story) -> list[str]:
    return [outcome.status for outcome in story.outcomes]


@pytest.mark.slow
@examples(25)
@given(workflows(gotos=False), st.data())
def test_an_edit_leaves_the_phases_alone_that_do_not_follow(case: Workflows, data: st.DataObject) -> None:
    with bench(case) as (made, here):
        edited = data.draw(st.sampled_from([name for name, phase in case.phases.items() if phase.sections] or ["p0"]))
        old = made.begin(here / "runs")
        files = old.files
        for key in case.phases[edited].sections:
            case.phases[edited].sections[key] += "\nSay it with care."
        after = Bench(here / "project", case)
        again = after.again(here / "runs")
        if not (old.completed and again.completed):
            return
        touched = after.program.workflow.followers(edited)
        assert {address.split("/")[1] for address, _ in again.calls} <= set(touched)
        for name in case.phases:
            if name not in touched:
                summary = f"summaries/{name}.md"  # a phase that ends the run has none
                assert again.files.get(summary) == files.get(summary)
        mine = {path for path in files if path.startswith(tuple(f"{name}-" for name in touched))}
        improved = {step.get("writes") for name in touched for step in case.phases[name].front["steps"]}
        for path in files.keys() - mine - improved - {f"summaries/{name}.md" for name in touched}:
            if not path.startswith(("inner-", "summaries/")):
                assert again.files[path] == files[path]


@pytest.mark.slow
@pytest.mark.row("X4")
@examples(25)
@given(workflows(), st.data())
def test_what_a_person_edits_stays_and_going_on_is_exact(case: Workflows, data: st.DataObject) -> None:
    with bench(case) as (made, here):
        whole = made.begin(here / "runs", Keep(here / "kept"))
        moment = data.draw(st.sampled_from(kept(whole)))
        assert moment.runs is not None
        paths = [path for path in (moment.runs / NAME).glob("*.md") if path.name != "state.md"]
        if not paths:
            return
        path = data.draw(st.sampled_from(sorted(paths)))
        text = path.read_bytes() + b"\nA person was here.\n"
        path.write_bytes(text)
        edited = made.go_on(moment, Keep(here / "edited"))
        assert text in edited.files.values()
        for later in kept(edited)[:: max(1, len(kept(edited)) // 2)]:
            assert_goes_on(made, edited, edited.calls[: later.sent], later)
