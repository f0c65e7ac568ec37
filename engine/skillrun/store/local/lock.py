"""Locks a run, so that only one process at a time evaluates it. If the process dies, the system releases the lock.

A note names the holder. A file and the run's folder are both locked. If the file is removed, a second process still
cannot lock the run, and the holder notices the removal before its next write.
"""

import contextlib
import errno
import fcntl
import json
import os
import platform
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from shlex import quote
from typing import Final

from skillrun.repository.confined_folder import PRIVATE_MODE, ConfinedFolder
from skillrun.repository.paths import PathRefused
from skillrun.store.event_lines import utc_timestamp
from skillrun.store.files import LeaseLost
from skillrun.store.local.local_files import open_tree, write_atomic
from skillrun.syntax.diagnostics import SkillrunError

ENGINE_FOLDER: Final = ".run"
LOCK: Final = ".run/lock"
OWNER: Final = ".run/owner.json"
LONGEST: Final = 1_000_000  # bytes of the note, which includes the command line
LOCK_TIMEOUT: Final = 0.2  # seconds; a process that only checks the lock holds it for less
LOCKS_UNSUPPORTED: Final = frozenset(
    {errno.EBADF, errno.EINVAL, errno.EISDIR, errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS}
)
"""Errors of network file systems that cannot lock folders. On these file systems, only the file is locked."""


class LockGuard:
    """Checks whether this process still holds a run."""

    def __init__(self, folder: ConfinedFolder, lock: int) -> None:
        """`lock` is the descriptor of the lock file."""
        self._folder, self._lock = folder, lock
        status = os.fstat(lock)
        self._path = str(folder.path / LOCK)
        self._itself, self._inside = (status.st_dev, status.st_ino), folder.identity(ENGINE_FOLDER)

    def check(self, *, verify_path: bool = True) -> None:
        """Raises LeaseLost if the lock is lost or, with `verify_path`, if the folder has moved."""
        if verify_path:
            with contextlib.suppress(OSError):  # normally the only check: the lock file is in its place
                status = os.stat(self._path, follow_symlinks=False)  # noqa: PTH116 (twice as fast as that of a Path)
                if (status.st_dev, status.st_ino) == self._itself:
                    return
        is_lost = self._folder.identity(LOCK) != self._itself
        if (is_lost or verify_path) and not self._folder.is_at_path():
            raise _moved_error(self._folder)
        if is_lost:
            raise self._lost_error()

    def _lost_error(self) -> LeaseLost:
        path, current_path = self._folder.path, _current_path(self._lock)
        resume = f"`skillrun resume {quote(str(path))}`"
        if self._folder.identity(ENGINE_FOLDER) == self._inside:
            text = "was removed or replaced during the run; another process could have claimed the run"
            return LeaseLost(f"{path / LOCK} {text}", f"find out why, then continue with {resume}")
        if current_path is None:
            hint = "the files of the run are kept; restore `.run` from a backup, or start the run again"
            return LeaseLost(f"{path / ENGINE_FOLDER} was removed during the run, including its journal", hint)
        hint = f"move it back with `mv {quote(str(current_path.parent))} {quote(str(path / ENGINE_FOLDER))}`"
        return LeaseLost(f"{path / ENGINE_FOLDER} was moved during the run", f"{hint}, then continue with {resume}")


def _moved_error(folder: ConfinedFolder) -> LeaseLost:
    descriptor = folder.open_descriptor()
    try:
        current_path = _current_path(descriptor)
    finally:
        os.close(descriptor)
    if current_path is None:
        return LeaseLost(f"{folder.path} was removed during the run", "start the run again")
    text = f"{folder.path} was moved to {current_path} during the run"
    return LeaseLost(text, f"the results are kept there; resume with `skillrun resume {quote(str(current_path))}`")


def _current_path(descriptor: int) -> Path | None:
    """Return the current path of an open file; None if the file was removed or the system reports no path."""
    try:
        path = Path(f"/proc/self/fd/{descriptor}").readlink()
        expected = path.stat()
    except OSError:
        return None
    status = os.fstat(descriptor)
    return path if (expected.st_dev, expected.st_ino) == (status.st_dev, status.st_ino) else None


