"""Which members each round calls, which ones count as engaged, and how conflicts end."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.deliberation.conftest import (
    ARCHITECT,
    CLASH,
    COOKIE,
    PHASES,
    RECORD,
    RULING,
    SECURITY,
    TABLE_ROW,
    TESTER,
    Hold,
    Rule,
    answer,
    conflict,
    findings,
    skillrun,
)

ALL = [ARCHITECT, SECURITY, TESTER]
NEW = "The cookie carries a number that is raised for everybody of that person, and one lookup in memory compares it."
STAYS = COOKIE["position"]


def second(member: str, *position_and_reasons: Any) -> Rule:
    """A member's answer in the second round; without arguments it does not answer."""
    if not position_and_reasons:
        return {"address": f"*/second/{member}/*", "fail": "timeout"}
    return {"address": f"*/second/{member}/*", "data": answer(*position_and_reasons)}


def assessment(*engaged: str, question: str = "", settled: tuple[str, ...] = ()) -> Rule:
    """The chair's assessment of the second answers."""
    data: dict[str, Any] = {
        "engaged": [{"member": one, "new": "Something."} for one in engaged],
        "settled": [{"conflict": one, "holds": "Rows and numbers."} for one in settled],
    }
    return {"address": "*/reading/*", "data": {**data, **({"question": question} if question else {})}}


QUIET = second(SECURITY, TABLE_ROW["position"], *(one["reason"] for one in TABLE_ROW["reasons"]))


@pytest.mark.row("D2", "D3", "D4")
def test_without_a_high_pair_conflicts_cause_no_second_round(hold: Hold) -> None:
    low = {"deliberation": {"conflict_overrides": [{"agent_a": SECURITY, "agent_b": TESTER, "level": "MEDIUM"}]}}
    run = hold(CLASH, config=low)
    assert run.called_members("first") == ALL
    assert (run.called_members("second"), run.called_members("third")) == ([], [])
    assert run.called_members("resolution") == ["chair"]
    assert run.record["rounds"] == 1
    assert run.record["high_pairs"] == []
    assert run.record["conflicts"] == [
        "C-1 (Where sessions live): the chair, by evidence: Rows hold. A row is deleted."
    ]


@pytest.mark.row("D2")
@pytest.mark.parametrize(
    "override", [(SECURITY, "software-architect"), (ARCHITECT, SECURITY), ("software-architect", SECURITY)]
)
def test_a_pair_is_named_by_role_or_member_in_any_order(hold: Hold, override: tuple[str, str]) -> None:
    pair = dict(zip(("agent_a", "agent_b"), override, strict=True), level="HIGH")
    run = hold(CLASH, QUIET, second(ARCHITECT), config={"deliberation": {"conflict_overrides": [pair]}})
    assert len(run.record["high_pairs"]) == 1
    assert run.record["rounds"] == 2


@pytest.mark.row("D2")
def test_a_session_of_one_specialist_needs_no_findings_of_the_chair(hold: Hold) -> None:
    run = hold(table=SECURITY)
    assert run.called_members("first") == [SECURITY]
    assert run.called_members("findings") == []
    assert run.record["rounds"] == 1
    assert "Sessions are rows of a table" in run.artifact("decision-record.md")


@pytest.mark.row("D2")
def test_an_invalid_override_is_reported(hold: Hold) -> None:
    config = {"deliberation": {"conflict_overrides": [{"agent_a": SECURITY, "agent_b": TESTER, "level": "HUGE"}]}}
    run = hold(config=config, code=1)
    assert "each of `conflict_overrides` has `agent_a`, `agent_b` and a `level`" in run.done.err
    assert not run.folder.exists()


