"""What the acceptance tests share: a project made of example libraries, and the command line called in it."""

import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Collection, Iterator
from copy import deepcopy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from skillrun.cli.main import main
from skillrun.language.check.checker import check_library, check_workflow
from skillrun.language.check.program import Program
from skillrun.language.library.library import Library
from skillrun.language.library.roots import Root, package_library

EXAMPLES = Path(__file__).parents[1] / "examples" / "valid"


@pytest.fixture(scope="session", autouse=True)
def _shipped_files_are_read_and_checked_once() -> Iterator[None]:
    """What `dev` does from one save to the next, tests do among themselves: hundreds run what is shipped.

    A workflow is checked once by a process as long as there are no files but the shipped ones.
    """
    shipped = Library([Root(package_library(), "skillrun:", "library")])
    check_library(shipped)
    checked: dict[tuple[str, tuple[str, ...]], tuple[Library, Program | None]] = {}

    def check(library: Library, name: str, commands: Collection[str] = ()) -> Program | None:
        if library._places != shipped._places:
            return check_workflow(library, name, commands)
        key = name, tuple(commands)
        if key not in checked:
            checked[key] = library, check_workflow(library, name, commands)
        first, program = checked[key]
        library.__dict__.update({**vars(first), "roots": library.roots, "problems": deepcopy(first.problems)})
        return replace(program, library=library) if program is not None else None

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            "skillrun.language.library.library.Library",
            lambda roots, earlier=shipped, **more: Library(roots, earlier, **more),
        )
        patch.setattr("skillrun.language.check.checker.check_workflow", check)
        yield


@dataclass(frozen=True)
class Done:
    """A command that has ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


Call = Callable[..., Done]
Make = Callable[..., Path]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Make:
    """Makes a project of the named example libraries, and goes there."""

    def make(*cases: str) -> Path:
        folder = tmp_path / "project"
        folder.mkdir(exist_ok=True)
        for case in cases:
            shutil.copytree(EXAMPLES / case, folder, dirs_exist_ok=True)
        monkeypatch.chdir(folder)
        return folder

    return make


@pytest.fixture
def skillrun(capsys: pytest.CaptureFixture[str]) -> Call:
    """The command line in this process, without a terminal."""

    def call(*arguments: str) -> Done:
        capsys.readouterr()
        code = main(list(arguments))
        out, err = capsys.readouterr()
        return Done(code, out, err)

    return call


@pytest.fixture
def process() -> Call:
    """The command line as a process of its own, with nothing to read."""

    def call(*arguments: str, program: tuple[str, ...] = ("-m", "skillrun")) -> Done:
        command = [sys.executable, *program, *arguments]
        done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)
        return Done(done.returncode, done.stdout, done.stderr)

    return call
