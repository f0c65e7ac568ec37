"""`skillrun`: runs a command or workflow, and reports errors as a message, a hint and an exit code.

Exit codes: 0 done, 1 failed or problems found, 2 usage, 3 internal error, 75 waiting for the user, 130 interrupted.
"""

from __future__ import annotations

import gc
import os
import sys
from typing import TYPE_CHECKING, Any, Final

import click
from click.core import ParameterSource

from skillrun import registry
from skillrun.cli.options import current_project
from skillrun.cli.output import Output, discard_output, make_safe
from skillrun.cli.registry import COMMANDS, COMPLETION_VARIABLE, GROUPS, OLD_NAMES, RESERVED_NAMES, CommandEntry
from skillrun.syntax.diagnostics import SkillrunError, UsageError, did_you_mean, escape_line
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


class CommandGroup(click.Group):
    """A command such as `skillrun store`, with the subcommands of its registry entry.

    Its help and completion import no subcommand.
    """

    @property
    def entries(self) -> Mapping[str, CommandEntry]:
        return COMMANDS[str(self.name)].subcommands

    @property
    def workflows(self) -> Mapping[str, str]:
        """The workflows that are commands of this group, with their descriptions."""
        return {}

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 (click's signature)
        return list(self.entries)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 (click's signature)
        return registry.import_object(self.entries[cmd_name].import_path) if cmd_name in self.entries else None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name, rest = args[0], args[1:]
        if ctx.resilient_parsing:
            return self.resolve_for_completion(ctx, name, rest)
        command = self.get_command(ctx, name)
        if command is None:
            hint = did_you_mean(name, self.entries) or f"`{ctx.command_path} --help` lists its commands"
            raise UsageError(f"`{ctx.command_path}` has no command `{name}`", hint)
        for option in self.params:
            if ctx.get_parameter_source(str(option.name)) is ParameterSource.COMMANDLINE:
                hint = f"write the options of `{name}` after its name: `{ctx.command_path} {name} …`"
                raise UsageError(f"`{option.opts[0]}` before `{name}` has no effect", hint)
        return name, command, rest

    def resolve_for_completion(
        self, ctx: click.Context, name: str, rest: list[str]
    ) -> tuple[str, click.Command, list[str]]:
        """Return the command whose completions apply. Runs and workflows are completed without importing a command."""
        if rest and name in self.entries and (place := self.entries[name].for_workflow):
            return rest[0], registry.import_object(place)(rest[0]), rest[1:]
        if not rest and name in self.entries and (first := self.entries[name].completes):
            from skillrun.cli.completion import FirstArgument

            return name, FirstArgument(name, first, lambda: self.get_command(ctx, name)), rest
        return name, self.get_command(ctx, name) or click.Command(name), rest

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 (click's signature)
        with formatter.section("Commands"):
            formatter.write_dl([(name, entry.help) for name, entry in self.entries.items()])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem[str]]:
        from click.shell_completion import CompletionItem

        lines = {**self.workflows, **{name: entry.help for name, entry in self.entries.items()}}
        items = [CompletionItem(name, help=line) for name, line in lines.items() if name.startswith(incomplete)]
        return items + click.Command.shell_complete(self, ctx, incomplete)  # that of click.Group imports all commands


class Skillrun(CommandGroup):
    """The commands of the registry, and every workflow on the search path."""

    @property
    def entries(self) -> Mapping[str, CommandEntry]:
        return COMMANDS

    @property
    def workflows(self) -> Mapping[str, str]:
        from skillrun.cli.listing import list_files

        listed = list_files(current_project(), "workflows")
        return {item.name: item.description for item in listed if item.name not in RESERVED_NAMES}

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name in COMMANDS:
            return super().get_command(ctx, cmd_name)
        if cmd_name in OLD_NAMES:
            group, _, name = OLD_NAMES[cmd_name].partition(" ")
            return CommandGroup(group).get_command(ctx, name)
        from skillrun.cli.listing import has_workflow

        if has_workflow(current_project(), cmd_name):
            from skillrun.cli.workflow import workflow_command

            return workflow_command(cmd_name)
        return registry.load("commands", cmd_name) if cmd_name in registry.names("commands") else None

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

            error = unknown_command(args, self.workflows)
            error.next_step = other_project_hint(name) or error.next_step
            raise error
        if new_name := OLD_NAMES.get(name):
            Output().note(
                f"warning: `skillrun {name}` is now `skillrun {new_name}`; the old name will be removed in 0.3"
            )
            name = new_name
        return name, command, args[1:]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 (click's signature)
        installed: dict[str, str] = {}
        for name in registry.names("commands"):
            if name not in RESERVED_NAMES:  # built-in commands have priority
                try:
                    installed[name] = registry.load("commands", name).get_short_help_str()
                except UsageError as error:  # the package cannot be loaded
                    installed[name] = str(error)
        groups = {
            title: {name: entry.help for name, entry in group.items() if entry.in_table}
            for title, group in GROUPS.items()
        }
        workflows = {escape_line(name): escape_line(text) for name, text in self.workflows.items()}
        sections = {"Workflows": workflows, **groups, "Extensions": installed}
        width = max(len(name) for rows in sections.values() for name in rows)
        for title, rows in sections.items():
            if rows:
                with formatter.section(title):
                    formatter.write_dl([(name.ljust(width), line) for name, line in rows.items()])

    def get_help(self, ctx: click.Context) -> str:
        return make_safe(super().get_help(ctx))


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
        Output().text(context.get_help())
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
        # `skillrun.main` would exit with 1 if the reader closed the output
        with skillrun.make_context("skillrun", list(sys.argv[1:] if arguments is None else arguments)) as context:
            result: Any = skillrun.invoke(context)
    except click.exceptions.Exit as ended:
        result = ended.exit_code
    except click.exceptions.NoArgsIsHelpError as error:
        Output().text(error.format_message())
        return USAGE_ERROR
    except click.ClickException as error:
        from skillrun.cli.usage_errors import click_error

        return _print_error(*click_error(error), USAGE_ERROR)
    except (KeyboardInterrupt, EOFError, click.Abort):
        Output().note("interrupted")
        return INTERRUPTED
    except BrokenPipeError:  # the reader of `--help` or `logs` closed the output
        discard_output(sys.stdout)
        return 0
    except Exception as error:  # noqa: BLE001 (all other errors are bugs, and are logged to a file)
        if isinstance(error, SkillrunError):
            return _print_error(error.message, error.next_step, error.exit_code)
        if isinstance(error, OSError) and error.strerror:
            discard_output(sys.stdout)  # what click could not write
            place = f"{error.filename}: " if error.filename else ""
            return _print_error(f"{place}{error.strerror}", "check the permissions and the free disk space", 1)
        from skillrun.cli.usage_errors import write_crash_report

        return _print_error(*write_crash_report(error), INTERNAL_ERROR)
    return result if isinstance(result, int) else 0


def _print_error(message: str, next_step: str, code: int) -> int:
    Output().note(f"error: {message}")
    if next_step:
        Output().note(f"hint: {next_step}")
    return code
