"""The text of an artifact that a user has replaced by a file in another encoding."""

from __future__ import annotations

import pytest

from skillrun.store.artifacts import Artifacts, Refusals
from skillrun.store.memory import MemoryFiles


@pytest.mark.finding("FX8")
@pytest.mark.parametrize(
    ("content", "text", "lines"),
    [
        ("\ufeffgrößer".encode("utf-16-le"), "größer", []),
        ("café".encode("latin-1"), "caf\ufffd", ["note.md is not UTF-8: 1 character is shown as \ufffd"]),
        (b"\x89PNG\r\n\x1a\n\0\0", None, ["note.md is a binary file, so it has no text"]),
    ],
)
def test_the_encoding_is_recognized_or_reported(content: bytes, text: str | None, lines: list[str]) -> None:
    files, refusals = MemoryFiles(), Refusals()
    files.write("note.md", content)
    assert Artifacts(files, None, refusals).text("note.md") == text
    assert refusals.lines == lines
