"""Findings change a requirements document, and each of its lines cites its source."""

import json
from typing import Any

import pytest

from tests.acceptance.refine.conftest import (
    CITED,
    CORRECTED,
    IDEA,
    PRD,
    QUESTIONS,
    REASON,
    RESCORED,
    Refinement,
    Rule,
    analysis,
    correct,
    question,
    rewrite,
    scores,
)  # fmt: skip

REWRITTEN = "refine/draft/revising#*/revision/*"


def complete(refine: Refinement, *rules: Rule, mode: str = "rapid", idea: str = "", skip: tuple[int, ...] = ()) -> None:
    """Complete a run, with these replies before the usual ones."""
    refine.begin(mode, rules, *(("--no-reports",) if mode != "rapid" else ()), **({"idea": idea} if idea else {}))
    refine.fill(skip=skip)
    assert refine.resume(rules).code == 0, refine.done.out


def prd(text: str) -> Rule:
    return {"address": "refine/draft/prd/*", "text": text}


@pytest.mark.slow
@pytest.mark.row("Q2")
@pytest.mark.parametrize("points", [3, 4], ids=["conditional", "ready"])
def test_judges_findings_go_to_the_author_and_kept_points_are_reported(refine: Refinement, points: int) -> None:
    other = {**REASON, "wrong": "Revenue has no number at all.", "place": "Revenue Model"}
    better = PRD.replace("Text", "A lamp goes out")
    found = {"address": "refine/draft/scores/*", "data": {**scores(points), "reasons": [REASON, other]}}
    complete(refine, found, rewrite(better, "P-1", points=2))
    (prompt,) = refine.prompts(REWRITTEN)
    task = prompt.rpartition("# Points to answer")[2]
    assert all(one["wrong"] in task for one in (REASON, other))
    assert "Text [D-1" in prompt, "the author gets the text to fix"
    assert refine.text("PRD.md").startswith(better.strip())
    summary = refine.text("summary.md")
    assert "| What was found | 1 changed, 1 kept |" in summary
    assert "- Revenue Model: Revenue has no number at all. Kept: P-1 it is." in summary
    assert "late guest" not in summary


@pytest.mark.slow
@pytest.mark.row("Q2", "Q7")
def test_a_document_without_findings_is_written_once(refine: Refinement) -> None:
    complete(refine)
    assert refine.prompts(REWRITTEN) == []
    assert refine.warnings("draft") == []
    assert "What was found" not in refine.text("summary.md")


@pytest.mark.slow
@pytest.mark.row("Q2")
def test_the_next_round_gets_the_rejected_draft_with_the_reasons(refine: Refinement) -> None:
    refine.begin()
    refine.fill()
    rules = [{"address": "refine/draft/scores/*", "data": scores(1), "times": 1}]
    fresh = [{**QUESTIONS[0], "text": "Who turns off the lamps in the last room?"}]
    refine.resume(
        [*rules, {"address": "refine/questions/proposals/*", "data": {"questions": fresh}}], next_mode="rapid"
    )
    assert refine.prompts(REWRITTEN) == [], "the author of the next round fixes it"
    refine.fill(2)
    assert refine.resume().code == 0
    last = refine.prompts("refine/draft/prd/*")[-1]
    assert "# Why that draft was not enough" in last
    assert REASON["settled_by"] in last


LINES = {
    "- It is quiet.": "Nothing carries the line that begins: - It is quiet.",
    "- It is warm [F-9].": "PRD.md cites what stands nowhere as an item of its own: F-9, A-9.",
    "- It is light [A-9].": "F-9, A-9.",
    "- A-1: It is dry.": "No line rests on the assumptions A-1; cite each where it is used.",
    "- It is fair, etc. [request]": 'Nobody can check "etc" in the line: - It is fair, etc. [request]',
    "- It is near. [request]": "",
    "| Who | What |\n| --- | --- |\n| Guests | Places [D-2] |\n\nSo it goes:\n\n### Guests\n": "",
}


@pytest.mark.slow
@pytest.mark.row("Q3")
def test_each_line_of_the_document_is_checked(refine: Refinement) -> None:
    complete(refine, prd("\n".join((PRD, *LINES))), rewrite(points=4))
    (prompt,) = refine.prompts(REWRITTEN)
    points = prompt.rpartition("# Points to answer")[2].partition("</untrusted")[0]
    assert all(found in points for found in LINES.values())
    assert points.count("- P-") == 4, "and nothing else"
    assert refine.warnings("draft") == [], "the rewrite fixed it"


