"""Questions as a markdown file that a person fills in with any editor, and the way back.

`## Q1` starts a question, a quotation holds its words, boxes are its choices, and the person's own words stand below
`Answer:`. What is not plain when it is read back is named and never guessed.
"""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from skillrun.language.border import clean
from skillrun.language.diagnostics import Problems, SkillrunError, printable, render
from skillrun.language.document import outline
from skillrun.language.source import MAX_BYTES, Source, source_of
from skillrun.people.answers import (
    Question,
    by_default,
    choice_like,
    choices_of,
    default_of,
    is_multiple,
    is_open,
    notes_of,
    shown,
)
from skillrun.people.meaning import OTHER, answer_of, letter, meant_by, squeezed
from skillrun.tools.tree import PRIVATE, Tree

INTRODUCTION: Final = """\
To answer, put an `x` between the brackets of a choice, or write its letter, or your own words, behind the word Answer.
What you leave open counts as not answered. Leave the headings in place, save the file when you are done, then resume
the run.
"""
TICKS: Final = frozenset("xX✓✔☑✅")

_HEADING: Final = re.compile(r"Q(?P<number>\d+)\b(?P<rest>.*)")
_BOX: Final = re.compile(r"\s*(?:[-*+•–]|\d+[.)])?\s*\[(?P<mark>[^\]]*)\]\s*(?P<text>.*)")
_ANSWER: Final = re.compile(
    r"\s*(?:[-*+]\s+|#+\s+)?(?P<bold>[*_]*)answer(?:\s*[:：](?P=bold)|(?P=bold)\s*(?:[:：]|$))\s*(?P<rest>.*)",
    re.IGNORECASE,
)

Line = tuple[int, str]
"""The number of a line in the file, and its text or what is to be said of it."""


class UnclearAnswers(SkillrunError):
    """A form has answers that could be read in more than one way, or none at all; nothing is guessed.

    For each question: what was read, and why that is not plain, empty where it is. `untouched`: nobody filled it in.
    """

    def __init__(
        self,
        path: Path,
        unclear: Sequence[Line],
        answers: Sequence[dict[str, Any]] = (),
        why: Sequence[tuple[str, ...]] = (),
        *,
        untouched: bool = False,
    ) -> None:
        lines = [f"{path}:{number}: {text}" for number, text in sorted(unclear)]
        super().__init__("\n".join(lines), f"mend {path} there")
        self.answers = answers
        self.why = why
        self.untouched = untouched


def write_form(
    folder: Tree, name: str, questions: Sequence[Question], title: str = "Questions", *, mode: int = PRIVATE
) -> bool:
    """Write a form below `folder`, whole or not at all; one that is there is left as it is, and then this is False.

    `mode` is that of folders which are made for it; the form is no program.
    """
    lines = [f"# {shown(title)}", "", INTRODUCTION]
    for number, question in enumerate(questions, 1):
        quotation = [f"> {line}".rstrip() for line in _quotation(question)]
        boxes = [f"- [ ] {label}" for label in _labels(question)]
        boxes += ["- [ ] Other:"] if boxes and is_open(question) else []
        lines += [f"## {_title(number, question)}", "", *quotation, "", *boxes, *[""][: len(boxes)], "Answer:", "", ""]
    with folder.place(name, create=True, mode=mode) as (parent, leaf):
        temporary = f".{leaf}.{secrets.token_hex(4)}.tmp"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        try:
            with os.fdopen(os.open(temporary, flags, mode & 0o666, dir_fd=parent), "wb") as file:
                file.write("\n".join(lines).encode("utf-8", "replace"))
                file.flush()
                os.fsync(file.fileno())
            return _placed(parent, temporary, leaf)
        finally:
            with suppress(FileNotFoundError):
                os.unlink(temporary, dir_fd=parent)


def read_form(folder: Tree, name: str, questions: Sequence[Question]) -> list[dict[str, Any]]:
    """A record for each question, empty where it stays unanswered; words beside a chosen choice are its `comment`.

    Raises UnclearAnswers with every place where it is not plain what the person means, and for a form that nobody has
    filled in although it has questions without a default; SkillrunError when the file cannot be read.
    """
    problems = Problems()
    path = folder.path / name
    source = source_of(folder.read(name, MAX_BYTES), path, str(path), problems)
    if source is None:
        raise SkillrunError("\n".join(map(render, problems)), f"mend {path}")
    sections = _sections(source)
    unclear: list[Line] = []
    read: list[tuple[dict[str, Any], list[str]]] = []
    for number, question in enumerate(questions, 1):
        found: list[Line] = []
        read.append((_read(number, question, sections.get(number, []), found), [why for _, why in found]))
        unclear += [(line, f"Q{number}: {why}") for line, why in found]
    untouched = not unclear and not any(answer for answer, _ in read) and None in map(default_of, questions)
    if untouched:
        unclear = [(1, "nothing is filled in yet")]
    answers = [answer or by_default(question) for question, (answer, _) in zip(questions, read, strict=True)]
    if unclear:
        why = [tuple(reasons) for _, reasons in read]
        raise UnclearAnswers(path, unclear, answers, why, untouched=untouched)
    return clean(answers)


