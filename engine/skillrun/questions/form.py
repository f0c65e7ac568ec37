"""Writes questions as a markdown form that the user fills in with any editor, and reads the answers.

A question starts with a heading such as `## Q1`. Its text is in a quotation, its choices are boxes, and the user's text
goes below `Answer:`. Unclear answers are reported, never guessed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
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
    find_choice,
    is_multiple,
    levels_of,
    may_skip,
    to_one_line,
)
from skillrun.questions.choice_matching import (
    OTHER_ANSWER,
    choice_letter,
    interpret_answer,
    match_choices,
    normalize_text,
)
from skillrun.questions.phrases import Phrases
from skillrun.syntax.diagnostics import Problems, SkillrunError, make_printable, render_problem
from skillrun.syntax.document import find_headings
from skillrun.syntax.reading import decode_source
from skillrun.syntax.sanitizing import sanitize
from skillrun.syntax.source import MAX_BYTES, Source

INTRODUCTION: Final = """\
To answer, put an `x` between the brackets of a choice, or write its letter, or your own words, behind the word Answer.
What you leave open counts as not answered. Leave the headings in place, save the file when you are done, then resume
the run.
"""
TICKS: Final = frozenset("xX✓✔☑☒✅")

_HEADING: Final = re.compile(r"Q(?P<number>\d+)\b(?P<rest>.*)")
_BOX: Final = re.compile(
    r"\s*(?P<around>~~|\*\*|__)?(?:[-*+•–]|\d+[.)])?\s*(?:\[(?P<mark>[^\]]*)\]|(?P<sign>[☐☑☒✅✓✔]))\s*(?P<text>.*)"
)
_EMPHASIS: Final = re.compile(r"(?P<mark>~~|\*\*|__)(?P<text>.+)(?P=mark)\s*")
_EMPTY_SIGN: Final = "☐"
_OWN_HEADING: Final = re.compile(r"##?\s+\S.*")
_MIN_MATCHING_WORDS: Final = (
    4  # this many words identify a part of the introduction, even if a formatter has rewrapped the lines
)
_ANSWER: Final = re.compile(
    r"\s*(?:[-*+]\s+|#+\s+)?(?P<bold>[*_]*)answer(?:\s*[:：](?P=bold)|(?P=bold)\s*(?:[:：]|$))\s*(?P<rest>.*)",
    re.IGNORECASE,
)

_CONFIDENCE: Final = re.compile(r"\s*(?:[-*+]\s+)?[*_]*how sure\b[^:：]*[:：][*_]*\s*(?P<level>.*?)\s*", re.IGNORECASE)

Line = tuple[int, str]
"""A line's number in the file, and its text or the problem in it."""


class FormAnswers(NamedTuple):
    """The content of a form: a record for each question, and the notes that are outside the questions."""

    answers: list[Answer]
    notes: str = ""


class UnclearAnswers(SkillrunError):
    """A form has ambiguous answers, or no answers at all.

    For each question, the error has the answer as read, the reasons why it is unclear (empty if it is clear), and the
    user's text. `untouched`: the form has not been filled in.
    """

    def __init__(
        self,
        path: Path,
        unclear: Sequence[Line],
        answers: FormAnswers = FormAnswers([]),  # noqa: B008 (a tuple)
        reasons: Sequence[tuple[str, ...]] = (),
        words: Sequence[str] = (),
        *,
        untouched: bool = False,
    ) -> None:
        self.path, self.unclear = path, tuple(sorted(unclear))
        lines = [f"{path}:{number}: {text}" for number, text in self.unclear]
        super().__init__("\n".join(lines), f"fill in {path}" if untouched else f"fix {path} at these lines")
        self.answers, self.notes = answers
        self.reasons = reasons
        self.words = words
        self.untouched = untouched

    def exclude(self, settled: Iterable[int]) -> UnclearAnswers:
        """Return the error without the questions at the indexes `settled`, which have been answered in the meantime."""
        excluded = set(settled)
        names = tuple(f"Q{at + 1}: " for at in excluded)
        lines = [line for line in self.unclear if not line[1].startswith(names)]
        remaining_reasons = [() if at in excluded else reasons for at, reasons in enumerate(self.reasons)]
        form_answers = FormAnswers(self.answers, self.notes)
        return UnclearAnswers(self.path, lines, form_answers, remaining_reasons, self.words, untouched=self.untouched)


