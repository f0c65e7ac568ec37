"""The example libraries: the valid ones are without problems, and each invalid one has the problems of `expected.txt`.

`SKILLRUN_UPDATE_EXAMPLES=1` writes every `expected.txt` anew, to be read in the diff.
"""

import os
from pathlib import Path

import pytest

from skillrun.cli.registry import COMMANDS
from skillrun.language.check import check_library
from skillrun.language.diagnostics import render
from skillrun.language.library import Library
from skillrun.language.roots import search_path

EXAMPLES = Path(__file__).parents[1] / "examples"
VALID = sorted((EXAMPLES / "valid").iterdir())
INVALID = sorted((EXAMPLES / "invalid").iterdir())
FINDINGS = {
    **dict.fromkeys(
        ("models-misspelt-key", "models-misspelt-kind", "models-numbers", "models-that-lead-nowhere"), "FL1"
    ),
    **dict.fromkeys(("models-unknown-provider", "input-default-unknown-member"), "FL20"),
    **dict.fromkeys(("phase-file-deleted", "unclosed-bracket", "lost-comma-in-braces", "methods-of-python"), "FL17"),
    **dict.fromkeys(("no-space-after-dash", "no-space-after-any-dash", "broken-condition-guards"), "FL17"),
    **dict.fromkeys(("missing-key-workflow",), "FL17"),
}
SHIPPED = Library(search_path(EXAMPLES))
check_library(SHIPPED)  # what all of them share is read once
UPDATE = bool(os.environ.get("SKILLRUN_UPDATE_EXAMPLES"))  # read here: the environment of a test has no such variable


def problems(case: Path) -> str:
    """What `skillrun validate` says about the case's own files."""
    library = Library(search_path(case), SHIPPED)
    check_library(library, COMMANDS)
    own = [problem for problem in library.problems if not problem.path.startswith("skillrun:")]
    return "\n\n".join(render(problem) for problem in own)


@pytest.mark.parametrize("case", VALID, ids=lambda case: case.name)
def test_a_valid_library_has_no_problems(case: Path) -> None:
    assert problems(case) == ""


@pytest.mark.row("X2")
@pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, marks=[pytest.mark.finding(FINDINGS[case.name])] if case.name in FINDINGS else [])
        for case in INVALID
    ],
    ids=lambda case: case.name,
)
def test_a_mistake_is_shown_with_its_place_and_a_way_out(case: Path) -> None:
    found = problems(case)
    expected = case / "expected.txt"
    if UPDATE:
        expected.write_text(f"{found}\n", encoding="utf-8")
    assert found, "the mistake is not found"
    assert f"{found}\n" == expected.read_text(encoding="utf-8")
