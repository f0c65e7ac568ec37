"""Each fact of an answer has an id, rules can be tested, and findings of the last judges are corrected."""

import pytest

from tests.acceptance.refine.conftest import (
    CORRECTED,
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
FACTS = [
    {"id": "Q-1", "fact": "A noisy hour costs 40 euros."},
    {"id": "Q-1", "fact": "Names | numbers stay\nin the EU."},
    {"id": "Q-3", "fact": "A seat is kept for 10 minutes."},
    {"id": "Q-99", "fact": "An unrelated fact."},
]
FACT_LINES = [
    "- D-1.1: A noisy hour costs 40 euros.",
    "- D-1.2: Names / numbers stay in the EU.",
    "- D-3.1: A seat is kept for 10 minutes.",
]


def facts(next_action: str = "proceed") -> Rule:
    return {"address": "refine/answers/missing/*", "data": {**analysis(next_action), "facts": FACTS}}


def prd(text: str) -> Rule:
    return {"address": "refine/draft/prd/*", "text": text}


def points(prompt: str) -> str:
    return prompt.rpartition("# Points to answer")[2].partition("</untrusted")[0]


@pytest.mark.slow
@pytest.mark.row("Q3", "R15")
def test_each_fact_of_an_answer_has_an_id_that_is_cited_or_reported_as_uncited(refine: Refinement) -> None:
    cites = PRD.replace("D-1, D-2", "D-1.1, D-2")
    refine.begin()
    refine.fill()
    assert refine.resume([facts(), prd(cites), rewrite(cites, "P-2", points=2), correct()]).code == 0, refine.done.out
    log = refine.text("decision-log.md")
    assert [line for line in log.splitlines() if line.startswith("- D-")] == FACT_LINES
    assert "An unrelated fact" not in log
    (writer,) = refine.prompts("refine/draft/prd/*")
    assert all(one in writer for one in FACT_LINES)
    (task,) = map(points, refine.prompts(REWRITTEN))
    assert "P-1: No line rests on what was answered: D-1.2: Names / numbers stay in the EU." in task
    assert "P-2: No line rests on what was answered: D-3.1: A seat" in task
    assert task.count("- P-") == 2
    (again,) = map(points, refine.prompts(CORRECTED))
    assert "D-1.2" in again
    assert "D-3.1" not in again, "the author gave a reason to omit it"
    assert refine.warnings("draft") == ["No line rests on what was answered: D-1.2: Names / numbers stay in the EU."]
    sources, _, idle = refine.text("PRD.md").partition("\n## Sources\n")[2].partition("no line rests on it:")
    assert [line for line in sources.splitlines() if line.startswith("- D-")] == FACT_LINES[:1]
    assert "| D-3 | Ten seats. |" in sources
    assert "| D-1 |" not in sources, "its facts are listed one by one"
    assert [line for line in idle.splitlines() if line.startswith("- D-")] == FACT_LINES[1:2], "D-3 is cited as a whole"


@pytest.mark.slow
@pytest.mark.row("Q3", "R8")
def test_facts_of_an_earlier_round_are_kept_and_can_be_corrected(refine: Refinement) -> None:
    followups = [
        {"address": "refine/questions/proposals/*", "data": {"questions": [question("Workflows", "Who locks up?")]}}
    ]
    refine.begin()
    refine.fill()
    assert refine.resume([facts("loop_questions"), *followups], next_mode="rapid").code == 75
    path = refine.folder / "round-1" / "decision-log.md"
    path.write_text(path.read_text().replace("costs 40 euros", "costs 50 euros"))
    refine.fill(2, "The last one.")
    more = {**analysis(), "facts": [{"id": "Q-2-1", "fact": "The last one locks up."}]}
    assert refine.resume([{"address": "refine/answers/missing/*", "data": more}]).code == 0, refine.done.out
    log = refine.text("decision-log.md")
    lines = [line for line in log.splitlines() if line.startswith("- D-")]
    assert lines == [FACT_LINES[0].replace("40", "50"), *FACT_LINES[1:], "- D-7.1: The last one locks up."]
    assert lines[0] in refine.prompts("refine/draft/prd/*")[0]


RULES = """
- R-1 (must): A seat is kept. [D-1]
  - Given 9:59 minutes, when a guest comes, then the seat is free.
- R-2 (should): A lamp is lit. [D-1]
- R-3: It is warm. [D-2]
  - Given a day in May, then 20 degrees.
"""
PLAN = """
### Dropped first

1. R-1 [D-1]
2. R-2 [D-1]

### Risks
"""
OPEN = """
## Open Questions

| Id | Question | Who, by when | Until then | Otherwise | Rests on |
| --- | --- | --- | --- | --- | --- |
| A-1 | Who pays? | the owner, 9 March | guests | R-1 | [D-1] |
| A-2 | Who locks up? |  | the last | R-2 | [D-2] |

It is so: `[Call]`, then `[Take back]` [A-1, A-2].

### States and buttons

| State | Buttons | Rests on |
| --- | --- | --- |
| Waiting | `[Call]` | [R-1] |

> Come in
"""


@pytest.mark.slow
@pytest.mark.row("Q3", "Q4")
def test_incomplete_rules_dropped_musts_and_unowned_questions_are_found(
    refine: Refinement,
) -> None:
    text = PRD.replace("## Revenue", RULES + "\n## Revenue").replace("## Problem", OPEN + "\n## Problem") + PLAN
    better = text.replace(
        "R-2 (should): A lamp is lit. [D-1]", "R-2 (should): A lamp is lit. [D-1]\n  - Given dusk, then light."
    )
    better = (
        better.replace("| `[Call]` |", "| `[Call]`, `[Take back]` |")
        .replace("- R-3:", "- R-3 (could):")
        .replace("1. R-1 [D-1]\n2.", "1.")
        .replace("|  | the last", "| the owner, 1 May | the last")
    )
    refine.begin()
    refine.fill()
    assert refine.resume([prd(text), rewrite(better, points=5)]).code == 0, refine.done.out
    (task,) = map(points, refine.prompts(REWRITTEN))
    assert "Nobody can test without a case below it (Given …, when …, then …): R-2.\n" in task
    assert "Neither must, should nor could: R-3.\n" in task
    assert "R-1 is a must and stands under what is dropped first." in task
    assert "Nobody decides it, and by no day: | A-2 | Who locks up?" in task
    assert "Buttons that no row of `States and buttons` has: `[Take back]`." in task
    assert task.count("- P-") == 5, task
    assert refine.warnings("draft") == []
    summary = refine.text("summary.md").partition("## To decide first")[2]
    assert "| A-1 | Who pays? | the owner, 9 March | guests |" in summary


@pytest.mark.slow
@pytest.mark.row("Q2")
def test_findings_in_the_rewritten_document_are_corrected_in_place(refine: Refinement) -> None:
    found = {"address": "refine/draft/scores/*", "data": scores(3)}
    late = {**REASON, "wrong": "It is unclear who locks up."}
    again = {"address": RESCORED, "data": {**scores(3, users=4), "reasons": [late]}}
    change = ("## Problem\n\nText", "## Problem\n\nThe last one locks up. Text")
    refine.begin()
    refine.fill()
    assert refine.resume([found, again, correct(change)]).code == 0, refine.done.out
    assert "The last one locks up. Text [D-1" in refine.text("PRD.md")
    assert "who locks up" in points(refine.prompts(CORRECTED)[0])
    summary = refine.text("summary.md")
    assert "What judges still find" not in summary
    assert "| Score, before the last corrections | 16" in summary
    assert len(refine.prompts("refine/draft/*")) == 5


@pytest.mark.slow
@pytest.mark.row("Q2")
def test_a_later_round_in_a_lighter_mode_keeps_all_judges(refine: Refinement) -> None:
    fresh = {"questions": [question("Workflows", "Who locks up?")]}
    followups = [{"address": f"refine/questions/{one}/*", "data": fresh} for one in ("proposals", "merged")]
    refine.begin("standard", (), "--no-reports")
    refine.fill()
    refine.resume(
        [{"address": "refine/answers/missing/*", "data": analysis("loop_questions")}, *followups], next_mode="rapid"
    )
    assert len(refine.prompts("refine/questions/proposals/*")) == 3, "the mode applies to the questions only"
    refine.fill(2)
    assert refine.resume([{"address": "refine/draft/scores/*", "data": scores(3)}]).code == 0, refine.done.out
    addresses = [address for address, _ in refine.calls if "/scores/" in address or "/rescored/" in address]
    assert [one.split("judge:")[1].split("/")[0] for one in addresses] == [
        "tracing",
        "walking",
        "building",
        "walking",
        "building",
    ]
    assert all(QUESTIONS[0]["text"] in one for one in refine.prompts("refine/draft/scores/*"))
