"""Questions as a markdown file that a person fills in with any editor, and the way back.

`## Q1` starts a question, a quotation holds its words, boxes are its choices, and the person's own words stand below
`Answer:`. What is not plain when it is read back is named and never guessed.
"""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from skillrun.language.diagnostics import Problems, SkillrunError, render
from skillrun.language.headings import outline
from skillrun.language.printable import printable
from skillrun.language.source import Source, read_source
from skillrun.people.answers import (
    Question,
    answered,
    by_default,
    choice_like,
    choices_of,
    default_of,
    is_multiple,
    is_open,
    notes_of,
    shown,
)

INTRODUCTION: Final = """\
To answer, put an `x` between the brackets of a choice, or write behind the word Answer. What you leave open counts as
not answered. Leave the headings in place, save the file when you are done, then resume the run.
"""
TICKS: Final = frozenset("xX✓✔")

_HEADING: Final = re.compile(r"Q(\d+)\b.*")
_BOX: Final = re.compile(r"\s*[-*+]?\s*\[(?P<mark>[^\]]*)\]\s*(?P<text>.*)")
_ANSWER: Final = re.compile(r"\s*(?P<bold>[*_]*)answer(?:\s*:(?P=bold)|(?P=bold)\s*:)\s*(?P<rest>.*)", re.IGNORECASE)
_LINES: Final = r"\n(?:\s*[-*+]\s)?"

Line = tuple[int, str]
"""The number of a line in the file, and its text or what is to be said of it."""


class UnclearAnswers(SkillrunError):
    """A form has answers that could be read in more than one way, or none at all; nothing is guessed."""

    def __init__(self, path: Path, unclear: Sequence[Line]) -> None:
        lines = [f"{path}:{number}: {why}" for number, why in sorted(unclear)]
        super().__init__("\n".join(lines), f"mend {path} there, then resume")


