"""What the tools answer with: the text of a file, and lines within the room that an answer has."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from skillrun.repository.readable_folder import ReadableFolder
from skillrun.scoring.compaction import estimate_tokens
from skillrun.types.schemas import quote_value

MAX_RESULT: Final = 12_000  # characters
MAX_LINE: Final = 400  # characters
MAX_FILE: Final = 5_000_000  # bytes


class ToolError(Exception):
    """What a tool answers after `error:`."""


class BinaryFileError(ToolError):
    """The file is no text."""


@dataclass(frozen=True)
class OutputBudget:
    """What an answer may have: characters, and tokens where the window of who asks is known."""

    characters: int = MAX_RESULT
    tokens: int | None = None

    def with_characters(self, characters: int) -> OutputBudget:
        """As many tokens, and so many characters."""
        return OutputBudget(characters, self.tokens)

    def minus(self, characters: int) -> OutputBudget:
        """What is left when so many characters are kept for something else."""
        tokens = None if self.tokens is None else max(0, self.tokens - characters // 3)
        return OutputBudget(max(0, self.characters - characters), tokens)

    def subtract_lines(self, lines: Sequence[str]) -> OutputBudget:
        """What is left of the tokens behind lines, with as many characters."""
        used = sum(estimate_tokens(line) + 1 for line in lines) if self.tokens is not None else 0
        return OutputBudget(self.characters, None if self.tokens is None else max(0, self.tokens - used))

    def take_lines(self, lines: Sequence[str]) -> list[str]:
        """As many of the lines, from the first one on, as fit."""
        characters, tokens = self.characters, self.tokens
        for place, line in enumerate(lines):
            characters -= len(line) + 1
            if tokens is not None and characters >= 0:
                tokens -= estimate_tokens(line) + 1
            if characters < 0 or (tokens is not None and tokens < 0):
                return list(lines[:place])
        return list(lines)

    def fits(self, lines: Sequence[str]) -> bool:
        return len(self.take_lines(lines)) == len(lines)


def read_text(folder: ReadableFolder, name: str, *, is_checked: bool = False) -> bytes:
    """What a text file holds. Raises Failed, and what opening it raises; `judged` is a name that the folder gave."""
    with folder.open_path(name, is_checked=is_checked) as opened:
        if opened.is_folder:
            raise ToolError(f"{quote_value(name)} is a folder; use List")
        with open(opened.descriptor, "rb", closefd=False) as file:
            content = file.read(MAX_FILE + 1)
    if len(content) > MAX_FILE:
        raise ToolError(f"{quote_value(name)} is larger than {MAX_FILE:,} bytes")
    if is_binary(content):
        raise BinaryFileError(f"{quote_value(name)} is a binary file")
    return content


def is_binary(content: bytes) -> bool:
    return b"\0" in content[:8192]


def split_lines(content: bytes) -> list[str]:
    lines = content.decode("utf-8", "replace").replace("\r\n", "\n").split("\n")
    if lines[-1] == "":
        lines.pop()
    return lines


def count_lines(content: bytes) -> int:
    """How many lines there are."""
    return content.count(b"\n") + (not content.endswith(b"\n") and content != b"")


def truncate_line(line: str, max_length: int = MAX_LINE) -> str:
    return line if len(line) <= max_length else f"{line[:max_length]} […{len(line) - max_length} more characters]"


def number_lines(lines: Iterable[str], first: int) -> list[str]:
    """Lines of a file as they are shown, each behind its number."""
    return [f"{number:>6}\t{truncate_line(line)}" for number, line in enumerate(lines, first)]


def count_noun(number: int, noun: str) -> str:
    """`1 file`, `2 files`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def format_result(lines: list[str], budget: OutputBudget, remark: str, empty_message: str) -> str:
    """The lines that fit, how many more there are, and a last word."""
    kept = budget.take_lines(lines)
    rest = f"(and {len(lines) - len(kept)} more)" if len(kept) < len(lines) else ""
    return "\n".join(line for line in (*kept, rest, remark) if line) or empty_message
