"""The expert review: which findings count, the three outcomes, and what a person may do about a failed one."""

from __future__ import annotations

from typing import Any

import pytest

from tests.acceptance.plan.conftest import Plan, Plans, skillrun

CHOICE, CONTEXT, REASON = "expert-review/cycle/choice", "expert-review/cycle/context", "expert-review/why/reason"


def finding(risk: str, severity: str, confidence: int | None = None) -> dict[str, Any]:
    sure = {} if confidence is None else {"confidence": confidence}
    return {
        "id": risk.split(maxsplit=1)[0],
        "evidence": "Line 3.",
        "risk": risk,
        "severity": severity,
        "mitigation": "Mend it.",
        **sure,
    }


def reviewed(*findings: dict[str, Any], by: str = "security-analyst", **more: Any) -> dict[str, Any]:
    return {
        "address": f"plan/expert-review/cycle#*/review/review/{by}/*",
        "data": {"findings": list(findings)},
        **more,
    }


FATAL = finding("STOLEN tokens end up in the log.", "CRITICAL", 95)
HEAVY = finding("SLOW pages for everybody.", "MAJOR", 80)
UNANSWERED = {"address": "plan/expert-review/mended/*", "fail": "timeout"}


def choices(run: Plan) -> list[list[str]]:
    """What the person could choose, each time that a failed review was put to them."""
    events = [event for event in run.events if event["event"] == "Asked" and "/choice@" in event["address"]]
    return [event["questions"][0]["choices"] for event in events]


@pytest.fixture
def mixed(plan: Plans) -> Plan:
    """Findings of every kind, none of them critical with confidence; their author does not answer."""
    return plan(
        "standard",
        [
            UNANSWERED,
            reviewed(
                finding("DOUBTFUL hole in the wall.", "CRITICAL", 79),
                HEAVY,
                finding("SILENT about its confidence.", "MAJOR"),
                finding("TINY matter of style.", "MINOR", 99),
            ),
        ],
    )


@pytest.fixture
def failed_twice(plan: Plans) -> Plan:
    """Critical both times; the person is not there, and has prepared nothing."""
    return plan("standard", [reviewed(FATAL)], alone=True)


@pytest.mark.slow
@pytest.mark.row("P12")
def test_findings_below_the_threshold_are_dropped_and_silent_ones_count_as_80(mixed: Plan) -> None:
    report = mixed.artifact("review.md")
    assert "that were dropped: 1." in report
    assert "DOUBTFUL" not in report
    assert all(word in report for word in ("SLOW", "SILENT", "TINY"))


@pytest.mark.row("P12")
def test_major_findings_pass_with_risk_and_are_carried_into_risks_and_tasks(mixed: Plan) -> None:
    assert mixed.story["state"]["review_outcome"] == "pass-with-risk"
    carried = mixed.summary("expert-review")["risks_identified"]
    assert [one["id"] for one in carried] == ["SLOW", "SILENT"]
    tasks = mixed.prompt("plan/completion/tasks/*")
    assert "SLOW pages for everybody." in tasks
    assert "SILENT about its confidence." in tasks
    assert "SLOW" in mixed.artifact("summary.md")
    assert choices(mixed) == []


@pytest.mark.slow
@pytest.mark.row("P12")
def test_minor_findings_are_logged_only(mixed: Plan, plan: Plans) -> None:
    assert "TINY" not in mixed.prompt("plan/completion/tasks/*")
    assert "TINY" not in str(mixed.summary("expert-review")["risks_identified"])
    run = plan("standard", [reviewed(finding("TINY matter of style.", "MINOR", 99))])
    assert run.story["state"]["review_outcome"] == "pass"
    assert "TINY" in run.artifact("review.md")


