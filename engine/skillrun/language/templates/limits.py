"""How much a render may do and build. Every operation of a template asks here before it builds anything."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final

MAX_TEMPLATE: Final = 100_000  # characters of a text with tags
MAX_TEXT: Final = 1_000_000  # characters of any one text
MAX_ITEMS: Final = 100_000  # items of any one list
MAX_WEIGHT: Final = 1_000_000  # items of any one value with all that is in it, 32 characters counting as one
MAX_NUMBER: Final = 10**18
MAX_LOOPS: Final = 20_000  # passes of all `for` loops of a render together
MAX_WORK: Final = 2_000_000  # items handled in a render, 32 characters counting as one


class Fault(Exception):
    """What a template's author can mend, still without its place."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class Budget:
    """What one render, with all renders inside it, may still spend."""

    __slots__ = ("loops", "work")

    def __init__(self) -> None:
        self.loops = MAX_LOOPS
        self.work = MAX_WORK


_budget: ContextVar[Budget | None] = ContextVar("budget", default=None)


@contextmanager
def budget() -> Iterator[None]:
    """The budget of a render; one inside another shares the outer one's."""
    if _budget.get() is not None:
        yield
        return
    token = _budget.set(Budget())
    try:
        yield
    finally:
        _budget.reset(token)


def spend(work: int) -> None:
    """Account for work before it is done. Raises Fault when the render has none left."""
    current = _budget.get()
    if current is not None:
        current.work -= work
        if current.work < 0:
            raise Fault("this template does more work than a render may", "let it handle less text, or fewer items")


def counted(items: list[Any]) -> Iterator[Any]:
    """The items of a loop, each pass counted."""
    current = _budget.get() or Budget()
    for item in items:
        current.loops -= 1
        if current.loops < 0:
            raise Fault(f"the loops of this template run more than {MAX_LOOPS:,} times", "loop over fewer items")
        yield item


def size(value: Any) -> int:
    """The work of handling a value once, without looking into lists and mappings."""
    if isinstance(value, str):
        return 1 + (len(value) >> 5)
    return 1 + len(value) if isinstance(value, (list, tuple, Mapping)) else 1


def weigh(value: Any, limit: int = MAX_WEIGHT) -> None:
    """Pay for walking through a value. Raises Fault when it is too large, as one that repeats its parts can become."""
    total, waiting = 0, [value]
    while waiting:
        part = waiting.pop()
        total += size(part)
        if total > limit:
            raise Fault(f"this value is larger than {limit:,} items")
        if isinstance(part, (list, tuple)):
            waiting += part
        elif isinstance(part, Mapping):
            waiting += part.values()
    spend(total)


def room(characters: int) -> None:
    """Raises Fault when a text of that length may not be made."""
    if characters > MAX_TEXT:
        raise Fault(f"the text would be longer than {MAX_TEXT:,} characters", "clip what it is made of")
    spend(characters >> 5)


def room_for_items(count: int) -> None:
    """Raises Fault when a list of that length may not be made."""
    if count > MAX_ITEMS:
        raise Fault(f"the list would be longer than {MAX_ITEMS:,} items", "take fewer with `top`")
    spend(count)