class FormFolder(Protocol):
    """A folder that holds forms: the files of a run, or anything else that holds files by name."""

    path: Path

    def read(self, name: str, limit: int) -> bytes: ...

    def write_new(self, name: str, content: str) -> bool:
        """Write a file atomically unless it exists. Return whether it was written."""
        ...


def write_form(folder: FormFolder, name: str, questions: Sequence[Question], title: str = "Questions") -> bool:
    """Write a form atomically, and return whether it was written. An existing form is not changed."""
    lines = [f"# {to_one_line(title)}", "", INTRODUCTION]
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
    title: str = "Questions",
) -> FormAnswers:
    """Return a record for each question, which is empty if the question is unanswered. Text next to a selected choice
    becomes the record's `comment`.

    Raises UnclearAnswers, with every ambiguous place, if the form is unclear, or if nothing is filled in although a
    question has no default. Raises SkillrunError if the file cannot be read.
    """
    problems = Problems()
    path = folder.path / name
    source = decode_source(folder.read(name, MAX_BYTES), path, str(path), problems)
    if source is None:
        raise SkillrunError("\n".join(map(render_problem, problems)), f"fix {path}")
    unclear: list[Line] = []
    parts = _FormSections(source, questions, phrases, title)
    read: list[_QuestionReader] = []
    for number, question in enumerate(questions, 1):
        reading = _QuestionReader(number, question, phrases)
        reading.read_sections(parts.sections.get(number, []))
        read.append(reading)
        unclear += [(line, f"Q{number}: {reasons}") for line, reasons in reading.unclear]
    filled = FormAnswers(sanitize([reading.answer for reading in read]), sanitize("\n\n".join(parts.notes)))
    untouched = not unclear and not any(filled.answers) and not filled.notes and None in map(default_of, questions)
    if untouched:
        unclear = [(1, "nothing is filled in yet")]
    if unclear:
        reasons = [tuple(reason for _, reason in reading.unclear) for reading in read]
        words = sanitize([reading.words for reading in read])
        raise UnclearAnswers(path, unclear, filled, reasons, words, untouched=untouched)
    return filled


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
    """Return the labels of the boxes, one for each choice."""
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


class _FormSections:
    """A form, split into the sections of each question and the notes outside the sections. Sections are keyed by
    question number.

    The first line of a section is its heading.
    """

    def __init__(self, source: Source, questions: Sequence[Question], phrases: Phrases, title: str) -> None:
        self.questions, self.phrases = questions, phrases
        self.sections: dict[int, list[list[Line]]] = {}
        self.notes: list[str] = []
        lines = list(enumerate(source.text.split("\n"), 1))
        heads = {source.position(heading.start)[0]: heading.name for heading in find_headings(source.text, 0)[0]}
        first = min((line for line, name in heads.items() if self._question_number(name)), default=len(lines) + 1)
        self._add_note(_foreign_lines([text for line, text in lines if line < first], f"{title} {INTRODUCTION}"))
        section: list[Line] = []
        open_note: list[str] | None = None
        in_free_text = False  # the following lines are free text, even if they look like headings
        for line, text in lines[first - 1 :]:
            number = self._question_number(heads[line]) if line in heads else 0
            if number:
                self._add_note(open_note or [])
                open_note, section, in_free_text = None, [(line, heads[line])], False
                self.sections.setdefault(number, []).append(section)
            elif open_note is not None:
                open_note.append(text)
            elif not in_free_text and (line in heads or text.startswith("# ")) and self._ends_section(section, text):
                open_note = [text]
            else:
                in_free_text = in_free_text or (line in heads and not choices_of(self._question(section)))
                section.append((line, text))
        self._add_note(open_note or [])

    def _question_number(self, name: str) -> int:
        """Return the question number in a heading, or 0 if this is not the heading of a question."""
        match = _HEADING.fullmatch(name)
        return int(match["number"]) if match and 0 < int(match["number"]) <= len(self.questions) else 0

    def _question(self, section: Sequence[Line]) -> Question:
        return self.questions[self._question_number(section[0][1]) - 1]

    def _ends_section(self, section: Sequence[Line], heading: str) -> bool:
        """Whether a heading that the user wrote ends the section. A free-text answer may contain headings."""
        question = self._question(section)
        if choices_of(question):
            return _OWN_HEADING.fullmatch(heading) is not None and find_choice(question, heading) is None
        below = [line for _, line in section]
        start = next((at for at, line in enumerate(below) if _ANSWER.fullmatch(line)), None)
        answer = _ANSWER.fullmatch(below[start]) if start is not None else None
        return (
            start is not None
            and answer is not None
            and heading.startswith("##")
            and self.phrases.leaves_open("\n".join([answer["rest"], *below[start + 1 :]]))
        )

    def _add_note(self, lines: Sequence[str]) -> None:
        if text := "\n".join(lines).strip():
            self.notes.append(text)


