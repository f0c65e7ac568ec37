"""A command line that skillrun does not understand gets a hint with the command that was meant."""

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest

from skillrun.cli.registry import COMMANDS
from skillrun.cli.usage_errors import OTHER_TOOLS

Call = Callable[..., Any]


@pytest.mark.finding("NC11")
@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        ("run greeting", "start a run with the name of its workflow: `skillrun greeting …`"),
        ("start workflows/greeting.md", "start a run with the name of its workflow: `skillrun greeting …`"),
        ("run X", "start a run with the name of its workflow: `skillrun WORKFLOW …`"),
        ("run", "start a run with the name of its workflow: `skillrun WORKFLOW …`"),
        ("watch greeting", "`skillrun dev greeting` reruns a workflow on every save"),
        ("greeting.md", "use the workflow's name, without folder and `.md`: `greeting`"),
        ("workflows/greeting.md", "use the workflow's name, without folder and `.md`: `greeting`"),
        ("dev greeting.md", "use the workflow's name, without folder and `.md`: `greeting`"),
        ("graph workflows/greeting.md", "use the workflow's name, without folder and `.md`: `greeting`"),
        ("help", "`skillrun --help` shows the help"),
        ("help greeting", "`skillrun greeting --help` shows the help"),
        ("help runs", "`skillrun runs --help` shows the help"),
        ("help nonsense", "`skillrun --help` shows the help"),
        ("version", "`skillrun --version` prints the version"),
        ("ls", "`skillrun runs` lists runs, `skillrun show RUN` shows one"),
        ("STATUS", "`skillrun runs` lists runs, `skillrun show RUN` shows one"),
        ("continue", "`skillrun resume RUN` resumes a run, and repeats calls that failed"),
        ("validat", "did you mean `validate`?"),
        ("xyzzy", "`skillrun --help` lists the workflows and commands"),
    ],
)
def test_an_unknown_command_names_the_one_to_type(project: Call, skillrun: Call, arguments: str, hint: str) -> None:
    project("greeting")
    done = skillrun(*arguments.split())
    assert (done.code, done.out, done.err.splitlines()[1:]) == (2, "", [f"hint: {hint}"])


@pytest.mark.finding("NC11")
@pytest.mark.parametrize(
    ("arguments", "message", "hint"),
    [
        (
            "greeting --log x",
            "`greeting` has no option `--log`",
            (
                "inputs: PERSON (first argument), --tone, --lines, --loud, --topics; "
                "`skillrun greeting --help` shows its arguments and options"
            ),
        ),
        (
            "greeting --person Ada",
            "`greeting` has no option `--person`",
            "its first argument is that input, without an option: `skillrun greeting PERSON`",
        ),
        ("greeting Ada --tne warm", "`greeting` has no option `--tne`", "did you mean `--tone`?"),
        ("runs --al", "`runs` has no option `--al`", "`skillrun runs --help` shows its arguments and options"),
        ("--verbose", "`skillrun` has no option `--verbose`", "`skillrun --help` shows its arguments and options"),
        (
            "show",
            "Missing argument 'RUN'.",
            "`skillrun runs` lists the runs; `skillrun show --help` shows its arguments and options",
        ),
    ],
)
def test_an_unknown_option_names_the_inputs_or_the_option_that_is_close(
    project: Call, skillrun: Call, arguments: str, message: str, hint: str
) -> None:
    project("greeting")
    done = skillrun(*arguments.split())
    assert (done.code, done.out, done.err) == (2, "", f"error: {message}\nhint: {hint}\n")


@pytest.mark.finding("NC11")
def test_no_hint_stands_for_a_command_that_exists_or_names_one_that_does_not() -> None:
    assert not OTHER_TOOLS.keys() & COMMANDS.keys()
    words = " ".join(OTHER_TOOLS.values()).replace("`", " ").split()
    named = {after for word, after in pairwise(words) if word == "skillrun"}
    assert {name for name in named if name.isalpha()} <= {*COMMANDS}
