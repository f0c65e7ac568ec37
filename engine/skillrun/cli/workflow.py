"""Builds a workflow's command, with options from the workflow's file. The command starts, resumes or previews a run."""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import click
from click.core import ParameterSource

from skillrun.cli import completion, options
from skillrun.cli.options import INPUT_PREFIX, parameter_name
from skillrun.cli.output import Output, make_safe
from skillrun.syntax.diagnostics import SkillrunError, UsageError

if TYPE_CHECKING:
    from skillrun.cli.run_request import RunRequest
    from skillrun.definitions.definitions import Workflow
    from skillrun.library.library import Library
    from skillrun.types.fields import Field

RESUME_PARAMETER: Final = "resumed"  # the run to resume
NEW_RUN_OPTIONS: Final = ("dry_run", "slug", "model")  # options for new runs only
Names = Mapping[str, Any]


class WorkflowCommand(click.Command):
    """A command whose help comes from a workflow file."""

    def get_help(self, ctx: click.Context) -> str:
        return make_safe(super().get_help(ctx))


def workflow_command(name: str, more: Sequence[click.Option] = ()) -> click.Command:
    """Return a workflow's command with the options in `more`. If the file is invalid, print the problems and exit."""
    from skillrun.cli.loading import open_library

    library = open_library()
    workflow = load_definition(name, library)

    @click.command(name, cls=WorkflowCommand, help=_command_help(workflow))
    @click.option("--dry-run", is_flag=True, help="Estimate calls, tokens and price without calling a model.")
    @click.option(
        "--resume",
        RESUME_PARAMETER,
        metavar="RUN",
        help="Resume this run instead of starting a new one.",
        shell_complete=completion.runs,
    )
    @options.unattended
    @options.interactive
    @options.answers
    @options.budget
    @click.option(
        "--name",
        "slug",
        default="",
        metavar="SLUG",
        callback=lambda _context, _parameter, name: unicodedata.normalize("NFC", name),
        help="Name of the run. Default: derived from the first input.",
    )
    @options.runs_folder
    @options.model
    @options.script
    @options.share
    @options.trust_project
    @options.quiet
    @options.as_json
    def command(resumed: str | None, **values: Any) -> int:
        if resumed is not None:
            return _resume_run(name, resumed, values)
        from skillrun.cli.run_request import build_run_request

        out = replace(values["out"], quiet=values["quiet"])
        request = build_run_request(name, values, out)
        if request.dry_run:
            return _estimate(request, out)
        from skillrun.cli.execution import execute

        return execute(request, out)

    config = library.config(workflow.config) if workflow.config else None
    names = {"config": config.data if config else {}, "inputs": {}}
    command.params += more
    taken = {flag for parameter in command.params for flag in parameter.opts} | {"--help"}
    command.params = [
        _build_parameter(field, field is workflow.first_input, taken, names) for field in workflow.inputs
    ] + [*command.params]
    return command


def load_definition(name: str, library: Library) -> Workflow:
    """Return the definition of a workflow. If its file is invalid, print the problems and exit."""
    from skillrun.cli.loading import exit_on_errors, problems_for_display, require_workflow

    require_workflow(name, library)
    workflow = library.workflow(name)
    if workflow is None:
        exit_on_errors(problems_for_display(library), Output())
        raise click.exceptions.Exit(1)
    return workflow


def _estimate(request: RunRequest, out: Output) -> int:
    """Print the estimated calls, tokens and price of a run, and return the exit code."""
    import asyncio

    from skillrun.cli.preview import AutoResponder, estimate_run, preview_run, print_preview
    from skillrun.library.settings import chosen_price_limit, load_budget
    from skillrun.runtime.run_budget import unpriced_warning

    loaded, library = request.loaded, request.loaded.program.library
    responder = AutoResponder(prepared=request.answer_options.load_prepared_answers())
    rules = request.script.rules if request.script is not None else ()
    work = preview_run(
        loaded,
        request.inputs,
        request.model,
        rules,
        request.given_inputs,
        responder,
        skips_jumps=not rules,
        runs=request.runs,
        estimate=lambda state, given: estimate_run(
            loaded, state.inputs, state.override, given, request.answer_options.load_prepared_answers
        ),
    )
    preview = asyncio.run(work)
    limit = chosen_price_limit(library, {**load_budget(library), **request.budget}, request.budget)
    models = {call.model for _, call in preview.requests}
    if limit is not None and (text := unpriced_warning(models, loaded.catalogue, limit)):
        preview.data["warnings"].append(f"warning: {text}")
    return print_preview(preview, out)


