"""Questions in the terminal, typed at a pseudo-terminal and at a pipe."""

import asyncio
import os
import pty
import re
import select
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from prompt_toolkit.data_structures import Size
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput

from skillrun.questions.answers import Answer, Question
from skillrun.questions.terminal import Terminal, UnfinishedAnswers
from tests.launcher import start_python

DOWN, UP, ENTER, CTRL_C, BACK = "\x1b[B", "\x1b[A", "\r", "\x03", "\x1b[Z"
PASTE = "\x1b[200~{}\x1b[201~"
MODE: Question = {"id": "mode", "text": "Which mode?", "choices": ["rapid", "standard", "advanced"]}
WHY: Question = {"id": "why", "text": "Why?"}


def answers(questions: list[Question], keys: str) -> list[Answer]:
    async def ask() -> list[Answer]:
        with create_pipe_input() as keyboard:
            keyboard.send_text(keys)
            return await Terminal(keyboard=keyboard, screen=DummyOutput()).ask(questions, "setup")

    return asyncio.run(ask())


@pytest.mark.parametrize(
    ("question", "keys", "answer"),
    [
        (MODE, ENTER, "rapid"),
        (MODE, "3" + ENTER, "advanced"),
        (MODE, DOWN + ENTER, "standard"),
        (MODE, UP + ENTER, "advanced"),
        (MODE | {"default": "standard"}, ENTER, "standard"),
        (MODE | {"default": "standard"}, DOWN + ENTER, "advanced"),
        (MODE | {"choices": [10, 20, True]}, "2" + ENTER, 20),
        (MODE | {"choices": [10, 20, True], "default": True}, ENTER, True),
        (MODE | {"choices": ["same", "same"]}, "2" + ENTER, "same"),
        (MODE | {"choices": [f"option {number}" for number in range(50)]}, UP + ENTER, "option 49"),
        (MODE | {"other": True}, "4" + ENTER + "my own" + ENTER, "my own"),
        (MODE | {"multiple": True}, " " + DOWN + DOWN + " " + ENTER, ["rapid", "advanced"]),
        (MODE | {"multiple": True, "default": ["standard"]}, ENTER, ["standard"]),
        (MODE | {"multiple": True}, ENTER + " " + ENTER, ["rapid"]),
        (MODE | {"multiple": True, "other": True}, " " + UP + " " + ENTER + "mine" + ENTER, ["rapid", "mine"]),
        (WHY, "because" + ENTER, "because"),
        (WHY, ENTER + "  because " + ENTER, "because"),
        (WHY, PASTE.format("one\ntwo") + ENTER, "one\ntwo"),
        (WHY | {"default": "as ever"}, ENTER, "as ever"),
        (WHY, "été 日本" + ENTER, "été 日本"),
    ],
)
@pytest.mark.row("R5")
def test_an_answer_is_chosen_or_typed(question: Question, keys: str, answer: Any) -> None:
    assert answers([question], keys) == [{"answer": answer}]


@pytest.mark.parametrize(
    "question",
    [MODE | {"default": ""}, MODE | {"default": "", "multiple": True}, WHY | {"default": ""}],
)
def test_an_empty_default_lets_a_question_be_left_open(question: Question) -> None:
    assert answers([question], ENTER) == [{}]


def test_a_question_left_open_before_can_be_answered_by_choice() -> None:
    assert answers([MODE | {"default": ""}], "1" + ENTER) == [{"answer": "rapid"}]


class Narrow(DummyOutput):
    def get_size(self) -> Size:
        return Size(rows=40, columns=40)


def test_a_long_question_breaks_between_words() -> None:
    terminal = Terminal(screen=Narrow())
    text = "When is a run old: by the days since it ended, or by the space that it takes?\n    a second line"
    lines = terminal._wrap_text(text).splitlines()
    assert " ".join(" ".join(lines).split()) == " ".join(text.split())
    assert max(map(len, lines)) <= 36
    assert lines[-1] == "    a second line"


