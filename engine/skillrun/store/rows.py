"""Encodes a journal record: its link in the hash chain, and its body as bytes. Knows nothing about files.

Long strings in bodies are cut into pieces. Each piece is stored once, as a record of kind `text`, and bodies refer to
it by number. This saves space: many calls share a prompt prefix, and turns repeat earlier replies.
"""

import hashlib
import json
import struct
import zlib
from collections.abc import Callable
from sys import getsizeof
from typing import Any, Final

from skillrun.types.records import count_values, parse_json

TEXT = "text"
MAX_MEMORY: Final = 1 << 28  # bytes of a decoded body
MAX_TEXTS: Final = 1 << 26  # bytes of the texts that a decoder keeps for other bodies
NO_CHAIN = bytes(32)

_PIECE = 2048  # characters, cut from the start of a string, so that equal prefixes give equal pieces
_INLINE = 512  # shorter strings are not worth a separate record
_MARK = "\0"
_COMPRESSED_PREFIX = b"\xff"  # no UTF-8 text begins with this byte
_MAX_PIECE_BYTES = 4 * _PIECE + 1  # bytes; every piece has fewer
_LARGE = 50_000  # bytes of a body whose values count towards `MAX_MEMORY`
_VALUE_MEMORY = 100  # bytes of a value, on average
_SCALAR_TYPES = frozenset({int, float, bool, type(None)})  # most values of a body; checked first
_encode = json.JSONEncoder(ensure_ascii=False, check_circular=False, separators=(",", ":")).encode


def chain_hash(previous: bytes, kind: str, address: str, fingerprint: str, body: bytes) -> bytes:
    """Return the SHA-256 over the previous link, the lengths of the fields, and the fields."""
    fields = (kind.encode(), address.encode(), fingerprint.encode(), body)
    return hashlib.sha256(b"".join((previous, struct.pack(">4Q", *map(len, fields)), *fields))).digest()


def body_to_bytes(body: dict[str, Any], number_of: Callable[[bytes], int]) -> bytes:
    """Encode a body as compact JSON. Keys keep their order, because templates see it.

    `number_of` stores a text and returns its number.
    """
    return _bytes(_encode(_replace_long_strings(body, number_of)))


class BodyTooLarge(ValueError):
    """A decoded body takes more memory than a body may use."""


class BodyDecoder:
    """Decodes the bodies of one journal. Equal long texts share one object, since turns repeat earlier prompts.

    A decoded body takes at most `MAX_MEMORY` bytes, because a body can repeat a text by references without limit. All
    bodies of a large run can take more, so a command must not hold the bodies of all calls.
    """

    def __init__(self, text_of: Callable[[int], bytes]) -> None:
        """`text_of` returns the piece of text with a number."""
        self._text_of = text_of
        self._texts: dict[tuple[int | str, ...], str] = {}
        self._texts_memory = self._body_memory = 0

    def decode(self, data: bytes, *, texts: bool = True) -> dict[str, Any]:
        """Decode a body that `body_to_bytes` encoded. Without `texts`, long texts are empty.

        Raises BodyTooLarge, and ValueError for data that `body_to_bytes` cannot return.
        """
        self._body_memory = 0
        if texts and len(data) > _LARGE:
            self._reserve(count_values(data) * _VALUE_MEMORY)
        restore = self._restore_texts if texts else _empty_texts
        body: dict[str, Any] = parse_json(_text(data), restore if b"\\u0000" in data else None)
        return body

    def _restore_texts(self, mapping: dict[str, Any]) -> Any:
        if _MARK not in mapping:
            return _restore_keys(mapping)
        parts = tuple(mapping[_MARK])
        text = self._texts.get(parts)
        if text is not None:
            self._reserve(getsizeof(text))
            return text
        pieces = {part: part if isinstance(part, str) else _text(self._text_of(part)) for part in set(parts)}
        self._reserve(sum(len(pieces[part]) for part in parts))
        text = "".join(pieces[part] for part in parts)
        self._reserve(getsizeof(text) - len(text))  # a character takes up to four bytes
        self._texts_memory += getsizeof(text)
        if self._texts_memory > MAX_TEXTS:
            self._texts, self._texts_memory = {}, getsizeof(text)
        self._texts[parts] = text
        return text

    def _reserve(self, memory: int) -> None:
        self._body_memory += memory
        if self._body_memory > MAX_MEMORY:
            raise BodyTooLarge(f"it takes more than {MAX_MEMORY:,} bytes of memory")


def _empty_texts(mapping: dict[str, Any]) -> Any:
    return "" if _MARK in mapping else _restore_keys(mapping)


def _restore_keys(mapping: dict[str, Any]) -> dict[str, Any]:
    return {key.removeprefix(_MARK): value for key, value in mapping.items()}


def compress_piece(piece: bytes) -> bytes:
    """Return a piece of text as it is stored: compressed if that makes it shorter."""
    compressed = _COMPRESSED_PREFIX + zlib.compress(piece)
    return compressed if len(compressed) < len(piece) else piece


def decompress_piece(data: bytes) -> bytes:
    """Return a stored piece, decompressed if necessary.

    Raises ValueError for data that `compress_piece` cannot return.
    """
    if not data.startswith(_COMPRESSED_PREFIX):
        return data
    stream = zlib.decompressobj()
    try:
        piece = stream.decompress(data[len(_COMPRESSED_PREFIX) :], _MAX_PIECE_BYTES)
    except zlib.error as error:
        raise ValueError(str(error)) from None
    if not stream.eof or stream.unused_data:
        raise ValueError("a piece of text is too long")
    return piece


def _replace_long_strings(value: Any, number_of: Callable[[bytes], int]) -> Any:
    """Return the value with each long string as {MARK: [number, …, rest]}.

    Keys that start with MARK get another MARK.
    """
    if isinstance(value, str):
        if len(value) < _INLINE:
            return value
        pieces = [value[start : start + _PIECE] for start in range(0, len(value), _PIECE)]
        return {_MARK: [piece if len(piece) < _INLINE else number_of(_bytes(piece)) for piece in pieces]}
    if isinstance(value, dict):
        return {
            _MARK + key if key.startswith(_MARK) else key: item
            if item.__class__ in _SCALAR_TYPES or (item.__class__ is str and len(item) < _INLINE)
            else _replace_long_strings(item, number_of)
            for key, item in value.items()
        }
    if isinstance(value, (list, tuple)):
        return [_replace_long_strings(item, number_of) for item in value]
    return value


def _bytes(text: str) -> bytes:
    """Encode as UTF-8; a lone surrogate, which a model's reply can contain, is preserved."""
    return text.encode("utf-8", "surrogatepass")


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogatepass")
