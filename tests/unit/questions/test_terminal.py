"""Questions in the terminal, answered at a pseudo-terminal and through a pipe."""

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
from skillrun.questions.terminal import NO_PROGRESS, Progress, Terminal
from tests.launcher import start_python

DOWN, UP, ENTER, CTRL_C, BACK = "\x1b[B", "\x1b[A", "\r", "\x03", "\x1b[Z"
PASTE = "\x1b[200~{}\x1b[201~"
MODE: Question = {"id": "mode", "text": "Which mode?", "choices": ["rapid", "standard", "advanced"]}
WHY: Question = {"id": "why", "text": "Why?"}


def ask_all(questions: list[Question], keys: str) -> list[Answer]:
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
def test_an_answer_can_be_chosen_or_typed(question: Question, keys: str, answer: Any) -> None:
    assert ask_all([question], keys) == [{"answer": answer}]


@pytest.mark.parametrize(
    "question",
    [MODE | {"default": ""}, MODE | {"default": "", "multiple": True}, WHY | {"default": ""}],
)
def test_with_an_empty_default_a_question_can_be_left_open(question: Question) -> None:
    assert ask_all([question], ENTER) == [{}]


def test_a_question_with_an_empty_default_can_be_answered() -> None:
    assert ask_all([MODE | {"default": ""}], "1" + ENTER) == [{"answer": "rapid"}]


class Narrow(DummyOutput):
    def get_size(self) -> Size:
        return Size(rows=40, columns=40)


def test_a_long_question_is_wrapped_between_words() -> None:
    terminal = Terminal(screen=Narrow())
    text = "When is a run old: by the days since it ended, or by the space that it takes?\n    a second line"
    lines = terminal._wrap_text(text).splitlines()
    assert " ".join(" ".join(lines).split()) == " ".join(text.split())
    assert max(map(len, lines)) <= 36
    assert lines[-1] == "    a second line"


