"""Searches documents for regular expressions, and returns each match with its document, line number and line.

`ids`, `paths` and `numbers` use this module, so that all text checks read and search documents in the same way.
"""

from __future__ import annotations

import re
import time
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from skillrun.scoring import patterns
from skillrun.syntax.document import Fences
from skillrun.templates.limits import WORK_PER_SECOND, TemplateError, render_budget, spend
from skillrun.templates.values import Absent, to_list, to_text

LONGEST: Final = 300  # characters of a line in a place record
LINE_WORK: Final = 4  # work units per line
PLACE_WORK: Final = 4  # work units per place record
MENTION_WORK: Final = 8  # work units per candidate for an id, a path or a number
_BREAK: Final = re.compile(r"\r\n?|\n")


@dataclass(frozen=True)
class TitledText:
    """A text with a title; lines end with `\\n`."""

    title: str
    text: str

    @cached_property
    def lines(self) -> list[str]:
        return self.text.split("\n")

    @cached_property
    def starts(self) -> list[int]:
        """The offset of each line."""
        starts = [0]
        for line in self.lines[:-1]:
            starts.append(starts[-1] + len(line) + 1)
        return starts

    @cached_property
    def fenced(self) -> list[bool]:
        """For each line, whether it belongs to a code fence. The lines that open and close the fence do."""
        fences = Fences(self.text)
        return [fences.contains(start) for start in self.starts]

    def position(self, offset: int) -> tuple[int, int]:
        """Return the line index and the column of an offset, both counted from 0."""
        line = bisect_right(self.starts, offset) - 1
        return line, offset - self.starts[line]

    def place_record(self, line: int, column: int) -> dict[str, Any]:
        """Return a record with the document's title, the line number and the line. Cut a long line around `column`."""
        spend(PLACE_WORK)
        text = self.lines[line]
        if len(text) > LONGEST:
            start = min(max(0, column - LONGEST // 3), len(text) - LONGEST)
            text = text[start : start + LONGEST]
        return {"document": self.title, "line": line + 1, "text": text.strip()}


def to_documents(value: Any) -> list[TitledText]:
    """Return the documents to search. `value` maps titles to texts, or is a single text without a title.

    Absent and null texts are skipped. A list becomes one paragraph per item. A record becomes its `text` field, or one
    line per field if `text` is missing.
    """
    if isinstance(value, Absent):
        return []
    titled = drop_missing(value if isinstance(value, Mapping) else {"": value})
    texts = [_document_text(text) for text in titled.values()]
    spend(sum(map(len, texts)) >> 3)
    documents = [TitledText(str(title), _BREAK.sub("\n", text)) for title, text in zip(titled, texts, strict=True)]
    spend(sum(LINE_WORK * document.text.count("\n") for document in documents))
    return documents


def hits_in(documents: Any, patterns: Any) -> list[dict[str, Any]]:
    """Return a record for each match of `patterns`, ordered by document and position. Case is ignored."""
    kinds = named_patterns(patterns)
    return [
        {"kind": kind, "hit": hit, **document.place_record(*document.position(offset))}
        for document in to_documents(documents)
        for offset, hit, kind in find_occurrences(document.text, kinds)
    ]


def named_patterns(expressions: Any) -> dict[str, list[str]]:
    """Return lists of regular expressions, keyed by name. Outside a mapping, each expression is its own name."""
    by_name = expressions
    if not isinstance(expressions, Mapping):
        by_name = {to_text(pattern): pattern for pattern in list_or_text(expressions)}
    return {name: [to_text(pattern) for pattern in list_or_text(several)] for name, several in by_name.items()}


def find_occurrences(
    text: str, kinds: Mapping[str, list[str]], *, ignore_case: bool = True
) -> list[tuple[int, str, str]]:
    """Return the offset, the matched text and the kind of each hit, in order of offset.

    Unlike `search`, this searches the whole text. If several kinds match the same text at the same offset, the first
    kind wins.
    """
    parts: list[tuple[int, str]] = []  # offset and text of each part; a part is short enough to search
    start = 0
    while len(text) - start > patterns.TEXT_CAP:
        limit = start + patterns.TEXT_CAP  # a part ends at the end of a line, or at a space of a longer line
        end = text.rfind("\n", start, limit) + 1 or text.rfind(" ", start, limit) + 1 or limit
        parts.append((start, text[start:end]))
        start = end
    parts.append((start, text[start:]))
    kind_by_place: dict[tuple[int, str], str] = {}
    for kind, several in kinds.items():
        for pattern in several:
            for start, part in parts:
                for offset, hit in search(pattern, part, ignore_case=ignore_case):
                    spend(1)
                    kind_by_place.setdefault((start + offset, hit), kind)
    return sorted((offset, hit, kind) for (offset, hit), kind in kind_by_place.items())


def search(pattern: str, text: str, *, ignore_case: bool = True) -> list[patterns.Hit]:
    """Return the hits in the first TEXT_CAP characters of a text. Charge the search time to the render budget."""
    with render_budget() as active_budget:
        began = time.thread_time()  # CPU time, because it does not depend on what else the machine runs
        try:
            hits = patterns.find_hits(
                pattern, text, active_budget.remaining_work / WORK_PER_SECOND, ignore_case=ignore_case
            )
        except ValueError as error:
            raise TemplateError(str(error)) from error
        except TimeoutError as error:
            raise TemplateError(
                f"searching for `{pattern}` takes too long", "clip the text, or simplify the pattern"
            ) from error
        active_budget.spend(int((time.thread_time() - began) * WORK_PER_SECOND))
    return hits


def list_or_text(value: Any) -> list[Any]:
    """Return a list unchanged, or a text as the only item of a list."""
    return [value] if isinstance(value, str) else to_list(value)


def _document_text(value: Any) -> str:
    if isinstance(value, Mapping):
        text = value.get("text")
        if isinstance(text, str):
            return text
        return "\n".join(f"{name}: {to_text(field)}" for name, field in drop_missing(value).items())
    if isinstance(value, (list, tuple)):
        return "\n\n".join(map(_document_text, drop_missing(dict(enumerate(value))).values()))
    return to_text(value)


def drop_missing(fields: Mapping[Any, Any]) -> dict[Any, Any]:
    """Return the entries whose value is neither absent nor null."""
    return {name: value for name, value in fields.items() if value is not None and not isinstance(value, Absent)}
