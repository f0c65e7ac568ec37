"""Removes keys from texts: known keys, recognizable pieces of known keys, and text that looks like a key.

All text from a provider passes through this module before it is shortened, stored or shown.
"""

from __future__ import annotations

import re
from array import array
from base64 import b64encode
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import quote

from skillrun.syntax.diagnostics import ESCAPE_SEQUENCE

PIECE = 8
"""The length of the shortest piece of a key that is removed. Shorter pieces are not secret, and occur in ordinary
words."""
REDACTED = "[key]"
PREFIXES = ("sk-proj-", "sk-svcacct-", "sk-admin-", "sk-ant-api03-", "sk-ant-admin01-", "sk-ant-oat01-", "sk-or-v1-")
"""Prefixes that well-known providers give to all their keys. They are public, not secret."""
_WORD = re.compile(r"[a-z]{1,12}")  # a stand-in for a server that needs no key; real keys of letters only are longer
_GRAM = 4
_STRIDE = PIECE - _GRAM + 1  # every piece contains a gram that starts at a multiple of this offset
_SECRETS = re.compile(
    r"(?i)\b(?:sk|rk|pk|key|gsk|xai|AIza)[-_][\w*.-]{6,}|\bAIza[\w-]{10,}|(?<=bearer )[\w.~+/=-]{8,}",
)
_USERINFO = re.compile(r"(?<=://)[^\s/?#\"'<>]*@")
_ESCAPES = r"\\u([0-9a-fA-F]{4})|%([0-9a-fA-F]{2})|\\(.)|([\uff01-\uff5e])"
_INVISIBLE = (
    r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f"
    r"\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff9-\ufffb\U000e0000-\U000e01ef]"
)
_INVISIBLE_CHARACTER = re.compile(_INVISIBLE)
_OBFUSCATIONS = (
    re.compile(f"{_ESCAPES}|{_INVISIBLE}"),
    re.compile(f"{_ESCAPES}|{ESCAPE_SEQUENCE.pattern}|{_INVISIBLE}"),
)
"""Match escapes and invisible characters that can hide a key until the text is decoded, cleaned or shown. The second
pattern also matches whole terminal escape sequences."""
_NAMES = re.compile(r"(?i)(?:^|_)(?:key|token|secret|password|passwd|credentials?)$")


class Redactor:
    """Removes known keys and pieces of known keys from texts, in any letter case, percent-encoded, or in base64."""

    def __init__(self, keys: Iterable[str] = ()) -> None:
        self._whole = sorted({key for key in keys if key}, key=len, reverse=True)
        secrets = [key for key in self._whole if not _WORD.fullmatch(key)]
        forms = {_lowercase_bytes(form) for key in secrets for form in _encode_key(key) if len(form) >= PIECE}
        self._pieces = frozenset(form[at : at + PIECE] for form in forms for at in range(len(form) - PIECE + 1))
        self._grams = frozenset(form[at : at + _GRAM] for form in forms for at in range(len(form) - _GRAM + 1))

    @classmethod
    def from_environment(cls, environ: Mapping[str, str]) -> Redactor:
        """Return a redactor for the values of all variables whose names suggest a secret."""
        return cls(value for name, value in environ.items() if _NAMES.search(name) and len(value) >= PIECE)

    def redact_text(self, text: str) -> str:
        """Remove pieces of the known keys. Text that only looks like a key stays, because a reply can contain example
        keys."""
        if not self._pieces or len(text) < PIECE:
            return text
        for obfuscation in (None, *_OBFUSCATIONS):
            text = self._redact(text, obfuscation)
        return text

    def _redact(self, text: str, obfuscation: re.Pattern[str] | None) -> str:
        """Remove the pieces of keys that become visible when matches of `obfuscation` are decoded."""
        if obfuscation is not None and obfuscation.search(text) is None:
            return text
        pieces = self._find_pieces(text if obfuscation is None else obfuscation.sub(_decode_escape, text))
        if not pieces:
            return text
        places = range(len(text) + 1) if obfuscation is None else _source_positions(text, obfuscation)
        kept: list[str] = []
        end = 0
        for start, stop in pieces:
            kept += [text[end : places[start]], REDACTED]
            end = places[stop]
        return "".join((*kept, text[end:]))

    def _find_pieces(self, text: str) -> list[tuple[int, int]]:
        lowered, grams, pieces = _lowercase_bytes(text), self._grams, self._pieces
        near = [at for at in range(0, len(lowered) - _GRAM + 1, _STRIDE) if lowered[at : at + _GRAM] in grams]
        places = sorted({at for hit in near for at in range(max(0, hit - PIECE + _GRAM), hit + 1)})
        return _merge_pieces(lowered, (at for at in places if lowered[at : at + PIECE] in pieces))

    def redact_known_keys(self, text: str) -> str:
        """Remove pieces of the known keys, whole known keys of any length, and the credentials in URLs."""
        text = self.redact_text(text)
        for key in self._whole:
            text = text.replace(key, REDACTED)
        return strip_userinfo(text)

    def redact_error(self, text: str) -> str:
        """Remove keys from an error's text, including text that looks like a key."""
        return _SECRETS.sub(REDACTED, self.redact_known_keys(text))

    def redact_value(self, value: Any) -> Any:
        """Apply `redact_text` to every text in a JSON value, including the keys of mappings."""
        if not self._pieces:
            return value
        if isinstance(value, str):
            return self.redact_text(value)
        if isinstance(value, list):
            return [self.redact_value(item) for item in value]
        if isinstance(value, dict):
            return {self.redact_value(key): self.redact_value(item) for key, item in value.items()}
        return value