class LocalLease:
    """The `Lease` of a run folder."""

    def __init__(self, run_folder: ConfinedFolder | Path) -> None:
        self._folder = open_tree(run_folder)

    @contextlib.contextmanager
    def hold(self) -> Iterator[LockGuard]:
        """Hold the lock of the run, and guard the run's folder.

        Raises SkillrunError, which names the holder, if another process holds the lock. Raises PathRefused for links.
        """
        folder = self._folder
        with contextlib.ExitStack() as opened:
            itself = folder.open_descriptor()
            opened.callback(os.close, itself)
            if not _try_lock(itself):
                raise held_error(folder)
            ensure_engine_folder(folder)
            lock = folder.open(LOCK, os.O_RDWR | os.O_CREAT)
            opened.callback(os.close, lock)
            if not _try_lock(lock):
                raise held_error(folder)
            guard = LockGuard(folder, lock)
            guard.check()
            folder.stat_file(OWNER)
            with contextlib.suppress(OSError):  # the note only identifies the holder
                owner = {
                    "pid": os.getpid(),
                    "host": platform.node(),
                    "started_at": utc_timestamp(),
                    "command": sys.argv,
                }
                write_atomic(folder, OWNER, json.dumps(owner, indent=2) + "\n")
            previous_guard, folder.guard = folder.guard, guard
            try:
                yield guard
            finally:
                with contextlib.suppress(OSError, PathRefused, LeaseLost):  # a note that stays names a dead process
                    folder.remove(OWNER)
                folder.guard = previous_guard

    def is_held(self) -> bool:
        """Whether a process holds this run now. Also True if this user is not permitted to check. Changes nothing."""
        folder = self._folder
        try:
            lock = folder.open(LOCK)
        except PermissionError:
            return True
        except FileNotFoundError:  # the file may have been removed while locked
            return _is_locked(folder.open_descriptor())
        return _is_locked(lock) or _is_locked(folder.open_descriptor())


def ensure_engine_folder(folder: ConfinedFolder) -> None:
    """Create `.run` if it is missing, private to its owner. Raises SkillrunError if another user owns the run."""
    _check_owner(folder, ".")
    folder.make_folder(ENGINE_FOLDER, PRIVATE_MODE)
    _check_owner(folder, ENGINE_FOLDER)
    with contextlib.suppress(PermissionError):  # network file systems without modes
        folder.make_private(ENGINE_FOLDER)


def _check_owner(folder: ConfinedFolder, name: str) -> None:
    if not folder.is_user_owned(name):
        owner = folder.stat(name).st_uid
        raise SkillrunError(
            f"{folder.path} belongs to another user (uid {owner}), who could change it during the run",
            "Run it as that user, or copy the folder and run the copy.",
        )


def _is_locked(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError as error:
        if error.errno not in LOCKS_UNSUPPORTED:
            raise
    finally:
        os.close(descriptor)
    return False


def held_error(folder: ConfinedFolder) -> SkillrunError:
    """Return the error for a run that another process holds."""
    try:
        who = json.loads(folder.read(OWNER, LONGEST))
        holder = f"process {int(who['pid'])} on {str(who['host'])[:80]} since {str(who['started_at'])[:40]}"
    except (OSError, ValueError, LookupError, TypeError, RecursionError, PathRefused):
        holder = "another process that has just started or is about to end"
    hint = "Wait for it to end or stop it there, then repeat the command."
    return SkillrunError(f"{folder.path} is being run by {holder}", hint)


def _try_lock(descriptor: int) -> bool:
    """Try to lock, and return whether that succeeded. Waits briefly for processes that only check the lock."""
    until = time.monotonic() + LOCK_TIMEOUT
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > until:
                return False
            time.sleep(LOCK_TIMEOUT / 20)
        except OSError as error:
            if error.errno not in LOCKS_UNSUPPORTED:
                raise
            return True
        else:
            return True