def write_form(path: Path, questions: Sequence[Question], title: str = "Questions") -> bool:
    """Write a form, whole or not at all; one that is there is left as it is, and then this is False."""
    lines = [f"# {shown(title)}", "", INTRODUCTION]
    for number, question in enumerate(questions, 1):
        lines += [*_written(number, question), "", "Answer:", "", ""]
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    try:
        with temporary.open("x", encoding="utf-8", errors="replace", newline="\n") as file:
            file.write("\n".join(lines))
            file.flush()
            os.fsync(file.fileno())
        return _placed(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def read_form(path: Path, questions: Sequence[Question]) -> list[dict[str, Any]]:
    """A record for each question, empty where it stays unanswered; words beside a chosen choice are its `comment`.

    Raises UnclearAnswers with every place where it is not plain what the person means, and for a form that nobody has
    filled in although it has questions without a default; SkillrunError when the file cannot be read.
    """
    problems = Problems()
    source = read_source(path, str(path), problems)
    if source is None:
        raise SkillrunError("\n".join(map(render, problems)), f"mend {path}, then resume")
    unclear: list[Line] = []
    sections = _sections(source, unclear)
    answers = []
    for number, question in enumerate(questions, 1):
        if number not in sections:
            unclear.append((1, f"the heading `## Q{number}` is missing; leave it even where the question stays open"))
        found: list[Line] = []
        answers.append(_read(question, sections.get(number, []), set(_written(number, question)), found))
        unclear += [(line, f"Q{number}: {why}") for line, why in found]
    if not unclear and not any(answers) and None in map(default_of, questions):
        unclear = [(1, "nothing is filled in yet")]
    if unclear:
        raise UnclearAnswers(path, unclear)
    return [answer or by_default(question) for answer, question in zip(answers, questions, strict=True)]


def _placed(temporary: Path, path: Path) -> bool:
    """Give a finished file its name, unless there is one of that name."""
    try:
        os.link(temporary, path)
    except FileExistsError:
        return False
    except OSError:  # a file system without hard links
        if path.exists():
            return False
        temporary.rename(path)
    return True


def _written(number: int, question: Question) -> list[str]:
    """The lines of a question, up to the place for the answer."""
    title = [f"Q{number}", *(shown(question[key]) for key in ("priority", "section", "id") if question.get(key))]
    quotation = [*printable(str(question.get("text", ""))).strip().split("\n"), ""]
    quotation += [*(f"- {note}" for note in notes_of(question)), ""] if notes_of(question) else []
    lines = [f"## {' · '.join(title)}", "", *(f"> {line}".rstrip() for line in quotation), f"> *{_hint(question)}*"]
    boxes = [f"- [ ] {shown(choice)}" for choice in choices_of(question)]
    return [*lines, "", *boxes] if boxes else lines


def _hint(question: Question) -> str:
    if not choices_of(question):
        hint = "Answer in your own words."
    else:
        many = "Choose as many as fit" if is_multiple(question) else "Choose one"
        hint = f"{many}, or answer in your own words." if is_open(question) else f"{many}."
    default = default_of(question)
    if default is None:
        return hint
    items = default if isinstance(default, list) else [default] if default != "" else []
    return f"{hint} {'Without an answer: ' + ', '.join(map(shown, items)) if items else 'It may be left open'}."


def _sections(source: Source, unclear: list[Line]) -> dict[int, list[Line]]:
    """The lines below each question's heading, by its number."""
    found: dict[int, list[Line]] = {}
    lines = list(enumerate(source.text.split("\n"), 1))
    heads = [(source.position(one.start)[0], _HEADING.fullmatch(one.name)) for one in outline(source.text, 0)[0]]
    starts = [(line, int(match[1])) for line, match in heads if match]
    ends = [*(line for line, _ in starts[1:]), len(lines) + 1]
    for (line, number), end in zip(starts, ends, strict=False):
        if number in found:
            unclear.append((line, f"Q{number}: the question stands here a second time"))
        found[number] = lines[line : end - 1]
    return found


def _read(question: Question, lines: list[Line], own: set[str], unclear: list[Line]) -> dict[str, Any]:
    """The record of the answer; `own` are the form's lines, all else is the person's."""
    picked: list[Any] = []
    for place, (number, line) in enumerate(lines):
        if answer := _ANSWER.fullmatch(line):
            words = "\n".join([answer["rest"], *(text.rstrip() for _, text in lines[place + 1 :])]).strip()
            return _chosen(question, picked, words, number, unclear)
        if not line.strip() or line.rstrip() in own:
            continue
        box = _BOX.fullmatch(line)
        choice = choice_like(question, box["text"]) if box else None
        if box is None or choice is None:
            what = "is none of the choices as they stood" if box else "is not the form's; write below `Answer:`"
            unclear.append((number, f"`{shown(line)}` {what}"))
        elif box["mark"].strip() and not set(box["mark"].strip()) <= TICKS:
            unclear.append((number, f"`[{box['mark']}]` is neither ticked nor empty"))
        elif box["mark"].strip():
            picked.append(choice)
    if lines:
        unclear.append((lines[0][0], "the line `Answer:` is missing"))
    return {}


def _chosen(question: Question, picked: list[Any], words: str, at: int, unclear: list[Line]) -> dict[str, Any]:
    """The record of the ticked choices and of the words below `Answer:`, which may name choices too."""
    several = is_multiple(question)
    if not choices_of(question):
        return answered([words] if words and several else words)
    if named := _named(question, words):
        picked, words = [*picked, *(choice for choice in named if choice not in picked)], ""
    if several and words and is_open(question):
        return answered([*picked, words])
    if several:
        if words and not picked:
            unclear.append((at, f"`{shown(words)}` is none of the choices"))
        return answered(picked, comment=words)
    if len(picked) > 1:
        chosen = " and ".join(f"`{shown(choice)}`" for choice in picked)
        unclear.append((at, f"{chosen} are chosen, and the question takes one answer"))
    elif words and not picked and not is_open(question):
        unclear.append((at, f"`{shown(words)}` is none of the choices"))
    return answered(picked[0], comment=words) if picked else answered(words)


def _named(question: Question, words: str) -> list[Any]:
    """The choices that the words are, by themselves, a line each, or between commas; none where they are more."""
    for parts in ([words], *(re.split(between, f"\n{words}") for between in (_LINES, rf"{_LINES}|[,;]"))):
        found = [choice_like(question, part) for part in parts if part.strip()]
        if None not in found:
            return found
    return []
