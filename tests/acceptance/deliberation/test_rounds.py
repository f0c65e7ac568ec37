"""Who is asked in which round, who counts as engaged, and how what is in conflict ends."""

from __future__ import annotations

from typing import Any

import pytest

from tests.acceptance.deliberation.conftest import (
    ARCHITECT,
    CLASH,
    COOKIE,
    PHASES,
    RULING,
    SECURITY,
    TABLE_ROW,
    TESTER,
    Hold,
    Rule,
    answer,
    conflict,
    found,
    skillrun,
)

ALL = [ARCHITECT, SECURITY, TESTER]
NEW = "The cookie carries a number that is raised for everybody of that person, and one lookup in memory compares it."
STAYS = COOKIE["position"]


def second(member: str, *said: Any) -> Rule:
    """What a member answers when it is asked again; nothing where nothing is said."""
    if not said:
        return {"address": f"*/second/{member}/*", "fail": "timeout"}
    return {"address": f"*/second/{member}/*", "data": answer(*said)}


def reading(*engaged: str, question: str = "", settled: tuple[str, ...] = ()) -> Rule:
    """What the chair makes of the second answers."""
    data: dict[str, Any] = {
        "engaged": [{"member": one, "new": "Something."} for one in engaged],
        "settled": [{"conflict": one, "holds": "Rows and numbers."} for one in settled],
    }
    return {"address": "*/reading/*", "data": {**data, **({"question": question} if question else {})}}


QUIET = second(SECURITY, TABLE_ROW["position"], *(one["reason"] for one in TABLE_ROW["reasons"]))


@pytest.mark.row("D2", "D3", "D4")
def test_without_a_high_pair_there_is_one_round_whatever_is_in_conflict(hold: Hold) -> None:
    low = {"deliberation": {"conflict_overrides": [{"agent_a": SECURITY, "agent_b": TESTER, "level": "MEDIUM"}]}}
    run = hold(CLASH, config=low)
    assert run.asked("first") == ALL
    assert (run.asked("second"), run.asked("third")) == ([], [])
    assert run.asked("resolution") == ["chair"]
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
def test_one_specialist_is_a_session_without_chair_between(hold: Hold) -> None:
    run = hold(table=SECURITY)
    assert run.asked("first") == [SECURITY]
    assert run.asked("findings") == []
    assert run.record["rounds"] == 1
    assert "Sessions are rows of a table" in run.artifact("decision-record.md")


@pytest.mark.row("D2")
def test_what_is_wrong_with_overrides_is_said_at_their_place(hold: Hold) -> None:
    config = {"deliberation": {"conflict_overrides": [{"agent_a": SECURITY, "agent_b": TESTER, "level": "HUGE"}]}}
    run = hold(config=config, code=1)
    assert "each of `conflict_overrides` has `agent_a`, `agent_b` and a `level`" in run.done.err
    assert not run.folder.exists()


@pytest.mark.row("D1")
def test_more_than_three_rounds_or_four_specialists_there_are_not(hold: Hold) -> None:
    assert "`rounds` is 4; there are one to three" in hold(config={"deliberation": {"rounds": 4}}, code=1).done.err
    five = f"{','.join(ALL)},operator,implementer"
    run = hold(table=five, code=2, config={"deliberation": {"rounds": 3}})
    assert "`specialists` has 5 items; expected 0 to 4" in run.done.err
    run = hold(table="operator,implementer,operator", code=2)
    assert "`specialists` contains `operator` twice; add a variant or a model to distinguish members" in run.done.err


@pytest.mark.row("D3", "D4")
def test_everybody_answers_alone_and_without_conflict_nobody_is_asked_again(hold: Hold) -> None:
    run = hold()
    for member in ALL:
        prompt = run.prompt(f"*/first/{member}/*")
        assert "Where do sessions live?" in prompt
        assert "`confidence`, last" in prompt
        assert STAYS not in prompt
    assert run.asked("findings") == ["chair"]
    assert (run.asked("second"), run.asked("resolution")) == ([], [])
    assert "Sessions end after a day." in run.prompt("*/record/decision/*")
    assert run.record["high_pairs"], "they might have been"


@pytest.mark.row("D4")
def test_what_nobody_has_answered_stays_open(hold: Hold) -> None:
    gap = {"id": "G-1", "question": "Who deletes old rows?", "priority": "HIGH", "candidates": ["A job."]}
    run = hold({"address": "*/findings/*", "data": {**found(), "gaps": [gap]}})
    assert run.summary("deliberation")["open_questions"] == [gap]
    assert "Who deletes old rows?" in run.prompt("*/record/decision/*")


