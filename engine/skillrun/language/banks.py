"""Question banks: a level-2 heading per group, a list item per question, its choices as nested items."""

from __future__ import annotations

import re
from typing import Any, Final

from skillrun.language.diagnostics import Problems
from skillrun.language.document import check_sections
from skillrun.language.kinds import KINDS
from skillrun.language.reader import Reader
from skillrun.language.source import Document

Bank = dict[str, list[dict[str, Any]]]
"""The questions of each group."""

_ITEM: Final = re.compile(r"(?P<indent>[ \t]*)[-*+]\s+(?P<text>.*\S)\s*$")


def parse_bank(document: Document, problems: Problems) -> Bank:
    """Each group's questions as records: id (`group-1`), text, group, and choices where there are any."""
    Reader(problems).read(document.front, KINDS["questions"])
    check_sections(document, problems)
    groups: Bank = {}
    for line in document.preface.value.split("\n") if document.sections else ():
        if _ITEM.match(line):
            span = document.preface.at(document.preface.value.index(line))
            problems.report(span, "bank", "this question stands in no group", "a group starts with `## name`")
    for section in document.sections:
        questions: list[dict[str, Any]] = []
        offset = 0
        for line in section.text.value.split("\n"):
            match = _ITEM.match(line)
            if match and not match["indent"]:
                number = len(questions) + 1
                questions.append({"id": f"{section.name}-{number}", "text": match["text"], "group": section.name})
            elif match and questions:
                questions[-1].setdefault("choices", []).append(match["text"])
            elif line.strip() and questions and "choices" not in questions[-1]:
                questions[-1]["text"] += " " + line.strip()
            elif line.strip():
                span = section.text.at(offset)
                problems.report(span, "bank", "this line belongs to no question", "start a question with `- `")
            offset += len(line) + 1
        if not questions:
            problems.report(section.heading, "bank", f"the group `{section.name}` has no question", "add a list item")
        groups[section.name] = questions
    return groups
