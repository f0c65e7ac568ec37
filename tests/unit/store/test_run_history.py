"""The time of a run: model calls, waiting for answers, and the total."""

from typing import Any

import pytest

from skillrun.cli.formatting import format_run_times
from skillrun.store.run_history import RunTimes, read_history


def run_times(*events: tuple[float, str, str]) -> RunTimes:
    """Return the times of events, each given as time, kind, and address or status."""
    times = RunTimes()
    for at, kind, subject in events:
        event: dict[str, Any] = {"event": kind, "address": subject, "status": subject, "phase": subject.split("/")[0]}
        times.add(event, at)
    return times


@pytest.mark.finding("NC10")
def test_waiting_for_an_answer_does_not_count_as_model_time() -> None:
    times = run_times(
        (100.0, "RunStarted", ""),
        (100.0, "PhaseStarted", "draft"),
        (100.0, "CallStarted", "draft/a"),
        (100.1, "CallEnded", "draft/a"),
        (100.1, "Asked", "draft/q"),
        (127.0, "Answered", "draft/q"),
        (127.0, "RunEnded", "completed"),
    )
    assert times.to_dict() == {"models": 0.1, "answers": 26.9, "total": 27.0}
    assert times.waiting_seconds("draft", 127.0) == pytest.approx(26.9)
    assert format_run_times(times.to_dict()) == "time: 0.1 s of model calls, 26.9 s waiting for answers, 27.0 s in all"


@pytest.mark.finding("NC10")
def test_parallel_calls_count_once() -> None:
    times = run_times(
        (0.0, "CallStarted", "a/1"),
        (1.0, "CallStarted", "a/2"),
        (2.0, "CallEnded", "a/1"),
        (4.0, "CallEnded", "a/2"),
        (6.0, "CallStarted", "a/3"),
        (7.0, "CallEnded", "a/3"),
    )
    assert times.to_dict() == {"models": 5.0, "answers": 0.0, "total": 7.0}


@pytest.mark.finding("NC10")
@pytest.mark.parametrize(("status", "answers"), [("waiting", 60.0), ("interrupted", 0.0)])
def test_a_waiting_run_counts_the_time_between_processes_as_waiting(status: str, answers: float) -> None:
    times = run_times((0.0, "RunStarted", ""), (1.0, "RunEnded", status), (61.0, "RunStarted", ""))
    assert times.to_dict() == {"models": 0.0, "answers": answers, "total": 61.0}


@pytest.mark.finding("NC10")
def test_a_call_of_a_killed_process_ends_with_its_last_event() -> None:
    times = run_times(
        (0.0, "CallStarted", "a/1"), (2.0, "Said", "a"), (90.0, "RunStarted", ""), (91.0, "CallStarted", "a/1")
    )
    assert times.models.seconds(93.0) == 4.0


@pytest.mark.row("A6")
def test_replayed_calls_and_answers_are_shown_once() -> None:
    def event(kind: str, second: int, **more: object) -> dict[str, object]:
        return {"at": f"2026-01-01T00:00:{second:02}+00:00", "event": kind, "phase": "one", **more}

    call = {"address": "w/one/a/x/1.1", "member": "x", "model": "m"}
    ended = {**call, "replayed": False, "error": ""}
    question = {"id": "q", "text": "Sure?"}
    events = [
        event("PhaseStarted", 1, round=1),
        event("CallStarted", 2, **call),
        event("CallEnded", 4, **ended),
        event("Asked", 5, address="w/one/q", questions=[question], computed=True),
        event("CallStarted", 6, **call),
        event("CallEnded", 6, **{**ended, "replayed": True}),
        event("Asked", 7, address="w/one/q", questions=[question], computed=True),
        event("Answered", 8, address="w/one/q", answers=[{**question, "answer": "yes"}], replayed=False),
        event("Answered", 9, address="w/one/q", answers=[{**question, "answer": "yes"}], replayed=True),
        event("CallStarted", 10, **{**call, "address": "w/one/b/x/1.1"}),
    ]
    timeline = read_history(events)
    assert [(span.address, span.number, span.end is None) for span in timeline.spans] == [
        ("w/one/a/x/1.1", 1, False),
        ("w/one/b/x/1.1", 1, True),
    ]
    (exchange,) = timeline.exchanges
    assert (exchange.computed, exchange.answer) == (True, {**question, "answer": "yes"})


@pytest.mark.slow  # 200,000 events, the most that are read
@pytest.mark.finding("FC5")
def test_many_files_and_questions_of_one_phase_are_read_in_linear_time() -> None:
    """One comparison with each earlier event would take longer than the time-out of a test."""
    start = {"event": "PhaseStarted", "phase": "one", "round": 1}
    files = [{"event": "Wrote", "phase": "one", "path": f"{number % 90_000}.md"} for number in range(100_000)]
    asked = {"event": "Asked", "phase": "one", "computed": False, "may_skip": [], "enough": 0, "fingerprint": "f"}
    ended = {"event": "RunEnded", "status": "waiting"}
    questions = [
        event
        for number in range(50_000)
        for event in ({**asked, "address": f"w/one/{number}", "questions": [{"id": "q", "text": "Sure?"}]}, ended)
    ]
    history = read_history([start, *files, *questions])
    open_phase = history.rounds["one", 1].so_far
    assert open_phase is not None
    assert open_phase["artifacts"] == [f"{number}.md" for number in range(90_000)]
    assert (len(history.shown), len(history.waiting)) == (50_000, 50_000)
