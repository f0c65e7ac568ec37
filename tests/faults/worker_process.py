"""Workers in processes of their own, in little time: `python -m tests.faults.worker_process`.

Everything is imported once; each worker is a fork. A JSON line in for each, its process number out. The clock of a
worker may be off, by a patched `time.time` and `datetime.now` (nothing of libc is replaced), and its disk be full, by
`disk.c`.
"""

from __future__ import annotations

import ctypes
import datetime as dt
import errno
import json
import os
import signal
import sys
import time
from collections.abc import Mapping
from typing import Any

from skillrun.cli.main import main
from skillrun.store import checkpoints
from tests.faults.forks import disk, warm


def off_by(seconds: float) -> None:
    """Have this process's clock be off."""
    true, ours = time.time, dt.datetime
    time.time = lambda: true() + seconds

    class Off(ours):  # type: ignore[misc, valid-type]
        @classmethod
        def now(cls, tz: dt.tzinfo | None = None) -> Any:
            return ours.now(tz) + dt.timedelta(seconds=seconds)

    for module in [*sys.modules.values()]:
        if getattr(module, "datetime", None) is ours:
            module.datetime = Off  # type: ignore[attr-defined]


def worker(job: Mapping[str, Any]) -> int:
    """A worker as the job says; its exit code."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # once what has begun it is gone
    os.chdir(job["folder"])
    log = os.open(job["log"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.environ.update(job["environment"])
    checkpoints.hook = checkpoints._from_environment()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    if job.get("off"):
        off_by(job["off"])
    if job.get("full"):
        disk.arm(job["full"], "", 1, errno.ENOSPC, True, -1)
    return main(job["words"])


def begun(job: Mapping[str, Any]) -> int:
    number = os.fork()
    if number:
        return number
    code = 70
    try:
        code = worker(job)
        sys.stdout.flush()
    except BaseException as error:  # noqa: BLE001 (a child must never go on as its parent)
        sys.stderr.write(f"Traceback: {error!r}\n")
    finally:
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    warm()
    import skillrun.extensions.workers.worker  # noqa: F401 (what a worker imports)

    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    for line in sys.stdin:
        sys.stdout.write(f"{begun(json.loads(line))}\n")
        sys.stdout.flush()
