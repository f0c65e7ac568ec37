"""Many rounds of refine: what their prompts carry from earlier rounds, and how large they become."""

import json
import re
from typing import Any

import pytest

from skillrun.scoring.compaction import estimate_tokens
from tests.acceptance.refine.conftest import PRD, SECTIONS, Refinement, Rule, analysis, question, scores

LAST = 6
MANY_ROUNDS = 13
MANY = {"later": {"rapid": len(SECTIONS)}}


def batch(number: int) -> dict[str, Any]:
    """Six questions whose words occur in no other round."""
    texts = {one: " ".join(f"{word}{number}{one[:3]}" for word in "abcdefgh") for one in SECTIONS}
    return {"questions": [question(one, text) for one, text in texts.items()]}


def rules(number: int) -> list[Rule]:
    """Replies that lead to another round; gap GAP-1-1 stays open, another one is open for a round."""
    gaps = analysis("loop_questions", "GAP-1-1 Workflows", f"GAP-{number}-2 Problem", insight=f"Lesson {number}.")
    return [
        {"address": "refine/questions/proposals/*", "data": batch(number + 1)},
        {"address": "refine/answers/missing/*", "data": gaps},
    ]


def run_rounds(refine: Refinement, last: int) -> Refinement:
    """A run that has asked the questions of round `last`."""
    if not (refine.project / "config").exists():
        refine.config(questions=MANY)
    refine.begin("rapid", [{"address": "refine/questions/proposals/*", "data": batch(1)}])
    for number in range(1, last):
        refine.fill(number, f"The answer of round {number}, in some ten words as people write.")
        assert refine.resume(rules(number), next_mode="rapid").code == 75, refine.done.out
        assert refine.state()["round"] == number + 1
    return refine


def sizes(refine: Refinement, pattern: str) -> list[int]:
    return [estimate_tokens(prompt) for prompt in refine.prompts(pattern)]


@pytest.mark.slow
@pytest.mark.row("R10")
@pytest.mark.finding("FR2")
def test_prompts_stop_growing_once_the_digest_is_full_and_the_document_has_every_decision(
    refine: Refinement,
) -> None:
    refine.config(questions=MANY, token_budgets={"compaction": {"digest_max_lines": 45}})
    run_rounds(refine, LAST)
    for pattern in ("refine/questions/proposals/*", "refine/answers/missing/*"):
        found = sizes(refine, pattern)
        assert len(found) >= LAST - 1
        fourth = found[3]
        assert all(abs(size - fourth) <= 0.05 * fourth for size in found[3:]), found
        assert fourth < found[0] + 1000 + 200
    refine.fill(LAST)
    assert refine.resume().code == 0
    (draft,) = refine.prompts("refine/draft/prd/*")
    assert len(set(re.findall(r"\| D-(\d+) \|", draft))) == 6 * LAST
    assert estimate_tokens(draft) < 8192


@pytest.mark.slow
@pytest.mark.row("R10")
def test_after_three_rounds_prompts_carry_a_digest_and_only_the_summaries_of_the_round(refine: Refinement) -> None:
    run_rounds(refine, 5)
    first, second, third, fourth, fifth = refine.prompts("refine/questions/proposals/*")
    assert "Round 1" not in first
    assert "Answered 100 %. Lesson 1." in second
    assert "Answered 100 %. Lesson 1." in third
    assert "Answered 100 %. Lesson 2." in third
    for prompt in (fourth, fifth):
        assert "Answered 100 %." not in prompt
        assert "## Per-Round Summary" in prompt
        assert "- Round 3: Lesson 3." in prompt
    assert not (refine.folder / "round-3" / "rounds-digest.md").exists()
    assert (refine.folder / "round-4" / "rounds-digest.md").is_file()
    digest = refine.text("rounds-digest.md")
    assert "rounds_covered:\n- 1\n- 2\n- 3\n- 4\n" in digest
    assert "total_questions_asked: 24\ntotal_questions_answered: 24\n" in digest
    assert "| 4 | rapid | 6 | 100 % | 2 | - | loop_questions |" in digest
    assert re.search(r"\| GAP-1-1 \| Workflows \| .* \| round 1 \| open \| - \|", digest)
    assert re.search(r"\| GAP-2-2 \| Problem \| .* \| round 2 \| resolved \| round 3 \|", digest)
    assert "| D-24 | The answer of round 4, in some ten words as people write. |" in digest


