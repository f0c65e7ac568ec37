"""A folder that is opened once. Paths in it are resolved from its descriptor, so they cannot lead out.

A path is resolved one part at a time. Each part is opened in its parent (`openat`) and never through a link
(`O_NOFOLLOW`). Link targets are resolved in this way too. `..` returns to the parent folder, which is still open. So
the checked file is the opened file, even if another process replaces a folder by a link. Requires POSIX.
"""

from __future__ import annotations

import errno
import os
import secrets
import shutil
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import Final, Literal, NamedTuple, Protocol, Self

from skillrun.repository.paths import PathRefused, is_user_owned
from skillrun.types.schemas import quote_value

LONGEST: Final = 4096  # characters of a path
MAX_LINKS: Final = 40
PRIVATE_MODE: Final = 0o700
FILE_MODE: Final = 0o666  # of a new file, before the umask is applied
_FOLDER_FLAGS: Final = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_READ_FOLDER_FLAGS: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE_FLAGS: Final = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


NO_LINKS_HINT: Final = (
    "links are not allowed here, and skillrun creates none: remove the link, or use a copy without links"
)
REGULAR_FILE_HINT: Final = "only regular files are allowed here: remove this file, which skillrun did not create"

EntryKind = Literal["file", "folder", "link", "other"]
Identity = tuple[int, int]  # device and inode number of a file


class WriteGuard(Protocol):
    """Checks whether this process may still write in a folder."""

    def check(self, *, verify_path: bool = True) -> None:
        """Raise SkillrunError if the process may not write. With `verify_path`, also raise it if the folder has been
        moved or replaced."""
        ...


class OpenPath(NamedTuple):
    """A file or folder opened for reading. `name` is its real name, with all links resolved. The confined folder itself
    has the name `.`."""

    descriptor: int
    name: str
    is_folder: bool


