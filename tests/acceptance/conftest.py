"""Shared fixtures: a project built from example libraries, and the command line run in it."""

import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from subprocess import DEVNULL, PIPE
from typing import Any

import pytest

from skillrun import registry
from skillrun.cli.main import main
from skillrun.repository.repository import load_tool
from tests.launcher import run_skillrun
from tests.shipped import share_shipped_library

EXAMPLES = Path(__file__).parents[1] / "examples" / "valid"


@pytest.fixture(scope="session", autouse=True)
def _share_shipped_library() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        share_shipped_library(patch)
        yield


@dataclass(frozen=True)
class Done:
    """The result of a command."""

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
    """Creates a project from the named example libraries and changes to its folder."""

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
    """Runs the command line in this process, without a terminal."""

    def call(*arguments: str) -> Done:
        capsys.readouterr()
        code = main(list(arguments))
        out, err = capsys.readouterr()
        return Done(code, out, err)

    return call


@pytest.fixture
def process() -> Call:
    """Runs the command line in a separate process, with empty standard input.

    `program` replaces it with other Python arguments, run in a fresh interpreter.
    """

    def call(*arguments: str, program: tuple[str, ...] = ()) -> Done:
        streams: dict[str, Any] = {"stdin": DEVNULL, "stdout": PIPE, "stderr": PIPE, "text": True}
        if program:
            done = subprocess.run([sys.executable, *program, *arguments], check=False, **streams)
        else:
            done = run_skillrun(*arguments, **streams)
        return Done(done.returncode, done.stdout, done.stderr)

    return call


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str, str, str], Path]]:
    """Installs a package that consists of one module and its entry points, and returns the folder of packages."""
    site = tmp_path / "site"
    monkeypatch.syspath_prepend(str(site))
    modules = []

    def install_package(name: str, code: str, entry_points: str) -> Path:
        (site / f"{name}-0.1.dist-info").mkdir(parents=True)
        (site / f"{name}.py").write_text(code)
        (site / f"{name}-0.1.dist-info" / "entry_points.txt").write_text(entry_points)
        registry.read_entry_points.cache_clear()
        modules.append(name)
        return site

    yield install_package
    registry.read_entry_points.cache_clear()
    load_tool.cache_clear()
    for name in modules:
        sys.modules.pop(name, None)
