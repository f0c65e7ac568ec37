"""Where refine waits for the user: messages, stored state, and how the run resumes."""

import re
import shutil
import sys
from pathlib import Path

import pytest

from tests.acceptance.refine.conftest import (
    IDEA,
    NAME,
    QUESTIONS,
    RESCORED,
    SECTIONS,
    Refinement,
    analysis,
    scores,
    skillrun,
)  # fmt: skip
from tests.acceptance.terminal import Terminal

posix = pytest.mark.skipif(sys.platform == "win32", reason="pseudo-terminals need POSIX")


@pytest.mark.slow
@pytest.mark.row("R5")
def test_the_research_pause_shows_the_next_step_and_the_run_resumes_with_new_reports(refine: Refinement) -> None:
    done = refine.begin("standard")
    assert done.code == 75
    lines = done.out.splitlines()
    hint = f"put files that match `research/reports/*.md` into {refine.folder}"
    assert lines[-1] == f"next: {hint}, then resume with `skillrun resume {NAME} --script {refine.script(())}`"
    waiting = refine.summary("research")
    assert (waiting["status"], waiting["entry_type"], waiting["checkpoint"]) == (
        "needs-user-input", "first_entry", "reports",
    )  # fmt: skip
    assert waiting["flags"]["pause_type"] == "exit"
    assert "Put what you find" in waiting["flags"]["block_reason"]
    assert refine.state()["status"] == "waiting"
    assert refine.resume().code == 75
    assert refine.summary("research")["entry_type"] == "re_entry_after_user_input"
    refine.report("Seats are empty after six.")
    assert refine.resume().code == 75
    assert refine.summary("research")["status"] == "completed"
    assert refine.entries("research") == ["first_entry", *["re_entry_after_user_input"] * 2]
    assert refine.entries("answers") == ["first_entry"]
    assert not any("entry" in prompt for prompt in refine.prompts())
    (prompt,) = refine.prompts("refine/research/digest/*")
    assert re.search(r"\nresearch/reports/one\.md:\n<untrusted-\w+>\nSeats are empty after six\.\n<", prompt)


@pytest.mark.slow
@pytest.mark.row("R5")
@pytest.mark.finding("FT24")
@pytest.mark.parametrize("blank", [b"", b" \n\t\n", b"\xef\xbb\xbf", b"\xff\xfe", b"\r\n\xc2\xa0\r\n"])
def test_an_empty_report_does_not_end_the_research_pause(refine: Refinement, blank: bytes) -> None:
    refine.begin("standard")
    report = refine.folder / "research/reports/one.md"
    report.write_bytes(blank)
    for _ in range(2):
        done = refine.resume()
        assert done.code == 75
        assert "`research/reports/one.md` is empty, so it is ignored" in done.out
        assert refine.summary("research")["status"] == "needs-user-input"
        assert refine.prompts("refine/research/digest/*") == []
    report.write_text("Seats are empty after six.")
    (refine.folder / "research/reports/two.md").write_bytes(blank)
    done = refine.resume()
    assert "two.md` is empty, so it is ignored" in done.out
    assert refine.summary("research")["outputs"]["reports"] == ["research/reports/one.md"]
    assert refine.summary("research")["summary"].startswith("1 report(s) were brought")
    assert "Seats are empty after six." in refine.prompts("refine/research/digest/*")[0]
    assert "arrived after" not in refine.resume().out, "it is still empty"


@pytest.mark.slow
@pytest.mark.row("R5")
@pytest.mark.finding("FR88")
def test_a_binary_report_does_not_end_the_research_pause(refine: Refinement) -> None:
    refine.begin("standard")
    report = refine.folder / "research/reports/one.md"
    report.write_bytes(b"%PDF-1.7\n\0\xff\xfe\x01" * 100)
    for _ in range(2):
        done = refine.resume()
        assert done.code == 75
        assert "`research/reports/one.md` is not readable as text" in done.out
        assert refine.summary("research")["status"] == "needs-user-input"
    report.write_text("Seats are empty after six.")
    refine.resume()
    assert refine.summary("research")["status"] == "completed"
    assert "Seats are empty after six." in refine.prompts("refine/research/digest/*")[0]


