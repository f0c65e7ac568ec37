"""Limits the work and output of a render. Each template operation charges its work before it builds its result."""

from __future__ import annotations

from collections.abc import Mapping
from contextvars import ContextVar, Token
from typing import Any, Final

MAX_TEMPLATE: Final = 100_000  # characters of a text with tags
MAX_TEXT: Final = 1_000_000  # characters of any one text
MAX_WORK: Final = 1_000_000  # work units per render: one for each step, processed item or 32 characters
WORK_PER_SECOND: Final = 1_000_000  # work units per second of regular expression search


class TemplateError(Exception):
    """An error that the template's author can fix. `offset` is the position in the template's text, if known."""

    def __init__(self, message: str, hint: str = "", offset: int | None = None, code: str = "expression") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.offset = offset
        self.code = code

    def with_offset(self, offset: int) -> TemplateError:
        """Set the offset if it is not yet known, and return the error."""
        self.offset = offset if self.offset is None else self.offset
        return self


class RenderBudget:
    """The remaining work and the maximum text length of one render. Nested renders share the budget."""

    __slots__ = ("max_text", "remaining_work")

    def __init__(self, times: int = 1) -> None:
        self.remaining_work = MAX_WORK * times
        self.max_text = MAX_TEXT * times

    def spend(self, work: int) -> None:
        """Charge the budget for work that is about to be done. Raises TemplateError if the budget is exceeded."""
        self.remaining_work -= work
        if self.remaining_work < 0:
            raise TemplateError("this template exceeds the work limit of a render", "process less text or fewer items")


_budget: ContextVar[RenderBudget | None] = ContextVar("budget", default=None)


class render_budget:  # noqa: N801 (used like a function; a generator function would slow down each render)
    """A context manager that sets a budget of `times` the usual size. A nested render keeps the outer budget."""

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
    """Charge the budget of the current render, if there is one."""
    if (current := _budget.get()) is not None:
        current.spend(work)


def handling_cost(value: Any) -> int:
    """Return the work units for handling a value once. Each item of a list or mapping costs 1, whatever its size."""
    if isinstance(value, str):
        return 1 + (len(value) >> 5)
    return 1 + len(value) if isinstance(value, (list, tuple, Mapping)) else 1


def spend_on_values(*values: Any) -> None:
    """Charge for visiting every part of the values. A part that occurs several times counts each time."""
    waiting = list(values)
    while waiting:
        part = waiting.pop()
        spend(handling_cost(part))
        if isinstance(part, (list, tuple)):
            waiting += part
        elif isinstance(part, Mapping):
            waiting += part.values()


def spend_on_text(characters: int) -> None:
    """Charge for a text that is about to be built. Raises TemplateError if the text would be too long."""
    current = _budget.get()
    longest = MAX_TEXT if current is None else current.max_text
    if characters > longest:
        raise TemplateError(f"the text would be longer than {longest:,} characters", "clip its parts")
    spend(characters >> 5)
