"""Formats numbers, values, tables and events as text. Events are dicts, as in the transcript."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import click

from skillrun.syntax.diagnostics import escape_line, indent_continuation

Data = Mapping[str, Any]
NEEDS_INPUT: Final = "needs-user-input"
STATUS_TEXTS: Final[Mapping[str, str]] = {NEEDS_INPUT: "waiting for your answer", "back": "went back"}


def format_price(price: float | None) -> str:
    """Format a price in dollars, or `price unknown`."""
    if price is None:
        return "price unknown"
    return f"${price:.2f}" if price >= 0.995 or price == 0 else f"${price:.4f}"


def format_duration(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02d} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02d} min"


def count_noun(number: int, what: str) -> str:
    """Return a number with its noun, such as `1 call` or `2 calls`."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def format_usage(usage: Data) -> str:
    """Return usage as text: `12 calls, 34,000 tokens in (60 % cached), 5,600 out, $0.42; 2 more without a reply`."""
    input_tokens = usage["input"]
    cached = round(100 * usage["cache_read"] / input_tokens) if input_tokens else 0
    share = f" ({cached} % cached)" if cached else ""
    calls = count_noun(usage["calls"], "call")
    again = f"; {usage['replayed']:,} more replayed" if usage.get("replayed") else ""
    lost = f"; {usage['without_answer']:,} more without a reply" if usage.get("without_answer") else ""
    price = format_price(usage["price"])
    return f"{calls}, {input_tokens:,} tokens in{share}, {usage['output']:,} out, {price}{lost}{again}"


def reason_suffix(reason: str) -> str:
    return f": {indent_continuation(reason)}" if reason else ""


def phase_status_text(status: str) -> str:
    """Return the status of a phase as text."""
    return STATUS_TEXTS.get(status, status)


def status_line(status: str, reason: str) -> str:
    """Return a status with its reason, as in `failed: reason`; a reason equal to the status is left out."""
    return f"{status}{reason_suffix(reason if reason != status else '')}"


def phase_label(entry: Data) -> str:
    """Return the phase of an entry, followed by the round if it is not the first round."""
    return str(entry["phase"]) if entry["round"] == 1 else f"{entry['phase']} (round {entry['round']})"


def yaml_line(value: Any) -> str:
    """Return a value as YAML on one line; a string is returned unchanged."""
    if isinstance(value, str):
        return value
    import yaml

    text: str = yaml.safe_dump(value, default_flow_style=True, allow_unicode=True, sort_keys=False, width=10**9)
    return text.removesuffix("...\n").strip()


def format_pairs(values: Data) -> str:
    """Return names with values, as in `strong = anthropic:claude-…, fast = …`."""
    return ", ".join(f"{name} = {yaml_line(value)}" for name, value in values.items())