def _foreign_lines(lines: Sequence[str], form_text: str) -> list[str]:
    """Return the lines that are not part of the form's own text, however that text is wrapped."""
    remaining = _normalize_words(form_text).split()
    strange = []
    for text in lines:
        words = _normalize_words(text).split()
        if words == remaining[: len(words)]:
            at: int | None = 0
        else:
            at = next(
                (
                    n
                    for n in range(len(remaining))
                    if len(words) >= _MIN_MATCHING_WORDS and remaining[n : n + len(words)] == words
                ),
                None,
            )
        if at is None:
            strange.append(text)
        else:
            remaining = remaining[at + len(words) :]
    return strange


class _QuestionReader:
    """Reads the answer to one question of a form, its unclear places, and the user's text as written."""

    def __init__(self, number: int, question: Question, phrases: Phrases) -> None:
        self.question, self.phrases = question, phrases
        self.number, self.title = number, _title(number, question)
        self.unclear: list[Line] = []
        self.answer: Answer = {}
        self.level = ""
        self.words = ""

    def read_sections(self, sections: list[list[Line]]) -> None:
        """Read the answer from the section of the question. If the section is missing or occurs twice, report an
        error."""
        if len(sections) != 1:
            at, again = (sections[1][0][0], "occurs a second time here") if sections else (1, "is missing")
            why = f"the heading `## Q{self.number}` {again}; keep one even if the question stays open"
            self.unclear.append((at, why))
            self.words = "\n".join(text for section in sections for _, text in section[1:]).strip()
            return
        (at, head), *lines = sections[0]
        boxes = _Checkboxes(self.question, self.unclear)
        lines, remarks = _extract_comments(lines, boxes)
        words = [self._text_after_heading(head, at)]
        quoted: list[Line] = []
        answer_line = 0
        for line, text in lines:
            if not answer_line and (match := _ANSWER.fullmatch(text)):
                at, answer_line = line, line
                words.append(match["rest"])
            elif not answer_line and levels_of(self.question) and (sure := _CONFIDENCE.fullmatch(text)):
                self._read_confidence(line, sure["level"])
            elif not boxes.read_line(line, text, is_below_answer=bool(answer_line)) and not boxes.continue_other(text):
                if answer_line or not text.lstrip().startswith(">"):
                    if answer_line and line > answer_line + 1 and _OWN_HEADING.fullmatch(text) and not any(words):
                        self._report_ambiguity(line, text)
                    words.append(text.rstrip())
                else:
                    quoted.append((line, text))
        self.words = "\n".join([*words, *boxes.words, *remarks]).strip()
        if not self._check_question(sections[0][0], quoted):
            return
        unclear_count = len(self.unclear)
        ticked = boxes.selected_choices(no_words=not any(words))
        answer = interpret_answer(
            self.question,
            ticked,
            boxes.other,
            "\n".join(words),
            lambda why: self.unclear.append((at, why)),
            self.phrases,
        )
        self.answer = _add_remarks(answer, [*boxes.words, *remarks])
        if self.level and self.answer.get("answer"):
            self.answer["confidence"] = self.level
        if not self.answer.get("answer") and len(self.unclear) == unclear_count:
            self.unclear += [(at, why) for why in boxes.explain_doubts()]
        if "answer" not in self.answer and default_of(self.question) is not None:
            self.answer = {**default_answer(self.question), **self.answer}

    def _text_after_heading(self, head: str, at: int) -> str:
        """Return the text that the user wrote on the line of the heading."""
        text = head.removeprefix(self.title)
        if head.startswith(self.title) and not text[:1].isalnum():
            return text.strip(" :-–—")
        own = iter(_normalize_words(self.title).split())
        if not all(word in own for word in _normalize_words(head).split()):
            self.unclear.append((at, f"`## {to_one_line(head)}` is not the heading of the form; write below `Answer:`"))
        return ""

    def _read_confidence(self, line: int, text: str) -> None:
        """Read the confidence level that the user wrote."""
        levels = levels_of(self.question)
        matches = [level for level in levels if text and level.casefold().startswith(text.strip(" .*_`").casefold())]
        self.level = matches[0] if len(matches) == 1 else ""
        if text and not self.level:
            self.unclear.append((line, f"`{to_one_line(text)}` is not one of {', '.join(levels)}"))

    def _report_ambiguity(self, line: int, text: str) -> None:
        either = "may start the answer or a separate note"
        why = f"`{to_one_line(text)}` {either}; write the answer on the line of `Answer:`, or write `-` there"
        self.unclear.append((line, why))

    def _check_question(self, head: Line, quoted: list[Line]) -> bool:
        """Whether the section still contains this question. Text that was added to the quotation is reported."""
        quotation = _quotation(self.question)
        if _normalize_words("\n".join(text for _, text in quoted)) == _normalize_words("\n".join(quotation)):
            return True
        quotation_lines = {_normalize_words(text) for text in quotation}
        strange = [line for line in quoted if _normalize_words(line[1]) not in quotation_lines]
        if _normalize_words(self.title) != _normalize_words(head[1]):
            why = f"the question has changed to `{self.title}`; move this file away to get the new form"
            self.unclear[:] = [(head[0], why)]
            self.words = "\n".join(filter(None, [head[1], *(text for _, text in strange), self.words]))
            return False
        self.unclear += [
            (line, f"`{to_one_line(text)}` is not part of the form; write below `Answer:`") for line, text in strange
        ]
        return True


