"""Asks in the terminal: choices by arrow keys or number, several with the space bar, or free text; one at a time.

Owns what the person sees and types. Ctrl-C comes out as KeyboardInterrupt, with the terminal as it was.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, Final

from skillrun.language.printable import printable
from skillrun.people.answers import (
    Question,
    answered,
    choice_like,
    choices_of,
    default_of,
    is_multiple,
    is_open,
    notes_of,
    shown,
)

if TYPE_CHECKING:
    from prompt_toolkit.key_binding import KeyPressEvent
    from questionary import Question as Prompt

BACK: Final = object()
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
        given: list[Any] = [default_of(question) for question in questions]
        with self.around():
            number = 0
            while number < len(questions):
                self._introduce(questions[number], number, len(questions), phase)
                answer = await self._answer(questions[number], given[number], back=number > 0)
                if answer is BACK:
                    number -= 1
                else:
                    given[number] = answer
                    number += 1
        return [answered(answer) for answer in given]

    def _introduce(self, question: Question, number: int, total: int, phase: str) -> None:
        """The line above a question: where it comes from and how it stands in its list; and what was noted on it."""
        from prompt_toolkit import print_formatted_text
        from prompt_toolkit.formatted_text import FormattedText

        progress = f"{number + 1} of {total}" if total > 1 else ""
        words = [shown(word) for word in (phase, progress, question.get("priority"), question.get("section")) if word]
        notes = "".join(f"{note}\n" for note in notes_of(question))
        self.screen = self.screen or _screen()
        print_formatted_text(
            FormattedText([("bold", f"\n{' · '.join(words)}\n"), ("", notes)]), end="", output=self.screen
        )

    async def _answer(self, question: Question, before: Any, *, back: bool) -> Any:
        """One answer, or BACK; `before` is the default, or what was answered before coming back."""
        if not choices_of(question):
            return await self._text(printable(str(question.get("text", ""))), before, question, back=back)
        while True:
            picked = await self._pick(question, before, back=back)
            if picked is BACK:
                return BACK
            numbers = picked if isinstance(picked, list) else [picked]
            answers = [choices_of(question)[number] for number in numbers if number >= 0]
            if OTHER in numbers:
                own = await self._text("In your own words:", _own(question, before), {}, back=True)
                if own is BACK:
                    continue
                answers.append(own)
            if is_multiple(question):
                return answers
            return answers[0] if answers else ""

    async def _pick(self, question: Question, before: Any, *, back: bool) -> Any:
        """The number of a choice, a list of them, or BACK."""
        import questionary

        titles = dict(enumerate(map(shown, choices_of(question))))
        optional = default_of(question) in ("", [])
        if is_open(question):
            titles[OTHER] = "other…"
        if optional and not is_multiple(question):
            titles[NONE] = "(no answer)"
        chosen = _numbers(question, before)
        message = printable(str(question.get("text", "")))
        if is_multiple(question):
            choices = [questionary.Choice(title, value, checked=value in chosen) for value, title in titles.items()]
            hint = _hint("space ticks, Enter goes on", back)
            prompt = questionary.checkbox(
                message,
                choices,
                instruction=hint,
                use_jk_keys=False,
                validate=lambda ticked: bool(ticked) or optional or "tick at least one",
                **self._streams(),
            )
        else:
            choices = [questionary.Choice(title, value) for value, title in titles.items()]
            keys = len(choices) <= MOST_KEYS
            prompt = questionary.select(
                message,
                choices,
                default=next((choice for choice in choices if choice.value in chosen), None),
                instruction=_hint("arrow keys or number, then Enter" if keys else "arrow keys, then Enter", back),
                use_shortcuts=keys,
                use_jk_keys=False,
                **self._streams(),
            )
        return await self._run(prompt, back)

    async def _text(self, message: str, before: Any, question: Question, *, back: bool) -> Any:
        """Free text, or BACK. Enter sends it; Alt-Enter and pasting bring further lines."""
        import questionary

        optional = default_of(question) == ""
        wanted = "leave it empty to skip" if optional else "an answer is needed here; Ctrl-C pauses the run"
        prompt = questionary.text(
            message,
            default=printable(before) if isinstance(before, str) else "" if before is None else shown(before),
            instruction=_hint("Enter sends, Alt-Enter starts a line" + (f", {wanted}" if optional else ""), back),
            validate=lambda text: bool(text.strip()) or optional or wanted,
            validate_while_typing=False,
            **self._streams(),
        )
        found = await self._run(prompt, back, newline=True)
        return found.strip() if isinstance(found, str) else found

    async def _run(self, prompt: Prompt, back: bool, *, newline: bool = False) -> Any:
        from prompt_toolkit.key_binding import KeyBindings, merge_key_bindings

        keys = KeyBindings()

        def leave(event: KeyPressEvent) -> None:
            event.app.exit(result=BACK)

        def line(event: KeyPressEvent) -> None:
            event.current_buffer.insert_text("\n")

        if back:
            keys.add("s-tab", eager=True)(leave)
        if newline:
            keys.add("escape", "enter")(line)
        application = prompt.application
        own = [application.key_bindings] if application.key_bindings is not None else []
        application.key_bindings = merge_key_bindings([*own, keys])
        try:
            # SIGINT stays with the run: prompt_toolkit would take its handler away for good
            return await application.run_async(set_exception_handler=False, handle_sigint=False)
        except EOFError:
            raise KeyboardInterrupt from None

    def _streams(self) -> dict[str, Any]:
        return {"input": self.keyboard, "output": self.screen}


def _numbers(question: Question, before: Any) -> list[int]:
    """Which of the choices, and of the entries beside them, were chosen before or by default."""
    if before in ("", []):
        return [] if is_multiple(question) else [NONE]
    found = []
    for item in before if isinstance(before, list) else [] if before is None else [before]:
        like = choice_like(question, shown(item))
        if like is not None:
            found.append(choices_of(question).index(like))
        elif is_open(question):
            found.append(OTHER)
    return found


def _own(question: Question, before: Any) -> str:
    items = before if isinstance(before, list) else [before]
    return next((item for item in items if isinstance(item, str) and choice_like(question, item) is None), "")


def _hint(text: str, back: bool) -> str:
    return f"({text}{', Shift-Tab goes back' if back else ''})"


def _screen() -> Any:
    from prompt_toolkit.output import create_output

    return create_output(always_prefer_tty=True)
