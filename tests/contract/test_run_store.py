"""The data of a run besides its journal: who wrote a file, rounds, summaries, the state."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from skillrun.store.artifacts import Artifacts, WriteOutcome
from skillrun.store.files import Files
from skillrun.store.run_data import RunData
from skillrun.store.state import State
from skillrun.store.summaries import PastRound, Summary
from skillrun.syntax.diagnostics import SkillrunError
from tests.contract.conftest import Store


class StoredRun:
    """The store of a run, which can be reopened as by a later process."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.data = RunData(store.files, store.journal)

    @property
    def files(self) -> Files:
        return self.store.files

    @property
    def ledger(self) -> Artifacts:
        return self.data.artifacts

    def reopen(self) -> RunData:
        self.data = RunData(self.store.files, self.store.journal)
        return self.data

    def put(self, name: str, text: str) -> WriteOutcome:
        return asyncio.run(self.data.artifacts.put(name, text))

    def summarize(self, phase: str, *artifacts: str, **more: Any) -> None:
        summary = {"phase": phase, "status": "completed", "artifacts": list(artifacts), **more}
        asyncio.run(self.data.summaries.put(phase, Summary.from_record(summary)))

    def texts(self) -> dict[str, str]:
        """Return the content of every file."""
        names = self.files.matching("**/*")
        return {name: self.files.read(name).decode() for name in names if not name.startswith(".run/")}


@pytest.fixture
def run(store: Store) -> StoredRun:
    return StoredRun(store)


def completed_summary(store: RunData, phase: str) -> Summary:
    summary = store.summaries.find_completed(phase)
    assert summary is not None
    return summary


def test_the_run_rewrites_its_own_artifacts(run: StoredRun) -> None:
    assert [run.put("a.md", "one"), run.put("a.md", "one"), run.put("a.md", "two")] == ["written", "same", "written"]
    assert (run.ledger.list_names(), run.ledger.is_unmodified("a.md"), run.data.edited_files()) == (
        ["a.md"],
        True,
        [],
    )
    assert run.reopen().artifacts.list_names() == ["a.md"]
    assert run.put("a.md", "three") == "written"
    assert run.ledger.text("a.md") == "three"


def test_a_file_edited_by_the_user_is_kept_and_a_new_text_is_a_conflict(run: StoredRun) -> None:
    run.put("a.md", "one")
    run.files.write("a.md", "mine")
    assert (run.ledger.is_unmodified("a.md"), run.data.edited_files()) == (False, ["a.md"])
    assert (run.put("a.md", "one"), run.put("a.md", "two")) == ("kept", "conflict")
    assert run.ledger.text("a.md") == "mine"
    asyncio.run(run.ledger.replace("a.md", "two"))
    assert (run.ledger.text("a.md"), run.data.edited_files()) == ("two", [])
    run.files.write("theirs.md", "was there before")
    assert run.put("theirs.md", "new") == "conflict"
    assert "theirs.md" not in run.ledger.list_names()


def test_a_user_file_with_the_same_text_becomes_an_artifact(run: StoredRun) -> None:
    run.files.write("a.md", "the same")
    assert run.put("a.md", "the same") == "same"
    assert run.put("a.md", "later") == "written"


def test_the_hash_is_recorded_before_the_file_is_written(run: StoredRun, monkeypatch: pytest.MonkeyPatch) -> None:
    write = run.files.write
    entries: list[int] = []

    def count_and_write(*args: Any, **kwargs: Any) -> None:
        entries.append(sum(entry.address == "a.md" for entry in run.store.journal.entries("wrote")))
        write(*args, **kwargs)

    monkeypatch.setattr(run.files, "write", count_and_write)
    run.put("a.md", "one")
    assert entries == [1]


@pytest.mark.parametrize(
    "name", ["../a.md", ".run/a", "state.md", "summaries/a.md", "round-1/a.md", ".git/hooks/a", ""]
)
def test_an_artifact_cannot_have_a_reserved_or_outside_path(run: StoredRun, name: str) -> None:
    with pytest.raises(SkillrunError):
        run.put(name, "text")
    asyncio.run(run.store.journal.record("wrote", name, "0" * 64, {}))
    later = run.reopen()
    assert later.artifacts.list_names() == []
    assert len(later.refusals.lines) == 1
    assert later.artifacts.text(name) is None
    assert run.texts() == {}


def test_a_form_is_written_once_and_user_files_are_separate_from_artifacts(run: StoredRun) -> None:
    assert run.files.write_new("form.md", "empty") is True
    run.files.write("form.md", "filled in")
    assert run.files.write_new("form.md", "empty") is False
    run.ledger.make_folder("brought")
    assert run.files.is_folder("brought")
    run.ledger.write_user_file("a.new.md", "new")
    run.ledger.remove("a.new.md")
    run.ledger.remove("a.new.md")
    assert run.texts() == {"form.md": "filled in"}


