"""One line for each event that matters: what a run prints without a live view, and what `logs` shows.

Works on the events' plain form, which is what the transcript holds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from skillrun.cli.figures import duration

Data = Mapping[str, Any]


def line_of(event: Data) -> str:
    """The line, empty for an event that says nothing to a person."""
    write = LINES.get(str(event.get("event")))
    return write(event) if write is not None else ""


def named(models: Mapping[str, str]) -> str:
    """`strong = anthropic:claude-…, fast = …`."""
    return ", ".join(f"{tier} = {model}" for tier, model in models.items())


def because(reason: str) -> str:
    return f": {reason}" if reason else ""


def _started(event: Data) -> str:
    verb = "going on with" if event["resumed"] else "starting"
    return f"{verb} {event['run']} in {event['folder']}\nmodels: {named(event['models'])}"


def _phase_ended(event: Data) -> str:
    took = f" in {duration(event['seconds'])}" if event["seconds"] else ""
    return "" if event["final"] else f"{event['phase']}: {event['status']}{took}{because(event['reason'])}"


def _answered(event: Data) -> str:
    given = [
        f"{one['id']} = {_value(one['answer'])}" for one in event["answers"] if one.get("answer") not in (None, "")
    ]
    return f"{event['phase']}: answered: {'; '.join(given)}" if given and not event["replayed"] else ""


def _value(answer: Any) -> str:
    return ", ".join(map(str, answer)) if isinstance(answer, list) else str(answer)


def _warned(event: Data) -> str:
    return f"{'warning: ' if event['level'] == 'warn' else ''}{event['text']}"


LINES: Final[Mapping[str, Callable[[Data], str]]] = {
    "RunStarted": _started,
    "Notice": _warned,
    "PhaseStarted": lambda event: f"{event['phase']}: started{_round(event['round'])}",
    "PhaseEnded": _phase_ended,
    "Said": lambda event: f"{event['phase']}: {_warned(event)}",
    "Asked": lambda event: "\n".join(f"{event['phase']}: question: {one['text']}" for one in event["questions"]),
    "Answered": _answered,
    "Wrote": lambda event: f"{event['phase']}: wrote {event['path']}" if event["changed"] else "",
    "Tripped": lambda event: (
        f"{event['phase']}: `{event['breaker']}` gives up after {event['failures']} failures: {event['action']}"
    ),
    "WentBack": lambda event: f"round {event['round']}: back from {event['source']} to {event['target']}",
    "CallEnded": lambda event: (
        f"{event['phase']}: {event['member']} did not answer: {event['error']}" if event["error"] else ""
    ),
    "RunEnded": lambda event: f"{event['status']}{because(event['reason'])}",
}


def _round(number: int) -> str:
    return f" (round {number})" if number > 1 else ""
