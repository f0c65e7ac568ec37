"""Chooses how questions are answered: in the terminal, from prepared answers, or not at all."""

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
        """Return the prepared answers, all unused. Raises SkillrunError if they cannot be read."""
        from skillrun.questions.prepared_answers import PreparedAnswers, read_answers

        return read_answers(self.answers) if self.answers else PreparedAnswers()

    @property
    def command_flags(self) -> dict[str, str]:
        """The flags to repeat on the command line, with their values."""
        from skillrun.questions.responder import answer_flags

        return answer_flags(self.answers, unattended=self.unattended)

    def open_responder(
        self, prompt_context: Callable[[], AbstractContextManager[object]] = nullcontext
    ) -> InteractiveResponder:
        """Return the responder; `prompt_context` is entered while it asks. Raises SkillrunError."""
        from skillrun.questions.responder import open_responder

        return open_responder(
            unattended=self.unattended,
            answers=self.answers,
            interactive=self.interactive,
            prompt_context=prompt_context,
        )
