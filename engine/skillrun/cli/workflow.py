"""A workflow as a command: its help and flags come from the markdown; checked, then rehearsed or run."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from skillrun.cli import options
from skillrun.cli.printing import Output
from skillrun.language.printable import printable

if TYPE_CHECKING:
    from skillrun.cli.loading import Loaded, Script
    from skillrun.language.definitions import Workflow
    from skillrun.language.fields import Field
    from skillrun.language.library import Library
    from skillrun.models.messages import Gateway

GIVEN = "input_"


@dataclass(frozen=True)
class Options:
    """What every workflow's command takes beside its inputs."""

    dry_run: bool
    unattended: bool
    answers: Path | None
    budget: Mapping[str, float]
    slug: str
    runs: Path
    model: str
    script: Path | None
    json: bool


class WorkflowCommand(click.Command):
    """A command whose help is an author's text."""

    def get_help(self, ctx: click.Context) -> str:
        return printable(super().get_help(ctx))


def workflow_command(name: str) -> click.Command:
    """The command of a workflow; ends with the problems of its file when it cannot be read."""
    from skillrun.cli.loading import open_library, refuse

    library = open_library()
    workflow = library.workflow(name)
    if workflow is None:
        refuse(library.problems, Output())
        raise click.exceptions.Exit(1)
    shared: list[Callable[[Callable[..., Any]], Callable[..., Any]]] = [
        click.option("--dry-run", is_flag=True, help="Walk it through on the scripted model: calls, tokens, price."),
        options.unattended,
        options.answers,
        options.budget,
        click.option(
            "--name", "slug", default="", metavar="SLUG", help="The run's name; made from the request without it."
        ),
        options.runs_folder,
        click.option("--model", default="", metavar="NAME", envvar="SKILLRUN_MODEL", help="One model for everything."),
        options.script,
        options.as_json,
    ]
    callback: Callable[..., Any] = _callback(library, name)
    for decorator in reversed(shared):
        callback = decorator(callback)
    own = _parameters(workflow, _renderer(library, workflow))
    common: list[click.Parameter] = list(reversed(callback.__click_params__))  # type: ignore[attr-defined]
    return WorkflowCommand(name, params=_renamed(own, common) + common, callback=callback, help=_help(workflow))


def _callback(library: Library, name: str) -> Callable[..., int]:
    def run(**values: Any) -> int:
        given = {key.removeprefix(GIVEN): value for key, value in values.items() if key.startswith(GIVEN)}
        rest = {key: value for key, value in values.items() if not key.startswith(GIVEN)}
        return start(library, name, given, Options(**rest))

    return run


@dataclass(frozen=True)
class Ready:
    """A checked workflow with checked inputs, and the model that the command line chose."""

    loaded: Loaded
    inputs: dict[str, Any]
    model: str
    script: Script

    def gateway(self, progress: Callable[[str], None]) -> Gateway:
        return self.loaded.gateway(self.script, progress)


def prepared(library: Library, name: str, given: Mapping[str, Any], chosen: Options, out: Output) -> Ready:
    """Check the workflow and its inputs; ends the command with every problem."""
    from skillrun.cli.loading import load, read_script
    from skillrun.runtime.session import checked_inputs

    loaded = load(name, out, library)
    typed = {field.name: _value(given[_key(field)]) for field in loaded.program.workflow.inputs}
    inputs, warnings = checked_inputs(loaded.program, {key: value for key, value in typed.items() if value is not None})
    for warning in warnings:
        out.note(f"warning: {warning}")
    script = read_script(chosen.script, out) if chosen.script else None
    model = chosen.model or ("scripted:default" if script is not None else "")
    if model:
        loaded.catalogue.resolve(model, os.environ)
    return Ready(loaded, inputs, model, script)


def start(library: Library, name: str, given: Mapping[str, Any], chosen: Options) -> int:
    """Check, then rehearse or run; the exit code."""
    out = Output(chosen.json)
    ready = prepared(library, name, given, chosen, out)
    if chosen.dry_run:
        from skillrun.cli.rehearsal import rehearsed, report

        return report(asyncio.run(rehearsed(ready.loaded, ready.inputs, ready.model, ready.script or ())), out)
    from skillrun.cli.running import run_new

    return run_new(ready, chosen, out)


