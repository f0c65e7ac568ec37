"""A bundle excludes ignored files, secrets and links that lead out, and reports its limits."""

from __future__ import annotations

import errno
import gzip
import io
import os
import socket
import tarfile
from pathlib import Path
from typing import Any

import pytest

from skillrun.extensions.workers import bundle
from skillrun.extensions.workers.bundle import InvalidRun, pack_project, unpack_project
from skillrun.repository.readable_folder import MAX_FILES, ReadableFolder
from skillrun.store.files import sha256_of
from skillrun.syntax.diagnostics import SkillrunError, UsageError

pytestmark = pytest.mark.row("W5")
SECRETS = (".env", "*.pem", "id_rsa", "credentials*")


def _names(content: bytes) -> list[str]:
    with tarfile.open(fileobj=io.BytesIO(content), mode="r:gz") as archive:
        return archive.getnames()


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    for name in ("workflows/a.md", "src/main.py", "src/deep/er/x.txt", "Ü mlaut/ñ.md", "-dash.md"):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    return folder


def test_equal_projects_give_equal_bundles_and_files_are_unpacked_unchanged(project: Path, tmp_path: Path) -> None:
    (project / "run.sh").write_text("#!/bin/sh\n")
    (project / "run.sh").chmod(0o4777)
    packed = pack_project(project, SECRETS)
    os.utime(project / "src/main.py", (1, 1))
    assert pack_project(project, SECRETS).content == packed.content
    unpacked = unpack_project(packed.sha, io.BytesIO(packed.content), tmp_path / "there")
    assert (unpacked / "Ü mlaut/ñ.md").read_text() == "Ü mlaut/ñ.md"
    assert (unpacked / "run.sh").stat().st_mode & 0o7777 == 0o755
    assert (unpacked / "-dash.md").stat().st_mode & 0o111 == 0
    assert sorted(_names(packed.content)) == sorted(
        path.relative_to(unpacked).as_posix() for path in unpacked.rglob("*") if path.is_file()
    )


def test_secrets_ignored_files_runs_and_special_files_are_not_packed(project: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside.txt"
    outside.write_text("outside")
    (project / ".gitignore").write_text("build/\n*.log\n!kept.log\n")
    for name in ("build/a.o", "x.log", "kept.log", ".env", "sub/.env", "sub/key.pem", "id_rsa", "credentials.json"):
        path = project / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    (project / "src/.gitignore").write_text("main.py\n")
    (project / ".git").mkdir()
    (project / ".git/config").write_text("secret")
    (project / "runs/old/.run").mkdir(parents=True)
    (project / "runs/old/plan.md").write_text("old")
    (project / "out.md").symlink_to(outside)
    (project / "folder").symlink_to(tmp_path)
    (project / "secret.md").symlink_to(".env")
    (project / "inside.md").symlink_to("workflows/a.md")
    (project / "loop").symlink_to("loop")
    (project / "gone").symlink_to("nowhere")
    os.mkfifo(project / "pipe")
    with socket.socket(socket.AF_UNIX) as server:
        previous_folder = Path.cwd()
        os.chdir(project)
        server.bind("socket")
        os.chdir(previous_folder)
        names = set(_names(pack_project(project, SECRETS).content))
    assert names == {
        ".gitignore", "src/.gitignore", "kept.log", "workflows/a.md", "src/deep/er/x.txt", "Ü mlaut/ñ.md", "-dash.md",
        "inside.md",
    }  # fmt: skip


@pytest.mark.slow
def test_a_project_that_is_too_large_is_refused_with_its_largest_folder(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / "data").mkdir()
    for number in range(5):
        with (project / "data" / f"{number}.bin").open("wb") as file:
            file.truncate(45_000_000)
    with pytest.raises(UsageError) as error:
        pack_project(project, SECRETS)
    assert "exceed 200 MB; largest so far: data (" in error.value.message
    assert "nothing was sent" in error.value.next_step


@pytest.mark.slow
def test_a_project_with_too_many_files_is_refused(project: Path) -> None:
    for folder in range(21):
        (project / f"f{folder}").mkdir()
        for number in range(1000):
            (project / f"f{folder}" / str(number)).touch()
    with pytest.raises(UsageError) as error:
        pack_project(project, SECRETS)
    assert f"has more than {MAX_FILES:,} files" in error.value.message or "takes too long" in error.value.message


@pytest.mark.parametrize("change", ["grows", "goes", "becomes a link"])
def test_a_file_that_changes_while_it_is_packed_is_reported(
    project: Path, tmp_path: Path, change: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "outside").write_text("outside")
    path, files, fstat = project / "src/main.py", ReadableFolder.files, os.fstat

    def change_after_listing(self: ReadableFolder, *arguments: Any) -> Any:
        yield from list(files(self, *arguments))
        if change != "grows":
            path.unlink()
        if change == "becomes a link":
            path.symlink_to(tmp_path / "outside")

    def grow_after_stat(descriptor: int) -> os.stat_result:
        status = fstat(descriptor)
        if change == "grows" and status.st_ino == path.stat().st_ino:
            path.write_text("more than it was")
        return status

    monkeypatch.setattr(ReadableFolder, "files", change_after_listing)
    monkeypatch.setattr("skillrun.extensions.workers.bundle.os.fstat", grow_after_stat)
    with pytest.raises(SkillrunError) as error:
        pack_project(project, SECRETS)
    assert "src/main.py" in error.value.message


@pytest.mark.parametrize("name", ["../out", "/etc/out", "a/../../out"])
def test_a_forged_archive_writes_nothing_outside(tmp_path: Path, name: str) -> None:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        entry = tarfile.TarInfo(name)
        entry.size = 1
        archive.addfile(entry, io.BytesIO(b"x"))
    content = buffer.getvalue()
    with pytest.raises(SkillrunError):
        unpack_project(sha256_of(content), io.BytesIO(content), tmp_path / "there")
    assert [path.name for path in tmp_path.rglob("*")] == ["there"]


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE, tarfile.DIRTYPE])
def test_an_archive_with_a_special_file_is_refused(tmp_path: Path, kind: bytes) -> None:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        entry = tarfile.TarInfo("a")
        entry.type, entry.linkname = kind, "/etc/passwd"
        archive.addfile(entry)
    content = buffer.getvalue()
    with pytest.raises(SkillrunError):
        unpack_project(sha256_of(content), io.BytesIO(content), tmp_path / "there")
    with pytest.raises(SkillrunError, match="does not match its hash"):
        unpack_project("0" * 64, io.BytesIO(content), tmp_path / "there")


