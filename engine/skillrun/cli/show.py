"""`skillrun show`: the story of a run at a glance."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import click

from skillrun.cli import completers, options
from skillrun.cli.call_selection import Place, RunCalls, calls_of, selected
from skillrun.cli.call_view import calls_table, conversation_data, conversation_lines
from skillrun.cli.formatting import (
    counted,
    duration,
    money,
    phase_at,
    spent,
    status_line,
    status_text,
    table,
    yaml_line,
)
from skillrun.cli.output import Output
from skillrun.cli.run_summary import story
from skillrun.cli.times import LEAST, time_line
from skillrun.store.conversations import Conversation
from skillrun.store.stored_run import StoredRun
from skillrun.syntax.diagnostics import UsageError, hanging

PAUSE_FLAGS: Final = frozenset({"pause_type", "block_reason"})
HEADER: Final = ("phase", "outcome", "round", "duration", "calls", "tokens in", "tokens out", "price")
LONGEST: Final = 100  # characters of a value that is shown


HELP: Final = """Summarise RUN: phases, warnings, usage, and files that you edited.

With PHASE, list its calls. With STEP (and MEMBER), show each call: the prompt by parts, tool results and the reply.
STEP is a step's id, or (part of) the address of a call."""


@click.command(help=HELP)
@click.argument("run", shell_complete=completers.runs)
@click.argument("phase", default="", shell_complete=completers.phases_of_run)
@click.argument("step", default="")
@click.argument("member", default="")
@click.option("--full", is_flag=True, help="Print prompts and tool results of calls in full length.")
@options.version
@options.runs_folder
@options.as_json
def show(run: str, phase: str, step: str, member: str, full: bool, version: int | None, runs: Path, json: bool) -> int:
    out = Output(json)
    stored = options.stored_run(run, runs)
    if phase:
        return _show_calls(stored, run, Place(phase, step, member, version or 0), out, full=full)
    if full or version:
        raise UsageError("`--full` and `--version` are for the calls of a phase", f"`skillrun show {run} PHASE`")
    record = story(stored)
    out.data(record)
    for line in _lines(record) if not json else ():
        out.line(line)
    return 0


def _show_calls(run: StoredRun, typed: str, place: Place, out: Output, *, full: bool) -> int:
    """The calls at a place; those of a whole phase in a table, unless there is one alone."""
    calls = calls_of(run)
    for text in calls.notes:
        out.note(f"warning: {text}")
    there = selected(calls, place)
    out.data({"run": calls.name, "is_held": calls.is_held, "calls": [_data(calls, each) for each in there]})
    if out.json:
        return 0
    if len(there) > 1 and not place.step and "/" not in place.phase:
        for line in calls_table(there, is_held=calls.is_held):
            out.line(line)
        out.line()
        out.line(f"a call: `skillrun show {typed} {place.phase} STEP [MEMBER]`")
    else:
        for number, each in enumerate(there):
            if number:
                out.line()
                out.line("─" * 80)
            for line in conversation_lines(each, calls.dropped_of(each), full=full, is_held=calls.is_held):
                out.line(line)
    if not place.version and (earlier := sum(each.versions - 1 for each in there)):
        out.note(f"{counted(earlier, 'earlier prompt')} at the same address: `--version 1` is the first")
    return 0


def _data(calls: RunCalls, conversation: Conversation) -> dict[str, Any]:
    return conversation_data(conversation, calls.dropped_of(conversation))


