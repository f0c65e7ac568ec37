"""The files of a run: artifacts, summaries, rounds and state. Each file is written completely or not at all.

`Files` is a protocol. `local/local_files.py` stores the files in the run's folder, `memory.py` stores them in memory.
`tests/contract/test_files.py` tests the protocol.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, Protocol

from skillrun.repository.confined_folder import ConfinedFolder, EntryKind
from skillrun.repository.matching import DEEPEST, SearchableFolder
from skillrun.repository.paths import PathRefused, resolve_parts
from skillrun.syntax.diagnostics import SkillrunError, did_you_mean
from skillrun.types.schemas import quote_value

LARGEST: Final = 50_000_000  # maximum bytes of a file


class FileChanged(Exception):
    """A file has changed since its new content was prepared."""


class LeaseLost(SkillrunError):
    """The files of a run have moved, or this process no longer holds the run.

    The `next_step` is complete: callers must not add to it.
    """


class Files(SearchableFolder, Protocol):
    """The files and folders of a run. Names are relative to the run's folder, with `/` and without `..`.

    Methods raise PathRefused for a name that leads out of the run or to a file that cannot be part of a run. They raise
    OSError for a name that the file system does not allow or that another kind of entry has. A file is stored when
    `write` returns. If the process is killed, each file has either its old or its new content. Writes and moves raise
    LeaseLost if the process has lost the run.
    """

    path: Path
    """The location of the files, for messages. Never used to open files."""

    def has(self, name: str) -> bool:
        """Whether a file exists. Raises IsADirectoryError for a folder, PathRefused for any other kind of entry."""
        ...

    def is_file(self, name: str) -> bool:
        """Whether a readable file exists."""
        ...

    def is_taken(self, name: str) -> bool:
        """Whether a file, a folder or any other entry has this name."""
        ...

    def read(self, name: str, limit: int = LARGEST) -> bytes:
        """Return the content of a file, but at most its first `limit` + 1 bytes. Raises FileNotFoundError."""
        ...

    def entries(self, name: str = ".") -> list[tuple[str, EntryKind]]:
        """Return the name and the kind of each entry in a folder, sorted by name."""
        ...

    def matching(self, pattern: str) -> list[str]:
        """Return the files that match the glob `pattern` or are named exactly `pattern`, sorted by path parts.

        Links are left out.
        """
        ...

    def write(self, name: str, content: str | bytes, *, precondition: Callable[[], None] = lambda: None) -> None:
        """Replace a file, or create it and its parent folders.

        `precondition` is called just before the change. If it raises FileChanged, the file stays unchanged.
        """
        ...

    def write_new(self, name: str, content: str | bytes) -> bool:
        """Write a file unless its name is taken. Return whether it was written."""
        ...

    def move(self, name: str, target: str) -> None:
        """Rename a file, replacing any file at `target`."""
        ...

    def remove(self, name: str) -> None:
        """Remove a file, or a folder and its contents."""
        ...

    def make_folder(self, name: str) -> None:
        """Make a folder and its parents, unless they exist."""
        ...

    def open_other_run(self, name: str) -> ConfinedFolder:
        """Open the folder of another run in the same store. Raises SkillrunError if it does not exist."""
        ...

    def remove_leftovers(self) -> None:
        """Remove the temporary files of killed writes. Only the holder of the run may call this."""
        ...


def read_content(files: Files, name: str) -> bytes | None:
    """Return the content of a file; None if it does not exist. Raises PathRefused if it is too large."""
    try:
        content = files.read(name, LARGEST)
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        return None
    if len(content) > LARGEST:
        raise PathRefused(
            f"{quote_value(name)} is larger than {LARGEST:,} bytes", "No run writes such a large file. Move it away."
        )
    return content


def check_run_exists(runs: Path, name: str) -> None:
    """Raises SkillrunError if the run does not exist."""
    if runs.is_dir() and not (runs / name).is_dir():
        known = sorted(run.name for run in runs.iterdir() if run.is_dir())
        raise SkillrunError(f"no run is named `{name}`; {did_you_mean(name, known)}".rstrip("; "))


def walk_folders(folder: SearchableFolder) -> Iterator[str]:
    """Yield the name of a run's folder and of each folder below it. Links and nested runs are left out.

    Raises PathRefused if folders are nested too deeply.
    """
    pending = ["."]
    while pending:
        name = pending.pop()
        yield name
        if name.count("/") >= DEEPEST:
            raise PathRefused(f"folders in {folder.path} are nested more than {DEEPEST} levels deep", "Move them away.")
        subfolders = [
            leaf if name == "." else f"{name}/{leaf}" for leaf, kind in folder.entries(name) if kind == "folder"
        ]
        pending += [path for path in subfolders if not folder.is_folder(f"{path}/.run")]


def normalize_path(name: str) -> str:
    """Return a relative path without `.`, `..` and empty parts. Raises PathRefused if it leads out of its folder."""
    if name.startswith("/"):
        raise PathRefused.outside(name, "It is absolute; use a path relative to the folder.")
    return "/".join(resolve_parts(name))


def sha256_of(content: str | bytes) -> str:
    """Return the SHA-256 as 64 hexadecimal digits. A text is first encoded with `encode`."""
    return hashlib.sha256(encode(content)).hexdigest()


def encode(content: str | bytes) -> bytes:
    """Encode a text as UTF-8. A lone surrogate, which a model's reply can contain, becomes a question mark."""
    return content.encode("utf-8", "replace") if isinstance(content, str) else content
