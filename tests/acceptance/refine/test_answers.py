"""A user's answers in refine: open, long, late and corrected ones, and how refine reports them."""

import json
import re

import pytest

from tests.acceptance.refine.conftest import IDEA, NAME, PRD, Refinement, correct, question, rewrite, scores, skillrun

NOT_READY = [{"address": "refine/draft/scores/*", "data": scores(1)}]
ONE = {"questions": [question("Workflows", "Who locks up at night?")]}
FRESH = [{"address": f"refine/questions/{step}/*", "data": ONE} for step in ("proposals", "merged")]


def change(refine: Refinement, place: str, old: str, new: str) -> None:
    path = refine.folder / place
    text = path.read_text()
    assert old in text, text
    path.write_text(text.replace(old, new, 1))


@pytest.mark.slow
@pytest.mark.row("R6", "R8")
@pytest.mark.finding("FR1")
def test_a_placeholder_answer_decides_nothing_is_logged_and_may_be_asked_again(refine: Refinement) -> None:
    refine.begin()
    refine.fill(answer="TBD")
    done = refine.resume()
    assert done.code == 75
    assert "6 critical question(s) have no answer" in done.out
    assert "answers: left open: Q-1 = TBD, Q-2 = TBD" in done.out
    assert refine.state()["state"]["decisions"] == []
    assert "What does a noisy hour cost a translator today? (left open: TBD)" in refine.text("decision-log.md")
    assert "No answer. (TBD)" in refine.prompts("refine/answers/missing/*")[0]
    assert refine.resume((), next_mode="rapid").code == 75
    assert refine.form(2).read_text().count("\n## Q") == 3, "later rounds ask fewer questions"


@pytest.mark.slow
def test_answered_and_open_questions_are_reported_once_for_their_phase(refine: Refinement) -> None:
    refine.begin()
    refine.fill(answer="TBD", skip=[3, 4, 5, 6])
    change(refine, "working/QUESTIONS-001.md", "Answer: TBD", "Answer: Ten seats.")
    assert refine.resume().code == 75
    shown = skillrun("show", str(refine.folder), "--json").json["happened"]
    texts = [one["text"] for one in shown if one["phase"] == "answers"]
    assert texts[:2] == ["answered: Q-1 = Ten seats.", "left open: Q-2 = TBD"]


@pytest.mark.slow
@pytest.mark.finding("FR1")
def test_a_prepared_placeholder_leaves_the_question_open(refine: Refinement) -> None:
    refine.begin()
    refine.resume((), Q="Ten seats.", Q_2="n/a", next_mode="draft now")
    flags = refine.summary("answers")["flags"]
    assert (flags["questions_answered"], flags["unanswered"]) == (5, 1)


@pytest.mark.slow
@pytest.mark.finding("FR2")
def test_long_answers_reach_the_analyst_and_the_writer_in_full(refine: Refinement) -> None:
    refine.begin()
    text = refine.form().read_text()
    for number in range(6):
        words = f"{'people sit by the window ' * 66}end{number}"
        text = text.replace("\nAnswer:\n", f"\nAnswer: {words}\n", 1)
    refine.form().write_text(text)
    assert refine.resume().code == 0, refine.done.out
    for pattern in ("refine/answers/missing/*", "refine/draft/prd/*"):
        (prompt,) = refine.prompts(pattern)
        assert all(f"end{number}" in prompt for number in range(6))
        assert "left out here for length" not in prompt
    assert refine.warnings("answers") == []


@pytest.mark.slow
@pytest.mark.row("R5", "R6")
@pytest.mark.finding("FR3")
def test_a_form_may_be_filled_in_step_by_step(refine: Refinement) -> None:
    refine.begin()
    refine.fill(skip=[2, 3, 4, 5, 6])
    assert refine.resume().code == 75
    assert refine.summary("answers")["flags"]["pause_type"] == "interactive"
    sent = len(refine.calls)
    change(refine, "working/QUESTIONS-001.md", "Answer: Ten seats.", "Answer: Twelve seats.")
    refine.fill(skip=[1])
    done = refine.resume()
    assert done.code == 0, done.out
    changes = "Q-1 changed, Q-2 new, Q-3 new, Q-4 new, Q-5 new, Q-6 new"
    assert f"working/QUESTIONS-001.md was changed after it was read: {changes}" in done.out
    assert refine.summary("answers")["flags"]["questions_answered"] == 6
    assert not any(address.startswith("refine/questions/") for address, _ in refine.calls[sent:])
    assert [one["answer"] for one in refine.state()["state"]["decisions"]] == ["Twelve seats.", *["Ten seats."] * 5]


