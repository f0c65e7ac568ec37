"""The files of a commit have the content that its hash promises, whatever the repository and the environment say."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import zlib
from pathlib import Path

import pytest

from skillrun.extensions.testing.compare import _extract_revision
from skillrun.repository.git import MAX_MEMORY, MAX_OUTPUT, CommitRefused, CommitWriter, Git, GitFailed
from skillrun.repository.paths import is_reserved_by_git
from skillrun.syntax.diagnostics import UsageError

AUTHOR = {"GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@a", "GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@a"}


def git(folder: Path, *arguments: str) -> str:
    process = subprocess.run(
        ["git", *arguments], cwd=folder, env={**os.environ, **AUTHOR}, check=True, capture_output=True, text=True
    )
    return process.stdout.strip()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "repository"
    (folder / "project" / "skills").mkdir(parents=True)
    git(folder, "init", "--quiet")
    (folder / "project/skills/a.md").write_text("good\n")
    (folder / "project/other.md").write_text("other\n")
    (folder / "top.md").write_text("top\n")
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message", "x")
    return folder


def write_files(folder: Path, target: Path, sha: str = "", **options: object) -> dict[str, str]:
    """Write the files of a commit, and return their texts."""
    found = Git.find(folder)
    assert found is not None
    target.mkdir()
    asyncio.run(CommitWriter(found, target, **options).write(sha or git(folder, "rev-parse", "HEAD")))  # type: ignore[arg-type]
    return {str(path.relative_to(target)): path.read_text() for path in target.rglob("*") if path.is_file()}


def test_the_files_of_a_commit_can_be_restricted_to_folders_of_a_project(repository: Path, tmp_path: Path) -> None:
    everything = {"project/skills/a.md": "good\n", "project/other.md": "other\n", "top.md": "top\n"}
    assert write_files(repository, tmp_path / "all") == everything
    assert write_files(repository, tmp_path / "some", start="project", top=("skills",)) == {"skills/a.md": "good\n"}
    assert write_files(repository, tmp_path / "none", start="proj") == {}


@pytest.mark.finding("FS6")
@pytest.mark.parametrize("kind", ["commit", "tree", "blob"])
def test_a_replaced_object_is_not_used(repository: Path, tmp_path: Path, kind: str) -> None:
    first = git(repository, "rev-parse", "HEAD")
    (repository / "project/skills/a.md").write_text("evil\n")
    git(repository, "commit", "--quiet", "--all", "--message", "y")
    name = {"commit": "", "tree": "^{tree}", "blob": ":project/skills/a.md"}[kind]
    old, new = git(repository, "rev-parse", f"{first}{name}"), git(repository, "rev-parse", f"HEAD{name}")
    git(repository, "replace", old, new)
    assert write_files(repository, tmp_path / "files", first)["project/skills/a.md"] == "good\n"


@pytest.mark.finding("FS6")
@pytest.mark.parametrize("kind", ["commit", "tree", "blob"])
def test_an_object_that_does_not_match_its_hash_is_refused(repository: Path, tmp_path: Path, kind: str) -> None:
    """A repository that was copied can contain any object under any name."""
    head = git(repository, "rev-parse", "HEAD")
    sha = {"commit": head, "tree": git(repository, "rev-parse", "HEAD^{tree}"), "blob": ""}[kind]
    sha = sha or git(repository, "rev-parse", "HEAD:project/skills/a.md")
    path = repository / ".git/objects" / sha[:2] / sha[2:]
    header, _, content = zlib.decompress(path.read_bytes()).partition(b"\0")
    forged = {"blob": b"evil\n", "commit": content.replace(b"x", b"y"), "tree": content.replace(b".md", b".mx")}[kind]
    path.chmod(0o600)
    path.write_bytes(zlib.compress(header + b"\0" + forged))
    with pytest.raises(GitFailed, match="does not match its hash"):
        write_files(repository, tmp_path / "files", head)


@pytest.mark.finding("FS6", "FS13")
def test_a_missing_object_is_reported_and_not_fetched_from_another_machine(repository: Path, tmp_path: Path) -> None:
    head, blob = git(repository, "rev-parse", "HEAD"), git(repository, "rev-parse", "HEAD:top.md")
    (repository / ".git/objects" / blob[:2] / blob[2:]).unlink()
    for setting in (
        "core.repositoryFormatVersion=1", "extensions.partialClone=evil", "remote.evil.promisor=true",
        "remote.evil.url=ssh://host/x", f"core.sshCommand=touch {tmp_path}/ran",
        f"core.alternateRefsCommand=touch {tmp_path}/ran", "protocol.allow=always",
    ):  # fmt: skip
        git(repository, "config", *setting.split("=", 1))
    with pytest.raises(GitFailed, match=f"the blob {blob} is missing"):
        write_files(repository, tmp_path / "files", head)
    with pytest.raises(CommitRefused, match="has no commit"):
        write_files(repository, tmp_path / "more", git(repository, "rev-parse", "HEAD^{tree}"))
    assert not (tmp_path / "ran").exists()


@pytest.mark.finding("FS6")
def test_the_environment_does_not_select_another_repository(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    head = git(repository, "rev-parse", "HEAD")
    for name in ("GIT_DIR", "GIT_OBJECT_DIRECTORY", "GIT_WORK_TREE", "GIT_CONFIG", "GIT_COMMON_DIR", "GIT_NAMESPACE"):
        monkeypatch.setenv(name, str(tmp_path / "none"))
    monkeypatch.setenv("GIT_TRACE", str(tmp_path / "trace"))
    assert write_files(repository, tmp_path / "files", head)["top.md"] == "top\n"
    assert not (tmp_path / "trace").exists()


@pytest.mark.finding("FS7")
@pytest.mark.parametrize("stream", ["1", "2"])
def test_endless_output_of_git_is_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stream: str) -> None:
    (tmp_path / "git").write_text(f"#!/bin/sh\nyes >&{stream}\n")
    (tmp_path / "git").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    found = Git.find(tmp_path)
    assert found is not None
    with pytest.raises(GitFailed, match=f"more than {MAX_OUTPUT:,} bytes"):
        asyncio.run(found.run("fetch"))


@pytest.mark.finding("FS7")
@pytest.mark.parametrize("reply", ["yes | tr -d '\\n'", "yes", "echo", "true", "echo x blob 999999999999999999"])
def test_invalid_output_of_git_is_refused(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reply: str
) -> None:
    head = git(repository, "rev-parse", "HEAD")
    (tmp_path / "git").write_text(f"#!/bin/sh\n{reply}\n")
    (tmp_path / "git").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    with pytest.raises((GitFailed, CommitRefused)):
        write_files(repository, tmp_path / "files", head)


@pytest.mark.finding("FS5", "FS6")
def test_names_that_some_file_system_takes_for_the_folder_of_git_are_recognized() -> None:
    names = (".git", ".GIT", ".git ", ".git.", ".git. .", ".g\u200cit", "\ufeff.git", "GIT~1", "git~12", ".git::$DATA")
    assert [name for name in (*names, ".git\\config", "a\\.Git") if not is_reserved_by_git(name)] == []
    assert not any(map(is_reserved_by_git, (".gitignore", "git", ".github", "a.git", "git~", "x.git~1", "gıt~1")))


@pytest.mark.finding("FC3")
@pytest.mark.parametrize("name", ["object", "HEAD", "config"])
def test_a_pipe_in_a_repository_ends_the_reading(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """git opens a pipe and waits; the reading ends long before `READ_TIMEOUT`."""
    for module in ("skillrun.repository.git", "skillrun.extensions.testing.compare"):
        monkeypatch.setattr(f"{module}.REPLY_TIMEOUT", 0.2)
    blob = git(repository, "rev-parse", "HEAD:project/skills/a.md")
    pipe = repository / ".git" / (f"objects/{blob[:2]}/{blob[2:]}" if name == "object" else name)
    pipe.unlink()
    os.mkfifo(pipe)
    with pytest.raises(UsageError, match=r"takes too long|cannot be read"):
        _extract_revision("HEAD", repository / "project", tmp_path / "copy")


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not limit this memory")
@pytest.mark.finding("FA2")
def test_a_command_and_its_child_processes_get_a_limited_amount_of_memory(repository: Path) -> None:
    """A few bytes of a pack can describe an object of any size, and a server can list references without end."""
    found = Git.find(repository)
    assert found is not None

    def allocate(size: int) -> bool:
        alias = f"alias.allocate=!{sys.executable} -c 'bytearray({size})'"
        return asyncio.run(found.run("-c", alias, "allocate")).code == 0

    assert (allocate(300_000_000), allocate(MAX_MEMORY)) == (True, False)
