"""A folder that is opened once, and everything below it, looked up from its descriptor: nothing leads out of it.

A path is walked a part at a time: each is opened in the folder before it (`openat`) and never through a link
(`O_NOFOLLOW`); a link is read and walked likewise, and `..` goes back by the walk's own steps. So what is checked is
what is opened, also while somebody exchanges folders for links. For POSIX systems.
"""

from __future__ import annotations

import errno
import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import Final, Literal, NamedTuple, Protocol, Self

from skillrun.repository.ownership import is_user_owned
from skillrun.repository.paths import PathRefused
from skillrun.types.schemas import quote_value

LONGEST: Final = 4096  # characters of a path
MAX_LINKS: Final = 40
PRIVATE_MODE: Final = 0o700
_FOLDER_FLAGS: Final = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_READ_FOLDER_FLAGS: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE_FLAGS: Final = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


NO_LINKS_HINT: Final = "nothing here may be a link, and skillrun writes none: remove it, or take a copy without links"
REGULAR_FILE_HINT: Final = "only regular files belong here, and skillrun writes no others: remove it"

EntryKind = Literal["file", "folder", "link", "other"]
Identity = tuple[int, int]  # by which the system knows a file: its device and its number there


class WriteGuard(Protocol):
    """Says whether this process may still write in a folder."""

    def check(self, *, verify_path: bool = True) -> None:
        """Raises SkillrunError when it may not; with `verify_path` also when the folder is not where it was."""
        ...


class OpenPath(NamedTuple):
    """A file or folder that is open for reading, and its name with every link followed; `.` for the tree's own."""

    descriptor: int
    name: str
    is_folder: bool