@pytest.mark.slow
@pytest.mark.row("Q3")
def test_remaining_findings_are_corrected_once_more_and_then_reported(refine: Refinement) -> None:
    wrong = f"{PRD}\n- It is quiet.\n- It is TBD [D-1].\n"
    found = {"address": "refine/draft/scores/*", "data": scores(3)}
    half = f"{PRD}\n- It is quiet.\n"
    complete(refine, prd(wrong), found, correct(("- It is loud.", "- It is quiet. [D-1]")), rewrite(half, points=3))
    (first,) = (one.rpartition("# Points to answer")[2] for one in refine.prompts(REWRITTEN))
    (second,) = (one.rpartition("# Points to answer")[2] for one in refine.prompts(CORRECTED))
    assert all(("late guest" in first, "TBD" in first, "It is quiet" in first))
    assert not any(("late guest" in second, "TBD" in second))
    assert refine.warnings("draft") == [
        "Nothing carries the line that begins: - It is quiet.",
        "1 of the corrections found no place in PRD.md: - It is quiet. [D-1]",
    ]
    assert "Nothing carries the line" in refine.text("summary.md")


@pytest.mark.slow
@pytest.mark.row("Q2", "Q7")
def test_points_kept_with_a_reason_are_not_sent_again(refine: Refinement) -> None:
    wrong = f"{PRD}\n- It is quiet.\n"
    complete(refine, prd(wrong), rewrite(wrong, "P-1"))
    assert len(refine.prompts(REWRITTEN)) == 1
    assert refine.warnings("draft") == []
    assert "- Nothing carries the line that begins: - It is quiet. Kept: P-1 it is." in refine.text("summary.md")


@pytest.mark.slow
@pytest.mark.row("Q2")
def test_a_fragment_does_not_replace_the_document(refine: Refinement) -> None:
    lamp = ("## Workflows\n\nText", "## Workflows\n\nA late guest waits. Text")
    found = {"address": "refine/draft/scores/*", "data": scores(3)}
    complete(refine, found, rewrite("# Quiet\n\nA lamp. [D-1]\n"), correct(lamp))
    assert refine.text("PRD.md").startswith(PRD.strip().replace(*lamp)), "the correction replaces the rewrite"
    assert REASON["wrong"] in refine.prompts(CORRECTED)[0]
    assert refine.prompts(RESCORED) == []
    assert refine.warnings("draft") == ["The revised document lacks more than half of the draft, so the draft is kept."]
    assert "| What was found | 1 changed, 0 kept |" in refine.text("summary.md")


@pytest.mark.slow
@pytest.mark.row("Q3")
def test_uncited_answers_and_lost_amounts_are_reported(refine: Refinement) -> None:
    few = PRD.replace(CITED, "[D-1, D-2]")
    complete(refine, prd(few), rewrite(points=2), idea="Quiet places for at most 20 euros a month")
    (prompt,) = refine.prompts(REWRITTEN)[:1]
    task = prompt.rpartition("# Points to answer")[2]
    assert "No line rests on D-6, D-5, D-4, D-3." in task
    assert "Amounts of the request that PRD.md does not have in figures: 20 euros." in task


@pytest.mark.slow
@pytest.mark.row("Q3", "Q6")
def test_the_document_ends_with_its_cited_sources(refine: Refinement) -> None:
    digest = "## Known now\n- F-1: Halls are empty [one].\n- F-2: Halls are cold [one].\n\n## Contradicted\n- F-2.\n"
    few = PRD.replace(CITED, "[D-2, F-2]")
    rules = [{"address": "refine/research/digest/*", "text": digest}, prd(few), rewrite(few)]
    refine.begin("standard", rules)
    refine.report()
    refine.resume(rules)
    assert "# What was asked" in refine.prompts("refine/research/digest/*")[0]
    refine.fill()
    assert refine.resume(rules).code == 0
    sources = refine.text("PRD.md").partition("\n## Sources\n")[2]
    assert [line[:7] for line in sources.splitlines() if line.startswith("- ")] == ["- `[req", "- F-2: "]
    assert [line for line in sources.splitlines() if line.startswith("| D")] == ["| D-2 | Ten seats. |"]
    assert f"> {IDEA}" in sources, "the document includes the request"


