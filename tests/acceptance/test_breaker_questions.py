"""A circuit breaker asks the user with the author's text, and each choice does what it says."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.terminal import Terminal
from tests.acceptance.test_outcomes import ASKING, phase, sent, workflow, write

Call = Callable[..., Any]
pytestmark = [pytest.mark.row("P14"), pytest.mark.finding("FL7")]

WORDS = """breakers:
  again:
    limit: 1
    then: ask
    ask: The clerk does not answer. What now?
    choices: {go_on: Do without the note, retry: Call once more, stop: Close the desk}
  loop: {limit: 1, then: ask, choices: {retry: One more, go_on: That is enough}}
"""
AROUND = {
    "workflows/around.md": workflow("around", "  whole:\n", "config: desk\n"),
    "skills/around/whole.md": phase(
        "{id: note, agent: clerk, retry: again, otherwise: {say: Without it.}}", note="Note it."
    ),
}
SCRIPT = ("--script", "busy.yaml")


@pytest.fixture
def desk(project: Call) -> Path:
    return write(project(), {**ASKING, **AROUND, "config/desk.yaml": WORDS, "workflows/desk.md": DESK})


DESK = workflow("desk", "  one:\n", "config: desk\n")


@pytest.mark.slow
def test_each_choice_with_the_authors_text_does_what_it_says(desk: Path, skillrun: Call) -> None:
    waiting = skillrun("around", *SCRIPT, "--name", "w")
    assert waiting.code == 75
    question = "whole has a question: The clerk does not answer. What now? "
    assert question + "(Do without the note, Call once more, Close the desk)" in waiting.out, "the author's text"
    for answer, code, calls in (
        ("Do without the note", 0, 1),
        ("[Call once more, Close the desk]", 1, 2),
        ("[retry, go_on]", 0, 2),  # the names of the choices are accepted, too
    ):
        (desk / "answers.yaml").write_text(f"retry: {answer}\n")
        done = skillrun("around", *SCRIPT, "--answers", "answers.yaml", "--name", f"c{calls}-{code}-{len(answer)}")
        assert (done.code, len(sent(desk / "runs" / f"c{calls}-{code}-{len(answer)}"))) == (code, calls), done.out
        assert ("whole: Without it." in done.out) is (code == 0)
    unattended = skillrun("around", *SCRIPT, "--unattended", "--name", "alone")
    assert (unattended.code, "whole: Without it." in unattended.out) == (0, True)


@pytest.mark.slow
def test_without_a_fallback_the_user_cannot_continue_without_a_reply(desk: Path) -> None:
    terminal = Terminal("desk", *SCRIPT)
    terminal.until(r"was not answered[\s\S]*The clerk does not answer. What now\?[\s\S]*Call once more")
    terminal.until("Close the desk")
    terminal.type("2\r")
    assert terminal.end() == 1
    assert "Do without the note" not in terminal.seen
    assert "failed: one: stopped by the user: `note` was not answered" in terminal.seen


def test_the_breaker_of_a_loop_offers_its_own_choices(desk: Path, skillrun: Call) -> None:
    steps = "{id: turn, until: run.round > 9, at_most: loop, repeat: [{say: Round.}]}"
    write(desk, {"skills/around/whole.md": phase(steps)})
    (desk / "answers.yaml").write_text("retry: [One more, That is enough]\n")
    done = skillrun("around", *SCRIPT, "--answers", "answers.yaml", "--name", "loop")
    assert done.code == 0, done.out
    assert done.out.count("whole: Round.") == 2


def test_a_loop_that_fails_is_not_repeated_by_the_breaker_that_it_names(desk: Path, skillrun: Call) -> None:
    steps = "{at_most: 2, retry: loop, repeat: [{say: Round.}, {read: none.md}], otherwise: {say: Without it.}}"
    write(desk, {"skills/around/whole.md": phase(steps)})
    done = skillrun("around", *SCRIPT, "--name", "loop")
    assert done.code == 0, done.out
    assert done.out.count("whole: Round.") == 1
    assert "whole: Without it." in done.out
