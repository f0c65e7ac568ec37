"""Writes questions as a markdown form that the user fills in with any editor, and reads the answers.

A question starts with a heading such as `## Q1`. Its text is in a quotation, its choices are boxes, and the user's text
goes below `Answer:`. Unclear answers are reported, never guessed.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Container, Sequence
from difflib import SequenceMatcher
from inspect import cleandoc
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol

from skillrun.questions.answers import (
    Answer,
    Question,
    accepts_free_text,
    choices_of,
    context_lines,
    default_answer,
    default_of,
    explain_length,
    find_choice,
    find_levels,
    is_multiple,
    levels_of,
    may_skip,
    to_one_line,
)
from skillrun.questions.written_answers import OTHER_ANSWER, ChoiceNames, Phrases, choice_letter, interpret_answer
from skillrun.syntax.diagnostics import Problems, SkillrunError, make_printable, render_problem, sanitize
from skillrun.syntax.document import find_headings
from skillrun.syntax.reading import decode_source
from skillrun.syntax.source import MAX_BYTES, Source

TITLE: Final = "Questions"
INTRODUCTION: Final = """\
To answer, put an `x` between the brackets of a choice, or write its letter, or your own words, behind the word Answer.
What you leave open counts as not answered. Leave the headings in place, save the file when you are done, then resume
the run.
"""
TICKS: Final = frozenset("xX✓✔☑☒✅")

_HEADING: Final = re.compile(r"Q(?P<number>\d+)\b.*")
_OWN_HEADING: Final = re.compile(r"^##?[ \t]+\S.*", re.MULTILINE)
_BOX: Final = re.compile(
    r"[*_~]*(?:(?:[-*+•–]|\d+[.)])\s*)?(?:\[(?P<mark>[^\]]*)\]|(?P<sign>[☐☑☒✅✓✔]|[xX](?=\s)))\s*(?P<label>.*)"
)
_ANSWER: Final = re.compile(
    r"\s*(?:[-*+]\s+|#+\s+)?(?P<bold>[*_]*)answer(?:\s*[:：](?P=bold)|(?P=bold)\s*(?:[:：]|$))\s*(?P<rest>.*)",
    re.IGNORECASE,
)
_CONFIDENCE: Final = re.compile(r"\s*(?:[-*+]\s+)?[*_]*how sure\b[^:：]*[:：][*_]*(?P<level>.*)", re.IGNORECASE)
_COMMENT: Final = re.compile(r"<!--\s*(?P<words>.*?)\s*-->", re.DOTALL)
_EMPHASIS: Final = re.compile(r"\*\*|__")

Line = tuple[int, str]
"""The number of a line in the file, and either the line's text or the problem in this line."""


class FormAnswers(NamedTuple):
    """The content of a form: a record for each question, and the notes that are outside the questions."""

    answers: list[Answer]
    notes: str = ""


class QuestionReading(NamedTuple):
    """How a form answers one question: the answer, the unclear places (empty if it is clear), and the user's text as
    written."""

    answer: Answer
    unclear: tuple[Line, ...] = ()
    words: str = ""


class UnclearAnswers(SkillrunError):
    """A form has ambiguous answers, or no answers at all. `untouched`: the form has not been filled in."""

    def __init__(
        self, path: Path, readings: Sequence[QuestionReading], notes: str = "", *, untouched: bool = False
    ) -> None:
        self.path, self.readings, self.notes, self.untouched = path, readings, notes, untouched
        places = [
            (line, f"Q{number}: {why}") for number, reading in enumerate(readings, 1) for line, why in reading.unclear
        ]
        lines = [(1, "nothing is filled in yet")] if untouched else sorted(places)
        super().__init__(
            "\n".join(f"{path}:{line}: {text}" for line, text in lines),
            f"fill in {path}" if untouched else f"fix {path} at these lines",
        )

    def exclude(self, settled: Container[int]) -> UnclearAnswers:
        """Return the error without the questions at the indexes `settled`, which now have answers."""
        readings = [
            reading._replace(unclear=()) if at in settled else reading for at, reading in enumerate(self.readings)
        ]
        return UnclearAnswers(self.path, readings, self.notes, untouched=self.untouched)


