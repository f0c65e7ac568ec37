"""`skillrun show`: the story of a run at a glance."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import click

from skillrun.cli import options
from skillrun.cli.printing import Output
from skillrun.cli.words import because, duration, money, shown, spent, table

HEADER: Final = ("phase", "outcome", "round", "duration", "calls", "tokens in", "tokens out", "price")
LONGEST: Final = 100  # characters of a value that is shown


@click.command(help="Show RUN at a glance: phases, flags, features, warnings, what it used, what changed by hand.")
@click.argument("run")
@options.runs_folder
@options.as_json
def show(run: str, runs: Path, json: bool) -> int:
    from skillrun.cli.loading import open_library
    from skillrun.cli.story import story

    out = Output(json)
    told = story(options.located(run, runs), open_library())
    out.data(told)
    for line in _lines(told) if not json else ():
        out.line(line)
    return 0


def _lines(told: Mapping[str, Any]) -> list[str]:
    phases = told["phases"]
    parts = {
        "inputs": [f"{name}: {shown(value)}" for name, value in told["inputs"].items()],
        "state": [f"{name}: {shown(value)}" for name, value in told["state"].items() if value not in ([], {}, None)],
        "models": [f"{tier} = {model}" for tier, model in told["models"].items()],
        "": table(HEADER, [_row(one) for one in phases], right=range(2, len(HEADER))),
        "outputs": [f"{_at(one)}: {text}" for one in phases for text in _short(one["outputs"])],
        "flags": [f"{_at(one)}: {text}" for one in phases for text in _short(one["flags"])],
        "features": [f"{one['name']}: {'on' if one['on'] else 'off, ' + one['because']}" for one in told["features"]],
        "warnings": [f"{_at(one)}: {one['text']}" for one in told["warnings"]],
        "degraded": [f"{_at(one)}: {one['text']}" for one in told["degraded"]],
        "changed by hand": told.get("changed_by_hand"),
        "sent, answer unknown": told.get("unanswered"),
    }
    lines = [f"{told['run']} · {told['workflow']} · {told['status']}{because(told['reason'])}"]
    lines += [f"round {told['round']}, started {told['started_at']}, in {told['folder']}"]
    for title, found in parts.items():
        if found:
            lines += ["", f"{title}:", *(f"  {line}" for line in found)] if title else ["", *found]
    return [*lines, "", f"journal: {told['journal']}" if "journal" in told else spent(told["usage"])]


def _row(one: Mapping[str, Any]) -> list[str]:
    usage = one["usage"]
    flow = ["", "", "", ""]
    if usage.get("calls"):
        flow = [*(f"{usage[key]:,}" for key in ("calls", "input", "output")), money(usage["price"])]
    return [one["phase"], one["status"], str(one["round"]), duration(one["seconds"]) if one["seconds"] else "", *flow]


def _at(one: Mapping[str, Any]) -> str:
    return one["phase"] if one["round"] == 1 else f"{one['phase']} (round {one['round']})"


def _short(values: Mapping[str, Any]) -> list[str]:
    """The values that can be read at a glance."""
    texts = {name: shown(value) for name, value in values.items() if value not in ("", [], {}, None)}
    return [f"{name} = {text}" for name, text in texts.items() if len(text) <= LONGEST and "\n" not in text]
