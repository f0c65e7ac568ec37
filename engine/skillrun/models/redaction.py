"""Keys in texts: what is known to be one, in every piece that tells something, and what looks like one.

Whatever a provider sends goes through here before it is cut, stored or shown.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import quote

PIECE = 8
"""Characters in a row of a key that are taken out. Fewer are no secret, and occur in ordinary words."""
REDACTED = "[key]"
_WORD = re.compile(rf"[!-~]{{{PIECE},}}")
_SECRETS = re.compile(
    r"(?i)\b(?:sk|rk|pk|key|gsk|xai|AIza)[-_][\w*.-]{6,}|\bAIza[\w-]{10,}|(?<=bearer )[\w.~+/=-]{8,}",
)
_USERINFO = re.compile(r"(?<=://)[^\s/?#@\"'<>]*@")
_NAMES = re.compile(r"(?i)(?:^|_)(?:key|token|secret|password|passwd|credentials?)$")


class Redactor:
    """Knows some keys, and takes them out of texts: as they are, in capitals, percent-encoded, in base64, in pieces."""

    def __init__(self, keys: Iterable[str] = ()) -> None:
        self._whole = sorted({key for key in keys if key}, key=len, reverse=True)
        forms = {form.lower() for key in self._whole for form in _forms(key)}
        self._pieces = frozenset(form[at : at + PIECE] for form in forms for at in range(len(form) - PIECE + 1))

    @classmethod
    def of_environment(cls, environ: Mapping[str, str]) -> Redactor:
        """Of every variable whose name says that it holds a secret."""
        return cls(value for name, value in environ.items() if _NAMES.search(name))

    def text(self, text: str) -> str:
        """The text without the pieces of the keys. What only looks like a key stays: a reply may be about one."""
        if not self._pieces or len(text) < PIECE:
            return text
        return _WORD.sub(self._word, text)

    def error(self, text: str) -> str:
        """An error's text without keys of any length, without what looks like a key and without a URL's password."""
        text = self.text(text)
        for key in self._whole:
            text = text.replace(key, REDACTED)
        return _SECRETS.sub(REDACTED, without_userinfo(text))

    def value(self, value: Any) -> Any:
        """A value of JSON with `text` applied to every text in it, keys of mappings included."""
        if not self._pieces:
            return value
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, list):
            return [self.value(item) for item in value]
        if isinstance(value, dict):
            return {self.value(key): self.value(item) for key, item in value.items()}
        return value

    def _word(self, match: re.Match[str]) -> str:
        word = match[0]
        small = word.lower()
        pieces = self._pieces
        starts = [at for at in range(len(small) - PIECE + 1) if small[at : at + PIECE] in pieces]
        if not starts:
            return word
        kept: list[str] = []
        end = 0
        for at in starts:
            if at > end or not kept:
                kept += [word[end:at], REDACTED]
            end = at + PIECE
        return "".join((*kept, word[end:]))


def without_userinfo(text: str) -> str:
    """The text with no user and no password in its URLs."""
    return _USERINFO.sub("", text)


def _forms(key: str) -> Iterable[str]:
    """The key as it is, as a URL has it, and in base64 at each of the three places where it may begin in a triple."""
    yield key
    yield quote(key, safe="")
    data = key.encode("utf-8", "surrogateescape")
    for skipped in range(3):
        part = data[skipped:]
        encoded = b64encode(part[: len(part) // 3 * 3]).decode()
        yield from (encoded, encoded.replace("+", "-").replace("/", "_"))
