"""How much a render may do and build. Every operation of a template asks here before it builds anything."""

from __future__ import annotations

from collections.abc import Mapping
from contextvars import ContextVar, Token
from typing import Any, Final

MAX_TEMPLATE: Final = 100_000  # characters of a text with tags
MAX_TEXT: Final = 1_000_000  # characters of any one text
MAX_NUMBER: Final = 10**18
MAX_WORK: Final = 1_000_000  # steps of a render and items that it handles, 32 characters counting as one
WORK_PER_SECOND: Final = 1_000_000  # what a second of searching with regular expressions counts


class TemplateError(Exception):
    """What a template's author can mend, and the offset in the text where it is known."""

    def __init__(self, message: str, hint: str = "", offset: int | None = None, code: str = "expression") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.offset = offset
        self.code = code

    def with_offset(self, offset: int) -> TemplateError:
        """The fault, placed there unless it has a place already."""
        self.offset = offset if self.offset is None else self.offset
        return self


class RenderBudget:
    """What one render, with all renders inside it, may still spend, and how long a text it may make."""

    __slots__ = ("max_text", "remaining_work")

    def __init__(self, times: int = 1) -> None:
        self.remaining_work = MAX_WORK * times
        self.max_text = MAX_TEXT * times

    def spend(self, work: int) -> None:
        """Account for work before it is done. Raises Fault when none is left."""
        self.remaining_work -= work
        if self.remaining_work < 0:
            raise TemplateError(
                "this template does more work than a render may", "let it handle less text, or fewer items"
            )


_budget: ContextVar[RenderBudget | None] = ContextVar("budget", default=None)


class render_budget:  # noqa: N801 (a function to who reads it; as one it would cost each render more)
    """The budget of a render, or `times` as much; one inside another shares the outer one's."""

    __slots__ = ("_times", "_token")

    def __init__(self, times: int = 1) -> None:
        self._times = times

    def __enter__(self) -> RenderBudget:
        self._token: Token[RenderBudget | None] | None = None
        current = _budget.get()
        if current is None:
            self._token = _budget.set(current := RenderBudget(self._times))
        return current

    def __exit__(self, *_: object) -> None:
        if self._token is not None:
            _budget.reset(self._token)


def spend(work: int) -> None:
    """Account for work of the render that is going on."""
    if (current := _budget.get()) is not None:
        current.spend(work)


def handling_cost(value: Any) -> int:
    """The work of handling a value once, without looking into lists and mappings."""
    if isinstance(value, str):
        return 1 + (len(value) >> 5)
    return 1 + len(value) if isinstance(value, (list, tuple, Mapping)) else 1


def spend_on_values(*values: Any) -> None:
    """Pay for walking through values, which are larger than their parts where these are repeated."""
    waiting = list(values)
    while waiting:
        part = waiting.pop()
        spend(handling_cost(part))
        if isinstance(part, (list, tuple)):
            waiting += part
        elif isinstance(part, Mapping):
            waiting += part.values()


def spend_on_comparison(left: str, right: str) -> None:
    """Pay for comparing two texts, which takes a fraction of what handling them does."""
    spend(min(len(left), len(right)) >> 10)


def spend_on_text(characters: int) -> None:
    """Pay for a text of that length before it is made. Raises Fault when it may not be made."""
    current = _budget.get()
    longest = MAX_TEXT if current is None else current.max_text
    if characters > longest:
        raise TemplateError(f"the text would be longer than {longest:,} characters", "clip what it is made of")
    spend(characters >> 5)
