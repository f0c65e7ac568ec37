"""The live view in a real terminal: the phases, and a question between them."""

import re
from collections.abc import Callable
from typing import Any

import pytest

from tests.acceptance.terminal import Terminal

Call = Callable[..., Any]


@pytest.mark.slow
def test_a_terminal_shows_the_phases_and_asks_the_questions(project: Call) -> None:
    project("visit")
    terminal = Terminal("visit", "--model", "scripted:default")
    terminal.until(r"Where do you want to go\?")
    assert re.search(r"starting visit in [\s\S]*models: strong = scripted:default, fast = ", terminal.seen)
    terminal.until("the lake")
    terminal.type("2\r")
    assert terminal.end() == 0
    assert re.search(r"✓ choose +[0-9.]+ s", terminal.seen)
    assert re.search(r"✓ plan +[0-9.]+ s  round 2", terminal.seen)
    assert re.search(r"4 calls, [0-9,]+ tokens in, [0-9,]+ out, \$0.00", terminal.seen)
    assert "check: warning: The plan could be better." in terminal.seen
    assert "next: `skillrun show visit` shows the details" in terminal.seen


@pytest.mark.slow
def test_a_running_call_is_shown_with_its_role_and_model(project: Call) -> None:
    folder = project("greeting")
    (folder / "script.yaml").write_text("- {address: 'greeting/draft/words/*', delay: 1}\n")
    terminal = Terminal("greeting", "Ada", "--script", "script.yaml")
    terminal.until(r"writer · scripted:default · 0\.[1-9] s")
    assert terminal.end() == 0


@pytest.mark.slow
def test_ctrl_c_at_a_question_keeps_the_run(project: Call, skillrun: Call) -> None:
    project("visit")
    terminal = Terminal("visit", "--model", "scripted:default")
    terminal.until("the lake")
    terminal.type("\x03")
    assert terminal.end() == 130
    assert "next: resume with `skillrun resume visit`" in terminal.seen
    shown = skillrun("show", "visit", "--json").json
    assert (shown["status"], [one["status"] for one in shown["phases"]]) == ("interrupted", ["interrupted"])
    terminal = Terminal("resume", "visit")
    terminal.until(r"resuming visit in [\s\S]*the lake")
    terminal.type("2\r")
    assert terminal.end() == 0