class ConfinedFolder:
    """The folder `path`, which stays open until `close`. With `links`, links that stay inside the folder are followed.
    Without `links`, every symbolic link is refused, even if `path` itself is a link. Files with more than one name
    (hard links) are refused too.

    Names are relative to the folder. An invalid name raises `PathRefused`, a missing file raises `FileNotFoundError`,
    and other system errors raise `OSError`.
    """

    def __init__(self, path: Path, *, links: bool = False, descriptor: int | None = None) -> None:
        """Open the folder, or use `descriptor` if the folder is already open. Links in the parents of `path` are
        followed."""
        self.path = path
        self.links = links
        self.guard: WriteGuard | None = None
        self._path = str(path)
        self._identity: Identity | None = None
        try:
            flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | (0 if links else os.O_NOFOLLOW)
            self._root = os.open(path, flags) if descriptor is None else descriptor
        except OSError as error:
            if error.errno in (errno.ELOOP, errno.ENOTDIR) and not links and path.is_symlink():
                raise PathRefused(f"{path} is a symbolic link", NO_LINKS_HINT) from None
            raise
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
        """Raise SkillrunError if the folder's guard does not allow writing. Call this before writing."""
        if self.guard is not None:
            self.guard.check(verify_path=verify_path)

    def identity(self, name: str = ".") -> Identity | None:
        """Return the identity of the file, folder or link with this name, or None if nothing has this name."""
        try:
            status = os.stat(name, dir_fd=self._root, follow_symlinks=False)
        except (FileNotFoundError, NotADirectoryError):
            return None
        return status.st_dev, status.st_ino

    def is_at_path(self) -> bool:
        """Whether the path still refers to this folder."""
        try:
            status = os.stat(self._path)  # noqa: PTH116 (runs before every call and is twice as fast as `Path.stat`)
        except (FileNotFoundError, NotADirectoryError):
            return False
        self._identity = self._identity or self.identity()
        return (status.st_dev, status.st_ino) == self._identity

    def open(self, name: str, flags: int = os.O_RDONLY, mode: int = 0o600, *, follow: bool = True) -> int:
        """Open the regular file with this name and return its descriptor. The caller closes the descriptor.

        `flags` can also open the file for writing or appending, or create it with `mode`. Opening never truncates the
        file.

        If `name` is a link, a call without `follow` fails with ELOOP.
        """
        with self._walk(name) if follow else self.open_parent(name) as (folder, leaf):
            return self._open_file(name, folder, leaf, flags, mode)

    def read(self, name: str, limit: int, *, follow: bool = True) -> bytes:
        """Return at most `limit` bytes of a regular file, or `limit` + 1 bytes if the file is larger."""
        with os.fdopen(self.open(name, follow=follow), "rb") as file:
            return file.read(limit + 1)

    @contextmanager
    def open_path(self, name: str) -> Iterator[OpenPath]:
        """Open the regular file or folder with this name, and yield it with its real name."""
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
        """Return the status of the file or folder with this name; links are followed."""
        with self._walk(name) as (folder, leaf):
            status = os.stat(leaf, dir_fd=folder, follow_symlinks=False)
        if stat.S_ISLNK(status.st_mode):
            raise PathRefused(f"{quote_value(name)} leads through a symbolic link", NO_LINKS_HINT)
        return status

    def stat_file(self, name: str) -> os.stat_result | None:
        """Return the status of a regular file, or None if it is missing. Raises the errors of `open` for other kinds of
        files."""
        try:
            status = self.stat(name)
        except (FileNotFoundError, NotADirectoryError):
            return None
        self._check_regular_file(name, status)
        return status

    def is_user_owned(self, name: str = ".") -> bool:
        """Whether a folder belongs to this user or root."""
        with self._subfolder(name) as descriptor:
            return is_user_owned(os.fstat(descriptor), descriptor)

    def is_file(self, name: str) -> bool:
        """Whether the name refers to a regular file that may be opened."""
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
        """Open a subfolder as a separate `ConfinedFolder`."""
        return ConfinedFolder(self.path / name, links=self.links, descriptor=self.open_descriptor(name))

    def sibling(self, name: str) -> ConfinedFolder:
        """Open another folder in the parent of this folder, even if this folder has been moved. Raises PathRefused for
        a link."""
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
        """Return the sorted names in a folder and the kind of each. Links are not followed."""
        with self._subfolder(name) as descriptor:
            return entries(descriptor)

    def remove(self, name: str) -> None:
        """Remove a file, or a folder with its contents. If the name is a link, only the link is removed."""
        self.check()
        with self.open_parent(name) as (folder, leaf):
            if stat.S_ISDIR(os.stat(leaf, dir_fd=folder, follow_symlinks=False).st_mode):
                shutil.rmtree(leaf, dir_fd=folder)
            else:
                os.unlink(leaf, dir_fd=folder)

    def write(
        self,
        name: str,
        content: bytes,
        *,
        mode: int = FILE_MODE,
        folder_mode: int | None = None,
        is_exact: bool = False,
        precondition: Callable[[], None] = lambda: None,
    ) -> None:
        """Replace or create a regular file with its parent folders. The content has reached the disk when this method
        returns. `precondition` is called just before the change; if it raises, the file stays unchanged. With
        `is_exact`, the umask has no influence on the mode of the file.

        Raises PathRefused if the name is a link or a special file, and IsADirectoryError if it is a folder.
        """
        with self._temporary_file(name, content, mode, folder_mode, is_exact=is_exact) as (parent, temporary, leaf):
            precondition()
            with suppress(FileNotFoundError):
                status = os.stat(leaf, dir_fd=parent, follow_symlinks=False)
                if stat.S_ISDIR(status.st_mode):
                    raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), name)
                if not stat.S_ISREG(status.st_mode):
                    raise PathRefused(f"{quote_value(name)} is not a regular file", REGULAR_FILE_HINT)
            os.rename(temporary, leaf, src_dir_fd=parent, dst_dir_fd=parent)
            os.fsync(parent)

    def create(
        self,
        name: str,
        content: bytes,
        *,
        mode: int = FILE_MODE,
        folder_mode: int | None = None,
        is_exact: bool = False,
    ) -> bool:
        """Write a file with its parent folders unless its name is taken. Return whether it was written."""
        with self._temporary_file(name, content, mode, folder_mode, is_exact=is_exact) as (parent, temporary, leaf):
            try:
                os.link(temporary, leaf, src_dir_fd=parent, dst_dir_fd=parent, follow_symlinks=False)
            except FileExistsError:
                return False
            except OSError:  # a file system without hard links
                with suppress(FileNotFoundError):
                    os.stat(leaf, dir_fd=parent, follow_symlinks=False)
                    return False
                os.rename(temporary, leaf, src_dir_fd=parent, dst_dir_fd=parent)
        return True

    @contextmanager
    def _temporary_file(
        self, name: str, content: bytes, mode: int, folder_mode: int | None, *, is_exact: bool
    ) -> Iterator[tuple[int, str, str]]:
        """Write the content to a temporary file next to `name`, and remove the file at the end.

        Yields the descriptor of the file's folder, the temporary name, and the final name in this folder.
        """
        with self.open_parent(name, create=True, mode=folder_mode) as (parent, leaf):
            temporary = f".{leaf[:50]}.{secrets.token_hex(4)}.tmp"  # a name of 255 bytes has room for the ending
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
            descriptor = os.open(temporary, flags, mode, dir_fd=parent)
            try:
                with os.fdopen(descriptor, "wb") as file:
                    if is_exact:
                        with suppress(PermissionError):  # network file systems without modes
                            os.fchmod(descriptor, mode)
                    file.write(content)
                    file.flush()
                    os.fsync(file.fileno())
                self.check()
                yield parent, temporary, leaf
            finally:
                with suppress(OSError):
                    os.unlink(temporary, dir_fd=parent)

    def make_private(self, name: str = ".") -> None:
        """Allow only the owner of a folder to access it."""
        with self._subfolder(name) as descriptor:
            if stat.S_IMODE(os.fstat(descriptor).st_mode) != PRIVATE_MODE:
                os.fchmod(descriptor, PRIVATE_MODE)

    def add_mode(self, name: str, mode: int) -> None:
        """Add permission bits to a regular file or a folder."""
        with self.open_path(name) as opened:
            before = stat.S_IMODE(os.fstat(opened.descriptor).st_mode)
            if before | mode != before:
                os.fchmod(opened.descriptor, before | mode)

    @contextmanager
    def open_parent(self, name: str, *, create: bool = False, mode: int | None = None) -> Iterator[tuple[int, str]]:
        """Yield the descriptor of a name's parent folder, and the last part of the name. The caller can use them to
        write, rename or remove the file. A symbolic link in the last part is not followed. With `create`, missing
        parent folders are created as `make_folder` does."""
        if name.startswith("/"):
            raise PathRefused.outside(name, "It is absolute; make it relative to the folder.")
        folder, _, leaf = check_name(name).rpartition("/")
        if leaf in ("", ".", ".."):
            raise PathRefused(f"{quote_value(name)} is not a file name")
        if create and folder:
            self.make_folder(folder, mode)
        with self._subfolder(folder or ".") as descriptor:
            try:
                yield descriptor, leaf
            except OSError as error:
                self._set_error_path(error, name)
                raise

    def _set_error_path(self, error: OSError, name: str) -> None:
        """Set the full path in an error, because calls with a descriptor report only the last part."""
        if error.errno is not None and not (isinstance(error.filename, str) and Path(error.filename).is_absolute()):
            error.filename = str(self.path / name)

    def make_folder(self, name: str, mode: int | None = None) -> None:
        """Create a folder and its missing parents, with exactly `mode` or, without it, as the umask allows."""
        done = ""
        for part in check_name(name).split("/"):
            done = f"{done}/{part}" if done else part
            if part in ("", ".", "..") or self.is_folder(done):
                continue
            with self.open_parent(done) as (folder, leaf), suppress(FileExistsError):
                os.mkdir(leaf, 0o777 if mode is None else mode, dir_fd=folder)
                if mode is not None:
                    with suppress(PermissionError):  # network file systems without modes
                        self.add_mode(done, mode)

    def open_descriptor(self, name: str = ".") -> int:
        """Return a new descriptor of a folder; the caller closes it."""
        with self._walk(name) as (folder, leaf):
            return os.open(leaf, _READ_FOLDER_FLAGS, dir_fd=folder)

    @contextmanager
    def _subfolder(self, name: str) -> Iterator[int]:
        descriptor = self.open_descriptor(name)
        try:
            yield descriptor
        finally:
            os.close(descriptor)

    def _open_file(self, name: str, folder: int, leaf: str, flags: int = os.O_RDONLY, mode: int = 0o600) -> int:
        """Open a regular file in a folder, and reject other kinds of files.

        If opening another kind could block or have effects, it is rejected before it is opened.
        """
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
        """Raise PathRefused if this is not a regular file, or if links are refused and the file has several names."""
        if stat.S_ISDIR(status.st_mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), name)
        if not stat.S_ISREG(status.st_mode):
            raise PathRefused(f"{quote_value(name)} is not a regular file", "" if self.links else REGULAR_FILE_HINT)
        if status.st_nlink > 1 and not self.links:
            raise PathRefused(f"{quote_value(name)} has more than one name (a hard link)", NO_LINKS_HINT)

    @contextmanager
    def _walk(self, name: str, real_parts: list[str] | None = None) -> Iterator[tuple[int, str]]:
        """Resolve the links in a name. Yield the descriptor of the parent folder and the last part (`.` for the
        confined folder itself). With `links`, the last part is not a link. Without `links`, it may be a link, so the
        caller must check this when opening the file. `real_parts` receives the parts of the real name."""
        real_parts = [] if real_parts is None else real_parts
        todo = check_name(name).split("/")[::-1]
        if name.startswith("/"):
            raise PathRefused.outside(name, "It is absolute; make it relative to the folder.")
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
                        raise PathRefused.outside(name, "It goes up with `..`.")
                    os.close(descriptors.pop())
                    real_parts.pop()
                    continue
                target = self._link_target(descriptors[-1], part) if self.links else None
                if target is not None:
                    links_left -= 1
                    if links_left < 0:
                        raise PathRefused(f"{quote_value(name)} goes through too many symbolic links")
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
            is_link = error.errno == errno.ENOTDIR and self._link_target(descriptors[-1], last)
            if error.errno == errno.ELOOP or is_link:
                raise PathRefused(f"{quote_value(name)} leads through a symbolic link", NO_LINKS_HINT) from None
            self._set_error_path(error, name)
            raise
        finally:
            for descriptor in descriptors[1:]:
                os.close(descriptor)

    def _link_target(self, folder: int, part: str) -> str | None:
        """Return the target of a link, or None if the part is missing or is not a link."""
        try:
            return os.readlink(part, dir_fd=folder)
        except OSError as error:
            if error.errno in (errno.EINVAL, errno.ENOENT):
                return None
            raise

    def _relative_target(self, target: str, name: str) -> str:
        """Convert the absolute target of a link to a path relative to the folder."""
        for base in (self._real.rstrip("/"), str(self.path).rstrip("/")):
            if target == base or target.startswith(f"{base}/"):
                return target[len(base) :].lstrip("/") or "."
        raise PathRefused.outside(name, "A symbolic link in it leads out.")


def entries(descriptor: int, max_entries: int | None = None) -> list[tuple[str, EntryKind]]:
    """Return the sorted names in an open folder and the kind of each. If there are more than `max_entries`, an
    arbitrary selection is returned."""
    with os.scandir(descriptor) as listing:
        return sorted((entry.name, _kind(entry)) for entry in islice(listing, max_entries))


def _kind(entry: os.DirEntry[str]) -> EntryKind:
    if entry.is_symlink():
        return "link"
    if entry.is_dir(follow_symlinks=False):
        return "folder"
    return "file" if entry.is_file(follow_symlinks=False) else "other"


def check_name(name: str) -> str:
    """Return the name unchanged. Raises PathRefused if no path can have this name."""
    if "\0" in name:
        raise PathRefused(f"the path {quote_value(name)} contains a NUL character")
    if len(name) > LONGEST:
        raise PathRefused(f"the path is longer than {LONGEST:,} characters: it has {len(name):,}")
    try:
        os.fsencode(name)
    except UnicodeEncodeError:
        raise PathRefused(f"the path {quote_value(name)} contains half of a surrogate pair") from None
    return name
