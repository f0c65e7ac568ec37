"""A folder opened by its descriptor: only files inside are reachable, even if folders are swapped meanwhile."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from skillrun.repository.confined_folder import ConfinedFolder, entries
from skillrun.repository.paths import PathRefused
from skillrun.store.local.local_files import write_atomic

SECRET = b"secret"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A folder with files and links: inside, to the outside, to itself, and through a folder and back."""
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret.txt").write_bytes(SECRET)
    folder = tmp_path / "root"
    (folder / "inner" / "deep").mkdir(parents=True)
    (folder / "inner" / "file.txt").write_bytes(b"text")
    (folder / "near").symlink_to("inner/file.txt")
    (folder / "round").symlink_to("inner/../inner")
    (folder / "inner" / "deep" / "up").symlink_to("../file.txt")
    (folder / "whole").symlink_to(folder / "inner")
    (folder / "far").symlink_to(tmp_path / "outside" / "secret.txt")
    (folder / "up").symlink_to("../outside")
    (folder / "loop").symlink_to("loop")
    return folder


def refusal(tree: ConfinedFolder, name: str) -> str:
    with pytest.raises(PathRefused) as caught:
        tree.read(name, 100)
    return str(caught.value)


@pytest.mark.parametrize(
    "name", ["inner/file.txt", "near", "round/file.txt", "inner/deep/up", "whole/file.txt", "./inner//deep/../file.txt"]
)
def test_files_inside_are_read_and_links_followed(root: Path, name: str) -> None:
    with ConfinedFolder(root, links=True) as tree:
        assert tree.read(name, 100) == b"text"
        assert tree.is_file(name)


@pytest.mark.parametrize("name", ["far", "up/secret.txt", "../outside/secret.txt", "inner/../../outside/secret.txt"])
@pytest.mark.parametrize("links", [True, False])
@pytest.mark.row("Z3")
def test_no_path_leads_out(root: Path, name: str, links: bool) -> None:
    with ConfinedFolder(root, links=links) as tree:
        assert "leads" in refusal(tree, name)
        assert not tree.is_file(name)


@pytest.mark.row("Z3")
def test_absolute_circular_and_too_long_paths_and_nul_are_refused(root: Path) -> None:
    with ConfinedFolder(root, links=True) as tree:
        assert "absolute" in refusal(tree, str(root / "near"))
        assert "too many symbolic links" in refusal(tree, "loop")
        assert "NUL" in refusal(tree, "a\0b")
        assert "4,096 characters" in refusal(tree, "c/" * 2_000_000)


@pytest.mark.row("Z3")
@pytest.mark.parametrize("name", ["near", "round/file.txt", "whole/file.txt"])
def test_links_are_not_followed_by_default(root: Path, name: str) -> None:
    with ConfinedFolder(root) as tree:
        assert "symbolic link" in refusal(tree, name)


@pytest.mark.row("Z3")
def test_a_hard_link_to_an_outside_file_is_refused_by_default(root: Path, tmp_path: Path) -> None:
    os.link(tmp_path / "outside" / "secret.txt", root / "second")
    with ConfinedFolder(root) as tree:
        assert "hard link" in refusal(tree, "second")


@pytest.mark.row("Z3")
def test_special_files_are_refused_immediately(root: Path) -> None:
    os.mkfifo(root / "fifo")
    with socket.socket(socket.AF_UNIX) as server, ConfinedFolder(root) as tree:
        server.bind(str(root / "s"))
        assert "not a regular file" in refusal(tree, "fifo")
        with pytest.raises((PathRefused, OSError)):
            tree.read("s", 100)
        with pytest.raises(IsADirectoryError):
            tree.read("inner", 100)


def test_a_missing_file_is_not_found(root: Path) -> None:
    with ConfinedFolder(root) as tree:
        for name in ("no", "no/where", "inner/no"):
            with pytest.raises(FileNotFoundError):
                tree.read(name, 100)
        with pytest.raises(NotADirectoryError):
            tree.read("inner/file.txt/x", 100)


def test_reading_beyond_the_limit_returns_one_extra_byte(root: Path) -> None:
    with ConfinedFolder(root) as tree:
        assert tree.read("inner/file.txt", 3) == b"text"
        assert tree.read("inner/file.txt", 2) == b"tex"


