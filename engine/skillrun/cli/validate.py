"""`skillrun validate`: every problem of every file at once, offline."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from skillrun.cli.loading import open_library, untrusted
from skillrun.cli.options import as_json
from skillrun.cli.printing import Output
from skillrun.cli.registry import COMMANDS
from skillrun.cli.trust import told
from skillrun.cli.words import counted
from skillrun.language.check import check_library
from skillrun.language.diagnostics import render
from skillrun.language.library import Library


@click.command(help="Check every file of the project in PATH (default: here) and of the library, and how they fit.")
@click.argument("path", type=click.Path(path_type=Path, exists=True, file_okay=False), default=Path())
@click.option("--strict", is_flag=True, help="Fail on warnings too.")
@as_json
def validate(path: Path, strict: bool, json: bool) -> int:
    out = Output(json)
    library = open_library(path)
    check_library(library, COMMANDS)
    _check_trust(library)
    problems = list(library.problems)
    errors = sum(problem.severity == "error" for problem in problems)
    warnings, files = len(problems) - errors, len(library.files)
    for problem in problems:
        out.line(render(problem) + "\n")
    out.line(f"{counted(errors, 'error')}, {counted(warnings, 'warning')} in {counted(files, 'file')}")
    told = [asdict(problem) for problem in problems]
    out.data({"problems": told, "errors": errors, "warnings": warnings, "files": files})
    return 1 if errors or (strict and warnings) else 0


def _check_trust(library: Library) -> None:
    """Warn of what the project wants and nobody has agreed to, once for each provider."""
    by_provider = {wish.provider: wish for wish in reversed(untrusted(library))}
    for wish in by_provider.values():
        hint = "`skillrun trust` shows all that this project wants, and agrees to it"
        library.problems.report(wish.span, "untrusted", f"nobody has agreed to this: {told(wish)}", hint, "warning")