class FormFolder(Protocol):
    """Anything that holds forms by file name, such as the folder of a run."""

    path: Path

    def read(self, name: str, limit: int) -> bytes: ...

    def write_new(self, name: str, content: str) -> bool:
        """Write a file atomically unless it exists. Return whether it was written."""
        ...


def write_form(folder: FormFolder, name: str, questions: Sequence[Question]) -> bool:
    """Write a form atomically, and return whether it was written. An existing form is not changed."""
    lines = [f"# {TITLE}", "", INTRODUCTION]
    for number, question in enumerate(questions, 1):
        quotation = [f"> {line}".rstrip() for line in _quotation(question)]
        boxes = [f"- [ ] {label}" for label in _labels(question)]
        boxes += ["- [ ] Other:"] if boxes and accepts_free_text(question) else []
        sure = [f"How sure ({', '.join(levels)}):", ""] if (levels := levels_of(question)) else []
        lines += [f"## {_title(number, question)}", "", *quotation, "", *boxes, *[""][: len(boxes)], *sure]
        lines += ["Answer:", "", ""]
    return folder.write_new(name, "\n".join(lines))


def read_form(
    folder: FormFolder,
    name: str,
    questions: Sequence[Question],
    phrases: Phrases = Phrases(),  # noqa: B008 (frozen)
) -> FormAnswers:
    """Return one record for each question. The record of an unanswered question is empty. Text next to a selected
    choice becomes the record's `comment`.

    Raises UnclearAnswers, which lists every ambiguous place, if the form is unclear. Also raises it if nothing is
    filled in and a question has no default. Raises SkillrunError if the file cannot be read.
    """
    problems = Problems()
    path = folder.path / name
    source = decode_source(folder.read(name, MAX_BYTES), path, str(path), problems)
    if source is None:
        raise SkillrunError("\n".join(map(render_problem, problems)), f"fix {path}")
    readings, notes = parse_form(source, questions, phrases)
    if explain_length(notes):
        raise SkillrunError(f"{path} has {len(notes):,} characters outside of the questions", f"shorten {path}")
    answers = [reading.answer for reading in readings]
    is_unclear = any(reading.unclear for reading in readings)
    untouched = not is_unclear and not any(answers) and not notes and None in map(default_of, questions)
    if is_unclear or untouched:
        raise UnclearAnswers(path, readings, notes, untouched=untouched)
    return FormAnswers(answers, notes)


def parse_form(source: Source, questions: Sequence[Question], phrases: Phrases) -> tuple[list[QuestionReading], str]:
    """Return how the form answers each question, and the text that belongs to no question."""
    sections, notes = _split_sections(source, questions)
    readings = []
    for number, question in enumerate(questions, 1):
        found = sections[number]
        if len(found) == 1:
            reader = _SectionReader(number, question, phrases)
            reading = reader.read(found[0])
            if too_long := explain_length(reading.words):
                reading = QuestionReading({}, ((found[0][0][0], f"{too_long}; shorten the answer"),))
            readings.append(reading)
            notes.append(reader.note)
        else:
            at, again = (found[1][0][0], "occurs a second time here") if found else (1, "is missing")
            why = f"the heading `## Q{number}` {again}; keep one heading, even if the question stays open"
            words = "\n".join(text for section in found for _, text in section[1:]).strip()
            readings.append(QuestionReading({}, ((at, why),), words))
    return [
        QuestionReading(sanitize(reading.answer), reading.unclear, sanitize(reading.words)) for reading in readings
    ], sanitize("\n\n".join(filter(None, notes)))


def _title(number: int, question: Question) -> str:
    return " · ".join(
        [f"Q{number}", *(to_one_line(question[key]) for key in ("priority", "section", "id") if question.get(key))]
    )


