"""`skillrun completion`: the script that completes command lines in a shell, and what that script asks for.

click finds out what is to be completed. Names come from files that somebody else may have written, and a shell pastes
what it is offered: only words that mean nothing to any shell are offered, and never a word that would be run.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from types import MappingProxyType
from typing import Final

import click
from click.shell_completion import BashComplete, CompletionItem, FishComplete, ShellComplete, ZshComplete

from skillrun.cli.output import Output
from skillrun.cli.registry import COMPLETION_VARIABLE
from skillrun.syntax.diagnostics import make_printable

PLAIN_WORD: Final = re.compile(r"(?P<flag>-{0,2})\w[\w./+@-]*")  # a word or a flag; no shell reads more into it
MAX_HELP_LENGTH: Final = 70  # characters of what is said of a word


class _PlainWordCompletion(ShellComplete):
    """Offers plain words alone, each with one line about it."""

    def get_completions(self, args: list[str], incomplete: str) -> list[CompletionItem[str]]:
        items = super().get_completions(args, incomplete)
        return [_format_item(item) for item in items if item.type != "plain" or _is_plain(item.value, incomplete)]


def _is_plain(word: str, incomplete: str) -> bool:
    """Whether the word is one, and a flag only where a flag is being typed."""
    match = PLAIN_WORD.fullmatch(word)
    return match is not None and (not match["flag"] or incomplete.startswith("-"))


def _format_item(item: CompletionItem[str]) -> CompletionItem[str]:
    help_text = " ".join(make_printable(item.help or "").split())
    return CompletionItem(
        item.value, item.type, help_text if len(help_text) <= MAX_HELP_LENGTH else f"{help_text[:MAX_HELP_LENGTH]}…"
    )


class _Bash(_PlainWordCompletion, BashComplete):
    def get_completion_args(self) -> tuple[list[str], str]:
        """Without the `=` of `--flag=value`, which is a word of its own to bash."""
        args, incomplete = super().get_completion_args()
        return [word for word in args if word != "="], "" if incomplete == "=" else incomplete


class _Zsh(_PlainWordCompletion, ZshComplete):
    pass


class _Fish(_PlainWordCompletion, FishComplete):
    source_template = FishComplete.source_template.replace('string split ","', 'string split --max 1 ","')


SHELLS: Final[Mapping[str, type[ShellComplete]]] = MappingProxyType({"bash": _Bash, "zsh": _Zsh, "fish": _Fish})


@click.command(
    help="Print a script with which your shell completes commands, workflows, inputs, runs and phases.\n\n"
    "\b\nbash: skillrun completion bash > ~/.local/share/bash-completion/completions/skillrun\n"
    'zsh:  eval "$(skillrun completion zsh)" in ~/.zshrc, after compinit\n'
    "fish: skillrun completion fish > ~/.config/fish/completions/skillrun.fish"
)
@click.argument("shell", metavar="bash|zsh|fish", type=click.Choice(list(SHELLS)))
def completion(shell: str) -> int:
    Output().line(SHELLS[shell](click.Command("skillrun"), {}, "skillrun", COMPLETION_VARIABLE).source().rstrip("\n"))
    return 0


def complete(program: click.Command, instruction: str) -> int:
    """Print what may stand where the command line ends; nothing at all where it cannot be told."""
    shell = instruction.removesuffix("_complete")
    if shell not in SHELLS:
        return 1
    try:
        with redirect_stdout(StringIO()), redirect_stderr(StringIO()):  # a file with problems would be told of
            words = SHELLS[shell](program, {}, "skillrun", COMPLETION_VARIABLE).complete()
    except Exception:  # noqa: BLE001 (whatever it is, it does not belong into a line that somebody is typing)
        return 1
    Output().line(words)
    return 0
