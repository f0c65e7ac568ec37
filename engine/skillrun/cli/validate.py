"""`skillrun validate`: every problem of every file at once, offline."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from skillrun.cli.figures import counted
from skillrun.cli.options import as_json
from skillrun.cli.printing import Output
from skillrun.cli.registry import COMMANDS


@click.command(help="Check every file of the project in PATH (default: here) and of the library, and how they fit.")
@click.argument("path", type=click.Path(path_type=Path, exists=True, file_okay=False), default=Path())
@click.option("--strict", is_flag=True, help="Fail on warnings too.")
@as_json
def validate(path: Path, strict: bool, json: bool) -> int:
    from skillrun.language.check import check_library
    from skillrun.language.diagnostics import render
    from skillrun.language.library import Library
    from skillrun.language.roots import search_path

    out = Output(json)
    library = Library(search_path(path.resolve()))
    check_library(library, COMMANDS)
    problems = list(library.problems)
    errors = sum(problem.severity == "error" for problem in problems)
    warnings = len(problems) - errors
    for problem in problems:
        out.line(render(problem) + "\n")
    out.line(f"{counted(errors, 'error')}, {counted(warnings, 'warning')} in {counted(len(library.files), 'file')}")
    out.data(
        {
            "problems": [asdict(problem) for problem in problems],
            "errors": errors,
            "warnings": warnings,
            "files": len(library.files),
        }
    )
    return 1 if errors or (strict and warnings) else 0
