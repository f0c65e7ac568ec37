"""A bundle excludes ignored files, secrets and links that lead out, and reports its limits."""

from __future__ import annotations

import io
import os
import socket
import tarfile
from pathlib import Path
from typing import Any

import pytest

from skillrun.extensions.workers.bundle import pack_project, unpack_project
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
    bundle = pack_project(project, SECRETS)
    os.utime(project / "src/main.py", (1, 1))
    assert pack_project(project, SECRETS).content == bundle.content
    unpacked = unpack_project(bundle.sha, bundle.content, tmp_path / "there")
    assert (unpacked / "Ü mlaut/ñ.md").read_text() == "Ü mlaut/ñ.md"
    assert (unpacked / "run.sh").stat().st_mode & 0o7777 == 0o755
    assert (unpacked / "-dash.md").stat().st_mode & 0o111 == 0
    assert sorted(_names(bundle.content)) == sorted(
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
        unpack_project(sha256_of(content), content, tmp_path / "there")
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
        unpack_project(sha256_of(content), content, tmp_path / "there")
    with pytest.raises(SkillrunError, match="does not match its hash"):
        unpack_project("0" * 64, content, tmp_path / "there")
