"""Parses step addresses with the pass of a loop (`gate#2`) and the item of an `each` (`reviewed~T-1`)."""

from __future__ import annotations

import re
from typing import Final

_MARKED: Final = re.compile(r"(?:#\d+|~[^/~#@]*)+(?=@|/|$)")
_ITEM: Final = re.compile(r"~([^/~#@]*)")
_UP_TO_ITEM: Final = re.compile(r"~[^/~#@]*(?=/|$)")


def strip_markers(address: str) -> str:
    """Remove passes and items: `build/reviewed~T-1/verdict#2` becomes `build/reviewed/verdict`."""
    return _MARKED.sub("", address)


def enclosing_items(address: str) -> str:
    """The items that enclose an address, outermost first, joined with spaces."""
    return " ".join(_ITEM.findall(address))


def enclosing_loops(address: str) -> list[tuple[str, str]]:
    """Each `each` that encloses an address, outermost first, with the address of its item."""
    return [(strip_markers(address[: match.end()]), address[: match.end()]) for match in _UP_TO_ITEM.finditer(address)]
