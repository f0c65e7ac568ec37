"""Asks questions in the terminal, one at a time. The user selects choices with the arrow keys, numbers or the space
bar, or enters text.

This module owns the prompts. On Ctrl-C, it restores the terminal, saves the entered text, and raises KeyboardInterrupt.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from textwrap import wrap
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Literal

from skillrun.questions.answers import (
    ENDED,
    UNSEEN,
    Answer,
    Question,
    accepts_free_text,
    build_answer,
    choices_of,
    context_lines,
    default_of,
    is_multiple,
    levels_of,
    may_skip,
    to_one_line,
)
from skillrun.syntax.diagnostics import indent_continuation, make_printable

if TYPE_CHECKING:
    from prompt_toolkit.key_binding import KeyBindings
    from questionary import Question as Prompt

BACK: Final = object()  # returned instead of an answer: go to the previous question
DONE: Final = object()  # returned instead of an answer: end the list


@dataclass
class InputState:
    """The input state of a question: its initial value, its keys, and the text entered so far."""

    previous: Any = None
    draft: str = ""
    can_go_back: bool = False
    may_skip: bool = False
    enough: str = ""
    confidence: str = ""
    levels: list[str] = field(default_factory=list)
    is_free_text: bool = False  # the answer is text, not a choice
    is_optional: bool = False
    text: str = ""

    def __str__(self) -> str:
        """Return the hint after a free-text question. It is rendered again on each redraw."""
        words = ["leave it empty to skip"] if self.is_optional else []
        if self.levels:
            level = make_printable(self.confidence)
            words.append(f"how sure: {level}" if level else "Ctrl-T sets how sure")
        hint = f"\n    ({'; '.join(words)})" if words else ""
        return f"{hint}\n >"  # prompt_toolkit truncates wide lines, except the last one


def key_bindings(typing: InputState) -> KeyBindings:
    """Return the key bindings for a prompt of prompt_toolkit."""
    from prompt_toolkit.key_binding import KeyBindings

    keys = KeyBindings()

    def bind_exit(key: str, result: object) -> None:
        @keys.add(key)
        def _(event: Any) -> None:
            event.app.erase_when_done = result is BACK
            event.app.exit(result=result)

    if typing.can_go_back:
        bind_exit("s-tab", BACK)
    else:
        keys.add("s-tab")(lambda _: None)
    if typing.enough:
        bind_exit("c-g", DONE)
    if typing.levels:

        @keys.add("c-t")
        def _(_: Any) -> None:
            steps = ["", *typing.levels]
            place = steps.index(typing.confidence) + 1 if typing.confidence in steps else 0
            typing.confidence = steps[place % len(steps)]

    if typing.is_free_text:

        @keys.add("escape", "enter")
        def _(event: Any) -> None:
            event.current_buffer.insert_text("\n")

        @keys.add("c-o")
        @keys.add("c-x", "c-e")
        def _(event: Any) -> None:
            event.current_buffer.open_in_editor(validate_and_handle=False)

    return keys


OTHER_CHOICE, NO_ANSWER = -1, -2  # negative, so that they differ from the numbers of the choices
ProgressKind = Literal["given", "sure", "typed", "times"]
SaveProgress = Callable[[ProgressKind, str, Any], Awaitable[None]]
"""A function that saves the progress of a question. It receives the kind of progress, the question's name, and the
answer, confidence or entered text."""
NO_CONFIDENCE: Final = "(do not say)"
MAX_SHORTCUTS: Final = 36  # digits and letters; in a longer list, only the arrow keys select


Progress = Mapping[ProgressKind, Mapping[str, Any]]
"""The progress that was saved when the user paused, by its kind and the question's name."""
NO_PROGRESS: Final[Progress] = MappingProxyType({})


def saved_answer(progress: Progress, name: str) -> Answer:
    """Return the answer that the user gave before the pause; empty if the question is open."""
    return build_answer(progress.get("given", {}).get(name), confidence=progress.get("sure", {}).get(name, ""))


