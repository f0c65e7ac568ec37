"""Finds the amounts in documents, with their units, so that a limit in one document can be looked up in another.

Numbers that are not amounts are skipped: numbers of list items and headings, dates, times, versions, and numbers in
ids, names and paths.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from skillrun.templates.document_search import MENTION_WORK, read_documents
from skillrun.templates.limits import spend

MOST_DIGITS: Final = 15
_NUMBER: Final = re.compile(
    r"(?P<digits>\d{1,3}(?:[,\u00a0\u202f_'’]\d{3})+(?![\d,]\d)|\d+)(?P<fraction>\.\d+)?(?P<more>(?:\.\w+)*)"
)
_UNIT: Final = re.compile(
    r"(?P<glued>%|‰|°[CF]?\b|[^\W\d_]{1,4}(?![\w-]))|[ \u00a0\u202f]?-?(?P<word>%|‰|°[CF]?\b|[^\W\d_]+)"
)
_RATE: Final = re.compile(r"/[^\W\d_]+\b")
_DATE: Final = re.compile(r"(?<![\w.])(?:\d{4}-\d\d(?:-\d\d)?|\d{1,2}/\d{1,2}/\d{2,4}|\d{4}/\d\d/\d\d)(?![\w-])")
_LEAD: Final = re.compile(
    r"[ \t>|]*(?:(?:[-*+]|#{1,6})[ \t]+)*(?:\[.?\][ \t]+)?[*_]*[\d.]*\d[.)][*_]*(?=[ \t]|$)"
    r"|[ \t>]*#{1,6}[ \t]+[\d.]+(?=[ \t])"
)
"""The number of a list item or heading."""
_NAME: Final = re.compile(r"(?:^|[^.!?:;|\s])[ ]+[^\W\d_]*[A-Z][^\W\d_]*[ ]$")
_QUOTES: Final = tuple("\"'‘’“”„«»")
_LETTERS: Final = re.compile(r"[^\W_]*")


@dataclass
class _Number:
    value: int | float
    unit: str
    cited: list[dict[str, Any]] = field(default_factory=list)

    @property
    def number(self) -> str:
        """The amount in a normalized form: `1000 rows` for `1,000 rows`, `10 MB` for `10MB`."""
        plain = f"{self.value:.15g}" if isinstance(self.value, float) else str(self.value)
        return f"{plain} {self.unit}".rstrip()


def numbers_in(documents: Any, code: Any = False) -> list[dict[str, Any]]:
    """Return a record for each amount in the documents, in order of appearance.

    The unit of an amount is the word after the number. Code fences are only searched with `code`.
    """
    numbers: dict[str, _Number] = {}
    for document in read_documents(documents):
        for at, line in enumerate(document.lines):
            if document.fenced[at] and not code:
                continue
            seen: set[str] = set()
            for column, value, unit in _amounts(line):
                amount = _Number(value, unit)
                if amount.number not in seen:
                    seen.add(amount.number)
                    numbers.setdefault(amount.number, amount).cited.append(document.place_record(at, column))
    return [
        {"number": name, "value": amount.value, "unit": amount.unit, "cited": amount.cited}
        for name, amount in numbers.items()
    ]


def _amounts(line: str) -> Iterator[tuple[int, int | float, str]]:
    """Yield the column, value and unit of each amount in a line."""
    lead = _LEAD.match(line)
    start = lead.end() if lead else 0
    line = _DATE.sub(lambda date: "\0" * len(date[0]), line)
    refused = -1  # the end of the last number that is not an amount; neither number in `3.10–3.15` is one
    for match in _NUMBER.finditer(line, start):
        spend(MENTION_WORK)
        column, end = match.span()
        is_second = refused >= 0 and column == refused + 1 and line[refused] in "-–—"
        if is_second or not _is_amount(line, match):
            refused = end
            continue
        digits = re.sub(r"\D", "", match["digits"])
        if len(digits) + len(match["fraction"] or "") > MOST_DIGITS:
            continue
        value: int | float = float(digits + match["fraction"]) if match["fraction"] else int(digits)
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        yield column, -value if _is_negative(line, column) else value, _unit(line, end)


def _is_negative(line: str, column: int) -> bool:
    return line[column - 1 : column] in ("-", "−") and line[max(column - 2, 0) : column - 1] in ("", " ", "(", "`", "|")


def _is_amount(line: str, match: re.Match[str]) -> bool:
    """Whether a number is an amount, and not part of a name, an id, a version, a time or a quoted text."""
    column, end = match.span()
    before, following = line[max(column - 2, 0) : column], line[end : end + 2]
    last, first = before[-1:], following[:1]
    if match["more"] or last.isalnum() or (last and last in "_.#@$\\"):  # 3.23.1, x3, .5
        return False
    if last and last in "-+:/" and len(before) == 2 and (before[0].isalpha() or (last == ":" and before[0].isdigit())):
        return False  # AC-2, U+1, cli.py:3, 12:30
    if last and last in "[%" and before[:1].isalnum() and len(before) == 2:  # x[3], a%3f
        return False
    if first == "_" or (first == ":" and following[1:].isdigit()) or _is_quoted(line, column, end):
        return False
    if _has_attached_letters(line, end) or (last == "/" and _is_in_path(line, column)):
        return False
    return not (match["fraction"] and _NAME.search(line, max(0, column - 40), column))  # SQLite 3.46


def _is_quoted(line: str, column: int, end: int) -> bool:
    """Whether the number is quoted, as in `'1'`, possibly with letters after it inside the quotes."""
    if line[max(column - 1, 0) : column] not in _QUOTES or column == 0:
        return False
    after = end + len(_attached_letters(line, end))
    return line[after : after + 1] in _QUOTES


def _has_attached_letters(line: str, end: int) -> bool:
    """Whether the characters attached to the number are more than a unit: `0x1f`, `1a2b`, `3rd-party`."""
    glued = _attached_letters(line, end)
    return bool(glued) and (len(glued) > 4 or not glued.isalpha())


def _attached_letters(line: str, end: int) -> str:
    match = _LETTERS.match(line, end)
    return match[0] if match else ""


def _is_in_path(line: str, column: int) -> bool:
    begin = line.rfind(" ", max(0, column - 100), column) + 1
    return any(each.isalpha() for each in line[begin:column])


def _unit(line: str, end: int) -> str:
    match = _UNIT.match(line, end)
    if match is None:
        return ""
    unit = match["glued"] or match["word"]
    rate = _RATE.match(line, match.end())
    return unit + rate[0] if rate else unit
