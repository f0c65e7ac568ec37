"""Fixes the punctuation of sentences composed of template text and model output."""

from __future__ import annotations

import re
from typing import Final

_DOUBLED: Final = re.compile(r"(?<=[\w)\]\"'`’”])([.!?])\.(?=\s|$)")


def remove_double_stops(text: str) -> str:
    """Remove the full stop that a template adds after a value that already ends a sentence; an ellipsis stays."""
    return _DOUBLED.sub(r"\1", text)
