"""The wheel holds the engine, the library and the licence, and nothing else; the sdist holds all sources."""

import subprocess
import sys
import tarfile
import zipfile
from email.message import Message
from email.parser import BytesParser
from pathlib import Path

import pytest

from skillrun.extensions.outline.grammars import _BY_EXTENSION

ROOT = Path(__file__).parents[2]
LIBRARY = ("workflows", "skills", "roles", "config", "starters")


def build(target: str, folder: Path) -> Path:
    """Build the wheel or the sdist into the folder, without fetching a build environment."""
    command = [sys.executable, "-m", "hatchling", "build", "-t", target, "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (path,) = folder.iterdir()
    return path


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """The files of a freshly built wheel, by path."""
    with zipfile.ZipFile(build("wheel", tmp_path_factory.mktemp("wheel"))) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def metadata(wheel: dict[str, bytes]) -> Message:
    """Return the METADATA file of the wheel."""
    (body,) = (body for name, body in wheel.items() if name.endswith(".dist-info/METADATA"))
    return BytesParser().parsebytes(body)


def repository_files(*folders: str) -> dict[str, bytes]:
    """Return the tracked and new files below the folders, by path, without files that git ignores."""
    output = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", *folders],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    return {name: (ROOT / name).read_bytes() for name in output.split("\0") if name and (ROOT / name).is_file()}


@pytest.mark.slow
def test_every_library_file_ships_byte_for_byte(wheel: dict[str, bytes]) -> None:
    shipped = {name: body for name, body in wheel.items() if name.startswith("skillrun/content/")}
    library = repository_files(*LIBRARY)
    assert {Path(name).parts[0] for name in library} == set(LIBRARY)
    assert shipped == {f"skillrun/content/{name}": body for name, body in library.items()}


def test_every_engine_file_ships_byte_for_byte(wheel: dict[str, bytes]) -> None:
    engine = {name.removeprefix("engine/"): body for name, body in repository_files("engine/skillrun").items()}
    assert "skillrun/py.typed" in engine
    assert {name: body for name, body in wheel.items() if name in engine} == engine


def test_the_wheel_contains_nothing_else(wheel: dict[str, bytes]) -> None:
    top_folders = {name.split("/")[0] for name in wheel if ".dist-info/" not in name}
    assert top_folders == {"skillrun"}


def test_the_command_and_the_extras_are_declared(wheel: dict[str, bytes]) -> None:
    (entry_points,) = (body.decode() for name, body in wheel.items() if name.endswith("/entry_points.txt"))
    assert "skillrun = skillrun.cli.main:main" in entry_points
    assert {"local", "outline"} <= set(metadata(wheel).get_all("Provides-Extra") or [])


def test_only_the_extra_outline_requires_the_grammars(wheel: dict[str, bytes]) -> None:
    requirements = metadata(wheel).get_all("Requires-Dist") or []
    grammars = {name.replace("_", "-") for name in {grammar.module for grammar in _BY_EXTENSION.values()}}
    required = {line.partition(">=")[0]: line.partition(";")[2] for line in requirements if "tree-sitter" in line}
    assert required == dict.fromkeys({"tree-sitter", *grammars}, " extra == 'outline'")
    installations = {"Makefile": ".[outline]", "Dockerfile": "[workers,outline]", "docs/tutorial.md": "'.[outline]'"}
    assert [name for name, text in installations.items() if text not in (ROOT / name).read_text()] == []


@pytest.mark.row("N1")
def test_the_licence_is_declared_and_included(wheel: dict[str, bytes]) -> None:
    licence = (ROOT / "LICENSE").read_bytes()
    assert licence.startswith(b"MIT License\n\nCopyright (c) 2026 the skillrun authors\n")
    assert metadata(wheel)["License-Expression"] == "MIT"
    assert metadata(wheel).get_all("License-File") == ["LICENSE"]
    assert [body for name, body in wheel.items() if name.endswith(".dist-info/licenses/LICENSE")] == [licence]


@pytest.mark.slow  # compresses the recorded runs in docs/
def test_the_sdist_holds_the_sources_the_tests_the_docs_and_the_licence(tmp_path: Path) -> None:
    with tarfile.open(build("sdist", tmp_path)) as archive:
        members = {member.name.split("/", 1)[1]: archive.extractfile(member) for member in archive.getmembers()}
        sdist = {name: file.read() for name, file in members.items() if file is not None}
    pages = ("LICENSE", "README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")
    tracked = repository_files("engine/skillrun", *LIBRARY, "tests", "docs", "docsite", "pyproject.toml", *pages)
    assert [name for name, body in tracked.items() if sdist.get(name) != body] == []
