"""What holds a run: at most one process evaluates it at a time, and one that has lost it writes nothing more.

A protocol; `disk/lock.py` holds by locks of the operating system, `memory.py` within the process. The contract is
`tests/contract/test_lease.py`.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Protocol

from skillrun.repository.confined_folder import WriteGuard
from skillrun.syntax.diagnostics import SkillrunError


class LeaseLost(SkillrunError):
    """The files of a run are not where they were, or this process holds it no more; its next step is complete."""


class Lease(Protocol):
    """The right to evaluate one run, which a process has from `hold` until it lets go, dies or loses it."""

    def hold(self) -> AbstractContextManager[WriteGuard]:
        """Have the run while the context lasts. Raises SkillrunError, naming the holder, while another has it.

        The guard raises an error if another process has taken the run, or with `verify_path` if the run has moved. The
        journal and the files call it before every commit and write, and with `verify_path` before a model call.
        """
        ...

    def is_held(self) -> bool:
        """Whether anybody has the run now; changes nothing."""
        ...
