"""Starts workers quickly, each in a forked process: `python -m tests.faults.worker_process`.

Everything is imported once. Each JSON line of input starts a worker, whose process id is printed. Its clock can be
wrong, with patched `time.time` and `datetime.now`, and its disk can be full, with `disk.c`.
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
from skillrun.store import kill_points
from tests.faults.forks import disk, warm


def shift_clock(seconds: float) -> None:
    """Shift the clock of this process."""
    true, ours = time.time, dt.datetime
    time.time = lambda: true() + seconds

    class ShiftedDatetime(ours):  # type: ignore[misc, valid-type]
        @classmethod
        def now(cls, tz: dt.tzinfo | None = None) -> Any:
            return ours.now(tz) + dt.timedelta(seconds=seconds)

        @classmethod
        def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> Any:
            """For models that are imported after the shift."""
            return handler.generate_schema(ours)

    for module in [*sys.modules.values()]:
        if getattr(module, "datetime", None) is ours:
            module.datetime = ShiftedDatetime  # type: ignore[attr-defined]


def run_worker(job: Mapping[str, Any]) -> int:
    """Run the worker of a job, and return its exit code."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # when the parent ends
    os.chdir(job["folder"])
    log = os.open(job["log"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.environ.update(job["environment"])
    kill_points.hook = kill_points._from_environment()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    if job.get("off"):
        shift_clock(job["off"])
    if job.get("full"):
        disk.arm(job["full"], "", 1, errno.ENOSPC, True, -1)
    return main(job["words"])


def fork_worker(job: Mapping[str, Any]) -> int:
    number = os.fork()
    if number:
        return number
    code = 70
    try:
        code = run_worker(job)
        sys.stdout.flush()
    except BaseException as error:  # noqa: BLE001 (a child must never continue as its parent)
        sys.stderr.write(f"Traceback: {error!r}\n")
    finally:
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    warm()
    import skillrun.extensions.workers.worker  # noqa: F401 (workers import it)

    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    for line in sys.stdin:
        sys.stdout.write(f"{fork_worker(json.loads(line))}\n")
        sys.stdout.flush()
