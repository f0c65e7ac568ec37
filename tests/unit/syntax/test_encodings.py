"""The encoding of files: UTF-16 and UTF-32 are recognized by their mark, and nothing is replaced without a count."""

from __future__ import annotations

import codecs
import random
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillrun.syntax.reading import decode_text, is_binary

MARKS = {
    "utf-8": codecs.BOM_UTF8,
    "utf-16-le": codecs.BOM_UTF16_LE,
    "utf-16-be": codecs.BOM_UTF16_BE,
    "utf-32-le": codecs.BOM_UTF32_LE,
    "utf-32-be": codecs.BOM_UTF32_BE,
}


@pytest.mark.finding("FX8")
@pytest.mark.parametrize("encoding", MARKS)
@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0\ufeff"), max_size=40))
def test_a_byte_order_mark_selects_the_encoding(encoding: str, text: str) -> None:
    content = MARKS[encoding] + text.encode(encoding)
    assert (decode_text(content), is_binary(content)) == ((text, 0), False)


@pytest.mark.finding("FX8")
@pytest.mark.parametrize(
    ("content", "text", "count"),
    [
        ("café".encode("latin-1"), "caf\ufffd", 1),
        ("Привет, мир".encode("cp1251"), "\ufffd" * 6 + ", " + "\ufffd" * 3, 9),
        ("already \ufffd here".encode(), "already \ufffd here", 0),
        ("\ufffd and ".encode() + b"\xff", "\ufffd and \ufffd", 1),
        (b"", "", 0),
    ],
)
def test_what_cannot_be_decoded_is_counted(content: bytes, text: str, count: int) -> None:
    assert decode_text(content) == (text, count)
    assert not is_binary(content)


@pytest.mark.finding("FX8")
@pytest.mark.parametrize(
    "content",
    [
        b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR",
        b"\xff\xd8\xff\xe0\0\x10JFIF",
        zlib.compress(bytes(random.Random(1).randbytes(400))),
        random.Random(2).randbytes(300),
        "text".encode("utf-16-le"),
        codecs.BOM_UTF16_LE + "text".encode("utf-16-le")[:-1],
    ],
    ids=["png", "jpeg", "zlib", "random", "UTF-16 without its mark", "half a character"],
)
def test_binary_content_is_recognized(content: bytes) -> None:
    assert is_binary(content)
