"""How refine handles lost and damaged summaries, and runs of an older version."""

import json
import shutil
from typing import Any

import pytest

from skillrun.store.frontmatter import from_frontmatter, to_frontmatter
from tests.acceptance.refine.conftest import IDEA, NAME, Refinement, skillrun

FIELDS = {"phase", "number", "status", "checkpoint", "artifacts", "summary", "flags", "round"}


def notices(refine: Refinement) -> list[str]:
    events = [json.loads(line) for line in refine.text(".run/transcript.ndjson").splitlines()]
    return [event["text"] for event in events if event["event"] == "Notice"]


def change(refine: Refinement, phase: str, **fields: Any) -> None:
    """Edit a summary; None removes a field."""
    path = refine.folder / "summaries" / f"{phase}.md"
    data, body = from_frontmatter(path)
    data = {key: value for key, value in {**data, **fields}.items() if value is not None}
    path.write_text(to_frontmatter(data, body))


def waiting_for_answers(refine: Refinement) -> None:
    refine.begin("standard")
    refine.report()
    assert refine.resume().code == 75


@pytest.mark.slow
@pytest.mark.row("R4")
def test_every_stage_writes_a_summary_with_all_its_fields(refine: Refinement) -> None:
    waiting_for_answers(refine)
    assert refine.summary("answers")["status"] == "needs-user-input"
    refine.fill()
    refine.resume()
    for number, phase in enumerate(("setup", "research", "questions", "answers", "draft", "completion"), 1):
        summary = refine.summary(phase)
        assert summary.keys() >= FIELDS
        assert (summary["phase"], summary["number"], summary["status"]) == (phase, number, "completed")
        assert summary["checkpoint"]
        assert summary["summary"]
    assert refine.summary("research")["artifacts"] == ["research/agenda.md", "research/digest.md"]


@pytest.mark.row("R4")
def test_missing_fields_with_a_valid_status_cause_a_warning(refine: Refinement) -> None:
    waiting_for_answers(refine)
    change(refine, "research", summary=None, checkpoint=None)
    sent = len(refine.calls)
    refine.fill()
    assert refine.resume().code == 0
    assert "summaries/research.md lacks checkpoint, summary; its other fields are used" in notices(refine)
    assert "recovered" not in refine.summary("research")["flags"]
    assert not any(address.startswith("refine/research/") for address, _ in refine.calls[sent:])


@pytest.mark.slow
@pytest.mark.row("R4", "R12")
@pytest.mark.parametrize("damage", ["status", "torn", "gone"])
def test_an_unusable_summary_is_rebuilt_without_a_call(refine: Refinement, damage: str) -> None:
    waiting_for_answers(refine)
    before = refine.summary("research")
    path = refine.folder / "summaries" / "research.md"
    if damage == "status":
        change(refine, "research", status="splendid")
    elif damage == "torn":
        path.write_text(path.read_text()[:40])
    else:
        path.unlink()
    sent = len(refine.calls)
    refine.fill()
    assert refine.resume().code == 0
    after = refine.summary("research")
    assert after["flags"] == {**before["flags"], "recovered": True}
    assert {**after, "flags": before["flags"]} == before
    assert not any(address.startswith("refine/research/") for address, _ in refine.calls[sent:])
    assert (damage != "gone") == any("research is recovered" in one or "recovered: " in one for one in notices(refine))


@pytest.mark.slow
@pytest.mark.row("R12")
def test_rebuilding_a_summary_keeps_the_state_of_later_stages(refine: Refinement) -> None:
    (refine.project / "old.md").write_text("# Quiet\n\n## Problem\n\nNoise.\n")
    refine.begin("standard", (), "--prd", "old.md")
    refine.report()
    assert refine.resume().code == 75
    before = refine.state()["state"]
    assert before["findings"]
    (refine.folder / "summaries" / "setup.md").unlink()
    sent = len(refine.calls)
    assert refine.resume().code == 75
    assert refine.summary("setup")["flags"]["recovered"] is True
    assert refine.state()["state"] == before
    assert len(refine.calls) == sent


OLD = {
    "schema_version": 1,
    "workflow": "refine",
    "current_phase": "RESPONSE",
    "waiting_for_user": True,
    "current_round": 1,
    "idea": IDEA,
    "mode": "rapid",
}


def old_run(refine: Refinement, **more: Any) -> None:
    """A run of version 1, without journal and summaries."""
    refine.folder.mkdir(parents=True)
    data = {key: value for key, value in {**OLD, **more}.items() if value is not None}
    (refine.folder / "state.md").write_text(to_frontmatter(data, "An old log.\n"))


