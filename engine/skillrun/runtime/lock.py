"""One runner per run: a lock that the operating system releases when its holder dies, and a note of who that is."""

import contextlib
import fcntl
import json
import os
import platform
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from skillrun.language.diagnostics import SkillrunError
from skillrun.runtime.files import tree_of, write_atomic
from skillrun.tools.paths import PathRefused
from skillrun.tools.tree import PRIVATE, Tree

INSIDE: Final = ".run"
LOCK: Final = ".run/lock"
OWNER: Final = ".run/owner.json"
LONGEST: Final = 1_000_000  # bytes of the note, which has the command line
PATIENCE: Final = 0.2  # seconds: whoever only looks whether a run is held lets go at once


@contextlib.contextmanager
def hold(run_folder: Tree | Path) -> Iterator[None]:
    """Hold the lock of a run. Raises SkillrunError, naming the holder, when it is held, and PathRefused for links."""
    folder = tree_of(run_folder)
    own(folder)
    descriptor = folder.open(LOCK, os.O_RDWR | os.O_CREAT)
    try:
        if not _locked(descriptor):
            raise held(folder)
        folder.known(OWNER)
        write_atomic(folder, OWNER, json.dumps(_self(), indent=2) + "\n")
        try:
            yield
        finally:
            with contextlib.suppress(FileNotFoundError, PathRefused):
                folder.remove(OWNER)
    finally:
        os.close(descriptor)


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


def is_held(run_folder: Tree | Path) -> bool:
    """Whether a process is running this run now; changes nothing. True where only its owner may look."""
    try:
        descriptor = tree_of(run_folder).open(LOCK)
    except FileNotFoundError:
        return False
    except PermissionError:
        return True
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def held(folder: Tree) -> SkillrunError:
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
        else:
            return True


def _self() -> dict[str, object]:
    return {
        "pid": os.getpid(),
        "host": platform.node(),
        "started_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": sys.argv,
    }


def _holder(folder: Tree) -> str:
    try:
        who = json.loads(folder.read(OWNER, LONGEST))
        return f"process {int(who['pid'])} on {str(who['host'])[:80]} since {str(who['started_at'])[:40]}"
    except (OSError, ValueError, LookupError, TypeError, RecursionError, PathRefused):
        return "another process that has only just started or is about to end"
