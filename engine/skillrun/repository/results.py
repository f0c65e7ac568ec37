"""Helpers for tool results: reading text files, and fitting lines into the budget of a result."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from skillrun.repository.readable_folder import ReadableFolder
from skillrun.scoring.compaction import estimate_tokens
from skillrun.syntax.diagnostics import SkillrunError
from skillrun.syntax.reading import decode_by_mark, decode_text, encoding_warning, is_binary
from skillrun.types.schemas import quote_value

MAX_RESULT: Final = 12_000  # characters
MAX_LINE: Final = 400  # characters
MAX_FILE: Final = 5_000_000  # bytes
CODE, TESTS, TEXTS, RECORDS = range(4)
_TEST_FOLDERS: Final = frozenset(
    {"test", "tests", "testing", "testdata", "spec", "specs", "__tests__", "__mocks__", "fixtures", "e2e"}
)
_TEST_NAME: Final = re.compile(
    r"test_.*|conftest\.py|.*[._-](test|tests|spec)\.\w+|.*(Test|Tests|Spec)\.(java|kt|cs|php|swift)"
)
_TEXT_FOLDERS: Final = frozenset({"doc", "docs", "documentation", "man"})
_TEXT_NAME: Final = re.compile(r".*\.(md|markdown|mdx|rst|txt|adoc|asciidoc|org|tex|html?|[1-8])", re.IGNORECASE)
_RECORD_NAME: Final = re.compile(
    r"(changelog|changes|history|news|releases?|release[-_]notes)(\.\w+)?"
    r"|.*\.lock|.*[.-]lock\.(json|ya?ml)|go\.sum|.*\.min\.(js|css|mjs)|.*\.(map|svg|csv|tsv|po|pot|ipynb|snap|log|patch|diff)",
    re.IGNORECASE,
)


class ToolError(Exception):
    """An error of a tool. The tool returns the message after `error:`."""


class BinaryFileError(ToolError):
    """The file is binary."""


@dataclass(frozen=True)
class OutputBudget:
    """The maximum size of a result in characters and, if the model's window is known, in tokens."""

    characters: int = MAX_RESULT
    tokens: float = math.inf

    def minus(self, characters: int) -> OutputBudget:
        """Return a budget reduced by this number of characters."""
        return OutputBudget(max(0, self.characters - characters), max(0, self.tokens - characters // 3))

    def subtract_lines(self, lines: Sequence[str]) -> OutputBudget:
        """Return a budget reduced by the tokens of `lines`. The number of characters does not change."""
        return OutputBudget(self.characters, max(0, self.tokens - sum(estimate_tokens(line) + 1 for line in lines)))

    def take_lines(self, lines: Sequence[str]) -> list[str]:
        """Return as many of the first lines as fit."""
        characters, tokens = self.characters, self.tokens
        for place, line in enumerate(lines):
            characters -= len(line) + 1
            if characters >= 0:
                tokens -= estimate_tokens(line) + 1
            if characters < 0 or tokens < 0:
                return list(lines[:place])
        return list(lines)

    def fits(self, lines: Sequence[str]) -> bool:
        return len(self.take_lines(lines)) == len(lines)


def read_text(folder: ReadableFolder, name: str, *, is_checked: bool = False) -> bytes:
    """Return the content of a text file as UTF-8. `is_checked` is passed to `open_path`.

    Raises ToolError and the errors of `open_path`.
    """
    with folder.open_path(name, is_checked=is_checked) as opened:
        if opened.is_folder:
            raise ToolError(f"{quote_value(name)} is a folder; use List")
        with open(opened.descriptor, "rb", closefd=False) as file:
            content = file.read(MAX_FILE + 1)
    if len(content) > MAX_FILE:
        raise ToolError(f"{quote_value(name)} is larger than {MAX_FILE:,} bytes")
    if is_binary(content):
        raise BinaryFileError(f"{quote_value(name)} is a binary file")
    return to_utf8(content)


def read_listed_text(folder: ReadableFolder, name: str) -> tuple[bytes | None, str]:
    """Return the content of a text file that `files` yields. If the content cannot be shown, return None and the
    reason. The reason is empty if the file is binary or cannot be opened. Raises TimeoutError."""
    try:
        return read_text(folder, name, is_checked=True), ""
    except TimeoutError:
        raise
    except ToolError as error:
        return None, "" if isinstance(error, BinaryFileError) else str(error)
    except (SkillrunError, OSError):
        return None, ""


def to_utf8(content: bytes) -> bytes:
    """Return the content of a text file. UTF-16 and UTF-32 with a byte order mark become UTF-8."""
    marked = decode_by_mark(content)
    return content if marked is None else marked.encode()


def encoding_notes(content: bytes, name: str = "the file") -> list[str]:
    """Return a list with a note if the content is not UTF-8; an empty list if it is."""
    undecoded = decode_text(content)[1]
    return [f"({encoding_warning(name, undecoded)})"] if undecoded else []


def name_encoding_note(names: Iterable[str]) -> str:
    """Return a note if a name is not UTF-8; empty if all are. Such a name contains surrogates."""
    if all(name.encode("utf-8", "replace").decode() == name for name in names):
        return ""
    return "(a name that is not UTF-8 is shown with \N{REPLACEMENT CHARACTER}, and cannot be read)"


def split_lines(content: bytes) -> list[str]:
    lines = decode_text(content)[0].replace("\r\n", "\n").split("\n")
    if lines[-1] == "":
        lines.pop()
    return lines


def count_lines(content: bytes) -> int:
    """Return the number of lines, including a last line without a line break."""
    return content.count(b"\n") + (not content.endswith(b"\n") and content != b"")


def truncate_line(line: str, max_length: int = MAX_LINE) -> str:
    return line if len(line) <= max_length else f"{line[:max_length]} […{len(line) - max_length} more characters]"


def number_lines(lines: Iterable[str], first: int, max_length: int = MAX_LINE) -> list[str]:
    """Return lines of a file, each with its line number, and shortened to `max_length` characters."""
    return [f"{number:>6}\t{truncate_line(line, max_length)}" for number, line in enumerate(lines, first)]


def count_noun(number: int, noun: str) -> str:
    """Return a number with its noun: `1 file`, `2 files`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def format_result(lines: list[str], budget: OutputBudget, remark: str, empty_message: str) -> str:
    """Return the lines that fit, a note with the number of omitted lines, and the remark."""
    kept = budget.take_lines(lines)
    rest = f"(and {len(lines) - len(kept)} more)" if len(kept) < len(lines) else ""
    return "\n".join(line for line in (*kept, rest, remark) if line) or empty_message


def rank_file(name: str) -> int:
    """Return the rank of a file, judging by its path only: CODE, TESTS, TEXTS, or RECORDS (changelogs, lock files and
    generated files)."""
    *folders, base_name = name.split("/")
    lowered = {folder.lower() for folder in folders}
    if _RECORD_NAME.fullmatch(base_name):
        return RECORDS
    if lowered & _TEST_FOLDERS or _TEST_NAME.fullmatch(base_name):
        return TESTS
    if lowered & _TEXT_FOLDERS or _TEXT_NAME.fullmatch(base_name):
        return TEXTS
    return CODE
