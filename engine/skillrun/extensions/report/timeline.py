"""What a run's transcript says of when calls were made, and of what a person was asked. Reads events alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from skillrun.store.event_lines import KINDS, Record, moment_of


@dataclass(frozen=True)
class CallSpan:
    """A call that was sent: when it went out and when its answer came, in seconds since 1970.

    `number` counts what was sent at this address, from 1. Without an `end` nothing has come of it so far.
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
    """A question that a person was asked, and what was answered; `answer` has nothing where it waits."""

    phase: str
    question: Mapping[str, Any]
    answer: Mapping[str, Any] | None = None
    computed: bool = False


@dataclass
class Happenings:
    """What is told of a transcript: calls in the order in which they went out, and questions in theirs."""

    spans: list[CallSpan] = field(default_factory=list)
    exchanges: list[Exchange] = field(default_factory=list)
    last: float = 0.0


def happenings(events: Iterable[Record]) -> Happenings:
    """All of it; what is evaluated again is not told again, as the journal had the answers."""
    told = Happenings()
    under_way: dict[str, CallSpan] = {}
    numbers: dict[str, int] = {}
    rounds: dict[str, int] = {}
    asked: dict[str, dict[str, Exchange]] = {}
    for event in events:
        kind, at = event["event"], moment_of(event.get("at"))
        if kind not in KINDS or at is None:
            continue
        told.last = max(told.last, at)
        if kind == "PhaseStarted" and "/" not in event["phase"]:
            rounds[event["phase"]] = event["round"]
        elif kind == "CallStarted":
            phase = event["phase"].partition("/")[0]
            place = (event["address"], phase, rounds.get(phase, 1), event["member"], event["model"])
            under_way[event["address"]] = CallSpan(*place, at, 0)
        elif kind == "CallEnded":
            span = under_way.pop(event["address"], None)
            if span is not None and not event["replayed"]:
                told.spans.append(_ended(span, event, at, numbers))
        elif kind == "Asked":
            computed = bool(event["computed"])
            questions = {_key(question): question for question in event["questions"] if isinstance(question, dict)}
            asked[event["address"]] = {
                key: Exchange(event["phase"], question, None, computed) for key, question in questions.items()
            }
        elif kind == "Answered":
            waiting = asked.pop(event["address"], {})
            given = [answer for answer in event["answers"] if isinstance(answer, dict)]
            if not event["replayed"]:
                told.exchanges += [_answered(event["phase"], answer, waiting) for answer in given]
    told.spans += [_numbered(span, numbers) for span in under_way.values()]
    told.spans.sort(key=lambda span: span.start)
    told.exchanges += [exchange for waiting in asked.values() for exchange in waiting.values()]
    return told


def _ended(span: CallSpan, event: Record, at: float, numbers: dict[str, int]) -> CallSpan:
    numbered = _numbered(span, numbers)
    start = min(span.start, at)
    return CallSpan(*_place(span), start, numbered.number, at, str(event["error"]))


def _numbered(span: CallSpan, numbers: dict[str, int]) -> CallSpan:
    numbers[span.address] = numbers.get(span.address, 0) + 1
    return CallSpan(*_place(span), span.start, numbers[span.address])


def _place(span: CallSpan) -> tuple[str, str, int, str, str]:
    return span.address, span.phase, span.round, span.member, span.model


def _answered(phase: str, answer: Mapping[str, Any], waiting: Mapping[str, Exchange]) -> Exchange:
    before = waiting.get(_key(answer))
    question = {**before.question, **answer} if before is not None else answer
    return Exchange(phase, question, answer, before.computed if before is not None else False)


def _key(question: Mapping[str, Any]) -> str:
    return str(question.get("id") or question.get("text") or "")
