"""`skillrun lsp`: runs the language server. An editor starts it, and connects to it over stdin and stdout."""

from __future__ import annotations

import sys

import click

from skillrun.cli.registry import RESERVED_NAMES
from skillrun.cli.usage_errors import write_crash_report
from skillrun.installation import extra_hint
from skillrun.syntax.diagnostics import SkillrunError, UsageError


@click.command(
    help="Run the language server, which shows problems in an editor while you type.\n\n"
    "An editor starts it for files in workflows/, skills/, roles/, config/ and tests/ of a project. It speaks the "
    "Language Server Protocol over stdin and stdout. docs/editors.md describes the set-up for VS Code, Neovim, Helix, "
    "Zed and JetBrains."
)
@click.option("--stdio", is_flag=True, help="Has no effect; accepted because some editors pass it.")
def lsp(stdio: bool) -> int:  # noqa: ARG001 (stdio is the only transport)
    if sys.stdin.isatty():
        hint = "`skillrun lsp --help` describes the set-up"
        raise UsageError("`skillrun lsp` must be started by an editor, not in a terminal", hint)
    try:
        from skillrun.extensions.lsp.handlers import serve
    except ModuleNotFoundError as missing:
        if missing.name not in ("pygls", "lsprotocol"):
            raise
        raise SkillrunError("the language server needs pygls", extra_hint("editor")) from None
    serve(RESERVED_NAMES, lambda error: "; ".join(write_crash_report(error)))
    return 0
