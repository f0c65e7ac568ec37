"""Replay is exact: a run killed at any point resumes as if it had never been killed.

Workflows are generated with loops, gotos, parallel phases, panels, questions, inline workflows, breakers and failing
models. A killed process and its successors together make the same calls, files and state as an undisturbed process.
`SKILLRUN_EXAMPLES=20` runs twenty times as many examples.
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

from tests.property.runs import NAME, Call, Project, RunHistory, Snapshot, SnapshotPolicy, answered_calls, folder
from tests.property.workflows import Workflows, workflows

MANY = "SKILLRUN_EXAMPLES" in os.environ
USAGE = re.compile(rb"^usage:\n(?:  .*\n)+", re.MULTILINE)
SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example, HealthCheck.filter_too_much]


def examples(share: int) -> settings:
    """Settings with `share` percent of the profile's examples."""
    return settings(max_examples=max(1, settings().max_examples * share // 100), suppress_health_check=SLOW)


class FrozenDatetime(datetime):
    """A frozen clock, because the times of questions are recorded and prompts may contain them."""

    @classmethod
    def now(cls, tz: tzinfo | None = None) -> FrozenDatetime:
        return cls(2026, 1, 1, tzinfo=tz)


@pytest.fixture(autouse=True, scope="module")
def _freeze_clock() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("skillrun.store.event_lines.datetime", FrozenDatetime)
        yield


@contextmanager
def open_project(case: Workflows) -> Iterator[tuple[Project, Path]]:
    with folder() as root:
        yield Project(root / "project", case), root


def kept_snapshots(history: RunHistory) -> list[Snapshot]:
    return [snapshot for snapshot in history.snapshots if snapshot.runs is not None]


def assert_resumes_exactly(
    project: Project, original: RunHistory, before: list[Call], snapshot: Snapshot, keep: SnapshotPolicy | None = None
) -> RunHistory:
    """Resume a snapshot, and check that files and state are those of the undisturbed run.

    All processes together make its calls, and repeat those in progress. `before` are the calls until the snapshot.
    """
    assert snapshot.runs is not None
    lost = Counter(before) - answered_calls(snapshot.runs)
    resumed = project.resume(snapshot, keep)
    assert Counter(before) + Counter(resumed.calls) == Counter(original.calls) + lost, snapshot.name
    assert resumed.files == original.files, snapshot.name
    assert resumed.state == original.state, snapshot.name
    return resumed


@pytest.mark.slow
@pytest.mark.row("X4")
@examples(40)
@given(workflows(), st.integers(0, 1000))
def test_a_killed_run_resumes_exactly(case: Workflows, offset: int) -> None:
    with open_project(case) as (project, root):
        original = project.start(root / "runs", SnapshotPolicy(root / "kept"))
        snapshots = kept_snapshots(original)
        step = max(1, len(snapshots) // 6)
        for snapshot in snapshots[offset % step :: step]:
            assert_resumes_exactly(project, original, original.calls[: snapshot.sent], snapshot)


@pytest.mark.slow
@pytest.mark.row("X4")
@examples(15)
@given(workflows(most=2))
def test_a_run_killed_at_any_checkpoint_resumes_exactly(case: Workflows) -> None:
    with open_project(case) as (project, root):
        original = project.start(root / "runs", SnapshotPolicy(root / "kept"))
        snapshots = kept_snapshots(original)[:150]
        for snapshot in snapshots if MANY else snapshots[:: max(1, len(snapshots) // 20)]:
            assert_resumes_exactly(project, original, original.calls[: snapshot.sent], snapshot)


@pytest.mark.slow
@pytest.mark.row("X4")
@examples(15)
@given(workflows(), st.data())
def test_a_run_killed_twice_resumes_exactly(case: Workflows, data: st.DataObject) -> None:
    with open_project(case) as (project, root):
        original = project.start(root / "runs", SnapshotPolicy(root / "kept"))
        for number in range(2):
            first = data.draw(st.sampled_from(kept_snapshots(original)))
            assert first.runs is not None
            copy = root / f"copy-{number}"
            shutil.copytree(first.runs, copy)
            snapshot = Snapshot(first.name, first.sent, first.has_state, first.away, copy)
            before = original.calls[: first.sent]
            second = assert_resumes_exactly(
                project, original, before, snapshot, SnapshotPolicy(root / f"kept-{number}")
            )
            for later in kept_snapshots(second)[number :: max(1, len(kept_snapshots(second)) // 2)]:
                assert_resumes_exactly(project, original, before + second.calls[: later.sent], later)


@pytest.mark.slow
@pytest.mark.row("X4")
@examples(30)
@given(workflows())
def test_reevaluating_a_completed_run_makes_no_calls_and_changes_nothing(case: Workflows) -> None:
    with open_project(case) as (project, root):
        original = project.start(root / "runs")
        if not original.completed:
            return
        files, state = original.files, original.state
        history = project.reevaluate(root / "runs")
        assert history.calls == []
        assert [outcome.status for outcome in history.outcomes] == ["completed"]
        assert history.files == files
        assert history.state == state
        assert (root / "runs" / NAME / "state.md").exists()


@pytest.mark.slow
@examples(30)
@given(workflows(), st.data())
def test_after_an_edit_only_changed_calls_are_made(case: Workflows, data: st.DataObject) -> None:
    with open_project(case) as (project, root):
        sections = [(name, key) for name, phase in case.phases.items() for key in phase.sections]
        if not sections:
            return
        old = project.start(root / "runs")
        name, key = data.draw(st.sampled_from(sections))
        case.phases[name].sections[key] += "\nSay it with care."
        assert_reevaluation_equals_new_run(old, Project(root / "project", case), root)


@pytest.mark.slow
@examples(15)
@given(workflows())
def test_after_an_edit_of_a_wrapper_all_calls_are_made(case: Workflows) -> None:
    with open_project(case) as (project, root):
        old = project.start(root / "runs")
        wrapper = root / "project" / "skills" / "system" / "task.md"
        wrapper.parent.mkdir()
        wrapper.write_text("---\nkind: template\n---\nNow do this:\n\n{{ task }}\n")
        reevaluated = assert_reevaluation_equals_new_run(old, Project(root / "project", case), root)
        if reevaluated is not None:
            assert not [address for address, _ in set(old.calls) & set(reevaluated.calls) if "/summary/" not in address]


def assert_reevaluation_equals_new_run(old: RunHistory, project: Project, root: Path) -> RunHistory | None:
    """Check that a reevaluated run equals a new run of the edited files, and only makes calls not in the journal.

    Runs that failed and were resumed are not checked, because they repeat the failed calls.
    """
    known = answered_calls(old.runs)
    fresh = project.start(root / "fresh")
    if not (old.completed and fresh.completed) or "failed" in statuses(old) + statuses(fresh):
        return None
    reevaluated = project.reevaluate(old.runs)
    assert Counter(reevaluated.calls) == Counter(
        {call: n for call, n in Counter(fresh.calls).items() if call not in known}
    )
    assert without_usage(reevaluated.files) == without_usage(fresh.files)  # calls may count for an earlier round
    pinned = {**reevaluated.state["models"], **fresh.state["models"]}  # models resolved by the earlier run stay
    assert reevaluated.state == {**fresh.state, "models": pinned}
    return reevaluated


def without_usage(files: Mapping[str, bytes]) -> dict[str, bytes]:
    """The files without the usage in summaries."""
    return {name: USAGE.sub(b"", content) for name, content in files.items()}


def statuses(history: RunHistory) -> list[str]:
    return [outcome.status for outcome in history.outcomes]


@pytest.mark.slow
@examples(25)
@given(workflows(gotos=False), st.data())
def test_an_edit_does_not_affect_phases_that_do_not_follow(case: Workflows, data: st.DataObject) -> None:
    with open_project(case) as (project, root):
        edited = data.draw(st.sampled_from([name for name, phase in case.phases.items() if phase.sections] or ["p0"]))
        old = project.start(root / "runs")
        files = old.files
        for key in case.phases[edited].sections:
            case.phases[edited].sections[key] += "\nSay it with care."
        after = Project(root / "project", case)
        reevaluated = after.reevaluate(root / "runs")
        if not (old.completed and reevaluated.completed):
            return
        touched = after.program.workflow.followers(edited)
        assert {address.split("/")[1] for address, _ in reevaluated.calls} <= set(touched)
        for name in case.phases:
            if name not in touched:
                summary = f"summaries/{name}.md"  # a phase that ends the run has none
                assert reevaluated.files.get(summary) == files.get(summary)
        mine = {path for path in files if path.startswith(tuple(f"{name}-" for name in touched))}
        improved = {step.get("writes") for name in touched for step in case.phases[name].front["steps"]}
        for path in files.keys() - mine - improved - {f"summaries/{name}.md" for name in touched}:
            if not path.startswith(("inner-", "summaries/")):
                assert reevaluated.files[path] == files[path]


@pytest.mark.slow
@pytest.mark.row("X4")
@examples(25)
@given(workflows(), st.data())
def test_user_edits_are_kept_and_the_run_resumes_exactly(case: Workflows, data: st.DataObject) -> None:
    with open_project(case) as (project, root):
        original = project.start(root / "runs", SnapshotPolicy(root / "kept"))
        snapshot = data.draw(st.sampled_from(kept_snapshots(original)))
        assert snapshot.runs is not None
        paths = [path for path in (snapshot.runs / NAME).glob("*.md") if path.name != "state.md"]
        if not paths:
            return
        path = data.draw(st.sampled_from(sorted(paths)))
        text = path.read_bytes() + b"\nEdited by a user.\n"
        path.write_bytes(text)
        edited = project.resume(snapshot, SnapshotPolicy(root / "edited"))
        assert text in edited.files.values()
        for later in kept_snapshots(edited)[:: max(1, len(kept_snapshots(edited)) // 2)]:
            assert_resumes_exactly(project, edited, edited.calls[: later.sent], later)