def _archive(*entries: tuple[str, bytes, bytes], end: bool = True) -> bytes:
    """Return an archive with these names, types and contents."""
    blocks = bytearray()
    for name, kind, content in entries:
        entry = tarfile.TarInfo(name)
        entry.type, entry.size = kind, len(content)
        blocks += entry.tobuf(tarfile.USTAR_FORMAT) + content + bytes(-len(content) % 512)
    return gzip.compress(bytes(blocks) + (bytes(1024) if end else b""), compresslevel=1, mtime=0)


REGULAR, EXTENDED = tarfile.REGTYPE, tarfile.XHDTYPE


@pytest.mark.finding("FS8")
@pytest.mark.parametrize(
    "entries",
    [
        [("x", EXTENDED, b"0" * 30_000_000)],
        [("x", tarfile.XGLTYPE, b"0" * 30_000_000)],
        [("x", tarfile.GNUTYPE_LONGNAME, b"0" * 30_000_000)],
        [("x", tarfile.SOLARIS_XHDTYPE, b"0" * 30_000_000)],
        [("x", REGULAR, b"0" * 30_000_000)],
        [(str(number), REGULAR, b"0" * 300_000) for number in range(100)],
        [("x", EXTENDED, b"9 path=a\n")] * 3_000,
    ],
)
def test_little_of_an_archive_beyond_the_limits_is_unpacked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, entries: list[tuple[str, bytes, bytes]]
) -> None:
    content, sizes, read = _archive(*entries), [], gzip.GzipFile.read

    def count_bytes(self: gzip.GzipFile, size: int | None = -1) -> bytes:
        sizes.append(len(piece := read(self, size)))
        return piece

    monkeypatch.setattr(gzip.GzipFile, "read", count_bytes)
    monkeypatch.setattr(bundle, "MAX_PROJECT_BYTES", 1_000_000)
    with pytest.raises(InvalidRun):
        unpack_project(sha256_of(content), io.BytesIO(content), tmp_path / "there")
    assert sum(sizes) < 2_000_000
    assert [*(tmp_path / "there").iterdir()] == []


@pytest.mark.finding("FS8")
@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"no archive",
        _archive(("a", REGULAR, b"x"), end=False),
        _archive(("a", REGULAR, b"x"), ("a", REGULAR, b"y")),
        _archive(("a", REGULAR, b"x"), ("a/b", REGULAR, b"y")),
        _archive(("a/b", REGULAR, b"x"), ("a", REGULAR, b"y")),
        _archive(("x" * 99, REGULAR, b"x"))[:-20],
        _archive(("a", EXTENDED, b"16 path=../../a\n"), ("b", REGULAR, b"x")),
        _archive(("a", EXTENDED, b"11 path=a\0\n"), ("b", REGULAR, b"x")),
        _archive(("a", EXTENDED, b"9 size=1\n"), ("b", REGULAR, b"x")),
        _archive(("a", EXTENDED, b"0 path=a\n"), ("b", REGULAR, b"x")),
        _archive(("a", EXTENDED, b"-9 path=a\n"), ("b", REGULAR, b"x")),
        _archive(("a", EXTENDED, b"path=a\n"), ("b", REGULAR, b"x")),
        _archive(("a", EXTENDED, f"{311} path={'x' * 301}\n".encode()), ("b", REGULAR, b"x")),
        _archive(("a", EXTENDED, f"{310} path={'x/' * 150}\n".encode()), ("b", REGULAR, b"x")),
        *(_archive((f"a/{name}/b", REGULAR, b"x")) for name in (".git", ".GIT", ".git ", "git~1", ".run", ".Run", ".")),
    ],
)
def test_an_archive_that_no_project_gives_is_refused(tmp_path: Path, content: bytes) -> None:
    with pytest.raises(InvalidRun):
        unpack_project(sha256_of(content), io.BytesIO(content), tmp_path / "there")
    assert [*(tmp_path / "there").iterdir()] == []


def test_a_full_disk_is_not_a_mistake_of_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> Any:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    content = _archive(("a", REGULAR, b"x"))
    monkeypatch.setattr(Path, "chmod", fail)
    with pytest.raises(SkillrunError, match="cannot be written: No space left on device") as raised:
        unpack_project(sha256_of(content), io.BytesIO(content), tmp_path / "there")
    assert not isinstance(raised.value, InvalidRun)


def test_long_and_strange_names_are_unpacked_unchanged(project: Path, tmp_path: Path) -> None:
    names = ("d" * 200 + "/" + "f" * 250, "/".join(["e"] * 60), os.fsdecode(b"\xff\xfe.md"), "a\nb", "ä" * 100)
    for name in names:
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_text("x")
    packed = pack_project(project, SECRETS)
    unpacked = unpack_project(packed.sha, io.BytesIO(packed.content), tmp_path / "there")
    assert [name for name in names if (unpacked / name).read_text() != "x"] == []