@pytest.mark.row("D3")
def test_who_does_not_answer_is_left_out(hold: Hold) -> None:
    run = hold({"address": f"*/first/{TESTER}/*", "fail": "overloaded"})
    assert TESTER not in run.prompt("*/findings/*").replace(f"{TESTER} did not answer", "")
    assert run.record["answered"] == [2, 0, 0]
    assert run.record["dispatched"] == [3, 0, 0]
    assert f"- {TESTER}: did not answer" in run.artifact("decision-record.md")
    assert run.summary("deliberation")["flags"]["degraded"] is True
    gone = hold({"address": "*/first/*", "fail": "overloaded"}, flags=["--out", "others"], code=1)
    assert "`first` was not answered" in gone.done.out


@pytest.mark.row("D5")
def test_only_those_in_conflict_answer_again_and_know_whose_concern_it_is(hold: Hold) -> None:
    run = hold(CLASH, second(ARCHITECT, STAYS, NEW), QUIET, reading(ARCHITECT))
    assert sorted(run.asked("second")) == sorted([ARCHITECT, SECURITY])
    hit, own = run.prompt(f"*/second/{ARCHITECT}/*"), run.prompt(f"*/second/{SECURITY}/*")
    assert f"C-1: {SECURITY} raised this concern: A stolen cookie cannot be taken back." in hit
    assert f"You had proposed: {STAYS}" in hit
    assert "C-1: this concern is yours: A stolen cookie cannot be taken back." in own
    assert f"what {ARCHITECT} proposed: {STAYS}" in own
    for prompt, member in ((hit, COOKIE), (own, TABLE_ROW)):
        assert member["reasons"][0]["reason"] in prompt, "what they said themselves"
    assert TABLE_ROW["reasons"][0]["reason"] not in hit, "what others said goes to the chair alone"
    assert TESTER not in hit


SAME = COOKIE["reasons"][0]["reason"]
ENGAGEMENT = {
    "new reasons for the same position": (second(ARCHITECT, STAYS, NEW), "engaged"),
    "a changed mind": (second(ARCHITECT, "Rows in Redis, by number.", SAME), "engaged"),
    "a repetition": (second(ARCHITECT, STAYS, SAME), "repeats or dismisses"),
    "nearly the same words": (
        second(
            ARCHITECT, f"As I said: {STAYS}", f"As I said before, {SAME.lower()} I stand by it.", "It is the right way."
        ),
        "repeats or dismisses",
    ),
    "a dismissal": (second(ARCHITECT, STAYS, "This was already addressed in my first answer."), "repeats or dismisses"),
    "no reasons": (second(ARCHITECT, STAYS), "repeats or dismisses"),
    "silence": (second(ARCHITECT), "silent"),
}


@pytest.mark.row("D6")
@pytest.mark.parametrize("case", ENGAGEMENT)
def test_engaged_is_who_brings_something_new(hold: Hold, case: str) -> None:
    said, outcome = ENGAGEMENT[case]
    third = {"address": "*/third/*", "data": answer("A row after all.", "It is what it costs.", level="HIGH")}
    run = hold(CLASH, said, QUIET, reading(ARCHITECT, question="What does a lookup cost?"), third)
    assert run.record["answered"][1] == (1 if outcome == "silent" else 2)
    assert f"{SECURITY}: repeats or dismisses" in run.record["not_engaged"]
    if outcome == "engaged":
        assert run.record["engaged"] == [ARCHITECT]
        assert run.asked("third") == [ARCHITECT], "who has not engaged is not asked again"
    else:
        assert f"{ARCHITECT}: {outcome}" in run.record["not_engaged"]
        assert run.asked("reading") == [], "a model is asked only of what might be new"
        assert (run.record["engaged"], run.asked("third"), run.record["rounds"]) == ([], [], 2)
        final = run.prompt("*/resolution/*")
        assert SAME in final, "the first position is final"
        assert "repeats" not in final


@pytest.mark.slow
@pytest.mark.row("D6")
def test_the_same_in_other_words_is_for_the_chair_to_see(hold: Hold) -> None:
    other = "Stateless machines may be exchanged freely because nothing about visitors is remembered between them."
    run = hold(CLASH, second(ARCHITECT, STAYS, other), QUIET, reading(question="What does it cost?"))
    assert run.asked("reading") == ["chair"]
    assert f"{ARCHITECT}: nothing new in substance" in run.record["not_engaged"]
    assert run.asked("third") == []
    (final,) = [one for one in run.summary("deliberation")["outputs"]["positions"] if one["member"] == ARCHITECT]
    assert final["data"] == COOKIE
    lost = hold(
        CLASH,
        second(ARCHITECT, STAYS, NEW),
        QUIET,
        {"address": "*/reading/*", "fail": "overloaded"},
        flags=["--out", "o"],
    )
    assert lost.record["engaged"] == [ARCHITECT], "where the chair cannot be reached, the words alone say it"


