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
from skillrun.questions.terminal import Terminal

MODE: Question = {"id": "mode", "text": "Which mode?", "choices": ["rapid", "standard"]}
WHY: Question = {"id": "why", "text": "Why?"}
RAPID = {"answer": "rapid", "answered_by": "prepared"}


def asking(*questions: Question) -> QuestionSet:
    return QuestionSet("setup/first", "setup", questions)


def answer(person: InteractiveResponder, *questions: Question) -> list[Answer] | None:
    return asyncio.run(person.ask(asking(*questions)))


def file(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "answers.yaml"
    path.write_text(text)
    return path


@pytest.mark.row("X6")
@pytest.mark.finding("FP4")
def test_unattended_takes_prepared_answers_and_then_defaults(tmp_path: Path) -> None:
    person = open_responder(unattended=True, answers=file(tmp_path, "why: so"))
    assert not person.attended
    assert answer(person, WHY, MODE | {"default": "standard"}, MODE | {"default": ""}) == [
        {"answer": "so", "answered_by": "prepared"},
        {"answer": "standard", "answered_by": "default"},
        {},
    ]


def test_unattended_has_no_answer_where_there_is_no_default() -> None:
    assert answer(open_responder(unattended=True), WHY | {"default": "so"}, MODE) is None


@pytest.mark.row("R5")
def test_without_a_terminal_nobody_answers_and_no_default_is_taken() -> None:
    person = open_responder(unattended=False, terminal=False)
    assert person.attended
    assert answer(person, MODE | {"default": "standard"}) is None


def test_the_terminal_is_found_out_where_it_is_not_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO())
    assert open_responder(unattended=False).terminal is None


def test_unattended_never_asks_a_terminal() -> None:
    assert open_responder(unattended=True, terminal=True).terminal is None


def test_prepared_answers_without_a_terminal_are_enough(tmp_path: Path) -> None:
    person = open_responder(unattended=False, answers=file(tmp_path, "mode: rapid"), terminal=False)
    assert answer(person, MODE, MODE) == [RAPID, RAPID]


def test_the_terminal_is_asked_only_what_is_not_prepared(tmp_path: Path) -> None:
    person = open_responder(unattended=False, answers=file(tmp_path, "mode: rapid"), terminal=True)

    async def ask() -> list[Answer] | None:
        with create_pipe_input() as keyboard:
            keyboard.send_text("so\r")
            person.terminal = Terminal(keyboard=keyboard, screen=DummyOutput())
            return await person.ask(asking(MODE, WHY, MODE))

    assert asyncio.run(ask()) == [RAPID, {"answer": "so"}, RAPID]


def test_a_list_of_answers_goes_on_behind_those_of_the_journal(tmp_path: Path) -> None:
    person = open_responder(unattended=True, answers=file(tmp_path, "setup/first: [rapid, standard]"))
    person.skip_prepared_answers(asking(MODE))
    assert answer(person, MODE) == [{"answer": "standard", "answered_by": "prepared"}]


def test_questions_of_parallel_phases_wait_for_one_another() -> None:
    async def ask() -> tuple[Any, Any]:
        with create_pipe_input() as keyboard:
            person = InteractiveResponder(
                PreparedAnswers(), Terminal(keyboard=keyboard, screen=DummyOutput()), attended=True
            )
            first = asyncio.create_task(person.ask(asking(WHY, WHY)))
            second = asyncio.create_task(person.ask(QuestionSet("plan/second", "plan", (WHY,))))
            for word in ("one", "two", "three"):
                await asyncio.sleep(0.05)
                keyboard.send_text(f"{word}\r")
            return await first, await second

    assert asyncio.run(ask()) == ([{"answer": "one"}, {"answer": "two"}], [{"answer": "three"}])