@pytest.mark.slow
@pytest.mark.row("Q5")
def test_recommended_answers_are_shown_and_are_not_decisions(refine: Refinement) -> None:
    bare = {key: value for key, value in QUESTIONS[1].items() if key not in ("recommended", "depends")}
    questions = [QUESTIONS[0], {**bare, "priority": "HIGH"}, *({**one, "priority": "HIGH"} for one in QUESTIONS[2:])]
    rules = [{"address": "refine/questions/proposals/*", "data": {"questions": questions}}]
    refine.begin("rapid", rules)
    form = refine.form().read_text()
    assert "> - Recommended: Only after the summer ends - the request names no date" in form
    assert "> - What depends on it: With another answer problem is written otherwise." in form
    assert form.count("Recommended:") == len(QUESTIONS) - 1
    (warning,) = refine.warnings("questions")
    assert warning.startswith("1 question(s) come without a recommended answer")
    refine.fill(skip=[3])
    assert refine.resume(rules).code == 0
    open_one = QUESTIONS[2]["text"]
    assert f"{open_one}\nNo answer. Recommended was: Only after" in refine.prompts("refine/answers/missing/*")[0]
    (writer,) = refine.prompts("refine/draft/prd/*")
    open_questions = writer.partition("# Questions that the person left open")[2].partition("\n# ")[0]
    assert open_one in open_questions
    assert QUESTIONS[0]["text"] not in open_questions
    assert "Only after the summer" not in json.dumps(refine.state()["state"]["decisions"])
    assert "| Decisions | 5 |" in refine.text("summary.md")
    assert warning not in refine.text("summary.md"), "it is about the questions"


@pytest.mark.slow
@pytest.mark.row("Q6")
def test_the_document_begins_with_decisions_and_its_length_is_reported_without_a_warning(
    refine: Refinement,
) -> None:
    long: dict[str, Any] = {"prd": {"words": 60}}
    refine.config(**long)
    complete(refine)
    (writer, *_) = refine.prompts("refine/draft/prd/*")
    heads = [
        line.split("`")[1] for line in writer.rpartition("# Current task")[2].splitlines() if line.startswith("- `")
    ]
    assert heads[:5] == ["Executive Summary", "Decisions", "Open Questions", "Out of Scope", "Problem"]
    assert "60 words" not in writer, "a word limit would cost cases first"
    assert refine.prompts(REWRITTEN) == []
    assert refine.warnings("draft") == []
    assert any(one.startswith("PRD.md has ") and one.endswith("60 were its measure.") for one in refine.messages())


@pytest.mark.row("Q7")
def test_members_see_the_open_research_agenda(refine: Refinement) -> None:
    agenda = {
        "address": "refine/research/agenda/*",
        "text": "# Agenda\n\n## Who sits where?\n\nWhy\n\n## Not worth it\n",
    }
    refine.begin("standard", [agenda], "--no-reports")
    prompts = refine.prompts("refine/questions/proposals/*")
    assert all("# What nobody has looked up\n" in prompt and "Who sits where?" in prompt for prompt in prompts)
    assert not any("Not worth it" in prompt for prompt in prompts)


@pytest.mark.slow
@pytest.mark.row("Q2")
def test_a_rewritten_document_is_judged_again_and_remaining_findings_are_reported(refine: Refinement) -> None:
    still = {**REASON, "wrong": "It is unclear who locks up."}
    found = {"address": "refine/draft/scores/*", "data": scores(3)}
    again = {"address": RESCORED, "data": {**scores(3, users=4), "reasons": [still]}}
    complete(
        refine,
        found,
        again,
        rewrite(PRD.replace("Text", "A lamp goes out")),
        {"address": CORRECTED, "fail": "overloaded"},
    )
    (prompt,) = refine.prompts(RESCORED)
    assert "A lamp goes out [D-1" in prompt
    assert "late guest" not in prompt
    summary = refine.text("summary.md")
    assert "| Verdict | READY |" in summary
    assert "| Score | 16" in summary
    assert "- Workflows: It is unclear who locks up. Say it." in summary.partition("## What judges still find")[2]


@pytest.mark.slow
@pytest.mark.row("Q2")
def test_without_judges_for_the_rewrite_the_summary_shows_the_score_of_the_draft(refine: Refinement) -> None:
    found = {"address": "refine/draft/scores/*", "data": scores(3)}
    complete(refine, found, {"address": RESCORED, "fail": "overloaded"})
    assert "| Score, before the revision | 15" in refine.text("summary.md")
    assert "| Verdict | CONDITIONAL |" in refine.text("summary.md")


@pytest.mark.slow
@pytest.mark.row("Q3")
def test_a_citation_lost_in_the_rewrite_is_reported(refine: Refinement) -> None:
    found = {"address": "refine/draft/scores/*", "data": scores(3)}
    less = rewrite(PRD.replace(CITED, "[D-1, D-2, D-3, D-4, D-5]"))
    complete(refine, found, less, rewrite())
    assert "No line rests on D-6." in refine.prompts(CORRECTED)[0]


