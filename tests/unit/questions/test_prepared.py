"""Answers prepared in a file."""

import re
from pathlib import Path
from typing import Any

import pytest

from skillrun.questions.answers import Question
from skillrun.questions.prepared_answers import PreparedAnswers, read_answers
from skillrun.syntax.diagnostics import SkillrunError

PREPARED = {"answered_by": "prepared"}
MODE: Question = {"id": "mode", "text": "Which mode?", "choices": ["rapid", "standard"]}
WHY: Question = {"id": "why", "text": "Why?"}


def read_prepared(tmp_path: Path, text: str, name: str = "answers.yaml") -> PreparedAnswers:
    path = tmp_path / name
    path.write_text(text, "utf-8")
    return read_answers(path)


@pytest.mark.parametrize(
    ("text", "key", "question", "record"),
    [
        ("mode: rapid", "setup/mode-choice", MODE, {**PREPARED, "answer": "rapid"}),
        ("mode: RAPID", "setup/mode-choice", MODE, {**PREPARED, "answer": "rapid"}),
        ("setup/mode-choice: rapid", "setup/mode-choice", MODE, {**PREPARED, "answer": "rapid"}),
        ("gate/cycle/choice: rapid", "gate/cycle#2/choice", MODE, {**PREPARED, "answer": "rapid"}),
        ("gate/cycle#2/choice: rapid", "gate/cycle#2/choice", MODE, {**PREPARED, "answer": "rapid"}),
        ("gate/cycle#1/choice: rapid", "gate/cycle#2/choice", MODE, None),
        ("gate/cycle#2/mode: rapid", "gate/cycle#2/choice", MODE, {**PREPARED, "answer": "rapid"}),
        ("gate/cycle#1/mode: rapid", "gate/cycle#2/choice", MODE, None),
        ("gate/cycle/mode: rapid", "gate/cycle#2/choice", MODE, {**PREPARED, "answer": "rapid"}),
        ("built~hat/mode: rapid\nmode: standard", "built~hat/sure", MODE, {**PREPARED, "answer": "rapid"}),
        ("gate: rapid", "intake/gate", MODE, {**PREPARED, "answer": "rapid"}),
        ("choice: rapid", "gate/cycle#2/choice", MODE, {**PREPARED, "answer": "rapid"}),
        ("mode: {answer: rapid, confidence: high}", "a", MODE, {**PREPARED, "answer": "rapid", "confidence": "high"}),
        ("mode: [rapid]", "a", MODE | {"multiple": True}, {**PREPARED, "answer": ["rapid"]}),
        ("mode: rapid", "a", MODE | {"multiple": True}, {**PREPARED, "answer": ["rapid"]}),
        ("mode: slow", "a", MODE | {"other": True}, {**PREPARED, "answer": "slow"}),
        ("mode: 2", "a", {"id": "mode", "choices": [1, 2]}, {**PREPARED, "answer": 2}),
        ("mode: true", "a", {"id": "mode", "choices": [True, False]}, {**PREPARED, "answer": True}),
        ("mode: ''", "a", MODE, {}),
        ("mode:", "a", MODE, {}),
        ("why: 5", "a", WHY, {**PREPARED, "answer": "5"}),
        ("why: |\n  one\n  two\n", "a", WHY, {**PREPARED, "answer": "one\ntwo"}),
        ("other: rapid", "a", MODE, None),
        ("", "a", MODE, None),
    ],
)
def test_a_question_takes_the_answer_of_its_id_or_step(
    tmp_path: Path, text: str, key: str, question: Question, record: dict[str, Any] | None
) -> None:
    assert read_prepared(tmp_path, text).take(key, question) == record


def test_a_list_gives_its_answers_in_order_and_then_none(tmp_path: Path) -> None:
    answers = read_prepared(tmp_path, "mode: [rapid, {answer: standard}, null]")
    assert [answers.take("a", MODE) for _ in range(4)] == [
        {**PREPARED, "answer": "rapid"},
        {**PREPARED, "answer": "standard"},
        {},
        None,
    ]


def test_a_single_answer_is_used_once_for_a_question_that_could_repeat_forever(tmp_path: Path) -> None:
    answers = read_prepared(tmp_path, "mode: rapid")
    assert [answers.take("a", MODE) for _ in range(2)] == [{**PREPARED, "answer": "rapid"}] * 2
    answers = read_prepared(tmp_path, "mode: rapid")
    assert [answers.take("a", MODE | {"once": True}) for _ in range(2)] == [{**PREPARED, "answer": "rapid"}, None]


def test_a_list_of_lists_gives_several_answers_each_time(tmp_path: Path) -> None:
    answers = read_prepared(tmp_path, "mode: [[rapid], [rapid, standard]]")
    question = MODE | {"multiple": True}
    assert [answers.take("a", question) for _ in range(2)] == [
        {**PREPARED, "answer": ["rapid"]},
        {**PREPARED, "answer": ["rapid", "standard"]},
    ]


def test_the_address_of_a_step_precedes_the_id_of_a_question(tmp_path: Path) -> None:
    answers = read_prepared(tmp_path, "mode: rapid\na/b: standard\nc: standard")
    assert answers.take("a/b", MODE) == {**PREPARED, "answer": "standard"}
    assert answers.take("a/c", MODE) == {**PREPARED, "answer": "rapid"}  # the bare id of a step comes last


def test_a_list_continues_after_questions_that_are_already_answered(tmp_path: Path) -> None:
    answers = read_prepared(tmp_path, "mode: [rapid, standard]")
    answers.skip("a", [MODE])
    assert answers.take("a", MODE) == {**PREPARED, "answer": "standard"}


