"""`dev` watches the folders of the search path."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from skillrun.library.roots import PROJECT, USER, Root
from skillrun.watch.file_watcher import ChangedFiles, watch_files

SECONDS = 30  # an event arrives within milliseconds


async def changed_names(roots: list[Root], *files: Path) -> set[str]:
    """Save files one after the other, and return the names of the changes up to that of the last."""
    changes, names = ChangedFiles(asyncio.get_running_loop()), set()
    with watch_files(roots, changes):
        for file in files:
            file.write_text("x", encoding="utf-8")
        async with asyncio.timeout(SECONDS):
            while files[-1].name not in names:
                names |= {path.name for path in await changes.wait_for_changes()}
    return names


@pytest.mark.finding("FC2")
@pytest.mark.parametrize("is_confined", [True, False])
def test_a_folder_that_is_a_link_out_of_the_project_is_not_watched(tmp_path: Path, is_confined: bool) -> None:
    """A link to `/` would watch all folders of the machine. Links in the user's config folder are the user's."""
    outside, root = tmp_path / "outside", tmp_path / "root"
    for folder in (outside / "below", root / "roles", root / "inside"):
        folder.mkdir(parents=True)
    (root / "config").symlink_to(outside)
    (root / "skills").symlink_to("inside")
    roots = [Root(root, "", PROJECT if is_confined else USER, is_confined=is_confined)]
    files = [outside / "below" / "a.md", root / "inside" / "b.md", root / "roles" / "c.md"]
    names = asyncio.run(changed_names(roots, *files))
    assert names >= {"c.md"}
    assert ("a.md" in names) is not is_confined
