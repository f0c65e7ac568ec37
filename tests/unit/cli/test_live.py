"""The live display of a run, and lines that are held back while a question is open."""

import io
import re
import time

import pytest
from rich.console import Console

from skillrun.cli.live import LiveView, PlainView, RunProgress
from skillrun.cli.output import Output
from skillrun.events import (
    Answered,
    Asked,
    CallEnded,
    CallStarted,
    Event,
    ItemEnded,
    PhaseEnded,
    PhaseStarted,
    RunStarted,
    Said,
    WentBack,
)

STARTED = RunStarted("a", "w", "runs/a", ("one", "two", "three"), {}, {})


def display_lines(*events: Event) -> list[str]:
    """The lines of the live display, with every duration as `…`."""
    progress = RunProgress()
    for event in events:
        progress.on_event(event)
    return [re.sub(r" *[0-9.]+ s", " …", line) for line in progress.lines()]


def test_phases_are_listed_with_their_status_and_running_calls() -> None:
    events = (
        STARTED,
        PhaseStarted("one", 1),
        PhaseEnded("one", 1, "completed", 2.0),
        PhaseStarted("two", 1),
        CallStarted("w/two/a", "two", "writer", "m"),
    )
    assert display_lines(*events) == [
        "✓ one …",
        "▸ two …",
        "    writer · m · …",
        "  three",
        "0 calls, 0 tokens in, 0 out, $0.00 · …",
    ]


@pytest.mark.finding("NC10")
def test_waiting_for_an_answer_is_shown_separately(monkeypatch: pytest.MonkeyPatch) -> None:
    progress, now = RunProgress(), time.monotonic()
    for after, event in (
        (0, PhaseStarted("one", 1)),
        (1, Asked("w/one/q@1", "one", ({"id": "q", "text": "Q?"},))),
        (28, Answered("w/one/q@1", "one", (), replayed=False)),
    ):
        monkeypatch.setattr(time, "monotonic", lambda at=now + after: at)
        progress.on_event(event)
    assert progress.lines()[0] == "▸ one       28.0 s  27.0 s waiting for answers"
    assert progress.lines()[1].endswith(" s · 27.0 s waiting for answers")


def test_an_item_is_shown_before_its_member_with_the_number_of_ended_items() -> None:
    item = ItemEnded("two", "built", "T-1", "done", 1, 3)
    lines = display_lines(
        STARTED, PhaseStarted("two", 1), item, CallStarted("w/two/built~T-2/draft/a/1.1", "two", "a", "m")
    )
    assert [line.split("…")[0].strip() for line in lines if line.startswith("    ")] == [
        "built: 1 of 3",
        "T-2 · a · m ·",
    ]


def test_replayed_replies_are_not_counted_as_spent() -> None:
    usage = {"input": 1000, "output": 10}
    new = CallEnded("w/one/a", "one", "writer", "m", replayed=False, usage=usage, price=None)
    old = CallEnded("w/one/b", "one", "writer", "m", replayed=True, usage=usage, price=3.0)
    assert display_lines(STARTED, new, old)[-1] == "1 call, 1,000 tokens in, 10 out, price unknown · …"


def test_going_back_reopens_the_target_and_later_phases() -> None:
    events = [PhaseEnded(name, 1, "completed", 1.0) for name in ("one", "two", "three")]
    assert display_lines(STARTED, *events, WentBack("three", "two", 2), PhaseStarted("two", 2))[:3] == [
        "✓ one …",
        "▸ two …  round 2",
        "  three",
    ]


def test_lines_are_held_back_while_a_question_is_open(capsys: pytest.CaptureFixture[str]) -> None:
    view = PlainView(Output())
    with view.hold_output():
        view.on_event(Said("one", "later"))
        assert capsys.readouterr().out == ""
    assert capsys.readouterr().out == "one: later\n"


def test_the_display_erases_no_lines_above_a_question(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    output = io.StringIO()
    view = LiveView(Output(), Console(file=output, force_terminal=True, width=80))
    view.on_event(STARTED)
    view.live.start()
    view.live.refresh()
    with view.hold_output():
        length = len(output.getvalue())
    view.live.refresh()
    after = output.getvalue()[length:]
    view.live.stop()
    assert "  three" in after
    assert "\x1b[1A" not in after  # moving up a line would erase the question or the text before it
