"""Asks in the terminal: choices by arrow keys or number, several with the space bar, or free text; one at a time.

Owns what the person sees and types. Ctrl-C comes out as KeyboardInterrupt, with the terminal as it was.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, Final

from skillrun.language.diagnostics import printable
from skillrun.people.answers import (
    Question,
    answered,
    choices_of,
    default_of,
    is_multiple,
    is_open,
    notes_of,
    shown,
)

if TYPE_CHECKING:
    from questionary import Question as Prompt

OTHER, NONE = -1, -2  # beside the numbers of the choices
MOST_KEYS: Final = 36  # digits and letters; a longer list is walked with the arrow keys


class Terminal:
    """Asks lists of questions. `keyboard` and `screen` are input and output of prompt_toolkit."""

    def __init__(
        self,
        around: Callable[[], AbstractContextManager[object]] = nullcontext,
        keyboard: Any = None,
        screen: Any = None,
    ) -> None:
        self.around = around
        self.keyboard = keyboard
        self.screen = screen

    async def ask(self, questions: Sequence[Question], phase: str = "") -> list[dict[str, Any]]:
        """The answers' records, in order. Raises KeyboardInterrupt when the person breaks off."""
        answers = []
        with self.around():
            for number, question in enumerate(questions, 1):
                progress = f"{number} of {len(questions)}" if len(questions) > 1 else ""
                self._introduce(question, phase, progress)
                answers.append(answered(await self._answer(question)))
        return answers

    def _introduce(self, question: Question, phase: str, progress: str) -> None:
        """The line above a question: where it comes from and how it stands in its list; and what was noted on it."""
        from prompt_toolkit import print_formatted_text
        from prompt_toolkit.formatted_text import FormattedText
        from prompt_toolkit.output import create_output

        words = [shown(word) for word in (phase, progress, question.get("priority"), question.get("section")) if word]
        notes = "".join(f"{note}\n" for note in notes_of(question))
        self.screen = self.screen or create_output(always_prefer_tty=True)
        text = FormattedText([("bold", f"\n{' · '.join(words)}\n"), ("", notes)])
        print_formatted_text(text, end="", output=self.screen)

    async def _answer(self, question: Question) -> Any:
        message, default = printable(str(question.get("text", ""))), default_of(question)
        if not choices_of(question):
            return await self._text(message, default, optional=default == "")
        picked = await self._pick(message, question)
        numbers = picked if isinstance(picked, list) else [picked]
        answers = [choices_of(question)[number] for number in numbers if number >= 0]
        if OTHER in numbers:
            answers.append(await self._text("In your own words:", None, optional=False))
        if is_multiple(question):
            return answers
        return answers[0] if answers else ""

    async def _pick(self, message: str, question: Question) -> Any:
        """The number of a choice, or a list of them."""
        import questionary

        titles = dict(enumerate(map(shown, choices_of(question))))
        default = default_of(question)
        optional = default in ("", [])
        likely = default if isinstance(default, list) else [default]
        chosen = [number for number, title in titles.items() if title in map(shown, likely)]
        if is_open(question):
            titles[OTHER] = "other…"
        if is_multiple(question):
            prompt = questionary.checkbox(
                message,
                [questionary.Choice(title, value, checked=value in chosen) for value, title in titles.items()],
                instruction="(space ticks, Enter goes on)",
                use_jk_keys=False,
                validate=lambda ticked: bool(ticked) or optional or "tick at least one",
                **self._streams(),
            )
            return await _run(prompt)
        if optional:
            titles[NONE] = "(no answer)"
            chosen = [NONE]
        choices = [questionary.Choice(title, value) for value, title in titles.items()]
        keys = len(choices) <= MOST_KEYS
        prompt = questionary.select(
            message,
            choices,
            default=next((choice for choice in choices if choice.value in chosen), None),
            instruction="(arrow keys or number, then Enter)" if keys else "(arrow keys, then Enter)",
            use_shortcuts=keys,
            use_jk_keys=False,
            **self._streams(),
        )
        return await _run(prompt)

    async def _text(self, message: str, default: Any, *, optional: bool) -> str:
        """Free text, sent with Enter; pasting brings further lines."""
        import questionary

        prompt = questionary.text(
            message,
            default=printable(default) if isinstance(default, str) else "" if default is None else shown(default),
            instruction="(leave it empty to skip)" if optional else None,
            validate=lambda text: bool(text.strip()) or optional or "an answer is needed here; Ctrl-C pauses the run",
            validate_while_typing=False,
            **self._streams(),
        )
        return str(await _run(prompt)).strip()

    def _streams(self) -> dict[str, Any]:
        return {"input": self.keyboard, "output": self.screen}


async def _run(prompt: Prompt) -> Any:
    try:
        # SIGINT stays with the run: prompt_toolkit would take its handler away for good
        return await prompt.application.run_async(set_exception_handler=False, handle_sigint=False)
    except EOFError:
        raise KeyboardInterrupt from None