def _quotation(question: Question) -> list[str]:
    """Return the lines of a question as the form shows them, without the `>` marks."""
    lines = [*make_printable(str(question.get("text", ""))).strip().split("\n"), ""]
    notes = context_lines(question)
    return [*lines, *([*(f"- {note}" for note in notes), ""] if notes else []), f"*{_hint(question)}*"]


def _labels(question: Question) -> list[str]:
    return [f"{choice_letter(number)}. {to_one_line(choice)}" for number, choice in enumerate(choices_of(question))]


def _hint(question: Question) -> str:
    if not choices_of(question):
        hint = "Answer in your own words."
    else:
        many = "Choose as many as fit" if is_multiple(question) else "Choose one"
        hint = f"{many}, or answer in your own words." if accepts_free_text(question) else f"{many}."
    default = default_of(question)
    if default is None:
        return f"{hint} It may be left open." if may_skip(question) else hint
    items = default if isinstance(default, list) else [default] if default != "" else []
    return f"{hint} {'Without an answer: ' + ', '.join(map(to_one_line, items)) if items else 'It may be left open'}."


def _split_sections(
    source: Source, questions: Sequence[Question]
) -> tuple[defaultdict[int, list[list[Line]]], list[str]]:
    """Return the sections of each question by its number, and the notes outside the sections: the text above the first
    question, and the text below a heading that the user added.

    The first line of a section is its heading. A free-text answer may contain headings.
    """
    heads = {source.position(heading.start)[0]: heading.name for heading in find_headings(source.text, 0)[0]}
    sections: defaultdict[int, list[list[Line]]] = defaultdict(list)
    notes: list[list[str]] = [[]]
    section: list[Line] | None = None
    question: Question = {}
    for line, text in enumerate(source.text.split("\n"), 1):
        match = _HEADING.fullmatch(heads.get(line, ""))
        if match and 0 < int(match["number"]) <= len(questions):
            question, section = questions[int(match["number"]) - 1], [(line, heads[line])]
            sections[int(match["number"])].append(section)
            continue
        is_heading = _OWN_HEADING.fullmatch(text) and (line in heads or text.startswith("# "))
        if section is not None and is_heading and choices_of(question) and find_choice(question, text) is None:
            section = None
            notes.append([])
        if section is None:
            notes[-1].append(text)
        else:
            section.append((line, text))
    notes[0] = _foreign_lines(notes[0], f"{TITLE} {INTRODUCTION}")
    return sections, ["\n".join(lines).strip() for lines in notes]


def _foreign_lines(lines: Sequence[str], own_text: str) -> list[str]:
    """Return the lines with words that the form's own text lacks. Line breaks in `own_text` do not matter."""
    words = [(word, at) for at, text in enumerate(lines) for word in _words_of(text)]
    matcher = SequenceMatcher(None, _words_of(own_text), [word for word, _ in words], autojunk=False)
    own = {place for block in matcher.get_matching_blocks() for place in range(block.b, block.b + block.size)}
    foreign = {at for place, (_, at) in enumerate(words) if place not in own}
    return [text for at, text in enumerate(lines) if at in foreign]


