"""A command line that skillrun does not understand gets a hint with the intended command."""

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
        ("ls", "`skillrun runs` lists runs, and `skillrun show RUN` shows a run"),
        ("STATUS", "`skillrun runs` lists runs, and `skillrun show RUN` shows a run"),
        ("continue", "`skillrun resume RUN` resumes a run, and repeats calls that failed"),
        ("validat", "did you mean `validate`?"),
        ("prune", "did you mean `store prune`?"),
        ("pul", "did you mean `store pull`?"),
        ("limit", "did you mean `worker limits`?"),
        ("xyzzy", "`skillrun --help` lists the workflows and commands"),
    ],
)
def test_an_unknown_command_gets_a_hint(project: Call, skillrun: Call, arguments: str, hint: str) -> None:
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
            "this input is the first argument, not an option: `skillrun greeting PERSON`",
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
def test_an_unknown_option_gets_the_inputs_or_a_suggestion(
    project: Call, skillrun: Call, arguments: str, message: str, hint: str
) -> None:
    project("greeting")
    done = skillrun(*arguments.split())
    assert (done.code, done.out, done.err) == (2, "", f"error: {message}\nhint: {hint}\n")


@pytest.mark.parametrize(
    ("arguments", "message", "hint"),
    [
        ("store prnue", "`skillrun store` has no command `prnue`", "did you mean `prune`?"),
        (
            "worker ada",
            "`skillrun worker` has no command `ada`",
            "`skillrun worker --help` lists its commands",
        ),
        (
            "worker --queue gpu list",
            "`--queue` before `list` has no effect",
            "write the options of `list` after its name: `skillrun worker list …`",
        ),
    ],
)
def test_an_unknown_subcommand_or_an_option_before_it_gets_a_hint(
    skillrun: Call, arguments: str, message: str, hint: str
) -> None:
    done = skillrun(*arguments.split())
    assert (done.code, done.out, done.err) == (2, "", f"error: {message}\nhint: {hint}\n")


@pytest.mark.finding("NC11")
def test_hints_are_for_unknown_commands_and_name_existing_ones() -> None:
    assert not OTHER_TOOLS.keys() & COMMANDS.keys()
    words = " ".join(OTHER_TOOLS.values()).replace("`", " ").split()
    named = {following for word, following in pairwise(words) if word == "skillrun"}
    assert {name for name in named if name.isalpha()} <= {*COMMANDS}
