"""Writes are atomic, and files have the requested mode."""

import hashlib
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from skillrun.repository.confined_folder import ConfinedFolder
from skillrun.repository.user_files import create_files
from skillrun.store import kill_points
from skillrun.store.files import sha256_of
from skillrun.store.local.local_files import remove_leftovers, write_atomic

PROGRAM = """
import sys
from pathlib import Path
from skillrun.store.local.local_files import write_atomic
from skillrun.repository.confined_folder import ConfinedFolder
write_atomic(ConfinedFolder(Path(sys.argv[1])), "a.md", "new")
"""


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o027, 0o077, 0o277, 0o777])
@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.row("B9", "Z5")
@pytest.mark.finding("FZ17", "FT8", "FR52")
def test_files_and_folders_are_private_or_readable_whatever_the_umask(tmp_path: Path, umask: int, shared: bool) -> None:
    before = os.umask(umask)
    try:
        write_atomic(ConfinedFolder(tmp_path), "sub/a.md", "line\nünïcode\n", shared=shared)
    finally:
        os.umask(before)
    file = tmp_path / "sub" / "a.md"
    assert file.read_bytes() == "line\nünïcode\n".encode()
    assert file.stat().st_mode & 0o777 == (0o644 if shared else 0o600)
    assert file.parent.stat().st_mode & 0o777 == (0o755 if shared else 0o700)


@pytest.mark.parametrize(("umask", "mode"), [(0o022, 0o755), (0o077, 0o700)])
@pytest.mark.finding("FT8")
def test_the_umask_limits_the_folders_of_the_users_files(tmp_path: Path, umask: int, mode: int) -> None:
    before = os.umask(umask)
    try:
        create_files(tmp_path, {"new/deep/a.md": "text"}, tmp_path)
        ConfinedFolder(tmp_path).write("other/b.md", b"text")
    finally:
        os.umask(before)
    folders = [tmp_path / name for name in ("new", "new/deep", "other")]
    assert [folder.stat().st_mode & 0o777 for folder in folders] == [mode] * 3


def test_a_file_is_replaced_and_no_other_file_remains(tmp_path: Path) -> None:
    write_atomic(ConfinedFolder(tmp_path), "a", b"\x00old")
    write_atomic(ConfinedFolder(tmp_path), "a", b"\x00new\r\n")
    assert (tmp_path / "a").read_bytes() == b"\x00new\r\n"
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_a_name_of_the_greatest_length_is_written(tmp_path: Path) -> None:
    name = "n" * 255
    write_atomic(ConfinedFolder(tmp_path), name, "text")
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_a_failed_write_leaves_only_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_atomic(ConfinedFolder(tmp_path), "a", "old")

    def fail(name: str) -> None:
        raise OSError(name)

    monkeypatch.setattr(kill_points, "hook", fail)
    with pytest.raises(OSError, match="rename a: before"):
        write_atomic(ConfinedFolder(tmp_path), "a", "new")
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("a", "old")]


def test_a_lone_surrogate_does_not_make_a_file_unreadable(tmp_path: Path) -> None:
    write_atomic(ConfinedFolder(tmp_path), "a", "so \ud83d it goes")
    assert (tmp_path / "a").read_text(encoding="utf-8") == "so ? it goes"


@pytest.mark.parametrize(("point", "content"), [("1", "old"), ("2", "new")])
def test_a_killed_write_leaves_the_old_or_the_new_file(tmp_path: Path, point: str, content: str) -> None:
    write_atomic(ConfinedFolder(tmp_path), "a.md", "old")
    process = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path)],
        env={**os.environ, "SKILLRUN_KILL_AT": point},
        check=False,
    )
    assert process.returncode == -signal.SIGKILL
    assert (tmp_path / "a.md").read_text() == content
    assert len(remove_leftovers(ConfinedFolder(tmp_path))) == (content == "old")
    assert [path.name for path in tmp_path.iterdir()] == ["a.md"]


def test_only_leftovers_of_killed_writes_are_removed(tmp_path: Path) -> None:
    other_files = [".a.md.tmp", "a.md.01234567.tmp", ".a.md.0123456g.tmp", ".gitignore", "notes.tmp"]
    for name in [*other_files, ".a.md.0123abcd.tmp"]:
        (tmp_path / name).touch()
    assert remove_leftovers(ConfinedFolder(tmp_path)) == [".a.md.0123abcd.tmp"]
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(other_files)


def test_a_digest_is_computed_from_the_bytes_as_written(tmp_path: Path) -> None:
    for content in ("ünï\n", "\ud83d", b"\xff\x00"):
        write_atomic(ConfinedFolder(tmp_path), "a", content)
        written = (tmp_path / "a").read_bytes()
        assert sha256_of(content) == sha256_of(written) == hashlib.sha256(written).hexdigest()
