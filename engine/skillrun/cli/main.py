"""`skillrun`: runs a command or workflow, and reports errors as a message, a hint and an exit code.

Exit codes: 0 done, 1 failed or problems found, 2 usage, 3 internal error, 75 waiting for the user, 130 interrupted.
"""

from __future__ import annotations

import gc
import os
import sys
from typing import TYPE_CHECKING, Any, Final

import click

from skillrun import registry
from skillrun.cli.command_group import CommandGroup, import_command
from skillrun.cli.output import Output, discard_stdout
from skillrun.cli.project_folder import current_project
from skillrun.cli.registry import COMMANDS, COMPLETION_VARIABLE, GROUPS, OLD_NAMES, RESERVED_NAMES, CommandEntry
from skillrun.syntax.diagnostics import UsageError, make_printable
from skillrun.version import __version__

if TYPE_CHECKING:
    from collections.abc import Mapping

    from click.shell_completion import CompletionItem

USAGE_ERROR: Final = 2
INTERNAL_ERROR: Final = 3
INTERRUPTED: Final = 130
# Most objects live until the command ends. Collecting garbage every 700 objects, the default, would take 50 of the
# 950 ms that a check of the built-in library takes.
NEW_OBJECTS: Final = 100_000
OTHER_COMMANDS: Final = ", ".join(sorted(name for name, entry in COMMANDS.items() if not entry.in_table))
HELP: Final = f"""Run multi-agent workflows written in markdown.

\b
Start a run with the name of its workflow:
  skillrun plan "Add dark mode to the settings page"

`skillrun WORKFLOW --help` shows the inputs of a workflow.

Further commands, for shells, editors and other programs: {OTHER_COMMANDS}."""


class Skillrun(CommandGroup):
    """The commands of the registry, and every workflow on the search path."""

    @property
    def entries(self) -> Mapping[str, CommandEntry]:
        return COMMANDS

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name in COMMANDS:
            return super().get_command(ctx, cmd_name)
        if cmd_name in OLD_NAMES:
            group, _, name = OLD_NAMES[cmd_name].partition(" ")
            return import_command(COMMANDS[group].subcommands[name].import_path)
        from skillrun.cli.listing import has_workflow

        if has_workflow(current_project(), cmd_name):
            from skillrun.cli.workflow import workflow_command

            return workflow_command(cmd_name)
        place = registry.names("commands").get(cmd_name)
        return _load_installed(cmd_name) if place is not None else None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if ctx.resilient_parsing:
            return super().resolve_command(ctx, args)
        command = self.get_command(ctx, name)
        if command is None:
            from skillrun.cli.loading import other_project_hint
            from skillrun.cli.usage_errors import unknown_command

            error = unknown_command(args, _workflow_descriptions())
            error.next_step = other_project_hint(name) or error.next_step
            raise error
        if new_name := OLD_NAMES.get(name):
            Output().note(
                f"warning: `skillrun {name}` is now `skillrun {new_name}`; the old name will be removed in 0.3"
            )
            name = new_name
        return name, command, args[1:]

    def resolve_for_completion(
        self, ctx: click.Context, name: str, rest: list[str]
    ) -> tuple[str, click.Command, list[str]]:
        if rest and name in COMMANDS and (place := COMMANDS[name].for_workflow):
            return rest[0], registry.import_object(place)(rest[0]), rest[1:]
        return super().resolve_for_completion(ctx, name, rest)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 (click's signature)
        groups = {
            title: {name: entry.help for name, entry in group.items() if entry.in_table}
            for title, group in GROUPS.items()
        }
        installed = {name: _installed_help(name) for name in _installed_commands()}
        sections = {"Workflows": _workflow_descriptions(), **groups, "Extensions": installed}
        width = max(len(name) for rows in sections.values() for name in rows)
        for title, rows in sections.items():
            if rows:
                with formatter.section(title):
                    formatter.write_dl([(name.ljust(width), line) for name, line in rows.items()])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem[str]]:
        from click.shell_completion import CompletionItem

        items = [CompletionItem(name, help=words) for name, words in _workflow_descriptions().items()]
        return [item for item in items if item.value.startswith(incomplete)] + super().shell_complete(ctx, incomplete)

    def get_help(self, ctx: click.Context) -> str:
        return make_printable(super().get_help(ctx))


def _load_installed(name: str) -> click.Command:
    command: click.Command = registry.load("commands", name)
    return command


def _installed_help(name: str) -> str:
    """Return the line in the help for a command of an installed package, or why the package cannot be loaded."""
    try:
        return _load_installed(name).get_short_help_str()
    except UsageError as error:
        return str(error)


def _installed_commands() -> dict[str, str]:
    """Return the commands that installed packages add, with import paths. Built-in commands have priority."""
    return {name: place for name, place in registry.names("commands").items() if name not in RESERVED_NAMES}


def _workflow_descriptions() -> dict[str, str]:
    from skillrun.cli.listing import list_files

    return {
        item.name: item.description
        for item in list_files(current_project(), "workflows")
        if item.name not in RESERVED_NAMES
    }


@click.group(
    cls=Skillrun,
    help=HELP,
    invoke_without_command=True,
    subcommand_metavar="WORKFLOW|COMMAND [ARGS]...",
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(__version__, message="%(prog)s %(version)s")
@click.pass_context
def skillrun(context: click.Context) -> None:
    if context.invoked_subcommand is None:
        Output().line(context.get_help())
        context.exit(USAGE_ERROR)


def main(arguments: list[str] | None = None) -> int:
    """Run a command line and return its exit code."""
    if sys.platform == "win32":  # all imports above work on Windows
        return _print_error("skillrun runs on Linux and macOS", "on Windows, install and run it in WSL", USAGE_ERROR)
    gc.set_threshold(NEW_OBJECTS)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")
    if instruction := os.environ.get(COMPLETION_VARIABLE):
        from skillrun.cli.completion import complete

        return complete(skillrun, instruction)
    try:
        result: Any = skillrun.main(args=arguments, prog_name="skillrun", standalone_mode=False)
        return result if isinstance(result, int) else 0
    except click.exceptions.NoArgsIsHelpError as error:
        Output().line(error.format_message())
        return USAGE_ERROR
    except click.ClickException as error:
        from skillrun.cli.usage_errors import click_error

        return _print_error(*click_error(error), USAGE_ERROR)
    except (KeyboardInterrupt, click.Abort):
        Output().note("interrupted")
        return INTERRUPTED
    except BrokenPipeError:  # the reader closed the output
        discard_stdout()
        return 1
    except Exception as error:  # noqa: BLE001 (all other errors are bugs, and are logged to a file)
        from skillrun.syntax.diagnostics import SkillrunError

        if isinstance(error, SkillrunError):
            return _print_error(error.message, error.next_step, error.exit_code)
        if isinstance(error, OSError) and error.strerror:
            place = f"{error.filename}: " if error.filename else ""
            return _print_error(f"{place}{error.strerror}", "check the permissions and the free disk space", 1)
        from skillrun.cli.usage_errors import write_crash_report

        return _print_error(*write_crash_report(error), INTERNAL_ERROR)


def _print_error(message: str, next_step: str, code: int) -> int:
    Output().note(f"error: {message}")
    if next_step:
        Output().note(f"hint: {next_step}")
    return code