@pytest.mark.slow
@pytest.mark.row("P12")
@pytest.mark.finding("FL24")
def test_a_failed_review_goes_back_to_architecture_with_the_findings(plan: Plans) -> None:
    run = plan("standard", [reviewed(FATAL, times=1), reviewed()])
    assert choices(run) == [["redesign", "override", "add context"]]
    assert run.story["round"] == 2
    first, second = run.prompts("plan/architecture/proposals/first/software-architect:clean/*")
    assert "STOLEN tokens end up in the log." not in first
    assert "STOLEN tokens end up in the log." in second
    sent_back = (run.folder / "round-1" / "design.md").read_text(encoding="utf-8")
    handed = "# The design that was sent back\n"
    assert all(line in second.partition(handed)[2] for line in sent_back.splitlines()[:8])
    assert "say what of it should stay." in second
    assert "keep what is good in the rest." in run.prompts("plan/architecture/draft/*")[-1]
    assert handed not in first
    assert run.summary("expert-review", 1)["outputs"]["outcome"] == "fail"
    assert run.summary("expert-review")["outputs"]["outcome"] == "pass"
    assert run.story["state"]["review_outcome"] == "pass"
    assert run.done.code == 0


@pytest.mark.slow
@pytest.mark.row("P12")
@pytest.mark.finding("FP2", "FP4", "FL24")
def test_an_override_is_recorded_and_everything_that_was_found_is_carried_with_the_reason(plan: Plans) -> None:
    heavy = [finding(f"HEAVY{n} on every page.", "MAJOR", 90) for n in range(9)]
    answers = {CHOICE: "override", REASON: "The log is gone next week."}
    run = plan(
        "standard",
        [
            UNANSWERED,
            reviewed(*heavy, FATAL),
            {"address": "plan/completion/tasks/*", "text": f"# Tasks\n\n{' '.join(one['id'] for one in heavy[:8])}"},
        ],
        answers=answers,
    )
    record = run.summary("expert-review")
    assert run.story["round"] == 1
    assert run.story["state"]["review_outcome"] == "pass-with-risk"
    why = (
        "1 critical findings were overridden by a prepared answer and are carried as risks: The log is gone next week."
    )
    assert record["flags"]["review_override"] == why
    assert record["quality_warnings"][-1] == why
    names = ["STOLEN", *(f"HEAVY{n}" for n in range(9))]
    assert [one["id"] for one in record["risks_identified"]] == names
    told = run.prompt("plan/completion/tasks/*")
    assert [name for name in names if f"- id: {name}\n" in told] == names
    assert told.index("id: STOLEN") < told.index("id: HEAVY0")
    assert "say so, with the reason." in told
    assert "The log is gone next week." in told.partition("# Why the CRITICAL ones were overridden")[2]
    assert "Why the critical findings stay: The log is gone next week." in run.artifact("review.md")
    assert "The critical ones were overridden: The log is gone next week." in run.artifact("summary.md")
    left = "No task names the risks stolen, heavy8, which the review leaves."
    assert left in run.summary("completion")["quality_warnings"]
    assert "Named in no task: stolen, heavy8" in run.artifact("summary.md")


@pytest.mark.slow
@pytest.mark.row("P12")
def test_added_context_is_reviewed_again_in_the_same_round(plan: Plans) -> None:
    answers = {CHOICE: "add context", CONTEXT: "The proxy strips every token."}
    run = plan("standard", [reviewed(FATAL, times=1), reviewed()], answers=answers)
    first, second = run.prompts("plan/expert-review/cycle#*/review/review/security-analyst/*")
    assert "The proxy strips every token." not in first
    assert "The proxy strips every token." in second
    assert run.story["round"] == 1
    assert run.story["state"]["review_outcome"] == "pass"


