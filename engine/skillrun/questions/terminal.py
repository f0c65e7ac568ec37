"""Asks in the terminal: choices by arrow keys or number, several with the space bar, or free text; one at a time.

Owns what the person sees and types. Ctrl-C comes out as KeyboardInterrupt, with the terminal as it was and what was
typed kept. The keys are in `keys`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from textwrap import wrap
from typing import TYPE_CHECKING, Any, Final, Literal

from skillrun.questions.answers import (
    ENDED,
    Answer,
    Question,
    answered,
    choices_of,
    default_of,
    is_multiple,
    is_open,
    levels_of,
    lines_beside,
    may_skip,
    on_one_line,
)
from skillrun.questions.keys import BACK, DONE, Typing, TypingHint, hints, key_bindings
from skillrun.syntax.diagnostics import hanging, printable

if TYPE_CHECKING:
    from questionary import Question as Prompt

OTHER, NONE = -1, -2  # beside the numbers of the choices
Kept = Literal["given", "sure", "typed", "times"]
Keep = Callable[[Kept, str, Any], Awaitable[None]]
"""Is told what is to be kept of a question, by the question's name: its answer, how sure it is, what was typed."""
UNSURE: Final = "(do not say)"
MOST_KEYS: Final = 36  # digits and letters; a longer list is walked with the arrow keys


@dataclass(frozen=True)
class UnfinishedAnswers:
    """What a person left behind when they paused, by the names of the questions."""

    given: Mapping[str, Any] = field(default_factory=dict)
    sure: Mapping[str, str] = field(default_factory=dict)
    typed: Mapping[str, str] = field(default_factory=dict)

    @property
    def begun(self) -> bool:
        return bool(self.given or self.typed)


