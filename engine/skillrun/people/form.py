"""Questions as a markdown file that a person fills in with any editor, and the way back.

`## Q1` starts a question, a quotation holds its words, boxes are its options. Owns how a form is written.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from skillrun.language.diagnostics import Problems, SkillrunError, render
from skillrun.language.printable import printable
from skillrun.language.source import read_source
from skillrun.people.answers import Question, by_default, choices_of, default_of, is_multiple, is_open, notes_of, shown
from skillrun.people.filled import Section, Unclear, read_section, sections

INTRODUCTION: Final = """\
To answer, put an `x` between the brackets of an option, or write its letter or your own words after the colon below the
options. What you leave open counts as not answered. Save the file when you are done, then resume the run.
"""


class UnclearAnswers(SkillrunError):
    """A form has answers that could be read in more than one way, or none at all; nothing is guessed."""

    exit_code = 75

    def __init__(self, path: Path, unclear: Sequence[Unclear]) -> None:
        lines = [f"{path}:{one.line}: {one.name}: {one.why}" for one in unclear]
        super().__init__("\n".join(lines), f"mend {path} there, then resume")
        self.unclear = tuple(unclear)


def write_form(path: Path, questions: Sequence[Question], title: str = "Questions") -> bool:
    """Write a form, whole or not at all; one that is there is left as it is, and then this is False."""
    parts = [f"# {shown(title)}\n\n{INTRODUCTION}", *(_written(one) for one in _sections(questions))]
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    try:
        with temporary.open("x", encoding="utf-8", errors="replace", newline="\n") as file:
            file.write("\n".join(parts))
            file.flush()
            os.fsync(file.fileno())
        return _placed(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def read_form(path: Path, questions: Sequence[Question]) -> list[dict[str, Any]]:
    """A record for each question, empty where it stays unanswered; a remark beside a choice is its `comment`.

    Raises UnclearAnswers with every place where it is not plain what the person means, and for a form that nobody has
    filled in although it has questions without a default; SkillrunError when the file cannot be read.
    """
    problems = Problems()
    source = read_source(path, str(path), problems)
    if source is None:
        raise SkillrunError("\n".join(map(render, problems)), f"mend {path}, then resume")
    blank = list(_sections(questions))
    found, unclear = sections(source.text.split("\n"), blank)
    answers: list[dict[str, Any]] = []
    for section in blank:
        answer = read_section(section, found.get(section.number, []))
        if isinstance(answer, list):
            unclear += answer
            answer = {}
        answers.append(answer)
    if not unclear and len(found) == len(blank) and not any(answers) and None in map(default_of, questions):
        unclear = [Unclear(1, "", "nothing is filled in yet")]
    if unclear:
        raise UnclearAnswers(path, sorted(unclear, key=lambda one: one.line))
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


def _sections(questions: Sequence[Question]) -> Iterator[Section]:
    for number, question in enumerate(questions, 1):
        words = [f"Q{number}", *(shown(question[key]) for key in ("priority", "section", "id") if question.get(key))]
        quotation = [*printable(str(question.get("text", ""))).strip().split("\n"), ""]
        quotation += [*(f"- {note}" for note in notes_of(question)), ""] if notes_of(question) else []
        quotation.append(f"*{_hint(question)}*")
        yield Section(number, question, " · ".join(words), tuple(quotation))


def _written(section: Section) -> str:
    lines = [f"## {section.heading}", "", *(f"> {line}".rstrip() for line in section.quotation), ""]
    if section.labels:
        lines += [f"- [ ] {letter}. {label}".rstrip() for letter, label in section.labels.items()]
        lines += ["- [ ] Other:"] if is_open(section.question) else []
        lines.append("")
    return "\n".join([*lines, "Answer:", "", ""])


def _hint(question: Question) -> str:
    own, several = is_open(question), is_multiple(question)
    if not choices_of(question):
        hint = "Answer in your own words."
    elif several:
        hint = "Choose as many as fit, or add your own." if own else "Choose as many as fit."
    else:
        hint = "Choose one, or answer in your own words." if own else "Choose one."
    default = default_of(question)
    if default is None:
        return hint
    items = default if isinstance(default, list) else [default] if default != "" else []
    return f"{hint} {'Without an answer: ' + ', '.join(map(shown, items)) if items else 'It may be left open'}."