@pytest.mark.slow
@pytest.mark.row("R1")
def test_resume_returns_to_the_paused_stage_and_skips_completed_ones(refine: Refinement) -> None:
    refine.begin("standard")
    assert refine.state()["phase"] == ["research"]
    before = refine.calls
    refine.report()
    done = refine.resume()
    assert "setup: started" not in done.out
    assert refine.state()["phase"] == ["answers"]
    after = refine.calls
    assert after[: len(before)] == before
    refine.fill()
    done = refine.resume()
    assert done.code == 0
    assert not any(f"{phase}: started" in done.out for phase in ("setup", "research", "questions"))
    assert len(set(refine.calls)) == len(refine.calls)


@pytest.mark.row("R1")
def test_repeating_an_idea_mentions_the_waiting_run(refine: Refinement) -> None:
    first = skillrun("refine", IDEA, "--script", refine.script(()))
    again = skillrun("refine", IDEA, "--script", refine.script(()))
    slug = "an-app-that-finds-a-quiet-place-to-work"
    command = f"`skillrun resume {slug} --script replies.yaml`"
    assert f"note: the run `{slug}` has the same request and is waiting; {command} resumes it" in again.err
    assert "note: " not in first.err


@pytest.mark.row("R5")
def test_without_reports_there_is_no_research_pause(refine: Refinement) -> None:
    assert refine.begin("standard", (), "--no-reports").code == 75
    assert refine.state()["phase"] == ["answers"]
    assert refine.text("research/agenda.md")


@pytest.mark.slow
@pytest.mark.row("R5")
def test_a_prepared_answer_continues_without_reports(refine: Refinement) -> None:
    refine.begin("standard")
    slow = [{"address": "refine/questions/proposals/*", "fail": "budget"}]
    refine.resume(slow, reports="go on without it")
    refine.resume()
    assert refine.state()["phase"] == ["answers"]
    assert refine.summary("research")["outputs"]["reports"] == []


@pytest.mark.slow
@posix
@pytest.mark.row("R5")
def test_interactive_asks_the_same_questions_in_the_terminal(refine: Refinement) -> None:
    refine.config(questions={"most": {"standard": 2}})
    terminal = Terminal(
        "refine", IDEA, "--mode", "standard", "--name", NAME, "--script", refine.script(()), "--interactive"
    )
    terminal.until("the files are there")
    terminal.type("2\r")
    terminal.until("noisy hour")
    terminal.type("1\r")
    terminal.until("students before")
    terminal.type("2\r")
    terminal.until("folder: ")
    assert terminal.end() == 0, terminal.seen
    assert not refine.form().exists()
    log = refine.text("decision-log.md")
    assert "| D-1 | Everybody gets one early |" in log
    assert "| D-2 | Only after the summer ends |" in log


@pytest.mark.row("R5")
def test_interactive_without_a_terminal_is_rejected_before_the_run_starts(refine: Refinement) -> None:
    done = refine.begin("rapid", (), "--interactive")
    assert (done.code, "no terminal is available" in done.err) == (2, True)
    assert not refine.folder.exists()


@pytest.mark.row("R6")
def test_the_questions_file_has_priority_section_perspectives_options_and_an_answer_line(
    refine: Refinement,
) -> None:
    refine.begin()
    text = refine.form().read_text()
    assert text.count("\n## Q") == len(QUESTIONS)
    assert "CRITICAL · Problem" in text
    assert "> What does a noisy hour cost a translator today?" in text
    assert "product-strategist: It decides problem." in text
    assert "Everybody gets one early" in text
    assert text.count("\nAnswer:") == len(QUESTIONS)


@pytest.mark.slow
@pytest.mark.row("R6")
def test_open_questions_are_counted_and_are_not_decisions(refine: Refinement) -> None:
    refine.begin()
    refine.fill(skip=[2, 5])
    refine.resume([{"address": "refine/answers/missing/*", "data": analysis()}], next_mode="draft now")
    summary = refine.summary("answers")
    flags = summary["flags"]
    assert (flags["questions_answered"], flags["unanswered"], flags["completion_rate"]) == (4, 2, 66)
    assert len(refine.state()["state"]["decisions"]) == 4
    log = refine.text("decision-log.md")
    assert "## Left open in this round" in log
    assert "- Q-2 (CRITICAL): Who comes first" in log