@pytest.mark.row("B6")
def test_questions_come_one_at_a_time() -> None:
    assert answers([MODE, WHY, MODE], "2" + ENTER + "so" + ENTER + "1" + ENTER) == [
        {"answer": "standard"}, {"answer": "so"}, {"answer": "rapid"},
    ]  # fmt: skip


OWN = MODE | {"other": True}
BOTH = MODE | {"multiple": True, "other": True}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("questions", "keys", "expected"),
    [
        ([MODE, WHY], "2" + ENTER + BACK + ENTER + "so" + ENTER, ["standard", "so"]),
        ([MODE, WHY], "2" + ENTER + "half" + BACK + "3" + ENTER + "way" + ENTER, ["advanced", "halfway"]),
        ([WHY, MODE], "so" + ENTER + BACK + " then" + ENTER + ENTER, ["so then", "rapid"]),
        (
            [MODE, BOTH, WHY],
            ENTER + " " + ENTER + BACK + BACK + "2" + ENTER + ENTER + "x" + ENTER,
            ["standard", ["rapid"], "x"],
        ),
        ([MODE | {"other": True}], "4" + ENTER + BACK + "1" + ENTER, ["rapid"]),
        ([MODE, WHY], BACK + ENTER + "so" + ENTER, ["rapid", "so"]),
        ([OWN, WHY], "4" + ENTER + "my own" + ENTER + BACK + ENTER + ENTER + "so" + ENTER, ["my own", "so"]),
        ([OWN], "4" + ENTER + "my" + BACK + ENTER + " own" + ENTER, ["my own"]),
        ([BOTH, WHY], " " + UP + " " + ENTER + "x" + ENTER + BACK + ENTER + ENTER + "y" + ENTER, [["rapid", "x"], "y"]),
    ],
    ids=[
        "keeps the answer",
        "changes it",
        "of a text",
        "two back, of several",
        "from own words",
        "nothing before",
        "keeps own words",
        "keeps half an answer",
        "keeps own words among several",
    ],
)
def test_shift_tab_goes_back_to_the_question_before(questions: list[Any], keys: str, expected: list[Any]) -> None:
    assert answers(questions, keys) == [{"answer": one} for one in expected]


SURE: Question = {"levels": ["certain", "guess"]}
NEWLINE, ENOUGH, HOW_SURE, EDITOR = "\x1b\r", "\x07", "\x14", "\x0f"
ENDED = {"ended": True}


def kept(
    questions: list[Question],
    keys: str,
    left: UnfinishedAnswers = UnfinishedAnswers(),  # noqa: B008
    **more: Any,
) -> tuple[Any, list[Any]]:
    """The answers, or None where the person broke off, and what was to be kept on the way."""
    told: list[Any] = []

    async def keep(*words: Any) -> None:
        told.append(words)

    async def ask() -> Any:
        with create_pipe_input() as keyboard:
            keyboard.send_text(keys)
            return await Terminal(keyboard=keyboard, screen=DummyOutput()).ask(questions, "setup", left, keep, **more)

    try:
        return asyncio.run(ask()), told
    except KeyboardInterrupt:
        return None, told


