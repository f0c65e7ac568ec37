"""Shell completion: the command `skillrun completion`, and the functions that complete arguments.

click determines what to complete. Names can come from untrusted files, and a shell inserts completions verbatim, so
only words without a special meaning in any shell are offered.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import click
from click.shell_completion import BashComplete, CompletionItem, FishComplete, ShellComplete, ZshComplete

from skillrun.cli.options import current_project, open_run
from skillrun.cli.output import Output
from skillrun.cli.registry import COMPLETION_VARIABLE, RESERVED_NAMES
from skillrun.library.roots import shipped_files
from skillrun.store.local.run_list import newest_first
from skillrun.syntax.diagnostics import make_printable

PLAIN_WORD: Final = re.compile(r"(?P<flag>-{0,2})\w[\w./+@-]*")  # a word or flag that no shell expands
MAX_HELP_LENGTH: Final = 70  # characters of a word's description
Items = list[CompletionItem[str]]
Completer = Callable[[click.Context, click.Parameter, str], Items]


class _PlainWordCompletion(ShellComplete):
    """Offers only plain words, each with a description on one line. Flags are offered only after a `-`."""

    def get_completions(self, args: list[str], incomplete: str) -> Items:
        items = []
        for item in super().get_completions(args, incomplete):
            word = PLAIN_WORD.fullmatch(item.value)
            if item.type == "plain" and (word is None or (word["flag"] and not incomplete.startswith("-"))):
                continue
            text = " ".join(make_printable(item.help or "").split())
            text = text if len(text) <= MAX_HELP_LENGTH else f"{text[:MAX_HELP_LENGTH]}…"
            items.append(CompletionItem(item.value, item.type, text))
        return items


class _Bash(_PlainWordCompletion, BashComplete):
    def get_completion_args(self) -> tuple[list[str], str]:
        """Remove the `=` of `--flag=value`, which bash passes as a separate word."""
        args, incomplete = super().get_completion_args()
        return [word for word in args if word != "="], "" if incomplete == "=" else incomplete


class _Zsh(_PlainWordCompletion, ZshComplete):
    pass


class _Fish(_PlainWordCompletion, FishComplete):
    source_template = FishComplete.source_template.replace('string split ","', 'string split --max 1 ","')


SHELLS: Final[Mapping[str, type[ShellComplete]]] = MappingProxyType({"bash": _Bash, "zsh": _Zsh, "fish": _Fish})


@click.command(
    help="Print a script that completes commands, workflows, inputs, runs and phases in your shell.\n\n"
    "\b\nbash: skillrun completion bash > ~/.local/share/bash-completion/completions/skillrun\n"
    'zsh:  eval "$(skillrun completion zsh)" in ~/.zshrc, after compinit\n'
    "fish: skillrun completion fish > ~/.config/fish/completions/skillrun.fish"
)
@click.argument("shell", metavar="bash|zsh|fish", type=click.Choice(list(SHELLS)))
def completion(shell: str) -> int:
    Output().text(SHELLS[shell](click.Command("skillrun"), {}, "skillrun", COMPLETION_VARIABLE).source().rstrip("\n"))
    return 0


def complete(program: click.Command, instruction: str) -> int:
    """Print the completions for the end of the command line, and return the exit code. On an error, print nothing."""
    shell = instruction.removesuffix("_complete")
    if shell not in SHELLS:
        return 1
    try:
        with redirect_stdout(StringIO()), redirect_stderr(StringIO()):  # hides messages about invalid files
            words = SHELLS[shell](program, {}, "skillrun", COMPLETION_VARIABLE).complete()
    except Exception:  # noqa: BLE001 (an error must not disturb the command line)
        return 1
    Output().text(words)
    return 0


def items_with_prefix(incomplete: str, values: Iterable[Any]) -> Items:
    """Return completion items for the values that start with `incomplete`."""
    return [CompletionItem(str(value)) for value in values if str(value).startswith(incomplete)]


def complete_with(values: Iterable[Any]) -> Completer:
    """Return a completer that offers the values."""
    return lambda _context, _parameter, incomplete: items_with_prefix(incomplete, values)


def workflows(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> Items:
    """Complete workflows on the search path, with their descriptions."""
    from skillrun.cli.listing import list_files

    listed = (item for item in list_files(current_project(), "workflows") if item.name not in RESERVED_NAMES)
    return [CompletionItem(item.name, help=item.description) for item in listed if item.name.startswith(incomplete)]


def runs(context: click.Context, _parameter: click.Parameter, incomplete: str) -> Items:
    """Complete runs in the `--out` folder, the most recently changed first."""
    return items_with_prefix(incomplete, newest_first(_runs_folder(context)))


def workflows_or_phases(context: click.Context, parameter: click.Parameter, incomplete: str) -> Items:
    """Complete workflows. With `--run`, complete the phases of that run."""
    return (run_phases if context.params.get("run") else workflows)(context, parameter, incomplete)


def run_phases(context: click.Context, _parameter: click.Parameter, incomplete: str) -> Items:
    """Complete phases of the named run's workflow."""
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
    """Return the folder given with `--out`, or the default folder."""
    name = next((str(option.name) for option in context.command.params if "--out" in option.opts), "")
    folder = context.params.get(name)
    return folder if isinstance(folder, Path) else current_project() / "runs"