def test_a_folder_is_listed_with_the_kind_of_each_entry(root: Path) -> None:
    os.mkfifo(root / "inner" / "fifo")
    with ConfinedFolder(root) as tree:
        assert tree.entries("inner") == [("deep", "folder"), ("fifo", "other"), ("file.txt", "file")]
        assert ("far", "link") in tree.entries()


def test_parent_folders_are_created_but_not_behind_a_link(root: Path, tmp_path: Path) -> None:
    with ConfinedFolder(root) as tree:
        with tree.open_parent("new/folder/file.md", create=True, mode=0o700) as (folder, leaf):
            assert leaf == "file.md"
            os.close(os.open(leaf, os.O_WRONLY | os.O_CREAT, 0o600, dir_fd=folder))
            os.fsync(folder)
        assert (root / "new" / "folder" / "file.md").is_file()
        with pytest.raises(PathRefused), tree.open_parent("up/new.md", create=True):
            raise AssertionError
        for name in ("", ".", "inner/", "inner/.."):
            with pytest.raises(PathRefused), tree.open_parent(name):
                raise AssertionError
    assert [path.name for path in (tmp_path / "outside").iterdir()] == ["secret.txt"]


def test_an_open_folder_stays_the_same_after_a_rename(root: Path, tmp_path: Path) -> None:
    with ConfinedFolder(root) as tree, tree.open_folder("inner") as inner:
        root.rename(tmp_path / "elsewhere")
        (tmp_path / "root").symlink_to(tmp_path / "outside")
        assert inner.read("file.txt", 100) == b"text"
        with pytest.raises(FileNotFoundError):
            tree.read("secret.txt", 100)


def test_no_descriptor_is_leaked(root: Path) -> None:
    before = len(list(Path("/dev/fd").iterdir()))
    for _ in range(20):
        with ConfinedFolder(root, links=True) as tree:
            tree.read("inner/deep/up", 100)
            tree.entries("inner/deep")
            for name in ("far", "loop", "no/where"):
                assert not tree.is_file(name)
            with tree.open_folder("inner"), tree.open_parent("inner/x"):
                pass
    assert len(list(Path("/dev/fd").iterdir())) == before


@pytest.mark.row("Z3")
def test_the_folder_itself_must_not_be_a_link_by_default(root: Path, tmp_path: Path) -> None:
    (tmp_path / "linked").symlink_to(root)
    with pytest.raises(PathRefused, match="linked is a symbolic link"):
        ConfinedFolder(tmp_path / "linked")
    with ConfinedFolder(tmp_path / "linked", links=True) as tree:
        assert tree.read("near", 100) == b"text"
    with ConfinedFolder(tmp_path / "linked" / "inner") as tree:  # links in parent folders are allowed
        assert tree.read("file.txt", 100) == b"text"
    with pytest.raises(NotADirectoryError):
        ConfinedFolder(root / "inner" / "file.txt")


def test_a_missing_file_has_no_status(root: Path) -> None:
    with ConfinedFolder(root) as tree:
        status = tree.stat_file("inner/file.txt")
        assert status is not None
        assert status.st_size == 4
        assert tree.stat_file("inner/no") is tree.stat_file("no/where") is tree.stat_file("inner/file.txt/x") is None
        assert tree.is_user_owned("inner")
        with pytest.raises(PathRefused):
            tree.stat_file("far")
        with pytest.raises(IsADirectoryError):
            tree.stat_file("inner")


def test_a_system_error_names_the_complete_path(root: Path) -> None:
    with ConfinedFolder(root) as tree:
        with pytest.raises(FileNotFoundError) as read_error:
            tree.read("inner/no.txt", 10)
        assert read_error.value.filename == str(root / "inner" / "no.txt")
        with pytest.raises(IsADirectoryError) as write_error:
            write_atomic(tree, "inner/deep", "x")
        assert write_error.value.filename == str(root / "inner" / "deep")
        with pytest.raises(FileNotFoundError) as unlink_error, tree.open_parent("inner/new.md") as (folder, _):
            os.unlink(".new.tmp", dir_fd=folder)
        assert unlink_error.value.filename == str(root / "inner" / "new.md")


@pytest.mark.row("Z3")
def test_only_regular_files_are_opened_for_writing_and_not_truncated(root: Path, tmp_path: Path) -> None:
    os.mkfifo(root / "fifo")
    os.link(tmp_path / "outside" / "secret.txt", root / "second")
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT
    with ConfinedFolder(root) as tree:
        for name in ("inner/file.txt", "inner/new.txt"):
            with os.fdopen(tree.open(name, flags), "ab") as file:
                file.write(b"+")
        for name in ("fifo", "second", "far", "up/new.txt"):
            with pytest.raises(PathRefused):
                tree.open(name, flags)
    assert (root / "inner" / "file.txt").read_bytes() == b"text+"
    assert (root / "inner" / "new.txt").stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "outside" / "secret.txt").read_bytes() == SECRET