@pytest.mark.slow
@pytest.mark.parametrize(
    ("questions", "keys", "expected"),
    [
        ([WHY], "one" + NEWLINE + "two" + ENTER, [{"answer": "one\ntwo"}]),
        ([WHY | {"skip": True}, WHY], ENTER + "so" + ENTER, [{}, {"answer": "so"}]),
        ([MODE | {"skip": True}], UP + ENTER, [{}]),
        ([WHY, WHY, MODE], "a" + ENTER + ENOUGH, [{"answer": "a"}, ENDED, ENDED]),
        ([WHY, MODE, WHY], "a" + ENTER + ENOUGH, [{"answer": "a"}, ENDED, ENDED]),
        ([WHY, WHY], "half an ans" + ENOUGH, [{"answer": "half an ans"}, ENDED]),
        ([WHY, WHY], "a" + ENTER + "b" + ENOUGH, [{"answer": "a"}, {"answer": "b", **ENDED}]),
        ([WHY, WHY], "a" + ENTER + "b" + BACK + ENOUGH, [{"answer": "a"}, ENDED]),
        ([WHY | SURE], "a" + HOW_SURE + HOW_SURE + ENTER, [{"answer": "a", "confidence": "guess"}]),
        ([WHY | SURE], HOW_SURE * 3 + "a" + ENTER, [{"answer": "a"}]),
        ([MODE | SURE], "2" + ENTER + "1" + ENTER, [{"answer": "standard", "confidence": "certain"}]),
        ([MODE | SURE], "2" + ENTER + ENTER, [{"answer": "standard"}]),
    ],
)
@pytest.mark.row("B6", "B8")
def test_a_list_can_be_skipped_ended_and_answered_at_length(questions: Any, keys: str, expected: Any) -> None:
    assert kept(questions, keys, enough="summarise now")[0] == expected


@pytest.mark.row("B6")
def test_a_long_answer_is_written_in_an_editor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    editor = tmp_path / "editor"
    editor.write_text('#!/bin/sh\nprintf " and\\nmuch more" >> "$1"\n')
    editor.chmod(0o755)
    monkeypatch.setenv("VISUAL", str(editor))

    async def ask() -> Any:
        with create_pipe_input() as keyboard:
            terminal = Terminal(keyboard=keyboard, screen=DummyOutput())
            asked = asyncio.create_task(terminal.ask([WHY]))
            keyboard.send_text("begun" + EDITOR)
            while not asked.done():
                await asyncio.sleep(0.05)
                keyboard.send_text(ENTER)
            return asked.result()

    assert asyncio.run(ask()) == [{"answer": "begun and\nmuch more"}]


@pytest.mark.row("B6", "X4")
def test_nothing_is_lost_by_ctrl_c_not_even_what_was_not_sent() -> None:
    answers, told = kept([WHY | SURE, WHY, WHY], HOW_SURE + "a" + ENTER + "half" + CTRL_C)
    assert answers is None
    assert told == [("sure", "0", "certain"), ("given", "0", "a"), ("typed", "1", "half")]
    left = UnfinishedAnswers({"0": "a"}, {"0": "certain"}, {"1": "half"})
    assert kept([WHY, WHY, WHY], "way" + ENTER + "c" + ENTER, left)[0] == [
        {"answer": "a", "confidence": "certain"}, {"answer": "halfway"}, {"answer": "c"},
    ]  # fmt: skip


@pytest.mark.slow
def test_own_words_beside_choices_are_kept_like_any_others() -> None:
    found, told = kept([OWN, WHY], "4" + ENTER + "half" + CTRL_C)
    assert (found, told) == (None, [("typed", "0", "half")])
    assert kept([OWN], ENTER + " done" + ENTER, UnfinishedAnswers(drafts={"0": "half"}))[0] == [{"answer": "half done"}]
    assert kept([OWN, WHY], ENOUGH, UnfinishedAnswers(drafts={"0": "half"}), enough="stop")[0] == [
        {"answer": "half"},
        ENDED,
    ]
    ended = " " + UP + " " + ENTER + "x" + ENTER + BACK + ENOUGH
    assert kept([BOTH, WHY], ended, enough="stop")[0] == [{"answer": ["rapid", "x"]}, ENDED]


@pytest.mark.parametrize("question", [MODE, MODE | {"multiple": True}, WHY])
def test_ctrl_c_breaks_off(question: Question) -> None:
    with pytest.raises(KeyboardInterrupt):
        answers([question], CTRL_C)


def test_the_end_of_the_input_breaks_off() -> None:
    with pytest.raises(KeyboardInterrupt):
        answers([WHY], "\x04")


