"""The example libraries: valid ones have no problems, and invalid ones have the problems in their `expected.txt`.

`SKILLRUN_UPDATE_EXAMPLES=1` rewrites every `expected.txt`; review the diff.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from skillrun.checker.checker import check_library
from skillrun.cli.registry import COMMANDS
from skillrun.extensions.lsp.workspace import CheckedLibrary, recheck
from skillrun.library.library import Library
from skillrun.library.roots import search_path
from skillrun.syntax.diagnostics import render_problem

EXAMPLES = Path(__file__).parents[1] / "examples"
VALID = sorted((EXAMPLES / "valid").iterdir())
INVALID = sorted((EXAMPLES / "invalid").iterdir())
FINDINGS = {
    "FL1": ("models-misspelt-key", "models-misspelt-kind", "models-numbers", "models-that-lead-nowhere"),
    "FL17": (
        "phase-file-deleted", "unclosed-bracket", "lost-comma-in-braces", "methods-of-python", "no-space-after-dash",
        "no-space-after-any-dash", "broken-condition-guards", "missing-key-workflow",
    ),
    "FL20": ("models-unknown-provider", "input-default-unknown-member"),
    "FL3": ("data-without-output",),
    "FL8": ("workshop",),
    "FX13": (
        "basket", "input-that-may-be-absent", "name-as-a-key", "read-of-a-path-input",
        "state-record-with-an-absent-field",
    ),
    "FR7": ("texts-that-nothing-reads",),
    "FR10": ("unordered-set", "unordered-set-and-read", "unordered-write"),
    "FR12": ("role-text-in-a-key", "texts-that-are-empty"),
    "FR13": ("include-of-another-tool",),
    "FT15": ("unordered-read",),
    "FT18": ("absent-after-a-skip",),
    "FT20": ("default-that-may-be-absent",),
    "FL9": (
        "at-most-a-computed-word", "comment-in-a-text", "file-written-over", "loop-that-asks-the-same",
        "matches-of-a-record", "member-outside-a-prompt-of-its-step", "never-equal-input", "range-in-the-description",
        "record-compared-with-a-text", "run-a-template", "text-for-a-number", "unused-input",
    ),
    "FL12": ("workshop", "panel-without-an-id", "section-that-no-protocol-reads"),
    "FL21": (
        "duplicate-id-of-another-verb", "equals-sign", "half-a-brace", "number-compared-with-a-text",
        "number-outside-its-range", "placeholder-of-another-notation", "step-behind-a-stop",
    ),
}  # fmt: skip
"""Review findings, and the cases that test their fixes."""
UPDATE = bool(os.environ.get("SKILLRUN_UPDATE_EXAMPLES"))  # read here: the environment of a test has no such variable


SLOW = {
    *("absent-with-its-reason", "config-keys-of-before", "config-of-another-type", "duplicate-member"),
    *("empty-seat", "errands", "input-of-no-protocol", "missing-input-of-protocol"),
    *("models-misspelt-key", "models-misspelt-kind", "models-numbers", "models-that-lead-nowhere"),
    *("models-unknown-provider", "outputs-that-differ-by-a-letter", "panel-without-an-id", "run-cycle"),
    *("seats-a-number", "section-that-no-protocol-reads", "token-lint", "token-lint-role"),
    *("too-many-members", "unknown-input-of-protocol", "unknown-key-config", "unknown-key-config-nested"),
    *("unknown-protocol", "unknown-seat-in-protocol", "workshop", "wrong-input-of-protocol"),
}
"""Cases with a file that shipped workflows also read, so that these are checked again."""


def cases(folders: list[Path]) -> Iterator[Any]:
    for case in folders:
        found = [finding for finding, names in FINDINGS.items() if case.name in names]
        marks = [pytest.mark.finding(*found)] if found else []
        yield pytest.param(case, id=case.name, marks=[*marks, pytest.mark.slow] if case.name in SLOW else marks)


@pytest.fixture(scope="session")
def shipped() -> CheckedLibrary:
    """The shipped library, read and checked once for all cases."""
    return recheck(Library(search_path(EXAMPLES)), COMMANDS)


def problems(case: Path, shipped: CheckedLibrary) -> str:
    """The problems that `skillrun validate` reports in the case's own files."""
    library = Library(search_path(case), shipped.library)
    if case.name == "run-cycle":  # two workflows run each other: only a check of both together reports one of them
        check_library(library, COMMANDS)
        found = list(library.problems)
    else:
        found = recheck(library, COMMANDS, shipped).problems
    own = [problem for problem in found if not problem.path.startswith("skillrun:")]
    return "\n\n".join(render_problem(problem) for problem in own)


@pytest.mark.slow
@pytest.mark.parametrize("case", list(cases(VALID)))
def test_a_valid_library_has_no_problems(case: Path, shipped: CheckedLibrary) -> None:
    assert problems(case, shipped) == ""


@pytest.mark.slow
@pytest.mark.row("X2")
@pytest.mark.parametrize("case", list(cases(INVALID)))
def test_a_mistake_is_reported_with_its_position_and_a_hint(case: Path, shipped: CheckedLibrary) -> None:
    found = problems(case, shipped)
    expected = case / "expected.txt"
    if UPDATE:
        expected.write_text(f"{found}\n", encoding="utf-8")
    assert found, "no problem is reported"
    assert f"{found}\n" == expected.read_text(encoding="utf-8")
