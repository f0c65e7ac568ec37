"""Who is there to answer a run's questions, as the options say it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from skillrun.questions.prepared_answers import PreparedAnswers
    from skillrun.questions.responder import InteractiveResponder


@dataclass(frozen=True)
class AnswerOptions:
    """`--unattended`, `--interactive` and `--answers`."""

    unattended: bool
    interactive: bool
    answers: Path | None

    def load_prepared_answers(self) -> PreparedAnswers:
        """The prepared answers, none of them taken yet. Raises SkillrunError when they cannot be read."""
        from skillrun.questions.prepared_answers import PreparedAnswers, read_answers

        return read_answers(self.answers) if self.answers else PreparedAnswers()

    @property
    def command_flags(self) -> dict[str, str]:
        """The flags, as they are typed again."""
        from skillrun.questions.responder import answer_flags

        return answer_flags(self.answers, unattended=self.unattended)

    def open_responder(
        self, prompt_context: Callable[[], AbstractContextManager[object]] = nullcontext
    ) -> InteractiveResponder:
        """Who answers; `around` is entered while somebody is asked. Raises SkillrunError."""
        from skillrun.questions.responder import open_responder

        return open_responder(
            unattended=self.unattended,
            answers=self.answers,
            interactive=self.interactive,
            prompt_context=prompt_context,
        )