@pytest.mark.row("D1", "D2")
@pytest.mark.finding("FT13")
def test_validate_reports_unknown_roles_and_teams_of_more_than_four(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    overrides = [{"agent_a": "securty-analyst", "agent_b": f"{ARCHITECT}@opus", "level": "HIGH"}]
    teams = {"five": [*ALL, "operator", "implementer"], "typo": ["software-architect:pragmatical"]}
    (tmp_path / "config").mkdir()
    path = tmp_path / "config" / "deliberation.yaml"
    path.write_text(json.dumps({"teams": teams, "deliberation": {"conflict_overrides": overrides}}))
    messages = [one["message"] for one in skillrun("validate", "--json").json["problems"]]
    assert [message.partition(",")[0].partition(";")[0] for message in sorted(messages)] == [
        "`conflict_overrides` names securty-analyst",
        "`teams` names software-architect:pragmatical",
        "a team in `teams` has more than four members",
    ]
    path.write_text(json.dumps({"teams": {"four": [*ALL, "operator@opus"]}}))
    assert skillrun("validate").code == 0


@pytest.mark.row("D1", "D2")
@pytest.mark.finding("FR31")
@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"teams": {"none": []}}, "a team in `teams` has no member, or one member twice"),
        ({"teams": {"twice": [SECURITY, SECURITY]}}, "a team in `teams` has no member, or one member twice"),
        ({"deliberation": {"pace": {"end": 0}}}, "a number in `pace` is below 1"),
    ],
)
def test_validate_reports_teams_and_paces_that_cannot_be_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, config: dict[str, Any], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "deliberation.yaml").write_text(json.dumps(config))
    (problem,) = skillrun("validate", "--json").json["problems"]
    assert problem["message"].startswith(message)


@pytest.mark.row("D1")
def test_more_than_three_rounds_or_four_specialists_are_rejected(hold: Hold) -> None:
    assert "`rounds` is 4; there are one to three" in hold(config={"deliberation": {"rounds": 4}}, code=1).done.err
    five = f"{','.join(ALL)},operator,implementer"
    run = hold(table=five, code=2, config={"deliberation": {"rounds": 3}})
    assert "`specialists` has 5 items; expected 0 to 4" in run.done.err
    run = hold(table="operator,implementer,operator", code=2)
    assert "`specialists` contains `operator` twice; add a variant or a model to distinguish members" in run.done.err


@pytest.mark.row("D3", "D4")
def test_members_answer_independently_and_without_conflict_there_is_one_round(hold: Hold) -> None:
    run = hold()
    for member in ALL:
        prompt = run.prompt(f"*/first/{member}/*")
        assert "Where do sessions live?" in prompt
        assert "`confidence`, last" in prompt
        assert STAYS not in prompt
    assert run.called_members("findings") == ["chair"]
    assert (run.called_members("second"), run.called_members("resolution")) == ([], [])
    assert "Sessions end after a day." in run.prompt("*/record/decision/*")
    assert run.record["high_pairs"], "a second round was possible"


GAP = {"id": "G-1", "question": "Who deletes old rows?", "priority": "HIGH", "candidates": ["A job.", "The owner."]}
WITH_GAP: Rule = {"address": "*/findings/*", "data": {**findings(), "gaps": [GAP]}}


@pytest.mark.row("D4")
@pytest.mark.finding("FT1")
def test_gaps_become_open_questions(hold: Hold) -> None:
    run = hold(WITH_GAP)
    assert run.summary("deliberation")["open_questions"] == [GAP]
    assert "Who deletes old rows?" in run.prompt("*/record/decision/*")
    record = run.artifact("decision-record.md")
    line = "- Who deletes old rows? No specialist answered this; its priority is HIGH."
    assert f"{line} Possible answers: A job.; The owner.\n" in record.partition("\n## Open\n")[2]
    assert "**Open:** 2, [below](#open)." in record
    repeated = {**RECORD["data"], "open": [{"question": GAP["question"], "matters": "They grow.", "who": "the owner"}]}
    again = hold(WITH_GAP, {"address": "*/record/decision/*", "data": repeated}, flags=["--out", "others"])
    assert again.artifact("decision-record.md").count("Who deletes old rows?") == 1


