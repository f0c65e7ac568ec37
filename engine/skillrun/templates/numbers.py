"""Finds amounts and their units in documents, for example to compare the limits in two documents.

Numbers that are not amounts are skipped: numbers of list items and headings, dates, times, versions, and numbers in
ids, names and paths.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from skillrun.templates.document_search import MENTION_WORK, to_documents
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
"""Matches the number of a list item or heading."""
_NAME: Final = re.compile(r"(?:^|[^.!?:;|\s])[ ]+[^\W\d_]*[A-Z][^\W\d_]*[ ]$")
_QUOTES: Final = tuple("\"'‘’“”„«»")
_LETTERS: Final = re.compile(r"[^\W_]*")


def numbers_in(documents: Any, code: Any = False) -> list[dict[str, Any]]:
    """Return a record for each amount in the documents, in order of appearance.

    The unit of an amount is the word after the number. Code fences are searched only if `code` is set.
    """
    amounts: dict[str, dict[str, Any]] = {}
    for document in to_documents(documents):
        for at, line in enumerate(document.lines):
            if document.fenced[at] and not code:
                continue
            seen: set[str] = set()
            for column, value, unit in _amounts(line):
                plain = f"{value:.15g}" if isinstance(value, float) else str(value)
                number = f"{plain} {unit}".rstrip()  # `1000 rows` for `1,000 rows`, `10 MB` for `10MB`
                if number not in seen:
                    seen.add(number)
                    amount = amounts.setdefault(number, {"number": number, "value": value, "unit": unit, "cited": []})
                    amount["cited"].append(document.place_record(at, column))
    return list(amounts.values())


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
        is_negative = line[column - 1 : column] in ("-", "−")
        if is_negative and line[max(column - 2, 0) : column - 1] in ("", " ", "(", "`", "|"):
            value = -value
        unit, unit_end = "", end
        if named := _UNIT.match(line, end):
            unit, unit_end = named["glued"] or named["word"], named.end()
        rate = _RATE.match(line, unit_end) if unit else None
        yield column, value, unit + rate[0] if rate else unit


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
    letters = _LETTERS.match(line, end)
    glued = letters[0] if letters else ""
    is_quoted = last in _QUOTES and line[end + len(glued) : end + len(glued) + 1] in _QUOTES
    if first == "_" or (first == ":" and following[1:].isdigit()) or is_quoted:
        return False
    if glued and (len(glued) > 4 or not glued.isalpha()):  # more than a unit: 0x1f, 1a2b, 3rd-party
        return False
    if last == "/" and any(each.isalpha() for each in line[line.rfind(" ", max(0, column - 100), column) + 1 : column]):
        return False  # in a path
    return not (match["fraction"] and _NAME.search(line, max(0, column - 40), column))  # SQLite 3.46