def test_an_answer_that_is_not_a_choice_is_refused_with_its_position(tmp_path: Path) -> None:
    answers = read_prepared(tmp_path, "# mine\nmode: rapit")
    with pytest.raises(SkillrunError) as caught:
        answers.take("setup/mode-choice", MODE)
    assert str(caught.value) == (
        f"{tmp_path}/answers.yaml:2:7: `rapit` is not one of the choices, for `mode` of `setup/mode-choice`"
    )
    assert caught.value.next_step == "did you mean `rapid`? allowed: rapid, standard"


def test_several_answers_to_a_single_choice_question_are_refused(tmp_path: Path) -> None:
    with pytest.raises(SkillrunError, match="takes one answer, not 2"):
        read_prepared(tmp_path, "mode: {answer: [rapid, standard]}").take("a", MODE)


@pytest.mark.parametrize(
    ("text", "messages"),
    [
        (
            "mode: {anwser: rapid}",
            ["1:8: error[unknown-key]: unknown key `anwser`", "did you mean `answer`?"],
        ),
        ("mode: {answer: rapid, confidence: {a: b}}", ["1:35: error[type]: expected text"]),
        ("mode: [[[rapid]]]", ["1:9: error[answer]: this is not a valid answer"]),
        ("mode: {answer: {a: b}}", ["1:16: error[answer]: this is not a valid answer"]),
        ("- mode", ["this is a list; expected keys with values"]),
        ("mode: [", ["answers.yaml:1:"]),
        ("mode: rapid\nmode: standard", ["the key `mode` is given twice"]),
    ],
)
def test_every_problem_in_the_file_is_reported(tmp_path: Path, text: str, messages: list[str]) -> None:
    with pytest.raises(SkillrunError) as caught:
        read_prepared(tmp_path, text)
    for message in messages:
        assert message in str(caught.value)


def test_a_missing_file_is_reported(tmp_path: Path) -> None:
    with pytest.raises(SkillrunError, match="cannot be read"):
        read_answers(tmp_path / "none.yaml")


SURE: Question = {"id": "why", "text": "Why?", "levels": ["certain", "likely", "guess"]}


@pytest.mark.finding("FR45")
@pytest.mark.parametrize(("level", "expected"), [("LIKELY", "likely"), ("cert", "certain"), ("guess", "guess")])
def test_a_prepared_confidence_becomes_a_level_of_the_question(tmp_path: Path, level: str, expected: str) -> None:
    prepared = read_prepared(tmp_path, f"why: {{answer: so, confidence: {level}}}")
    assert prepared.take("a", SURE) == {**PREPARED, "answer": "so", "confidence": expected}


@pytest.mark.finding("FR45")
@pytest.mark.parametrize("level", ["certainly", "HIGH", "100%"])
def test_a_prepared_confidence_that_is_no_level_is_refused(tmp_path: Path, level: str) -> None:
    with pytest.raises(SkillrunError) as refused:
        read_prepared(tmp_path, f"why: {{answer: so, confidence: {level}}}").take("a", SURE)
    assert f"the confidence `{level}` is not one of the levels" in refused.value.message
    assert refused.value.next_step == "allowed: certain, likely, guess"


@pytest.mark.finding("FR46")
@pytest.mark.parametrize("text", ["summarise now", "Summarise now", "SUMMARISE NOW", " Summarise  now "])
def test_a_synonym_counts_in_capitals_and_small_letters(tmp_path: Path, text: str) -> None:
    ends = {"ended": True}
    prepared = read_prepared(tmp_path, f"why: '{text}'")
    assert prepared.take("a", WHY | {"means": {"summarise now": ends}}) == {**PREPARED, "answer": ends}


ROOM: Question = {"id": "room", "text": "Which room?", "choices": ["The attic", "The cellar"], "other": True}


@pytest.mark.row("R5")
@pytest.mark.finding("FR84")
@pytest.mark.parametrize("words", ["B", "b)", "'2'", "2", "B. The cellar", "'\u200bB'", "the cellar"])
def test_a_letter_or_a_number_is_the_choice_of_that_name_as_in_a_form(tmp_path: Path, words: str) -> None:
    assert read_prepared(tmp_path, f"room: {words}").take("a", ROOM) == {**PREPARED, "answer": "The cellar"}
    several = read_prepared(tmp_path, f"room: [{words}, in the garden]").take("a", ROOM | {"multiple": True})
    assert several == {**PREPARED, "answer": ["The cellar", "in the garden"]}


@pytest.mark.finding("FR84")
@pytest.mark.parametrize("words", ["not B", "40", "A bit of both", "B or C"])
def test_other_words_stay_the_answer(tmp_path: Path, words: str) -> None:
    assert read_prepared(tmp_path, f"room: {words}").take("a", ROOM) == {**PREPARED, "answer": words}
    assert read_prepared(tmp_path, "room: B").take("a", WHY | {"id": "room"}) == {**PREPARED, "answer": "B"}


@pytest.mark.finding("FR84")
@pytest.mark.parametrize(
    ("choices", "words", "message"),
    [
        (["The attic", "The cellar"], "D", "`D` is not one of the choices"),
        (["b)", "The cellar"], "B", "`B` may mean `b)` or `The cellar`"),
    ],
)
def test_a_letter_that_names_no_choice_or_two_is_refused(
    tmp_path: Path, choices: list[str], words: str, message: str
) -> None:
    with pytest.raises(SkillrunError, match=re.escape(message)):
        read_prepared(tmp_path, f"room: {words}").take("a", ROOM | {"choices": choices})
