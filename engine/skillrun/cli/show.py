"""`skillrun show`: summarises a run, or shows its calls."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import click

from skillrun.cli import completion, options
from skillrun.cli.call_view import CallSelector, calls_table, conversation_data, conversation_lines, select_calls
from skillrun.cli.formatting import (
    MIN_WAITING,
    count_noun,
    format_duration,
    format_price,
    format_run_times,
    format_table,
    format_usage,
    phase_label,
    phase_status_text,
    status_line,
    yaml_line,
)
from skillrun.cli.output import Output
from skillrun.cli.run_summary import summarize_run
from skillrun.store.run_view import RunCalls, RunView
from skillrun.syntax.diagnostics import UsageError, indent_continuation

PAUSE_FLAGS: Final = frozenset({"pause_type", "block_reason"})
HEADER: Final = (
    "phase", "outcome", "round", "duration", "calls", "tokens in", "tokens out", "price", "waiting", "replayed"
)  # fmt: skip
OPTIONAL_COLUMNS: Final = ("waiting", "replayed")
MAX_VALUE_LENGTH: Final = 100  # characters of a displayed value

HELP: Final = """Summarise RUN: phases, warnings, usage, and files that you edited.

With PHASE, list its calls. With STEP (and MEMBER), show each call: the prompt by parts, tool results and the reply.
STEP is a step's id, or (part of) the address of a call."""


@click.command(help=HELP)
@click.argument("run", shell_complete=completion.runs)
@click.argument("phase", default="", shell_complete=completion.run_phases)
@click.argument("step", default="")
@click.argument("member", default="")
@click.option("--full", is_flag=True, help="Print the full prompts and tool results of calls.")
@options.version
@options.runs_folder
@options.as_json
def show(run: str, phase: str, step: str, member: str, full: bool, version: int | None, runs: Path, out: Output) -> int:
    view = RunView(options.open_run(run, runs))
    if phase:
        return _show_calls(view.calls, run, CallSelector(phase, step, member, version or 0), out, full=full)
    if full or version:
        raise UsageError("`--full` and `--version` require a phase", f"`skillrun show {run} PHASE`")
    record = summarize_run(view)
    out.data(record)
    if not out.json:
        out.lines(_summary_lines(record))
    return 0


def _show_calls(calls: RunCalls, run_argument: str, selector: CallSelector, out: Output, *, full: bool) -> int:
    """Print the selected calls, and return the exit code. For a whole phase with several calls, print a table."""
    for text in calls.notes:
        out.note(f"warning: {text}")
    conversations = select_calls(calls, selector)
    if out.json:
        data = [conversation_data(each, calls.dropped_text(each)) for each in conversations]
        out.data({"run": calls.name, "is_held": calls.is_held, "calls": data})
        return 0
    if len(conversations) > 1 and not selector.step and "/" not in selector.phase:
        out.lines(calls_table(conversations, is_held=calls.is_held))
        out.line()
        out.line(f"for one call: `skillrun show {run_argument} {selector.phase} STEP [MEMBER]`")
    else:
        for number, each in enumerate(conversations):
            if number:
                out.line()
                out.line("─" * 80)
            out.lines(conversation_lines(each, calls.dropped_text(each), full=full, is_held=calls.is_held))
    if not selector.version and (earlier := sum(each.versions - 1 for each in conversations)):
        out.note(f"{count_noun(earlier, 'earlier prompt')} at the same address: `--version 1` is the first")
    return 0


