"""The wheel holds the engine and the whole library, and nothing of the repository's surroundings."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LIBRARY = ("workflows", "skills", "roles", "config", "starters")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """The files of a freshly built wheel, by path."""
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (path,) = folder.glob("*.whl")
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def repository_files(*folders: str) -> dict[str, bytes]:
    """The tracked and new files below the folders, by path; what git ignores does not count."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", *folders],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    return {name: (ROOT / name).read_bytes() for name in listed.split("\0") if name and (ROOT / name).is_file()}


def test_every_library_file_ships_byte_for_byte(wheel: dict[str, bytes]) -> None:
    shipped = {name: body for name, body in wheel.items() if name.startswith("skillrun/library/")}
    library = repository_files(*LIBRARY)
    assert {Path(name).parts[0] for name in library} == set(LIBRARY)
    assert shipped == {f"skillrun/library/{name}": body for name, body in library.items()}


def test_every_engine_file_ships_byte_for_byte(wheel: dict[str, bytes]) -> None:
    engine = {name.removeprefix("engine/"): body for name, body in repository_files("engine/skillrun").items()}
    assert "skillrun/py.typed" in engine
    assert {name: body for name, body in wheel.items() if name in engine} == engine


def test_nothing_else_ships(wheel: dict[str, bytes]) -> None:
    tops = {name.split("/")[0] for name in wheel if ".dist-info/" not in name}
    assert tops == {"skillrun"}


def test_the_command_and_the_extras_are_declared(wheel: dict[str, bytes]) -> None:
    texts = {name.split("/")[-1]: body.decode() for name, body in wheel.items() if ".dist-info/" in name}
    assert "skillrun = skillrun.cli.main:main" in texts["entry_points.txt"]
    assert "Provides-Extra: local" in texts["METADATA"]