@pytest.mark.slow
@pytest.mark.row("R5", "R15")
@pytest.mark.finding("FR3")
def test_late_answers_and_corrections_reach_the_remaining_phases(refine: Refinement) -> None:
    refine.begin("standard")
    refine.report()
    refine.resume()
    refine.fill(skip=[4])
    assert refine.resume(NOT_READY, next_mode=["draft now"]).code == 75, refine.done.out
    drafts = len(refine.prompts("refine/draft/prd/*"))
    assert refine.state()["phase"] == ["draft"]

    refine.form().write_text(refine.form().read_text().replace("\nAnswer:\n", "\nAnswer: No, never without.\n", 1))
    change(refine, "decision-log.md", "| D-1 | Ten seats. |", "| D-1 | Eleven seats. |")
    sent = len(refine.calls)
    done = refine.resume(NOT_READY)
    assert "working/QUESTIONS-001.md was changed after it was read: Q-4 new" in done.out
    prompt = refine.prompts("refine/draft/prd/*")[drafts]
    assert "| D-1 | Eleven seats. |" in prompt
    assert "| D-6 | No, never without. |" in prompt
    assert "| D-6 | No, never without. |" in refine.text("decisions-since.md")
    assert all(address.startswith("refine/draft/") for address, _ in refine.calls[sent:])

    change(refine, "research/digest.md", refine.text("research/digest.md"), "Libraries close at four.")
    refine.resume([*FRESH, *NOT_READY], next_mode=["standard"])
    prompt = refine.prompts("refine/questions/proposals/*")[-1]
    assert "Libraries close at four." in prompt
    assert "| D-1 | Eleven seats. |" in prompt
    refine.fill(2, "The last guest.")
    assert refine.resume([{"address": "refine/draft/prd/*", "text": PRD + "\nLater.\n"}]).code == 0, refine.done.out
    log = refine.text("decision-log.md")
    rows = re.findall(r"^\| (D-\d+) \| ([^|]+) \|", log, re.MULTILINE)
    assert [name for name, _ in rows] == [f"D-{at}" for at in range(1, 8)]
    assert [rows[0][1], rows[5][1], rows[6][1]] == ["Eleven seats.", "No, never without.", "The last guest."]
    assert "Libraries close at four." in refine.prompts("refine/draft/prd/*")[-1]


@pytest.mark.slow
@pytest.mark.finding("FR3")
def test_an_unclear_change_is_reported_and_the_earlier_answer_is_used(refine: Refinement) -> None:
    refine.begin()
    refine.fill()
    assert refine.resume(NOT_READY).code == 75
    change(refine, "working/QUESTIONS-001.md", "Answer: Ten seats.", "Answer: Z")
    done = refine.resume(NOT_READY)
    assert "now has unclear answers, so the earlier answers are used" in done.out
    assert "Q1: `Z`" not in refine.text("decision-log.md")
    assert refine.state()["state"]["decisions"][0]["answer"] == "Ten seats."


@pytest.mark.slow
@pytest.mark.row("R5", "R8")
@pytest.mark.finding("FR3")
def test_a_withdrawn_decision_no_longer_counts_is_reported_and_may_be_asked_again(
    refine: Refinement,
) -> None:
    refine.begin()
    refine.fill()
    change(refine, "working/QUESTIONS-001.md", "Answer: Ten seats.", "Answer: Forty seats.")
    assert refine.resume(NOT_READY).code == 75, refine.done.out
    text = refine.state()["state"]["decisions"][0]["text"]
    drafts = len(refine.prompts("refine/draft/prd/*"))
    assert "| D-1 | Forty seats. |" in refine.prompts("refine/draft/prd/*")[0]

    change(refine, "working/QUESTIONS-001.md", "Answer: Forty seats.", "Answer: TBD")
    done = refine.resume(NOT_READY)
    assert "working/QUESTIONS-001.md was changed after it was read: Q-1 open again" in done.out
    prompt = refine.prompts("refine/draft/prd/*")[drafts]
    assert "Forty seats." not in prompt
    withdrawn = f"| D-7 | taken back; open again (TBD) | {text} | Q-1 |"
    assert withdrawn in prompt
    assert "| D-2 | Ten seats. |" in prompt
    assert withdrawn in refine.text("decisions-since.md")

    refine.resume(NOT_READY, next_mode=["rapid"])
    assert text in refine.form(2).read_text()
    prompt = refine.prompts("refine/questions/proposals/*")[-1]
    assert f"Taken back by the person, and open again:\n- {text}" in prompt
    assert "Forty seats." not in prompt
    refine.fill(2, "Forty seats.")
    assert refine.resume([{"address": "refine/draft/prd/*", "text": PRD + "\nLater.\n"}]).code == 0, refine.done.out
    log = refine.text("decision-log.md")
    assert withdrawn in log
    assert re.search(r"^\| D-8 \| Forty seats\. \| " + re.escape(text), log, re.MULTILINE)
    prompt = refine.prompts("refine/draft/prd/*")[-1]
    assert "| D-8 | Forty seats. |" in prompt
    assert "| Decisions | 6 |" in refine.text("summary.md")


