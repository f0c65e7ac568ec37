"""`skillrun lsp`: the language server, which an editor starts and speaks to over stdin and stdout."""

from __future__ import annotations

import sys

import click

from skillrun.cli.bugs import bug_report
from skillrun.cli.registry import COMMANDS
from skillrun.installation import extra_hint
from skillrun.language.text.diagnostics import SkillrunError, UsageError


@click.command(
    help="Tell an editor what is wrong in the files of a project as they are typed. Editors start this themselves, "
    "without arguments, for files below workflows/, skills/, roles/, config/ and tests/ of a project, and speak the "
    "Language Server Protocol with it over stdin and stdout. docs/editors.md says how that is set up in VS Code, "
    "Neovim, Helix, Zed and JetBrains."
)
@click.option("--stdio", is_flag=True, help="Taken, as some editors add it; there is no other way.")
def lsp(stdio: bool) -> int:  # noqa: ARG001 (there is nothing to choose)
    if sys.stdin.isatty():
        hint = "`skillrun lsp --help` says how editors start it"
        raise UsageError("an editor starts this, and nobody can type what it wants to read", hint)
    try:
        from skillrun.editor.serving import serve
    except ModuleNotFoundError as missing:
        if missing.name not in ("pygls", "lsprotocol"):
            raise
        raise SkillrunError("the language server needs pygls", extra_hint("editor")) from None
    serve(COMMANDS, lambda error: "; ".join(bug_report(error)))
    return 0
