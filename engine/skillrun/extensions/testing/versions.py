"""Opens a different version of a project's files.

The version is a git revision, a folder, or `shipped`: the project without the files that override shipped ones. A
version that is not a folder is written to a temporary folder. Git objects are read directly, so that no hook or filter
of the repository runs.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Final

from skillrun.library.library import Library
from skillrun.library.roots import FOLDERS, Root, search_path, shipped_files
from skillrun.syntax.diagnostics import UsageError

SHIPPED: Final = "shipped"
HINT: Final = "a git revision such as `HEAD`, a folder such as `../before`, or `shipped`"
_PLAIN: Final = (b"100644", b"100755")  # modes of regular files
_QUIET: Final = {"GIT_NO_LAZY_FETCH": "1", "GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"}


@contextmanager
def open_other_version(version: str, library: Library, project: Path) -> Iterator[Library]:
    """Yield a library with a different version of the project's files. Raises UsageError if it does not exist."""
    with tempfile.TemporaryDirectory(prefix="skillrun-") as temporary:
        folder = Path(temporary)
        if version == SHIPPED:
            _copy_without_overrides(library, folder)
        elif version.startswith((".", os.sep)) or not _extract_revision(version, project, folder):
            folder = Path(version).resolve()
            if not any((folder / name).is_dir() for name in FOLDERS):
                named = ", ".join(f"{name}/" for name in FOLDERS)
                what = f"has none of {named}" if folder.is_dir() else "is neither a folder nor a git revision"
                raise UsageError(f"`{version}` {what}", HINT)
        label = f"{version.rstrip('/')}:" if folder == Path(temporary) else f"{version.rstrip('/')}/"
        rest = [root for root in search_path(project) if root.name != "project"]
        yield Library([Root(folder, label, "project", is_confined=True), *rest])


def _copy_without_overrides(library: Library, target: Path) -> None:
    """Copy the project's files, including config files, but not the files that override shipped ones."""
    shipped = {name for name in shipped_files() if name.endswith(".md")}
    own = library.project_files(".")
    if not shipped.intersection(own):
        raise UsageError("no file of this project overrides a shipped one", HINT)
    for name in own:
        if name not in shipped:
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(library.project / name, target / name)


def _extract_revision(revision: str, project: Path, target: Path) -> bool:
    """Write the files of a revision to `target`, and return True. If git or the revision is missing, return False."""
    git = shutil.which("git")
    if git is None:
        return False
    commit = _git(git, project, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}")
    if not commit:
        return False
    entries = []
    for line in _git(git, project, "ls-tree", "-r", "-z", commit.decode().strip(), "--", *FOLDERS).split(b"\0"):
        meta, _, name = line.partition(b"\t")
        mode, _, number = meta.partition(b" blob ")
        if mode in _PLAIN:
            entries.append((os.fsdecode(name), number))
    objects = _git(git, project, "cat-file", "--batch", stdin=b"\n".join(number for _, number in entries) + b"\n")
    at = 0
    for path, _ in entries:
        end = objects.index(b"\n", at)
        size = int(objects[at:end].rpartition(b" ")[2])
        if ".." not in PurePosixPath(path).parts:
            (target / path).parent.mkdir(parents=True, exist_ok=True)
            (target / path).write_bytes(objects[end + 1 : end + 1 + size])
        at = end + size + 2
    if not entries:
        named = ", ".join(f"{name}/" for name in FOLDERS)
        raise UsageError(f"`{revision}` has no files of this project: {named} are missing", HINT)
    return True


def _git(git: str, project: Path, *arguments: str, stdin: bytes = b"") -> bytes:
    """Return the output of a git command; empty if the command fails."""
    process = subprocess.run(  # noqa: S603 (git only reads objects and runs nothing)
        [git, "-C", str(project), "-c", "core.fsmonitor=false", *arguments],
        env={**os.environ, **_QUIET},
        input=stdin,
        capture_output=True,
        check=False,
    )
    return process.stdout if process.returncode == 0 else b""
