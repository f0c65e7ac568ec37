"""What one journal record is: its fields, its link in the hash chain, how its body becomes bytes and back.

Long strings of bodies are cut into pieces, and a piece that the journal has seen before (a prompt prefix shared by many
calls, a reply quoted in the next turn) is stored once, as a record of kind `text`, and stands in the body as a number.
"""

import hashlib
import json
import re
import struct
from collections.abc import Callable
from typing import Any, Literal, NamedTuple, get_args

Kind = Literal["sent", "reply", "failed", "tool", "answer", "wrote", "void", "note"]
KINDS: frozenset[str] = frozenset(get_args(Kind))
TEXT = "text"
NO_CHAIN = bytes(32)

_PIECE = 2048  # characters, cut from the start of a string, so that equal prefixes give equal pieces
_INLINE = 512  # what is shorter is not worth a record of its own
_STRING = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"')
_NUMBER = re.compile(rb"\0(\d+)\0")  # JSON has no such byte of its own
_encode = json.JSONEncoder(ensure_ascii=False, check_circular=False, separators=(",", ":")).encode


class Row(NamedTuple):
    seq: int
    kind: str
    address: str
    fingerprint: str
    body: bytes
    chain: bytes


def chained(previous: bytes, kind: str, address: str, fingerprint: str, body: bytes) -> bytes:
    """SHA-256 over the previous link and the fields, each behind its length."""
    fields = (kind.encode(), address.encode(), fingerprint.encode(), body)
    return hashlib.sha256(b"".join((previous, struct.pack(">4Q", *map(len, fields)), *fields))).digest()


def body_to_bytes(body: dict[str, Any], number_of: Callable[[bytes], int]) -> bytes:
    """Compact JSON in the body's own key order, which templates see; `number_of` stores a text and gives its number."""

    def stored(string: re.Match[str]) -> str:
        text = string[0]
        if len(text) < _INLINE:
            return text
        pieces = [text[start : start + _PIECE] for start in range(0, len(text), _PIECE)]
        return "".join(piece if len(piece) < _INLINE else f"\0{number_of(_bytes(piece))}\0" for piece in pieces)

    return _bytes(_STRING.sub(stored, _encode(body)))


def body_from_bytes(data: bytes, text_of: Callable[[int], bytes]) -> dict[str, Any]:
    whole = _NUMBER.sub(lambda number: text_of(int(number[1])), data)
    body: dict[str, Any] = json.loads(whole.decode("utf-8", "surrogatepass"))
    return body


def _bytes(text: str) -> bytes:
    """UTF-8; half a surrogate pair, which a model's reply can hold, goes there and back unchanged."""
    return text.encode("utf-8", "surrogatepass")