def test_a_pattern_matches_files_of_this_evaluation_and_of_users(run: StoredRun) -> None:
    run.put("old.md", "of an earlier evaluation")
    run.put("edited.md", "one")
    run.files.write("edited.md", "mine")
    run.files.write("theirs.md", "theirs")
    run.files.write(".hidden.md", "")
    run.files.write("state.md", "")
    run.files.write("inner/.run/x.md", "")
    run.files.write("inner/other.md", "")
    later = run.reopen()
    assert later.matching("*.md") == ["edited.md", "theirs.md"]
    assert later.matching(".*.md") == [".hidden.md"]
    assert later.matching("**/*.md") == ["edited.md", "theirs.md"]
    run.put("old.md", "of an earlier evaluation")
    assert later.matching("*.md") == ["edited.md", "old.md", "theirs.md"]
    assert later.content("theirs.md") == b"theirs"
    with pytest.raises(SkillrunError, match=r"the file `gone\.md` no longer exists"):
        later.content("gone.md")


def test_pruning_removes_unedited_files_of_earlier_evaluations(run: StoredRun) -> None:
    for name in ("a.md", "b.md", "c.md", "d.md"):
        run.put(name, name)
    run.files.write("b.md", "mine")
    run.reopen()
    run.put("c.md", "c.md")
    run.summarize("over", "d.md")
    run.data.prune()
    assert sorted(run.texts()) == ["b.md", "c.md", "d.md", "summaries/over.md"]


# summaries


def test_a_stored_summary_can_be_found_and_a_waiting_one_is_not_completed(run: StoredRun) -> None:
    run.summarize("a", "x.md", outputs={"n": 1})
    run.summarize("b", status="needs-user-input")
    for summaries in (run.data.summaries, run.reopen().summaries):
        completed, waiting = summaries.find_completed("a"), summaries.find("b")
        assert completed is not None
        assert waiting is not None
        assert completed.record == {"phase": "a", "status": "completed", "artifacts": ["x.md"], "outputs": {"n": 1}}
        assert (summaries.find_completed("b"), waiting.status) == (None, "needs-user-input")
        assert (summaries.find("c"), summaries.phases(), list(summaries.completed_summaries("abc"))) == (
            None,
            ["a", "b"],
            ["a"],
        )
        assert summaries.artifacts() == {"x.md"}


def test_an_edited_summary_is_detected_in_every_round(run: StoredRun) -> None:
    run.summarize("a")
    run.summarize("b")
    assert not run.data.summaries.is_edited("a")
    run.files.write("summaries/a.md", run.files.read("summaries/a.md") + b"more\n")
    assert (run.data.summaries.is_edited("a"), run.reopen().edited_files()) == (True, ["summaries/a.md"])
    run.data.end_round(1, ["a", "b"], [])
    assert run.data.summaries.list_edited_in_past_rounds() == ["round-1/summaries/a.md"]
    assert run.data.edited_files() == ["round-1/summaries/a.md"]


def test_an_invalid_summary_is_reported_and_can_be_quarantined(run: StoredRun) -> None:
    run.files.write("summaries/a.md", "---\n: : :\n---\n")
    assert run.data.summaries.find_readable("a") is None
    assert len(run.data.refusals.lines) == 1
    received: list[str] = []
    run.data.refusals.listen(received.append)
    assert received == run.data.refusals.lines
    with pytest.raises(SkillrunError):
        run.data.summaries.find("a")
    run.data.summaries.quarantine("a")
    assert (run.data.summaries.find("a"), list(run.texts())) == (None, ["summaries/a.md.invalid"])


def test_a_renamed_phase_keeps_its_summaries_in_all_rounds(run: StoredRun) -> None:
    run.summarize("old", outputs={"n": 1})
    run.data.end_round(1, ["old"], [])
    run.summarize("old", outputs={"n": 2})
    asyncio.run(run.data.summaries.rename({"old": "new"}))
    assert sorted(run.texts()) == ["round-1/summaries/new.md", "summaries/new.md"]
    assert completed_summary(run.data, "new").phase == "new"
    assert run.data.summaries.history(2)[0].phases["new"].outputs == {"n": 1}
    assert not run.data.summaries.is_edited("new")


# rounds


def test_ending_a_round_moves_its_artifacts_but_keeps_shared_and_edited_ones(run: StoredRun) -> None:
    for name in ("gone.md", "shared.md", "mine.md"):
        run.put(name, name)
    run.files.write("mine.md", "mine")
    run.put("mine.md", "mine.md")
    run.summarize("a", "gone.md", "shared.md", "mine.md", "never.md")
    run.summarize("b", "shared.md")
    for _ in range(2):  # idempotent
        run.data.end_round(1, ["a"], ["b"])
        assert run.texts() == {
            "mine.md": "mine",
            "shared.md": "shared.md",
            "summaries/b.md": run.texts()["summaries/b.md"],
            "round-1/gone.md": "gone.md",
            "round-1/mine.md": "mine",
            "round-1/shared.md": "shared.md",
            "round-1/summaries/a.md": run.texts()["round-1/summaries/a.md"],
        }
    history = run.data.summaries.history(2)
    assert [(past.round, list(past.phases)) for past in history] == [(1, ["a"])]
    assert [summary.phase for summary in run.data.summaries.all_summaries(2, ["a", "b"])] == ["a", "b"]
    assert run.reopen().summaries.history(1) == []


