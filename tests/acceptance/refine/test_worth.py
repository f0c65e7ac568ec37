"""What is found in a requirements document changes it, and each of its lines says what carries it."""

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
    corrected,
    mended,
    missing,
    question,
    scores,
)  # fmt: skip

MENDED = "refine/draft/mending#*/mended/*"


def drafted(refine: Refinement, *rules: Rule, mode: str = "rapid", idea: str = "", skip: tuple[int, ...] = ()) -> None:
    """A run to its end, with these replies before the usual ones."""
    refine.begin(mode, rules, *(("--no-reports",) if mode != "rapid" else ()), **({"idea": idea} if idea else {}))
    refine.fill(skip=skip)
    assert refine.resume(rules).code == 0, refine.done.out


def prd(text: str) -> Rule:
    return {"address": "refine/draft/prd/*", "text": text}


@pytest.mark.slow
@pytest.mark.row("Q2")
@pytest.mark.parametrize("points", [3, 4], ids=["conditional", "ready"])
def test_what_judges_find_goes_to_the_author_whatever_the_verdict_and_what_is_kept_is_delivered(
    refine: Refinement, points: int
) -> None:
    other = {**REASON, "wrong": "Revenue stands on no number at all.", "place": "Revenue Model"}
    better = PRD.replace("Text", "A lamp goes out")
    found = {"address": "refine/draft/scores/*", "data": {**scores(points), "reasons": [REASON, other]}}
    drafted(refine, found, mended(better, "P-1", points=2))
    (prompt,) = refine.prompts(MENDED)
    task = prompt.rpartition("# Points to answer")[2]
    assert all(one["wrong"] in task for one in (REASON, other))
    assert "Text [D-1" in prompt, "the author has the text that is mended"
    assert refine.text("PRD.md").startswith(better.strip())
    summary = refine.text("summary.md")
    assert "| What was found | 1 changed, 1 kept |" in summary
    assert "- Revenue Model: Revenue stands on no number at all. Kept: P-1 it is." in summary
    assert "late guest" not in summary


@pytest.mark.slow
@pytest.mark.row("Q2", "Q7")
def test_a_document_in_which_nothing_is_found_is_written_once(refine: Refinement) -> None:
    drafted(refine)
    assert refine.prompts(MENDED) == []
    assert refine.warnings("draft") == []
    assert "What was found" not in refine.text("summary.md")


@pytest.mark.slow
@pytest.mark.row("Q2")
def test_the_draft_of_a_lost_round_comes_with_why_it_was_not_enough(refine: Refinement) -> None:
    refine.begin()
    refine.fill()
    rules = [{"address": "refine/draft/scores/*", "data": scores(1), "times": 1}]
    fresh = [{**QUESTIONS[0], "text": "Who turns off the lamps in the last room?"}]
    refine.resume(
        [*rules, {"address": "refine/questions/proposals/*", "data": {"questions": fresh}}], next_mode="rapid"
    )
    assert refine.prompts(MENDED) == [], "the next round's author mends it"
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
def test_each_line_of_the_document_is_looked_up(refine: Refinement) -> None:
    drafted(refine, prd("\n".join((PRD, *LINES))), mended(points=4))
    (prompt,) = refine.prompts(MENDED)
    points = prompt.rpartition("# Points to answer")[2].partition("</untrusted")[0]
    assert all(found in points for found in LINES.values())
    assert points.count("- P-") == 4, "and nothing else"
    assert refine.warnings("draft") == [], "it was mended"


@pytest.mark.slow
@pytest.mark.row("Q3")
def test_what_is_still_found_is_mended_once_more_with_exactly_that_list_and_then_said(refine: Refinement) -> None:
    wrong = f"{PRD}\n- It is quiet.\n- It is TBD [D-1].\n"
    found = {"address": "refine/draft/scores/*", "data": scores(3)}
    half = f"{PRD}\n- It is quiet.\n"
    drafted(refine, prd(wrong), found, corrected(("- It is loud.", "- It is quiet. [D-1]")), mended(half, points=3))
    (first,) = (one.rpartition("# Points to answer")[2] for one in refine.prompts(MENDED))
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
def test_what_the_author_kept_with_a_reason_is_not_asked_again(refine: Refinement) -> None:
    wrong = f"{PRD}\n- It is quiet.\n"
    drafted(refine, prd(wrong), mended(wrong, "P-1"))
    assert len(refine.prompts(MENDED)) == 1
    assert refine.warnings("draft") == []
    assert "- Nothing carries the line that begins: - It is quiet. Kept: P-1 it is." in refine.text("summary.md")