def _resume_run(name: str, run: str, values: Mapping[str, Any]) -> int:
    """Resume a run of this workflow. Raises UsageError for options that apply only to new runs."""
    from skillrun.cli.resume import resume_run

    source = click.get_current_context().get_parameter_source
    new = (key for key in values if key.startswith(INPUT_PREFIX) or key in NEW_RUN_OPTIONS)
    rejected = [
        key.removeprefix(INPUT_PREFIX).replace("_", "-") for key in new if source(key) is ParameterSource.COMMANDLINE
    ]
    if rejected:
        hint = f"leave out `{rejected[0]}`, or leave out `--resume` to start a new run"
        raise UsageError(f"`{run}` cannot be resumed with `{rejected[0]}`, which applies only to new runs", hint)
    if os.sep in run:
        message = f"`{run}` is a path, and `--resume` takes the name of a run in the runs folder"
        raise UsageError(message, f"`skillrun runs` lists the names; `skillrun resume {run}` takes a path")
    return resume_run(run, {**values, "yes": False, "preview": False, "from_start": False, "adopt": None}, name)


def _build_parameter(field: Field, positional: bool, taken: set[str], names: Names) -> click.Parameter:
    """Return the argument or option of an input. If the name of the option is taken, it becomes `--input-<name>`."""
    metavar, complete = "JSON" if field.item.kind == "record" else field.item.word.upper(), None
    if field.item.word == "enum":
        choices = _choices(field, names)
        metavar, complete = f"[{'|'.join(choices)}]" if choices else metavar, completion.complete_with(choices)
    elif field.item.word == "path":
        complete = completion.files
    elif (bounds := field.item.bounds) is not None:
        metavar = f"{bounds[0]:g}..{bounds[1]:g}"
    if positional:
        metavar, number = field.name.upper(), -1 if field.is_list else 1
        parameter = [parameter_name(field)]
        return click.Argument(parameter, required=False, metavar=metavar, nargs=number, shell_complete=complete)
    name = field.name.replace("_", "-")
    name = f"input-{name}" if f"--{name}" in taken else name
    help_text = _option_help(field, names)
    if field.type.word == "boolean":
        return click.Option([f"--{name}/--no-{name}", parameter_name(field)], default=None, help=help_text)
    flags = [f"--{name}", parameter_name(field)]
    return click.Option(flags, help=help_text, metavar=metavar, multiple=field.is_list, shell_complete=complete)


def _choices(field: Field, names: Names) -> list[str]:
    """Return the values of an enum, or [] if they depend on a run."""
    from skillrun.types.json_schema import enum_values

    try:
        return [str(value) for value in enum_values(field.item, names) or ()]
    except SkillrunError:
        return []


def _option_help(field: Field, names: Names) -> str:
    """Return the help of an option: the input's description, and its default or `required`."""
    from skillrun.cli.formatting import yaml_line

    words = [field.description[:1].upper() + field.description[1:]] if field.description else []
    words += ["can be repeated"] if field.is_list else []
    notes = ["required"] if field.required else []
    try:
        default = field.default.evaluate(names) if field.default is not None else ""
        notes += [f"default: {yaml_line(default)}"] if default not in ([], "") else []
    except SkillrunError:  # it depends on a run
        notes += ["default: computed"]
    return "; ".join(words) + (f"  [{', '.join(notes)}]" if notes else "")


def _command_help(workflow: Workflow) -> str:
    """Return the command's help: the description, the positional argument, and the help text of the workflow file."""
    parts = [workflow.description, *workflow.help.split("\n\n")]
    first = workflow.first_input
    if first is not None:
        kind = "" if first.item.word == "string" else f" ({first.item.word})"
        parts.insert(1, f"{first.name.upper()}: {first.description}{kind}")
    paragraphs = []
    for part in filter(str.strip, parts):  # click wraps text to the terminal's width; the lines of a list are kept
        is_list = any(line.lstrip().startswith(("- ", "* ", "1.", "|", "```")) for line in part.splitlines())
        paragraphs.append("\b\n" + part if is_list else part.replace("**", "").replace("`", ""))
    return "\n\n".join(paragraphs)
