"""One line for each event that matters: what a run prints without a live view, and what `logs` shows.

Works on the events' plain form, which is what the transcript holds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from skillrun.cli.figures import duration, tokens
from skillrun.cli.rehearsal import named

Data = Mapping[str, Any]


def line_of(event: Data, *, calls: bool = False) -> str | None:
    """The line, None for an event that says nothing to a person. `calls`: every model call too."""
    name = str(event.get("event"))
    write = LINES.get(name) or (CALLS.get(name) if calls else None)
    return write(event) if write is not None else None


def _started(event: Data) -> str:
    verb = "going on with" if event["resumed"] else "starting"
    return f"{verb} {event['run']} in {event['folder']}\nmodels: {named(event['models'])}"


def _notice(event: Data) -> str:
    return f"{'warning: ' if event['level'] == 'warn' else ''}{event['text']}"


def _phase_started(event: Data) -> str:
    return f"{event['phase']}: started{_round(event)}"


def _phase_ended(event: Data) -> str | None:
    if event["final"]:
        return None
    took = f" in {duration(event['seconds'])}" if event["seconds"] else ""
    return f"{event['phase']}: {event['status']}{took}{_because(event)}"


def _said(event: Data) -> str:
    return f"{event['phase']}: {'warning: ' if event['level'] == 'warn' else ''}{event['text']}"


def _asked(event: Data) -> str:
    return "\n".join(f"{event['phase']}: question: {question['text']}" for question in event["questions"])


def _answered(event: Data) -> str | None:
    if event["replayed"]:
        return None
    given = [f"{one['id']} = {one['answer']}" for one in event["answers"] if one.get("answer") not in (None, "")]
    return f"{event['phase']}: answered: {'; '.join(given)}" if given else None


def _wrote(event: Data) -> str | None:
    return f"{event['phase']}: wrote {event['path']}" if event["changed"] else None


def _tripped(event: Data) -> str:
    return f"{event['phase']}: `{event['breaker']}` gives up after {event['failures']} failures: {event['action']}"


def _went_back(event: Data) -> str:
    return f"round {event['round']}: back from {event['source']} to {event['target']}"


def _ended(event: Data) -> str:
    return f"{event['status']}{_because(event)}"


def _call_ended(event: Data) -> str | None:
    if event["error"]:
        return f"{event['phase']}: {event['member']} did not answer: {event['error']}"
    return None


def _every_call(event: Data) -> str:
    source = "from the journal" if event["replayed"] else f"in {duration(event['seconds'])}"
    return f"{event['phase']}: {event['member']} answered {source} ({tokens(event['usage'])})"


def _tool(event: Data) -> str:
    return f"{event['phase']}: {event['tool']} {', '.join(str(value) for value in event['arguments'].values())}"


def _round(event: Data) -> str:
    return f" (round {event['round']})" if event["round"] > 1 else ""


def _because(event: Data) -> str:
    return f": {event['reason']}" if event["reason"] else ""


Write = Callable[[Data], str | None]
LINES: Final[Mapping[str, Write]] = {
    "RunStarted": _started,
    "Notice": _notice,
    "PhaseStarted": _phase_started,
    "PhaseEnded": _phase_ended,
    "Said": _said,
    "Asked": _asked,
    "Answered": _answered,
    "Wrote": _wrote,
    "Tripped": _tripped,
    "WentBack": _went_back,
    "CallEnded": _call_ended,
    "RunEnded": _ended,
}
CALLS: Final[Mapping[str, Write]] = {"ToolUsed": _tool}
