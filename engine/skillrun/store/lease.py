"""The lease of a run: at most one process evaluates a run at a time, and writes nothing after losing the lease.

`Lease` is a protocol. `local/lock.py` uses locks of the operating system, and `memory.py` works within the process. The
contract is `tests/contract/test_lease.py`.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Protocol

from skillrun.repository.confined_folder import WriteGuard
from skillrun.syntax.diagnostics import SkillrunError


class LeaseLost(SkillrunError):
    """The files of a run have moved, or this process no longer holds the run.

    The `next_step` is complete: callers add nothing to it.
    """


class Lease(Protocol):
    """The right to evaluate one run.

    A process has it from `hold` until the process releases the run, loses it or dies.
    """

    def hold(self) -> AbstractContextManager[WriteGuard]:
        """Hold the run while the context lasts.

        Raises SkillrunError, which names the holder, if another process holds the run. The guard raises an error if
        another process has taken the run or, with `verify_path`, if the run has moved. The journal and the files call
        the guard before every commit and write, and with `verify_path` before a model call.
        """
        ...

    def is_held(self) -> bool:
        """Whether any process holds the run now; changes nothing."""
        ...
