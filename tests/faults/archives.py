"""Bundles and commits with changed bytes: a worker unpacks the original files or none, within limits."""

from __future__ import annotations

import asyncio
import gzip
import io
import os
import shutil
import subprocess
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from random import Random
from typing import Final

from skillrun.extensions.workers.bundle import Bundle, pack_project, unpack_project
from skillrun.extensions.workers.fetching import Commit, CommitCache
from skillrun.store.files import sha256_of
from skillrun.syntax.diagnostics import SkillrunError

FILES: Final = {
    "a.md": b"one\n", "deep/b.md": b"two\n" * 900, f"{'long' * 40}/c.bin": bytes(range(256)), "run.sh": b"#!\n",
}  # fmt: skip
AUTHOR: Final = {
    "GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@a", "GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@a",
}  # fmt: skip
CHANGES: Final = ("flip", "cut", "insert", "repeat", "zero")


class Archives:
    """A project as a bundle and as a repository, each made on first use."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.target = folder, folder / "target"

    @cached_property
    def project(self) -> Path:
        project = self.folder / "project"
        for name, content in FILES.items():
            (project / name).parent.mkdir(parents=True, exist_ok=True)
            (project / name).write_bytes(content)
        return project

    @cached_property
    def bundle(self) -> Bundle:
        return pack_project(self.project, ())

    @cached_property
    def commit(self) -> Commit:
        """The only commit of a repository whose objects are in a pack."""
        self._git("init", "--quiet")
        self._git("add", "--all")
        self._git("commit", "--quiet", "--message", "x")
        self._git("repack", "-adq")
        return Commit.parse(f"file://{self.project}@{self._git('rev-parse', 'HEAD')}")

    @cached_property
    def objects(self) -> dict[str, bytes]:
        """The files of the repository that a server can choose."""
        assert self.commit.sha
        git = self.project / ".git"
        paths = [*git.glob("objects/pack/*"), git / "HEAD", *(path for path in git.glob("refs/**/*") if path.is_file())]
        return {str(path.relative_to(git)): path.read_bytes() for path in paths}

    def _git(self, *arguments: str) -> str:
        command, environ = ["git", *arguments], {**os.environ, **AUTHOR}
        done = subprocess.run(command, cwd=self.project, env=environ, check=True, capture_output=True, text=True)
        return done.stdout.strip()


def bundles(archives: Archives, random: Random) -> Iterator[str]:
    """An endless sequence of cases: whether the archive or its compressed form is changed, how, and where."""
    content = archives.bundle.content
    sizes = {"outer": len(content), "inner": len(gzip.decompress(content))}
    while True:
        layer = random.choice([*sizes])
        yield f"{layer} {random.choice(CHANGES)} {random.randrange(sizes[layer])} {random.randrange(256)}"


def packs(archives: Archives, random: Random) -> Iterator[str]:
    """An endless sequence of cases: a file of a server's repository, how it is changed, and where."""
    while True:
        name = random.choice([*archives.objects])
        at = random.randrange(len(archives.objects[name]))
        yield f"{name} {random.choice(CHANGES)} {at} {random.randrange(256)}"


def change(content: bytes, how: str, at: int, value: int) -> bytes:
    before, after = content[:at], content[at:]
    if how == "flip":
        return before + bytes([after[0] ^ (value or 1)]) + after[1:]
    changed = {"cut": b"", "insert": bytes([value]) + after, "repeat": after[:value] * 2 + after, "zero": bytes(value)}
    return before + changed[how]


def hold_bundle(archives: Archives, case: str) -> None:
    layer, how, at, value = case.split()
    content = archives.bundle.content
    inner = gzip.decompress(content) if layer == "inner" else content
    changed = change(inner, how, int(at), int(value))
    changed = gzip.compress(changed, 1, mtime=0) if layer == "inner" else changed
    shutil.rmtree(archives.target, ignore_errors=True)
    try:
        place = unpack_project(sha256_of(changed), io.BytesIO(changed), archives.target)
    except SkillrunError:
        assert not any(archives.target.iterdir()), f"{case}: files are left"
        return
    for path in place.rglob("*"):
        assert not path.is_symlink(), f"{case}: a link"
        assert path.resolve().is_relative_to(place.resolve()), f"{case}: outside"


def hold_pack(archives: Archives, case: str) -> None:
    name, how, at, value = case.split()
    path, original = archives.project / ".git" / name, archives.objects[name]
    path.chmod(0o644)
    path.write_bytes(change(original, how, int(at), int(value)))
    shutil.rmtree(archives.target, ignore_errors=True)
    try:
        asyncio.run(CommitCache(archives.target, files=True).ensure_available(archives.commit))
    except SkillrunError:
        return
    finally:
        path.write_bytes(original)
    place = archives.target / "repositories" / archives.commit.name
    found = {str(file.relative_to(place)): file.read_bytes() for file in place.rglob("*") if file.is_file()}
    assert found == FILES, f"{case}: other files: {[*found]}"