@pytest.mark.slow
@pytest.mark.row("Q2")
def test_a_part_does_not_take_the_place_of_the_document(refine: Refinement) -> None:
    lamp = ("## Workflows\n\nText", "## Workflows\n\nA late guest waits. Text")
    found = {"address": "refine/draft/scores/*", "data": scores(3)}
    drafted(refine, found, mended("# Quiet\n\nA lamp. [D-1]\n"), corrected(lamp))
    assert refine.text("PRD.md").startswith(PRD.strip().replace(*lamp)), "what was not mended is put right"
    assert REASON["wrong"] in refine.prompts(CORRECTED)[0]
    assert refine.prompts(RESCORED) == []
    assert refine.warnings("draft") == [
        "What came back as mended lacks more than half of the document, which stays as it was written."
    ]
    assert "| What was found | 1 changed, 0 kept |" in refine.text("summary.md")


@pytest.mark.slow
@pytest.mark.row("Q3")
def test_an_answer_on_which_no_line_rests_and_an_amount_that_got_lost_are_named(refine: Refinement) -> None:
    few = PRD.replace(CITED, "[D-1, D-2]")
    drafted(refine, prd(few), mended(points=2), idea="Quiet places for at most 20 euros a month")
    (prompt,) = refine.prompts(MENDED)[:1]
    task = prompt.rpartition("# Points to answer")[2]
    assert "No line rests on D-6, D-5, D-4, D-3." in task
    assert "Amounts of the request that PRD.md does not have in figures: 20 euros." in task


@pytest.mark.slow
@pytest.mark.row("Q3", "Q6")
def test_what_is_cited_can_be_looked_up_at_the_end_of_the_document(refine: Refinement) -> None:
    digest = "## Known now\n- F-1: Halls are empty [one].\n- F-2: Halls are cold [one].\n\n## Contradicted\n- F-2.\n"
    few = PRD.replace(CITED, "[D-2, F-2]")
    rules = [{"address": "refine/research/digest/*", "text": digest}, prd(few), mended(few)]
    refine.begin("standard", rules)
    refine.report()
    refine.resume(rules)
    assert "# What was asked" in refine.prompts("refine/research/digest/*")[0]
    refine.fill()
    assert refine.resume(rules).code == 0
    sources = refine.text("PRD.md").partition("\n## Sources\n")[2]
    assert [line[:7] for line in sources.splitlines() if line.startswith("- ")] == ["- `[req", "- F-2: "]
    assert [line for line in sources.splitlines() if line.startswith("| D")] == ["| D-2 | Ten seats. |"]
    assert f"> {IDEA}" in sources, "a reader of the document alone has the request"


@pytest.mark.slow
@pytest.mark.row("Q5")
def test_questions_come_with_a_recommended_answer_which_the_writer_sees_and_nobody_gave(refine: Refinement) -> None:
    bare = {key: value for key, value in QUESTIONS[1].items() if key not in ("recommended", "depends")}
    asked = [QUESTIONS[0], {**bare, "priority": "HIGH"}, *({**one, "priority": "HIGH"} for one in QUESTIONS[2:])]
    rules = [{"address": "refine/questions/proposals/*", "data": {"questions": asked}}]
    refine.begin("rapid", rules)
    form = refine.form().read_text()
    assert "> - Recommended: Nobody before the summer ends - the request names no date" in form
    assert "> - What depends on it: With another answer problem is written otherwise." in form
    assert form.count("Recommended:") == len(QUESTIONS) - 1
    (warning,) = refine.warnings("questions")
    assert warning.startswith("1 question(s) come without a recommended answer")
    refine.fill(skip=[3])
    assert refine.resume(rules).code == 0
    open_one = QUESTIONS[2]["text"]
    assert f"{open_one}\nNo answer. Recommended was: Nobody before" in refine.prompts("refine/answers/missing/*")[0]
    (writer,) = refine.prompts("refine/draft/prd/*")
    left = writer.partition("# Questions that the person left open")[2].partition("\n# ")[0]
    assert open_one in left
    assert QUESTIONS[0]["text"] not in left
    assert "Nobody before the summer" not in json.dumps(refine.state()["state"]["decisions"])
    assert "| Decisions | 5 |" in refine.text("summary.md")
    assert warning not in refine.text("summary.md"), "it concerned the questions"


