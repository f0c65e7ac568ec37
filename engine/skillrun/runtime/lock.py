"""One runner per run: a lock that the operating system releases when its holder dies, and a note of who that is."""

import contextlib
import json
import os
import platform
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from skillrun.language.diagnostics import SkillrunError


@contextlib.contextmanager
def hold(run_folder: Path) -> Iterator[None]:
    """Hold the lock of a run. Raises SkillrunError, naming the holder, when it is held."""
    import filelock

    folder = run_folder / ".run"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder.chmod(0o700)
    owner = folder / "owner.json"
    lock = filelock.FileLock(folder / "lock", timeout=0, mode=0o600)
    try:
        lock.acquire()
    except filelock.Timeout:
        raise SkillrunError(
            f"{run_folder} is being run by {_holder(owner)}",
            "Wait for it to end or stop it there; then type the command again.",
        ) from None
    try:
        owner.touch(mode=0o600)
        owner.write_text(json.dumps(_self(), indent=2) + "\n", encoding="utf-8")
        yield
    finally:
        owner.unlink(missing_ok=True)
        lock.release()


def _self() -> dict[str, object]:
    return {
        "pid": os.getpid(),
        "host": platform.node(),
        "started_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": sys.argv,
    }


def _holder(owner: Path) -> str:
    try:
        who = json.loads(owner.read_bytes())
        return f"process {who['pid']} on {who['host']} since {who['started_at']}"
    except (OSError, ValueError, LookupError, TypeError):
        return "another process that has only just started or is about to end"
