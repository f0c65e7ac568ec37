"""Who answers: the prepared file, the defaults, or the terminal."""

import asyncio
import io
from pathlib import Path
from typing import Any

import pytest
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput

from skillrun.questions.answers import Answer, Question
from skillrun.questions.prepared_answers import PreparedAnswers
from skillrun.questions.responder import InteractiveResponder, QuestionSet, open_responder
from skillrun.questions.terminal import Progress, Terminal

MODE: Question = {"id": "mode", "text": "Which mode?", "choices": ["rapid", "standard"]}
WHY: Question = {"id": "why", "text": "Why?"}
RAPID = {"answer": "rapid", "answered_by": "prepared"}


def question_set(*questions: Question) -> QuestionSet:
    return QuestionSet("setup/first", "setup", questions)


def answer(responder: InteractiveResponder, *questions: Question) -> list[Answer] | None:
    return asyncio.run(responder.ask(question_set(*questions)))


def answers_file(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "answers.yaml"
    path.write_text(text)
    return path


@pytest.mark.row("X6")
@pytest.mark.finding("FP4")
def test_an_unattended_run_uses_prepared_answers_and_then_defaults(tmp_path: Path) -> None:
    responder = open_responder(unattended=True, answers=answers_file(tmp_path, "why: so"))
    assert not responder.attended
    assert answer(responder, WHY, MODE | {"default": "standard"}, MODE | {"default": ""}) == [
        {"answer": "so", "answered_by": "prepared"},
        {"answer": "standard", "answered_by": "default"},
        {},
    ]


def test_an_unattended_run_has_no_answer_without_a_default() -> None:
    assert answer(open_responder(unattended=True), WHY | {"default": "so"}, MODE) is None


@pytest.mark.row("R5")
def test_without_a_terminal_questions_stay_open_and_defaults_are_not_used() -> None:
    responder = open_responder(unattended=False, terminal=False)
    assert responder.attended
    assert answer(responder, MODE | {"default": "standard"}) is None


def test_the_terminal_is_detected_if_not_specified(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO())
    assert open_responder(unattended=False).terminal is None


def test_an_unattended_run_never_asks_in_the_terminal() -> None:
    assert open_responder(unattended=True, terminal=True).terminal is None


def test_prepared_answers_without_a_terminal_are_enough(tmp_path: Path) -> None:
    responder = open_responder(unattended=False, answers=answers_file(tmp_path, "mode: rapid"), terminal=False)
    assert answer(responder, MODE, MODE) == [RAPID, RAPID]


def test_only_questions_without_a_prepared_answer_are_asked_in_the_terminal(tmp_path: Path) -> None:
    responder = open_responder(unattended=False, answers=answers_file(tmp_path, "mode: rapid"), terminal=True)

    async def ask() -> list[Answer] | None:
        with create_pipe_input() as keyboard:
            keyboard.send_text("so\r")
            responder.terminal = Terminal(keyboard=keyboard, screen=DummyOutput())
            return await responder.ask(question_set(MODE, WHY, MODE))

    assert asyncio.run(ask()) == [RAPID, {"answer": "so"}, RAPID]


def test_a_list_of_answers_continues_after_the_answers_in_the_journal(tmp_path: Path) -> None:
    responder = open_responder(unattended=True, answers=answers_file(tmp_path, "setup/first: [rapid, standard]"))
    responder.prepared.skip("setup/first", [MODE])
    assert answer(responder, MODE) == [{"answer": "standard", "answered_by": "prepared"}]


def test_questions_of_parallel_phases_are_asked_one_after_the_other() -> None:
    async def ask() -> tuple[Any, Any]:
        with create_pipe_input() as keyboard:
            responder = InteractiveResponder(
                PreparedAnswers(), Terminal(keyboard=keyboard, screen=DummyOutput()), attended=True
            )
            first = asyncio.create_task(responder.ask(question_set(WHY, WHY)))
            second = asyncio.create_task(responder.ask(QuestionSet("plan/second", "plan", (WHY,))))
            for word in ("one", "two", "three"):
                await asyncio.sleep(0.05)
                keyboard.send_text(f"{word}\r")
            return await first, await second

    assert asyncio.run(ask()) == ([{"answer": "one"}, {"answer": "two"}], [{"answer": "three"}])


SAVED: Progress = {"given": {"0": "of my own", "1": ""}, "sure": {"0": "likely"}}
OWN = {"answer": "of my own", "confidence": "likely"}


@pytest.mark.row("R5")
@pytest.mark.finding("FR41")
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("why: so", [OWN, {"answer": "so", "answered_by": "prepared"}, {"answer": "so", "answered_by": "prepared"}]),
        (
            "why: [a, b, c]",
            [OWN, {"answer": "b", "answered_by": "prepared"}, {"answer": "c", "answered_by": "prepared"}],
        ),
        ("why: [a, Enough]", [OWN, {"ended": True}, {"ended": True, "shown": False}]),
        ("why: [a, b]", None),
    ],
)
def test_an_answer_from_before_a_pause_precedes_a_prepared_one(
    tmp_path: Path, text: str, expected: list[Answer] | None
) -> None:
    responder = open_responder(unattended=False, answers=answers_file(tmp_path, text), terminal=False)
    asked = QuestionSet("setup/first", "setup", (WHY, WHY, WHY), unfinished=SAVED, enough="Enough")
    assert asyncio.run(responder.ask(asked)) == expected


@pytest.mark.finding("FR41")
def test_an_answer_from_before_a_pause_stays_where_a_prepared_one_ends_the_list(tmp_path: Path) -> None:
    responder = open_responder(unattended=True, answers=answers_file(tmp_path, "why: enough"))
    saved: Progress = {"given": {"1": "of my own"}}
    asked = QuestionSet("setup/first", "setup", (WHY, WHY, WHY), unfinished=saved, enough="Enough")
    own = {"answer": "of my own"}
    assert asyncio.run(responder.ask(asked)) == [{"ended": True}, own, {"ended": True, "shown": False}]