@pytest.mark.row("D6", "D7")
def test_what_is_settled_in_the_second_round_wants_no_third(hold: Hold) -> None:
    run = hold(CLASH, second(ARCHITECT, STAYS, NEW), QUIET, reading(ARCHITECT, question="Why?", settled=("C-1",)))
    assert (run.asked("third"), run.asked("resolution")) == ([], [])
    assert run.record["conflicts"] == ["C-1 (Where sessions live): consensus: Rows and numbers."]
    assert "Rows and numbers." in run.artifact("decision-record.md")


@pytest.mark.row("D1", "D7")
def test_the_third_round_has_one_question_and_behind_it_the_chair_decides(hold: Hold) -> None:
    third = {
        "address": "*/third/*",
        "data": answer("A cookie with a number.", "One lookup in memory takes a microsecond."),
    }
    run = hold(
        CLASH, second(ARCHITECT, STAYS, NEW), QUIET, reading(ARCHITECT, question="What does a lookup cost?"), third
    )
    prompt = run.prompt("*/third/*")
    assert "# The question that is left\n" in prompt
    assert "What does a lookup cost?" in prompt
    assert f"One question is left, for {ARCHITECT}: What does a lookup cost?" in run.done.out
    assert f"Asked again: {SECURITY}, {ARCHITECT}." in run.done.out
    assert NEW in prompt, "what the member had answered itself"
    assert run.asked("resolution") == ["chair"]
    assert "One lookup in memory takes a microsecond." in run.prompt("*/resolution/*")
    assert all(text in run.prompt("*/record/decision/*") for text in (SAME, NEW)), "nothing that counts is lost"
    assert (run.record["rounds"], run.record["of"]) == (3, 3)
    assert run.record["dispatched"] == [3, 2, 1]
    assert run.record["answered"] == [3, 2, 1]


@pytest.mark.row("D1")
def test_prompts_get_shorter_and_narrower(hold: Hold) -> None:
    third = {"address": "*/third/*", "data": answer("A cookie with a number.", "It takes a microsecond.")}
    run = hold(CLASH, second(ARCHITECT, STAYS, NEW), QUIET, reading(ARCHITECT, question="What does it cost?"), third)
    most = [
        int(run.prompt(f"*/{step}/{ARCHITECT}/*").split("at most ")[-1].split()[0].strip(","))
        for step in ("first", "second", "third")
    ]
    assert most == [4, 3, 2]
    tasks = {
        step: run.prompt(f"*/{step}/chair/*").split("# Current task")[1].split("# Your role")[0]
        for step in ("findings", "reading", "resolution")
    }
    assert len(tasks["findings"]) > len(tasks["reading"]) > 0
    assert len(tasks["findings"]) > len(tasks["resolution"])
    assert TESTS_REASON in run.prompt("*/findings/*")
    assert TESTS_REASON not in run.prompt("*/reading/*") + run.prompt("*/resolution/*")


TESTS_REASON = "A test can put a row there and look at it."


@pytest.mark.row("D7")
@pytest.mark.parametrize(
    ("by", "against", "says"),
    [
        ("HIGH", "LOW", "the concern holds"),
        ("LOW", "MEDIUM", "the proposal holds"),
        ("MEDIUM", "MEDIUM", "neither has it"),
        ("MEDIUM", "HIGH", "the proposal holds"),
    ],
)
def test_between_sides_confidence_counts(hold: Hold, by: str, against: str, says: str) -> None:
    rules = [
        {"address": f"*/first/{SECURITY}/*", "data": answer("A table.", "Ended at once.", level=by)},
        {"address": f"*/first/{ARCHITECT}/*", "data": answer(STAYS, SAME, level=against)},
    ]
    lost: Rule = {"address": "*/resolution/*", "fail": "overloaded"}
    run = hold(*rules, CLASH, second(SECURITY), second(ARCHITECT), lost)
    line = f"C-1: {SECURITY} is {by}, the other side {against}; by confidence {says}"
    assert line in run.prompt("*/resolution/*")
    assert line in run.prompt("*/record/decision/*"), "the rule holds also where the chair cannot be reached"
    assert run.record["conflicts"] == ["C-1 (Where sessions live): by confidence alone"]


