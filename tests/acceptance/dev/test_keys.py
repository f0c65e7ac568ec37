"""The keys of `dev` in a terminal: what each does, and that the terminal is restored afterwards."""

import os
import signal
import termios
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acceptance.conftest import Make
from tests.acceptance.dev.conftest import SCRIPT, edit
from tests.acceptance.dev.test_control import configure_prices, reply_with_score
from tests.acceptance.terminal import Terminal
from tests.servers.wire import serve

pytestmark = pytest.mark.row("A1")

ESCAPE = "\x1b"


class DevTerminal(Terminal):
    """`dev` in a terminal; each read discards the earlier output."""

    def __init__(self, *arguments: str, term: str = "xterm-256color") -> None:
        super().__init__("dev", *arguments, term=term)

    def next(self, pattern: str) -> str:
        seen = self.until(pattern)
        self.seen = ""
        return seen

    def press(self, key: str, pattern: str) -> str:
        self.seen = ""
        self.type(key)
        return self.next(pattern)

    def reads_lines(self) -> bool:
        """Whether the terminal has the settings of a shell: line input with echo."""
        flags = termios.tcgetattr(self.screen)[3]
        return bool(flags & termios.ICANON and flags & termios.ECHO)


@pytest.fixture
def folder(project: Make) -> Path:
    folder = project("pair")
    (folder / "script.yaml").write_text(SCRIPT.replace("delay: 2", "delay: 0.4"))
    return folder


