"""`skillrun validate`: checks all or some files of a project without network access, and lists every problem."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from shlex import quote
from typing import Any, Final, Literal
from urllib.parse import quote as quote_url

import click

from skillrun import registry
from skillrun.checker.checker import check_library
from skillrun.cli.formatting import count_noun
from skillrun.cli.loading import name_overrides, open_library, prefix_problem_paths, untrusted_settings
from skillrun.cli.options import as_json, current_project
from skillrun.cli.output import Output
from skillrun.cli.registry import RESERVED_NAMES
from skillrun.cli.trust import describe_setting
from skillrun.library.roots import PROJECT, Root, enclosing_project
from skillrun.syntax.codes import CODES
from skillrun.syntax.diagnostics import Problem, UsageError, escape_line, render_problem
from skillrun.version import __version__

MAX_OF_KIND: Final = 10
FIRST_OF_KIND: Final = 3
Format = Literal["text", "json", "sarif", "github"]
FORMATS: Final[tuple[Format, ...]] = ("text", "json", "sarif", "github")
SCHEMA: Final = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/os/schemas/sarif-schema-2.1.0.json"
SOURCE_ROOT: Final = "%SRCROOT%"  # SARIF's conventional name for the current folder
RULE_HELP: Final = "`skillrun validate` shows the line and the allowed values; docs/language.md describes the language."
FILES: Final = "workflows/*.md, skills/**/*.md, roles/**/*.md, config/*.yaml and tests/*/*.md"


@click.command(
    help="Check all files of the project, without calling a model.\n\n"
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
@click.option(
    "--library",
    "shipped",
    is_flag=True,
    help="Check the shipped files too. Otherwise only those are checked that use a file which the project replaces.",
)
@click.option(
    "--all",
    "shows_all",
    is_flag=True,
    help=f"Show every problem. Otherwise, of more than {MAX_OF_KIND} problems of a kind, only "
    f"{FIRST_OF_KIND} are shown, unless PATH is a file.",
)
@as_json
def validate(path: Path | None, strict: bool, shape: Format | None, shipped: bool, shows_all: bool, out: Output) -> int:
    if out.json and shape not in (None, "json"):
        raise UsageError(f"`--json` and `--format {shape}` cannot be combined", "leave one of them out")
    shape = "json" if out.json else shape or "text"
    out = Output(json=shape in ("json", "sarif"))
    place = Path(os.path.abspath(path or "."))  # noqa: PTH100 (does not resolve links)
    project = current_project() if path is None else enclosing_project(place)
    project = project or (place if place.is_dir() else place.parent)
    part = place.relative_to(project).as_posix() if path is not None else "."
    library = open_library(project)
    is_shipped_library = library.roots[0].name != PROJECT  # in a checkout of skillrun
    shipped = shipped or is_shipped_library or not library.project_files(".")
    programs = check_library(library, RESERVED_NAMES, shipped=shipped)
    checks: list[tuple[list[str], list[Problem]]] = []  # the files that each check covers, and its problems
    for name in registry.names("checks"):
        check = registry.load("checks", name)
        with registry.report_failure("checks", name):
            covered, found = check(project, library, programs)
            checks.append((covered, list(found)))
    checked = [path for files, _ in checks for path in files if part == "." or _is_below(path, part)]
    checked_files = [*library.project_files(part), *checked]
    if not checked_files and part != ".":
        hint = f"`skillrun validate {quote(_displayed_project_path(project, path))}` checks the whole project"
        raise UsageError(f"{path} is not a project file and contains none; project files are {FILES}", hint)
    for wish in {wish.provider: wish for wish in reversed(untrusted_settings(library))}.values():
        message = f"this setting is not trusted: {describe_setting(wish)}"
        hint = "`skillrun trust` shows all settings that need your trust, and trusts them"
        library.problems.report(wish.span, "untrusted", message, hint, "warning")
    all_problems = [*name_overrides(library), *(problem for _, problems in checks for problem in problems)]
    problems = [problem for problem in all_problems if part == "." or _is_below(problem.path, part)]
    errors = sum(problem.severity == "error" for problem in problems)
    warnings, files = len(problems) - errors, len(library.files) + len(checked) if part == "." else len(checked_files)
    folder = _displayed_project_path(project, path)
    displayed_problems = prefix_problem_paths(problems, folder)
    if shape == "github":
        for problem in displayed_problems:
            out.command(_github_command(problem, library.roots))
    else:
        shown, more = _summarize(displayed_problems, is_complete=shows_all or place.is_file())
        for problem in shown:
            out.text(f"{render_problem(problem)}\n")
        out.lines(more)
    others = files - len(checked_files) if checked_files else 0
    where = count_noun(files - others, "file") + (f" and {count_noun(others, 'file')} of the library" if others else "")
    out.line(f"{count_noun(errors, 'error')}, {count_noun(warnings, 'warning')} in {where}")
    note = "" if checked_files else f"{folder} has no project files ({FILES}); only the library was checked"
    if hidden := len(all_problems) - len(problems):
        note = f"{count_noun(hidden, 'problem')} in other files; `skillrun validate {quote(folder)}` shows all"
    overrides = sorted(path for path in library.overrides().values() if part == "." or _is_below(path, part))
    if overrides and not is_shipped_library:
        replaced = f"your files replace shipped ones: {', '.join(overrides)}"
        note = f"{replaced}\nnote: {note}" if note else replaced
    if note and shape == "github":
        out.command(f"::notice title=skillrun::{_command_message(note, '')}")
    elif note:
        out.note(f"note: {note}")
    if shape == "sarif":
        out.data(_sarif_log(displayed_problems, library.roots))
    else:
        records = [asdict(problem) for problem in displayed_problems]
        out.data({"problems": records, "errors": errors, "warnings": warnings, "files": files, "overrides": overrides})
    return 1 if errors or (strict and warnings) else 0


def _summarize(problems: Sequence[Problem], *, is_complete: bool) -> tuple[list[Problem], list[str]]:
    """Return the problems to show, and a line for each kind of which some are left out."""
    by_kind: dict[tuple[str, str], list[Problem]] = {}
    for problem in problems:
        by_kind.setdefault((problem.severity, problem.code), []).append(problem)
    hidden = {
        kind: found[FIRST_OF_KIND:] for kind, found in by_kind.items() if len(found) > MAX_OF_KIND and not is_complete
    }
    lines = [
        f"… and {len(rest):,} more: {severity}[{code}] in {count_noun(len({each.path for each in rest}), 'file')}"
        for (severity, code), rest in hidden.items()
    ]
    left_out = {id(problem) for rest in hidden.values() for problem in rest}
    hint = ["`--all` shows every problem, and a file as PATH all of that file", ""] if lines else []
    return [problem for problem in problems if id(problem) not in left_out], [*lines, *hint]


def _is_below(path: str, part: str) -> bool:
    return path == part or path.startswith(f"{part}/")


def _displayed_project_path(project: Path, path: Path | None) -> str:
    """Return the path of the project's folder. The path is relative to the current folder, unless `path` is absolute
    and the current folder is not the project's folder."""
    is_absolute = path is not None and path.is_absolute() and Path.cwd() != Path(os.path.realpath(project))
    return str(project) if is_absolute else os.path.relpath(project)