@pytest.mark.row("D4")
@pytest.mark.finding("FT1")
@pytest.mark.parametrize(("workflow", "document"), [("plan-issue", "plan.md"), ("review-plan", "plan-review.md")])
def test_gaps_reach_the_plan_and_the_review(hold: Hold, workflow: str, document: str) -> None:
    files = {"plan.md": "# Plan\n\nKeep sessions in a signed cookie.\n"}
    run = hold(WITH_GAP, workflow=workflow, subject="plan.md", files=files)
    section = run.artifact(document).partition("\n## Questions without an answer\n")[2]
    assert "- G-1 (HIGH): Who deletes old rows? Possible answers: A job.; The owner.\n" in section


@pytest.mark.row("D4")
@pytest.mark.finding("FT1")
def test_the_documents_report_that_nobody_compared_the_answers(hold: Hold) -> None:
    run = hold({"address": "*/findings/*", "fail": "overloaded"})
    line = "The chair could not compare the answers, so no conflicts were identified."
    assert f"## Conflicts\n\n- {line}\n" in run.artifact("decision-record.md")


@pytest.mark.row("D1")
@pytest.mark.finding("FT13")
def test_the_pace_of_the_end_is_in_the_prompt_of_the_resolution(hold: Hold) -> None:
    config: dict[str, Any] = {"deliberation": {"rounds": 1, "pace": {"end": 2}}}
    prompt = hold(CLASH, config=config).prompt("*/resolution/*")
    assert "`because` has at most 2 reasons, each with its place or case." in prompt


@pytest.mark.row("D3")
@pytest.mark.finding("FT13")
def test_a_member_that_does_not_reply_is_left_out(hold: Hold) -> None:
    run = hold({"address": f"*/first/{TESTER}/*", "fail": "overloaded"})
    assert TESTER not in run.prompt("*/findings/*").replace(f"{TESTER} did not answer", "")
    assert run.record["answered"] == [2, 0, 0]
    assert run.record["dispatched"] == [3, 0, 0]
    assert f"- {TESTER}: did not answer\n" in run.artifact("decision-record.md")
    assert f"- {TESTER}: opened no file" not in run.artifact("decision-record.md")
    assert run.summary("deliberation")["flags"]["degraded"] is True
    failed = hold({"address": "*/first/*", "fail": "overloaded"}, flags=["--out", "others"], code=1)
    assert "`first` was not answered" in failed.done.out


@pytest.mark.row("D5")
def test_only_members_in_conflict_answer_again_and_see_who_raised_the_concern(hold: Hold) -> None:
    run = hold(CLASH, second(ARCHITECT, STAYS, NEW), QUIET, assessment(ARCHITECT))
    assert sorted(run.called_members("second")) == sorted([ARCHITECT, SECURITY])
    proposer, critic = run.prompt(f"*/second/{ARCHITECT}/*"), run.prompt(f"*/second/{SECURITY}/*")
    assert f"C-1: {SECURITY} raised this concern: A stolen cookie cannot be taken back." in proposer
    assert f"You had proposed: {STAYS}" in proposer
    assert "C-1: this concern is yours: A stolen cookie cannot be taken back." in critic
    assert f"what {ARCHITECT} proposed: {STAYS}" in critic
    for prompt, member in ((proposer, COOKIE), (critic, TABLE_ROW)):
        assert member["reasons"][0]["reason"] in prompt, "each member sees its own reasons"
    assert TABLE_ROW["reasons"][0]["reason"] not in proposer, "only the chair sees the reasons of others"
    assert TESTER not in proposer


