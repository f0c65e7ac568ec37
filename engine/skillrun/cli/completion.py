"""`skillrun completion`: prints the shell completion script, and answers its requests.

click determines what to complete. Names can come from untrusted files, and a shell inserts completions verbatim, so
only words without a special meaning in any shell are offered.
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

PLAIN_WORD: Final = re.compile(r"(?P<flag>-{0,2})\w[\w./+@-]*")  # a word or flag that no shell expands
MAX_HELP_LENGTH: Final = 70  # characters of a word's description


class _PlainWordCompletion(ShellComplete):
    """Offers only plain words, each with a description on one line."""

    def get_completions(self, args: list[str], incomplete: str) -> list[CompletionItem[str]]:
        items = super().get_completions(args, incomplete)
        return [_format_item(item) for item in items if item.type != "plain" or _is_plain(item.value, incomplete)]


def _is_plain(word: str, incomplete: str) -> bool:
    """Whether the word is plain; a flag is plain only if the incomplete word starts with `-`."""
    match = PLAIN_WORD.fullmatch(word)
    return match is not None and (not match["flag"] or incomplete.startswith("-"))


def _format_item(item: CompletionItem[str]) -> CompletionItem[str]:
    help_text = " ".join(make_printable(item.help or "").split())
    return CompletionItem(
        item.value, item.type, help_text if len(help_text) <= MAX_HELP_LENGTH else f"{help_text[:MAX_HELP_LENGTH]}…"
    )


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
    Output().line(SHELLS[shell](click.Command("skillrun"), {}, "skillrun", COMPLETION_VARIABLE).source().rstrip("\n"))
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
    Output().line(words)
    return 0