def _github_command(problem: Problem, roots: Sequence[Root]) -> str:
    """Return a problem as a workflow command of GitHub Actions.

    If the file is outside the project and the current folder, the command's text contains its path.
    """
    path, foreign = _resolve_path(problem.path, roots)
    place = {} if foreign else {"file": str(path), "line": str(problem.line), "col": str(problem.column)}
    properties = []
    for key, value in {**place, "title": problem.code}.items():
        escaped = escape_line(value).replace("%", "%25").replace(":", "%3A").replace(",", "%2C")
        properties.append(f"{key}={escaped}")
    prefix = f"{problem.path}:{problem.line}:{problem.column}: " if foreign else ""
    text = _command_message(prefix + problem.message, problem.hint)
    return f"::{problem.severity} {','.join(properties)}::{text}"


def _sarif_log(problems: Sequence[Problem], roots: Sequence[Root]) -> dict[str, Any]:
    """Return the problems as a SARIF log. Codes become rules, and paths are relative to the current folder.

    The title of a rule consists of the words in its code; the description is from `CODES`.
    """
    codes = sorted({problem.code for problem in problems})
    rules = []
    for code in codes:
        title = code.replace("-", " ").capitalize()
        description = {"text": CODES.get(code, title)}
        texts = {"shortDescription": {"text": title}, "fullDescription": description, "help": {"text": RULE_HELP}}
        rules.append({"id": code, **texts})
    results = []
    for problem in problems:
        path, _ = _resolve_path(problem.path, roots)
        artifact = {"uri": quote_url(os.fsencode(path)), "uriBaseId": SOURCE_ROOT}
        if path.is_absolute() or ".." in path.parts:
            artifact = {"uri": Path(os.path.abspath(path)).as_uri()}  # noqa: PTH100 (does not resolve links)
        region = {"startLine": problem.line, "startColumn": problem.column}
        results.append(
            {
                "ruleId": problem.code,
                "ruleIndex": codes.index(problem.code),
                "level": problem.severity,
                "message": {"text": "\n".join(_message_lines(problem.message, problem.hint))},
                "locations": [{"physicalLocation": {"artifactLocation": artifact, "region": region}}],
            }
        )
    run = {
        "tool": {"driver": {"name": "skillrun", "version": __version__, "rules": rules}},
        "invocations": [{"executionSuccessful": True}],
        "originalUriBaseIds": {SOURCE_ROOT: {"uri": f"{Path.cwd().as_uri()}/"}},
        "columnKind": "unicodeCodePoints",
        "results": results,
    }
    return {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}


def _resolve_path(name: str, roots: Sequence[Root]) -> tuple[Path, bool]:
    """Return the path of a problem's file, and whether the file is outside the project and the current folder."""
    root = next((root for root in roots if root.label and name.startswith(root.label)), None)
    if root is None:
        return Path(name), False
    path = root.path / name.removeprefix(root.label)
    folder = Path.cwd()
    return (path.relative_to(folder), False) if path.is_relative_to(folder) else (path, True)


def _message_lines(message: str, hint: str) -> list[str]:
    return [escape_line(line) for line in (message, f"hint: {hint}" if hint else "") if line]


def _command_message(message: str, hint: str) -> str:
    """Return the text of a workflow command, on one line: line ends are written as `%0A`."""
    return "%0A".join(line.replace("%", "%25") for line in _message_lines(message, hint))
