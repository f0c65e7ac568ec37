"""Text made safe to show: nothing in it steers a terminal or reorders what is read.

Owns what is taken out; prints nothing.
"""

from __future__ import annotations

import re
from typing import Final

# Escape sequences with what belongs to them: CSI, then strings such as a window's title, then the short ones.
_SEQUENCE: Final = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]?"
    r"|(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x9c\n]*(?:\x07|\x1b\\|\x9c)?"
    r"|\x1b[ -/]*[0-~]?"
)
_LINE_END: Final = re.compile(r"\r\n|[\r\x0b\x0c\x85\u2028\u2029]")
_UNSEEN: Final = re.compile(
    r"[\x00-\x08\x0e-\x1f\x7f-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ud800-\udfff"
    r"\U000e0000-\U000e007f]"
)


def printable(text: str) -> str:
    """The text without control, bidirectional and invisible characters; every kind of line end is a `\\n`."""
    if text.isascii() and text.isprintable():
        return text
    return _UNSEEN.sub("", _SEQUENCE.sub("", _LINE_END.sub("\n", text)))