@pytest.mark.slow
@pytest.mark.row("P12")
@pytest.mark.finding("FP4")
def test_after_two_reviews_a_decision_is_required_and_nobody_gives_it_but_a_person(failed_twice: Plan) -> None:
    assert choices(failed_twice) == [["redesign", "override", "add context"], ["override", "stop"]]
    assert failed_twice.story["round"] == 2
    assert failed_twice.done.code == 75
    assert failed_twice.story["status"] == "waiting"
    answered = [event for event in failed_twice.events if event["event"] == "Answered" and not event["replayed"]]
    (first,) = [event for event in answered if "/choice@" in event["address"]]
    assert (first["answers"][0]["answer"], first["answers"][0]["answered_by"]) == ("redesign", "default")
    shown = skillrun("show", str(failed_twice.folder)).out
    assert "default used without asking: choice = redesign" in shown
    assert "answered: choice" not in shown
    again = failed_twice.resumed([reviewed(FATAL)])
    assert again.done.code == 75
    for text in ("choice: override\n", "choice: override\nreason: …\n", "reason: …\n"):
        (failed_twice.project / "answers.yaml").write_text(text, encoding="utf-8")
        open_ = failed_twice.resumed([reviewed(FATAL)], "--answers", "answers.yaml")
        assert (open_.done.code, "Why may the critical findings stay?" in open_.story["reason"]) == (75, True), text
    (failed_twice.project / "answers.yaml").write_text("choice: override\nreason: So.\n", encoding="utf-8")
    over = failed_twice.resumed([reviewed(FATAL)], "--answers", "answers.yaml")
    assert over.done.code == 0
    assert over.story["state"]["review_rounds"] == 2
    shown = skillrun("show", str(over.folder)).out
    assert "answered from the prepared answers: expert-review/cycle#1/choice = override" in shown
    assert "by a prepared answer" in over.summary("expert-review")["flags"]["review_override"]


@pytest.mark.slow
@pytest.mark.row("P12")
def test_the_person_may_stop_the_run_at_the_last_review(plan: Plans) -> None:
    run = plan("standard", [reviewed(FATAL)], answers={CHOICE: ["add context", "stop"], CONTEXT: "Nothing."})
    assert choices(run)[-1] == ["override", "stop"]
    assert run.done.code == 1
    assert run.story["status"] == "failed"
    assert "STOLEN tokens end up in the log." in run.story["reason"]
    assert run.asked("plan/test-strategy/*") == []


@pytest.mark.slow
@pytest.mark.row("P12")
def test_with_nobody_at_the_terminal_a_failed_review_waits(plan: Plans) -> None:
    run = plan("standard", [reviewed(FATAL)], config={"convergence": {"low": 0.0}}, unattended=False)
    assert run.done.code == 75
    assert "critical problem" in run.story["reason"]
    assert run.asked("plan/test-strategy/*") == []


@pytest.mark.slow
@pytest.mark.row("P12")
def test_one_reviewer_missing_is_degraded_and_the_other_one_decides(plan: Plans) -> None:
    lost = {"address": "plan/expert-review/*/simplicity-reviewer/*", "fail": "timeout"}
    run = plan("standard", [lost, reviewed(HEAVY)])
    assert run.story["state"]["review_outcome"] == "pass-with-risk"
    assert run.summary("expert-review")["flags"]["degraded"] is True
    assert "simplicity-reviewer" in run.summary("expert-review")["flags"]["degraded_because"]


@pytest.mark.slow
@pytest.mark.row("P12")
def test_thresholds_are_those_of_the_config(plan: Plans) -> None:
    config = {"expert_review": {"confidence_threshold": 96, "assumed_confidence": 10, "rounds": 1}}
    run = plan("standard", [reviewed(FATAL, finding("SILENT about it.", "CRITICAL"))], config=config)
    assert run.story["state"]["review_outcome"] == "pass"
    assert "that were dropped: 2." in run.artifact("review.md")
    once = plan("standard", [reviewed(FATAL)], config={"expert_review": {"rounds": 1}})
    assert choices(once) == [["override", "stop"]]


def slipped(**changes: Any) -> dict[str, Any]:
    """A reviewer whose one finding, a critical one, has a slip in its form, in the repair as well."""
    one = {**finding("STOLEN accounts of everybody.", "CRITICAL", 99), **changes}
    return reviewed({key: value for key, value in one.items() if value is not None})