def strip_userinfo(text: str) -> str:
    """Remove user names and passwords from the URLs in a text."""
    return _USERINFO.sub("", text)


def _merge_pieces(lowered: bytes, places: Iterable[int]) -> list[tuple[int, int]]:
    """Merge overlapping and adjacent pieces into spans. Drop spans that consist only of parts of a public prefix."""
    spans: list[tuple[int, int, bool]] = []
    for at in places:
        start, secret = at, lowered[at : at + PIECE] not in _PUBLIC
        if spans and at <= spans[-1][1]:
            start, _, before = spans.pop()
            secret = secret or before
        spans.append((start, at + PIECE, secret))
    return [(start, stop) for start, stop, secret in spans if secret]


def _decode_escape(escape: re.Match[str]) -> str:
    """Return the character that an escape stands for; for an invisible character, return an empty text."""
    four, two, single, wide = escape.group(1, 2, 3, 4)
    if four or two:
        letter = chr(int(four or two, 16))
        return "" if _INVISIBLE_CHARACTER.fullmatch(letter) else letter
    if wide:
        return chr(ord(wide) - 0xFEE0)
    return "" if single is None or single in "bf" else "\n" if single in "nrt" else single


def _source_positions(text: str, obfuscation: re.Pattern[str]) -> array[int]:
    """Return the position in the original text for each character of the decoded text, and for the end."""
    places = array("L")
    end = 0
    for hidden in obfuscation.finditer(text):
        places.extend(range(end, hidden.start()))
        places.extend([hidden.start()] * len(_decode_escape(hidden)))
        end = hidden.end()
    places.extend(range(end, len(text) + 1))
    return places


def _encode_key(key: str) -> Iterable[str]:
    """Yield the key unchanged, percent-encoded, and in base64 at each of the three possible byte offsets."""
    yield key
    yield quote(key, safe="")
    data = key.encode("utf-8", "surrogateescape")
    for skipped in range(3):
        part = data[skipped:]
        encoded = b64encode(part[: len(part) // 3 * 3]).decode()
        yield from (encoded, encoded.replace("+", "-").replace("/", "_"))


def _lowercase_bytes(text: str) -> bytes:
    """Return the text in lower case, encoded with one byte per character."""
    return text.encode("ascii", "replace").lower()


_PUBLIC = frozenset(
    _lowercase_bytes(prefix[at : at + PIECE]) for prefix in PREFIXES for at in range(len(prefix) - PIECE + 1)
)