def test_a_user_file_in_a_round_folder_is_kept_when_an_artifact_moves_there(run: StoredRun) -> None:
    run.put("a.md", "one")
    run.summarize("p", "a.md")
    run.files.write("round-1/a.md", "theirs")
    run.data.end_round(1, ["p"], [])
    texts = run.texts()
    assert (texts["round-1/a.md"], texts["round-1/a.new.md"]) == ("one", "theirs")


def test_a_reset_removes_rounds_and_keeps_files_edited_there(run: StoredRun) -> None:
    for text in ("one", "two"):
        run.put("a.md", text)
        run.put("b.md", text)
        run.summarize("p", "a.md", "b.md")
        run.data.end_round({"one": 1, "two": 2}[text], ["p"], [])
    run.put("a.md", "three")
    run.summarize("p", "a.md")
    run.files.write("round-1/b.md", "mine")
    run.files.write("round-2/a.md", "mine too")
    run.data.reset()
    assert run.texts() == {"a.md": "mine too", "b.md": "mine"}
    assert run.data.summaries.find("p") is None
    assert run.data.summaries.history(3) == [PastRound(1, {}), PastRound(2, {})]


def test_a_manually_removed_artifact_is_missing(run: StoredRun) -> None:
    run.put("a.md", "")
    run.summarize("p", "a.md", "b.md")
    assert run.data.missing_artifacts() == ["b.md"]
    run.files.remove("a.md")
    assert run.data.missing_artifacts() == ["a.md", "b.md"]


# a workflow inside a phase


def test_an_inline_workflow_has_its_own_summaries_and_shares_artifacts(run: StoredRun) -> None:
    run.summarize("p", "outer.md")
    inner = run.data.inline("w/p/step")
    asyncio.run(inner.artifacts.put("inner.md", "text"))
    asyncio.run(
        inner.summaries.put("p", Summary.from_record({"phase": "p", "status": "completed", "artifacts": ["inner.md"]}))
    )
    assert sorted(run.texts()) == ["inner.md", "summaries/p.md", "summaries/w.p.step/p.md"]
    assert (completed_summary(inner, "p").artifacts, completed_summary(run.data, "p").artifacts) == (
        ["inner.md"],
        ["outer.md"],
    )
    assert (run.data.summaries.phases(), run.data.summaries.artifacts()) == (["p"], {"inner.md", "outer.md"})
    assert inner.matching("*.md") == ["inner.md"]
    assert run.data.matching("*.md") == ["inner.md"]
    assert run.reopen().edited_files() == []
    assert run.data.inline("w/p/step").summaries.phases() == [], "it is evaluated from the start"
    assert run.data.summaries.artifacts() == {"outer.md"}


def test_an_inline_workflow_keeps_its_rounds_and_its_artifacts_stay(run: StoredRun) -> None:
    inner = run.data.inline("w/p/step")
    asyncio.run(inner.artifacts.put("a.md", "one"))
    summary = {"phase": "q", "status": "completed", "artifacts": ["a.md"], "round": 1}
    asyncio.run(inner.summaries.put("q", Summary.from_record(summary)))
    inner.end_round(1, ["q", "r"], [])
    assert (inner.summaries.find_completed("q"), run.texts()) == (None, {"a.md": "one"})
    assert [(past.round, list(past.phases)) for past in inner.summaries.history(2)] == [(1, ["q"])]
    assert [summary.phase for summary in inner.summaries.all_summaries(2, ["q"])] == ["q"]
    assert run.data.summaries.history(1) == []


# the state


def test_the_state_is_stored_with_its_log_and_written_only_if_it_differs(run: StoredRun, points: list[str]) -> None:
    with pytest.raises(SkillrunError, match=r"has no state\.md"):
        run.data.state.read()
    state = State("w", "2026-01-01", {"a": 1}, {"b": [2]}, phase=["p"])
    run.data.state.write(state, ["started", "resumed"])
    assert run.reopen().state.read() == (state, ["started", "resumed"])
    run.data.state.write(state, ["started", "resumed"])
    before = len(points)
    run.data.state.write(state, ["started", "resumed"])
    assert len(points) == before
    run.data.state.write(state, ["started", "resumed", "completed"])
    assert len(points) == before + 2
    assert run.reopen().state.read()[1][-1] == "completed"
