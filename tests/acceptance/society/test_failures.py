"""Too few models: failed drafts and reviews, a single reachable model, and duplicate models."""

from __future__ import annotations

import pytest

from tests.acceptance.society.conftest import MODELS, Rule, Society, item, plan, review

DRAFTS = "implementation-plan/drafting/*/drafts"
REVIEWS = "implementation-plan/review/*/reviews"


def failing(step: str, *models: str, kind: str = "auth", **more: object) -> list[Rule]:
    return [{"address": f"{step}/*@{model}/*", "fail": kind, **more} for model in models]


@pytest.mark.slow
@pytest.mark.row("S5")
def test_two_models_are_enough(society: Society) -> None:
    rules: list[Rule] = failing(DRAFTS, MODELS[0]) + failing(REVIEWS, MODELS[2])
    assert society.begin("multi-model", "multi-model", rules).code == 0, society.done.err
    front = society.front("report.md")
    assert front["planning_models"] == [f"planner@{one}" for one in MODELS[1:]]
    assert front["planning_mode"] == "multi-model"
    assert "PLAN-ada.md" not in society.files()
    assert "plan-reviewer@scripted:cyn did not answer." in society.text("planning/PLAN-REVIEW-SYNTHESIS.md")
    assert not [
        one for one in society.events if one["event"] == "Asked" and "are needed" in one["questions"][0]["text"]
    ]
    assert "degraded: drafting" in society.done.out


@pytest.mark.slow
@pytest.mark.row("S5")
def test_with_one_plan_the_user_may_retry_or_use_a_single_model(society: Society) -> None:
    rules: list[Rule] = failing(DRAFTS, *MODELS[1:], times=1)
    prepared = {"confirm": "use these", "drafting/cycle/fewer": "retry"}
    assert society.begin("multi-model", rules=rules, prepared=prepared).code == 0, society.done.err
    (event,) = [
        one for one in society.events if one["event"] == "Asked" and "are needed" in one["questions"][0]["text"]
    ]
    (question,) = event["questions"]
    assert question["text"].startswith("1 of 3 models has written a plan, and 2 are needed. planner@scripted:bea: ")
    assert question["choices"] == ["retry", "single-model"]
    sent = [address.rpartition("/")[0].rpartition("/")[2] for address in society.addresses("drafting/*/drafts/*")]
    assert sent.count("planner@scripted:ada") == 1, "models that replied are not retried"
    assert sent.count("planner@scripted:bea") == sent.count("planner@scripted:cyn") == 2
    assert society.front("report.md")["planning_mode"] == "multi-model"
    assert len([name for name in society.files() if name.startswith("PLAN-") and "REVIEW" not in name]) == 3


@pytest.mark.row("S5")
@pytest.mark.parametrize("count", [0, 1])
def test_single_model_mode_uses_the_only_plan(society: Society, count: int) -> None:
    rules: list[Rule] = [
        *failing(DRAFTS, *MODELS[count:]),
        {"address": f"{DRAFTS}/*", "text": plan("the draft")},
        {"address": "implementation-plan/planning/written/*", "text": plan("the single one")},
    ]
    assert society.begin("multi-model-deep", "single-model", rules).code == 0, society.done.err
    written = society.text("ImplementationPlan.md")
    assert ("Changes the draft." if count else "Changes the single one.") in written
    assert len(society.addresses("planning/*")) == 1 - count
    assert (
        f"{count} of 3 models {'has' if count else 'have'} written a plan; it goes on in single-model mode."
        in society.messages()
    )
    assert len(society.addresses("drafting/*/drafts/*")) == 3, "by default nothing is retried"
    front = society.front("report.md")
    assert (front["planning_mode"], front["planning_mode_wanted"]) == ("single-model", "multi-model-deep")
    assert "multi-model-deep was asked for" in society.text("report.md")


