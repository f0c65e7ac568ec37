"""Sanitizes text from models, tools, users and files at the point where it enters a run.

This module defines which characters the texts of a run may contain. For terminal output, see
`diagnostics.make_printable`.
"""

from __future__ import annotations

import re
from typing import Any, Final, TypeVar

_LINE_END: Final = re.compile(r"\r\n?|[\x0b\x0c\x85\u2028\u2029]")
_SURROGATE: Final = re.compile(r"[\ud800-\udfff]")
# Control characters (C0 and C1, but not tab and line feed) and bidirectional controls. Zero-width joiners are allowed.
_STEERING: Final = re.compile(r"[\x00-\x08\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
# Complete escape sequences. They end before a JSON quote or bracket.
_SEQUENCE: Final = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b\][^\x07\x1b\n\"\\]*\x07")
# Any character matched by the patterns above.
_STRANGE: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")

Plain = TypeVar("Plain")


def sanitize(value: Plain) -> Plain:
    """Return a text, or plain data with all of its texts and keys, in sanitized form.

    The result is valid Unicode without control characters, and `\\n` is the only line end. The two halves of a
    surrogate pair become the character that they encode. A half without its other half becomes U+FFFD.
    """
    cleaned: Any = value
    if isinstance(value, str):
        cleaned = _sanitize_text(value) if _STRANGE.search(value) else value
    elif isinstance(value, dict):
        cleaned = {sanitize(key): sanitize(part) for key, part in value.items()}
    elif isinstance(value, list | tuple):
        cleaned = type(value)(map(sanitize, value))
    return cleaned  # type: ignore[no-any-return]


def _sanitize_text(text: str) -> str:
    if _SURROGATE.search(text):
        text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return _STEERING.sub("", _SEQUENCE.sub("", _LINE_END.sub("\n", text)))
