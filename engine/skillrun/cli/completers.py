"""Completes arguments in a shell: workflows, runs, phases and files.

The functions can be passed to click as `shell_complete`. `completion.py` filters out names that are not safe on a
command line.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem

from skillrun.cli.project_folder import current_project
from skillrun.cli.registry import RESERVED_NAMES
from skillrun.store.local.run_list import newest_first

Items = list[CompletionItem[str]]
Completer = Callable[[click.Context, click.Parameter, str], Items]


def items_with_prefix(incomplete: str, values: Iterable[Any]) -> Items:
    """Return completion items for the values that start with `incomplete`."""
    return [CompletionItem(str(value)) for value in values if str(value).startswith(incomplete)]


def workflows(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> Items:
    """Complete workflows on the search path, with their descriptions."""
    from skillrun.cli.listing import list_files

    listed = (item for item in list_files(current_project(), "workflows") if item.name not in RESERVED_NAMES)
    return [CompletionItem(item.name, help=item.description) for item in listed if item.name.startswith(incomplete)]


def runs(context: click.Context, _parameter: click.Parameter, incomplete: str) -> Items:
    """Complete runs in the `--out` folder, the most recently changed first."""
    return items_with_prefix(incomplete, newest_first(_runs_folder(context)))


def workflows_or_phases(context: click.Context, parameter: click.Parameter, incomplete: str) -> Items:
    """Complete workflows, or with `--run` the phases of that run."""
    complete = run_phases if context.params.get("run") else workflows
    return complete(context, parameter, incomplete)


def run_phases(context: click.Context, _parameter: click.Parameter, incomplete: str) -> Items:
    """Complete phases of the named run's workflow."""
    from skillrun.cli.options import open_run

    state = open_run(context.params["run"], _runs_folder(context)).state()
    return workflow_phases(state.workflow, incomplete)


def phases(context: click.Context, _parameter: click.Parameter, incomplete: str) -> Items:
    """Complete phases of the workflow in the previous argument; with `--run`, complete nothing."""
    return [] if context.params.get("run") else workflow_phases(context.params["workflow"], incomplete)


def workflow_phases(workflow: str, incomplete: str) -> Items:
    """Complete phases of one workflow, in its order."""
    from skillrun.cli.loading import open_library

    definition = open_library().workflow(workflow)
    return items_with_prefix(incomplete, definition.phases) if definition is not None else []


def shipped_paths(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> Items:
    """Complete built-in files that can be copied into a project."""
    from skillrun.library.roots import shipped_files

    return items_with_prefix(incomplete, (path for path in shipped_files() if not path.startswith("config/")))


def files(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> Items:
    """Use the shell's own completion of files."""
    return [CompletionItem(incomplete, type="file")]


class FirstArgument(click.Command):
    """Completes the first argument of a command. The command is loaded only to complete its flags."""

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
    """Return the folder in `--out`, or the default folder."""
    name = next((str(option.name) for option in context.command.params if "--out" in option.opts), "")
    folder = context.params.get(name)
    return folder if isinstance(folder, Path) else current_project() / "runs"