@pytest.mark.row("S5")
@pytest.mark.parametrize("count", [0, 1])
def test_too_few_reviews_cause_a_question(society: Society, count: int) -> None:
    rules: list[Rule] = failing(REVIEWS, *MODELS[count:])
    assert society.begin("single-model", "multi-model", rules).code == 1 - count, society.done.err
    events = [
        one for one in society.events if one["event"] == "Asked" and "reviewed the plan" in one["questions"][0]["text"]
    ]
    assert events[0]["questions"][0]["text"].startswith(
        f"{count} of 3 models {'has' if count else 'have'} reviewed the plan"
    )
    front = society.front("report.md")
    assert (front["plan_review_mode"], front["passed"]) == ("single-model" if count else "multi-model", bool(count))
    if not count:
        assert "No model has reviewed the plan." in society.text("planning/PLAN-REVIEW-SYNTHESIS.md")
        assert "failed: The plan has not passed a review: no review was completed." in society.done.out
        assert "# Not passed\n\nNo model has reviewed the plan.\n" in society.text("report.md")
    else:
        assert "1 of 3 models has reviewed the plan; the review counts as single-model." in society.messages()


@pytest.mark.row("S2", "S8")
def test_the_model_option_replaces_default_lists_of_models(society: Society) -> None:
    """The default of an input does not override a model that the user has chosen."""
    done = society.begin("multi-model-deep", "multi-model", (), "--model", "scripted:cleo", models=[])
    assert done.code == 0, done.err
    message = "Only one model can be reached for the drafts: scripted:cleo."
    assert any(one.startswith(message) for one in society.messages())
    assert set(society.front("state.md")["models"].values()) == {"scripted:cleo"}


@pytest.mark.row("S2")
def test_the_model_option_keeps_lists_of_models_that_the_user_gave(society: Society) -> None:
    done = society.begin("multi-model", "single-model", (), "--model", "scripted:cleo")
    assert done.code == 0, done.err
    assert society.front("report.md")["planning_models"] == [f"planner@{one}" for one in MODELS]


@pytest.mark.slow
@pytest.mark.row("S1")
def test_default_lists_of_models_cause_no_warning(society: Society) -> None:
    """Without keys the shipped intents resolve to the embedded model; a run on other models does not mention it."""
    for name, flags, warns in (("one", [], False), ("other", ["--planning-models", "embedded:smollm2-135m"], True)):
        done = society.begin("single-model", "single-model", (), "--name", name, *flags, models=[])
        assert done.code == 0, done.err
        assert "latest GPT = embedded:" in done.out
        assert ("embedded model: it shows" in done.out + done.err) is warns