@pytest.mark.slow
@pytest.mark.row("Q6")
def test_the_document_has_decisions_and_open_points_first_and_its_length_is_said_and_no_fault(
    refine: Refinement,
) -> None:
    long: dict[str, Any] = {"prd": {"words": 60}}
    refine.config(**long)
    drafted(refine)
    (writer, *_) = refine.prompts("refine/draft/prd/*")
    heads = [
        line.split("`")[1] for line in writer.rpartition("# Current task")[2].splitlines() if line.startswith("- `")
    ]
    assert heads[:5] == ["Executive Summary", "Decisions", "Open Questions", "Out of Scope", "Problem"]
    assert "60 words" not in writer, "a measure in words would cost cases first"
    assert refine.prompts(MENDED) == []
    assert refine.warnings("draft") == []
    assert any(one.startswith("PRD.md has ") and one.endswith("60 were its measure.") for one in refine.said())


@pytest.mark.row("Q7")
def test_what_nobody_looked_up_is_told_to_those_who_ask(refine: Refinement) -> None:
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
def test_a_mended_document_is_judged_as_it_is_now_and_what_judges_still_find_is_said(refine: Refinement) -> None:
    still = {**REASON, "wrong": "Nobody knows who locks up."}
    found = {"address": "refine/draft/scores/*", "data": scores(3)}
    again = {"address": RESCORED, "data": {**scores(3, users=4), "reasons": [still]}}
    drafted(
        refine,
        found,
        again,
        mended(PRD.replace("Text", "A lamp goes out")),
        {"address": CORRECTED, "fail": "overloaded"},
    )
    (prompt,) = refine.prompts(RESCORED)
    assert "A lamp goes out [D-1" in prompt
    assert "late guest" not in prompt
    summary = refine.text("summary.md")
    assert "| Verdict | READY |" in summary
    assert "| Score | 16" in summary
    assert "- Workflows: Nobody knows who locks up. Say it." in summary.partition("## What judges still find")[2]


@pytest.mark.slow
@pytest.mark.row("Q2")
def test_without_judges_for_the_mended_document_the_score_is_said_to_be_the_drafts(refine: Refinement) -> None:
    found = {"address": "refine/draft/scores/*", "data": scores(3)}
    drafted(refine, found, {"address": RESCORED, "fail": "overloaded"})
    assert "| Score, before it was mended | 15" in refine.text("summary.md")
    assert "| Verdict | CONDITIONAL |" in refine.text("summary.md")


@pytest.mark.slow
@pytest.mark.row("Q3")
def test_what_a_line_rested_on_before_it_was_mended_is_not_lost_in_silence(refine: Refinement) -> None:
    found = {"address": "refine/draft/scores/*", "data": scores(3)}
    less = mended(PRD.replace(CITED, "[D-1, D-2, D-3, D-4, D-5]"))
    drafted(refine, found, less, mended())
    assert "No line rests on D-6." in refine.prompts(CORRECTED)[0]


