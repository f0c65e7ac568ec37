"""Builds the timeline of calls and questions from a run's events."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from skillrun.store.event_lines import EVENT_TYPES, Record, event_timestamp


@dataclass(frozen=True)
class CallSpan:
    """A call that was sent, with its start and end in seconds since 1970.

    `number` counts the calls at this address, from 1. A call without a reply has no `end`.
    """

    address: str
    phase: str
    round: int
    member: str
    model: str
    start: float
    number: int
    end: float | None = None
    error: str = ""


@dataclass(frozen=True)
class Exchange:
    """A question to the user, and its answer. A waiting question has no answer."""

    phase: str
    question: Mapping[str, Any]
    answer: Mapping[str, Any] | None = None
    computed: bool = False


@dataclass
class RunTimeline:
    """The calls of a run in the order of their start, and the questions in the order of their answers.

    Waiting questions come last.
    """

    spans: list[CallSpan] = field(default_factory=list)
    exchanges: list[Exchange] = field(default_factory=list)
    last_event_at: float = 0.0


def build_timeline(events: Iterable[Record]) -> RunTimeline:
    """Return the timeline of a run, built from its events. Replayed calls and answers are left out."""
    timeline = RunTimeline()
    open_calls: dict[str, CallSpan] = {}
    numbers: dict[str, int] = {}
    rounds: dict[str, int] = {}
    open_questions: dict[str, dict[str, Exchange]] = {}
    for event in events:
        kind, at = event["event"], event_timestamp(event.get("at"))
        if kind not in EVENT_TYPES or at is None:
            continue
        timeline.last_event_at = max(timeline.last_event_at, at)
        if kind == "PhaseStarted" and "/" not in event["phase"]:
            rounds[event["phase"]] = event["round"]
        elif kind == "CallStarted":
            phase = event["phase"].partition("/")[0]
            place = (event["address"], phase, rounds.get(phase, 1), event["member"], event["model"])
            open_calls[event["address"]] = CallSpan(*place, at, 0)
        elif kind == "CallEnded":
            span = open_calls.pop(event["address"], None)
            if span is not None and not event["replayed"]:
                timeline.spans.append(_end_span(span, event, at, numbers))
        elif kind == "Asked":
            computed = bool(event["computed"])
            questions = {_key(question): question for question in event["questions"] if isinstance(question, dict)}
            open_questions[event["address"]] = {
                key: Exchange(event["phase"], question, None, computed) for key, question in questions.items()
            }
        elif kind == "Answered":
            waiting = open_questions.pop(event["address"], {})
            answers = [answer for answer in event["answers"] if isinstance(answer, dict)]
            if not event["replayed"]:
                timeline.exchanges += [_build_exchange(event["phase"], answer, waiting) for answer in answers]
    timeline.spans += [_number_span(span, numbers) for span in open_calls.values()]
    timeline.spans.sort(key=lambda span: span.start)
    timeline.exchanges += [exchange for waiting in open_questions.values() for exchange in waiting.values()]
    return timeline


def _end_span(span: CallSpan, event: Record, at: float, numbers: dict[str, int]) -> CallSpan:
    numbered = _number_span(span, numbers)
    start = min(span.start, at)
    return CallSpan(*_span_identity(span), start, numbered.number, at, str(event["error"]))


def _number_span(span: CallSpan, numbers: dict[str, int]) -> CallSpan:
    numbers[span.address] = numbers.get(span.address, 0) + 1
    return CallSpan(*_span_identity(span), span.start, numbers[span.address])


def _span_identity(span: CallSpan) -> tuple[str, str, int, str, str]:
    return span.address, span.phase, span.round, span.member, span.model


def _build_exchange(phase: str, answer: Mapping[str, Any], waiting: Mapping[str, Exchange]) -> Exchange:
    open_exchange = waiting.get(_key(answer))
    question = {**open_exchange.question, **answer} if open_exchange is not None else answer
    return Exchange(phase, question, answer, open_exchange.computed if open_exchange is not None else False)


def _key(question: Mapping[str, Any]) -> str:
    return str(question.get("id") or question.get("text") or "")
