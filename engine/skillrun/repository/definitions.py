"""Definitions in a source file, and the interface of the finders that locate them."""

from __future__ import annotations

import re
from typing import Final, NamedTuple, Protocol, Self

from skillrun.repository.readable_folder import one_line

MAX_DEFINITIONS: Final = 2_000  # per file
MAX_FILE: Final = 1_000_000  # bytes
MAX_NAME: Final = 48  # characters
_KEYWORDS: Final = re.compile(r"^(?:(?:export|default|pub|public|static|async|def|function|fn|func)\b\*? *)+(?=\w)")


class Definition(NamedTuple):
    """A definition in a source file: its first and last line, nesting depth, header (the text before its body) and
    name."""

    first: int
    last: int
    depth: int
    header: str
    name: str

    @classmethod
    def from_header(cls, first: int, last: int, depth: int, header: str) -> Definition:
        """Return the definition with the name that its header contains: the part before the parameters, without
        keywords such as `def`."""
        header = one_line(header)
        name = _KEYWORDS.sub("", header).split("(", 1)[0].strip() or header
        return cls(first, last, depth, header, shorten(name))


class NoOutline(Exception):
    """A file has no outline. The message gives the reason."""


class DefinitionFinder(Protocol):
    """Finds the definitions in source files until a deadline. It is a context manager because it may own a process."""

    suffixes: tuple[str, ...]
    """File extensions of the supported languages."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...

    def supports(self, name: str, content: bytes) -> bool:
        """Whether the file's language is supported. The language is known from the file's name or first line."""

    def definitions(self, name: str, content: bytes) -> list[Definition]:
        """Return the definitions in a file of at most MAX_FILE bytes, in order. Raises NoOutline and TimeoutError."""


def open_finder(until: float) -> DefinitionFinder:
    """Open the registered finder. `until` is the deadline on the monotonic clock."""
    from skillrun.registry import load

    finder: DefinitionFinder = load("outlines", "tree-sitter")(until)
    return finder


def shorten(name: str) -> str:
    return name if len(name) <= MAX_NAME else f"{name[: MAX_NAME - 1]}…"
