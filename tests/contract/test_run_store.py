"""What a run keeps beside its journal: whose work a file is, rounds, summaries, the state."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from skillrun.store.artifacts import Artifacts, WriteOutcome
from skillrun.store.files import Files
from skillrun.store.run_data import RunData
from skillrun.store.state import State
from skillrun.store.summary import PastRound, Summary
from skillrun.syntax.diagnostics import SkillrunError
from tests.contract.conftest import Store


class Kept:
    """A run's store, and the same as a later process opens it."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.now = RunData(store.files, store.journal)

    @property
    def files(self) -> Files:
        return self.store.files

    @property
    def ledger(self) -> Artifacts:
        return self.now.artifacts

    def reopened(self) -> RunData:
        self.now = RunData(self.store.files, self.store.journal)
        return self.now

    def put(self, name: str, text: str) -> WriteOutcome:
        return asyncio.run(self.now.artifacts.put(name, text))

    def summarize(self, phase: str, *artifacts: str, **more: Any) -> None:
        summary = {"phase": phase, "status": "completed", "artifacts": list(artifacts), **more}
        asyncio.run(self.now.summaries.put(phase, Summary.from_record(summary)))

    def texts(self) -> dict[str, str]:
        """What is in every file."""
        names = self.files.matching("**/*")
        return {name: self.files.read(name).decode() for name in names if not name.startswith(".run/")}


@pytest.fixture
def kept(store: Store) -> Kept:
    return Kept(store)


def ended(store: RunData, phase: str) -> Summary:
    summary = store.summaries.find_completed(phase)
    assert summary is not None
    return summary


def test_what_the_run_has_written_is_its_own_and_written_anew(kept: Kept) -> None:
    assert [kept.put("a.md", "one"), kept.put("a.md", "one"), kept.put("a.md", "two")] == ["written", "same", "written"]
    assert (kept.ledger.list_names(), kept.ledger.is_unmodified("a.md"), kept.now.edited_files()) == (
        ["a.md"],
        True,
        [],
    )
    assert kept.reopened().artifacts.list_names() == ["a.md"]
    assert kept.put("a.md", "three") == "written"
    assert kept.ledger.text("a.md") == "three"


def test_what_a_person_has_changed_stays_and_a_new_text_is_a_conflict(kept: Kept) -> None:
    kept.put("a.md", "one")
    kept.files.write("a.md", "mine")
    assert (kept.ledger.is_unmodified("a.md"), kept.now.edited_files()) == (False, ["a.md"])
    assert (kept.put("a.md", "one"), kept.put("a.md", "two")) == ("kept", "conflict")
    assert kept.ledger.text("a.md") == "mine"
    asyncio.run(kept.ledger.replace("a.md", "two"))
    assert (kept.ledger.text("a.md"), kept.now.edited_files()) == ("two", [])
    kept.files.write("theirs.md", "was there before")
    assert kept.put("theirs.md", "new") == "conflict"
    assert "theirs.md" not in kept.ledger.list_names()


def test_a_text_that_a_person_has_written_already_is_taken_over(kept: Kept) -> None:
    kept.files.write("a.md", "the same")
    assert kept.put("a.md", "the same") == "same"
    assert kept.put("a.md", "later") == "written"


