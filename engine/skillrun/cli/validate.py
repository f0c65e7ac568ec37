"""`skillrun validate`: checks all or some files of a project without network access, and lists every problem."""

from __future__ import annotations

import os
from dataclasses import asdict
from pathlib import Path
from shlex import quote
from typing import Final, Literal

import click

from skillrun import registry
from skillrun.checker.checker import check_library
from skillrun.checker.program import Program
from skillrun.cli.formatting import count_noun
from skillrun.cli.loading import open_library, prefix_problem_paths, untrusted_settings
from skillrun.cli.options import as_json
from skillrun.cli.output import Output
from skillrun.cli.problem_formats import github_command, github_notice, sarif_log
from skillrun.cli.project_folder import current_project
from skillrun.cli.registry import RESERVED_NAMES
from skillrun.cli.trust import describe_setting
from skillrun.library.library import Library
from skillrun.library.roots import enclosing_project
from skillrun.syntax.diagnostics import Problem, UsageError, render_problem

Format = Literal["text", "json", "sarif", "github"]
FORMATS: Final[tuple[Format, ...]] = ("text", "json", "sarif", "github")
FILES: Final = "workflows/*.md, skills/*/*.md, roles/*.md, config/*.yaml and tests/*/*.md"


@click.command(
    help="Check all files of the project and the built-in library, without calling a model.\n\n"
    "PATH is a project, or a file or folder in a project. Only problems in PATH are shown."
)
@click.argument("path", type=click.Path(path_type=Path, exists=True), default=None, required=False)
@click.option("--strict", is_flag=True, help="Fail on warnings, too.")
@click.option(
    "--format",
    "shape",
    type=click.Choice(FORMATS),
    default=None,
    help="Output format: text (default), json, sarif (SARIF 2.1.0) or github (GitHub Actions annotations).",
)
@as_json
def validate(path: Path | None, strict: bool, shape: Format | None, json: bool) -> int:
    if json and shape not in (None, "json"):
        raise UsageError(f"`--json` and `--format {shape}` cannot be combined", "leave one of them out")
    shape = "json" if json else shape or "text"
    out = Output(json=shape in ("json", "sarif"))
    place = Path(os.path.abspath(path or "."))  # noqa: PTH100 (does not resolve links)
    project = current_project() if path is None else enclosing_project(place)
    project = project or (place if place.is_dir() else place.parent)
    part = place.relative_to(project).as_posix() if path is not None else "."
    library = open_library(project)
    programs = check_library(library, RESERVED_NAMES)
    checks = [_run_check(name, project, library, programs) for name in registry.names("checks")]
    checked = [path for files, _ in checks for path in files if part == "." or _is_below(path, part)]
    checked_files = [*library.project_files(part), *checked]
    if not checked_files and part != ".":
        hint = f"`skillrun validate {quote(_displayed_project_path(project, path))}` checks the whole project"
        raise UsageError(f"{path} is not a project file and contains none; project files are {FILES}", hint)
    _check_trust(library)
    all_problems = [*library.problems, *(problem for _, problems in checks for problem in problems)]
    problems = [problem for problem in all_problems if part == "." or _is_below(problem.path, part)]
    errors = sum(problem.severity == "error" for problem in problems)
    warnings, files = len(problems) - errors, len(library.files) + len(checked) if part == "." else len(checked_files)
    displayed_problems = prefix_problem_paths(problems, _displayed_project_path(project, path))
    for problem in displayed_problems:
        out.line(github_command(problem, library.roots) if shape == "github" else render_problem(problem) + "\n")
    others = files - len(checked_files) if checked_files else 0
    where = count_noun(files - others, "file") + (f" and {count_noun(others, 'file')} of the library" if others else "")
    out.line(f"{count_noun(errors, 'error')}, {count_noun(warnings, 'warning')} in {where}")
    for text in _extra_notes(len(all_problems) - len(problems), checked_files, project, path):
        if shape == "github":
            out.line(github_notice(text))
        else:
            out.note(f"note: {text}")
    data = {"problems": [asdict(problem) for problem in displayed_problems]}
    counts = {"errors": errors, "warnings": warnings, "files": files}
    out.data(sarif_log(displayed_problems, library.roots) if shape == "sarif" else {**data, **counts})
    return 1 if errors or (strict and warnings) else 0


def _run_check(name: str, project: Path, library: Library, programs: list[Program]) -> tuple[list[str], list[Problem]]:
    """Return the files that a check covers, and its problems. Raises UsageError if the check of a package fails."""
    check = registry.load("checks", name)
    try:
        files, problems = check(project, library, programs)
        return files, list(problems)
    except Exception as error:
        if name in registry.BUILT_IN["checks"]:
            raise
        message = f"the check `{name}` of an extension failed: {str(error) or type(error).__name__}"
        raise UsageError(message, "report it to the authors of its package, or remove the package") from error


def _is_below(path: str, part: str) -> bool:
    return path == part or path.startswith(f"{part}/")


def _extra_notes(other_count: int, checked_files: list[str], project: Path, path: Path | None) -> list[str]:
    """Return notes about problems in other files, or about a folder without project files."""
    folder = _displayed_project_path(project, path)
    if other_count:
        return [f"{count_noun(other_count, 'problem')} in other files; `skillrun validate {quote(folder)}` shows all"]
    return [] if checked_files else [f"{folder} has no project files ({FILES}); only the library was checked"]


def _displayed_project_path(project: Path, path: Path | None) -> str:
    """Return the project's folder relative to the current folder; absolute if `path` is, and the folders differ."""
    is_current_folder = Path.cwd() == project.resolve()
    return (
        str(project) if path is not None and path.is_absolute() and not is_current_folder else os.path.relpath(project)
    )


def _check_trust(library: Library) -> None:
    """Report a warning about untrusted settings, one for each provider."""
    by_provider = {wish.provider: wish for wish in reversed(untrusted_settings(library))}
    for wish in by_provider.values():
        hint = "`skillrun trust` shows all settings that need your trust, and trusts them"
        library.problems.report(
            wish.span, "untrusted", f"this setting is not trusted: {describe_setting(wish)}", hint, "warning"
        )
