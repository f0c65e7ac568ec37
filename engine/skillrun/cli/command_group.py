"""Commands with subcommands, such as `skillrun store`. Their help and completion import no subcommand."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from skillrun import registry
from skillrun.cli.registry import COMMANDS, CommandEntry
from skillrun.syntax.diagnostics import UsageError, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Mapping

    from click.shell_completion import CompletionItem


class CommandGroup(click.Group):
    """A command whose subcommands are those of its registry entry."""

    @property
    def entries(self) -> Mapping[str, CommandEntry]:
        return COMMANDS[str(self.name)].subcommands

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 (click's signature)
        return list(self.entries)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 (click's signature)
        return import_command(self.entries[cmd_name].import_path) if cmd_name in self.entries else None

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
                hint = f"write options of `{name}` after it: `{ctx.command_path} {name} …`"
                raise UsageError(f"`{option.opts[0]}` before `{name}` has no effect", hint)
        return name, command, rest

    def resolve_for_completion(
        self, ctx: click.Context, name: str, rest: list[str]
    ) -> tuple[str, click.Command, list[str]]:
        """Return the command whose completions apply. Runs and workflows are completed without importing a command."""
        if not rest and name in self.entries and (first := self.entries[name].completes):
            from skillrun.cli.completers import FirstArgument

            return name, FirstArgument(name, first, lambda: self.get_command(ctx, name)), rest
        return name, self.get_command(ctx, name) or click.Command(name), rest

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 (click's signature)
        with formatter.section("Commands"):
            formatter.write_dl([(name, entry.help) for name, entry in self.entries.items()])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem[str]]:
        from click.shell_completion import CompletionItem

        items = [CompletionItem(name, help=entry.help) for name, entry in self.entries.items()]
        options = click.Command.shell_complete(self, ctx, incomplete)  # that of click.Group imports all commands
        return [item for item in items if item.value.startswith(incomplete)] + options


def import_command(place: str) -> click.Command:
    """Return the command at the import path `module:attribute`."""
    command: click.Command = registry.import_object(place)
    return command
