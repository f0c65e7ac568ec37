"""Encodes a journal record: its link in the hash chain, and its body as bytes. Knows nothing about files.

Long strings in bodies are cut into pieces. Each piece is stored once, as a record of kind `text`, and bodies refer to
it by number. This saves space: many calls share a prompt prefix, and turns repeat earlier replies.
"""

import hashlib
import json
import struct
import zlib
from collections.abc import Callable
from typing import Any

from skillrun.types.records import parse_json

TEXT = "text"
NO_CHAIN = bytes(32)

_PIECE = 2048  # characters, cut from the start of a string, so that equal prefixes give equal pieces
_LONGEST = 100_000_000  # characters of one body, which could repeat a text by references without limit
_INLINE = 512  # shorter strings are not worth a separate record
_MARK = "\0"
_COMPRESSED_PREFIX = b"\xff"  # no UTF-8 text begins with this byte
_MAX_PIECE_BYTES = 4 * _PIECE + 1  # bytes; every piece has fewer
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


def body_from_bytes(data: bytes, text_of: Callable[[int], bytes]) -> dict[str, Any]:
    """Decode a body that `body_to_bytes` encoded. Raises ValueError for anything else."""
    length = 0

    def restore_strings(mapping: dict[str, Any]) -> Any:
        nonlocal length
        if _MARK in mapping:
            parts = []
            for part in mapping[_MARK]:
                parts.append(part if isinstance(part, str) else _text(text_of(part)))
                length += len(parts[-1])
                if length > _LONGEST:
                    raise ValueError(f"it has more than {_LONGEST:,} characters")
            return "".join(parts)
        return {key.removeprefix(_MARK): value for key, value in mapping.items()}

    body: dict[str, Any] = parse_json(_text(data), restore_strings if b"\\u0000" in data else None)
    return body


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