def _lines(record: Mapping[str, Any]) -> list[str]:
    phases = record["phases"]
    parts = {
        "inputs": [f"{name}: {text}" for name, text in _brief(record["inputs"])],
        "state": [f"{name}: {text}" for name, text in _brief(record["state"])],
        "models": [f"{tier} = {model}" for tier, model in record["models"].items()],
        "": _table(phases),
        "outputs": [f"{phase_at(phase)}: {text}" for phase in phases if (text := _equations(phase["outputs"]))],
        "flags": [f"{phase_at(phase)}: {text}" for phase in phases if (text := _equations(_flags(phase)))],
        "what happened": [f"{phase_at(entry)}: {entry['text']}" for entry in record["happened"]],
        "prompts, the longest of each step, in tokens": [_prompt(prompt) for prompt in record["prompts"]],
        "left out of prompts, for want of room": [
            f"{phase_at(entry)}: {entry['text']}" for entry in record["left_out"]
        ],
        "about the run": record["notices"],
        "features": [
            f"{feature['name']}: {'on' if feature['on'] else 'off, ' + feature['because']}"
            for feature in record["features"]
        ],
        "degraded": [f"{phase_at(entry)}: {entry['text']}" for entry in record["degraded"]],
        "changed by hand": [
            *record.get("changed_by_hand", ()),
            *(f"{name} (removed)" for name in record.get("removed_by_hand", ())),
        ],
        "sent, answer unknown": record.get("unanswered"),
        "not followed": record["not_followed"],
    }
    lines = [f"{record['run']} · {record['workflow']} · {status_line(record['status'], record['reason'])}"]
    lines += [f"round {record['round']}, started {record['started_at']}, in {record['folder']}"]
    for title, rows in parts.items():
        if rows:
            lines += ["", f"{title}:", *(f"  {hanging(line)}" for line in rows)] if title else ["", *rows]
    expected = {key: value for key, value in record["estimate"].items() if key not in ("answers", "each", "phases")}
    if expected:
        lines += ["", f"expected before it began: {_equations(expected)}"]
    times = [time_line(record["time"])] if record["time"]["answers"] >= LEAST else []
    return [*lines, "", *times, f"journal: {record['journal']}" if "journal" in record else spent(record["usage"])]


def _prompt(prompt: Mapping[str, Any]) -> str:
    """A step's longest prompt: its tokens, and those of its parts."""
    parts = ", ".join(f"{part} {tokens:,}" for part, tokens in prompt["parts"].items())
    return f"{phase_at(prompt)}, {prompt['text']}: {sum(prompt['parts'].values()):,} ({parts})"


def _table(phases: list[Mapping[str, Any]]) -> list[str]:
    """The phases with the calls that were paid for, and columns for waiting and replayed calls if there are any."""
    more = {
        "waiting": [duration(phase["waited"]) if phase["waited"] >= LEAST else "" for phase in phases],
        "replayed": [f"{number:,}" if (number := phase["usage"].get("replayed")) else "" for phase in phases],
    }
    shown = {title: cells for title, cells in more.items() if any(cells)}
    rows = [[*_row(phase), *(cells[at] for cells in shown.values())] for at, phase in enumerate(phases)]
    return table((*HEADER, *shown), rows, right=range(2, len(HEADER) + len(shown)))


def _row(phase: Mapping[str, Any]) -> list[str]:
    usage = phase["usage"]
    flow = ["", "", "", ""]
    if usage.get("calls"):
        flow = [*(f"{usage[key]:,}" for key in ("calls", "input", "output")), money(usage["price"])]
    return [
        phase["phase"],
        status_text("back" if phase["back"] else phase["status"]),
        str(phase["round"]),
        duration(phase["seconds"]) if phase["seconds"] else "",
        *flow,
    ]


def _flags(phase: Mapping[str, Any]) -> dict[str, Any]:
    """The flags of a phase without those that repeat what it waits for."""
    return {name: flag for name, flag in phase["flags"].items() if name not in PAUSE_FLAGS}


def _equations(values: Mapping[str, Any]) -> str:
    return "; ".join(f"{name} = {text}" for name, text in _brief(values))


def _brief(values: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The values that are there, each at a glance: how many items a long list has, the short fields of a record."""
    return [(name, _glance(value)) for name, value in values.items() if value not in ("", [], {}, None)]


def _glance(value: Any) -> str:
    text = " ".join(yaml_line(value).split())
    if len(text) <= LONGEST:
        return text
    if isinstance(value, list):
        return counted(len(value), "item")
    if isinstance(value, dict):
        return yaml_line(
            {name: item for name, item in value.items() if item not in ([], {}) and len(yaml_line(item)) < LONGEST // 3}
        )
    return f"{text[:LONGEST]}…"