class ConfinedFolder:
    """The folder `path`, open until `close`. With `links`, those inside that stay inside are followed; otherwise every
    link is refused, also the folder itself where it is one, and every file that has another name (a hard link).

    A name is written from the folder on. Whatever is wrong with one raises `PathRefused`; one that is not there raises
    `FileNotFoundError`, and other failures of the system are `OSError` as usual.
    """

    def __init__(self, path: Path, *, links: bool = False, descriptor: int | None = None) -> None:
        """`descriptor` is the folder's own, where it is open already. Links on the way to `path` are followed."""
        self.path = path
        self.links = links
        self.guard: WriteGuard | None = None
        self._path = str(path)
        self._identity: Identity | None = None
        self._root = _open_root(path, links=links) if descriptor is None else descriptor
        self._real = os.path.realpath(path) if links else str(path)

    def close(self) -> None:
        root, self._root = self._root, -1
        if root >= 0:
            os.close(root)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        with suppress(OSError, AttributeError):
            self.close()

    def check(self, *, verify_path: bool = True) -> None:
        """Before something is written: raises SkillrunError when the folder's guard says that it must not be."""
        if self.guard is not None:
            self.guard.check(verify_path=verify_path)

    def identity(self, name: str = ".") -> Identity | None:
        """Which file or folder this name is now, a link itself where it is one; None where nothing is there."""
        try:
            status = os.stat(name, dir_fd=self._root, follow_symlinks=False)
        except (FileNotFoundError, NotADirectoryError):
            return None
        return status.st_dev, status.st_ino

    def is_at_path(self) -> bool:
        """Whether the folder's path still leads to it."""
        try:
            status = os.stat(self._path)  # noqa: PTH116 (before every call: twice as fast as that of a Path)
        except (FileNotFoundError, NotADirectoryError):
            return False
        self._identity = self._identity or self.identity()
        return (status.st_dev, status.st_ino) == self._identity

    def open(self, name: str, flags: int = os.O_RDONLY, mode: int = 0o600, *, follow: bool = True) -> int:
        """The descriptor of the regular file with this name, for reading; the caller closes it.

        `flags` may say otherwise: to write, to append, to create it with this mode. Nothing is emptied by opening.

        Without `follow` one that is a link itself fails with ELOOP.
        """
        with self._walk(name) if follow else self.open_parent(name) as (folder, leaf):
            return self._open_file(name, folder, leaf, flags, mode)

    def read(self, name: str, limit: int, *, follow: bool = True) -> bytes:
        """The content of a regular file: at most `limit` bytes, and one more where it is larger."""
        with os.fdopen(self.open(name, follow=follow), "rb") as file:
            return file.read(limit + 1)

    @contextmanager
    def open_path(self, name: str) -> Iterator[OpenPath]:
        """The regular file or folder with this name, and where it really is: what is judged by that is what is open."""
        real_parts: list[str] = []
        with self._walk(name, real_parts) as (folder, leaf):
            is_folder = stat.S_ISDIR(os.stat(leaf, dir_fd=folder, follow_symlinks=False).st_mode)
            descriptor = (
                os.open(leaf, _READ_FOLDER_FLAGS, dir_fd=folder) if is_folder else self._open_file(name, folder, leaf)
            )
        try:
            yield OpenPath(descriptor, "/".join(real_parts) or ".", is_folder)
        finally:
            os.close(descriptor)

    def stat(self, name: str) -> os.stat_result:
        """What is known of the file or folder with this name; of a link, of where it leads."""
        with self._walk(name) as (folder, leaf):
            status = os.stat(leaf, dir_fd=folder, follow_symlinks=False)
        if stat.S_ISLNK(status.st_mode):
            raise PathRefused(f"{quote_value(name)} leads through a symbolic link", NO_LINKS_HINT)
        return status

    def stat_file(self, name: str) -> os.stat_result | None:
        """What is known of a regular file, None where nothing is there; what else there is raises as in `open`."""
        try:
            status = self.stat(name)
        except (FileNotFoundError, NotADirectoryError):
            return None
        self._check_regular_file(name, status)
        return status

    def is_user_owned(self, name: str = ".") -> bool:
        """Whether a folder is this user's or root's."""
        descriptor = self._open_subfolder(name)
        try:
            return is_user_owned(os.fstat(descriptor), descriptor)
        finally:
            os.close(descriptor)

    def is_file(self, name: str) -> bool:
        """Whether there is a regular file that could be read."""
        try:
            self._check_regular_file(name, self.stat(name))
        except (OSError, PathRefused):
            return False
        return True

    def is_folder(self, name: str) -> bool:
        try:
            return stat.S_ISDIR(self.stat(name).st_mode)
        except (OSError, PathRefused):
            return False

    def open_folder(self, name: str) -> ConfinedFolder:
        """A folder below as a tree of its own."""
        return ConfinedFolder(self.path / name, links=self.links, descriptor=self._open_subfolder(name))

    def sibling(self, name: str) -> ConfinedFolder:
        """The folder of this name beside this one, wherever the path leads by now. Raises PathRefused for a link."""
        path = self.path.parent / name
        parent = os.open("..", _FOLDER_FLAGS, dir_fd=self._root)
        try:
            return ConfinedFolder(path, descriptor=os.open(name, _READ_FOLDER_FLAGS, dir_fd=parent))
        except OSError as error:
            if error.errno in (errno.ELOOP, errno.ENOTDIR) and self._link_target(parent, name) is not None:
                raise PathRefused(f"{path} is a symbolic link", NO_LINKS_HINT) from None
            raise
        finally:
            os.close(parent)

    def entries(self, name: str = ".") -> list[tuple[str, EntryKind]]:
        """The names in a folder, sorted, and what each is; a link is one, wherever it leads."""
        descriptor = self._open_subfolder(name)
        try:
            return entries(descriptor)
        finally:
            os.close(descriptor)

    def remove(self, name: str) -> None:
        """Remove a file, or a folder with all that is in it; a link goes and what it leads to stays."""
        self.check()
        with self.open_parent(name) as (folder, leaf):
            if stat.S_ISDIR(os.stat(leaf, dir_fd=folder, follow_symlinks=False).st_mode):
                shutil.rmtree(leaf, dir_fd=folder)
            else:
                os.unlink(leaf, dir_fd=folder)

    def make_private(self, name: str = ".") -> None:
        """Take a folder's mode from all but its owner."""
        descriptor = self._open_subfolder(name)
        try:
            if stat.S_IMODE(os.fstat(descriptor).st_mode) != PRIVATE_MODE:
                os.fchmod(descriptor, PRIVATE_MODE)
        finally:
            os.close(descriptor)

    def add_mode(self, name: str, mode: int) -> None:
        """Add to the mode of a regular file or a folder."""
        with self.open_path(name) as opened:
            before = stat.S_IMODE(os.fstat(opened.descriptor).st_mode)
            if before | mode != before:
                os.fchmod(opened.descriptor, before | mode)

    @contextmanager
    def open_parent(self, name: str, *, create: bool = False, mode: int = 0o777) -> Iterator[tuple[int, str]]:
        """The descriptor of the folder in which a name stands, and its last part, which is not followed: to write,
        rename or remove it there. With `create` the folders on the way are made, with this mode."""
        if name.startswith("/"):
            raise PathRefused(
                f"{quote_value(name)} leads out of its folder", "It is absolute; write it from the folder on."
            )
        folder, _, leaf = _check_name(name).rpartition("/")
        if leaf in ("", ".", ".."):
            raise PathRefused(f"{quote_value(name)} is no name of a file")
        if create and folder:
            self.make_folder(folder, mode)
        descriptor = self._open_subfolder(folder or ".")
        try:
            yield descriptor, leaf
        except OSError as error:
            self._set_error_path(error, name)
            raise
        finally:
            os.close(descriptor)

    def _set_error_path(self, error: OSError, name: str) -> None:
        """Have an error name the whole path, and not what of it was opened from a descriptor."""
        if error.errno is not None and not (isinstance(error.filename, str) and Path(error.filename).is_absolute()):
            error.filename = str(self.path / name)

    def make_folder(self, name: str, mode: int = 0o777) -> None:
        """Make a folder, and those on the way to it, where there is none."""
        done = ""
        for part in _check_name(name).split("/"):
            done = f"{done}/{part}" if done else part
            if part in ("", ".", "..") or self.is_folder(done):
                continue
            with self.open_parent(done) as (folder, leaf), suppress(FileExistsError):
                os.mkdir(leaf, mode, dir_fd=folder)

    def open_descriptor(self) -> int:
        """The folder opened once more; the caller closes it."""
        return self._open_subfolder(".")

    def _open_subfolder(self, name: str) -> int:
        with self._walk(name) as (folder, leaf):
            return os.open(leaf, _READ_FOLDER_FLAGS, dir_fd=folder)

    def _open_file(self, name: str, folder: int, leaf: str, flags: int = os.O_RDONLY, mode: int = 0o600) -> int:
        """A regular file in a folder; what is none is not opened where that alone could do something, or wait."""
        if self.links or flags != os.O_RDONLY:
            with suppress(FileNotFoundError):
                status = os.stat(leaf, dir_fd=folder, follow_symlinks=False)
                if not stat.S_ISLNK(status.st_mode):
                    self._check_regular_file(name, status)
        descriptor = os.open(leaf, flags | _FILE_FLAGS, mode, dir_fd=folder)
        try:
            self._check_regular_file(name, os.fstat(descriptor))
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor

    def _check_regular_file(self, name: str, status: os.stat_result) -> None:
        """Raises PathRefused unless this is a regular file that belongs to the folder alone."""
        if stat.S_ISDIR(status.st_mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), name)
        if not stat.S_ISREG(status.st_mode):
            raise PathRefused(f"{quote_value(name)} is no regular file", "" if self.links else REGULAR_FILE_HINT)
        if status.st_nlink > 1 and not self.links:
            raise PathRefused(f"{quote_value(name)} has another name somewhere (a hard link)", NO_LINKS_HINT)

    @contextmanager
    def _walk(self, name: str, real_parts: list[str] | None = None) -> Iterator[tuple[int, str]]:
        """The descriptor of the folder that a name leads to, every link followed, and the last part in it; `.` for the
        folder itself. That part was no link when it was looked at; without `links` whoever opens it finds out.
        `trail` becomes the parts of the real name."""
        real_parts = [] if real_parts is None else real_parts
        todo = _check_name(name).split("/")[::-1]
        if name.startswith("/"):
            raise PathRefused(
                f"{quote_value(name)} leads out of its folder", "It is absolute; write it from the folder on."
            )
        descriptors = [self._root]
        links_left = MAX_LINKS
        leaf = last = "."
        try:
            while todo:
                last = part = todo.pop()
                if part in ("", "."):
                    continue
                if part == "..":
                    if len(descriptors) == 1:
                        raise PathRefused(f"{quote_value(name)} leads out of its folder", "It goes up with `..`.")
                    os.close(descriptors.pop())
                    real_parts.pop()
                    continue
                target = self._link_target(descriptors[-1], part) if self.links else None
                if target is not None:
                    links_left -= 1
                    if links_left < 0:
                        raise PathRefused(f"{quote_value(name)} is no path that can be followed")
                    if target.startswith("/"):
                        target = self._relative_target(target, name)
                        real_parts.clear()
                        while len(descriptors) > 1:
                            os.close(descriptors.pop())
                    todo += target.split("/")[::-1]
                elif any(part not in ("", ".") for part in todo):
                    descriptors.append(os.open(part, _FOLDER_FLAGS, dir_fd=descriptors[-1]))
                    real_parts.append(part)
                else:
                    leaf = part
                    real_parts.append(part)
            last = leaf
            yield descriptors[-1], leaf
        except OSError as error:
            if error.errno == errno.ELOOP or (
                error.errno == errno.ENOTDIR and self._link_target(descriptors[-1], last)
            ):
                raise PathRefused(f"{quote_value(name)} leads through a symbolic link", NO_LINKS_HINT) from None
            self._set_error_path(error, name)
            raise
        finally:
            for descriptor in descriptors[1:]:
                os.close(descriptor)

    def _link_target(self, folder: int, part: str) -> str | None:
        """Where a link leads; None for what is no link, or not there."""
        try:
            return os.readlink(part, dir_fd=folder)
        except OSError as error:
            if error.errno in (errno.EINVAL, errno.ENOENT):
                return None
            raise

    def _relative_target(self, target: str, name: str) -> str:
        """An absolute link's target, written from the folder on."""
        for base in (self._real, str(self.path)):
            if target == base or target.startswith(base.rstrip("/") + "/"):
                return target[len(base.rstrip("/")) :].lstrip("/") or "."
        raise PathRefused(f"{quote_value(name)} leads out of its folder", "A symbolic link in it leads out.")