def _extract_comments(lines: list[Line], boxes: _Checkboxes) -> tuple[list[Line], list[str]]:
    """Return the lines without the user's comments (`<!-- … -->`), and the text of each comment."""
    remaining, remarks = list(lines), []
    place = 0
    last_end = max((at for at, (_, text) in enumerate(remaining) if "-->" in text), default=-1)
    removed_lines = 0  # how many lines were removed so far
    while place <= last_end - removed_lines:
        line, text = remaining[place]
        start = -1 if text.lstrip().startswith(">") or boxes.is_form_box(text) else text.find("<!--")
        last, rest = place, text[start + 4 :]
        while start >= 0 and "-->" not in rest and last + 1 < len(remaining):
            last += 1
            rest = remaining[last][1]
        if start < 0 or "-->" not in rest:
            place += 1
            continue
        end = rest.index("-->")
        inside = [text[start + 4 :], *(words for _, words in remaining[place + 1 : last]), rest[:end]]
        remarks.append("\n".join([rest[:end]] if last == place else inside).strip())
        replacement = [(line, text[:start] + rest[end + 3 :])]
        if last > place:
            replacement = [(line, text[:start]), (remaining[last][0], rest[end + 3 :])]
        remaining[place : last + 1] = replacement
        removed_lines += last + 1 - place - len(replacement)
    return remaining, [remark for remark in remarks if remark]


def _add_remarks(answer: Answer, remarks: Sequence[str]) -> Answer:
    """Add remarks to the comment of a record."""
    comment = "\n".join(filter(None, [answer.get("comment", ""), *remarks]))
    return {**answer, "comment": comment} if comment else answer


