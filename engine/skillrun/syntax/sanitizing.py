"""The one border for text: what comes from a model, a tool, a person or a file is made valid once, where it enters.

Owns which characters a text of a run can hold. What may stand on a terminal is for `diagnostics.printable`.
"""

from __future__ import annotations

import re
from typing import Any, Final, TypeVar

_LINE_END: Final = re.compile(r"\r\n?|[\x0b\x0c\x85\u2028\u2029]")
_SURROGATE: Final = re.compile(r"[\ud800-\udfff]")
# C0 and C1 without tab and line feed, and what turns the order of a line around. Marks that join or part letters stay.
_STEERING: Final = re.compile(r"[\x00-\x08\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
# Escape sequences with what belongs to them; no quote or bracket of JSON that stands beside one goes with it.
_SEQUENCE: Final = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b\][^\x07\x1b\n\"\\]*\x07")
# One of all these.
_STRANGE: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")

Plain = TypeVar("Plain")


def sanitize(value: Plain) -> Plain:
    """The same text, or plain data with such texts and keys: valid Unicode, line ends all `\\n`, nothing that steers.

    Halves of a surrogate pair that stand together become their character, and one alone becomes U+FFFD.
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
