"""Installing an extra: the hint depends on the origin of the program, and no text installs it by its bare name."""

import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import pytest

from skillrun.installation import DISTRIBUTION, extra_hint, find_conflict

InstallFrom = Callable[[dict[str, Any] | None], None]

ROOT: Final = Path(__file__).parents[2]
CHECKOUT: Final = "in a checkout of skillrun, `pip install '.[editor]'`"
INSTALLER: Final = re.compile(
    r"\b(?:(?:pip3?|pipx|uv|poetry|pdm)\b[^\n`;|&#]*?\b(?:install|download|run|add|wheel)|uvx)\b([^\n`;|&#]*)"
)
REQUIREMENT: Final = re.compile(r"skillrun(?:[-_.]workflows)?(?:\[.*)?(?:[=<>!~].*)?", re.IGNORECASE)


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder, the only one that is searched for distributions."""
    folder = tmp_path / "site-packages"
    monkeypatch.setattr(sys, "path", [str(folder)])
    return folder


def add_distribution(site: Path, name: str, **files: str) -> None:
    """Install a distribution that consists of its metadata."""
    folder = site / f"{name.replace('-', '_')}-0.1.0.dist-info"
    folder.mkdir(parents=True)
    (folder / "METADATA").write_text(f"Metadata-Version: 2.4\nName: {name}\nVersion: 0.1.0\n")
    for file, text in files.items():
        (folder / file).write_text(text)


@pytest.fixture
def install_from(site: Path) -> InstallFrom:
    """Return a function that installs the program with the given contents of `direct_url.json`."""

    def add(origin: dict[str, Any] | None) -> None:
        add_distribution(site, DISTRIBUTION, **{} if origin is None else {"direct_url.json": json.dumps(origin)})

    return add


def test_the_distribution_has_the_expected_name() -> None:
    assert tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["name"] == DISTRIBUTION


def test_an_extra_of_an_editable_install_comes_from_its_folder(install_from: InstallFrom, tmp_path: Path) -> None:
    folder = tmp_path / "my checkout"
    folder.mkdir()
    install_from({"url": folder.as_uri(), "dir_info": {"editable": True}})
    assert extra_hint("editor") == f"`{sys.executable} -m pip install --editable '{folder}[editor]'`"


def test_an_extra_of_a_wheel_comes_from_that_wheel(install_from: InstallFrom, tmp_path: Path) -> None:
    wheel = tmp_path / "skillrun_workflows-0.1.0-py3-none-any.whl"
    wheel.touch()
    install_from({"url": wheel.as_uri(), "archive_info": {}})
    hint = extra_hint("editor")
    assert hint == f"`{sys.executable} -m pip install 'skillrun-workflows[editor] @ {wheel.as_uri()}'`"
    wheel.unlink()
    assert extra_hint("editor") == CHECKOUT


def test_an_extra_of_a_repository_comes_from_the_installed_commit(install_from: InstallFrom) -> None:
    install_from({"url": "https://example.org/skillrun.git", "vcs_info": {"vcs": "git", "commit_id": "0a1b2c"}})
    assert "'skillrun-workflows[editor] @ git+https://example.org/skillrun.git@0a1b2c'" in extra_hint("editor")


@pytest.mark.parametrize("is_installed", [True, False])
def test_without_a_known_origin_the_hint_uses_a_checkout(install_from: InstallFrom, is_installed: bool) -> None:
    if is_installed:
        install_from(None)
    assert extra_hint("editor") == CHECKOUT


def test_an_unrelated_distribution_with_the_program_name_is_detected(site: Path) -> None:
    add_distribution(site, DISTRIBUTION)
    assert find_conflict() == ""
    add_distribution(site, "skillrun")
    assert find_conflict() == "skillrun 0.1.0 is an unrelated package that overwrites files of this program"


def test_the_program_under_its_former_name_is_recognized(site: Path) -> None:
    add_distribution(site, "skillrun", **{"entry_points.txt": "[console_scripts]\nskillrun = skillrun.cli.main:main\n"})
    assert find_conflict() == "skillrun 0.1.0 is this program under its former name"


def test_no_module_depends_on_the_file_that_the_unrelated_distribution_overwrites() -> None:
    statement = re.compile(r"^ *from skillrun import [^\n]*__version__|\bskillrun\.__version__", re.MULTILINE)
    engine = ROOT / "engine" / "skillrun"
    assert [str(path) for path in engine.rglob("*.py") if statement.search(path.read_text(encoding="utf-8"))] == []


def bare_installs(text: str) -> list[str]:
    """Return the install commands in a text that would fetch skillrun from a package index by its name alone."""
    commands = []
    for match in INSTALLER.finditer(text.replace("\\\n", " ")):
        words = [word.strip("\"'()[],.:") for word in match[1].split()]
        names = [word for word, next_word in pairwise([*words, ""]) if next_word != "@"]
        if "--no-index" not in match[0] and any(REQUIREMENT.fullmatch(name) for name in names):
            commands.append(match[0])
    return commands


@pytest.mark.parametrize(
    "text",
    [
        "pip install skillrun",
        "`pip install 'skillrun[editor]'`",
        "python3 -m pip install --quiet skillrun-workflows",
        "pip install --upgrade \\\n    'Skillrun_Workflows[local]==0.1.0'",
        "pip download skillrun>=0.1",
        "pipx install skillrun",
        "pipx run skillrun list",
        "uv tool install skillrun-workflows",
        "uv pip install rich skillrun",
        "uv add 'skillrun[workers]'",
        "uvx --from skillrun-workflows skillrun list",
        '["-m", "pip", "install", "skillrun"]',
    ],
)
def test_an_install_by_the_bare_name_is_detected(text: str) -> None:
    assert bare_installs(f"Type this:\n{text}\n") != []


@pytest.mark.parametrize(
    "text",
    [
        "`pip install '.[editor]'` in a checkout of skillrun",
        "pip install 'skillrun-workflows[editor] @ file:///tmp/skillrun_workflows-0.1.0-py3-none-any.whl'",
        "pip install ./skillrun_workflows-0.1.0-py3-none-any.whl",
        "pip install --no-index --find-links=/wheels 'skillrun-workflows[workers]'",
        "pip install . && skillrun validate",
        "pip uninstall skillrun",
    ],
)
def test_an_install_from_a_known_location_is_accepted(text: str) -> None:
    assert bare_installs(text) == []


@pytest.mark.row("N1")
def test_no_text_in_the_repository_installs_skillrun_by_its_bare_name() -> None:
    candidates = r"\b(pip3?|pipx|uvx?|poetry|pdm)\b|skillrun\["
    search = ["git", "grep", "--files-with-matches", "-z", "-I", "-E", candidates]
    output = subprocess.run(search, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    found = {}
    for path in (ROOT / name for name in output.rstrip("\0").split("\0")):
        if path == Path(__file__):
            continue
        text = path.read_text(encoding="utf-8", errors="ignore")
        if installs := bare_installs(text) + re.findall(r"(?<![\w/-])skillrun\[[a-z]+\]", text):
            found[str(path)] = installs
    assert found == {}