class Terminal:
    """Asks lists of questions. `keyboard` and `screen` are the input and the output for prompt_toolkit."""

    def __init__(
        self,
        prompt_context: Callable[[], AbstractContextManager[object]] = nullcontext,
        keyboard: Any = None,
        screen: Any = None,
    ) -> None:
        self.prompt_context = prompt_context
        self.keyboard = keyboard
        self.screen = screen

    async def ask(
        self,
        questions: Sequence[Question] | Mapping[str, Question],
        phase: str = "",
        unfinished: Progress = NO_PROGRESS,
        save_progress: SaveProgress | None = None,
        *,
        may_skip: bool = False,
        enough: str = "",
    ) -> list[Answer]:
        """Ask the questions, and return the answer records in order. Shift-Tab goes back to the previous question.
        Raises KeyboardInterrupt.

        `unfinished`: the earlier answers. The first question without an earlier answer is asked first. `save_progress`
        receives the progress to save. `may_skip`: each question may be left open. `enough`: the label of the key that
        ends the list. If the user presses this key, the current question gets ENDED, and each question that was
        never shown gets UNSEEN.
        """
        if not isinstance(questions, Mapping):
            questions = {str(number): question for number, question in enumerate(questions)}
        names = list(questions)
        answers = {name: answer for name, answer in unfinished.get("given", {}).items() if name in questions}
        confidences, drafts = dict(unfinished.get("sure", {})), dict(unfinished.get("typed", {}))
        number = next((number for number, name in enumerate(names) if name not in answers), len(names) - 1)
        shown, ended = set(answers), False
        with self.prompt_context():
            while number < len(names):
                name, question = names[number], questions[names[number]]
                shown.add(name)
                progress = f"{number + 1} of {len(names)}" if len(names) > 1 else ""
                self._print_header(question, phase, progress, "Shift-Tab goes back" if number else "", enough)
                typing = InputState(
                    answers.get(name), drafts.pop(name, ""), number > 0, may_skip, enough, confidences.get(name, "")
                )
                try:
                    answer = await self._ask_question(question, typing)
                except (KeyboardInterrupt, asyncio.CancelledError):
                    if save_progress is not None and typing.text.strip():
                        await save_progress("typed", name, typing.text)
                    raise
                if typing.confidence != confidences.get(name, ""):
                    confidences[name] = typing.confidence
                    if save_progress is not None:
                        await save_progress("sure", name, typing.confidence)
                if answer is BACK:
                    drafts[name] = typing.text
                    number -= 1
                    continue
                ended = answer is DONE
                if ended and not typing.text.strip():
                    break
                if ended:
                    answer = [typing.text.strip()] if is_multiple(question) else typing.text.strip()
                answers[name] = answer
                number += 1
                if save_progress is not None and len(names) > 1:
                    await save_progress("given", name, answers[name])
                if ended:
                    break
        records: list[Answer] = [
            build_answer(answers[name], confidence=confidences.get(name, ""))
            if name in answers
            else UNSEEN
            if name not in shown
            else ENDED
            if at >= number
            else {}
            for at, name in enumerate(names)
        ]
        return [*records[:-1], {**records[-1], **ENDED}] if ended else records

    def _print_header(self, question: Question, phase: str, progress: str, keys: str, enough: str) -> None:
        from prompt_toolkit import print_formatted_text
        from prompt_toolkit.formatted_text import FormattedText
        from prompt_toolkit.output import create_output

        parts = (phase, progress, question.get("priority"), question.get("section"), keys)
        words = [to_one_line(part) for part in parts if part]
        notes = "".join(f"    {note}\n" for note in context_lines(question))
        self.screen = self.screen or create_output(always_prefer_tty=True)
        hints = [] if choices_of(question) else ["Alt-Enter new line", "Ctrl-O editor"]
        hints += [f"Ctrl-G {make_printable(enough)}"] if enough else []
        hint = f"    {' · '.join([*hints, 'Ctrl-C pauses'])}\n" if enough or levels_of(question) else ""
        text = FormattedText([("bold", f"\n{' · '.join(words)}\n"), ("", notes), ("italic", hint)])
        print_formatted_text(text, end="", output=self.screen)

    async def _ask_question(self, question: Question, typing: InputState) -> Any:
        """Return the answer, BACK or DONE. The entered text and the confidence are stored in `typing`."""
        message, default = self._wrap_text(indent_continuation(str(question.get("text", "")))), default_of(question)
        likely = default if typing.previous is None else typing.previous
        open_ = typing.may_skip or may_skip(question)
        if not choices_of(question):
            typing.levels = levels_of(question)
            text = typing.draft or ("" if likely is None else likely)
            return await self._ask_text(message, text, typing, optional=default == "" or open_)
        titles = [*map(to_one_line, choices_of(question))]
        earlier = typing.previous if isinstance(typing.previous, list) else [typing.previous]
        texts = [answer for answer in earlier if isinstance(answer, str) and answer]
        typing.text = typing.draft or next((text for text in texts if to_one_line(text) not in titles), "")
        while True:
            picked = await self._ask_choice(message, question, likely, typing, may_skip=open_)
            if picked is DONE and typing.previous is not None:
                typing.text = ""  # the previous answer stays
            if picked is BACK or picked is DONE:
                return picked
            numbers = picked if isinstance(picked, list) else [picked]
            answers = [choices_of(question)[number] for number in numbers if number >= 0]
            own_words = await self._ask_own_words(typing) if OTHER_CHOICE in numbers else ""
            if own_words is not BACK:
                answers += [own_words] if own_words else []
                if answers and levels_of(question):
                    levels: Question = {"choices": [*levels_of(question), NO_CONFIDENCE]}
                    likely_level = typing.confidence or NO_CONFIDENCE
                    number = await self._ask_choice("How sure are you?", levels, likely_level, InputState())
                    typing.confidence = [*levels_of(question), ""][number]
                return answers if is_multiple(question) else answers[0] if answers else ""

    async def _ask_own_words(self, typing: InputState) -> Any:
        """Return a free-text answer, or BACK. `typing` keeps the entered text even if the user leaves the prompt."""
        text_state = InputState(can_go_back=True)
        try:
            return await self._ask_text(
                "In your own words (Shift-Tab goes back):", typing.text, text_state, optional=False
            )
        finally:
            typing.text = text_state.text

    def _wrap_text(self, text: str) -> str:
        room = max(20, self.screen.get_size().columns - 4)
        lines = [wrap(line, room, subsequent_indent="  ", break_on_hyphens=False) for line in text.split("\n")]
        return "\n".join("\n".join(parts) for parts in lines)

    async def _ask_choice(
        self, message: str, question: Question, likely: Any, typing: InputState, *, may_skip: bool = False
    ) -> Any:
        """Return the number of the selected choice, a list of numbers, BACK or DONE."""
        import questionary

        titles = dict(enumerate(map(to_one_line, choices_of(question))))
        optional = default_of(question) in ("", [])
        wanted = list(map(to_one_line, likely if isinstance(likely, list) else [likely]))
        chosen = [number for number, title in titles.items() if title in wanted]
        empty = optional or may_skip
        if accepts_free_text(question):
            titles[OTHER_CHOICE] = "other…"
        if accepts_free_text(question) and typing.text:
            chosen = [*chosen, OTHER_CHOICE] if is_multiple(question) else [OTHER_CHOICE]
        if is_multiple(question):
            prompt = questionary.checkbox(
                message,
                [questionary.Choice(title, value, checked=value in chosen) for value, title in titles.items()],
                instruction="(space ticks, Enter continues)",
                use_jk_keys=False,
                validate=lambda ticked: bool(ticked) or empty or "tick at least one",
                **self._streams(),
            )
            return await _run_prompt(prompt, typing)
        if optional:
            titles[NO_ANSWER] = "(no answer)"
            chosen = chosen or [NO_ANSWER]
        elif may_skip:
            titles[NO_ANSWER] = "(leave it open)"
            chosen = chosen or ([NO_ANSWER] if likely == "" else [])
        choices = [questionary.Choice(title, value) for value, title in titles.items()]
        keys = len(choices) <= MAX_SHORTCUTS
        prompt = questionary.select(
            message,
            choices,
            default=next((choice for choice in choices if choice.value in chosen), None),
            instruction="(arrow keys or number, then Enter)" if keys else "(arrow keys, then Enter)",
            use_shortcuts=keys,
            use_jk_keys=False,
            **self._streams(),
        )
        return await _run_prompt(prompt, typing)

    async def _ask_text(self, message: str, likely: Any, typing: InputState, *, optional: bool) -> Any:
        """Return the text that the user sent with Enter, BACK or DONE. The text may have several lines or come from an
        editor."""
        import questionary

        typing.is_free_text, typing.is_optional = True, optional
        instruction: Any = typing
        prompt = questionary.text(
            message,
            default=make_printable(likely) if isinstance(likely, str) else to_one_line(likely),
            instruction=instruction,
            validate=lambda text: bool(text.strip()) or optional or "an answer is required; Ctrl-C pauses the run",
            validate_while_typing=False,
            **self._streams(),
        )
        answer = await _run_prompt(prompt, typing)
        return answer if answer is BACK or answer is DONE else str(answer).strip()

    def _streams(self) -> dict[str, Any]:
        return {"input": self.keyboard, "output": self.screen}


async def _run_prompt(prompt: Prompt, typing: InputState) -> Any:
    """Return the result of a prompt. `typing` keeps the entered text even if the user leaves the prompt."""
    from prompt_toolkit.key_binding import merge_key_bindings

    application = prompt.application
    own = application.key_bindings
    application.key_bindings = merge_key_bindings([*([own] if own else []), key_bindings(typing)])
    try:
        # the run keeps handling SIGINT, because prompt_toolkit would remove the run's handler permanently
        return await application.run_async(set_exception_handler=False, handle_sigint=False)
    except EOFError:
        raise KeyboardInterrupt from None
    finally:
        if typing.is_free_text:
            typing.text = application.current_buffer.text
