"""What a shell may offer for an argument: workflows, runs, phases, cases; each as click's `shell_complete` wants it.

Reads names alone; whether a name may be written into a command line is for `completion.py` to say.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem

from skillrun.cli.project_folder import current_project
from skillrun.cli.registry import COMMANDS
from skillrun.store.local.run_list import newest_first

Items = list[CompletionItem[str]]
Completer = Callable[[click.Context, click.Parameter, str], Items]


def items_with_prefix(incomplete: str, values: Iterable[Any]) -> Items:
    """The values that go on where the text ends."""
    return [CompletionItem(str(value)) for value in values if str(value).startswith(incomplete)]


def workflows(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> Items:
    """The workflows on the search path, with their descriptions."""
    from skillrun.cli.listing import list_files

    listed = (item for item in list_files(current_project(), "workflows") if item.name not in COMMANDS)
    return [CompletionItem(item.name, help=item.description) for item in listed if item.name.startswith(incomplete)]


def runs(context: click.Context, _parameter: click.Parameter, incomplete: str) -> Items:
    """The runs in the folder that `--out` names, the one that was changed last first."""
    return items_with_prefix(incomplete, newest_first(_runs_folder(context)))


def workflows_or_phases(context: click.Context, parameter: click.Parameter, incomplete: str) -> Items:
    """The workflows; with `--run` the phases of that run, which take their place."""
    complete = run_phases if context.params.get("run") else workflows
    return complete(context, parameter, incomplete)


def run_phases(context: click.Context, _parameter: click.Parameter, incomplete: str) -> Items:
    """The phases of the workflow of the run that is named."""
    from skillrun.cli.options import open_run

    state = open_run(context.params["run"], _runs_folder(context)).state()
    return workflow_phases(state.workflow, incomplete)


def phases(context: click.Context, _parameter: click.Parameter, incomplete: str) -> Items:
    """The phases of the workflow that stands before them."""
    return [] if context.params.get("run") else workflow_phases(context.params["workflow"], incomplete)


def workflow_phases(workflow: str, incomplete: str) -> Items:
    """Those of one workflow, in its order."""
    from skillrun.cli.loading import open_library

    definition = open_library().workflow(workflow)
    return items_with_prefix(incomplete, definition.phases) if definition is not None else []


def shipped_paths(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> Items:
    """The shipped files that a project can have a copy of."""
    from skillrun.library.roots import shipped_files

    return items_with_prefix(incomplete, (path for path in shipped_files() if not path.startswith("config/")))


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
    folder = context.params.get(name)
    return folder if isinstance(folder, Path) else current_project() / "runs"