SAME = COOKIE["reasons"][0]["reason"]
ENGAGEMENT = {
    "new reasons for the same position": (second(ARCHITECT, STAYS, NEW), "engaged"),
    "four new words": (second(ARCHITECT, STAYS, "NFSv3 retries lose EEXIST."), "engaged"),
    "two new words": (second(ARCHITECT, STAYS, "It breaks replication."), "engaged"),
    "new words in other scripts": (second(ARCHITECT, STAYS, "Ключ ротируется ежедневно."), "engaged"),
    "a new reason in the position": (second(ARCHITECT, f"{STAYS} Revocation costs one lookup in memory."), "engaged"),
    "a changed mind": (second(ARCHITECT, "Rows in Redis, by number.", SAME), "engaged"),
    "a repetition": (second(ARCHITECT, STAYS, SAME), "repeats or dismisses"),
    "nearly the same words": (
        second(
            ARCHITECT, f"As I said: {STAYS}", f"As I said before, {SAME.lower()} I maintain it.", "It is the right way."
        ),
        "repeats or dismisses",
    ),
    "a dismissal": (second(ARCHITECT, STAYS, "This was already addressed in my first answer."), "repeats or dismisses"),
    "a dismissal with other words": (
        second(
            ARCHITECT, STAYS, "That doesn't matter.", "The concern is overblown and not relevant here.", "I disagree."
        ),
        "repeats or dismisses",
    ),
    "no reasons": (second(ARCHITECT, STAYS), "repeats or dismisses"),
    "silence": (second(ARCHITECT), "silent"),
}


@pytest.mark.row("D6")
@pytest.mark.finding("FT2")
@pytest.mark.parametrize("case", ENGAGEMENT)
def test_a_member_with_something_new_is_engaged(hold: Hold, case: str) -> None:
    reply, outcome = ENGAGEMENT[case]
    third = {"address": "*/third/*", "data": answer("A row after all.", "It is what it costs.", level="HIGH")}
    run = hold(CLASH, reply, QUIET, assessment(ARCHITECT, question="What does a lookup cost?"), third)
    assert run.record["answered"][1] == (1 if outcome == "silent" else 2)
    assert f"{SECURITY}: repeats or dismisses" in run.record["not_engaged"]
    if outcome == "engaged":
        assert run.record["engaged"] == [ARCHITECT]
        assert run.called_members("third") == [ARCHITECT], "only engaged members are called"
    else:
        assert f"{ARCHITECT}: {outcome}" in run.record["not_engaged"]
        assert run.called_members("reading") == [], "the chair assesses only possibly new reasons"
        assert (run.record["engaged"], run.called_members("third"), run.record["rounds"]) == ([], [], 2)
        final = run.prompt("*/resolution/*")
        assert SAME in final, "the first position is final"
        assert "repeats" not in final


@pytest.mark.slow
@pytest.mark.row("D6")
def test_the_chair_detects_a_rephrased_repetition(hold: Hold) -> None:
    other = "Stateless machines may be exchanged freely because nothing about visitors is remembered between them."
    run = hold(CLASH, second(ARCHITECT, STAYS, other), QUIET, assessment(question="What does it cost?"))
    assert run.called_members("reading") == ["chair"]
    assert f"{ARCHITECT}: nothing new in substance" in run.record["not_engaged"]
    assert run.called_members("third") == []
    (final,) = [one for one in run.summary("deliberation")["outputs"]["positions"] if one["member"] == ARCHITECT]
    assert final["data"] == COOKIE
    without_chair = hold(
        CLASH,
        second(ARCHITECT, STAYS, NEW),
        QUIET,
        {"address": "*/reading/*", "fail": "overloaded"},
        flags=["--out", "o"],
    )
    assert without_chair.record["engaged"] == [ARCHITECT], "without the chair, the wording decides"


@pytest.mark.row("D6", "D7")
def test_a_conflict_settled_in_the_second_round_needs_no_third(hold: Hold) -> None:
    run = hold(CLASH, second(ARCHITECT, STAYS, NEW), QUIET, assessment(ARCHITECT, question="Why?", settled=("C-1",)))
    assert (run.called_members("third"), run.called_members("resolution")) == ([], [])
    assert run.record["conflicts"] == ["C-1 (Where sessions live): consensus: Rows and numbers."]
    assert "Rows and numbers." in run.artifact("decision-record.md")


