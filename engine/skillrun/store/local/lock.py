"""One runner per run: a lock that the operating system releases when its holder dies, and a note of who that is.

The lock is on a file and on the run's folder: whoever removes the file does not make room for a second runner, and the
first one finds out before it writes again.
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

from skillrun.repository.confined_folder import PRIVATE, Tree
from skillrun.repository.paths import PathRefused
from skillrun.store.clock import moment
from skillrun.store.lease import RunLost
from skillrun.store.local.atomic import tree_of, write_atomic
from skillrun.syntax.diagnostics import SkillrunError

INSIDE: Final = ".run"
LOCK: Final = ".run/lock"
OWNER: Final = ".run/owner.json"
LONGEST: Final = 1_000_000  # bytes of the note, which has the command line
PATIENCE: Final = 0.2  # seconds: whoever only looks whether a run is held lets go at once
NO_LOCKS: Final = frozenset({errno.EBADF, errno.EINVAL, errno.EISDIR, errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS})
"""What file systems of other machines say that lock no folders: there the file alone has to do."""


class Held:
    """What this process holds of a run, and whether it still does."""

    def __init__(self, folder: Tree, lock: int) -> None:
        """`lock` is the descriptor of the lock's file."""
        self._folder, self._lock = folder, lock
        status = os.fstat(lock)
        self._path = str(folder.path / LOCK)
        self._itself, self._inside = (status.st_dev, status.st_ino), folder.identity(INSIDE)

    def check(self, *, here: bool = True) -> None:
        """Raises RunLost where the lock is another's now, and with `here` where the folder is not where it was."""
        if here and self._is_at_its_path():
            return
        lost = self._folder.identity(LOCK) != self._itself
        if (lost or here) and not self._folder.is_here():
            raise _moved(self._folder)
        if lost:
            raise self._lost()

    def _is_at_its_path(self) -> bool:
        """Whether the lock is where it was, and so the folder: one look before every call, where all is well."""
        try:
            status = os.stat(self._path, follow_symlinks=False)  # noqa: PTH116 (twice as fast as that of a Path)
        except OSError:
            return False
        return (status.st_dev, status.st_ino) == self._itself

    def _lost(self) -> RunLost:
        path, now = self._folder.path, _path_of(self._lock)
        resume = f"`skillrun resume {quote(str(path))}`"
        if self._folder.identity(INSIDE) == self._inside:
            text = "was removed or exchanged while the run went on, so that another process could have taken it up"
            return RunLost(f"{path / LOCK} {text}", f"see who did that; then go on with {resume}")
        if now is None:
            way = "what the run has written is kept; put `.run` back from a backup, or begin the run again"
            return RunLost(f"{path / INSIDE} was removed while the run went on, and its journal with it", way)
        way = f"move it back with `mv {quote(str(now.parent))} {quote(str(path / INSIDE))}`"
        return RunLost(f"{path / INSIDE} was moved while the run went on", f"{way}; then {resume} goes on")


def _moved(folder: Tree) -> RunLost:
    descriptor = folder.descriptor()
    try:
        now = _path_of(descriptor)
    finally:
        os.close(descriptor)
    if now is None:
        return RunLost(f"{folder.path} was removed while the run went on", "begin the run again")
    text = f"{folder.path} was moved while the run went on; it is {now} now"
    return RunLost(text, f"what was done is kept there; resume with `skillrun resume {quote(str(now))}`")


def _path_of(descriptor: int) -> Path | None:
    """Where an open file is now, as far as the system tells; None where it has no name any more."""
    try:
        path = Path(f"/proc/self/fd/{descriptor}").readlink()
        there = path.stat()
    except OSError:
        return None
    status = os.fstat(descriptor)
    return path if (there.st_dev, there.st_ino) == (status.st_dev, status.st_ino) else None


class FolderLease:
    """The `Lease` of a run folder."""

    def __init__(self, run_folder: Tree | Path) -> None:
        self._folder = tree_of(run_folder)

    @contextlib.contextmanager
    def hold(self) -> Iterator[Held]:
        """Hold the lock of the run, and guard its folder. Raises SkillrunError, naming the holder, where it is held;
        PathRefused for links."""
        folder = self._folder
        with contextlib.ExitStack() as opened:
            itself = folder.descriptor()
            opened.callback(os.close, itself)
            if not _locked(itself):
                raise held_error(folder)
            own(folder)
            lock = folder.open(LOCK, os.O_RDWR | os.O_CREAT)
            opened.callback(os.close, lock)
            if not _locked(lock):
                raise held_error(folder)
            mine = Held(folder, lock)
            mine.check()
            folder.known(OWNER)
            with contextlib.suppress(OSError):  # it only says who this is
                write_atomic(folder, OWNER, json.dumps(_self(), indent=2) + "\n")
            before, folder.guard = folder.guard, mine
            try:
                yield mine
            finally:
                with contextlib.suppress(OSError, PathRefused, RunLost):  # a note that stays is that of a dead process
                    folder.remove(OWNER)
                folder.guard = before

    def is_held(self) -> bool:
        """Whether a process is running this run now; changes nothing. True where only its owner may look."""
        folder = self._folder
        try:
            lock = folder.open(LOCK)
        except PermissionError:
            return True
        except FileNotFoundError:  # it may have been removed under who holds it
            return _is_locked(folder.descriptor())
        return _is_locked(lock) or _is_locked(folder.descriptor())


def own(folder: Tree) -> None:
    """Make `.run` where there is none, for its owner alone. Raises SkillrunError where it is another user's."""
    _check_own(folder, ".")
    folder.make(INSIDE, PRIVATE)
    _check_own(folder, INSIDE)
    with contextlib.suppress(PermissionError):  # file systems of other machines, where modes mean nothing
        folder.restrict(INSIDE)


def _check_own(folder: Tree, name: str) -> None:
    if not folder.is_own(name):
        owner = folder.stat(name).st_uid
        raise SkillrunError(
            f"{folder.path} belongs to another user (number {owner}), who could change it while it is run",
            "Run it as that user, or copy the folder and run the copy.",
        )


def _is_locked(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError as error:
        if error.errno not in NO_LOCKS:
            raise
    finally:
        os.close(descriptor)
    return False


def held_error(folder: Tree) -> SkillrunError:
    """What is said of a run that another process holds."""
    return SkillrunError(
        f"{folder.path} is being run by {_holder(folder)}",
        "Wait for it to end or stop it there; then type the command again.",
    )


def _locked(descriptor: int) -> bool:
    """Whether the lock was had; waits a moment for those who only look."""
    until = time.monotonic() + PATIENCE
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > until:
                return False
            time.sleep(PATIENCE / 20)
        except OSError as error:
            if error.errno not in NO_LOCKS:
                raise
            return True
        else:
            return True


def _self() -> dict[str, object]:
    return {
        "pid": os.getpid(),
        "host": platform.node(),
        "started_at": moment(),
        "command": sys.argv,
    }


def _holder(folder: Tree) -> str:
    try:
        who = json.loads(folder.read(OWNER, LONGEST))
        return f"process {int(who['pid'])} on {str(who['host'])[:80]} since {str(who['started_at'])[:40]}"
    except (OSError, ValueError, LookupError, TypeError, RecursionError, PathRefused):
        return "another process that has only just started or is about to end"
