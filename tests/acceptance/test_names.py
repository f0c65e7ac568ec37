"""Every command gets hostile names: it changes and shows nothing outside, and ends with a documented exit code."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from skillrun.cli.main import main
from tests.acceptance import names
from tests.acceptance.hostile import write
from tests.acceptance.names import Scene, Use, check, unlisted_commands

Call = Callable[..., Any]


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of runs with the completed run `hi`."""
    folder = tmp_path_factory.mktemp("names")
    write(folder, names.FILES)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("HOME", str(folder))
        assert main([*names.RUN, "--name", "hi"]) == 0
    return folder / "runs"


@pytest.fixture
def attempt(
    runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Callable[[Use, str], None]:
    """Try a use with a name in a new clone, in this process."""

    def run(arguments: list[str]) -> tuple[int, str]:
        capsys.readouterr()
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO()))
        code = main(arguments)
        return code, "".join(capsys.readouterr())

    def attempt(use: Use, name: str) -> None:
        scene = Scene.create(tmp_path / str(len(list(tmp_path.iterdir()))), runs)
        monkeypatch.chdir(scene.clone)
        try:
            check(use, name, scene, run)
        except BaseException as error:
            error.add_note(f"the use `{use}` with the name `{name}`")
            raise

    return attempt


def test_every_command_is_listed_with_its_names() -> None:
    assert unlisted_commands() == set(), "list the names that the command uses in tests/acceptance/names.py"


EXPENSIVE = ("demo", "report", "outdated", "skill", "init")  # commands that take long for each name
SAMPLE = [use for use in names.uses() if not use.planted and not use.case and use.arguments[0] not in EXPENSIVE]


@pytest.mark.finding("FS4")
@pytest.mark.parametrize("use", SAMPLE, ids=str)
def test_a_typed_name_leads_nowhere_else(use: Use, attempt: Callable[[Use, str], None]) -> None:
    for name in use.names():
        attempt(use, name)


@pytest.mark.slow
@pytest.mark.finding("FS4")
@pytest.mark.parametrize("use", [use for use in names.uses() if use not in SAMPLE], ids=str)
def test_a_name_in_the_clone_leads_nowhere_else(use: Use, attempt: Callable[[Use, str], None]) -> None:
    for name in use.names():
        attempt(use, name)


FORGED = "a\nforged\r::error::forged\x1b[31m ##[error]forged"
SHOWING: tuple[tuple[str, ...], ...] = (
    ("list",), ("validate",), ("validate", "--format", "sarif"), ("--help",), ("demo", "--help"), ("runs",),
    ("show", "hi"), ("logs", "hi"), ("resume", "hi", "--unattended"), ("answers", "hi"), ("test",), ("doctor",),
    ("models",), ("graph", "demo"), ("trust", "--show"), ("outdated",), ("sizes", "hi"), ("list", "--json"),
    ("report", "hi"), ("schema",),
)  # fmt: skip


@pytest.mark.finding("FS11", "FS12")
@pytest.mark.parametrize("arguments", SHOWING, ids=" ".join)
def test_names_and_values_of_a_clone_forge_no_line(
    arguments: tuple[str, ...], runs: Path, tmp_path: Path, skillrun: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    clone = Scene.create(tmp_path, runs).clone
    text = json.dumps(FORGED)
    for folder in ("workflows", "roles", "skills/demo", "tests/demo", "config"):
        name = f"{FORGED.replace('/', '')}.{'yaml' if folder == 'config' else 'md'}"
        write(clone, {f"{folder}/{name}": f"---\nname: {text}\ndescription: {text}\nkind: {text}\n---\n{FORGED}\n"})
    write(clone, {f"tests/demo/{number}.md": f"---\ninputs: {{what: hi}}\nexpect: {{{key}: {text}}}\n---\n"
                  for number, key in enumerate(("outcome", "path", "artifacts", "questions"))})  # fmt: skip
    write(clone, {"config/models.yaml": f"providers: {{{text}: {{kind: openai, base_url: {text}}}}}\n"})
    state = clone / "runs/hi/state.md"
    state.write_text(state.read_text().replace("status: completed", f"status: failed\nreason: {text}"))
    monkeypatch.chdir(clone)
    done = skillrun(*arguments)
    assert done.code in names.EXIT_CODES
    for line in (done.out + done.err).split("\n"):
        assert not line.startswith("forged")
        assert not line.lstrip().startswith("::error")
        assert "##[" not in line
        assert "\x1b" not in line