@pytest.mark.row("D1", "D7")
def test_the_third_round_has_one_question_and_then_the_chair_decides(hold: Hold) -> None:
    third = {
        "address": "*/third/*",
        "data": answer("A cookie with a number.", "One lookup in memory takes a microsecond."),
    }
    run = hold(
        CLASH, second(ARCHITECT, STAYS, NEW), QUIET, assessment(ARCHITECT, question="What does a lookup cost?"), third
    )
    prompt = run.prompt("*/third/*")
    assert "# The question that is left\n" in prompt
    assert "What does a lookup cost?" in prompt
    assert f"One question is left, for {ARCHITECT}: What does a lookup cost?" in run.done.out
    assert f"Asked again: {SECURITY}, {ARCHITECT}." in run.done.out
    assert NEW in prompt, "the member sees its own answer"
    assert run.called_members("resolution") == ["chair"]
    assert "One lookup in memory takes a microsecond." in run.prompt("*/resolution/*")
    assert all(text in run.prompt("*/record/decision/*") for text in (SAME, NEW)), "no relevant reason is lost"
    assert (run.record["rounds"], run.record["of"]) == (3, 3)
    assert run.record["dispatched"] == [3, 2, 1]
    assert run.record["answered"] == [3, 2, 1]


@pytest.mark.row("D1")
def test_prompts_get_shorter_and_narrower(hold: Hold) -> None:
    third = {"address": "*/third/*", "data": answer("A cookie with a number.", "It takes a microsecond.")}
    run = hold(CLASH, second(ARCHITECT, STAYS, NEW), QUIET, assessment(ARCHITECT, question="What does it cost?"), third)
    limits = [
        int(run.prompt(f"*/{step}/{ARCHITECT}/*").split("at most ")[-1].split()[0].strip(","))
        for step in ("first", "second", "third")
    ]
    assert limits == [4, 3, 2]
    tasks = {
        step: run.prompt(f"*/{step}/chair/*").split("# Current task")[1].split("# Your role")[0]
        for step in ("findings", "reading", "resolution")
    }
    assert len(tasks["findings"]) > len(tasks["reading"]) > 0
    assert len(tasks["findings"]) > len(tasks["resolution"])
    assert TESTS_REASON in run.prompt("*/findings/*")
    assert TESTS_REASON not in run.prompt("*/reading/*") + run.prompt("*/resolution/*")


TESTS_REASON = "A test can put a row there and check it."


CONCERN = "A stolen cookie cannot be taken back."


@pytest.mark.row("D7")
@pytest.mark.finding("FT13")
@pytest.mark.parametrize(
    ("by", "against", "says", "outcome"),
    [
        ("HIGH", "LOW", "the concern holds", f"HIGH against LOW, the concern of {SECURITY} holds: {CONCERN}"),
        ("LOW", "MEDIUM", "the proposal holds", f"MEDIUM against LOW, this holds: {STAYS} ({ARCHITECT})"),
        (
            "MEDIUM",
            "MEDIUM",
            "neither has it",
            f"MEDIUM on both sides, neither holds. The concern of {SECURITY}: {CONCERN}",
        ),
        ("MEDIUM", "HIGH", "the proposal holds", f"HIGH against MEDIUM, this holds: {STAYS} ({ARCHITECT})"),
    ],
)
def test_confidence_decides_between_sides(hold: Hold, by: str, against: str, says: str, outcome: str) -> None:
    rules = [
        {"address": f"*/first/{SECURITY}/*", "data": answer("A table.", "Ended at once.", level=by)},
        {"address": f"*/first/{ARCHITECT}/*", "data": answer(STAYS, SAME, level=against)},
    ]
    without_chair: Rule = {"address": "*/resolution/*", "fail": "overloaded"}
    run = hold(*rules, CLASH, second(SECURITY), second(ARCHITECT), without_chair)
    line = f"C-1: {SECURITY} is {by}, the other side {against}; by confidence {says}"
    assert line in run.prompt("*/resolution/*")
    assert line in run.prompt("*/record/decision/*"), "the rule also applies without the chair"
    (conflicts,) = run.record["conflicts"]
    assert conflicts == f"C-1 (Where sessions live): by confidence alone, {outcome}"
    assert f"- {conflicts}\n" in run.artifact("decision-record.md")