class _SectionReader:
    def __init__(self, number: int, question: Question, phrases: Phrases) -> None:
        self.question, self.phrases = question, phrases
        self.title = _title(number, question)
        self.labels = dict(zip(_labels(question), choices_of(question), strict=True))
        self.names = ChoiceNames(question)
        self.unclear: list[Line] = []
        self.ticked: list[Any] = []
        self.boxes = 0  # how many boxes of choices the section has
        self.other: list[str] | None = None  # the text of the box `Other`, if it is ticked
        self.words: list[str] = []
        self.comments: list[str] = []
        self.level = ""
        self.answer_line = 0
        self.later_answers: list[tuple[int, int]] = []  # line of each further `Answer:`, and its place in `words`
        self.note = ""  # if the answer leaves the question open, the text from the user's next heading on

    def read(self, section: Sequence[Line]) -> QuestionReading:
        head_line, head = section[0]
        self._read_heading(head_line, head)
        quoted: list[Line] = []
        is_code = False
        for line, text in self._without_comments(section[1:]):
            mark = _ANSWER.fullmatch(text)
            is_code ^= bool(self.answer_line) and text.lstrip().startswith(("```", "~~~"))
            if mark and (not self.answer_line or (re.search("[:：]", text) and not is_code)):
                if self.answer_line:
                    self.later_answers.append((line, len(self.words)))
                self.answer_line = self.answer_line or line
                self.words.append(mark["rest"])
            elif not self.answer_line and levels_of(self.question) and (sure := _CONFIDENCE.fullmatch(text)):
                self._read_confidence(line, sure["level"].strip())
            elif not self.answer_line and text.lstrip().startswith(">"):
                quoted.append((line, text))
            elif not self._read_box(line, text):
                is_late = self.answer_line and line > self.answer_line + 1 and not any(self.words)
                if is_late and _OWN_HEADING.fullmatch(text):
                    why = (
                        f"`{to_one_line(text)}` may start the answer or a separate note; "
                        "write the answer on the line of `Answer:`, or write `-` there to leave the question open"
                    )
                    self.unclear.append((line, why))
                (self.words if self.other is None or self.answer_line else self.other).append(text.rstrip())
        other = None if self.other is None else cleandoc("\n".join(self.other))
        written = "\n".join([*self.words, other or "", *self.comments]).strip()
        strange = self._foreign_quotation(quoted)
        if strange and _words_of(self.title) != _words_of(head):
            why = f"the question has changed to `{self.title}`; move this file away to get the new form"
            words = "\n".join(filter(None, [head, *(text for _, text in strange), written]))
            return QuestionReading({}, ((head_line, why),), words)
        self.unclear += [
            (line, f"`{to_one_line(text)}` is not part of the form; write below `Answer:`") for line, text in strange
        ]
        at = self.answer_line or head_line
        if second_answer := self._find_second_answer():
            why = "there are two answers: `Answer:` occurs a second time here; keep one"
            return QuestionReading({}, (*self.unclear, (second_answer, why)), written)
        words = self._split_note("\n".join(self.words).strip())
        answer, reasons = interpret_answer(self.question, self.ticked, other, words, self.phrases)
        self.unclear += [(at, why) for why in reasons]
        if comment := "\n".join(filter(None, [answer.get("comment", ""), *self.comments])):
            answer["comment"] = comment
        if self.level and answer.get("answer"):
            answer["confidence"] = self.level
        if not answer.get("answer") and not reasons and 0 < self.boxes < len(self.labels):
            self.unclear.append((at, "some choices were removed, and no remaining choice is ticked"))
        if "answer" not in answer and default_of(self.question) is not None:
            answer = {**default_answer(self.question), **answer}
        return QuestionReading(answer, tuple(self.unclear), written)

    def _read_heading(self, line: int, head: str) -> None:
        text = head.removeprefix(self.title)
        if head.startswith(self.title) and not text[:1].isalnum():
            self.words.append(text.strip(" :-–—"))
        elif not set(_words_of(head)) <= set(_words_of(self.title)):
            why = f"`## {to_one_line(head)}` is not the heading of the form; write below `Answer:`"
            self.unclear.append((line, why))

    def _without_comments(self, lines: Sequence[Line]) -> list[Line]:
        """Return the lines without comments (`<!-- … -->`) that start a line or follow `Answer:`.

        Store these comments in `comments`.
        """
        remaining = []
        last_end = max((at for at, (_, text) in enumerate(lines) if "-->" in text), default=-1)
        open_comment: list[str] | None = None
        for at, (line, text) in enumerate(lines):
            mark = _ANSWER.fullmatch(text) if open_comment is None else None
            label, rest = (text[: mark.start("rest")], mark["rest"]) if mark else ("", text)
            if open_comment is None and at <= last_end and rest.lstrip().startswith("<!--"):
                open_comment = []
                remaining += [(line, label)] if label else []
            if open_comment is None:
                remaining.append((line, text))
                continue
            inside, end, after = rest.partition("-->")
            open_comment.append(inside)
            if end:
                self.comments.append("\n".join(open_comment).strip().removeprefix("<!--").strip())
                open_comment = None
                remaining += [(line, after)] if after.strip() else []
        return remaining

    def _find_second_answer(self) -> int:
        """Return the line of the second `Answer:` with text; 0 if there is at most one answer."""
        starts = [(self.answer_line, 0), *self.later_answers, (0, len(self.words))]
        filled = [line for (line, start), (_, end) in pairwise(starts) if any(map(str.strip, self.words[start:end]))]
        return filled[1] if len(filled) > 1 else 0

    def _read_confidence(self, line: int, text: str) -> None:
        """Read the user's confidence level, which may be abbreviated."""
        if text and self.level:
            self.unclear.append((line, f"`{to_one_line(text)}` is a second level; keep one"))
        matches = find_levels(self.question, text.strip(" .*_`"))
        self.level = matches[0] if len(matches) == 1 else ""
        if text and not self.level:
            self.unclear.append((line, f"`{to_one_line(text)}` is not one of {', '.join(levels_of(self.question))}"))

    def _read_box(self, line: int, text: str) -> bool:
        """Read a line, and return whether it is a box. Below `Answer:`, a box must contain a choice."""
        box = _BOX.fullmatch(text.strip()) if self.labels else None
        if box is None or (self.answer_line and find_choice(self.question, text) is not None):
            return False
        mark = (box["mark"] or box["sign"] or "").strip().replace("☐", "")
        label, comment = self._split_label(box["label"], is_ticked=bool(mark))
        choices = [self.labels[label]] if label in self.labels else self.names.match(label)
        other = OTHER_ANSWER.fullmatch(label) if accepts_free_text(self.question) and not choices else None
        if len(choices) != 1 and not other:
            if box["sign"] or self.answer_line:
                return False
            self.unclear.append((line, f"`{to_one_line(text)}` is not one of the original choices"))
            return True
        self.boxes += len(choices)
        if mark and not set(mark) <= TICKS:
            self.unclear.append((line, f"the box `[{mark}]` is neither ticked nor empty"))
        elif other:
            if self.other and (mark or other["words"]):
                self.unclear.append((line, "`Other` has text a second time here; keep one"))
            elif mark or other["words"]:
                self.other = [other["words"] or ""]
        elif mark:
            self.ticked += choices
            self.comments += [comment] if comment else []
        elif label not in self.labels and _EMPHASIS.search(text):
            self.unclear.append((line, f"`{to_one_line(text)}` is emphasized, but not ticked"))
        return True

    def _split_label(self, label: str, *, is_ticked: bool) -> tuple[str, str]:
        """Split the text of a box into the choice's label and the user's text after it, if the box is ticked."""
        label = " ".join(label.split())
        for own in sorted(self.labels, key=len, reverse=True) if is_ticked else ():
            comment = label[len(own) :]
            if label.startswith(own) and (comment[:1] or " ") in " ,;:.(<-–—":
                whole = _COMMENT.fullmatch(comment.strip())
                return own, whole["words"] if whole else comment.strip(" -–—:;,.<*_")
        return label, ""

    def _foreign_quotation(self, quoted: list[Line]) -> list[Line]:
        own = _quotation(self.question)
        if _words_of("\n".join(text for _, text in quoted)) == _words_of("\n".join(own)):
            return []
        own_lines = [_words_of(text) for text in own]
        return [line for line in quoted if _words_of(line[1]) not in own_lines]

    def _split_note(self, words: str) -> str:
        """Return `words` without the note after an answer that leaves the question open, such as `-`. Store the note in
        `note`."""
        heading = None if choices_of(self.question) else _OWN_HEADING.search(words)
        if heading is None or not self.phrases.leaves_open(self.question, words[: heading.start()]):
            return words
        self.note = words[heading.start() :]
        return words[: heading.start()].strip()


def _words_of(text: str) -> list[str]:
    """Return the words of a text in lower case, without punctuation and line breaks."""
    return re.findall(r"[^\W_]+", text.casefold())