def _summary_lines(record: Mapping[str, Any]) -> list[str]:
    phases = record["phases"]
    prompts = [
        (prompt, ", ".join(f"{part} {tokens:,}" for part, tokens in prompt["parts"].items()))
        for prompt in record["prompts"]
    ]
    flags = [  # without those that describe open questions
        (phase, {name: flag for name, flag in phase["flags"].items() if name not in PAUSE_FLAGS}) for phase in phases
    ]
    parts = {
        "inputs": [f"{name}: {text}" for name, text in _short_values(record["inputs"])],
        "state": [f"{name}: {text}" for name, text in _short_values(record["state"])],
        "models": [f"{tier} = {model}" for tier, model in record["models"].items()],
        "": _phase_table(phases),
        "outputs": [f"{phase_label(phase)}: {text}" for phase in phases if (text := _join_pairs(phase["outputs"]))],
        "flags": [f"{phase_label(phase)}: {text}" for phase, of_it in flags if (text := _join_pairs(of_it))],
        "what happened": [f"{phase_label(entry)}: {entry['text']}" for entry in record["happened"]],
        "longest prompt of each step, in tokens": [
            f"{phase_label(prompt)}, {prompt['text']}: {sum(prompt['parts'].values()):,} ({sizes})"
            for prompt, sizes in prompts
        ],
        "left out of prompts, for lack of space": [
            f"{phase_label(entry)}: {entry['text']}" for entry in record["left_out"]
        ],
        "about the run": record["notices"],
        "features": [
            f"{feature['name']}: {'on' if feature['on'] else 'off, ' + feature['because']}"
            for feature in record["features"]
        ],
        "degraded": [f"{phase_label(entry)}: {entry['text']}" for entry in record["degraded"]],
        "edited": [
            *record.get("changed_by_hand", ()),
            *(f"{name} (removed)" for name in record.get("removed_by_hand", ())),
        ],
        "sent, without a reply": record.get("unanswered"),
        "not followed": record["not_followed"],
    }
    lines = [f"{record['run']} · {record['workflow']} · {status_line(record['status'], record['reason'])}"]
    lines += [f"round {record['round']}, started {record['started_at']}, in {record['folder']}"]
    for title, rows in parts.items():
        if rows:
            lines += ["", f"{title}:", *(f"  {indent_continuation(line)}" for line in rows)] if title else ["", *rows]
    expected = {key: value for key, value in record["estimate"].items() if key not in ("answers", "each", "phases")}
    if expected:
        lines += ["", f"estimated at the start: {_join_pairs(expected)}"]
    times = [format_run_times(record["time"])] if record["time"]["answers"] >= MIN_WAITING else []
    return [
        *lines,
        "",
        *times,
        f"journal: {record['journal']}" if "journal" in record else format_usage(record["usage"]),
        *([f"next: {indent_continuation(record['next'])}"] if record["next"] else []),
    ]


def _phase_table(phases: list[Mapping[str, Any]]) -> list[str]:
    """Return the table of phases and their paid calls. Empty columns for waiting and replayed calls are left out."""
    rows = []
    for phase in phases:
        usage, flow = phase["usage"], ["", "", "", ""]
        if usage.get("calls"):
            flow = [*(f"{usage[key]:,}" for key in ("calls", "input", "output")), format_price(usage["price"])]
        row = [phase["phase"], phase_status_text("back" if phase["back"] else phase["status"]), str(phase["round"])]
        row += [format_duration(phase["seconds"]) if phase["seconds"] else "", *flow]
        row += [format_duration(phase["waited"]) if phase["waited"] >= MIN_WAITING else ""]
        rows.append([*row, f"{number:,}" if (number := usage.get("replayed")) else ""])
    columns = [at for at, title in enumerate(HEADER) if title not in OPTIONAL_COLUMNS or any(row[at] for row in rows)]
    header, *cells = ([row[at] for at in columns] for row in (HEADER, *rows))
    return format_table(header, cells, right=range(2, len(columns)))


def _join_pairs(values: Mapping[str, Any]) -> str:
    return "; ".join(f"{name} = {text}" for name, text in _short_values(values))


def _short_values(values: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the non-empty values. A long list is shown as its length, a long record as its short fields."""
    shown = []
    for name, value in values.items():
        if value in ("", [], {}, None):
            continue
        text = " ".join(yaml_line(value).split())
        if len(text) > MAX_VALUE_LENGTH and isinstance(value, list):
            text = count_noun(len(value), "item")
        elif len(text) > MAX_VALUE_LENGTH and isinstance(value, dict):
            fields = {key: item for key, item in value.items() if item not in ([], {})}
            short = {key: item for key, item in fields.items() if len(yaml_line(item)) < MAX_VALUE_LENGTH // 3}
            text = yaml_line(short)
        elif len(text) > MAX_VALUE_LENGTH:
            text = f"{text[:MAX_VALUE_LENGTH]}…"
        shown.append((name, text))
    return shown
