"""How an address names the pass of a loop (`gate#2`) and the item of an `each` (`reviewed~T-1`)."""

from __future__ import annotations

import re
from typing import Final

_MARKED: Final = re.compile(r"(?:#\d+|~[^/~#@]*)+(?=@|/|$)")
_ITEM: Final = re.compile(r"~([^/~#@]*)")
_UP_TO_ITEM: Final = re.compile(r"~[^/~#@]*(?=/|$)")


def strip_markers(address: str) -> str:
    """The address whatever the pass and the item: `build/reviewed/verdict` of `build/reviewed~T-1/verdict#2`."""
    return _MARKED.sub("", address)


def enclosing_items(address: str) -> str:
    """The items that an address is within, from the outermost; nothing where it is within none."""
    return " ".join(_ITEM.findall(address))


def enclosing_loops(address: str) -> list[tuple[str, str]]:
    """Each `each` that an address is within, from the outermost, and the address of the item there."""
    return [(strip_markers(address[: match.end()]), address[: match.end()]) for match in _UP_TO_ITEM.finditer(address)]