def test_the_hash_is_on_record_before_the_file_is_there(kept: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    write = kept.files.write
    entries: list[int] = []

    def counted(*given: Any, **more: Any) -> None:
        entries.append(sum(entry.address == "a.md" for entry in kept.store.journal.entries("wrote")))
        write(*given, **more)

    monkeypatch.setattr(kept.files, "write", counted)
    kept.put("a.md", "one")
    assert entries == [1]


@pytest.mark.parametrize(
    "name", ["../a.md", ".run/a", "state.md", "summaries/a.md", "round-1/a.md", ".git/hooks/a", ""]
)
def test_no_artifact_has_a_name_of_the_runs_own_or_outside(kept: Kept, name: str) -> None:
    with pytest.raises(SkillrunError):
        kept.put(name, "text")
    asyncio.run(kept.store.journal.record("wrote", name, "0" * 64, {}))
    later = kept.reopened()
    assert later.artifacts.list_names() == []
    assert len(later.refusals.lines) == 1
    assert later.artifacts.text(name) is None
    assert kept.texts() == {}


def test_a_form_is_written_once_and_a_folder_made_for_what_is_brought(kept: Kept) -> None:
    assert kept.files.write_new("form.md", "empty") is True
    kept.files.write("form.md", "filled in")
    assert kept.files.write_new("form.md", "empty") is False
    kept.ledger.make_folder("brought")
    assert kept.files.is_folder("brought")
    kept.ledger.write_user_file("a.new.md", "new")
    kept.ledger.remove("a.new.md")
    kept.ledger.remove("a.new.md")
    assert kept.texts() == {"form.md": "filled in"}


def test_a_pattern_means_what_this_evaluation_wrote_and_what_people_brought(kept: Kept) -> None:
    kept.put("old.md", "of an earlier evaluation")
    kept.put("edited.md", "one")
    kept.files.write("edited.md", "mine")
    kept.files.write("theirs.md", "theirs")
    kept.files.write(".hidden.md", "")
    kept.files.write("state.md", "")
    kept.files.write("inner/.run/x.md", "")
    kept.files.write("inner/other.md", "")
    later = kept.reopened()
    assert later.matching("*.md") == ["edited.md", "theirs.md"]
    assert later.matching(".*.md") == [".hidden.md"]
    assert later.matching("**/*.md") == ["edited.md", "theirs.md"]
    kept.put("old.md", "of an earlier evaluation")
    assert later.matching("*.md") == ["edited.md", "old.md", "theirs.md"]
    assert later.content("theirs.md") == b"theirs"
    with pytest.raises(SkillrunError, match=r"no file `gone\.md`"):
        later.content("gone.md")


def test_what_only_an_earlier_evaluation_wrote_is_pruned_unless_it_was_changed(kept: Kept) -> None:
    for name in ("a.md", "b.md", "c.md", "d.md"):
        kept.put(name, name)
    kept.files.write("b.md", "mine")
    kept.reopened()
    kept.put("c.md", "c.md")
    kept.summarize("over", "d.md")
    kept.now.prune()
    assert sorted(kept.texts()) == ["b.md", "c.md", "d.md", "summaries/over.md"]


# summaries


def test_a_summary_comes_back_and_one_that_waits_is_not_over(kept: Kept) -> None:
    kept.summarize("a", "x.md", outputs={"n": 1})
    kept.summarize("b", status="needs-user-input")
    for summaries in (kept.now.summaries, kept.reopened().summaries):
        ended, waiting = summaries.find_completed("a"), summaries.find("b")
        assert ended is not None
        assert waiting is not None
        assert ended.record == {"phase": "a", "status": "completed", "artifacts": ["x.md"], "outputs": {"n": 1}}
        assert (summaries.find_completed("b"), waiting.status) == (None, "needs-user-input")
        assert (summaries.find("c"), summaries.phases(), list(summaries.completed_summaries("abc"))) == (
            None,
            ["a", "b"],
            ["a"],
        )
        assert summaries.artifacts() == {"x.md"}


def test_a_summary_that_a_person_has_changed_is_known_in_every_round(kept: Kept) -> None:
    kept.summarize("a")
    kept.summarize("b")
    assert not kept.now.summaries.is_edited("a")
    kept.files.write("summaries/a.md", kept.files.read("summaries/a.md") + b"more\n")
    assert (kept.now.summaries.is_edited("a"), kept.reopened().edited_files()) == (True, ["summaries/a.md"])
    kept.now.end_round(1, ["a", "b"], [])
    assert kept.now.summaries.list_edited_in_past_rounds() == ["round-1/summaries/a.md"]
    assert kept.now.edited_files() == ["round-1/summaries/a.md"]


def test_a_summary_that_cannot_be_used_is_set_aside_or_told(kept: Kept) -> None:
    kept.files.write("summaries/a.md", "---\n: : :\n---\n")
    assert kept.now.summaries.find_readable("a") is None
    assert len(kept.now.refusals.lines) == 1
    heard: list[str] = []
    kept.now.refusals.listen(heard.append)
    assert heard == kept.now.refusals.lines
    with pytest.raises(SkillrunError):
        kept.now.summaries.find("a")
    kept.now.summaries.quarantine("a")
    assert (kept.now.summaries.find("a"), list(kept.texts())) == (None, ["summaries/a.md.invalid"])


def test_phases_that_are_called_otherwise_now_keep_their_summaries_in_all_rounds(kept: Kept) -> None:
    kept.summarize("old", outputs={"n": 1})
    kept.now.end_round(1, ["old"], [])
    kept.summarize("old", outputs={"n": 2})
    asyncio.run(kept.now.summaries.rename({"old": "new"}))
    assert sorted(kept.texts()) == ["round-1/summaries/new.md", "summaries/new.md"]
    assert ended(kept.now, "new").phase == "new"
    assert kept.now.summaries.history(2)[0].phases["new"].outputs == {"n": 1}
    assert not kept.now.summaries.is_edited("new")


# rounds


def test_a_round_that_ends_takes_its_artifacts_along_but_what_stays_or_is_kept(kept: Kept) -> None:
    for name in ("gone.md", "shared.md", "mine.md"):
        kept.put(name, name)
    kept.files.write("mine.md", "mine")
    kept.put("mine.md", "mine.md")
    kept.summarize("a", "gone.md", "shared.md", "mine.md", "never.md")
    kept.summarize("b", "shared.md")
    for _ in range(2):  # the second time nothing more is done
        kept.now.end_round(1, ["a"], ["b"])
        assert kept.texts() == {
            "mine.md": "mine",
            "shared.md": "shared.md",
            "summaries/b.md": kept.texts()["summaries/b.md"],
            "round-1/gone.md": "gone.md",
            "round-1/mine.md": "mine",
            "round-1/shared.md": "shared.md",
            "round-1/summaries/a.md": kept.texts()["round-1/summaries/a.md"],
        }
    over = kept.now.summaries.history(2)
    assert [(past.round, list(past.phases)) for past in over] == [(1, ["a"])]
    assert [summary.phase for summary in kept.now.summaries.all_summaries(2, ["a", "b"])] == ["a", "b"]
    assert kept.reopened().summaries.history(1) == []


def test_what_a_person_has_put_into_a_round_is_spared_when_an_artifact_moves_there(kept: Kept) -> None:
    kept.put("a.md", "one")
    kept.summarize("p", "a.md")
    kept.files.write("round-1/a.md", "theirs")
    kept.now.end_round(1, ["p"], [])
    texts = kept.texts()
    assert (texts["round-1/a.md"], texts["round-1/a.new.md"]) == ("one", "theirs")


def test_beginning_again_forgets_rounds_and_rescues_what_a_person_has_changed_there(kept: Kept) -> None:
    for text in ("one", "two"):
        kept.put("a.md", text)
        kept.put("b.md", text)
        kept.summarize("p", "a.md", "b.md")
        kept.now.end_round({"one": 1, "two": 2}[text], ["p"], [])
    kept.put("a.md", "three")
    kept.summarize("p", "a.md")
    kept.files.write("round-1/b.md", "mine")
    kept.files.write("round-2/a.md", "mine too")
    kept.now.reset()
    assert kept.texts() == {"a.md": "mine too", "b.md": "mine"}
    assert kept.now.summaries.find("p") is None
    assert kept.now.summaries.history(3) == [PastRound(1, {}), PastRound(2, {})]


def test_what_was_removed_by_hand_is_known(kept: Kept) -> None:
    kept.put("a.md", "")
    kept.summarize("p", "a.md", "b.md")
    assert kept.now.missing_artifacts() == ["b.md"]
    kept.files.remove("a.md")
    assert kept.now.missing_artifacts() == ["a.md", "b.md"]


# a workflow that runs inside a phase


def test_an_inline_workflow_has_summaries_of_its_own_and_the_same_artifacts(kept: Kept) -> None:
    kept.summarize("p", "outer.md")
    inner = kept.now.inline("w/p/step")
    asyncio.run(inner.artifacts.put("inner.md", "text"))
    asyncio.run(
        inner.summaries.put("p", Summary.from_record({"phase": "p", "status": "completed", "artifacts": ["inner.md"]}))
    )
    assert sorted(kept.texts()) == ["inner.md", "summaries/p.md", "summaries/w.p.step/p.md"]
    assert (ended(inner, "p").artifacts, ended(kept.now, "p").artifacts) == (["inner.md"], ["outer.md"])
    assert (kept.now.summaries.phases(), kept.now.summaries.artifacts()) == (["p"], {"inner.md", "outer.md"})
    assert inner.matching("*.md") == ["inner.md"]
    assert kept.now.matching("*.md") == ["inner.md"]
    assert kept.reopened().edited_files() == []
    assert kept.now.inline("w/p/step").summaries.phases() == [], "it is evaluated from its beginning"
    assert kept.now.summaries.artifacts() == {"outer.md"}


def test_the_rounds_of_an_inline_workflow_are_remembered_and_its_artifacts_stay(kept: Kept) -> None:
    inner = kept.now.inline("w/p/step")
    asyncio.run(inner.artifacts.put("a.md", "one"))
    summary = {"phase": "q", "status": "completed", "artifacts": ["a.md"], "round": 1}
    asyncio.run(inner.summaries.put("q", Summary.from_record(summary)))
    inner.end_round(1, ["q", "r"], [])
    assert (inner.summaries.find_completed("q"), kept.texts()) == (None, {"a.md": "one"})
    assert [(past.round, list(past.phases)) for past in inner.summaries.history(2)] == [(1, ["q"])]
    assert [summary.phase for summary in inner.summaries.all_summaries(2, ["q"])] == ["q"]
    assert kept.now.summaries.history(1) == []


# the state


def test_the_state_comes_back_with_its_log_and_is_written_when_it_differs(kept: Kept, points: list[str]) -> None:
    with pytest.raises(SkillrunError, match=r"has no state\.md"):
        kept.now.state.read()
    state = State("w", "2026-01-01", {"a": 1}, {"b": [2]}, phase=["p"])
    kept.now.state.write(state, ["began", "went on"])
    assert kept.reopened().state.read() == (state, ["began", "went on"])
    kept.now.state.write(state, ["began", "went on"])
    before = len(points)
    kept.now.state.write(state, ["began", "went on"])
    assert len(points) == before
    kept.now.state.write(state, ["began", "went on", "ended"])
    assert len(points) == before + 2
    assert kept.reopened().state.read()[1][-1] == "ended"