def test_other_work_goes_on_and_the_live_view_rests_while_the_person_thinks() -> None:
    seen: list[str] = []

    @contextmanager
    def around() -> Iterator[None]:
        seen.append("view stopped")
        yield
        seen.append("view back")

    async def ask() -> None:
        with create_pipe_input() as keyboard:
            asked = asyncio.create_task(Terminal(around, keyboard, DummyOutput()).ask([WHY]))
            for _ in range(3):
                await asyncio.sleep(0.01)
                seen.append("work")
            keyboard.send_text("so" + ENTER)
            assert await asked == [{"answer": "so"}]

    asyncio.run(ask())
    assert seen == ["view stopped", "work", "work", "work", "view back"]


PROGRAM = """
import asyncio, signal
from skillrun.questions.terminal import Terminal
async def main():
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGINT, lambda: print("the run heard it"))
    questions = [
        {"text": "Which\\x1b[31m mode?", "choices": ["rapid", "stan\\u202edard"],
         "priority": "HIGH", "section": "Scope", "notes": [{"perspective": "ux", "note": "Mind the beginners."}]},
        {"text": "Why?"},
    ]
    print("ANSWERS", await Terminal().ask(questions, "setup"))
    signal.raise_signal(signal.SIGINT)
    await asyncio.sleep(0)
try:
    asyncio.run(main())
except KeyboardInterrupt:
    print("INTERRUPTED")
"""


class Screen:
    """A program at a pseudo-terminal."""

    def __init__(self, program: str) -> None:
        self.ours, theirs = pty.openpty()
        environ = {**os.environ, "TERM": "xterm", "PROMPT_TOOLKIT_NO_CPR": "1"}
        streams = {"stdin": theirs, "stdout": theirs, "stderr": theirs}
        self.process = start_python("-c", program, env=environ, start_new_session=True, **streams)
        os.close(theirs)
        self.text = ""

    def until(self, words: str, after: int = 0) -> str:
        """What is shown up to these words, without the sequences that place and colour it."""
        deadline = time.monotonic() + 30
        while words not in self.plain()[after:]:
            assert time.monotonic() < deadline, self.plain()
            if select.select([self.ours], [], [], 0.1)[0]:
                self.text += os.read(self.ours, 4096).decode("utf-8", "replace")
        return self.plain()

    def plain(self) -> str:
        return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", self.text)

    def type(self, keys: str) -> None:
        os.write(self.ours, keys.encode())

    def close(self) -> None:
        self.process.wait(30)
        os.close(self.ours)


@pytest.fixture
def screen() -> Iterator[Screen]:
    opened = Screen(PROGRAM)
    try:
        yield opened
    finally:
        opened.process.kill()
        opened.close()


@pytest.mark.slow
def test_a_terminal_shows_progress_priority_and_notes_and_nothing_that_steers_it(
    screen: Screen, tmp_path: Path
) -> None:
    shown = screen.until("standard")
    assert "setup · 1 of 2 · HIGH · Scope" in shown
    assert "ux: Mind the beginners." in shown
    assert "Which mode?" in shown
    assert "\x1b[31m mode" not in screen.text
    assert "\u202e" not in shown
    screen.type("2" + ENTER)
    assert "2 of 2 · Shift-Tab goes back" in screen.until("Why?")
    screen.type(BACK)
    seen = len(screen.plain())
    screen.until("1 of 2", after=seen)
    screen.type(ENTER)
    screen.until("Why?", after=seen)
    screen.type("so" + ENTER)
    assert "ANSWERS [{'answer': 'stan\\u202edard'}, {'answer': 'so'}]" in screen.until("'so'}]")
    screen.until("the run heard it")


def test_ctrl_c_at_a_terminal_ends_the_program_as_an_interrupt(screen: Screen) -> None:
    screen.until("rapid")
    screen.type(CTRL_C)
    screen.until("INTERRUPTED")