class _Checkboxes:
    """The boxes of a question after the user edited them."""

    def __init__(self, question: Question, unclear: list[Line]) -> None:
        self.question, self.unclear = question, unclear
        self.labels = dict(zip(map(normalize_text, _labels(question)), choices_of(question), strict=True))
        self.ticked: list[Any] = []
        self.struck: list[Any] = []
        self.withdrawn: list[Any] = []  # choices that are both ticked and struck out
        self.bold: list[Any] = []
        self.other: str | None = None
        self.in_other = False  # the last box was `Other:`
        self.words: list[str] = []  # the user's text after a choice, on the same line
        self.seen = 0

    def is_form_box(self, text: str) -> bool:
        """Whether the line is a box that the form had originally."""
        box = _BOX.fullmatch(text) if self.labels else None
        return box is not None and normalize_text(box["text"]) in self.labels

    def read_line(self, line: int, text: str, *, is_below_answer: bool) -> bool:
        """Read a line, and return whether it is a box. Below `Answer:`, only a box with a choice counts as one."""
        box = _BOX.fullmatch(text) if self.labels else None
        if box is not None:
            self.in_other = False
        if box is None or (is_below_answer and find_choice(self.question, text) is not None):
            return False
        mark, emphasis, label = self._parse_marks(box)
        label, remark = self._split_label(label) if mark else (label, "")
        choices = (
            [self.labels[normalize_text(label)]]
            if normalize_text(label) in self.labels
            else match_choices(self.question, label)
        )
        other = OTHER_ANSWER.fullmatch(label) if accepts_free_text(self.question) and not choices else None
        if len(choices) != 1 and not other:
            if box["sign"] or is_below_answer:
                return False
            self.unclear.append((line, f"`{to_one_line(text)}` is not one of the original choices"))
            return True
        self.seen += len(choices)
        if mark and not set(mark) <= TICKS:
            self.unclear.append((line, f"`[{mark}]` is neither ticked nor empty"))
        elif other and (mark or other["words"]):
            self.other, self.in_other = other["words"] or "", True
        elif emphasis == "~~":
            (self.withdrawn if mark else self.struck).extend(choices)
        elif mark:
            self.ticked += choices
            self.words += [remark] if remark else []
        elif emphasis:
            self.bold += choices
        return True

    def continue_other(self, text: str) -> bool:
        """Whether the line is indented and continues the text of the `Other:` box above it. If so, add it to that
        text."""
        if not self.in_other or not text.strip():
            return False
        self.in_other = text.startswith(("  ", "\t")) and not text.lstrip().startswith(">")
        if self.in_other:
            self.other = f"{self.other}\n{text.strip()}".strip()
        return self.in_other

    def _parse_marks(self, box: re.Match[str]) -> tuple[str, str, str]:
        """Return the mark in a box, the emphasis around the label (`~~` or `**`), and the label without it."""
        mark = (box["mark"] or box["sign"] or "").strip().replace(_EMPTY_SIGN, "")
        label, emphasis = box["text"], box["around"] or ""
        if emphasis:
            return mark, emphasis, label.rstrip().removesuffix(emphasis)
        match = _EMPHASIS.fullmatch(label)
        if match and label not in map(str, _labels(self.question)):
            return mark, match["mark"], match["text"]
        return mark, "", label

    def _split_label(self, label: str) -> tuple[str, str]:
        """Split the text of a box into the label of the choice and the user's text after the label."""
        plain = normalize_text(label)
        if plain in self.labels:
            return label, ""
        for own in sorted(self.labels, key=len, reverse=True):
            if plain.startswith(own) and not plain[len(own)].isalnum():
                for end in range(len(own), min(len(label), 2 * len(own) + 40)):
                    if normalize_text(label[:end]) == own and not label[end].isalnum():
                        return label[:end], label[end:].strip(" -–—:;,.<*_")
        return label, ""

    def selected_choices(self, *, no_words: bool) -> list[Any]:
        """Return the ticked choices. If nothing is ticked or written (`no_words`), return the choices in bold."""
        if self.ticked or not no_words or self.other is not None or len(self.bold) == len(self.labels):
            return self.ticked
        return self.bold

    def explain_doubts(self) -> Iterator[str]:
        """Yield why it is unclear whether the user meant to choose nothing."""
        if self.withdrawn:
            yield f"`{to_one_line(self.withdrawn[0])}` is ticked and struck out, and nothing else is chosen"
        elif self.struck:
            yield "some choices are struck out, and none is ticked"
        elif 0 < self.seen < len(choices_of(self.question)):
            yield "some choices were removed, and none is ticked"


def _normalize_words(text: str) -> str:
    """Return the words of a text in lower case, without punctuation and line breaks."""
    return " ".join(re.findall(r"[^\W_]+", text.casefold()))
