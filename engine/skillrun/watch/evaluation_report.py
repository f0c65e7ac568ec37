"""Formats an evaluation of `dev`: event lines, differences and summary."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from skillrun.cli.differences import field_lines, truncate_lines
from skillrun.cli.formatting import NEEDS_INPUT, count_noun, format_event, status_line
from skillrun.events import Asked, CallStarted, Event, PhaseEnded, RunEnded, Said, Tripped, WentBack, Wrote
from skillrun.syntax.diagnostics import indent_continuation
from skillrun.watch.watch_loop import Evaluation, ReplyDifference

REPEATED_EVENTS = (Wrote, Said, Tripped, WentBack)


def event_line(event: Event, *, is_first: bool, round_number: int) -> str:
    """Return the line of an event; empty if it is not shown. `round_number` is the round of the event's phase."""
    if isinstance(event, CallStarted):
        return "" if is_first else f"calling {event.address}{_round_suffix(round_number)}"
    if isinstance(event, RunEnded) or not (is_first or isinstance(event, REPEATED_EVENTS)):
        return ""
    if isinstance(event, Asked) or (isinstance(event, PhaseEnded) and event.status == NEEDS_INPUT):
        return ""  # the summary lists each waiting question
    return format_event({**event.to_dict(), "resumed": False})


def change_lines(evaluation: Evaluation, *, full: bool) -> Iterator[str]:
    """Yield the differences of artifacts and replies. Replies with the difference of an artifact are left out."""
    for name, lines in evaluation.differences.items():
        yield f"changed: {name}{_round_suffix(evaluation.artifact_rounds.get(name, 1))}"
        yield from truncate_lines(lines, full=full)
    for reply in evaluation.replies:
        if reply.lines not in evaluation.differences.values():
            yield f"changed: the reply of {reply.address}{_round_suffix(reply.round)}"
            yield from truncate_lines(_reply_lines(reply, full=full), full=full)


def _reply_lines(reply: ReplyDifference, *, full: bool) -> list[str]:
    if reply.fields is None:
        return reply.lines
    lines = [line for field in reply.fields for line in field_lines(field, full=full)]
    return lines or ["the same values in a different notation"]


def summary_lines(evaluation: Evaluation, seconds: float) -> Iterator[str]:
    """Yield the outcome, the counts, and the next step after a failure."""
    outcome = evaluation.outcome
    took = f"{seconds:.2f} s{_round_note(evaluation)}"
    yield (
        f"{status_line(outcome.status, outcome.reason)} {f'({took})' if outcome.reason else f'in {took}'}; "
        f"calls: {evaluation.reused} reused, {len(evaluation.new_calls)} made; "
        f"{count_noun(len(evaluation.differences), 'artifact')} changed"
    )
    if outcome.status == "failed":
        yield f"next: {indent_continuation(str(outcome.next_step))}"


def evaluation_data(evaluation: Evaluation) -> dict[str, Any]:
    outcome = evaluation.outcome
    return {
        "status": outcome.status,
        "reason": outcome.reason,
        "reused": evaluation.reused,
        "asked": evaluation.new_calls,
        "changed": sorted(evaluation.differences),
        "changes": evaluation.differences,
        "replies": [
            {
                "address": reply.address,
                "round": reply.round,
                "difference": reply.lines,
                "fields": [field._asdict() for field in reply.fields] if reply.fields is not None else None,
            }
            for reply in evaluation.replies
        ],
    }


def _round_suffix(number: int) -> str:
    return f" (round {number})" if number > 1 else ""


def _round_note(evaluation: Evaluation) -> str:
    return f", in round {evaluation.round}" if evaluation.round > 1 else ""
