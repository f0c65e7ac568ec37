"""A workflow as a command: its help and flags come from the markdown; checked, then rehearsed or run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
from click.core import ParameterSource

from skillrun.cli import options
from skillrun.cli.printing import Output
from skillrun.language.text.diagnostics import printable

if TYPE_CHECKING:
    from skillrun.cli.loading import Loaded
    from skillrun.language.files.definitions import Workflow
    from skillrun.language.types.fields import Field
    from skillrun.models.scripted import Rule
    from skillrun.people.prepared import Prepared

GIVEN: Final = "input_"
RESUMED: Final = "resumed"  # the run to go on with
NEW_ONLY: Final = ("dry_run", "slug", "model")  # of the options
Names = Mapping[str, Any]


@dataclass(frozen=True)
class Job:
    """A checked workflow with checked inputs, and what the command line chose."""

    loaded: Loaded
    inputs: dict[str, Any]
    typed: frozenset[str]
    dry_run: bool
    unattended: bool
    interactive: bool
    answers: Path | None
    budget: Mapping[str, float]
    slug: str
    runs: Path
    model: str
    script: Sequence[Rule] | None
    share: bool
    trust_project: bool
    json: bool

    def prepared(self) -> Prepared:
        """The prepared answers, none of them taken yet. Raises SkillrunError when they cannot be read."""
        from skillrun.people.prepared import Prepared, read_answers

        return read_answers(self.answers) if self.answers else Prepared()


class WorkflowCommand(click.Command):
    """A command whose help is an author's text."""

    def get_help(self, ctx: click.Context) -> str:
        return printable(super().get_help(ctx))


def workflow_command(name: str) -> click.Command:
    """The command of a workflow; ends with the problems of its file when it cannot be read."""
    from skillrun.cli.loading import look_for, open_library, refuse

    library = open_library()
    look_for(name, library)
    workflow = library.workflow(name)
    if workflow is None:
        refuse(library.problems, Output())
        raise click.exceptions.Exit(1)

    @click.command(name, cls=WorkflowCommand, help=_help(workflow))
    @click.option("--dry-run", is_flag=True, help="Walk it through on the scripted model: calls, tokens, price.")
    @click.option("--resume", RESUMED, metavar="RUN", help="Go on with a run instead of beginning one.")
    @options.unattended
    @options.interactive
    @options.answers
    @options.budget
    @click.option(
        "--name", "slug", default="", metavar="SLUG", help="The run's name; made from the request without it."
    )
    @options.runs_folder
    @options.model
    @options.script
    @options.share
    @options.trust_project
    @options.as_json
    def command(resumed: str | None, **values: Any) -> int:
        return _start(name, values) if resumed is None else _go_on(name, resumed, values)

    config = library.config(workflow.config) if workflow.config else None
    names = {"config": config.data if config else {}, "inputs": {}}
    taken = {flag for parameter in command.params for flag in parameter.opts} | {"--help"}
    command.params = [_parameter(field, field is first_input(workflow), taken, names) for field in workflow.inputs] + [
        *command.params
    ]
    return command


def prepare(name: str, values: Mapping[str, Any], out: Output) -> Job:
    """Check the workflow and what was typed; ends the command with every problem."""
    from skillrun.cli.loading import load, read_script
    from skillrun.language.library.named import models_in
    from skillrun.runtime.session import checked_inputs

    loaded = load(name, out)
    chosen = {key: value for key, value in values.items() if not key.startswith(GIVEN)}
    typed = {field.name: _given(field, _value(values[_key(field)]), out) for field in loaded.program.workflow.inputs}
    typed = {name: value for name, value in typed.items() if value is not None}
    everything = _one_model(loaded.program.workflow.inputs, chosen["model"]) | typed
    inputs, warnings = checked_inputs(loaded.program, everything)
    for warning in warnings:
        out.note(f"warning: {warning}")
    chosen["script"] = read_script(chosen["script"], out)
    if chosen["script"] is not None:
        chosen["model"] = chosen["model"] or "scripted:default"
    job = Job(loaded, inputs, frozenset(typed), **chosen)
    spends = job.script is None and not job.dry_run
    loaded.check_models(job.model, inputs, keys=spends)
    if spends:
        wanted = models_in(loaded.program.library, loaded.program.workflow, inputs)
        sure = loaded.trusted(out, job.model, unattended=job.unattended, given=job.trust_project, more=wanted)
        job = replace(job, loaded=sure)
    return job


