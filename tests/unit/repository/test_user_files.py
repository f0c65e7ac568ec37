"""Paths on the command line: no link in a repository leads a written file out of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from skillrun.repository.paths import PathRefused
from skillrun.repository.user_files import open_user_path


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_a_link_of_an_outer_repository_does_not_lead_out_of_it(tmp_path: Path, depth: int) -> None:
    outer, outside = tmp_path / "outer", tmp_path / "outside"
    project = outer.joinpath(*["nested"] * depth)
    project.mkdir(parents=True)
    outside.mkdir()
    for repository in (project, *list(project.parents)[:depth]):
        (repository / ".git").mkdir()
        (repository / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
    (outer / "link").symlink_to(outside)
    with (
        pytest.raises(PathRefused),
        open_user_path(outer / "link" / "page.html", project) as (folder, name),
    ):
        folder.write(name, b"x")
    assert list(outside.iterdir()) == []