@pytest.mark.row("D7")
def test_a_side_is_as_sure_as_the_surest_of_it(hold: Hold) -> None:
    both = conflict()
    both["parties"].append({"member": TESTER, "proposed": "The same."})
    guess = {"address": f"*/first/{ARCHITECT}/*", "data": answer(STAYS, SAME, level="LOW")}
    run = hold(guess, {"address": "*/findings/*", "data": found(both)}, config={"deliberation": {"rounds": 1}})
    assert f"{SECURITY} is HIGH, the other side MEDIUM; by confidence the concern holds" in run.prompt("*/resolution/*")


UNSURE: list[Rule] = [
    {"address": f"*/first/{one}/*", "data": answer(f"{one} would guess so.", "A guess.", level="LOW")} for one in ALL
]


@pytest.mark.row("D7")
def test_what_nobody_is_sure_of_a_person_decides(hold: Hold) -> None:
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
def test_the_person_may_leave_it_to_the_chair_and_one_who_is_sure_is_enough(hold: Hold) -> None:
    run = hold(*UNSURE, answers={"verdict": "let the chair decide"})
    assert "A person decided" not in run.artifact("decision-record.md")
    assert run.record["escalated"] is True
    sure = hold(*UNSURE[:2], flags=["--out", "others"])
    assert sure.done.code == 0


LONG = "---\nname: security-analyst\ndescription: Long.\n---\n" + "You look at one more thing.\n" * 100


@pytest.mark.row("D8")
def test_long_roles_keep_their_conversation_where_several_rounds_may_come(hold: Hold) -> None:
    rules = (CLASH, second(ARCHITECT, STAYS, NEW), {**QUIET, "cached": 400}, reading(ARCHITECT))
    run = hold(*rules, files={"roles/security-analyst.md": LONG})
    assert (run.record["session"], run.record["saved"]) == ("persistent", 400)
    prompt = run.prompt(f"*/second/{SECURITY}/*")
    assert "this concern is yours" in prompt
    assert "Answer the design question" not in prompt, "it stands in the conversation"
    assert "You look at one more thing." not in prompt
    assert TABLE_ROW["reasons"][0]["reason"] not in prompt


@pytest.mark.slow
@pytest.mark.row("D8")
def test_otherwise_each_round_stands_alone_and_one_may_say_what_it_shall_be(hold: Hold) -> None:
    short = hold(CLASH, QUIET, second(ARCHITECT))
    assert short.record["session"] == "fresh"
    assert "Answer the design question" in short.prompt(f"*/second/{SECURITY}/*")
    none: dict[str, Any] = {"deliberation": {"conflict_overrides": []}}
    one_round = hold(config=none, files={"roles/security-analyst.md": LONG}, flags=["--out", "b"])
    assert "one round is expected" in one_round.done.out
    asked = hold(
        CLASH, QUIET, second(ARCHITECT), flags=["--out", "c", "--session", "persistent"], config={"breakers": {}}
    )
    assert "persistent (asked for)" in asked.done.out


@pytest.mark.slow
@pytest.mark.row("D8")
def test_a_conversation_that_cannot_be_kept_is_given_up_with_a_warning(hold: Hold) -> None:
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
    warning = f"{SECURITY} lost its conversation: it no longer fits the window of openai:small"
    assert warning in run.summary("deliberation")["quality_warnings"]
    assert "Answer the design question" in run.prompt(f"*/second/{SECURITY}/*")


@pytest.mark.row("D9")
def test_the_record_says_how_it_went_and_the_document_does_not(hold: Hold) -> None:
    run = hold(CLASH, second(ARCHITECT, STAYS, NEW), QUIET, reading(ARCHITECT, settled=("C-1",)))
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
            about="plan.md",
            files=files,
            flags=["--out", f"r{number}"],
        )
        assert run.done.code == 0


def test_two_conflicts_are_told_apart(hold: Hold) -> None:
    both = found(conflict(), conflict(TESTER, ARCHITECT, "C-2"))
    config = {"deliberation": {"rounds": 1}}
    run = hold({"address": "*/findings/*", "data": both}, config=config)
    assert run.record["conflicts"] == [
        "C-1 (Where sessions live): the chair, by evidence: Rows hold. A row is deleted.",
        "C-2 (Where sessions live): by confidence alone",
    ]
    assert RULING["address"] == "*/resolution/*"