@pytest.mark.slow
@pytest.mark.row("Z4", "P12")
@pytest.mark.finding("FP1", "FZ7")
@pytest.mark.parametrize(
    "slip",
    [
        {"severity": "critical"},
        {"confidence": "99"},
        {"confidence": 99.5},
        {"mitigation": None, "evidence": None},
        {"confidence": 101},
        {"file": "auth.py"},
    ],
    ids=["letter-case", "number-in-quotes", "fraction", "no-mitigation", "out-of-range", "field-too-many"],
)
def test_a_slip_in_the_form_of_a_critical_finding_does_not_let_the_design_pass(
    plan: Plans, slip: dict[str, Any]
) -> None:
    run = plan("standard", [slipped(**slip)], until="expert-review", answers={CHOICE: "override", REASON: "So."})
    assert run.summary("expert-review")["outputs"]["outcome"] == "pass-with-risk"
    assert choices(run) == [["redesign", "override", "add context"]]
    assert "CRITICAL: STOLEN accounts" in run.artifact("review.md")
    read = ("confidence" not in slip and "file" not in slip) or slip in ({"confidence": "99"}, {"confidence": 99.5})
    assert len(run.asked("plan/expert-review/*/security-analyst/*")) == (1 if read else 2)


@pytest.mark.slow
@pytest.mark.row("Z4", "P12")
@pytest.mark.finding("FP1", "FZ7")
def test_a_finding_that_cannot_be_read_is_asked_for_again_then_on_record_and_the_design_does_not_pass(
    plan: Plans,
) -> None:
    run = plan("standard", [slipped(severity="FATAL")], until="expert-review")
    first, repair = run.prompts("plan/expert-review/*/security-analyst/*")
    assert "`findings[0].severity`" not in first
    assert "`findings[0].severity`" in repair
    record = run.summary("expert-review")
    assert record["outputs"]["outcome"] == "pass-with-risk"
    assert record["flags"]["dropped"] == 1
    warning = record["quality_warnings"][0]
    assert warning.startswith("parts of the reply of security-analyst were invalid; dropped: findings[0] (")
    assert "1 things that reviewers said could not be read" in record["quality_warnings"][1]
    report = run.artifact("review.md")
    assert "Could not be read: findings[0] of security-analyst" in report
    assert "STOLEN accounts of everybody." in report
    (event,) = [event for event in run.events if event["event"] == "Pruned"]
    assert "STOLEN accounts of everybody." in event["items"][0]["text"]
    shown = skillrun("show", str(run.folder)).out
    assert f"expert-review: warning: {warning}" in shown
    assert "dropped = 1" in shown


@pytest.mark.slow
@pytest.mark.row("Z4", "P12")
@pytest.mark.finding("FZ7")
def test_a_reviewer_whose_reply_cannot_be_read_at_all_keeps_the_design_from_passing(plan: Plans) -> None:
    run = plan(
        "standard",
        [{"address": "plan/expert-review/*/security-analyst/*", "text": "STOLEN accounts. I quote {}."}],
        until="expert-review",
    )
    assert run.summary("expert-review")["outputs"]["outcome"] == "pass-with-risk"
    assert "Could not be read: a whole reply of security-analyst" in run.artifact("review.md")
    assert "STOLEN accounts." in run.artifact("review.md")


@pytest.mark.slow
@pytest.mark.finding("FZ7")
@pytest.mark.row("P12", "Z4")
@pytest.mark.parametrize("stop", ["other", "refusal", "length"])
def test_a_review_does_not_pass_while_a_reviewer_was_not_heard(plan: Plans, stop: str) -> None:
    lost = {"address": "plan/expert-review/*/security-analyst/*", "stop": stop, "data": {"findings": []}}
    run = plan("standard", [lost, {"address": "plan/expert-review/*/simplicity-reviewer/*", "data": {"findings": []}}])
    assert run.story["state"]["review_outcome"] == "pass-with-risk"
    told = run.prompt("plan/completion/tasks/*").partition("nobody could read")[2]
    assert "security-analyst wrote (no whole answer: " in told
    assert "Could not be read: a whole reply of security-analyst" in run.artifact("review.md")