@pytest.mark.row("D7")
def test_a_side_has_the_confidence_of_its_most_confident_member(hold: Hold) -> None:
    both = conflict()
    both["parties"].append({"member": TESTER, "proposed": "The same."})
    guess = {"address": f"*/first/{ARCHITECT}/*", "data": answer(STAYS, SAME, level="LOW")}
    run = hold(guess, {"address": "*/findings/*", "data": findings(both)}, config={"deliberation": {"rounds": 1}})
    assert f"{SECURITY} is HIGH, the other side MEDIUM; by confidence the concern holds" in run.prompt("*/resolution/*")


UNSURE: list[Rule] = [
    {"address": f"*/first/{one}/*", "data": answer(f"{one} would guess so.", "A guess.", level="LOW")} for one in ALL
]


@pytest.mark.row("D7")
def test_the_user_decides_when_every_member_is_unsure(hold: Hold) -> None:
    run = hold(*UNSURE, code=75)
    assert "Nobody at the table is sure of an answer." in run.done.out
    assert not (run.folder / "decision-record.md").exists()
    (run.folder.parent.parent / "answers.yaml").write_text("verdict: Ask the people who run it.\n")
    done = skillrun("resume", "run", "--answers", "answers.yaml", "--script", "replies.yaml", "--unattended")
    assert done.code == 0, done.out
    assert run.record["escalated"] is True
    assert run.summary("deliberation")["flags"]["escalated"] is True
    assert "Ask the people who run it." in run.prompt("*/record/decision/*")
    assert "A person decided, as none of the specialists was sure: Ask the people who run it." in run.artifact(
        "decision-record.md"
    )


@pytest.mark.slow
@pytest.mark.row("D7")
def test_the_user_may_let_the_chair_decide_and_one_confident_member_is_enough(hold: Hold) -> None:
    run = hold(*UNSURE, answers={"verdict": "let the chair decide"})
    assert "None of the specialists was sure, and a person let the chair decide." in run.artifact("decision-record.md")
    assert "A person decided" not in run.artifact("decision-record.md")
    assert run.record["escalated"] is True
    sure = hold(*UNSURE[:2], flags=["--out", "others"])
    assert sure.done.code == 0


LONG = "---\nname: security-analyst\ndescription: Long.\n---\n" + "You check one more problem.\n" * 100


@pytest.mark.row("D8")
def test_long_roles_keep_their_conversation_when_several_rounds_are_possible(hold: Hold) -> None:
    rules = (CLASH, second(ARCHITECT, STAYS, NEW), {**QUIET, "cached": 400}, assessment(ARCHITECT))
    run = hold(*rules, files={"roles/security-analyst.md": LONG})
    assert (run.record["session"], run.record["saved"]) == ("persistent", 400)
    prompt = run.prompt(f"*/second/{SECURITY}/*")
    assert "this concern is yours" in prompt
    assert "Answer the design question" not in prompt, "it is already in the conversation"
    assert "You check one more problem." not in prompt
    assert TABLE_ROW["reasons"][0]["reason"] not in prompt


