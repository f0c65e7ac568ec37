"""How a run ended, or its current status."""

from __future__ import annotations

import errno
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from shlex import quote, split
from typing import Any, Final, Literal

from skillrun.syntax.diagnostics import SkillrunError

RECORDED_FLAGS: Final = ("--unattended", "--answers", "--script")
_WORDED: Final = re.compile(r"`skillrun resume RUN([^`]*)`")


@dataclass(frozen=True)
class ResumeCommand:
    """The command that resumes the run, with the `flags` that the next step requires."""

    flags: str = ""

    def render(self, run: str, flags: Mapping[str, str]) -> str:
        """Format the command for a run.

        Adds each given flag, with its value if it has one, unless `self.flags` contains the flag.
        """
        more = (" ".join(filter(None, flag)) for flag in flags.items() if flag[0] not in self.flags)
        return f"`{' '.join(['skillrun resume', run, *more, *filter(None, [self.flags])])}`"


@dataclass(frozen=True)
class NextStep:
    """A sequence of texts and commands; empty if there is nothing to do."""

    parts: tuple[str | ResumeCommand, ...] = ()

    @classmethod
    def of(cls, *parts: str | ResumeCommand | NextStep) -> NextStep:
        """Join parts and other steps, in order."""
        several = (part.parts if isinstance(part, NextStep) else (part,) for part in parts)
        return cls(tuple(part for some in several for part in some if part != ""))

    @classmethod
    def parse(cls, words: str) -> NextStep:
        """Parse a next step that a model's error or the journal contains as plain text."""
        texts = _WORDED.split(words)  # texts and flags alternate
        return cls.of(*(ResumeCommand(text.strip()) if at % 2 else text for at, text in enumerate(texts)))

    def __bool__(self) -> bool:
        return bool(self.parts)

    def __str__(self) -> str:
        return self.render("RUN")

    def then_resume(self, between: str = "; ") -> NextStep:
        """Return this step followed by the command that resumes the run, unless the step already contains the command.

        A full stop before the command is removed.
        """
        last = self.parts[-1] if self.parts else ""
        words = last.rstrip(". ") if isinstance(last, str) else last
        step = NextStep.of(*self.parts[:-1], words)
        if any(isinstance(part, ResumeCommand) for part in step.parts):
            return step
        return NextStep.of(step or "fix the problem", f"{between}then ", RESUME_RUN)

    def render(self, run: str, flags: Mapping[str, str] = {}) -> str:
        """Format the text for the user, with the commands for this run."""
        return "".join(part if isinstance(part, str) else part.render(run, flags) for part in self.parts)


NO_NEXT_STEP: Final = NextStep()
RESUME_RUN: Final = NextStep.of("resume with ", ResumeCommand())


def flags_to_record(flags: Mapping[str, str]) -> dict[str, str]:
    """Return the flags of a run's command for the transcript, with absolute, unquoted paths."""
    return {name: str(Path(*split(value)).absolute()) if value else "" for name, value in flags.items()}


def flags_for_resume(recorded: Mapping[str, str]) -> dict[str, str]:
    """Return the recorded flags that `resume` accepts. Paths are shortened for the current folder."""
    current, flags = Path.cwd(), {}
    for name in RECORDED_FLAGS:
        if name in recorded:
            path = recorded[name]
            is_below = Path(path).is_relative_to(current)
            flags[name] = quote(str(Path(path).relative_to(current)) if is_below else path) if path else ""
    return flags


Status = Literal["running", "waiting", "completed", "failed", "interrupted"]
EXIT: Final[Mapping[Status, int]] = {"completed": 0, "failed": 1, "waiting": 75, "interrupted": 130}
HANGUP: Final = 129


@dataclass(frozen=True)
class Outcome:
    """How a run ended, or its current status: status, reason and next step."""

    status: Status
    reason: str = ""
    next_step: NextStep = NO_NEXT_STEP
    outputs: Mapping[str, Any] = field(default_factory=dict)
    is_hangup: bool = False
    """Whether the run was interrupted because its terminal was closed."""

    @property
    def exit_code(self) -> int:
        return HANGUP if self.is_hangup else EXIT[self.status]


ROOM: Final = "free disk space"
OS_ERROR_HINTS: Final[Mapping[int, str]] = {
    errno.ENOSPC: ROOM,
    errno.EDQUOT: ROOM,
    errno.EACCES: "check the permissions",
    errno.EPERM: "check the permissions",
    errno.EROFS: "make the disk writable",
    errno.EIO: "check the disk for errors",
    errno.EISDIR: "move away the folder that has this name",
    errno.ENOTDIR: "move away the file that has the name of a parent folder",
}


class WaitingForUser(Exception):
    """The user has to act before the phase can continue."""

    def __init__(self, reason: str, next_step: NextStep = NO_NEXT_STEP, pause_type: str = "interactive") -> None:
        super().__init__(reason)
        self.reason = reason
        self.next_step = next_step
        self.pause_type = pause_type
        """`exit` if the user has to act outside of the run, for example to fill in a file."""


def file_error(error: OSError) -> SkillrunError:
    """Return the error for a file of the run that cannot be accessed, with a hint."""
    place = f"{error.filename} cannot be read or written: " if error.filename else ""
    way = OS_ERROR_HINTS.get(error.errno or 0, "check its permissions and the free disk space")
    return SkillrunError(f"{place}{error.strerror or error}", way)
