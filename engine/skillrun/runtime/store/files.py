"""Files that are either the old or the new one, never half of it, whatever happens while they are written.

Written in an open folder by its descriptor, so that they land there and nowhere else.
"""

import contextlib
import hashlib
import os
import re
import secrets
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from skillrun.runtime.store.checkpoints import reached
from skillrun.tools.matching import DEEPEST
from skillrun.tools.paths import PathRefused
from skillrun.tools.tree import PRIVATE, Tree

SHARED: Final = 0o755  # of a folder, less the umask
LARGEST: Final = 50_000_000  # bytes of a file that is read
_LEFTOVER = re.compile(r"\..+\.[0-9a-f]{8}\.tmp", re.DOTALL)


def tree_of(folder: Tree | Path) -> Tree:
    """The folder, opened where it is not yet."""
    return folder if isinstance(folder, Tree) else Tree(folder)


def folder_mode(*, shared: bool) -> int:
    """The mode of a new folder: for its owner alone, or what the umask allows."""
    return SHARED if shared else PRIVATE


class FileChanged(Exception):
    """A file is another one than it was when its new content was made."""


def write_atomic(
    folder: Tree,
    name: str,
    content: str | bytes,
    *,
    shared: bool = False,
    last: Callable[[], None] = lambda: None,
) -> None:
    """Replace a file below `folder` by one with this content; it has reached the disk when this returns.

    It can be read by its owner alone, or with `shared` by whom the umask allows; so are folders made on the way.
    `last` is asked at the last moment; where it raises FileChanged, the file stays.
    """
    data = _bytes(content)
    with folder.place(name, create=True, mode=folder_mode(shared=shared)) as (parent, leaf):
        temporary = f".{leaf}.{secrets.token_hex(4)}.tmp"
        mode = folder_mode(shared=shared) & 0o666
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode, dir_fd=parent)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            folder.check()
            reached(f"rename {leaf}: before")
            last()
            os.rename(temporary, leaf, src_dir_fd=parent, dst_dir_fd=parent)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temporary, dir_fd=parent)
            raise
        reached(f"rename {leaf}: after")
        os.fsync(parent)


def write_plain(folder: Tree, name: str, content: bytes) -> None:
    """A new file with this content, which need not reach the disk."""
    with folder.place(name, create=True, mode=PRIVATE) as (parent, leaf):
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        with os.fdopen(os.open(leaf, flags, 0o600, dir_fd=parent), "wb") as file:
            file.write(content)


def move(folder: Tree, name: str, target: str, *, shared: bool = False) -> None:
    """Give a file another name below the same folder, durably."""
    with (
        folder.place(name) as (source, old),
        folder.place(target, create=True, mode=folder_mode(shared=shared)) as (parent, new),
    ):
        folder.check()
        reached(f"rename {name}: before")
        os.rename(old, new, src_dir_fd=source, dst_dir_fd=parent)
        reached(f"rename {name}: after")
        os.fsync(parent)
        os.fsync(source)


def share(folder: Tree) -> None:
    """Give what is in a run folder, but for `.run`, at least the modes that new files of a shared run have."""
    umask = os.umask(0o077)
    os.umask(umask)
    for name in folders(folder):
        if name == ".run" or name.startswith(".run/"):
            continue
        folder.allow(name, SHARED & ~umask)
        for one, kind in folder.entries(name):
            if kind == "file":
                with contextlib.suppress(PathRefused, FileNotFoundError):
                    folder.allow(one if name == "." else f"{name}/{one}", SHARED & 0o666 & ~umask)


def sweep(folder: Tree, name: str = ".") -> list[str]:
    """Remove and return what killed writes left in a folder. For the holder of the run only: live writes look alike."""
    at = "" if name == "." else f"{name}/"
    leftovers = [f"{at}{one}" for one, kind in folder.entries(name) if kind == "file" and _LEFTOVER.fullmatch(one)]
    for leftover in leftovers:
        folder.remove(leftover)
    return leftovers


def folders(folder: Tree) -> Iterator[str]:
    """The folder of a run itself and all below it; none that a link leads to, and nothing of a run that lies inside.

    Raises PathRefused where they never end.
    """
    left = ["."]
    while left:
        name = left.pop()
        yield name
        if name.count("/") >= DEEPEST:
            raise PathRefused(f"folders are nested more than {DEEPEST} deep in {folder.path}", "Move them away.")
        below = [one if name == "." else f"{name}/{one}" for one, kind in folder.entries(name) if kind == "folder"]
        left += [one for one in below if not folder.is_folder(f"{one}/.run")]


def digest(content: str | bytes) -> str:
    """SHA-256 as 64 hexadecimal digits; of a text, that of the bytes `write_atomic` would write."""
    return hashlib.sha256(_bytes(content)).hexdigest()


def _bytes(content: str | bytes) -> bytes:
    """UTF-8. What is no character (half a surrogate pair, which a model's reply can hold) becomes a question mark."""
    return content.encode("utf-8", "replace") if isinstance(content, str) else content
