"""Patterns match files as in a shell, but not through links that lead outside."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillrun.repository.confined_folder import ConfinedFolder
from skillrun.repository.matching import DEEPEST, find_matching_files
from skillrun.repository.paths import PathRefused

FILES = ("a.md", "b.txt", ".hidden.md", "sub/a.md", "sub/deep/c.md", "sub/deep/[x].md", "other/a.md")


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("matching")
    for name in FILES:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(name)
    return folder


@given(
    st.lists(
        st.sampled_from(["*", "**", "a.md", "sub", "deep", "*.md", "?.*", "[ab].*", "[!a]*", "c.md"]),
        min_size=1,
        max_size=4,
    )
)
def test_a_pattern_matches_like_pathlib(root: Path, parts: list[str]) -> None:
    pattern = "/".join(parts)
    expected = sorted({path.relative_to(root) for path in root.glob(pattern) if path.is_file()})
    with ConfinedFolder(root) as tree:
        assert find_matching_files(tree, pattern) == [path.as_posix() for path in expected]


@pytest.mark.row("Z3")
def test_files_behind_links_that_lead_out_do_not_match(tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret.md").write_text("secret")
    root = tmp_path / "root"
    (root / "sub").mkdir(parents=True)
    (root / "sub" / "a.md").write_text("a")
    (root / "out").symlink_to(tmp_path / "outside")
    (root / "far.md").symlink_to(tmp_path / "outside" / "secret.md")
    (root / "near.md").symlink_to("sub/a.md")
    (root / "loop").symlink_to(".")
    with ConfinedFolder(root) as tree, ConfinedFolder(root, links=True) as following:
        assert find_matching_files(tree, "**/*.md") == ["sub/a.md"]
        assert find_matching_files(following, "**/*.md") == ["near.md", "sub/a.md"]
        for pattern in ("out/*.md", "out/secret.md", "far.md", "*/secret.md"):
            assert find_matching_files(tree, pattern) == find_matching_files(following, pattern) == []
        assert find_matching_files(tree, "sub/../sub/*.md") == ["sub/a.md"]
        for pattern in ("../*", "/etc/*", "a\0b", "*" * 5000, "sub/../../*"):
            with pytest.raises(PathRefused):
                find_matching_files(tree, pattern)


def test_folders_that_are_too_deep_are_refused(tmp_path: Path) -> None:
    folder = tmp_path
    for _ in range(DEEPEST + 2):
        folder = folder / "d"
        folder.mkdir()
    with ConfinedFolder(tmp_path) as tree, pytest.raises(PathRefused, match=f"more than {DEEPEST} levels deep"):
        find_matching_files(tree, "**/*")
