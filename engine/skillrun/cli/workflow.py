"""A workflow as a command: its help and flags come from the markdown; checked, then rehearsed or run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import click
from click.core import ParameterSource

from skillrun.cli import completers, options
from skillrun.cli.options import GIVEN, parameter_name
from skillrun.cli.output import Output
from skillrun.syntax.diagnostics import printable

if TYPE_CHECKING:
    from skillrun.definitions.definitions import Workflow
    from skillrun.library.library import Library
    from skillrun.types.fields import Field

RESUMED: Final = "resumed"  # the run to go on with
NEW_ONLY: Final = ("dry_run", "slug", "model")  # of the options
Names = Mapping[str, Any]


class WorkflowCommand(click.Command):
    """A command whose help is an author's text."""

    def get_help(self, ctx: click.Context) -> str:
        return printable(super().get_help(ctx))


def workflow_command(name: str, more: Sequence[click.Option] = ()) -> click.Command:
    """The command of a workflow, with `more` options; ends with the problems of its file when it cannot be read."""
    from skillrun.cli.loading import open_library

    library = open_library()
    workflow = definition(name, library)

    @click.command(name, cls=WorkflowCommand, help=_help(workflow))
    @click.option("--dry-run", is_flag=True, help="Estimate calls, tokens and price without calling a model.")
    @click.option(
        "--resume",
        RESUMED,
        metavar="RUN",
        help="Resume this run instead of starting a new one.",
        shell_complete=completers.runs,
    )
    @options.unattended
    @options.interactive
    @options.answers
    @options.budget
    @click.option(
        "--name", "slug", default="", metavar="SLUG", help="Name of the run. Default: made from the first input."
    )
    @options.runs_folder
    @options.model
    @options.script
    @options.share
    @options.trust_project
    @options.quiet
    @options.as_json
    def command(resumed: str | None, **values: Any) -> int:
        return _start(name, values) if resumed is None else _go_on(name, resumed, values)

    config = library.config(workflow.config) if workflow.config else None
    names = {"config": config.data if config else {}, "inputs": {}}
    command.params += more
    taken = {flag for parameter in command.params for flag in parameter.opts} | {"--help"}
    command.params = [_parameter(field, field is workflow.first_input, taken, names) for field in workflow.inputs] + [
        *command.params
    ]
    return command


def definition(name: str, library: Library) -> Workflow:
    """The workflow as its file says it; ends with the problems of that file when it cannot be read."""
    from skillrun.cli.loading import look_for, problems_here, refuse

    look_for(name, library)
    workflow = library.workflow(name)
    if workflow is None:
        refuse(problems_here(library), Output())
        raise click.exceptions.Exit(1)
    return workflow


def _start(name: str, values: Mapping[str, Any]) -> int:
    from skillrun.cli.run_request import prepare

    out = Output(values["json"], values["quiet"])
    job = prepare(name, values, out)
    if job.dry_run:
        import asyncio

        from skillrun.cli.preview import StandIn, rehearsed, report

        person, rules = StandIn(prepared=job.presence.prepared()), job.script.rules if job.script is not None else ()
        straight = not rules
        work = rehearsed(job.loaded, job.inputs, job.model, rules, job.typed, person, straight=straight, runs=job.runs)
        return report(asyncio.run(work), out)
    from skillrun.cli.execution import run_new

    return run_new(job, out)


def _go_on(name: str, run: str, values: Mapping[str, Any]) -> int:
    """As `skillrun resume RUN`, with a run of this workflow. Raises UsageError for what only a new run takes."""
    from skillrun.cli.resume import go_on, resuming
    from skillrun.syntax.diagnostics import UsageError

    source = click.get_current_context().get_parameter_source
    new = (key for key in values if key.startswith(GIVEN) or key in NEW_ONLY)
    typed = [key.removeprefix(GIVEN).replace("_", "-") for key in new if source(key) is ParameterSource.COMMANDLINE]
    if typed:
        hint = f"leave `{typed[0]}` out, or leave `--resume` out and begin a run"
        raise UsageError(f"`{run}` is a run that was begun, and `{typed[0]}` is for a new one", hint)
    return go_on(resuming(run, {**values, "yes": False, "preview": False, "from_start": False, "adopt": None}), name)


def _parameter(field: Field, positional: bool, taken: set[str], names: Names) -> click.Parameter:
    """The argument or flag of an input; one that is called like a common flag is `--input-<name>`."""
    if positional:
        return click.Argument(
            [parameter_name(field)],
            required=False,
            metavar=field.name.upper(),
            nargs=-1 if field.array else 1,
            shell_complete=_completer(field, names),
        )
    name = field.name.replace("_", "-")
    name = f"input-{name}" if f"--{name}" in taken else name
    words = _words(field, names)
    if field.type.word == "boolean":
        return click.Option([f"--{name}/--no-{name}", parameter_name(field)], default=None, help=words)
    return click.Option(
        [f"--{name}", parameter_name(field)],
        help=words,
        metavar=_metavar(field, names),
        multiple=field.array,
        shell_complete=_completer(field, names),
    )


def _metavar(field: Field, names: Names) -> str:
    if field.item.word == "enum":
        choices = _choices(field, names)
        return f"[{'|'.join(choices)}]" if choices is not None else "ENUM"
    if (bounds := field.item.bounds) is not None:
        return f"{bounds[0]:g}..{bounds[1]:g}"
    return "JSON" if field.item.kind == "record" else field.item.word.upper()


def _choices(field: Field, names: Names) -> list[str] | None:
    """The values of an enum; None where its template reads what only a run knows."""
    from skillrun.syntax.diagnostics import SkillrunError
    from skillrun.types.json_schema import values_of

    try:
        return [str(value) for value in values_of(field.item, names) or ()]
    except SkillrunError:
        return None


def _completer(field: Field, names: Names) -> completers.Completer | None:
    """What a shell offers for the input: the values of an enum, files for a path."""
    if field.item.word == "path":
        return completers.files
    if field.item.word != "enum":
        return None
    return lambda _context, _parameter, incomplete: completers.starting_with(incomplete, _choices(field, names) or ())


def _words(field: Field, names: Names) -> str:
    """The description, and the default or that it has to be given."""
    from skillrun.cli.formatting import yaml_line
    from skillrun.syntax.diagnostics import SkillrunError

    words = [field.description[:1].upper() + field.description[1:]] if field.description else []
    words += ["may be given several times"] if field.array else []
    notes = ["required"] if field.required else []
    try:
        default = field.default.evaluate(names) if field.default is not None else ""
        notes += [f"default: {yaml_line(default)}"] if default not in ([], "") else []
    except SkillrunError:  # its template reads what only a run knows
        notes += ["default: computed"]
    return "; ".join(words) + (f"  [{', '.join(notes)}]" if notes else "")


def _help(workflow: Workflow) -> str:
    """The description and the help text of the file, its paragraphs kept; and what the positional argument is."""
    parts = [workflow.description, *workflow.help.split("\n\n")]
    first = workflow.first_input
    if first is not None:
        kind = "" if first.item.word == "string" else f" ({first.item.word})"
        parts.insert(1, f"{first.name.upper()}: {first.description}{kind}")
    return "\n\n".join(_paragraph(part) for part in parts if part.strip())


def _paragraph(text: str) -> str:
    """click fills prose to the terminal's width; lists keep their lines."""
    listed = any(line.lstrip().startswith(("- ", "* ", "1.", "|", "```")) for line in text.splitlines())
    return "\b\n" + text if listed else text.replace("**", "").replace("`", "")