@pytest.mark.slow
@pytest.mark.row("R6")
def test_an_edited_file_is_never_overwritten(refine: Refinement) -> None:
    refine.begin()
    form = refine.form()
    assert refine.resume().code == 75
    edited = form.read_text().replace("Answer:", "Answer: [x] or so", 1).replace("- [ ] A.", "- [?] A.", 1)
    form.write_text(edited)
    done = refine.resume()
    assert done.code == 75
    assert "neither ticked nor empty" in done.out
    assert str(form) in done.out
    assert form.read_text() == edited


@pytest.mark.row("R6")
@pytest.mark.finding("FT26")
@pytest.mark.parametrize("encoding", ["latin-1", "cp1252"])
def test_a_form_that_is_not_utf_8_waits_with_a_message(refine: Refinement, encoding: str) -> None:
    refine.begin()
    refine.fill(answer="Zehn Plätze für alle.")
    text = refine.form().read_text(encoding="utf-8").replace("·", "-")
    refine.form().write_bytes(text.encode(encoding, "replace"))
    done = refine.resume()
    assert done.code == 75, done.out + done.err
    assert "QUESTIONS-001.md" in done.out
    assert "UTF-8" in done.out
    assert refine.prompts("refine/answers/*") == []
    refine.form().write_text(text, encoding="utf-8")
    assert refine.resume().code == 0


@pytest.mark.row("R5", "R6")
def test_a_run_with_unclear_answers_waits_and_guesses_nothing(refine: Refinement) -> None:
    refine.begin()
    form = refine.form()
    form.write_text(form.read_text().replace("- [ ]", "- [x]"))
    done = refine.resume()
    assert done.code == 75
    assert refine.state()["state"]["decisions"] == []
    assert len(refine.prompts("refine/answers/*")) == 0


