"""Asks in the terminal: choices by arrow keys or number, several with the space bar, or free text; one at a time.

Owns what the person sees and types. Ctrl-C comes out as KeyboardInterrupt, with the terminal as it was.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from skillrun.language.diagnostics import hanging, printable
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
BACK: Final = object()  # instead of an answer
Keep = Callable[[str, Any], Awaitable[None]]
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

    async def ask(
        self,
        questions: Sequence[Question] | Mapping[str, Question],
        phase: str = "",
        before: Mapping[str, Any] = MappingProxyType({}),
        keep: Keep | None = None,
        *,
        may_skip: bool = False,
    ) -> list[dict[str, Any]]:
        """The answers' records, in order; Shift-Tab goes back to the one before. Raises KeyboardInterrupt.

        `before`: answers by the name of their question that were given earlier; it goes on with the first without one.
        `keep` hears of each answer. `may_skip`: each question may be left open.
        """
        if not isinstance(questions, Mapping):
            questions = {str(number): question for number, question in enumerate(questions)}
        names = list(questions)
        given: dict[str, Any] = {name: before[name] for name in names if name in before}
        number = next((number for number, name in enumerate(names) if name not in given), len(names) - 1)
        with self.around():
            while number < len(names):
                name, question = names[number], questions[names[number]]
                progress = f"{number + 1} of {len(names)}" if len(names) > 1 else ""
                self._introduce(question, phase, progress, "Shift-Tab goes back" if number else "")
                found = await self._answer(question, given.get(name), back=number > 0, may_skip=may_skip)
                if found is BACK:
                    number -= 1
                    continue
                given[name] = found
                number += 1
                if keep is not None and len(names) > 1:
                    await keep(name, found)
        return [answered(given[name]) for name in names]

    def _introduce(self, question: Question, phase: str, progress: str, keys: str) -> None:
        """The line above a question: where it comes from and how it stands in its list; and what was noted on it."""
        from prompt_toolkit import print_formatted_text
        from prompt_toolkit.formatted_text import FormattedText
        from prompt_toolkit.output import create_output

        parts = (phase, progress, question.get("priority"), question.get("section"), keys)
        words = [shown(part) for part in parts if part]
        notes = "".join(f"    {note}\n" for note in notes_of(question))
        self.screen = self.screen or create_output(always_prefer_tty=True)
        text = FormattedText([("bold", f"\n{' · '.join(words)}\n"), ("", notes)])
        print_formatted_text(text, end="", output=self.screen)

    async def _answer(self, question: Question, earlier: Any, *, back: bool, may_skip: bool) -> Any:
        """The answer, or BACK; `earlier` is what was answered before the person came back."""
        message, default = hanging(str(question.get("text", ""))), default_of(question)
        likely = default if earlier is None else earlier
        if not choices_of(question):
            return await self._text(message, likely, optional=default == "" or may_skip, back=back)
        while True:
            picked = await self._pick(message, question, likely, back=back, may_skip=may_skip)
            if picked is BACK:
                return BACK
            numbers = picked if isinstance(picked, list) else [picked]
            answers = [choices_of(question)[number] for number in numbers if number >= 0]
            own = ""
            if OTHER in numbers:
                own = await self._text("In your own words (Shift-Tab goes back):", "", optional=False, back=True)
            if own is not BACK:
                answers += [own] if own else []
                return answers if is_multiple(question) else answers[0] if answers else ""

    async def _pick(self, message: str, question: Question, likely: Any, *, back: bool, may_skip: bool) -> Any:
        """The number of a choice, or a list of them, or BACK."""
        import questionary

        titles = dict(enumerate(map(shown, choices_of(question))))
        optional = default_of(question) in ("", [])
        wanted = list(map(shown, likely if isinstance(likely, list) else [likely]))
        chosen = [number for number, title in titles.items() if title in wanted]
        empty = optional or may_skip
        if is_open(question):
            titles[OTHER] = "other…"
        if is_multiple(question):
            prompt = questionary.checkbox(
                message,
                [questionary.Choice(title, value, checked=value in chosen) for value, title in titles.items()],
                instruction="(space ticks, Enter goes on)",
                use_jk_keys=False,
                validate=lambda ticked: bool(ticked) or empty or "tick at least one",
                **self._streams(),
            )
            return await _run(prompt, back=back)
        if optional:
            titles[NONE] = "(no answer)"
            chosen = chosen or [NONE]
        elif may_skip:
            titles[NONE] = "(leave it open)"
            chosen = chosen or ([NONE] if likely == "" else [])
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
        return await _run(prompt, back=back)

    async def _text(self, message: str, likely: Any, *, optional: bool, back: bool) -> Any:
        """Free text, sent with Enter; pasting brings further lines. Or BACK."""
        import questionary

        prompt = questionary.text(
            message,
            default=printable(likely) if isinstance(likely, str) else "" if likely is None else shown(likely),
            instruction="(leave it empty to skip)" if optional else None,
            validate=lambda text: bool(text.strip()) or optional or "an answer is needed here; Ctrl-C pauses the run",
            validate_while_typing=False,
            **self._streams(),
        )
        found = await _run(prompt, back=back)
        return found if found is BACK else str(found).strip()

    def _streams(self) -> dict[str, Any]:
        return {"input": self.keyboard, "output": self.screen}


async def _run(prompt: Prompt, *, back: bool) -> Any:
    from prompt_toolkit.key_binding import KeyBindings, merge_key_bindings

    keys = KeyBindings()

    @keys.add("s-tab")
    def _(event: Any) -> None:
        if back:
            event.app.erase_when_done = True
            event.app.exit(result=BACK)

    application = prompt.application
    application.key_bindings = merge_key_bindings([application.key_bindings or KeyBindings(), keys])
    try:
        # SIGINT stays with the run: prompt_toolkit would take its handler away for good
        return await application.run_async(set_exception_handler=False, handle_sigint=False)
    except EOFError:
        raise KeyboardInterrupt from None
