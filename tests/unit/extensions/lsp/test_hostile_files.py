"""A file of a project that must not be read is reported, and neither read nor waited for."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from skillrun.extensions.lsp.workspace import Workspace


def _plant_sparse(path: Path, _: Path) -> None:
    with path.open("wb") as file:
        file.truncate(200_000_000)


PLANTS: dict[str, Callable[[Path, Path], object]] = {
    "link to a device": lambda path, _: path.symlink_to("/dev/zero"),
    "pipe": lambda path, _: os.mkfifo(path),
    "link out": lambda path, secret: path.symlink_to(secret),
    "link loop": lambda path, _: path.symlink_to(path.name),
    "folder": lambda path, _: path.mkdir(),
    "large file": _plant_sparse,
}


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    path = tmp_path / "secret"
    path.write_text("CANARY\n")
    return path


@pytest.mark.finding("FS9")
@pytest.mark.parametrize("name", ["skills/x/y.md", "roles/x.md", "workflows/x.md", "config/x.yaml", "tests/x/y.md"])
@pytest.mark.parametrize("plant", PLANTS.values(), ids=PLANTS)
def test_the_text_of_a_hostile_file_is_not_read(
    plant: Callable[[Path, Path], object], name: str, tmp_path: Path, secret: Path
) -> None:
    project = tmp_path / "project"
    path = project / name
    path.parent.mkdir(parents=True)
    plant(path, secret)
    workspace = Workspace(project)
    assert workspace.text(path) is None
    for problem_path in workspace.check():
        assert "CANARY" not in (workspace.text(problem_path) or "")
