"""Builds a run request from the command line: the checked workflow and inputs, and the options."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from skillrun.cli.loading import LoadedWorkflow, Script, load, load_script
from skillrun.cli.options import INPUT_PREFIX, current_project, parameter_name, resolve_path_inputs
from skillrun.cli.output import Output
from skillrun.cli.trust import require_trust
from skillrun.library.lookups import referenced_models
from skillrun.questions.prepared_answers import PreparedAnswers, read_answers
from skillrun.runtime.inputs import validate_inputs
from skillrun.store.seal import GivenInputs
from skillrun.syntax.diagnostics import UsageError
from skillrun.syntax.reading import decode_by_mark, is_binary
from skillrun.syntax.source import MAX_BYTES
from skillrun.types.fields import Field


@dataclass(frozen=True)
class AnswerOptions:
    """The values of `--unattended`, `--interactive` and `--answers`."""

    unattended: bool
    interactive: bool
    answers: Path | None

    def load_prepared_answers(self) -> PreparedAnswers:
        """Return the prepared answers, all unused. Raises SkillrunError if they cannot be read."""
        return read_answers(self.answers) if self.answers else PreparedAnswers()


@dataclass(frozen=True)
class RunRequest:
    """A checked workflow with checked inputs and options."""

    loaded: LoadedWorkflow
    inputs: dict[str, Any]
    given_inputs: GivenInputs
    answer_options: AnswerOptions
    dry_run: bool
    budget: Mapping[str, float]
    slug: str
    runs: Path
    model: str
    script: Script | None
    share: bool
    trust_project: bool
    json: bool


def build_run_request(
    name: str,
    values: Mapping[str, Any],
    out: Output,
    loaded: LoadedWorkflow | None = None,
    *,
    remote_paths: Mapping[str, str] = MappingProxyType({}),
) -> RunRequest:
    """Return the request for a run of the workflow `name`. Print all problems, and exit if any is an error.

    The workflow is checked unless it is given as `loaded`; its inputs and the options are always checked.
    `remote_paths` has the inputs whose values are paths on other machines.
    """
    loaded = loaded or load(name, out)
    program = loaded.program
    options = {key: value for key, value in values.items() if not key.startswith((INPUT_PREFIX, "quiet", "out"))}
    model, typed, all_inputs = options["model"], {}, {}
    for field in program.workflow.inputs:
        if model and field.item.word == "model":
            all_inputs[field.name] = [model] if field.is_list else model
        if (value := _read_input(field, values[parameter_name(field)], out)) is not None:
            typed[field.name] = value
    typed = {**resolve_path_inputs(program.workflow, typed), **remote_paths}
    inputs, warnings = validate_inputs(program, all_inputs | typed, current_project(), remote_paths)
    if (project := current_project()) != Path.cwd():
        out.note(f"project: {project}")
    for warning in warnings:
        out.note(f"warning: {warning}")
    options["script"] = load_script(options["script"], out)
    if options["script"] is not None:
        options["model"] = options["model"] or "scripted:default"
    answer_options = AnswerOptions(*(options.pop(name) for name in ("unattended", "interactive", "answers")))
    request = RunRequest(loaded, inputs, grant_inputs(inputs, typed), answer_options, json=out.json, **options)
    calls_models = request.script is None and not request.dry_run
    loaded.check_models(request.model, inputs, keys=calls_models)
    if calls_models:
        input_models = referenced_models(program.library, program.workflow, inputs, request.model)
        used, granted = loaded.resolve_models(request.model, extra_names=input_models), request.trust_project
        trusted = require_trust(loaded, used, out, unattended=answer_options.unattended, is_granted=granted)
        request = replace(request, loaded=trusted)
    return request


def grant_inputs(inputs: Mapping[str, object], names: Iterable[str]) -> GivenInputs:
    """Return the inputs with these names as given by the user. `names` must come from the arguments of this process:
    from the flags of inputs, or from `--adopt` for a run whose inputs the user was shown."""
    return GivenInputs({name: inputs[name] for name in names if name in inputs})


def _read_input(field: Field, value: Any, out: Output) -> Any:
    """Return the value of an input, or the text from standard input for the string `-`; None if no value is given.

    If the option of a list is used once, return its single value; the list's type splits the value later.
    """
    if isinstance(value, tuple):
        value = None if not value else value[0] if len(value) == 1 else list(value)
    if value != "-" or field.type.word not in ("string", "path"):
        return value
    if field.type.word == "path":
        hint = "write standard input to a file, and use its path; `./-` is a file named `-`"
        raise UsageError(f"`{field.name}` takes a path; it cannot be `-` (standard input)", hint)
    stdin = sys.stdin.buffer if sys.stdin is not None else io.BytesIO()
    if stdin.isatty():
        out.note(f"reading `{field.name}` from the terminal; press Ctrl-D on an empty line to finish")
    content = stdin.read(MAX_BYTES + 1)
    if len(content) > MAX_BYTES:
        raise UsageError(f"standard input has more than {MAX_BYTES:,} bytes", "put the text in a file of the project")
    if is_binary(content):
        raise UsageError("standard input is binary; an input takes text", "convert it to text in UTF-8")
    marked = decode_by_mark(content)
    return content.decode("utf-8", "surrogateescape") if marked is None else marked