@pytest.mark.slow
@pytest.mark.finding("FR4")
def test_notes_in_the_form_reach_the_analyst_the_writer_and_the_log(refine: Refinement) -> None:
    refine.begin()
    refine.fill()
    path = refine.form()
    path.write_text(path.read_text().replace("# Questions\n", "# Questions\n\nWe have no money at all.\n", 1))
    assert refine.resume().code == 0
    for pattern in ("refine/answers/missing/*", "refine/draft/prd/*"):
        assert "We have no money at all." in refine.prompts(pattern)[0]
    assert "We have no money at all." in refine.text("decision-log.md")


@pytest.mark.slow
@pytest.mark.finding("FR5")
def test_the_summary_counts_the_calls_of_all_rounds_and_flags_include_zeros(refine: Refinement) -> None:
    refine.begin()
    refine.fill()
    refine.resume([*FRESH, *NOT_READY], next_mode=["rapid"])
    refine.fill(2)
    assert refine.resume([{"address": "refine/draft/prd/*", "text": f"{PRD}\nNew.\n"}]).code == 0, refine.done.out
    assert f"| Calls | {len(refine.calls)} |" in refine.text("summary.md")
    assert refine.summary("answers")["flags"]["unanswered"] == 0


@pytest.mark.slow
@pytest.mark.finding("FR6")
def test_citing_a_missing_decision_causes_a_warning(refine: Refinement) -> None:
    refine.begin()
    refine.fill()
    wrong = f"{PRD}\nIt is so [D-77, D-2].\n"
    assert refine.resume([{"address": "refine/draft/prd/*", "text": wrong}, rewrite(wrong), correct()]).code == 0
    assert refine.warnings("draft") == ["PRD.md cites decisions that are not there: D-77."]
    assert "D-77" in refine.text("summary.md")


@pytest.mark.finding("FR7")
def test_an_empty_idea_is_rejected_before_the_run_starts(refine: Refinement) -> None:
    for idea in ("", " \n"):
        done = skillrun("refine", idea, "--name", NAME, "--script", refine.script(()))
        assert (done.code, "`idea` is empty" in done.err) == (2, True)
    assert not refine.folder.exists()


@pytest.mark.slow
@pytest.mark.finding("FR7")
def test_ignored_reports_are_listed_and_hidden_files_do_not_count(refine: Refinement) -> None:
    refine.begin("standard")
    refine.report("fork", "research/reports/._a.md")
    assert refine.resume().code == 75
    assert refine.state()["phase"] == ["research"]
    for name in ("notes.txt", "B.MD", "deep/c.md"):
        refine.report("x", f"research/reports/{name}")
    (refine.folder / "research" / "reports" / "linked.md").symlink_to(refine.project / "elsewhere.md")
    refine.report("Seats are empty.")
    assert refine.resume().code == 75
    warned = " ".join(refine.warnings("research"))
    assert all(f"research/reports/{name}` " in warned for name in ("notes.txt", "B.MD", "deep/c.md", "linked.md"))
    assert "._a" not in warned
    assert "research/reports/one.md" not in warned
    assert refine.summary("research")["outputs"]["reports"] == ["research/reports/one.md"]
    refine.report("Too late.", "research/reports/two.md")
    done = refine.resume()
    assert "research/reports/two.md` arrived after the files that match `research/reports/*.md` were read" in done.out


@pytest.mark.finding("FR7")
def test_an_empty_document_is_not_extended(refine: Refinement) -> None:
    (refine.project / "old.md").write_text(" \n")
    refine.begin("rapid", (), "--prd", "old.md")
    assert refine.state()["state"]["prd_mode"] == "NEW"
    assert refine.warnings("setup") == ["old.md is empty: there is nothing to extend, and a new document is written."]
    assert not (refine.folder / "existing-prd.md").exists()
    assert refine.prompts("refine/setup/decided/*") == []


@pytest.mark.slow
@pytest.mark.finding("FR8")
def test_none_is_an_answer_when_it_is_the_default_of_a_step(refine: Refinement) -> None:
    refine.begin("standard")
    assert refine.resume((), reports="none").code == 75
    assert refine.state()["phase"] == ["answers"]


@pytest.mark.slow
@pytest.mark.finding("FR9")
def test_a_pending_question_is_shown_once_with_its_choices_and_the_form_is_listed(refine: Refinement) -> None:
    done = refine.begin()
    assert done.out.count("questions are waiting in") == 1
    assert "What does a noisy hour" not in done.out
    assert "  working/QUESTIONS-001.md" in done.out.splitlines()
    assert f"next: fill in {refine.form()}, then" in refine.resume().out
    refine.fill(skip=[1])
    done = refine.resume()
    assert done.out.count("In which mode") == 1
    assert "(rapid, standard, advanced, complete, draft now)" in done.out
    shown = json.loads(skillrun("show", NAME, "--json").out)
    assert shown["forms"] == ["working/QUESTIONS-001.md"]
    assert IDEA in shown["inputs"]["idea"]