@pytest.mark.slow
@pytest.mark.row("R10")
@pytest.mark.finding("FT23")
def test_the_digest_stays_within_its_line_limit(refine: Refinement) -> None:
    compaction = {"rounds_before_compaction": 1, "digest_max_lines": 60}
    refine.config(questions=MANY, token_budgets={"compaction": compaction})
    run_rounds(refine, MANY_ROUNDS)
    for path in ("rounds-digest.md", *(f"round-{number}/rounds-digest.md" for number in range(2, MANY_ROUNDS))):
        assert len(refine.text(path).splitlines()) <= 60, path
    digest = refine.text("rounds-digest.md")
    assert f"rounds_covered: 1 to {MANY_ROUNDS - 1}\n" in digest
    assert "earlier decisions are in decision-log.md" in digest
    for heading in ("Per-Round Summary", "Persistent Gap Tracker", "Key Insights", "Cumulative User Decisions"):
        assert f"## {heading}" in digest


@pytest.mark.slow
@pytest.mark.row("R9")
def test_a_reflection_lists_what_was_tried_why_it_failed_and_what_to_change(refine: Refinement) -> None:
    run_rounds(refine, 2)
    refine.fill(2, "It depends.", skip=[2])
    vague = {**analysis("proceed", "GAP-1-1 Workflows", "GAP-2-1 Problem"), "vague": ["Q-2-1"]}
    replies = [
        {"address": "refine/answers/missing/*", "data": vague},
        {"address": "refine/draft/scores/*", "data": scores(1, success=4)},
    ]
    refine.resume(replies, next_mode=["draft now", "rapid"])
    text = refine.text("round-2/reflection-round-2.md")
    tried, reasons, changes = text.split("\n## ")[1:]
    assert "- Mode: rapid" in tried
    assert "- Questions: 6" in tried
    assert "- Answered: 83 %" in tried
    assert "- Score: 8 of 20; 12 are needed" in reasons
    assert "- Weakest: problem, users, workflows, features" in reasons
    assert "success 4" in reasons
    assert "- GAP-2-1 (Problem): Missing: GAP-2-1 Problem." in reasons
    persistent = reasons[reasons.index("Persistent gaps") : reasons.index("The judges' reasons")]
    assert "GAP-1-1" in persistent
    assert "GAP-2-1" not in persistent
    assert "- Workflows: It is unclear what a late guest does. Say it." in reasons
    assert "- Leave alone what stands: success" in changes
    assert "Offer deeper options where answers were vague: a2Pro b2Pro" in changes
    assert "Still without an answer: a2Tar" in changes
    [own] = re.findall(r"words of their own; offer better ones: (.+)", changes)
    assert [one[:5] for one in own.split(" / ")] == ["a2Wor", "a2Fea", "a2Rev", "a2Suc"], (
        "neither the vague nor the open one"
    )


@pytest.mark.slow
@pytest.mark.row("R9")
def test_the_reflection_is_on_disk_before_the_next_round_and_is_read_from_there(refine: Refinement) -> None:
    refine.begin()
    refine.fill()
    weak = [{"address": "refine/draft/scores/*", "data": scores(1)}]
    refine.resume(weak)
    path = refine.folder / "reflection-round-1.md"
    path.write_text(path.read_text() + "\n- Ask about the lamps.\n")
    refine.resume([*weak, {"address": "refine/questions/proposals/*", "data": batch(2)}], next_mode="rapid")
    prompts = refine.prompts("refine/questions/proposals/*")
    assert len(prompts) == 2
    assert "Reflection on round 1" not in prompts[0]
    assert "Ask about the lamps." in prompts[1]
    refine.fill(2)
    better = [{"address": "refine/draft/prd/*", "text": PRD + "\nA lamp.\n"}]
    assert refine.resume(better).code == 0
    assert "Text [D-1, D-2" in refine.prompts("refine/draft/prd/*")[1]


@pytest.mark.slow
@pytest.mark.row("R8")
def test_an_unattended_run_ends_at_the_configured_number_of_rounds(refine: Refinement) -> None:
    path = refine.project / "answers.yaml"
    path.write_text("answers/Q: Ten seats.\n")
    always: list[Rule] = [
        {"address": "refine/answers/missing/*", "data": analysis("loop_questions", "GAP-1-1 Workflows")},
        *({"address": "refine/questions/proposals/*", "data": batch(one), "times": 1} for one in range(1, 9)),
    ]
    done = refine.begin("rapid", always, "--unattended", "--answers", str(path))
    assert done.code == 0, done.out
    assert refine.state()["round"] == 3


