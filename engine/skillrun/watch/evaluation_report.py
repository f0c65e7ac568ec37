"""What a turn of `dev` came to, in lines: events while it runs, differences behind it, and the sums."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from skillrun.cli.difference_lines import cut_lines, field_lines
from skillrun.cli.formatting import NEEDS_INPUT, counted, line_of, status_line
from skillrun.events import Asked, CallStarted, Event, PhaseEnded, RunEnded, Said, Tripped, WentBack, Wrote
from skillrun.syntax.diagnostics import hanging
from skillrun.watch.watch_loop import ReplyDifference, Turn

TOLD_AGAIN = (Wrote, Said, Tripped, WentBack)


def event_line(event: Event, *, is_first: bool, number: int) -> str:
    """The line of an event; empty for one of which nothing is said in a turn. `number`: the round of its phase."""
    if isinstance(event, CallStarted):
        return "" if is_first else f"asking {event.address}{_round(number)}"
    if isinstance(event, RunEnded) or not (is_first or isinstance(event, TOLD_AGAIN)):
        return ""
    if isinstance(event, Asked) or (isinstance(event, PhaseEnded) and event.status == NEEDS_INPUT):
        return ""  # the last lines of the turn name each question that waits
    return line_of({**event.to_dict(), "resumed": False})


def change_lines(turn: Turn, *, full: bool) -> Iterator[str]:
    """The differences of a turn: of each artifact, and of each reply that is not an artifact's text word for word."""
    for name, lines in turn.differences.items():
        yield f"changed: {name}{_round(turn.rounds.get(name, 1))}"
        yield from cut_lines(lines, full=full)
    for reply in turn.replies:
        if reply.lines not in turn.differences.values():
            yield f"changed: the reply of {reply.address}{_round(reply.round)}"
            yield from cut_lines(_reply_lines(reply, full=full), full=full)


def _reply_lines(reply: ReplyDifference, *, full: bool) -> list[str]:
    if reply.fields is None:
        return reply.lines
    lines = [line for field in reply.fields for line in field_lines(field, full=full)]
    return lines or ["the same values, written otherwise"]


def sum_lines(turn: Turn, seconds: float) -> Iterator[str]:
    """How the turn ended, and what to type where it failed or waits."""
    outcome = turn.outcome
    took = f"{seconds:.2f} s{_in_round(turn)}"
    yield (
        f"{status_line(outcome.status, outcome.reason)} {f'({took})' if outcome.reason else f'in {took}'}; "
        f"{turn.reused} reused, {len(turn.asked)} asked, {counted(len(turn.differences), 'artifact')} changed"
    )
    if outcome.status == "failed":
        yield f"next: {hanging(str(outcome.next_step))}"


def turn_data(turn: Turn) -> dict[str, Any]:
    outcome = turn.outcome
    return {
        "status": outcome.status,
        "reason": outcome.reason,
        "reused": turn.reused,
        "asked": turn.asked,
        "changed": sorted(turn.differences),
        "changes": turn.differences,
        "replies": [
            {
                "address": reply.address,
                "round": reply.round,
                "difference": reply.lines,
                "fields": [field._asdict() for field in reply.fields] if reply.fields is not None else None,
            }
            for reply in turn.replies
        ],
    }


def _round(number: int) -> str:
    return f" (round {number})" if number > 1 else ""


def _in_round(turn: Turn) -> str:
    return f", in round {turn.round}" if turn.round > 1 else ""