@pytest.mark.row("Q5")
def test_subjects_that_no_member_asks_about_are_the_coordinators_and_those_of_no_question_are_said(
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
    left = "No question is about work, exceptions, failure. The questions can be used all the same."
    assert refine.warnings("questions") == [left]
    lenses = [one for one in refine.prompts("refine/questions/proposals/*") if "Your lens is the " in one]
    assert len(lenses) == 2


@pytest.mark.row("Q5", "R10")
def test_who_asks_in_a_later_round_sees_what_is_settled_what_is_open_and_what_was_vague(refine: Refinement) -> None:
    agenda = {"address": "refine/research/agenda/*", "text": "# Agenda\n\n## Who sits where?\n\nWhy\n"}
    gaps = missing("loop_questions", "GAP-1-1 Workflows")
    gaps["gaps"][0]["assume"] = "A late guest waits."
    gaps |= {"vague": ["Q-2"], "open": [{"id": "Q-3", "what": "who turns the key"}, {"id": "Q-99", "what": "nothing"}]}
    fresh = {"questions": [question("Workflows", "Who locks up at night?")]}
    refine.begin("standard", [agenda], "--no-reports")
    refine.fill(skip=[1])
    form = refine.form()
    form.write_text(form.read_text().replace("\nAnswer:\n", "\nAnswer: Not decided.\n", 1))
    later = [{"address": f"refine/questions/{one}/*", "data": fresh} for one in ("proposals", "merged")]
    rules = [{"address": "refine/answers/missing/*", "data": gaps}, *later]
    assert refine.resume(rules, next_mode="standard").code == 75
    assert refine.summary("answers", 1)["flags"]["questions_answered"] == 5
    assert [one["text"] for one in refine.state()["state"]["decisions"]] == [one["text"] for one in QUESTIONS[1:]]
    asked = [refine.prompts(f"refine/questions/{one}/*")[-1] for one in ("proposals", "merged")]
    for prompt in asked:
        assert "| D-1 | Ten seats. |" in prompt
        assert "Until then: A late guest waits." in prompt
        assert "Vague answers: Q-2" in prompt
        assert f"Left open by the person:\n- {QUESTIONS[0]['text']}" in prompt
        assert "- Q-3: who turns the key" in prompt
        assert "nothing\n" not in prompt.partition("beside what they answered")[2].partition("#")[0]
        assert "Who sits where?" not in prompt
    assert " · Q-2-1" in refine.form(2).read_text(), "no other round has a question of that name"
    refine.fill(2)
    assert refine.resume(later).code == 0
    writer = refine.prompts("refine/draft/prd/*")[0]
    assert "who turns the key" in writer.partition("# What answers left open beside what they settle")[2]
    assert "Nobody before the summer ends - the request" not in writer.partition("# Known gaps")[2]
    assert "no question used" not in refine.done.out


@pytest.mark.slow
@pytest.mark.row("Q7")
def test_prompts_of_a_workflow_that_records_nothing_say_nothing_of_records(refine: Refinement) -> None:
    drafted(refine, {"address": "refine/draft/scores/*", "data": scores(3)})
    words = ("# Accumulated context", "on record", "HIGH confidence")
    assert not any(word in prompt for prompt in refine.prompts() for word in words)


@pytest.mark.slow
@pytest.mark.row("Q6")
def test_a_summary_has_no_heading_without_a_line_and_sources_have_the_whole_of_long_answers(
    refine: Refinement,
) -> None:
    few = {"address": "refine/questions/proposals/*", "data": {"questions": QUESTIONS[1:]}}
    refine.begin("rapid", [few], idea=f"# Quiet\n\n{IDEA}")
    refine.fill(answer="Seats at the window stay free. " * 20)
    cites = PRD.replace(", D-6", "")
    assert refine.resume([{"address": "refine/draft/prd/*", "text": cites}]).code == 0, refine.done.out
    assert refine.warnings("questions"), "they concerned the questions alone"
    summary = refine.text("summary.md")
    assert "To look at" not in summary
    assert summary.partition("# Summary\n")[2].strip().startswith("Quiet\n\n| | |")
    rows = [row for row in refine.text("PRD.md").splitlines() if row.startswith("| D-")]
    assert len(rows) == 5
    assert all(row.count("Seats at the window stay free.") == 20 for row in rows), rows
