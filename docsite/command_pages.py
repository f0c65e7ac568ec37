"""Generates the page of commands and their options from the definitions of the command line."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import click

from docsite.tables import page, table
from skillrun import registry
from skillrun.cli.options import INPUT_PREFIX
from skillrun.cli.registry import COMMANDS, GROUPS, CommandEntry
from skillrun.cli.workflow import workflow_command

ANY_WORKFLOW: Final = "plan"  # its inputs are left out


def commands() -> str:
    """All commands, and the options that every workflow has."""
    rows = [
        [title if index == 0 else "", f"[`{name}`](#{name.replace(' ', '-')})", entry.help]
        for title, group in GROUPS.items()
        for index, (name, entry) in enumerate(with_subcommands(group).items())
    ]
    parts = [
        "`skillrun COMMAND --help` prints the same text. [Running](../running.md) explains the commands.",
        table(["", "command", ""], rows),
        "## A workflow",
        "```text\nskillrun WORKFLOW [OPTIONS] INPUT\n```",
        "Runs a workflow. Its first required input is the argument; its other inputs are options. All workflows have:",
        _options(workflow_command(ANY_WORKFLOW)),
    ]
    for name, entry in with_subcommands(COMMANDS).items():
        parts.append(f"{'###' if ' ' in name else '##'} {name}")
        parts += _command(f"skillrun {name}", registry.import_object(entry.import_path))
    return page("Commands", parts)


def with_subcommands(entries: Mapping[str, CommandEntry]) -> dict[str, CommandEntry]:
    """Return the commands by name, each followed by its subcommands, such as `store check`."""
    found = {}
    for name, entry in entries.items():
        found[name] = entry
        found |= {f"{name} {inner}": each for inner, each in entry.subcommands.items()}
    return found


def _command(called: str, command: click.Command) -> list[str]:
    context = click.Context(command, info_name=called)
    usage = " ".join([called, *command.collect_usage_pieces(context)])
    parts = [f"```text\n{usage}\n```", (command.help or "").replace("\b\n", "").strip()]
    options = _options(command)
    return [*parts, options] if options else parts


def _options(command: click.Command) -> str:
    """The table of a command's options; empty if it has none."""
    context = click.Context(command)
    options = [param for param in command.params if isinstance(param, click.Option) and not _is_input(param)]
    records = [record for param in options if (record := param.get_help_record(context))]
    return table(["option", ""], [[f"`{written}`", text] for written, text in records]) if records else ""


def _is_input(param: click.Parameter) -> bool:
    return (param.name or "").startswith(INPUT_PREFIX)
