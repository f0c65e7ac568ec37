"""The files of a run: artifacts, summaries, rounds and state by name, each written whole or not at all.

A protocol; `disk/folder.py` keeps them in the folder of the run, `memory.py` in memory. The contract is
`tests/contract/test_files.py`. Knows not what is in a file, nor whose work it is.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, Protocol

from skillrun.repository.confined_folder import ConfinedFolder, EntryKind
from skillrun.repository.matching import DEEPEST, SearchableFolder
from skillrun.repository.paths import PathRefused
from skillrun.syntax.diagnostics import SkillrunError, did_you_mean
from skillrun.types.schemas import quote_value

LARGEST: Final = 50_000_000  # bytes of a file that is read


class FileChanged(Exception):
    """A file is another one than it was when its new content was made."""


class Files(Protocol):
    """Files and folders below a run's own, by names written from there on with `/`, and without a `..` on the way.

    A name that leads out of the run, or to what may be no part of it, raises PathRefused; one that a file system cannot
    have, or that stands for something of another kind, raises OSError. What was written is there when `write` has
    returned, and after a kill at any moment a name has its old content or its new one. No write and no move is done for
    a process that has lost the run: they raise LeaseLost.
    """

    path: Path
    """Where people find them, for messages; nothing is opened by it but through this."""

    def has(self, name: str) -> bool:
        """Whether there is a file. Raises IsADirectoryError for a folder, PathRefused for what is neither."""
        ...

    def is_file(self, name: str) -> bool:
        """Whether there is a file that could be read."""
        ...

    def is_folder(self, name: str) -> bool: ...

    def is_taken(self, name: str) -> bool:
        """Whether anything has this name."""
        ...

    def read(self, name: str, limit: int = LARGEST) -> bytes:
        """The content of a file: at most `limit` bytes, and one more where it is larger. FileNotFoundError if none."""
        ...

    def entries(self, name: str = ".") -> list[tuple[str, EntryKind]]:
        """The names in a folder, sorted, and what each is."""
        ...

    def matching(self, pattern: str) -> list[str]:
        """The names of the files that match a glob, or that it names, sorted by their parts; none of a link."""
        ...

    def write(self, name: str, content: str | bytes, *, precondition: Callable[[], None] = lambda: None) -> None:
        """Replace a file, or make it and the folders on the way to it. `last` is asked at the last moment; where it
        raises FileChanged, the file stays."""
        ...

    def write_new(self, name: str, content: str | bytes) -> bool:
        """The same where nothing has the name; one that is there is left as it is, and then this is False."""
        ...

    def move(self, name: str, target: str) -> None:
        """Give a file another name, in place of a file that has it."""
        ...

    def remove(self, name: str) -> None:
        """Remove a file, or a folder with all that is in it."""
        ...

    def make_folder(self, name: str) -> None:
        """Make a folder, and those on the way to it, where nothing has the name."""
        ...

    def open_other_run(self, name: str) -> ConfinedFolder:
        """The folder of another run beside this one, open. Raises SkillrunError where there is none."""
        ...

    def remove_leftovers(self) -> None:
        """Remove what killed writes have left behind. For the holder of the run only."""
        ...


def read_content(files: Files, name: str) -> bytes | None:
    """The content of a file; None where there is none. Raises PathRefused for one that no run has written."""
    try:
        content = files.read(name, LARGEST)
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        return None
    if len(content) > LARGEST:
        raise PathRefused(
            f"{quote_value(name)} is larger than {LARGEST:,} bytes", "No run writes that much: move it away."
        )
    return content


def check_run_exists(runs: Path, name: str) -> None:
    """Raises SkillrunError where there is no such run."""
    if runs.is_dir() and not (runs / name).is_dir():
        known = sorted(run.name for run in runs.iterdir() if run.is_dir())
        raise SkillrunError(f"there is no run `{name}` beside this one; {did_you_mean(name, known)}".rstrip("; "))


def walk_folders(folder: SearchableFolder) -> Iterator[str]:
    """The folder of a run itself and all below it; none that a link leads to, and nothing of a run that lies inside.

    Raises PathRefused where they never end.
    """
    pending = ["."]
    while pending:
        name = pending.pop()
        yield name
        if name.count("/") >= DEEPEST:
            raise PathRefused(f"folders are nested more than {DEEPEST} deep in {folder.path}", "Move them away.")
        subfolders = [
            leaf if name == "." else f"{name}/{leaf}" for leaf, kind in folder.entries(name) if kind == "folder"
        ]
        pending += [path for path in subfolders if not folder.is_folder(f"{path}/.run")]


def sha256_of(content: str | bytes) -> str:
    """SHA-256 as 64 hexadecimal digits; of a text, that of the bytes that would be written."""
    return hashlib.sha256(encode(content)).hexdigest()


def encode(content: str | bytes) -> bytes:
    """UTF-8. What is no character (half a surrogate pair, which a model's reply can hold) becomes a question mark."""
    return content.encode("utf-8", "replace") if isinstance(content, str) else content