@pytest.mark.slow
@pytest.mark.row("R8", "R9")
@pytest.mark.parametrize(
    ("reply", "last"),
    [
        ({"address": "refine/answers/missing/*", "data": analysis("loop_questions", "GAP-1-1 Workflows")}, 3),
        ({"address": "refine/draft/scores/*", "data": scores(1)}, 2),
    ],
)
def test_an_unattended_run_starts_no_round_after_the_last_allowed_one(
    refine: Refinement, reply: Rule, last: int
) -> None:
    refine.config(limits={"unasked_rounds": last})
    (refine.project / "answers.yaml").write_text("Q: Ten seats.\n", encoding="utf-8")
    questions = [
        {"address": "refine/questions/proposals/*", "data": batch(number), "times": 1} for number in range(1, 6)
    ]
    done = refine.begin("rapid", [reply, *questions], "--unattended", "--answers", "answers.yaml")
    assert done.code == 0, done.out
    assert refine.state()["round"] == last
    assert refine.state()["status"] == "completed"


@pytest.mark.slow
@pytest.mark.row("R8", "R9")
@pytest.mark.parametrize(
    ("modes", "last"), [("rapid", 2), (["rapid", "rapid", "rapid"], 4)], ids=["one mode", "a list of modes"]
)
@pytest.mark.parametrize(
    "reply",
    [
        {"address": "refine/answers/missing/*", "data": analysis("loop_questions", "GAP-1-1 Workflows")},
        {"address": "refine/draft/scores/*", "data": scores(1)},
    ],
    ids=["gaps", "not ready"],
)
def test_a_prepared_mode_covers_one_round_and_a_list_covers_as_many_as_it_has(
    refine: Refinement, reply: Rule, modes: str | list[str], last: int
) -> None:
    refine.config(limits={"unasked_rounds": 2})
    prepared = {"Q": "Ten seats.", **dict.fromkeys(("answers/next-mode", "draft/next-mode"), modes)}
    (refine.project / "answers.yaml").write_text(json.dumps(prepared), encoding="utf-8")
    questions = [{"address": "refine/questions/proposals/*", "data": batch(one), "times": 1} for one in range(1, 7)]
    done = refine.begin("rapid", [reply, *questions], "--unattended", "--answers", "answers.yaml", "--budget=calls=60")
    assert (done.code, refine.state()["round"]) == (0, last), done.out


@pytest.mark.slow
@pytest.mark.row("R8")
def test_in_an_attended_run_a_prepared_mode_covers_only_one_round(refine: Refinement) -> None:
    gaps = {"address": "refine/answers/missing/*", "data": analysis("loop_questions", "GAP-1-1 Workflows")}
    questions = [{"address": "refine/questions/proposals/*", "data": batch(one), "times": 1} for one in range(1, 6)]
    (refine.project / "answers.yaml").write_text("{Q: Ten seats., answers/next-mode: rapid}", encoding="utf-8")
    done = refine.begin("rapid", [gaps, *questions], "--answers", "answers.yaml", "--budget=calls=60")
    assert (done.code, refine.state()["round"]) == (75, 2), done.out
    assert "next-mode" in done.out.splitlines()[-1]


@pytest.mark.slow
@pytest.mark.row("R8")
@pytest.mark.finding("FR82")
def test_a_list_of_prepared_modes_continues_in_the_next_process(refine: Refinement) -> None:
    script: list[Rule] = [
        {"address": "refine/draft/scores/*", "data": scores(1)},
        *({"address": "refine/questions/proposals/*", "data": batch(one), "times": 1} for one in range(1, 7)),
    ]
    file = refine.project / "answers.yaml"
    file.write_text("{Q: Ten seats., draft/next-mode: [rapid, rapid]}", encoding="utf-8")
    refine.begin("rapid", script, "--answers", "answers.yaml")
    for _ in range(2):
        done = refine.resume(script, "--answers", "answers.yaml")
        assert (done.code, refine.state()["round"]) == (75, 3), done.out
    file.write_text("{Q: Ten seats., draft/next-mode: [rapid, rapid, standard]}", encoding="utf-8")
    refine.resume(script, "--answers", "answers.yaml")
    assert (refine.state()["round"], refine.state()["state"]["mode"]) == (4, "standard")


@pytest.mark.slow
@pytest.mark.row("R8")
@pytest.mark.finding("FT25")
def test_a_rule_of_a_script_counts_its_calls_in_all_processes_and_rounds(refine: Refinement) -> None:
    gaps = {"address": "refine/answers/missing/*", "data": analysis("loop_questions", "GAP-1-1 Workflows")}
    script: list[Rule] = [
        {"address": "refine/questions/proposals/*", "data": batch(1), "times": 1},
        {"address": "refine/questions/proposals/*", "data": batch(2)},
        gaps,
    ]
    refine.begin("rapid", script)
    refine.fill()
    assert refine.resume(script).code == 75
    assert refine.resume(script, next_mode="rapid").code == 75
    assert batch(2)["questions"][0]["text"] in refine.form(2).read_text(encoding="utf-8")
