"""A file is either the old or the new one, and has the requested mode."""

import hashlib
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from skillrun.repository.confined_folder import ConfinedFolder
from skillrun.store import checkpoints
from skillrun.store.files import sha256_of
from skillrun.store.local.atomic import remove_leftovers, write_atomic

PROGRAM = """
import sys
from pathlib import Path
from skillrun.store.local.atomic import write_atomic
from skillrun.repository.confined_folder import ConfinedFolder
write_atomic(ConfinedFolder(Path(sys.argv[1])), "a.md", "new")
"""


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o027, 0o077])
@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.row("B9", "Z5")
@pytest.mark.finding("FZ17")
def test_a_file_and_its_folder_are_their_owners_alone_or_what_the_umask_allows(
    tmp_path: Path, umask: int, shared: bool
) -> None:
    before = os.umask(umask)
    try:
        write_atomic(ConfinedFolder(tmp_path), "sub/a.md", "line\nünïcode\n", shared=shared)
    finally:
        os.umask(before)
    file = tmp_path / "sub" / "a.md"
    assert file.read_bytes() == "line\nünïcode\n".encode()
    assert file.stat().st_mode & 0o777 == (0o644 & ~umask if shared else 0o600)
    assert file.parent.stat().st_mode & 0o777 == (0o755 & ~umask if shared else 0o700)


def test_a_file_is_replaced_and_nothing_else_is_left(tmp_path: Path) -> None:
    write_atomic(ConfinedFolder(tmp_path), "a", b"\x00old")
    write_atomic(ConfinedFolder(tmp_path), "a", b"\x00new\r\n")
    assert (tmp_path / "a").read_bytes() == b"\x00new\r\n"
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_a_write_that_fails_leaves_the_old_file_and_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_atomic(ConfinedFolder(tmp_path), "a", "old")

    def fail(name: str) -> None:
        raise OSError(name)

    monkeypatch.setattr(checkpoints, "hook", fail)
    with pytest.raises(OSError, match="rename a: before"):
        write_atomic(ConfinedFolder(tmp_path), "a", "new")
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("a", "old")]


def test_half_a_character_of_a_reply_does_not_make_a_file_unreadable(tmp_path: Path) -> None:
    write_atomic(ConfinedFolder(tmp_path), "a", "so \ud83d it goes")
    assert (tmp_path / "a").read_text(encoding="utf-8") == "so ? it goes"


@pytest.mark.parametrize(("point", "content"), [("1", "old"), ("2", "new")])
def test_a_killed_write_leaves_the_old_file_or_the_new_one_and_what_sweep_removes(
    tmp_path: Path, point: str, content: str
) -> None:
    write_atomic(ConfinedFolder(tmp_path), "a.md", "old")
    killed = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path)],
        env={**os.environ, "SKILLRUN_KILL_AT": point},
        check=False,
    )
    assert killed.returncode == -signal.SIGKILL
    assert (tmp_path / "a.md").read_text() == content
    assert len(remove_leftovers(ConfinedFolder(tmp_path))) == (content == "old")
    assert [path.name for path in tmp_path.iterdir()] == ["a.md"]


def test_sweep_removes_only_what_killed_writes_leave(tmp_path: Path) -> None:
    keep = [".a.md.tmp", "a.md.01234567.tmp", ".a.md.0123456g.tmp", ".gitignore", "notes.tmp"]
    for name in [*keep, ".a.md.0123abcd.tmp"]:
        (tmp_path / name).touch()
    assert remove_leftovers(ConfinedFolder(tmp_path)) == [".a.md.0123abcd.tmp"]
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(keep)


def test_a_digest_is_that_of_the_bytes_that_would_be_written(tmp_path: Path) -> None:
    for content in ("ünï\n", "\ud83d", b"\xff\x00"):
        write_atomic(ConfinedFolder(tmp_path), "a", content)
        written = (tmp_path / "a").read_bytes()
        assert sha256_of(content) == sha256_of(written) == hashlib.sha256(written).hexdigest()