def _value(given: Any) -> Any:
    """What was typed; a list that was given in one piece is split by its type."""
    if isinstance(given, tuple):
        return None if not given else given[0] if len(given) == 1 else list(given)
    return given


def _key(field: Field) -> str:
    return field.name.replace("-", "_")


def _renderer(library: Library, workflow: Workflow) -> Callable[[Any], Any]:
    """Renders what allowed values and defaults say in the help; what cannot be rendered is shown as it is written."""
    from skillrun.language.diagnostics import SkillrunError
    from skillrun.runtime.given import renderer

    config = library.config(workflow.config) if workflow.config else None
    render = renderer({"config": config.data if config else {}, "inputs": {}})

    def shown(text: Any) -> Any:
        try:
            return render(text)
        except SkillrunError:
            return text.value

    return shown


def _parameters(workflow: Workflow, render: Callable[[Any], Any]) -> list[click.Parameter]:
    """The first required input is the positional argument; the others are flags."""
    first = next((field for field in workflow.inputs if field.required), None)
    made: list[click.Parameter] = []
    for field in workflow.inputs:
        name = GIVEN + _key(field)
        if field is first:
            made.append(
                click.Argument([name], required=False, metavar=field.name.upper(), nargs=-1 if field.array else 1)
            )
            continue
        flag = "--" + field.name.replace("_", "-")
        words = _words(field, render)
        if field.type == "boolean" and not field.array:
            made.append(click.Option([f"{flag}/--no-{flag[2:]}", name], default=None, help=words))
        else:
            made.append(click.Option([flag, name], help=words, metavar=_metavar(field, render), multiple=field.array))
    return made


def _renamed(own: list[click.Parameter], common: list[click.Parameter]) -> list[click.Parameter]:
    """An input that is called like one of the common flags gets the flag `--input-<name>`."""
    taken = {flag for parameter in common for flag in parameter.opts} | {"--help"}
    for parameter in own:
        if isinstance(parameter, click.Option):
            parameter.opts = [f"--input-{flag[2:]}" if flag in taken else flag for flag in parameter.opts]
    return own


def _choices(field: Field, render: Callable[[Any], Any]) -> list[str] | None:
    from skillrun.language.picoschema import Type

    if field.type != "enum":
        return None
    choices = Type("enum", values=field.values).choices(render)
    return None if choices is None else [str(choice) for choice in choices]


def _metavar(field: Field, render: Callable[[Any], Any]) -> str:
    choices = _choices(field, render)
    if choices is not None and sum(map(len, choices)) <= 60:
        return f"[{'|'.join(choices)}]"
    if field.lower is not None:
        return f"{field.lower:g}..{field.upper:g}"
    return "JSON" if field.shape is not None else field.type.upper()


def _words(field: Field, render: Callable[[Any], Any]) -> str:
    """The description, what is allowed where the metavar does not say it, and the default."""
    from skillrun.language.diagnostics import allowed
    from skillrun.runtime.given import rendered_node

    words = [field.description[:1].upper() + field.description[1:]] if field.description else []
    choices = _choices(field, render)
    if choices is not None and sum(map(len, choices)) > 60:
        words.append(allowed(choices))
    if field.array:
        words.append("may be given several times")
    default = rendered_node(field.default, render) if field.default is not None else []
    notes = (
        [f"default: {', '.join(map(str, default)) if isinstance(default, list) else default}"]
        if default not in ([], "")
        else []
    )
    notes += ["required"] if field.required else []
    return "; ".join(words) + (f"  [{', '.join(notes)}]" if notes else "")


def _help(workflow: Workflow) -> str:
    """The description and the help text of the file, its paragraphs kept; and what the positional argument is."""
    first = next((field for field in workflow.inputs if field.required), None)
    parts = [workflow.description, *workflow.help.split("\n\n")]
    if first is not None:
        kind = "" if first.type == "string" else f" ({first.type})"
        parts.insert(1, f"{first.name.upper()}: {first.description}{kind}")
    return "\n\n".join(_paragraph(part) for part in parts if part.strip())


def _paragraph(text: str) -> str:
    """click fills prose to the terminal's width; lists and indented text keep their lines."""
    listed = any(line.lstrip().startswith(("- ", "* ", "1.", "|", "```")) for line in text.splitlines())
    return "\b\n" + text if listed else text.replace("**", "").replace("`", "")