@pytest.mark.slow
@pytest.mark.row("D8")
def test_otherwise_each_round_is_fresh_and_a_flag_overrides_it(hold: Hold) -> None:
    short = hold(CLASH, QUIET, second(ARCHITECT))
    assert short.record["session"] == "fresh"
    assert "Answer the design question" in short.prompt(f"*/second/{SECURITY}/*")
    none: dict[str, Any] = {"deliberation": {"conflict_overrides": []}}
    one_round = hold(config=none, files={"roles/security-analyst.md": LONG}, flags=["--out", "b"])
    assert "one round is expected" in one_round.done.out
    persistent = hold(
        CLASH, QUIET, second(ARCHITECT), flags=["--out", "c", "--session", "persistent"], config={"breakers": {}}
    )
    assert "persistent (asked for)" in persistent.done.out


@pytest.mark.slow
@pytest.mark.row("D8")
def test_a_conversation_that_no_longer_fits_is_dropped_with_a_warning(hold: Hold) -> None:
    small = 'models: {"openai:small": {window: 4000, max_output: 600}}\n'
    rules = (
        CLASH,
        {"address": f"*/first/{SECURITY}/*", "data": answer("A table.", "word " * 3000)},
        QUIET,
        second(ARCHITECT),
    )
    run = hold(
        *rules, files={"config/models.yaml": small}, flags=["--session", "persistent", "--model", "openai:small"]
    )
    warning = f"{SECURITY} starts a new conversation: the earlier one no longer fits the window of openai:small"
    assert warning in run.summary("deliberation")["quality_warnings"]
    assert "Answer the design question" in run.prompt(f"*/second/{SECURITY}/*")


@pytest.mark.row("D8")
@pytest.mark.finding("FT3")
@pytest.mark.parametrize("kind", ["invalid_request", "too_long", "other"])
def test_a_conversation_that_the_provider_rejects_starts_anew_with_a_warning(hold: Hold, kind: str) -> None:
    rejected: Rule = {"address": f"*/second/{ARCHITECT}/*", "fail": kind, "times": 1}
    third = {"address": "*/third/*", "data": answer("A cookie with a number.", "It takes a microsecond.")}
    rules = (CLASH, rejected, second(ARCHITECT, STAYS, NEW), QUIET, assessment(ARCHITECT, question="How fast?"), third)
    run = hold(*rules, flags=["--session", "persistent"])
    (warning,) = [one for one in run.summary("deliberation")["quality_warnings"] if "new conversation" in one]
    assert warning.startswith(f"{ARCHITECT} starts a new conversation: the earlier one was rejected (")
    assert (run.record["answered"], run.record["engaged"]) == ([3, 2, 1], [ARCHITECT])
    assert "Answer the design question" in run.prompt(f"*/second/{ARCHITECT}/*"), "the new prompt is complete"
    assert "Answer the design question" not in run.prompt(f"*/third/{ARCHITECT}/*"), "later rounds continue it"


@pytest.mark.row("D8")
@pytest.mark.finding("FT3")
def test_a_member_whose_new_conversation_fails_too_is_silent(hold: Hold) -> None:
    rejected: Rule = {"address": f"*/second/{ARCHITECT}/*", "fail": "invalid_request"}
    run = hold(CLASH, rejected, QUIET, flags=["--session", "persistent"])
    assert f"{ARCHITECT}: silent" in run.record["not_engaged"]
    assert run.record["answered"] == [3, 1, 0]


@pytest.mark.row("D9")
def test_the_record_describes_the_process_and_the_document_does_not(hold: Hold) -> None:
    run = hold(CLASH, second(ARCHITECT, STAYS, NEW), QUIET, assessment(ARCHITECT, settled=("C-1",)))
    assert run.record == {
        "rounds": 2,
        "of": 3,
        "high_pairs": [f"{SECURITY} and {ARCHITECT}"],
        "session": "fresh",
        "because": run.record["because"],
        "dispatched": [3, 2, 0],
        "answered": [3, 2, 0],
        "engaged": [ARCHITECT],
        "not_engaged": [f"{SECURITY}: repeats or dismisses"],
        "conflicts": ["C-1 (Where sessions live): consensus: Rows and numbers."],
        "escalated": False,
        "saved": 0,
    }
    flags = run.summary("deliberation")["flags"]
    assert (flags["rounds"], flags["session"], flags["conflicts"]) == ("2 of 3", "fresh", 1)
    text = run.artifact("decision-record.md").lower()
    assert not [word for word in ("round", "fresh", "persistent", "dispatched", "engaged", "token") if word in text]