@pytest.mark.slow
@pytest.mark.row("R13")
@pytest.mark.finding("FT25")
@pytest.mark.parametrize(("phase", "current"), [("RESEARCH", "research"), ("2", "research"), ("setup", "setup")])
def test_an_old_state_is_migrated_by_the_mapping_and_backed_up(refine: Refinement, phase: str, current: str) -> None:
    old_run(refine, current_phase=phase, mode="standard")
    before = (refine.folder / "state.md").read_bytes()
    done = refine.resume()
    assert "models: strong = scripted:default, fast = scripted:default" in done.out
    assert "embedded" not in done.out
    assert "state.md was migrated from schema version 1 to 2" in done.out
    assert f"the run is in the phase {current}" in done.out
    assert (refine.folder / "state.v1.md").read_bytes() == before
    state = refine.state()
    assert (state["schema_version"], state["inputs"]["idea"], state["inputs"]["mode"]) == (2, IDEA, "standard")
    assert (state["state"]["prd_mode"], state["state"]["decisions"], state["round"]) == ("NEW", [], 1)
    assert "current_phase" not in state
    assert state["status"] == "waiting"


@pytest.mark.slow
@pytest.mark.row("R12", "R13")
def test_completed_stages_are_rebuilt_from_their_artifacts_or_cause_a_question(refine: Refinement) -> None:
    old_run(refine, mode="standard")
    (refine.folder / "research").mkdir()
    (refine.folder / "research" / "agenda.md").write_text("# Agenda\n")
    (refine.folder / "idea.md").write_text("# The idea\n")
    done = refine.resume()
    assert done.code == 75
    assert "questions ended earlier, but its summary and its artifacts are missing" in done.out
    research = refine.summary("research")
    assert research["flags"] == {"recovered": True}
    assert research["artifacts"] == ["research/agenda.md"]
    assert refine.calls == []
    done = refine.resume((), recover="retry")
    assert done.code == 75
    assert refine.form().is_file()
    refine.fill()
    assert refine.resume().code == 0


@pytest.mark.slow
@pytest.mark.row("R12")
def test_a_stage_without_artifacts_may_be_skipped(refine: Refinement) -> None:
    old_run(refine, current_phase="ANALYSIS", mode="standard")
    done = refine.resume((), **{"setup.recover": "skip", "research.recover": "skip"})
    assert done.code == 75, done.out
    research = refine.summary("research")
    assert (research["status"], research["flags"]) == ("skipped", {"recovered": True})
    assert refine.form().is_file()


@pytest.mark.row("R12")
def test_a_failed_stage_may_be_retried_or_left_out(refine: Refinement) -> None:
    broken = [{"address": "refine/research/agenda/*", "fail": "timeout"}]
    done = refine.begin("standard", broken)
    assert done.code == 75
    assert "question" in done.out
    done = refine.resume(broken, retry="go on without it")
    assert done.code == 75, done.out
    assert refine.summary("research")["status"] == "failed"
    assert refine.form().is_file()


@pytest.mark.row("R13")
def test_an_incompatible_old_state_is_rejected_and_unchanged(refine: Refinement) -> None:
    old_run(refine, current_phase="PARTY")
    before = (refine.folder / "state.md").read_bytes()
    done = refine.resume()
    assert done.code == 1
    assert "the old state is in `PARTY`, which is not the name of a phase" in done.err
    old = {key: value for key, value in OLD.items() if key != "idea"}
    assert (refine.folder / "state.md").read_bytes() == before
    assert [path.name for path in refine.folder.iterdir() if path.suffix == ".md"] == ["state.md"]
    shutil.rmtree(refine.folder)
    old_run(refine, idea=None)
    assert "idea" not in old
    done = refine.resume()
    assert (done.code, "`idea` is missing" in done.err) == (1, True)
    assert "` migrates the run" in skillrun("show", NAME).err


@pytest.mark.slow
@pytest.mark.row("R12")
@pytest.mark.finding("FR8")
def test_the_questions_stage_may_be_skipped(refine: Refinement) -> None:
    old_run(refine, mode="standard")
    (refine.folder / "research").mkdir()
    (refine.folder / "research" / "agenda.md").write_text("# Agenda\n")
    (refine.folder / "idea.md").write_text("# The idea\n")
    done = refine.resume((), recover="skip")
    assert done.code == 0, done.out + done.err
    assert refine.summary("questions")["status"] == "skipped"
    assert refine.text("PRD.md")
