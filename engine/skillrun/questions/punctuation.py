"""Sentences that are put together for a person, of a template's and of what models wrote: one full stop ends each."""

from __future__ import annotations

import re
from typing import Final

_DOUBLED: Final = re.compile(r"(?<=[\w)\]\"'`’”])([.!?])\.(?=\s|$)")


def remove_double_stops(text: str) -> str:
    """The text without the full stop that a template sets behind a value that ends in one; an ellipsis stays."""
    return _DOUBLED.sub(r"\1", text)
