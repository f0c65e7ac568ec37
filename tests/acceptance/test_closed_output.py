"""Commands whose output is closed, as in `| head -1`, or cannot be written."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from skillrun.cli.main import main
from tests.acceptance.conftest import Call, Make

COMMANDS = [
    "list",
    "list --help",
    "--version",
    "logs ada",
    "show ada",
    "runs",
    "validate --json",
]


@pytest.fixture
def greeting(project: Make, skillrun: Call) -> Path:
    folder = project("greeting")
    assert skillrun("greeting", "Ada", "--name", "ada", "--model", "scripted:default").code == 0
    return folder


def run_without_reader(*command: str) -> int:
    """Return the exit code of a command whose standard output is a pipe without a reader."""
    reader, writer = os.pipe()
    os.close(reader)
    before = sys.stdout
    try:
        with os.fdopen(writer, "w") as sys.stdout:
            return main([*command])
    finally:
        sys.stdout = before


@pytest.mark.finding("FX9")
@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_without_a_reader_ends_with_its_own_exit_code(greeting: Path, skillrun: Call, command: str) -> None:
    assert run_without_reader(*command.split()) == skillrun(*command.split()).code


@pytest.mark.finding("FX9")
def test_validate_without_a_reader_still_fails_on_errors(greeting: Path) -> None:
    (greeting / "workflows" / "greeting.md").write_text("---\nname: greeting\n---\n")
    assert run_without_reader("validate") == 1


@pytest.mark.finding("FX9")
@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_fails_if_its_output_cannot_be_written(
    greeting: Path, command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    before = sys.stdout
    try:
        with Path("/dev/full").open("w") as sys.stdout:
            code = main(command.split())
    finally:
        sys.stdout = before
    assert (code, "No space left on device" in capsys.readouterr().err) == (1, True)