@pytest.mark.slow
@pytest.mark.row("D2", "D6")
def test_the_three_workflows_share_the_protocol_and_its_config(hold: Hold) -> None:
    for number, workflow in enumerate(PHASES):
        files = {"plan.md": "# Plan\n\nKeep sessions in a signed cookie.\n"}
        run = hold(
            CLASH,
            second(ARCHITECT, STAYS, SAME),
            QUIET,
            workflow=workflow,
            subject="plan.md",
            files=files,
            flags=["--out", f"r{number}"],
        )
        assert run.done.code == 0


def test_two_conflicts_are_resolved_separately(hold: Hold) -> None:
    both = findings(conflict(), conflict(TESTER, ARCHITECT, "C-2"))
    config = {"deliberation": {"rounds": 1}}
    run = hold({"address": "*/findings/*", "data": both}, config=config)
    assert run.record["conflicts"] == [
        "C-1 (Where sessions live): the chair, by evidence: Rows hold. A row is deleted.",
        f"C-2 (Where sessions live): by confidence alone, HIGH against MEDIUM, this holds: {STAYS} ({ARCHITECT})",
    ]
    assert RULING["address"] == "*/resolution/*"


@pytest.mark.row("D4", "D7")
@pytest.mark.finding("FR22")
@pytest.mark.parametrize("name", ["C-1", "", "c-1 "])
def test_a_decision_on_one_conflict_is_not_used_for_another_with_its_id(hold: Hold, name: str) -> None:
    other = {**conflict(name=name), "topic": "Who ends a session", "concern": "No user can."}
    first = conflict(name="" if not name else "C-1")
    ruling = {"conflict": "CONFLICT-1", "holds": "Rows hold.", "because": "A row is deleted.", "by": "evidence"}
    rules = [
        {"address": "*/findings/*", "data": findings(first, other)},
        {"address": "*/resolution/*", "data": {"rulings": [ruling]}},
    ]
    lines = hold(*rules, config={"deliberation": {"rounds": 1}}).record["conflicts"]
    assert lines[0] == "CONFLICT-1 (Where sessions live): the chair, by evidence: Rows hold. A row is deleted."
    assert lines[1].startswith("CONFLICT-2 (Who ends a session): by confidence alone, HIGH on both sides")


@pytest.mark.row("D4")
@pytest.mark.finding("FR21")
def test_a_conflict_that_could_not_be_read_is_in_the_record(hold: Hold) -> None:
    run = hold({"address": "*/findings/*", "data": findings(conflict(by="software-architect"))})
    (line,) = run.record["conflicts"]
    assert line.startswith("This part of the chair's findings could not be read: conflicts[0]")
    assert f"- {line}\n" in run.artifact("decision-record.md")


@pytest.mark.row("D7")
@pytest.mark.finding("FR23")
@pytest.mark.parametrize(("words", "code"), [("", 75), ("TBD", 0)])
def test_an_answer_without_a_decision_does_not_let_the_chair_decide(hold: Hold, words: str, code: int) -> None:
    unsure = [
        {"address": f"*/first/{one}/*", "data": answer(f"{one} would guess so.", "A guess.", level="LOW")}
        for one in (ARCHITECT, SECURITY, TESTER)
    ]
    run = hold(*unsure, answers={"verdict": words}, code=code)
    if code:
        assert "the answer is empty, but the question requires an answer" in run.done.out
    else:
        text = run.artifact("decision-record.md")
        assert "A person decided, as none of the specialists was sure: TBD\n" in text