@pytest.fixture
def dev(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[DevTerminal]:
    """`dev` whose first turn has ended at a question."""
    script = folder / "editor.sh"
    script.write_text('#!/bin/sh\necho "manually" >> "$1"\n')
    script.chmod(0o700)
    monkeypatch.setenv("EDITOR", str(script))
    monkeypatch.delenv("VISUAL", raising=False)
    terminal = DevTerminal("pair", "tea", "--script", "script.yaml")
    terminal.next("waiting for answers · ")
    yield terminal
    if terminal.process.poll() is None:
        terminal.process.kill()
        terminal.end()


@pytest.mark.slow
def test_the_status_line_lists_the_available_keys(dev: DevTerminal) -> None:
    assert not dev.reads_lines()
    seen = dev.press("?", r"keys: .*quit")
    for name in ("s step again (right/draft)", "p phase again (right)", "a answer", "e edit (right.md)", "space pause"):
        assert name in seen
    assert "d difference" not in seen
    dev.type("q")
    assert dev.end() == 0


@pytest.mark.slow
def test_a_step_is_repeated_and_its_full_difference_shown(dev: DevTerminal) -> None:
    seen = dev.press("s", "1 reused, 1 made; 1 artifact changed")
    assert "repeating: right/draft" in seen
    assert "score: 4 → 5" in seen
    assert "score: 4 → 5" in dev.press("d", "remark: good → better")
    assert "repeating: right\r\n" in dev.press("p", "1 reused, 1 made; 0 artifacts changed")
    dev.type("q")
    assert dev.end() == 0


@pytest.mark.slow
def test_a_waiting_question_is_answered_and_the_run_continues(dev: DevTerminal, folder: Path) -> None:
    assert "Which one?" in dev.press("a", "2\\) right")
    dev.type(f"{ESCAPE}[B\r")
    assert "choice: wrote choice.md" in dev.next("2 reused, 0 made; 1 artifact changed")
    assert (folder / "runs" / "dev-pair" / "choice.md").read_text() == "It is right.\n"
    dev.press("?", r"keys: .*quit")
    dev.type("q")
    assert dev.end() == 0


@pytest.mark.slow
def test_a_question_that_is_left_open_keeps_waiting(dev: DevTerminal) -> None:
    dev.press("a", "2\\) right")
    assert "left open: 1 question of choice" in dev.press("\x03", "waiting for answers · ")
    dev.type("q")
    assert dev.end() == 0


@pytest.mark.slow
def test_an_edited_artifact_is_read_immediately(dev: DevTerminal, folder: Path) -> None:
    seen = dev.press("e", "2 reused, 0 made; 1 artifact changed")
    assert ("edited: right.md" in seen, "+manually" in seen) == (True, True)
    assert (folder / "runs" / "dev-pair" / "right.md").read_text() == "Score 4: good\nmanually\n"
    dev.type("q")
    assert dev.end() == 0


@pytest.mark.slow
def test_no_calls_are_made_while_paused(dev: DevTerminal, folder: Path) -> None:
    dev.press(" ", "paused: no new calls are made")
    edit(folder / "skills" / "pair" / "right.md", "Write the right", "Kindly write the right")
    assert "makes 1 call, " in dev.next("makes 1 call, ")
    time.sleep(0.5)
    assert "1 made" in dev.press(" ", "1 reused, 1 made")
    dev.type("q")
    assert dev.end() == 0


@pytest.mark.slow
@pytest.mark.allow_hosts(["127.0.0.1"])
def test_calls_above_the_limit_wait_for_confirmation(folder: Path) -> None:
    with serve(reply_with_score) as wire:
        configure_prices(folder, wire, "models:\n  x:m: {window: 32000, max_output: 1000, input: 1000, output: 1000}\n")
        dev = DevTerminal("pair", "tea", "--ask-above", "0.01")
        dev.next("press y to confirm, or save a file to start over")
        dev.next("confirm 2 calls · y confirm")
        time.sleep(0.3)
        assert wire.asked == []
        edit(folder / "skills" / "pair" / "left.md", "Write the left", "Kindly write the left")
        dev.next("saved: left.md")
        dev.next("press y to confirm, or save")
        dev.next("confirm 2 calls · y confirm")
        dev.press("y", "0 reused, 2 made")
        assert len(wire.asked) == 2
        dev.type("q")
        assert dev.end() == 0


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_the_terminal_is_restored_after_any_signal(dev: DevTerminal, number: signal.Signals) -> None:
    assert not dev.reads_lines()
    dev.process.send_signal(number)
    assert dev.process.wait(20) == (129 if number == signal.SIGHUP else 130)
    assert dev.reads_lines()
    dev.end()


@pytest.mark.slow
def test_the_terminal_is_restored_while_dev_is_stopped(dev: DevTerminal) -> None:
    dev.process.send_signal(signal.SIGTSTP)
    os.waitid(os.P_PID, dev.process.pid, os.WSTOPPED)
    assert dev.reads_lines()
    dev.process.send_signal(signal.SIGCONT)
    dev.press("?", r"keys: .*quit")
    assert not dev.reads_lines()
    dev.type("q")
    assert dev.end() == 0


@pytest.mark.slow
def test_the_terminal_is_restored_when_the_run_is_lost(dev: DevTerminal, folder: Path) -> None:
    (folder / "runs" / "dev-pair" / ".run" / "lock").unlink()
    assert "was removed or replaced" in dev.press("s", "was removed or replaced")
    assert dev.process.wait(20) == 1
    assert dev.reads_lines()
    dev.end()


@pytest.mark.slow
def test_no_color_disables_colours(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    dev = DevTerminal("pair", "tea", "--script", "script.yaml")
    seen = dev.next("waiting for answers · .*quit")
    assert "\x1b[2m" not in seen
    assert "\x1b[2K" in seen
    dev.type("q")
    assert dev.end() == 0


@pytest.mark.slow
def test_a_dumb_terminal_gets_plain_lines(folder: Path) -> None:
    dev = DevTerminal("pair", "tea", "--script", "script.yaml", term="dumb")
    seen = dev.next("watching for changes, Ctrl-C quits; keys: .*quit")
    assert "\x1b" not in seen
    assert "repeating: right\r\n" in dev.press("p", "1 reused, 1 made")
    dev.type("q")
    assert dev.end() == 0


@pytest.mark.slow
def test_answers_given_before_leaving_a_list_are_kept(folder: Path) -> None:
    edit(
        folder / "skills" / "pair" / "choice.md",
        "ask: {text: Which one?, choices: [left, right]}",
        "ask: [{id: why, text: Why so?}, {id: one, text: Which one?, choices: [left, right]}]",
    )
    edit(folder / "skills" / "pair" / "choice.md", "which.answer |", "which.answers[0].answer |")
    dev = DevTerminal("pair", "tea", "--script", "script.yaml")
    dev.next("waiting for answers · ")
    dev.press("a", "Why so\\?")
    dev.next(" >")
    dev.type("because\r")
    dev.next("2\\) right")
    dev.press("\x03", "waiting for answers · ")
    assert "2 of 2" in dev.press("a", "2\\) right")
    dev.type("\r")
    dev.next("2 reused, 0 made; 1 artifact changed")
    assert (folder / "runs" / "dev-pair" / "choice.md").read_text() == "It is because.\n"
    dev.type("q")
    assert dev.end() == 0