def _one_model(fields: Iterable[Field], model: str) -> dict[str, Any]:
    """With one model for everything: it alone for each input that takes models."""
    models = (field for field in fields if model and field.item.word == "model")
    return {field.name: [model] if field.array else model for field in models}


def _start(name: str, values: Mapping[str, Any]) -> int:
    out = Output(values["json"])
    job = prepare(name, values, out)
    if job.dry_run:
        import asyncio

        from skillrun.cli.rehearsal import StandIn, rehearsed, report

        person, script = StandIn(prepared=job.prepared()), job.script or ()
        straight = not script
        work = rehearsed(job.loaded, job.inputs, job.model, script, job.typed, person, straight=straight, runs=job.runs)
        return report(asyncio.run(work), out)
    from skillrun.cli.running import run_new

    return run_new(job, out)


def _go_on(name: str, run: str, values: Mapping[str, Any]) -> int:
    """As `skillrun resume RUN`, with a run of this workflow. Raises UsageError for what only a new run takes."""
    from skillrun.cli.resume import go_on
    from skillrun.language.text.diagnostics import UsageError

    source = click.get_current_context().get_parameter_source
    new = (key for key in values if key.startswith(GIVEN) or key in NEW_ONLY)
    typed = [key.removeprefix(GIVEN).replace("_", "-") for key in new if source(key) is ParameterSource.COMMANDLINE]
    if typed:
        hint = f"leave `{typed[0]}` out, or leave `--resume` out and begin a run"
        raise UsageError(f"`{run}` is a run that was begun, and `{typed[0]}` is for a new one", hint)
    more = {key: values[key] for key in ("unattended", "interactive", "answers", "budget", "share", "trust_project")}
    return go_on(run, values["runs"], values["script"], Output(values["json"]), workflow=name, adopt=None, **more)


def _given(field: Field, value: Any, out: Output) -> Any:
    """What was typed for an input; `-` is what standard input holds where a text belongs."""
    if value != "-" or field.type.word not in ("string", "path"):
        return value
    import io
    import sys

    from skillrun.language.text.diagnostics import UsageError
    from skillrun.language.text.source import MAX_BYTES

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


def _key(field: Field) -> str:
    return GIVEN + field.name.replace("-", "_")


def first_input(workflow: Workflow) -> Field | None:
    """The first required input is the positional argument; the others are flags."""
    return next((field for field in workflow.inputs if field.required), None)


def _parameter(field: Field, positional: bool, taken: set[str], names: Names) -> click.Parameter:
    """The argument or flag of an input; one that is called like a common flag is `--input-<name>`."""
    if positional:
        return click.Argument([_key(field)], required=False, metavar=field.name.upper(), nargs=-1 if field.array else 1)
    name = field.name.replace("_", "-")
    name = f"input-{name}" if f"--{name}" in taken else name
    words = _words(field, names)
    if field.type.word == "boolean":
        return click.Option([f"--{name}/--no-{name}", _key(field)], default=None, help=words)
    return click.Option([f"--{name}", _key(field)], help=words, metavar=_metavar(field, names), multiple=field.array)


def _metavar(field: Field, names: Names) -> str:
    from skillrun.language.text.diagnostics import SkillrunError
    from skillrun.language.types.converting import values_of

    if field.item.word == "enum":
        try:
            return f"[{'|'.join(map(str, values_of(field.item, names) or ()))}]"
        except SkillrunError:  # its template reads what only a run knows
            return "ENUM"
    if (bounds := field.item.bounds) is not None:
        return f"{bounds[0]:g}..{bounds[1]:g}"
    return "JSON" if field.item.kind == "record" else field.item.word.upper()


def _words(field: Field, names: Names) -> str:
    """The description, and the default or that it has to be given."""
    from skillrun.cli.words import yaml_line
    from skillrun.language.text.diagnostics import SkillrunError

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
    first = first_input(workflow)
    if first is not None:
        kind = "" if first.item.word == "string" else f" ({first.item.word})"
        parts.insert(1, f"{first.name.upper()}: {first.description}{kind}")
    return "\n\n".join(_paragraph(part) for part in parts if part.strip())


def _paragraph(text: str) -> str:
    """click fills prose to the terminal's width; lists keep their lines."""
    listed = any(line.lstrip().startswith(("- ", "* ", "1.", "|", "```")) for line in text.splitlines())
    return "\b\n" + text if listed else text.replace("**", "").replace("`", "")