@pytest.mark.slow
@pytest.mark.row("R5")
def test_a_copied_run_folder_resumes_in_its_new_place(
    refine: Refinement, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (refine.project / "old.md").write_text("# Quiet\n\n## Problem\n\nNoise.\n")
    refine.begin("standard", (), "--prd", "old.md")
    copy = Refinement(tmp_path / "elsewhere")
    copy.project.mkdir()
    shutil.copytree(refine.folder, copy.folder)
    shutil.rmtree(refine.project)
    monkeypatch.chdir(copy.project)
    copy.report()
    assert copy.resume().code == 75
    copy.fill()
    done = copy.resume()
    assert done.code == 0, done.out
    assert copy.state()["project"] == str(copy.project)
    assert set(SECTIONS) <= {one["section"] for one in copy.state()["state"]["decisions"]}
    addresses = [address for address, _ in copy.calls]
    assert len(addresses) == len(set(addresses))


@pytest.mark.slow
@pytest.mark.row("R5")
def test_the_suggested_resume_command_works_in_the_current_folder(refine: Refinement) -> None:
    refine.runs = "elsewhere/deep"
    done = refine.begin("rapid", (), "--out", refine.runs)
    assert f"`skillrun resume {refine.folder} --script " in done.out.splitlines()[-1]
    refine.fill()
    assert skillrun("resume", str(refine.folder), "--script", refine.script(())).code == 0


@pytest.mark.slow
@pytest.mark.row("R8")
def test_a_loop_back_asks_for_the_mode_and_starts_a_new_round_of_questions(refine: Refinement) -> None:
    refine.begin()
    refine.fill()
    rules = [{"address": "refine/answers/missing/*", "data": analysis("loop_questions", "GAP-1-1 Workflows")}]
    done = refine.resume(rules)
    assert done.code == 75
    assert "In which mode" in done.out
    assert refine.state()["round"] == 1
    fresh = {"questions": [{**QUESTIONS[2], "text": "Who locks up when the last guest has gone?"}]}
    done = refine.resume([*rules, {"address": "refine/questions/proposals/*", "data": fresh}], next_mode="rapid")
    assert done.code == 75
    state = refine.state()
    assert (state["round"], state["phase"], state["state"]["mode"]) == (2, ["answers"], "rapid")
    assert refine.form(2).is_file()
    assert refine.summary("answers", 1)["flags"]["next_action"] == "loop_questions"


@pytest.mark.slow
@pytest.mark.row("R8")
def test_a_loop_back_to_research_covers_the_gaps_and_waits_for_new_reports(refine: Refinement) -> None:
    refine.begin("standard")
    refine.report()
    refine.resume()
    refine.fill()
    rules = [{"address": "refine/answers/missing/*", "data": analysis("loop_research", "GAP-1-1 Revenue Model")}]
    done = refine.resume(rules, next_mode="standard")
    assert done.code == 75
    state = refine.state()
    assert (state["round"], state["phase"]) == (2, ["research"])
    assert "research/reports/round-2/*.md" in done.out
    prompt = refine.prompts("refine/research/agenda/*")[-1]
    assert "Missing: GAP-1-1 Revenue Model." in prompt
    assert refine.resume((), reports="none").code == 0, refine.done.out
    listed = re.findall(r"^- `(research/[^`]+)`", refine.text("summary.md"), re.MULTILINE)
    assert (listed, (refine.folder / "round-1/research/digest.md").is_file()) == ([], True)


@pytest.mark.row("R8")
def test_a_round_without_new_questions_continues_to_the_draft(refine: Refinement) -> None:
    rules = [
        {"address": "refine/questions/proposals/*", "data": {"questions": []}},
        {"address": "refine/answers/missing/*", "data": analysis("loop_questions", "GAP-1-1 Workflows")},
    ]
    assert refine.begin("rapid", rules).code == 0
    assert refine.summary("answers")["outputs"]["next_action"] == "proceed"
    assert refine.summary("answers")["flags"]["next_action_because"] == "nothing was left to ask"


@pytest.mark.slow
@pytest.mark.row("R8")
def test_an_open_critical_question_pauses_the_run_before_the_draft(refine: Refinement) -> None:
    refine.begin()
    refine.fill(skip=[1])
    done = refine.resume()
    assert done.code == 75
    assert "1 critical question(s) have no answer" in done.out
    assert refine.resume((), next_mode="draft now").code == 0
    assert refine.summary("answers")["flags"]["forced"] is True


@pytest.mark.slow
@pytest.mark.row("R11")
@pytest.mark.parametrize(("answer", "rounds"), [("force the draft", 1), ("continue", 2)])
def test_at_max_rounds_the_user_forces_the_draft_or_continues(refine: Refinement, answer: str, rounds: int) -> None:
    refine.config(limits={"max_rounds": 1})
    refine.begin()
    refine.fill()
    rules = [
        {"address": "refine/answers/missing/*", "data": analysis("loop_questions", "GAP-1-1 Workflows"), "times": 1}
    ]
    done = refine.resume(rules)
    assert "Round 1 of 1" in done.out
    fresh = {"questions": [{**QUESTIONS[2], "text": "Who locks up when the last guest has gone?"}]}
    refine.resume(
        [*rules, {"address": "refine/questions/proposals/*", "data": fresh}], breaker=answer, next_mode="rapid"
    )
    assert refine.state()["round"] == rounds
    assert refine.state()["status"] == ("completed" if rounds == 1 else "waiting")


@pytest.mark.slow
@pytest.mark.row("R11")
def test_an_unready_document_at_max_rounds_may_be_forced(refine: Refinement) -> None:
    refine.config(limits={"max_rounds": 1})
    refine.begin()
    refine.fill()
    rules = [{"address": one, "data": scores(1)} for one in ("refine/draft/scores/*", RESCORED)]
    done = refine.resume(rules)
    assert "Round 1 of 1, and the document is not ready (5 of 20" in done.out
    assert refine.resume(rules, breaker="force the draft").code == 0
    summary = refine.summary("draft")
    assert summary["flags"]["forced"] is True
    assert "PRD.md is kept although it is not ready: 5 of 20, and 12 are needed." in summary["quality_warnings"]