def _open_root(path: Path, *, links: bool) -> int:
    """The descriptor of a folder. Raises PathRefused for a link, where there may be none."""
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
    try:
        return os.open(path, flags if links else flags | os.O_NOFOLLOW)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENOTDIR) and not links and path.is_symlink():
            raise PathRefused(f"{path} is a symbolic link", NO_LINKS_HINT) from None
        raise


def entries(descriptor: int, max_entries: int | None = None) -> list[tuple[str, EntryKind]]:
    """The names in an open folder, sorted, and what each is: all, or at most so many of those that come first."""
    with os.scandir(descriptor) as listing:
        return sorted((entry.name, _kind(entry)) for entry in islice(listing, max_entries))


def _kind(entry: os.DirEntry[str]) -> EntryKind:
    if entry.is_symlink():
        return "link"
    return (
        "folder" if entry.is_dir(follow_symlinks=False) else "file" if entry.is_file(follow_symlinks=False) else "other"
    )


def _check_name(name: str) -> str:
    """The name, where it can be one at all."""
    if "\0" in name:
        raise PathRefused(f"the path {quote_value(name)} has a NUL character in it")
    if len(name) > LONGEST:
        raise PathRefused(f"a path has at most {LONGEST:,} characters, and this one has {len(name):,}")
    try:
        os.fsencode(name)
    except UnicodeEncodeError:
        raise PathRefused(f"the path {quote_value(name)} has half a character in it") from None
    return name
