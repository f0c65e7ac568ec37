"""What a shell may offer for an argument: workflows, runs, phases, cases; each as click's `shell_complete` wants it.

Reads names alone; whether a name may be written into a command line is for `completion.py` to say.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem

from skillrun.cli.project_folder import project_here
from skillrun.cli.registry import COMMANDS
from skillrun.store.local.run_list import newest_first

Items = list[CompletionItem[str]]
Completer = Callable[[click.Context, click.Parameter, str], Items]


def starting_with(incomplete: str, values: Iterable[Any]) -> Items:
    """The values that go on where the text ends."""
    return [CompletionItem(str(value)) for value in values if str(value).startswith(incomplete)]


def workflows(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> Items:
    """The workflows on the search path, with their descriptions."""
    from skillrun.cli.listing import files_in

    listed = (item for item in files_in(project_here(), "workflows") if item.name not in COMMANDS)
    return [CompletionItem(item.name, help=item.description) for item in listed if item.name.startswith(incomplete)]


def runs(context: click.Context, _parameter: click.Parameter, incomplete: str) -> Items:
    """The runs in the folder that `--out` names, the one that was changed last first."""
    return starting_with(incomplete, newest_first(_runs_folder(context)))


def workflows_or_phases(context: click.Context, parameter: click.Parameter, incomplete: str) -> Items:
    """The workflows; with `--run` the phases of that run, which take their place."""
    complete = phases_of_run if context.params.get("run") else workflows
    return complete(context, parameter, incomplete)


def phases_of_run(context: click.Context, _parameter: click.Parameter, incomplete: str) -> Items:
    """The phases of the workflow of the run that is named."""
    from skillrun.cli.options import stored_run

    state = stored_run(context.params["run"], _runs_folder(context)).state()
    return phases_of(state.workflow, incomplete)


def phases(context: click.Context, _parameter: click.Parameter, incomplete: str) -> Items:
    """The phases of the workflow that stands before them."""
    return [] if context.params.get("run") else phases_of(context.params["workflow"], incomplete)


def phases_of(workflow: str, incomplete: str) -> Items:
    """Those of one workflow, in its order."""
    from skillrun.cli.loading import open_library

    definition = open_library().workflow(workflow)
    return starting_with(incomplete, definition.phases) if definition is not None else []


def shipped(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> Items:
    """The shipped files that a project can have a copy of."""
    from skillrun.library.roots import shipped_files

    return starting_with(incomplete, (path for path in shipped_files() if not path.startswith("config/")))


def files(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> Items:
    """The shell's own completion of files."""
    return [CompletionItem(incomplete, type="file")]


class FirstArgument(click.Command):
    """Stands for a command whose first argument is completed, and loads it for its flags alone."""

    def __init__(self, name: str, names: str, load: Callable[[], click.Command | None]) -> None:
        argument = click.Argument([names], shell_complete={"runs": runs, "workflows": workflows}[names])
        super().__init__(name, params=[argument])
        self._load = load

    def shell_complete(self, ctx: click.Context, incomplete: str) -> Items:
        command = self._load()
        if command is None:
            return []
        context = command.make_context(str(self.name), [], parent=ctx.parent, resilient_parsing=True)
        return command.shell_complete(context, incomplete)


def _runs_folder(context: click.Context) -> Path:
    """What `--out` says, as the commands take it."""
    name = next((str(option.name) for option in context.command.params if "--out" in option.opts), "")
    given = context.params.get(name)
    return given if isinstance(given, Path) else project_here() / "runs"