@dataclass
class _Going:
    """A list of questions on its way: the answers so far, how sure they are, and what was typed and not sent."""

    given: dict[str, Any]
    sure: dict[str, str] = field(default_factory=dict)
    typed: dict[str, str] = field(default_factory=dict)


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
        left: UnfinishedAnswers = UnfinishedAnswers(),
        keep: Keep | None = None,
        *,
        may_skip: bool = False,
        enough: str = "",
    ) -> list[Answer]:
        """The answers' records, in order; Shift-Tab goes back to the one before. Raises KeyboardInterrupt.

        `left`: what was answered earlier; it goes on with the first question without an answer. `keep` hears of what
        is to be kept. `may_skip`: each question may be left open. `enough`: words for ending the list with ENDED for
        each question that is left.
        """
        if not isinstance(questions, Mapping):
            questions = {str(number): question for number, question in enumerate(questions)}
        names = list(questions)
        going = _Going({name: left.given[name] for name in names if name in left.given}, {**left.sure}, {**left.typed})
        number = next((number for number, name in enumerate(names) if name not in going.given), len(names) - 1)
        ended = False
        with self.around():
            while number < len(names):
                name, question = names[number], questions[names[number]]
                progress = f"{number + 1} of {len(names)}" if len(names) > 1 else ""
                self._introduce(question, phase, progress, "Shift-Tab goes back" if number else "", enough)
                typing = Typing(
                    going.given.get(name),
                    going.typed.pop(name, ""),
                    number > 0,
                    may_skip,
                    enough,
                    going.sure.get(name, ""),
                )
                try:
                    answer = await self._answer(question, typing)
                except (KeyboardInterrupt, asyncio.CancelledError):
                    if keep is not None and typing.text.strip():
                        await keep("typed", name, typing.text)
                    raise
                if typing.sure != going.sure.get(name, ""):
                    going.sure[name] = typing.sure
                    if keep is not None:
                        await keep("sure", name, typing.sure)
                if answer is BACK:
                    going.typed[name] = typing.text
                    number -= 1
                    continue
                ended = answer is DONE
                if ended and not typing.text.strip():
                    break
                if ended:
                    answer = [typing.text.strip()] if is_multiple(question) else typing.text.strip()
                going.given[name] = answer
                number += 1
                if keep is not None and len(names) > 1:
                    await keep("given", name, going.given[name])
                if ended:
                    break
        records = [self._record(name, at >= number, going) for at, name in enumerate(names)]
        return [*records[:-1], {**records[-1], **ENDED}] if ended else records

    def _record(self, name: str, ended: bool, going: _Going) -> Answer:
        """The record of a question that was asked, or that the list has ended before."""
        if name not in going.given:
            return ENDED if ended else {}
        return answered(going.given[name], confidence=going.sure.get(name, ""))

    def _introduce(self, question: Question, phase: str, progress: str, keys: str, enough: str) -> None:
        """The lines above a question: where it comes from and how it stands in its list; what was noted on it; the keys
        of which the person cannot know."""
        from prompt_toolkit import print_formatted_text
        from prompt_toolkit.formatted_text import FormattedText
        from prompt_toolkit.output import create_output

        parts = (phase, progress, question.get("priority"), question.get("section"), keys)
        words = [on_one_line(part) for part in parts if part]
        notes = "".join(f"    {note}\n" for note in lines_beside(question))
        self.screen = self.screen or create_output(always_prefer_tty=True)
        hint = hints(question, enough) if enough or levels_of(question) else ""
        text = FormattedText([("bold", f"\n{' · '.join(words)}\n"), ("", notes), ("italic", hint)])
        print_formatted_text(text, end="", output=self.screen)

    async def _answer(self, question: Question, typing: Typing) -> Any:
        """The answer, BACK or DONE; what was typed and how sure it is goes into `typing`."""
        message, default = self._wrapped(hanging(str(question.get("text", "")))), default_of(question)
        likely = default if typing.earlier is None else typing.earlier
        open_ = typing.may_skip or may_skip(question)
        if not choices_of(question):
            typing.levels = levels_of(question)
            return await self._text(message, typing.typed or likely, typing, optional=default == "" or open_)
        typing.text = typing.typed or self._own(question, typing.earlier)
        while True:
            picked = await self._pick(message, question, likely, typing, may_skip=open_)
            if picked is DONE and typing.earlier is not None:
                typing.text = ""  # what was answered before stands
            if picked is BACK or picked is DONE:
                return picked
            numbers = picked if isinstance(picked, list) else [picked]
            answers = [choices_of(question)[number] for number in numbers if number >= 0]
            own = await self._in_own_words(typing) if OTHER in numbers else ""
            if own is not BACK:
                answers += [own] if own else []
                if answers and levels_of(question):
                    typing.sure = await self._how_sure(levels_of(question), typing.sure)
                return answers if is_multiple(question) else answers[0] if answers else ""

    def _own(self, question: Question, earlier: Any) -> str:
        """The words of a person's own in an earlier answer to a question that has choices."""
        titles = [*map(on_one_line, choices_of(question))]
        answers = earlier if isinstance(earlier, list) else [earlier]
        texts = [answer for answer in answers if isinstance(answer, str) and answer]
        return next((text for text in texts if on_one_line(text) not in titles), "")

    async def _in_own_words(self, typing: Typing) -> Any:
        """An answer beside the choices, or BACK; what is typed is in `typing` also where it is left."""
        own = Typing(back=True)
        try:
            return await self._text("In your own words (Shift-Tab goes back):", typing.text, own, optional=False)
        finally:
            typing.text = own.text

    def _wrapped(self, text: str) -> str:
        """The text in lines of the screen's width that end between words."""
        room = max(20, self.screen.get_size().columns - 4)
        lines = [wrap(line, room, subsequent_indent="  ", break_on_hyphens=False) for line in text.split("\n")]
        return "\n".join("\n".join(parts) for parts in lines)

    async def _how_sure(self, levels: list[str], before: str) -> str:
        choices = [*levels, UNSURE]
        number = await self._pick("How sure are you?", {"choices": choices}, before or UNSURE, Typing(), may_skip=False)
        return "" if choices[number] == UNSURE else choices[number]

    async def _pick(self, message: str, question: Question, likely: Any, typing: Typing, *, may_skip: bool) -> Any:
        """The number of a choice, or a list of them, or BACK or DONE."""
        import questionary

        titles = dict(enumerate(map(on_one_line, choices_of(question))))
        optional = default_of(question) in ("", [])
        wanted = list(map(on_one_line, likely if isinstance(likely, list) else [likely]))
        chosen = [number for number, title in titles.items() if title in wanted]
        empty = optional or may_skip
        if is_open(question):
            titles[OTHER] = "other…"
        if is_open(question) and typing.text:
            chosen = [*chosen, OTHER] if is_multiple(question) else [OTHER]
        if is_multiple(question):
            prompt = questionary.checkbox(
                message,
                [questionary.Choice(title, value, checked=value in chosen) for value, title in titles.items()],
                instruction="(space ticks, Enter goes on)",
                use_jk_keys=False,
                validate=lambda ticked: bool(ticked) or empty or "tick at least one",
                **self._streams(),
            )
            return await _run(prompt, typing)
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
        return await _run(prompt, typing)

    async def _text(self, message: str, likely: Any, typing: Typing, *, optional: bool) -> Any:
        """Free text, sent with Enter; several lines, or from an editor, where the person wants. Or BACK or DONE."""
        import questionary

        hint: Any = TypingHint(typing, optional=optional)
        prompt = questionary.text(
            message,
            default=printable(likely) if isinstance(likely, str) else "" if likely is None else on_one_line(likely),
            instruction=hint,
            validate=lambda text: bool(text.strip()) or optional or "an answer is needed here; Ctrl-C pauses the run",
            validate_while_typing=False,
            **self._streams(),
        )
        typing.writes = True
        answer = await _run(prompt, typing)
        return answer if answer is BACK or answer is DONE else str(answer).strip()

    def _streams(self) -> dict[str, Any]:
        return {"input": self.keyboard, "output": self.screen}


async def _run(prompt: Prompt, typing: Typing) -> Any:
    """What comes of a prompt; what stands in it is in `typing` also where it is left."""
    from prompt_toolkit.key_binding import merge_key_bindings

    application = prompt.application
    own = application.key_bindings
    application.key_bindings = merge_key_bindings([*([own] if own else []), key_bindings(typing)])
    try:
        # SIGINT stays with the run: prompt_toolkit would take its handler away for good
        return await application.run_async(set_exception_handler=False, handle_sigint=False)
    except EOFError:
        raise KeyboardInterrupt from None
    finally:
        if typing.writes:
            typing.text = application.current_buffer.text
