"""Named points, before and after commits, renames and model calls, where crash tests kill the process.

SKILLRUN_KILL_AT=<n> kills the process with SIGKILL at the n-th point. With SKILLRUN_KILL_LOG=<file>, each point
that the process reaches appends its name to the file.
"""

import os
import signal
from collections.abc import Callable
from itertools import count
from pathlib import Path


def kill_point(name: str) -> None:
    if hook is not None:
        hook(name)


def _from_environment() -> Callable[[str], None] | None:
    kill_at, log = os.environ.get("SKILLRUN_KILL_AT"), os.environ.get("SKILLRUN_KILL_LOG")
    if not (kill_at or log):
        return None
    times = count(1)

    def hook(name: str) -> None:
        if log:
            with Path(log).open("a", encoding="utf-8") as file:
                file.write(name + "\n")
        if str(next(times)) == kill_at:
            os.kill(os.getpid(), signal.SIGKILL)

    return hook


hook = _from_environment()