def format_table(header: Sequence[str], rows: Sequence[Sequence[str]], right: Collection[int] = ()) -> list[str]:
    """Return the lines of a table; the columns in `right` are right-aligned."""
    lines = [header, *(list(map(escape_line, row)) for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(header))]
    return [
        "  ".join(
            text.rjust(width) if column in right else text.ljust(width)
            for column, (text, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    ]


def format_columns(rows: Iterable[tuple[str, str]]) -> str:
    """Return names with descriptions in two columns, wrapped at the width of the terminal."""
    formatter = click.HelpFormatter(max_width=120)
    formatter.write_dl([(escape_line(name), escape_line(text)) for name, text in rows], col_max=40)
    return formatter.getvalue().rstrip("\n")


@dataclass(frozen=True)
class Finding:
    """The result of a check. `state` is ok, note (optional), warning (can break the program), or missing."""

    state: str
    what: str
    text: str
    hint: str = ""


def format_findings(findings: Iterable[Finding]) -> str:
    """Return a line for each finding, wrapped at the width of the terminal."""
    return format_columns(
        (f"{each.state:7}  {each.what}", "; ".join(filter(None, (each.text, each.hint)))) for each in findings
    )


ANSWER_SOURCES: Final[Data] = {
    "prepared": "answered from the prepared answers",
    "default": "default used without asking",
}
"""Labels of answers that the user did not give during the run."""


def format_event(event: Data) -> str:
    """Return the text of an event; empty if the event is not displayed.

    Lines after the first are indented, because they can contain a model's text: only the program's own lines start at
    the margin.
    """
    write = EVENT_FORMATTERS.get(str(event.get("event")))
    lines = write(event) if write is not None else ""
    return "\n".join(map(indent_continuation, [lines] if isinstance(lines, str) else lines))


def _format_phase_end(event: Data) -> str:
    if event["final"]:
        return ""
    took = f" in {format_duration(event['seconds'])}" if event["seconds"] and event["status"] != NEEDS_INPUT else ""
    waited = f", {event['waited']}" if took and event.get("waited") else ""
    return f"{event['phase']}: {phase_status_text(event['status'])}{took}{waited}{reason_suffix(event['reason'])}"


def _format_questions(event: Data) -> list[str]:
    from skillrun.questions.answers import GENERATED_NOTE  # a slow import

    label = f"{event['phase']}: question{f' ({GENERATED_NOTE})' if event.get('computed') else ''}"
    return [f"{label}: {question.get('text', '')}" for question in event["questions"]]


def _format_answers(event: Data) -> list[str]:
    """Return a line for each source of answers, and a line for comments on unanswered questions.

    Answers without a source come from older runs, and count as the user's. A prepared answer is named by its key in the
    file of prepared answers; several passes of a step can share a key.
    """
    if event["replayed"]:
        return []
    from skillrun.definitions.definitions import strip_markers  # slow imports
    from skillrun.questions.answers import PREPARED
    from skillrun.questions.prepared_answers import answer_names

    by_source: dict[str, dict[str, Any]] = {}
    left_open: dict[str, Any] = {}
    names = answer_names(str(event["address"]).partition("/")[2], event["answers"])
    for answer, full_name in zip(event["answers"], names, strict=True):
        by, name = str(answer.get("answered_by")), str(answer.get("id", ""))
        if answer.get("answer") not in (None, ""):
            if by == PREPARED and strip_markers(full_name) != full_name:
                name = full_name
            by_source.setdefault(ANSWER_SOURCES.get(by, "answered"), {})[name] = answer["answer"]
        elif answer.get("comment"):
            left_open[name] = answer["comment"]
    lines = {**by_source, "left open": left_open}
    return [f"{event['phase']}: {how}: {format_pairs(answers)}" for how, answers in lines.items() if answers]


def _format_message(event: Data) -> str:
    return f"{'warning: ' if event['level'] == 'warn' else ''}{event['text']}"


def format_warning(event: Data) -> str:
    """Return the line for a warning; empty for every other event."""
    is_warning = event["event"] in ("Notice", "Said") and event["level"] == "warn"
    return format_event(event) if is_warning else ""


def _format_estimate(event: Data) -> str:
    turns = f" and {count_noun(event['turns'], 'turn')} with tools" if event["turns"] else ""
    usage = f"{count_noun(event['calls'], 'call')}{turns}, {event['tokens']:,} tokens, {format_price(event['price'])}"
    return f"{event['phase']}: expected now, {event['because']}: about {usage}"


EVENT_FORMATTERS: Final[Mapping[str, Callable[[Data], str | list[str]]]] = {
    "RunStarted": lambda event: [
        f"{'resuming' if event['resumed'] else 'starting'} {event['run']} in {event['folder']}",
        f"models: {format_pairs(event['models'])}",
    ],
    "Notice": _format_message,
    "PhaseStarted": lambda event: (
        f"{event['phase']}: started" + (f" (round {event['round']})" if event["round"] > 1 else "")
    ),
    "PhaseEnded": _format_phase_end,
    "Pruned": lambda event: f"{event['phase']}: {_format_message(event)}",
    "Said": lambda event: f"{event['phase']}: {_format_message(event)}",
    "ItemEnded": lambda event: (
        f"{event['phase']}: {event['step']} {event['item']}: {event['status']} ({event['ended']} of {event['of']})"
        f"{reason_suffix(event['reason'])}"
    ),
    "Asked": _format_questions,
    "Answered": _format_answers,
    "Wrote": lambda event: f"{event['phase']}: wrote {event['path']}" if event["changed"] else "",
    "Tripped": lambda event: (
        f"{event['phase']}: `{event['breaker']}` has reached its limit of {event.get('limit') or event['failures']}: "
        f"{event['action']}"
    ),
    "WentBack": lambda event: f"{event['source']}: back to {event['target']}, for round {event['round']}",
    "Expected": _format_estimate,
    "CallEnded": lambda event: (
        f"{event['phase']}: {event['member']} did not reply: {event['error']}" if event["error"] else ""
    ),
    "RunEnded": lambda event: status_line(event["status"], event["reason"]),
}


MIN_WAITING: Final = 0.05  # seconds; shorter waiting times are not shown


def format_waiting(seconds: float) -> str:
    """Return text such as `26.9 s waiting for answers`; empty for less than `MIN_WAITING`."""
    return f"{format_duration(seconds)} waiting for answers" if seconds >= MIN_WAITING else ""


def format_run_times(times: dict[str, Any]) -> str:
    """Return text such as `time: 0.1 s of model calls, 26.9 s waiting for answers, 27.0 s in all`."""
    answers = format_waiting(times["answers"])
    return (
        f"time: {format_duration(times['models'])} of model calls, {answers}, {format_duration(times['total'])} in all"
    )
