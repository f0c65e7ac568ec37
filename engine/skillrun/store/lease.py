"""The lease of a run: at most one process evaluates a run at a time, and one that has lost it writes nothing more.

A protocol; `local/lock.py` uses locks of the operating system, `memory.py` works within the process. The contract is
`tests/contract/test_lease.py`.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Protocol

from skillrun.repository.confined_folder import WriteGuard
from skillrun.syntax.diagnostics import SkillrunError


class LeaseLost(SkillrunError):
    """The files of a run have moved, or this process no longer holds it. Its `next_step` is complete."""


class Lease(Protocol):
    """The right to evaluate one run, which a process has from `hold` until it releases the run, dies or loses it."""

    def hold(self) -> AbstractContextManager[WriteGuard]:
        """Hold the run while the context lasts. Raises SkillrunError, naming the holder, if another process holds it.

        The guard raises an error if another process has taken the run, or with `verify_path` if the run has moved. The
        journal and the files call it before every commit and write, and with `verify_path` before a model call.
        """
        ...

    def is_held(self) -> bool:
        """Whether any process holds the run now; changes nothing."""
        ...
