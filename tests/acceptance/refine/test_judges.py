"""Judges of refine that do not answer: nothing is scored without them, and nothing is READY while one is missing."""

import pytest

from tests.acceptance.refine.conftest import RESCORED, Refinement, rewrite, scores

JUDGES = "refine/draft/scores/*"
REASONED = {**scores(4), "reasons": scores(3)["reasons"]}


def judge(variant: str, at: str = JUDGES) -> str:
    return at.replace("*", f"judge:{variant}/*") if at == JUDGES else at.replace("rescored/*", f"rescored/*{variant}/*")


@pytest.mark.slow
@pytest.mark.row("R9")
@pytest.mark.finding("FT22")
@pytest.mark.parametrize("failure", [{"fail": "timeout"}, {"text": ""}, {"text": "Fine.", "stop": "length"}])
def test_without_judges_there_is_no_verdict_and_no_score(refine: Refinement, failure: dict[str, str]) -> None:
    refine.begin()
    refine.fill()
    done = refine.resume([{"address": JUDGES, **failure}], "--unattended")
    summary = refine.text("summary.md")
    assert "| Verdict | not judged |" in summary
    assert "| Score | none: no judge answered |" in summary
    assert "of 20" not in summary
    assert "No judge answered; the document was not scored." in summary
    assert "PRD.md is not judged" in done.out
    assert "degraded: draft" in done.out
    flags = refine.summary("draft")["flags"]
    assert (flags["validation_skipped"], flags.get("validation_decision"), flags.get("validation_score")) == (
        True, None, None,
    )  # fmt: skip


@pytest.mark.slow
@pytest.mark.row("R9")
@pytest.mark.finding("FT22")
def test_nothing_is_ready_while_a_judge_is_missing(refine: Refinement) -> None:
    refine.begin("standard", (), "--no-reports")
    refine.fill()
    refine.resume([{"address": judge("walking"), "fail": "timeout"}], "--unattended")
    summary = refine.text("summary.md")
    assert "| Verdict | CONDITIONAL |" in summary
    assert "| Score | 20" in summary
    assert "| Judges without an answer | judge:walking |" in summary


@pytest.mark.slow
@pytest.mark.row("R9")
@pytest.mark.finding("FT22")
def test_nothing_is_ready_while_a_judge_of_the_second_look_is_missing(refine: Refinement) -> None:
    refine.begin("standard", (), "--no-reports")
    refine.fill()
    missing = {"address": judge("walking", RESCORED), "fail": "timeout"}
    refine.resume([missing, {"address": JUDGES, "data": REASONED}, rewrite()], "--unattended")
    assert "| Verdict | CONDITIONAL |" in refine.text("summary.md")
    assert "| Judges without an answer | judge:walking |" in refine.text("summary.md")


@pytest.mark.slow
@pytest.mark.row("R9")
@pytest.mark.finding("FR81")
@pytest.mark.parametrize(
    ("variant", "verdict"), [("tracing", "CONDITIONAL"), ("walking", "READY")], ids=["never-answers", "answers-later"]
)
def test_a_judge_who_is_not_in_the_second_look_stays_missing(refine: Refinement, variant: str, verdict: str) -> None:
    refine.begin("standard", (), "--no-reports")
    refine.fill()
    missing = {"address": judge(variant), "fail": "timeout"}
    refine.resume([missing, {"address": JUDGES, "data": REASONED}, rewrite()], "--unattended")
    summary = refine.text("summary.md")
    assert f"| Verdict | {verdict} |" in summary
    assert ("| Judges without an answer | judge:tracing |" in summary) == (variant == "tracing")