@pytest.mark.row("S8")
def test_intents_that_resolve_to_one_model_use_single_model_mode_with_a_message(
    society: Society, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-secret")
    intents = ["latest GPT", "latest Gemini", "latest Claude Opus"]
    assert society.begin("multi-model-deep", "multi-model", models=intents).code == 0, society.done.err
    claude = "anthropic:claude-opus-5-5"
    found = f"latest GPT is {claude}, latest Gemini is {claude}, latest Claude Opus is {claude}"
    for kind, verb in (("drafts", "written"), ("reviews", "reviewed")):
        message = f"Only one model can be reached for the {kind}: {found}. The plan is {verb} in single-model mode."
        assert message in society.messages()
    assert len(society.addresses()) == 2
    assert not [one for one in society.events if one["event"] == "Asked"], "there is nothing to confirm"
    front = society.front("report.md")
    assert (front["planning_mode"], front["plan_review_mode"]) == ("single-model", "single-model")


@pytest.mark.slow
@pytest.mark.row("S8")
def test_a_repeated_model_is_one_member_and_two_providers_are_two(society: Society) -> None:
    (society.project / "config").mkdir()
    (society.project / "config" / "models.yaml").write_text(
        "providers: {here: {kind: openai, base_url: 'http://localhost:9/v1', key: ''}}\n"
    )
    assert society.begin("multi-model", models=["scripted:ada", "scripted:ada", "here:ada"]).code == 0, society.done.err
    sent = {address.split("/")[-2] for address in society.addresses("drafting/*/drafts/*")}
    assert sent == {"planner@scripted:ada", "planner@here:ada"}
    assert society.files()[-2:] == ["PLAN-ada.md", "PLAN-here-ada.md"]
    message = (
        "`planning_models` names a model more than once (scripted:ada, scripted:ada, here:ada). Each model drafts once."
    )
    assert message in society.messages()


@pytest.mark.row("S3")
def test_models_with_the_same_file_name_get_separate_files(society: Society) -> None:
    names = ["scripted:a.b", "scripted:a-b"]
    rules: list[Rule] = [
        *({"address": f"{DRAFTS}/planner@{one}/*", "text": plan(f"the {one}")} for one in names),
        {"address": "*/comparison/*", "data": {"why": "So.", "base": "PLAN-a-b-2", "points": []}},
        {"address": "*/rewritten/*", "text": plan(sources="PLAN-a-b-2"), "record": False},
    ]
    assert society.begin("multi-model", rules=rules, models=names).code == 0, society.done.err
    assert "Changes the scripted:a.b." in society.text("planning/PLAN-a-b.md")
    assert "Changes the scripted:a-b." in society.text("planning/PLAN-a-b-2.md")
    assert "planner@scripted:a-b" in society.addresses("planning/rewritten/*")[0]
    reply = "the reply of planner@scripted:a-b is in planning/PLAN-a-b-2.md"
    message = f"drafts: planning/PLAN-a-b.md belongs to another member; {reply}"
    assert message in society.messages()


@pytest.mark.slow
@pytest.mark.row("S3", "S6")
def test_late_drafts_and_reviews_with_the_same_file_name_get_separate_files(society: Society) -> None:
    """The files of the members that replied first stay, and the output names each file once."""
    names = ["scripted:a.b", "scripted:a-b"]
    rules: list[Rule] = [
        *(rule for step in (DRAFTS, REVIEWS) for rule in failing(step, names[1], times=1)),
        *({"address": f"{DRAFTS}/planner@{one}/*", "text": plan(f"the {one}")} for one in names),
        {"address": "*/comparison/*", "data": {"why": "So.", "base": "PLAN-a-b-2", "points": []}},
        {"address": "*/rewritten/*", "text": plan(sources="PLAN-a-b-2"), "record": False},
    ]
    prepared = {"confirm": "use these", "drafting/cycle/fewer": "retry", "review/cycle/fewer": "retry"}
    done = society.begin("multi-model", "multi-model", rules, models=names, prepared=prepared)
    assert done.code == 0, done.out
    for one, ending in zip(names, ("", "-2"), strict=True):
        assert f"Changes the {one}." in society.text(f"planning/PLAN-a-b{ending}.md")
        assert f"# Review by plan-reviewer@{one}: PASS" in society.text(f"planning/PLAN-REVIEW-a-b{ending}.md")
        assert done.out.count(f"review: wrote planning/PLAN-REVIEW-a-b{ending}.md") == 1
        assert society.text("report.md").count(f"`planning/PLAN-REVIEW-a-b{ending}.md`") == 1
    assert "planner@scripted:a-b" in society.addresses("planning/rewritten/*")[0]


@pytest.mark.slow
@pytest.mark.row("S2")
def test_the_models_are_shown_and_confirmed(society: Society, monkeypatch: pytest.MonkeyPatch) -> None:
    for key in ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY"):
        monkeypatch.setenv(key, "sk-secret")
    intents = ["latest GPT", "latest Gemini", "latest Claude Opus"]
    assert society.begin("multi-model", models=intents, attended=True).code == 75
    (event,) = [one for one in society.events if one["event"] == "Asked"]
    question = event["questions"][0]
    for name, model in zip(
        intents, ("openai:gpt-6.1-sol", "google:gemini-3.1-pro-preview", "anthropic:claude-opus-5-5"), strict=True
    ):
        assert f"{name} ({model})" in question["text"]
    assert "That takes 6 calls, " in question["text"]
    assert question["choices"] == ["use these", "single-model", "stop"]
    pinned = society.front("state.md")["models"]
    assert pinned["latest GPT"] == "openai:gpt-6.1-sol"
    assert not society.addresses()
    (society.project / "answers.yaml").write_text("confirm: single-model\n")
    assert society.resume((), "--answers", "answers.yaml").code == 0, society.done.err
    assert len(society.addresses()) == 2


@pytest.mark.row("S2")
def test_rejecting_the_models_stops_the_run_before_any_call(society: Society) -> None:
    assert society.begin("multi-model", prepared={"confirm": "stop"}).code == 1
    assert "The models were not the ones that were wanted." in society.done.out
    assert society.addresses() == []


@pytest.mark.row("S6")
def test_every_point_of_every_reviewer_is_kept_and_the_majority_counts(society: Society) -> None:
    rules: list[Rule] = [
        {"address": f"{REVIEWS}/*ada/*", "data": review("FAIL", item("REVIEW-ada-1"), item("REVIEW-ada-2", "NOTE"))},
        {"address": f"{REVIEWS}/*bea/*", "data": review("PASS", item("REVIEW-bea-1", "IMPROVE"))},
    ]
    assert society.begin("single-model", "multi-model", rules).code == 0, society.done.err
    synthesis = society.text("planning/PLAN-REVIEW-SYNTHESIS.md")
    assert synthesis.startswith("# Plan review\n\n**PASS**: 2 of 3 reviews pass the plan.")
    assert "- **BLOCKING** REVIEW-ada-1, T-1: What REVIEW-ada-1 says." in synthesis
    assert "- **IMPROVE** REVIEW-bea-1, T-1: What REVIEW-bea-1 says." in synthesis
    assert "REVIEW-ada-2" not in synthesis
    assert society.front("planning/PLAN-REVIEW-ada.md")["verdict"] == "FAIL"
    assert not society.addresses("planning/revised/*")
    assert society.front("report.md")["rounds"] == 1


@pytest.mark.slow
@pytest.mark.row("S6")
def test_half_is_not_a_majority_and_a_pass_with_a_blocking_point_fails(society: Society) -> None:
    rules: list[Rule] = [
        {"address": f"{REVIEWS}/*ada/*", "data": review("PASS", item("REVIEW-ada-1"))},
        *failing(REVIEWS, MODELS[2]),
        {"address": "implementation-plan/planning/revised/*", "text": plan("it again"), "record": False},
    ]
    assert society.begin("single-model", "multi-model", rules).code == 1, society.done.err
    first = society.text("round-1/planning/PLAN-REVIEW-SYNTHESIS.md")
    assert "**FAIL**: 1 of 2 reviews pass the plan." in first
    assert "It says PASS and names a point that blocks; that counts as FAIL." in first
    assert "What REVIEW-ada-1 says." in society.prompts("planning/revised/*")[0]


@pytest.mark.slow
@pytest.mark.row("S6")
@pytest.mark.finding("FT10")
def test_a_plan_that_never_passes_is_kept_and_reported_as_failed(society: Society) -> None:
    rules: list[Rule] = [
        {
            "address": f"{REVIEWS}/*",
            "data": review("FAIL", item("REVIEW-default-1"), item("REVIEW-default-2", "IMPROVE")),
        },
        {"address": "implementation-plan/planning/revised/*", "text": plan("it again"), "record": False},
    ]
    assert society.begin(rules=rules).code == 1, society.done.err
    assert "failed: The plan has not passed a review: 0 of 1 reviews pass it." in society.done.out
    report, front = society.text("report.md"), society.front("report.md")
    assert report.split("---\n")[2].startswith("# Not passed\n\n0 of 1 reviews pass the plan, in round 3.\n")
    for document in (report, society.text("ImplementationPlan.md")):
        assert "- **BLOCKING** REVIEW-default-1, T-1: What REVIEW-default-1 says." in document
        assert "- **IMPROVE** REVIEW-default-2, T-1: What REVIEW-default-2 says." in document
    calls = front["calls"]
    assert society.resume(rules, "--unattended").code == 1, "a resumed run does not pass either"
    assert society.front("report.md")["calls"] == calls
    assert society.front("report.md")["rounds"] == 3
    assert society.front("report.md")["passed"] is False
    message = "The plan does not pass its review; what it lacks is in planning/PLAN-REVIEW-SYNTHESIS.md."
    assert message in society.messages()
    assert "| Result | not passed in round 3 |" in society.text("report.md")
    assert "REVIEW-default-2" in society.text("planning/PLAN-REVIEW-SYNTHESIS.md")
    assert (society.folder / "round-2" / "ImplementationPlan.md").is_file()
    prompts = society.prompts("planning/revised/*")
    assert all("What REVIEW-default-2 says." in prompt for prompt in prompts)


@pytest.mark.row("S6")
@pytest.mark.finding("FT10")
@pytest.mark.parametrize("items", [(), (item("REVIEW-default-1", "NOTE"),)])
def test_a_failed_review_without_required_changes_goes_back_with_its_text(
    society: Society, items: tuple[Rule, ...]
) -> None:
    failed = {"walked": "I stopped at T-1: nothing says where rows come from.", "items": list(items), "verdict": "FAIL"}
    rules: list[Rule] = [
        {"address": f"{REVIEWS}/*", "data": failed, "times": 1},
        {"address": "implementation-plan/planning/revised/*", "text": plan("it again"), "record": False},
    ]
    assert society.begin(rules=rules).code == 0, society.done.err
    (prompt,) = society.prompts("planning/revised/*/1.1")
    assert "I stopped at T-1: nothing says where rows come from." in prompt
    assert ("What REVIEW-default-1 says." in prompt) is bool(items)
    synthesis = society.text("round-1/planning/PLAN-REVIEW-SYNTHESIS.md")
    assert "The verdict rests on this: I stopped at T-1: nothing says where rows come from." in synthesis
    assert society.front("report.md")["passed"] is True


@pytest.mark.row("S6")
@pytest.mark.finding("FT10", "FT13")
def test_points_of_a_minority_reach_the_plan_and_the_report(society: Society) -> None:
    changed = {**item("REVIEW-ada-1"), "change": "Close it first."}
    rules: list[Rule] = [{"address": f"{REVIEWS}/*ada/*", "data": review("FAIL", changed)}]
    assert society.begin("single-model", "multi-model", rules).code == 0, society.done.err
    report, written = society.text("report.md"), society.text("ImplementationPlan.md")
    assert report.split("---\n")[2].startswith("# Passed\n\n2 of 3 reviews pass the plan, in round 1.\n")
    line = "- **BLOCKING** REVIEW-ada-1, T-1: What REVIEW-ada-1 says."
    assert f"{line}\n" in report.partition("## What reviewers found and the plan leaves open\n")[2]
    assert written == f"{plan().strip()}\n\n## Open points\n\n{line} Change: Close it first.\n"
    page = society.text("planning/PLAN-REVIEW-ada.md").split("---\n")[2]
    assert page.startswith("# Review by plan-reviewer@scripted:ada: FAIL\n\nAll of it.\n")
    assert "\n## BLOCKING REVIEW-ada-1: T-1\n\nWhat REVIEW-ada-1 says.\n\nChange: Close it first.\n" in page
    assert "The review names no points." in society.text("planning/PLAN-REVIEW-bea.md")


@pytest.mark.row("S6")
@pytest.mark.finding("FT10")
def test_a_rule_finding_that_the_author_keeps_has_its_reason_in_the_documents(society: Society) -> None:
    vague = plan(more="Rows are counted as needed.")
    kept = {"answers": [{"id": "P-1", "done": "kept", "how": "The request says so."}]}
    rules: list[Rule] = [
        {"address": "implementation-plan/planning/written/*", "text": vague},
        {"address": "implementation-plan/planning/checked*/correction/*", "text": vague, "record": kept},
    ]
    assert society.begin(rules=rules).code == 0, society.done.err
    for text in (society.text("report.md"), society.text("ImplementationPlan.md"), *society.prompts("review/*")):
        assert "puts off or is vague: as needed." in text
        assert "The request says so." in text


@pytest.mark.row("S8")
@pytest.mark.finding("FT11")
def test_an_empty_list_of_models_is_reported(society: Society) -> None:
    names = ["--planning-models", "", "--plan-review-models", ""]
    assert society.begin("multi-model", "multi-model", (), *names, models=[]).code == 0, society.done.err
    assert "`planning_models` names no model. The plan is written in single-model mode." in society.messages()
    assert "`plan_review_models` names no model. The plan is reviewed in single-model mode." in society.messages()
    front = society.front("report.md")
    assert (front["planning_mode"], front["planning_mode_wanted"]) == ("single-model", "multi-model")


@pytest.mark.row("S8")
@pytest.mark.finding("FT11")
def test_too_few_reachable_models_are_counted(society: Society) -> None:
    (society.project / "config").mkdir()
    (society.project / "config" / "implementation.yaml").write_text("least_models: 3\n")
    assert society.begin("multi-model", "multi-model", models=MODELS[:2]).code == 0, society.done.err
    found = "(`least_models` is 3): scripted:ada, scripted:bea"
    for kind, verb in (("drafts", "written"), ("reviews", "reviewed")):
        message = f"Only 2 models can be reached for the {kind} {found}. The plan is {verb} in single-model mode."
        assert message in society.messages()


@pytest.mark.row("S8")
@pytest.mark.finding("FT11")
def test_at_least_one_model_must_answer(society: Society) -> None:
    (society.project / "config").mkdir()
    (society.project / "config" / "implementation.yaml").write_text("least_models: 0\n")
    assert society.begin("multi-model").code == 1
    assert "`least_models` is 0; at least one model has to answer" in society.done.err
