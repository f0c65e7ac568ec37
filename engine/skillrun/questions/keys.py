"""Key bindings of questions in the terminal: back, end of list, new line, editor, and confidence."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from skillrun.questions.answers import Question, choices_of
from skillrun.syntax.diagnostics import make_printable

if TYPE_CHECKING:
    from prompt_toolkit.key_binding import KeyBindings

BACK: Final = object()  # instead of an answer: go to the previous question
DONE: Final = object()  # instead of an answer: end the list


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
    text: str = ""

    def next_level(self) -> None:
        steps = ["", *self.levels]
        self.confidence = steps[(steps.index(self.confidence) + 1) % len(steps)] if self.confidence in steps else ""


class InputHint:
    """The hint after a free-text question, rendered anew on each redraw."""

    def __init__(self, typing: InputState, *, optional: bool) -> None:
        self.typing, self.optional = typing, optional

    def __str__(self) -> str:
        words = ["leave it empty to skip"] if self.optional else []
        if self.typing.levels:
            words.append(
                f"how sure: {make_printable(self.typing.confidence)}"
                if self.typing.confidence
                else "Ctrl-T sets how sure"
            )
        hint = f"\n    ({'; '.join(words)})" if words else ""
        return f"{hint}\n >"  # prompt_toolkit truncates wide lines before the last one


def render_key_hints(question: Question, enough: str) -> str:
    """A line that lists the keys of the question."""
    words = [] if choices_of(question) else ["Alt-Enter new line", "Ctrl-O editor"]
    words += [f"Ctrl-G {make_printable(enough)}"] if enough else []
    return f"    {' · '.join([*words, 'Ctrl-C pauses'])}\n"


def key_bindings(typing: InputState) -> KeyBindings:
    """The key bindings for a prompt_toolkit prompt."""
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
            typing.next_level()

    if typing.is_free_text:

        @keys.add("escape", "enter")
        def _(event: Any) -> None:
            event.current_buffer.insert_text("\n")

        @keys.add("c-o")
        @keys.add("c-x", "c-e")
        def _(event: Any) -> None:
            event.current_buffer.open_in_editor(validate_and_handle=False)

    return keys
