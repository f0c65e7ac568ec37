"""The lines that `dev` prints for a turn."""

import pytest

from skillrun.events import Asked, PhaseEnded
from skillrun.watch.watch_loop import event_line


@pytest.mark.finding("NC12")
def test_an_open_question_is_printed_only_in_the_last_line_of_the_turn() -> None:
    asked = Asked("tea/choice/which@1", "choice", ({"id": "which", "text": "Which one?"},))
    waiting = PhaseEnded("choice", 1, "needs-user-input", 0.1, reason="choice has a question: Which one?")
    assert [event_line(event, is_first=True, round_number=1) for event in (asked, waiting)] == ["", ""]
    ended = PhaseEnded("choice", 1, "failed", 0.1, reason="why")
    assert event_line(ended, is_first=True, round_number=1) == "choice: failed in 0.1 s: why"
