"""Sanitizes text from models, tools, users and files once, where it enters.

Owns the characters that a text of a run may contain. `diagnostics.make_printable` covers terminal output.
"""

from __future__ import annotations

import re
from typing import Any, Final, TypeVar

_LINE_END: Final = re.compile(r"\r\n?|[\x0b\x0c\x85\u2028\u2029]")
_SURROGATE: Final = re.compile(r"[\ud800-\udfff]")
# C0 and C1 except tab and line feed, and bidirectional controls. Joiners and non-joiners stay.
_STEERING: Final = re.compile(r"[\x00-\x08\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
# Complete escape sequences, without adjacent JSON quotes or brackets.
_SEQUENCE: Final = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b\][^\x07\x1b\n\"\\]*\x07")
# Any character matched by the patterns above.
_STRANGE: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")

Plain = TypeVar("Plain")


def sanitize(value: Plain) -> Plain:
    """Return a text, or plain data with all its texts and keys, as valid Unicode with `\\n` line ends and no controls.

    Adjacent halves of a surrogate pair become their character; a lone half becomes U+FFFD.
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
