"""`skillrun show`: the story of a run at a glance."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from skillrun.cli import options
from skillrun.cli.figures import duration, money, spent, table
from skillrun.cli.lines import because
from skillrun.cli.printing import Output

LONGEST = 100  # characters of a value that is shown


@click.command(help="Show RUN at a glance: phases, flags, features, warnings, what it used, what changed by hand.")
@click.argument("run")
@options.runs_folder
@options.as_json
def show(run: str, runs: Path, json: bool) -> int:
    from skillrun.cli.loading import open_library
    from skillrun.cli.story import story
    from skillrun.runtime.session import existing

    out = Output(json)
    told = story(existing(*options.located(run, runs)), open_library())
    out.data(told)
    for line in _lines(told) if not json else ():
        out.line(line)
    return 0


def _lines(told: Mapping[str, Any]) -> list[str]:
    head = f"{told['run']} · {told['workflow']} · {told['status']}{because(told['reason'])}"
    lines = [head, f"round {told['round']}, started {told['started_at']}, in {told['folder']}"]
    lines += _listed("inputs", [f"{name}: {value}" for name, value in told["inputs"].items()])
    lines += _listed(
        "state", [f"{name}: {value}" for name, value in told["state"].items() if value not in ([], {}, None)]
    )
    lines += _listed("models", [f"{tier} = {model}" for tier, model in told["models"].items()])
    lines += ["", *_phases(told["phases"])]
    lines += _listed("outputs", [f"{_at(one)}: {text}" for one in told["phases"] for text in _short(one["outputs"])])
    lines += _listed("flags", [f"{_at(one)}: {text}" for one in told["phases"] for text in _short(one["flags"])])
    lines += _listed("features", [_feature(feature) for feature in told["features"]])
    lines += _listed("warnings", [f"{_at(one)}: {one['text']}" for one in told["warnings"]])
    lines += _listed("degraded", [f"{_at(one)}: {one['text']}" for one in told["degraded"]])
    lines += _listed("changed by hand", told.get("changed_by_hand", []))
    lines += _listed("sent, answer unknown", told.get("unanswered", []))
    if "journal" in told:
        return [*lines, "", f"journal: {told['journal']}"]
    return [*lines, "", spent(told["usage"])]


def _phases(phases: list[Mapping[str, Any]]) -> list[str]:
    rows = []
    for one in phases:
        usage = one["usage"]
        calls = int(usage.get("calls", 0))
        flow = (f"{usage['input']:,}", f"{usage['output']:,}", money(usage["price"])) if calls else ("", "", "")
        took = duration(one["seconds"]) if one["seconds"] else ""
        rows.append([one["phase"], one["status"], str(one["round"]), took, str(calls or ""), *flow])
    header = ["phase", "outcome", "round", "duration", "calls", "tokens in", "tokens out", "price"]
    return table(header, rows, right=(2, 3, 4, 5, 6, 7))


def _listed(title: str, lines: list[str]) -> list[str]:
    return ["", f"{title}:", *(f"  {line}" for line in lines)] if lines else []


def _at(one: Mapping[str, Any]) -> str:
    return one["phase"] if one["round"] == 1 else f"{one['phase']} (round {one['round']})"


def _short(values: Mapping[str, Any]) -> list[str]:
    """The values that can be read at a glance."""
    found = []
    for name, value in values.items():
        text = str(value).lower() if isinstance(value, bool) else str(value)
        if isinstance(value, bool | int | float | str) and 0 < len(text) <= LONGEST and "\n" not in text:
            found.append(f"{name} = {text}")
    return found


def _feature(feature: Mapping[str, Any]) -> str:
    return f"{feature['name']}: {'on' if feature['on'] else 'off, ' + feature['because']}"
