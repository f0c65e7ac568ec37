"""How the evaluation of a step, a phase or a run can end other than with a result."""

from __future__ import annotations

from skillrun.language.diagnostics import SkillrunError


class StepFailed(Exception):  # noqa: N818 (an outcome, in the words of the design)
    """A step has no result. `otherwise`, the phase's breaker or the end of the run takes it from here."""

    def __init__(self, reason: str, address: str = "") -> None:
        super().__init__(reason)
        self.reason = reason
        self.address = address


class Back(Exception):  # noqa: N818
    """The phase ends here and the run goes back to `target`."""

    def __init__(self, target: str, step: str) -> None:
        super().__init__(target)
        self.target = target
        self.step = step


class Stopped(Exception):  # noqa: N818
    """The run, or the protocol or inline workflow, ends here."""

    def __init__(self, status: str, reason: str) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason


class Waiting(Exception):  # noqa: N818
    """A person has to do something before this phase can go on."""

    def __init__(self, reason: str, next_step: str = "") -> None:
        super().__init__(reason)
        self.reason = reason
        self.next_step = next_step


class BudgetSpent(SkillrunError):
    """A limit of the run is reached; nothing more is sent until it is raised."""

    exit_code = 75
