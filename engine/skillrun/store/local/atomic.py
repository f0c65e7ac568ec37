"""Writes files atomically: whatever happens meanwhile, a file has either its old or its new content.

Paths are relative to the descriptor of an open folder, so that no file is written outside of the folder.
"""

import contextlib
import os
import re
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import Final

from skillrun.repository.confined_folder import PRIVATE_MODE, ConfinedFolder
from skillrun.repository.paths import PathRefused
from skillrun.store.checkpoints import kill_point
from skillrun.store.files import encode, walk_folders

SHARED: Final = 0o755  # mode of a shared folder, before the umask is applied
_LEFTOVER = re.compile(r"\..+\.[0-9a-f]{8}\.tmp", re.DOTALL)


def open_tree(folder: ConfinedFolder | Path) -> ConfinedFolder:
    """Return the folder, opened if necessary."""
    return folder if isinstance(folder, ConfinedFolder) else ConfinedFolder(folder)


def folder_mode(*, shared: bool) -> int:
    """Return the mode of a new folder: private to its owner or, with `shared`, as the umask allows."""
    return SHARED if shared else PRIVATE_MODE


def write_atomic(
    folder: ConfinedFolder,
    name: str,
    content: str | bytes,
    *,
    shared: bool = False,
    precondition: Callable[[], None] = lambda: None,
) -> None:
    """Replace or create a file below `folder`. The content has reached the disk when this function returns.

    The file and new parent folders are private to their owner or, with `shared`, readable as the umask allows.
    `precondition` is called at the last moment. If it raises FileChanged, the file stays unchanged.
    """
    data = encode(content)
    with folder.open_parent(name, create=True, mode=folder_mode(shared=shared)) as (parent, leaf):
        temporary = f".{leaf}.{secrets.token_hex(4)}.tmp"
        mode = folder_mode(shared=shared) & 0o666
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode, dir_fd=parent)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            folder.check()
            kill_point(f"rename {leaf}: before")
            precondition()
            os.rename(temporary, leaf, src_dir_fd=parent, dst_dir_fd=parent)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temporary, dir_fd=parent)
            raise
        kill_point(f"rename {leaf}: after")
        os.fsync(parent)


def write_new(folder: ConfinedFolder, name: str, content: str | bytes, *, shared: bool = False) -> bool:
    """Write a file unless its name is taken. Return whether it was written."""
    data = encode(content)
    with folder.open_parent(name, create=True, mode=folder_mode(shared=shared)) as (parent, leaf):
        temporary = f".{leaf}.{secrets.token_hex(4)}.tmp"
        mode = folder_mode(shared=shared) & 0o666
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        try:
            with os.fdopen(os.open(temporary, flags, mode, dir_fd=parent), "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            folder.check()
            return _link_new(parent, temporary, leaf)
        finally:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(temporary, dir_fd=parent)


def _link_new(folder: int, temporary: str, name: str) -> bool:
    """Give a finished temporary file its name in a folder. Return False, and change nothing, if the name is taken."""
    try:
        os.link(temporary, name, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=False)
    except FileExistsError:
        return False
    except OSError:  # a file system without hard links
        with contextlib.suppress(FileNotFoundError):
            os.stat(name, dir_fd=folder, follow_symlinks=False)
            return False
        os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
    return True


def move(folder: ConfinedFolder, name: str, target: str, *, shared: bool = False) -> None:
    """Rename a file within the folder. The change is durable when this function returns."""
    with (
        folder.open_parent(name) as (source, old),
        folder.open_parent(target, create=True, mode=folder_mode(shared=shared)) as (parent, new),
    ):
        folder.check()
        kill_point(f"rename {name}: before")
        os.rename(old, new, src_dir_fd=source, dst_dir_fd=parent)
        kill_point(f"rename {name}: after")
        os.fsync(parent)
        os.fsync(source)


def apply_shared_modes(folder: ConfinedFolder) -> None:
    """Give all files and folders of a run, except `.run`, at least the modes that new ones of a shared run have."""
    umask = os.umask(0o077)
    os.umask(umask)
    for name in walk_folders(folder):
        if name == ".run" or name.startswith(".run/"):
            continue
        folder.add_mode(name, SHARED & ~umask)
        for leaf, kind in folder.entries(name):
            if kind == "file":
                with contextlib.suppress(PathRefused, FileNotFoundError):
                    folder.add_mode(leaf if name == "." else f"{name}/{leaf}", SHARED & 0o666 & ~umask)


def remove_leftovers(folder: ConfinedFolder, name: str = ".") -> list[str]:
    """Remove the temporary files of killed writes, and return their names.

    Only the holder of the run may call this, because the temporary files of running writes have such names too.
    """
    at = "" if name == "." else f"{name}/"
    leftovers = [f"{at}{leaf}" for leaf, kind in folder.entries(name) if kind == "file" and _LEFTOVER.fullmatch(leaf)]
    for leftover in leftovers:
        folder.remove(leftover)
    return leftovers