@pytest.mark.row("Z3")
def test_removing_deletes_links_but_not_their_targets(root: Path, tmp_path: Path) -> None:
    (root / "inner" / "out").symlink_to(tmp_path / "outside")
    with ConfinedFolder(root) as tree:
        for name in ("far", "up", "inner"):
            tree.remove(name)
        with pytest.raises(FileNotFoundError):
            tree.remove("no")
    assert not (root / "inner").exists()
    assert (tmp_path / "outside" / "secret.txt").read_bytes() == SECRET


@pytest.mark.row("Z5")
def test_a_folder_can_be_made_private(root: Path, tmp_path: Path) -> None:
    for folder in (root, root / "inner", tmp_path / "outside"):
        folder.chmod(0o755)
    with ConfinedFolder(root) as tree:
        tree.make_private()
        tree.make_private("inner")
        with pytest.raises((PathRefused, OSError)):
            tree.make_private("up")
    assert {path.stat().st_mode & 0o777 for path in (root, root / "inner")} == {0o700}
    assert (tmp_path / "outside").stat().st_mode & 0o777 == 0o755


@pytest.mark.parametrize(
    ("name", "real"),
    [
        ("near", "inner/file.txt"),
        ("round/file.txt", "inner/file.txt"),
        ("whole/deep/up", "inner/file.txt"),
        ("./inner//deep/..", "inner"),
        ("whole", "inner"),
        (".", "."),
        ("inner/..", "."),
    ],
)
def test_an_open_path_has_its_resolved_name(root: Path, name: str, real: str) -> None:
    with ConfinedFolder(root, links=True) as tree, tree.open_path(name) as opened:
        assert (opened.name, opened.is_folder) == (real, real != "inner/file.txt")
        assert os.path.samestat(os.fstat(opened.descriptor), (root / real).stat())


def test_an_open_folder_can_be_listed_partially(root: Path) -> None:
    with ConfinedFolder(root) as tree, tree.open_path("inner") as opened:
        assert entries(opened.descriptor) == [("deep", "folder"), ("file.txt", "file")]
        assert len(entries(opened.descriptor, 1)) == 1


def test_following_a_link_can_be_disabled(root: Path) -> None:
    with ConfinedFolder(root, links=True) as tree:
        assert tree.read("whole/file.txt", 100, follow=False) == b"text"
        with pytest.raises(OSError, match="symbolic links"):
            tree.read("near", 100, follow=False)


@pytest.mark.row("Z3")
def test_a_lone_surrogate_is_refused_in_a_name(root: Path) -> None:
    with ConfinedFolder(root) as tree:
        assert "half of a surrogate pair" in refusal(tree, "a\ud800")


@pytest.mark.row("Z3")
def test_a_sibling_with_the_same_name_prefix_is_outside(root: Path) -> None:
    (root.parent / "root-2").mkdir()
    (root.parent / "root-2" / "file").write_bytes(SECRET)
    (root / "twin").symlink_to(root.parent / "root-2" / "file")
    with ConfinedFolder(root, links=True) as tree:
        assert "leads out" in refusal(tree, "twin")


PARTS = st.sampled_from(
    [
        "..",
        ".",
        "",
        "inner",
        "up",
        "far",
        "near",
        "loop",
        "file.txt",
        "~",
        "outside",
        "root",
        "\0",
        "ä",
        "whole",
        "deep",
    ]
)


@pytest.mark.row("B12", "Z3")
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.lists(PARTS | st.text(max_size=5), max_size=8).map("/".join), st.booleans())
def test_any_path_that_opens_is_inside(root: Path, path: str, links: bool) -> None:
    with ConfinedFolder(root, links=links) as tree:
        try:
            with tree.open_path(path) as opened:
                real = os.path.realpath(root / opened.name)
                assert os.path.samestat(os.fstat(opened.descriptor), os.stat(real))  # noqa: PTH116
        except (PathRefused, FileNotFoundError, NotADirectoryError):
            return
    assert os.path.commonpath([real, str(root.resolve())]) == str(root.resolve())
