"""Formats problems as SARIF 2.1.0 and as workflow commands of GitHub Actions."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from skillrun.library.roots import Root
from skillrun.syntax.codes import CODES
from skillrun.syntax.diagnostics import Problem, escape_line
from skillrun.version import __version__

SCHEMA: Final = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/os/schemas/sarif-schema-2.1.0.json"
SOURCE_ROOT: Final = "%SRCROOT%"  # SARIF's conventional name for the current folder
HELP: Final = "`skillrun validate` shows the line and the allowed values; docs/language.md describes the language."


def github_command(problem: Problem, roots: Iterable[Root]) -> str:
    """Return a problem as a workflow command.

    If the file is outside the project and the current folder, the command's text contains its path.
    """
    path, foreign = _resolve_path(problem.path, roots)
    place = {} if foreign else {"file": str(path), "line": str(problem.line), "col": str(problem.column)}
    properties = ",".join(f"{key}={_escape_property(value)}" for key, value in {**place, "title": problem.code}.items())
    prefix = f"{problem.path}:{problem.line}:{problem.column}: " if foreign else ""
    return f"::{problem.severity} {properties}::{_command_message(prefix + problem.message, problem.hint)}"


def github_notice(text: str) -> str:
    """Return a note as a workflow command."""
    return f"::notice title=skillrun::{_command_message(text, '')}"


def sarif_log(problems: Sequence[Problem], roots: Sequence[Root]) -> dict[str, Any]:
    """Return the problems as a SARIF log. Codes become rules, and paths are relative to the current folder."""
    codes = sorted({problem.code for problem in problems})
    run = {
        "tool": {"driver": {"name": "skillrun", "version": __version__, "rules": [_rule(code) for code in codes]}},
        "invocations": [{"executionSuccessful": True}],
        "originalUriBaseIds": {SOURCE_ROOT: {"uri": f"{Path.cwd().as_uri()}/"}},
        "columnKind": "unicodeCodePoints",
        "results": [_result(problem, codes.index(problem.code), roots) for problem in problems],
    }
    return {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}


def _rule(code: str) -> dict[str, Any]:
    """Return the rule for an error code. Its title is made of the code's words; its description is from `CODES`."""
    words = {"text": code.replace("-", " ").capitalize()}
    meaning = {"text": CODES[code]} if code in CODES else words
    return {"id": code, "shortDescription": words, "fullDescription": meaning, "help": {"text": HELP}}


def _result(problem: Problem, rule: int, roots: Iterable[Root]) -> dict[str, Any]:
    region = {"startLine": problem.line, "startColumn": problem.column}
    return {
        "ruleId": problem.code,
        "ruleIndex": rule,
        "level": problem.severity,
        "message": {"text": "\n".join(_message_lines(problem.message, problem.hint))},
        "locations": [
            {"physicalLocation": {"artifactLocation": _artifact_location(problem.path, roots), "region": region}}
        ],
    }


def _artifact_location(name: str, roots: Iterable[Root]) -> dict[str, str]:
    """Return the path relative to the current folder if the file is in it, otherwise a file URI."""
    path, _ = _resolve_path(name, roots)
    if path.is_absolute() or ".." in path.parts:
        return {"uri": Path(os.path.abspath(path)).as_uri()}  # noqa: PTH100 (does not resolve links)
    return {"uri": quote(os.fsencode(path)), "uriBaseId": SOURCE_ROOT}


def _resolve_path(name: str, roots: Iterable[Root]) -> tuple[Path, bool]:
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


def _escape_property(value: str) -> str:
    return escape_line(value).replace("%", "%25").replace(":", "%3A").replace(",", "%2C")
