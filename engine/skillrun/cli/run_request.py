"""What a workflow's command was asked to do: checked inputs, and what its options chose."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from skillrun.cli.answer_options import Presence
from skillrun.cli.loading import Loaded, Script, load, load_script
from skillrun.cli.options import GIVEN, parameter_name, paths_in_project
from skillrun.cli.output import Output
from skillrun.cli.project_folder import project_here
from skillrun.cli.trust import trusted
from skillrun.library.input_names import models_in
from skillrun.runtime.inputs import checked_inputs
from skillrun.syntax.diagnostics import UsageError
from skillrun.syntax.source import MAX_BYTES
from skillrun.types.fields import Field


@dataclass(frozen=True)
class Job:
    """A checked workflow with checked inputs, and what the command line chose."""

    loaded: Loaded
    inputs: dict[str, Any]
    typed: frozenset[str]
    presence: Presence
    dry_run: bool
    budget: Mapping[str, float]
    slug: str
    runs: Path
    model: str
    script: Script | None
    share: bool
    trust_project: bool
    json: bool


def prepare(
    name: str,
    values: Mapping[str, Any],
    out: Output,
    loaded: Loaded | None = None,
    *,
    elsewhere: Mapping[str, str] = MappingProxyType({}),
) -> Job:
    """Check the workflow, where that was not done, and what was typed; ends the command with every problem.

    `elsewhere` are inputs that were typed and are paths on other machines, as they are there.
    """
    loaded = loaded or load(name, out)
    chosen = {key: value for key, value in values.items() if not key.startswith(GIVEN) and key != "quiet"}
    typed = {
        field.name: _given(field, _value(values[parameter_name(field)]), out)
        for field in loaded.program.workflow.inputs
    }
    typed = {name: value for name, value in typed.items() if value is not None}
    typed = {**paths_in_project(loaded.program.workflow, typed), **elsewhere}
    everything = _one_model(loaded.program.workflow.inputs, chosen["model"]) | typed
    inputs, warnings = checked_inputs(loaded.program, everything, project_here(), elsewhere)
    if (project := project_here()) != Path.cwd():
        out.note(f"project: {project}")
    for warning in warnings:
        out.note(f"warning: {warning}")
    chosen["script"] = load_script(chosen["script"], out)
    if chosen["script"] is not None:
        chosen["model"] = chosen["model"] or "scripted:default"
    presence = Presence(**{field.name: chosen.pop(field.name) for field in fields(Presence)})
    job = Job(loaded, inputs, frozenset(typed), presence, **chosen)
    spends = job.script is None and not job.dry_run
    loaded.check_models(job.model, inputs, keys=spends)
    if spends:
        wanted = models_in(loaded.program.library, loaded.program.workflow, inputs)
        used = loaded.resolved(job.model, more=wanted)
        sure = trusted(loaded, used, out, unattended=presence.unattended, given=job.trust_project)
        job = replace(job, loaded=sure)
    return job


def _one_model(inputs: Iterable[Field], model: str) -> dict[str, Any]:
    """With one model for everything: it alone for each input that takes models."""
    models = (field for field in inputs if model and field.item.word == "model")
    return {field.name: [model] if field.array else model for field in models}


def _given(field: Field, value: Any, out: Output) -> Any:
    """What was typed for an input; `-` is what standard input holds where a text belongs."""
    if value != "-" or field.type.word not in ("string", "path"):
        return value
    if field.type.word == "path":
        hint = "write it to a file first, and type that file's path; `./-` is a file of that name"
        raise UsageError(f"`{field.name}` takes a path, and `-` is standard input", hint)
    stdin = sys.stdin.buffer if sys.stdin is not None else io.BytesIO()
    if stdin.isatty():
        out.note(f"reading `{field.name}` from the terminal; Ctrl-D on a line of its own ends it")
    content = stdin.read(MAX_BYTES + 1)
    if len(content) > MAX_BYTES:
        raise UsageError(f"standard input has more than {MAX_BYTES:,} bytes", "put it into a file of the project")
    return content.decode("utf-8", "surrogateescape")


def _value(given: Any) -> Any:
    """What was typed; a list that was given in one piece is split by its type."""
    if isinstance(given, tuple):
        return None if not given else given[0] if len(given) == 1 else list(given)
    return given
