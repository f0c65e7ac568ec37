"""Who is there to answer a run's questions, as the options say it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from skillrun.questions.prepared_answers import Prepared
    from skillrun.questions.responder import Person


@dataclass(frozen=True)
class Presence:
    """`--unattended`, `--interactive` and `--answers`."""

    unattended: bool
    interactive: bool
    answers: Path | None

    def prepared(self) -> Prepared:
        """The prepared answers, none of them taken yet. Raises SkillrunError when they cannot be read."""
        from skillrun.questions.prepared_answers import Prepared, read_answers

        return read_answers(self.answers) if self.answers else Prepared()

    @property
    def typed(self) -> dict[str, str]:
        """The flags, as they are typed again."""
        from skillrun.questions.responder import flags_of

        return flags_of(self.answers, unattended=self.unattended)

    def person(self, around: Callable[[], AbstractContextManager[object]] = nullcontext) -> Person:
        """Who answers; `around` is entered while somebody is asked. Raises SkillrunError."""
        from skillrun.questions.responder import open_person

        return open_person(
            unattended=self.unattended, answers=self.answers, interactive=self.interactive, around=around
        )