@pytest.mark.row("Q5")
def test_missing_subjects_go_to_the_coordinator_and_uncovered_ones_are_reported(
    refine: Refinement,
) -> None:
    some = [{**one, "subjects": ["volume", "means", "success"]} for one in QUESTIONS]
    more = [{**one, "subjects": ["volume", "means", "success", "law", "limits", "money"]} for one in QUESTIONS]
    rules = [
        {"address": "refine/questions/proposals/*", "data": {"questions": some}},
        {"address": "refine/questions/merged/*", "data": {"questions": more}},
    ]
    refine.begin("standard", rules, "--no-reports")
    (prompt,) = refine.prompts("refine/questions/merged/*")
    assert "No member has asked about money, law, work, limits, exceptions, failure: unless it is settled" in prompt
    warning = "No question is about work, exceptions, failure. The questions can be used all the same."
    assert refine.warnings("questions") == [warning]
    lenses = [one for one in refine.prompts("refine/questions/proposals/*") if "Your lens is the " in one]
    assert len(lenses) == 2


@pytest.mark.row("Q5", "R10")
def test_later_rounds_see_settled_open_and_vague_answers(refine: Refinement) -> None:
    agenda = {"address": "refine/research/agenda/*", "text": "# Agenda\n\n## Who sits where?\n\nWhy\n"}
    gaps = analysis("loop_questions", "GAP-1-1 Workflows")
    gaps["gaps"][0]["assume"] = "A late guest waits."
    gaps |= {"vague": ["Q-2"], "open": [{"id": "Q-3", "what": "who turns the key"}, {"id": "Q-99", "what": "nothing"}]}
    fresh = {"questions": [question("Workflows", "Who locks up at night?")]}
    refine.begin("standard", [agenda], "--no-reports")
    refine.fill(skip=[1])
    form = refine.form()
    form.write_text(form.read_text().replace("\nAnswer:\n", "\nAnswer: Not decided.\n", 1))
    followups = [{"address": f"refine/questions/{one}/*", "data": fresh} for one in ("proposals", "merged")]
    rules = [{"address": "refine/answers/missing/*", "data": gaps}, *followups]
    assert refine.resume(rules, next_mode="standard").code == 75
    assert refine.summary("answers", 1)["flags"]["questions_answered"] == 5
    assert [one["text"] for one in refine.state()["state"]["decisions"]] == [one["text"] for one in QUESTIONS[1:]]
    prompts = [refine.prompts(f"refine/questions/{one}/*")[-1] for one in ("proposals", "merged")]
    for prompt in prompts:
        assert "| D-1 | Ten seats. |" in prompt
        assert "Until then: A late guest waits." in prompt
        assert "Vague answers: Q-2" in prompt
        assert f"Left open by the person:\n- {QUESTIONS[0]['text']}" in prompt
        assert "- Q-3: who turns the key" in prompt
        assert "nothing\n" not in prompt.partition("beside what they answered")[2].partition("#")[0]
        assert "Who sits where?" not in prompt
    assert " · Q-2-1" in refine.form(2).read_text(), "question ids are unique across rounds"
    refine.fill(2)
    assert refine.resume(followups).code == 0
    writer = refine.prompts("refine/draft/prd/*")[0]
    assert "who turns the key" in writer.partition("# What answers left open beside what they settle")[2]
    assert "Only after the summer ends - the request" not in writer.partition("# Known gaps")[2]
    assert "no question used" not in refine.done.out


@pytest.mark.slow
@pytest.mark.row("Q7")
def test_prompts_of_a_workflow_without_records_do_not_mention_them(refine: Refinement) -> None:
    complete(refine, {"address": "refine/draft/scores/*", "data": scores(3)})
    words = ("# Accumulated context", "on record", "HIGH confidence")
    assert not any(word in prompt for prompt in refine.prompts() for word in words)


@pytest.mark.slow
@pytest.mark.row("Q6")
def test_a_summary_has_no_empty_headings_and_sources_have_long_answers_in_full(
    refine: Refinement,
) -> None:
    few = {"address": "refine/questions/proposals/*", "data": {"questions": QUESTIONS[1:]}}
    refine.begin("rapid", [few], idea=f"# Quiet\n\n{IDEA}")
    refine.fill(answer="Seats at the window stay free. " * 20)
    cites = PRD.replace(", D-6", "")
    assert refine.resume([{"address": "refine/draft/prd/*", "text": cites}]).code == 0, refine.done.out
    assert refine.warnings("questions"), "they are about the questions only"
    summary = refine.text("summary.md")
    assert "To look at" not in summary
    assert summary.partition("# Summary\n")[2].strip().startswith("Quiet\n\n| | |")
    rows = [row for row in refine.text("PRD.md").splitlines() if row.startswith("| D-")]
    assert len(rows) == 5
    assert all(row.count("Seats at the window stay free.") == 20 for row in rows), rows