@pytest.mark.row("B6")
def test_questions_are_asked_one_at_a_time() -> None:
    assert ask_all([MODE, WHY, MODE], "2" + ENTER + "so" + ENTER + "1" + ENTER) == [
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
def test_shift_tab_returns_to_the_previous_question(questions: list[Any], keys: str, expected: list[Any]) -> None:
    assert ask_all(questions, keys) == [{"answer": answer} for answer in expected]


LEVELS: Question = {"levels": ["certain", "guess"]}
NEWLINE, END_KEY, CONFIDENCE_KEY, EDITOR_KEY = "\x1b\r", "\x07", "\x14", "\x0f"
ENDED = {"ended": True}
UNSEEN = {"ended": True, "shown": False}


def ask_and_save(
    questions: list[Question],
    keys: str,
    unfinished: Progress = NO_PROGRESS,
    **more: Any,
) -> tuple[Any, list[Any]]:
    """Return the answers, or None after an interrupt, and the values that were saved meanwhile."""
    saved: list[Any] = []

    async def save(*words: Any) -> None:
        saved.append(words)

    async def ask() -> Any:
        with create_pipe_input() as keyboard:
            keyboard.send_text(keys)
            return await Terminal(keyboard=keyboard, screen=DummyOutput()).ask(
                questions, "setup", unfinished, save, **more
            )

    try:
        return asyncio.run(ask()), saved
    except KeyboardInterrupt:
        return None, saved


@pytest.mark.slow
@pytest.mark.parametrize(
    ("questions", "keys", "expected"),
    [
        ([WHY], "one" + NEWLINE + "two" + ENTER, [{"answer": "one\ntwo"}]),
        ([WHY | {"skip": True}, WHY], ENTER + "so" + ENTER, [{}, {"answer": "so"}]),
        ([MODE | {"skip": True}], UP + ENTER, [{}]),
        ([WHY, WHY, MODE], "a" + ENTER + END_KEY, [{"answer": "a"}, ENDED, UNSEEN]),
        ([WHY, MODE, WHY], "a" + ENTER + END_KEY, [{"answer": "a"}, ENDED, UNSEEN]),
        ([WHY, WHY], "half an ans" + END_KEY, [{"answer": "half an ans"}, UNSEEN]),
        ([WHY, WHY], "a" + ENTER + "b" + END_KEY, [{"answer": "a"}, {"answer": "b", **ENDED}]),
        ([WHY, WHY], "a" + ENTER + "b" + BACK + END_KEY, [{"answer": "a"}, ENDED]),
        ([WHY | LEVELS], "a" + CONFIDENCE_KEY + CONFIDENCE_KEY + ENTER, [{"answer": "a", "confidence": "guess"}]),
        ([WHY | LEVELS], CONFIDENCE_KEY * 3 + "a" + ENTER, [{"answer": "a"}]),
        ([MODE | LEVELS], "2" + ENTER + "1" + ENTER, [{"answer": "standard", "confidence": "certain"}]),
        ([MODE | LEVELS], "2" + ENTER + ENTER, [{"answer": "standard"}]),
    ],
)
@pytest.mark.row("B6", "B8")
def test_questions_can_be_skipped_ended_and_answered_with_several_lines(
    questions: Any, keys: str, expected: Any
) -> None:
    assert ask_and_save(questions, keys, enough="summarise now")[0] == expected


@pytest.mark.row("B6")
def test_a_long_answer_is_written_in_an_editor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    editor = tmp_path / "editor"
    editor.write_text('#!/bin/sh\nprintf " and\\nmuch more" >> "$1"\n')
    editor.chmod(0o755)
    monkeypatch.setenv("VISUAL", str(editor))

    async def ask() -> Any:
        with create_pipe_input() as keyboard:
            terminal = Terminal(keyboard=keyboard, screen=DummyOutput())
            answers = asyncio.create_task(terminal.ask([WHY]))
            keyboard.send_text("begun" + EDITOR_KEY)
            while not answers.done():
                await asyncio.sleep(0.05)
                keyboard.send_text(ENTER)
            return answers.result()

    assert asyncio.run(ask()) == [{"answer": "begun and\nmuch more"}]


@pytest.mark.row("B6", "X4")
def test_ctrl_c_keeps_answers_and_drafts() -> None:
    result, saved = ask_and_save([WHY | LEVELS, WHY, WHY], CONFIDENCE_KEY + "a" + ENTER + "half" + CTRL_C)
    assert result is None
    assert saved == [("sure", "0", "certain"), ("given", "0", "a"), ("typed", "1", "half")]
    unfinished: Progress = {"given": {"0": "a"}, "sure": {"0": "certain"}, "typed": {"1": "half"}}
    assert ask_and_save([WHY, WHY, WHY], "way" + ENTER + "c" + ENTER, unfinished)[0] == [
        {"answer": "a", "confidence": "certain"}, {"answer": "halfway"}, {"answer": "c"},
    ]  # fmt: skip


@pytest.mark.slow
def test_drafts_of_the_other_option_are_kept() -> None:
    result, saved = ask_and_save([OWN, WHY], "4" + ENTER + "half" + CTRL_C)
    assert (result, saved) == (None, [("typed", "0", "half")])
    assert ask_and_save([OWN], ENTER + " done" + ENTER, {"typed": {"0": "half"}})[0] == [{"answer": "half done"}]
    assert ask_and_save([OWN, WHY], END_KEY, {"typed": {"0": "half"}}, enough="stop")[0] == [
        {"answer": "half"},
        UNSEEN,
    ]
    keys = " " + UP + " " + ENTER + "x" + ENTER + BACK + END_KEY
    assert ask_and_save([BOTH, WHY], keys, enough="stop")[0] == [{"answer": ["rapid", "x"]}, ENDED]


@pytest.mark.parametrize("question", [MODE, MODE | {"multiple": True}, WHY])
def test_ctrl_c_interrupts_the_questions(question: Question) -> None:
    with pytest.raises(KeyboardInterrupt):
        ask_all([question], CTRL_C)


def test_the_end_of_the_input_interrupts_the_questions() -> None:
    with pytest.raises(KeyboardInterrupt):
        ask_all([WHY], "\x04")


def test_other_tasks_run_and_the_live_view_pauses_while_a_question_is_open() -> None:
    events: list[str] = []

    @contextmanager
    def pause_view() -> Iterator[None]:
        events.append("view stopped")
        yield
        events.append("view resumed")

    async def ask() -> None:
        with create_pipe_input() as keyboard:
            answers = asyncio.create_task(Terminal(pause_view, keyboard, DummyOutput()).ask([WHY]))
            for _ in range(3):
                await asyncio.sleep(0.01)
                events.append("work")
            keyboard.send_text("so" + ENTER)
            assert await answers == [{"answer": "so"}]

    asyncio.run(ask())
    assert events == ["view stopped", "work", "work", "work", "view resumed"]


PROGRAM = """
import asyncio, signal
from skillrun.questions.terminal import Terminal
async def main():
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGINT, lambda: print("the run was interrupted"))
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
        environment = {**os.environ, "TERM": "xterm", "PROMPT_TOOLKIT_NO_CPR": "1"}
        streams = {"stdin": theirs, "stdout": theirs, "stderr": theirs}
        self.process = start_python("-c", program, env=environment, start_new_session=True, **streams)
        os.close(theirs)
        self.text = ""

    def wait_for(self, words: str, after: int = 0) -> str:
        """Wait for these words and return the output so far without escape sequences."""
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
def test_a_terminal_shows_progress_priority_and_notes_without_control_characters(
    screen: Screen, tmp_path: Path
) -> None:
    shown = screen.wait_for("standard")
    assert "setup · 1 of 2 · HIGH · Scope" in shown
    assert "ux: Mind the beginners." in shown
    assert "Which mode?" in shown
    assert "\x1b[31m mode" not in screen.text
    assert "\u202e" not in shown
    screen.type("2" + ENTER)
    assert "2 of 2 · Shift-Tab goes back" in screen.wait_for("Why?")
    screen.type(BACK)
    offset = len(screen.plain())
    screen.wait_for("1 of 2", after=offset)
    screen.type(ENTER)
    screen.wait_for("Why?", after=offset)
    screen.type("so" + ENTER)
    assert "ANSWERS [{'answer': 'stan\\u202edard'}, {'answer': 'so'}]" in screen.wait_for("'so'}]")
    screen.wait_for("the run was interrupted")


def test_ctrl_c_at_a_terminal_interrupts_the_program(screen: Screen) -> None:
    screen.wait_for("rapid")
    screen.type(CTRL_C)
    screen.wait_for("INTERRUPTED")
