"""The expert review: which findings count, the three outcomes, and the user's choices after a failed one."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.acceptance.plan.conftest import Plan, Plans, skillrun

CHOICE, CONTEXT, REASON = "expert-review/cycle/choice", "expert-review/cycle/context", "expert-review/why/reason"


def finding(risk: str, severity: str, confidence: int | None = None) -> dict[str, Any]:
    optional = {} if confidence is None else {"confidence": confidence}
    return {
        "id": risk.split(maxsplit=1)[0],
        "evidence": "Line 3.",
        "risk": risk,
        "severity": severity,
        "mitigation": "Fix it.",
        **optional,
    }


def review_rule(*findings: dict[str, Any], by: str = "security-analyst", **more: Any) -> dict[str, Any]:
    return {
        "address": f"plan/expert-review/cycle#*/review/review/{by}/*",
        "data": {"findings": list(findings)},
        **more,
    }


FATAL = finding("STOLEN tokens end up in the log.", "CRITICAL", 95)
HEAVY = finding("SLOW pages for everybody.", "MAJOR", 80)
UNANSWERED = {"address": "plan/expert-review/revision/*", "fail": "timeout"}


def choices(run: Plan) -> list[list[str]]:
    """The choices offered to the user for each failed review."""
    events = [event for event in run.events if event["event"] == "Asked" and "/choice@" in event["address"]]
    return [event["questions"][0]["choices"] for event in events]


@pytest.fixture
def mixed(plan: Plans) -> Plan:
    """Findings of every severity, none critical with enough confidence; their author does not reply."""
    return plan(
        "standard",
        [
            UNANSWERED,
            review_rule(
                finding("DOUBTFUL hole in the wall.", "CRITICAL", 79),
                HEAVY,
                finding("SILENT about its confidence.", "MAJOR"),
                finding("TINY matter of style.", "MINOR", 99),
            ),
        ],
    )


@pytest.fixture
def failed_twice(plan: Plans) -> Plan:
    """Critical both times, in an unattended run without prepared answers."""
    return plan("standard", [review_rule(FATAL)], isolated=True)


@pytest.mark.slow
@pytest.mark.row("P12")
def test_findings_below_the_threshold_are_dropped_and_a_missing_confidence_counts_as_80(mixed: Plan) -> None:
    report = mixed.artifact("review.md")
    assert "that were dropped: 1." in report
    assert "DOUBTFUL" not in report
    assert all(word in report for word in ("SLOW", "SILENT", "TINY"))


@pytest.mark.row("P12")
def test_major_findings_pass_with_risk_and_are_carried_into_risks_and_tasks(mixed: Plan) -> None:
    assert mixed.overview["state"]["review_outcome"] == "pass-with-risk"
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
    run = plan("standard", [review_rule(finding("TINY matter of style.", "MINOR", 99))])
    assert run.overview["state"]["review_outcome"] == "pass"
    assert "TINY" in run.artifact("review.md")


@pytest.mark.slow
@pytest.mark.row("P12")
@pytest.mark.finding("FL24")
def test_a_failed_review_returns_to_architecture_with_the_findings(plan: Plans) -> None:
    run = plan("standard", [review_rule(FATAL, times=1), review_rule()])
    assert choices(run) == [["redesign", "override", "add context"]]
    assert run.overview["round"] == 2
    first, second = run.prompts("plan/architecture/proposals/first/software-architect:clean/*")
    assert "STOLEN tokens end up in the log." not in first
    assert "STOLEN tokens end up in the log." in second
    sent_back = (run.folder / "round-1" / "design.md").read_text(encoding="utf-8")
    heading = "# The design that was sent back\n"
    assert all(line in second.partition(heading)[2] for line in sent_back.splitlines()[:8])
    assert "say what of it should stay." in second
    assert "keep what is good in the rest." in run.prompts("plan/architecture/draft/*")[-1]
    assert heading not in first
    assert run.summary("expert-review", 1)["outputs"]["outcome"] == "fail"
    assert run.summary("expert-review")["outputs"]["outcome"] == "pass"
    assert run.overview["state"]["review_outcome"] == "pass"
    assert run.done.code == 0


@pytest.mark.slow
@pytest.mark.row("P12")
@pytest.mark.finding("FP2", "FP4", "FL24", "FT17")
def test_an_override_is_recorded_and_all_findings_are_kept_with_its_reason(plan: Plans) -> None:
    heavy = [finding(f"HEAVY{n} on every page.", "MAJOR", 90) for n in range(9)]
    answers = {CHOICE: "override", REASON: "The log is gone next week."}
    run = plan(
        "standard",
        [
            UNANSWERED,
            review_rule(*heavy, FATAL),
            {"address": "plan/completion/tasks/*", "text": f"# Tasks\n\n{' '.join(one['id'] for one in heavy[:8])}"},
        ],
        answers=answers,
    )
    record = run.summary("expert-review")
    assert run.overview["round"] == 1
    assert run.overview["state"]["review_outcome"] == "pass-with-risk"
    why = "1 critical finding was overridden by a prepared answer and is carried as a risk: The log is gone next week."
    assert record["flags"]["review_override"] == why
    assert record["quality_warnings"][-1] == why
    names = ["STOLEN", *(f"HEAVY{n}" for n in range(9))]
    assert [one["id"] for one in record["risks_identified"]] == names
    prompt = run.prompt("plan/completion/tasks/*")
    assert [name for name in names if f"- id: {name}\n" in prompt] == names
    assert prompt.index("id: STOLEN") < prompt.index("id: HEAVY0")
    assert "say so, with the reason." in prompt
    assert "The log is gone next week." in prompt.partition("# Why the CRITICAL ones were overridden")[2]
    assert "Why the critical findings stay: The log is gone next week." in run.artifact("review.md")
    assert "The critical ones were overridden: The log is gone next week." in run.artifact("summary.md")
    final = "Overridden, because: The log is gone next week."
    assert f"- STOLEN: CRITICAL, {FATAL['risk']} Mitigation: Fix it. {final}" in run.artifact("tasks.md")
    opening = run.artifact("plan.md").partition("## Open")[2]
    assert opening.lstrip().startswith(f"- CRITICAL STOLEN: {FATAL['risk']} It would take: Fix it. {final}\n")
    assert all(f"- MAJOR {name}: " in opening for name in names[1:])
    assert opening.count(final) == 1, "major findings are not overridden"
    unnamed = "No task names the risks stolen, heavy8, which the review leaves."
    assert unnamed in run.summary("completion")["quality_warnings"]
    assert "Named in no task: stolen, heavy8" in run.artifact("summary.md")


@pytest.mark.slow
@pytest.mark.row("P12")
def test_added_context_causes_another_review_in_the_same_round(plan: Plans) -> None:
    answers = {CHOICE: "add context", CONTEXT: "The proxy strips every token."}
    run = plan("standard", [review_rule(FATAL, times=1), review_rule()], answers=answers)
    first, second = run.prompts("plan/expert-review/cycle#*/review/review/security-analyst/*")
    assert "The proxy strips every token." not in first
    assert "The proxy strips every token." in second
    assert run.overview["round"] == 1
    assert run.overview["state"]["review_outcome"] == "pass"


@pytest.mark.slow
@pytest.mark.row("P12")
@pytest.mark.finding("FP4")
def test_after_two_failed_reviews_only_the_user_can_decide(failed_twice: Plan) -> None:
    assert choices(failed_twice) == [["redesign", "override", "add context"], ["override", "stop"]]
    assert failed_twice.overview["round"] == 2
    assert failed_twice.done.code == 75
    assert failed_twice.overview["status"] == "waiting"
    answered = [event for event in failed_twice.events if event["event"] == "Answered" and not event["replayed"]]
    (first,) = [event for event in answered if "/choice@" in event["address"]]
    assert (first["answers"][0]["answer"], first["answers"][0]["answered_by"]) == ("redesign", "default")
    shown = skillrun("show", str(failed_twice.folder)).out
    assert "default used without asking: choice = redesign" in shown
    assert "answered: choice" not in shown
    resumed = failed_twice.resume([review_rule(FATAL)])
    assert resumed.done.code == 75
    for text in ("choice: override\n", "choice: override\nreason: …\n", "reason: …\n"):
        (failed_twice.project / "answers.yaml").write_text(text, encoding="utf-8")
        open_ = failed_twice.resume([review_rule(FATAL)], "--answers", "answers.yaml")
        assert (open_.done.code, "Why may the critical findings stay?" in open_.overview["reason"]) == (75, True), text
    (failed_twice.project / "answers.yaml").write_text("choice: override\nreason: So.\n", encoding="utf-8")
    overridden = failed_twice.resume([review_rule(FATAL)], "--answers", "answers.yaml")
    assert overridden.done.code == 0
    assert overridden.overview["state"]["review_rounds"] == 2
    shown = skillrun("show", str(overridden.folder)).out
    assert re.search(r"answered from the prepared answers: expert-review/cycle#1/choice(@2)? = override", shown)
    assert "by a prepared answer" in overridden.summary("expert-review")["flags"]["review_override"]


@pytest.mark.slow
@pytest.mark.row("P12")
def test_the_user_may_stop_the_run_at_the_last_review(plan: Plans) -> None:
    run = plan("standard", [review_rule(FATAL)], answers={CHOICE: ["add context", "stop"], CONTEXT: "Nothing."})
    assert choices(run)[-1] == ["override", "stop"]
    assert run.done.code == 1
    assert run.overview["status"] == "failed"
    assert "STOLEN tokens end up in the log." in run.overview["reason"]
    assert run.addresses("plan/test-strategy/*") == []


@pytest.mark.slow
@pytest.mark.row("P12")
def test_without_a_terminal_a_failed_review_waits(plan: Plans) -> None:
    run = plan("standard", [review_rule(FATAL)], config={"convergence": {"low": 0.0}}, unattended=False)
    assert run.done.code == 75
    assert "critical problem" in run.overview["reason"]
    assert run.addresses("plan/test-strategy/*") == []


@pytest.mark.slow
@pytest.mark.row("P12")
def test_without_one_reviewer_the_review_is_degraded_and_the_other_decides(plan: Plans) -> None:
    failure = {"address": "plan/expert-review/*/simplicity-reviewer/*", "fail": "timeout"}
    run = plan("standard", [failure, review_rule(HEAVY)])
    assert run.overview["state"]["review_outcome"] == "pass-with-risk"
    assert run.summary("expert-review")["flags"]["degraded"] is True
    assert "simplicity-reviewer" in run.summary("expert-review")["flags"]["degraded_because"]


@pytest.mark.slow
@pytest.mark.row("P12")
def test_thresholds_come_from_the_config(plan: Plans) -> None:
    config = {"expert_review": {"confidence_threshold": 96, "assumed_confidence": 10, "rounds": 1}}
    run = plan("standard", [review_rule(FATAL, finding("SILENT about it.", "CRITICAL"))], config=config)
    assert run.overview["state"]["review_outcome"] == "pass"
    assert "that were dropped: 2." in run.artifact("review.md")
    once = plan("standard", [review_rule(FATAL)], config={"expert_review": {"rounds": 1}})
    assert choices(once) == [["override", "stop"]]


def malformed(**changes: Any) -> dict[str, Any]:
    """A reviewer whose only finding, a critical one, is malformed, also after the repair."""
    one = {**finding("STOLEN accounts of everybody.", "CRITICAL", 99), **changes}
    return review_rule({key: value for key, value in one.items() if value is not None})


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
    ids=["letter-case", "number-in-quotes", "fraction", "no-mitigation", "out-of-range", "extra-field"],
)
def test_a_malformed_critical_finding_does_not_let_the_design_pass(plan: Plans, slip: dict[str, Any]) -> None:
    run = plan("standard", [malformed(**slip)], until="expert-review", answers={CHOICE: "override", REASON: "So."})
    assert run.summary("expert-review")["outputs"]["outcome"] == "pass-with-risk"
    assert choices(run) == [["redesign", "override", "add context"]]
    assert "CRITICAL: STOLEN accounts" in run.artifact("review.md")
    valid = ("confidence" not in slip and "file" not in slip) or slip in ({"confidence": "99"}, {"confidence": 99.5})
    assert len(run.addresses("plan/expert-review/*/security-analyst/*")) == (1 if valid else 2)


@pytest.mark.slow
@pytest.mark.row("Z4", "P12")
@pytest.mark.finding("FP1", "FZ7")
def test_an_unreadable_finding_is_repaired_once_then_recorded_and_prevents_a_pass(
    plan: Plans,
) -> None:
    run = plan("standard", [malformed(severity="FATAL")], until="expert-review")
    first, repair = run.prompts("plan/expert-review/*/security-analyst/*")
    assert "`findings[0].severity`" not in first
    assert "`findings[0].severity`" in repair
    record = run.summary("expert-review")
    assert record["outputs"]["outcome"] == "pass-with-risk"
    assert record["flags"]["dropped"] == 1
    warning = record["quality_warnings"][0]
    assert warning.startswith("parts of the reply of security-analyst were invalid; dropped: findings[0] (")
    assert "1 remark of reviewers could not be read" in record["quality_warnings"][1]
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
def test_an_unreadable_review_prevents_a_pass(plan: Plans) -> None:
    run = plan(
        "standard",
        [{"address": "plan/expert-review/*/security-analyst/*", "text": "STOLEN accounts. I quote {}."}],
        until="expert-review",
    )
    assert run.summary("expert-review")["outputs"]["outcome"] == "pass-with-risk"
    assert "Could not be read: a whole reply of security-analyst" in run.artifact("review.md")
    assert "STOLEN accounts." in run.artifact("review.md")


@pytest.mark.slow
@pytest.mark.row("P12")
@pytest.mark.finding("FT17")
def test_plan_md_says_what_nobody_reviewed_scored_or_could_read(plan: Plans) -> None:
    unread = {"address": "plan/expert-review/*/security-analyst/*", "text": "STOLEN accounts. I quote {}."}
    failures = [{"address": f"plan/{phase}/judged/*", "fail": "timeout"} for phase in ("validation", "coverage")]
    opening = plan("standard", [unread, *failures]).artifact("plan.md").partition("## Open")[2]
    assert "- 1 of the reviewers' replies could not be read; `review.md` has them." in opening
    assert "- No judge has scored the design." in opening
    assert "- No judge has scored the test plan." in opening
    silent = plan("standard", [{"address": "plan/expert-review/*/review/*", "fail": "timeout"}])
    assert "- No reviewer has checked the design." in silent.artifact("plan.md")


@pytest.mark.slow
@pytest.mark.finding("FZ7")
@pytest.mark.row("P12", "Z4")
@pytest.mark.parametrize("stop", ["other", "refusal", "length"])
def test_a_missing_reviewer_prevents_a_pass(plan: Plans, stop: str) -> None:
    failure = {"address": "plan/expert-review/*/security-analyst/*", "stop": stop, "text": '{"findings": [{"id": "S'}
    other = {"address": "plan/expert-review/*/simplicity-reviewer/*", "data": {"findings": []}}
    run = plan("standard", [failure, other])
    assert run.overview["state"]["review_outcome"] == "pass-with-risk"
    prompt = run.prompt("plan/completion/tasks/*").partition("nobody could read")[2]
    assert "security-analyst wrote (no whole answer: " in prompt
    assert "Could not be read: a whole reply of security-analyst" in run.artifact("review.md")


@pytest.mark.slow
@pytest.mark.row("P12")
@pytest.mark.finding("FT26")
def test_a_prepared_reason_that_settles_nothing_is_named_before_the_run_waits(plan: Plans) -> None:
    run = plan("standard", [review_rule(FATAL)], until="expert-review", answers={CHOICE: "override", REASON: "TBD"})
    assert run.done.code == 75
    assert "“TBD” does not give a reason to keep the critical findings." in run.messages()


@pytest.mark.slow
@pytest.mark.row("P12", "P16")
@pytest.mark.finding("FR64")
def test_a_reviewer_without_an_answer_leaves_no_unreadable_remark(plan: Plans) -> None:
    run = plan("standard", [{"address": "plan/expert-review/*/security-analyst/*", "fail": "timeout"}])
    record = run.summary("expert-review")
    assert record["flags"]["degraded"] is True
    assert record["outputs"]["outcome"] == "pass-with-risk"
    assert record["outputs"]["unread"] == []
    assert "(no answer from security-analyst)" in run.artifact("review.md")
    assert "could not be read" not in run.artifact("review.md").lower()
    opening = run.artifact("plan.md").partition("## Open")[2]
    assert "- The design has no review by security-analyst." in opening
    assert "could not be read" not in opening


@pytest.mark.slow
@pytest.mark.row("P12")
@pytest.mark.finding("FR65")
def test_texts_of_several_lines_keep_the_form_of_the_documents(plan: Plans) -> None:
    lines = {**finding("STOLEN tokens.\n## Not a heading", "CRITICAL", 95), "mitigation": "Hash.\n# Nor this"}
    answers = {CHOICE: "override", REASON: "It is a demo.\n## Nor that\n- of June"}
    run = plan("standard", [UNANSWERED, review_rule(lines)], answers=answers)
    because = "Overridden, because: It is a demo. ## Nor that - of June"
    risk = "STOLEN: CRITICAL, STOLEN tokens. ## Not a heading Mitigation: Hash. # Nor this"
    assert f"- {risk} {because}\n" in run.artifact("tasks.md")
    assert "Why the critical findings stay: It is a demo. ## Nor that - of June\n" in run.artifact("review.md")
    for name in ("review.md", "tasks.md", "plan.md"):
        assert not re.search(r"^#+ No[rt] ", run.artifact(name), re.MULTILINE), name


@pytest.mark.slow
@pytest.mark.row("P12")
@pytest.mark.finding("FR66")
def test_each_finding_has_the_answer_of_its_own(plan: Plans) -> None:
    slow, leaky = ({**finding(f"{name} page.", "MAJOR", 90), "id": "F-1"} for name in ("SLOW", "LEAKY"))
    stale = {key: value for key, value in finding("STALE page.", "MAJOR", 90).items() if key != "id"}
    answers = [
        {"id": "F-1", "done": "kept", "how": "Speed is fine."},
        {"id": "P-1", "done": "kept", "how": "The cache is off."},
        {"id": "F-1-1", "done": "changed", "how": "It is closed."},
    ]
    rewrite = {"address": "plan/expert-review/revision/*", "text": "# Design", "record": {"answers": answers}}
    rules = [review_rule(slow, stale), review_rule(leaky, by="simplicity-reviewer"), rewrite]
    report = plan("standard", rules, until="expert-review").artifact("review.md")
    heads = [part.splitlines()[0] for part in report.split("## MAJOR: ")[1:]]
    assert heads == ["SLOW page.", "STALE page.", "LEAKY page."]
    said = [line for line in report.splitlines() if line.startswith("- The author: ")]
    assert said == [
        "- The author: kept, Speed is fine.",
        "- The author: kept, The cache is off.",
        "- The author: changed, It is closed.",
    ]