def _placed(folder: int, temporary: str, name: str) -> bool:
    """Give a finished file its name in a folder, unless there is one of that name."""
    try:
        os.link(temporary, name, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=False)
    except FileExistsError:
        return False
    except OSError:  # a file system without hard links
        with suppress(FileNotFoundError):
            os.stat(name, dir_fd=folder, follow_symlinks=False)
            return False
        os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
    return True


def _title(number: int, question: Question) -> str:
    return " · ".join(
        [f"Q{number}", *(shown(question[key]) for key in ("priority", "section", "id") if question.get(key))]
    )


def _quotation(question: Question) -> list[str]:
    """What a form says about a question, without the quotation marks."""
    lines = [*printable(str(question.get("text", ""))).strip().split("\n"), ""]
    notes = notes_of(question)
    return [*lines, *([*(f"- {note}" for note in notes), ""] if notes else []), f"*{_hint(question)}*"]


def _labels(question: Question) -> list[str]:
    """What stands behind the boxes of the choices."""
    return [f"{letter(number)}. {shown(choice)}" for number, choice in enumerate(choices_of(question))]


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


def _sections(source: Source) -> dict[int, list[list[Line]]]:
    """The sections by the number of their question; a section's first line is its heading."""
    found: dict[int, list[list[Line]]] = {}
    lines = list(enumerate(source.text.split("\n"), 1))
    heads = [(source.position(one.start)[0], _HEADING.fullmatch(one.name)) for one in outline(source.text, 0)[0]]
    starts = [(line, match) for line, match in heads if match]
    ends = [*(line for line, _ in starts[1:]), len(lines) + 1]
    for (line, match), end in zip(starts, ends, strict=False):
        found.setdefault(int(match["number"]), []).append([(line, match.string), *lines[line : end - 1]])
    return found


def _read(number: int, question: Question, sections: list[list[Line]], unclear: list[Line]) -> dict[str, Any]:
    """The record of the answer; what is not the form's own is the person's."""
    if len(sections) != 1:
        at, again = (sections[1][0][0], "stands here a second time") if sections else (1, "is missing")
        unclear.append((at, f"the heading `## Q{number}` {again}; leave one even where the question stays open"))
        return {}
    (at, head), *lines = sections[0]
    title, quotation = _title(number, question), _quotation(question)
    boxes = _Boxes(question, unclear)
    words = [head.removeprefix(title).strip(" :-–—") if head.startswith(title) else ""]
    quoted: list[Line] = []
    below = False
    for line, text in lines:
        if not below and (found := _ANSWER.fullmatch(text)):
            at, below = line, True
            words.append(found["rest"])
        elif not boxes.take(line, text, below=below):
            if below or not text.lstrip().startswith(">"):
                words.append(text.rstrip())
            else:
                quoted.append((line, text))
    if _bare("\n".join(text for _, text in quoted)) != _bare("\n".join(quotation)):
        if _bare(title) != _bare(head):
            unclear.append((at, f"another question is asked now: `{title}`; move this file away to get the new form"))
            return {}
        own = {_bare(text) for text in quotation}
        strange = [one for one in quoted if _bare(one[1]) not in own]
        unclear += [(line, f"`{shown(text)}` is not the form's; write below `Answer:`") for line, text in strange]
    before = len(unclear)
    answer = answer_of(question, boxes.ticked, boxes.other, "\n".join(words), lambda why: unclear.append((at, why)))
    if not answer and len(unclear) == before and 0 < boxes.seen < len(choices_of(question)):
        unclear.append((at, "some choices are gone, and none is ticked"))
    return answer


class _Boxes:
    """The boxes of a question as the person has left them."""

    def __init__(self, question: Question, unclear: list[Line]) -> None:
        self.question, self.unclear = question, unclear
        self.labels = dict(zip(map(squeezed, _labels(question)), choices_of(question), strict=True))
        self.ticked: list[Any] = []
        self.other: str | None = None
        self.seen = 0

    def take(self, line: int, text: str, *, below: bool) -> bool:
        """Whether the line is a box; one that no choice belongs to is none below `Answer:`."""
        box = _BOX.fullmatch(text) if self.labels else None
        if box is None or (below and choice_like(self.question, text) is not None):
            return False
        mark, label = box["mark"].strip(), box["text"]
        meant = [self.labels[squeezed(label)]] if squeezed(label) in self.labels else meant_by(self.question, label)
        other = OTHER.fullmatch(label) if is_open(self.question) and not meant else None
        if len(meant) != 1 and not other:
            if not below:
                self.unclear.append((line, f"`{shown(text)}` is none of the choices as they stood"))
            return not below
        self.seen += len(meant)
        if mark and not set(mark) <= TICKS:
            self.unclear.append((line, f"`[{mark}]` is neither ticked nor empty"))
        elif other and (mark or other["words"]):
            self.other = other["words"] or ""
        elif mark:
            self.ticked += meant
        return True


def _bare(text: str) -> str:
    """The words of a text, whatever the marks and line ends between them."""
    return " ".join(re.findall(r"[^\W_]+", text.casefold()))
