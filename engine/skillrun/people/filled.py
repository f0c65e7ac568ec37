"""What a person has put into a form, whatever liberties they took; what could mean two things is unclear.

Owns how a filled form is read. A line is the form's own when it says what was written there; all else is the person's.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

from skillrun.people.answers import Question, answered, choices_of, folded, is_multiple, is_open, shown

TICKS: Final = frozenset("xX✓✔☑✅vVyY*")
MANY: Final = 4  # words in a row that can only be the form's own, even where their quotation mark is lost

_HEADING: Final = re.compile(r" {0,3}#{1,6}\s*\**Q\s*(?P<number>\d+)(?!\w).*", re.IGNORECASE)
_FENCE: Final = re.compile(r" {0,3}(?P<fence>`{3,}|~{3,})(?P<info>.*)")
_BOX: Final = re.compile(r"\s*(?:[-*+]|\d+[.)])?\s*\\?\[(?P<mark>[^\[\]]{0,3}?)\\?\](?!\()\s*(?P<text>.*)")
_LETTERED: Final = re.compile(r"[(*_]*(?P<letter>[A-Za-z]{1,2})[*_]*(?:\s*[.):]|\s+[-–—])[*_]*(?:\s+|$)(?P<rest>.*)")
_OTHER: Final = re.compile(r"other(?![\w-])[\s.:…]*(?P<rest>.*)", re.IGNORECASE)
_ANSWER: Final = re.compile(
    r"[\s#-]*(?P<mark>[*_]{0,3})answer(?:\s*:\s*(?P=mark)|(?P=mark)\s*(?::|$))\s*(?P<rest>.*)", re.IGNORECASE
)
_EMPTY: Final = re.compile(r"\s*(?:[-=*_]\s*){3,}|\s*")
_BETWEEN: Final = re.compile(r"(?:[\s,;/&+]|\band\b)+", re.IGNORECASE)


@dataclass(frozen=True)
class Unclear:
    """Something that could mean two things: the line, whose answer it is and what is wrong."""

    line: int
    name: str
    why: str


@dataclass(frozen=True)
class Section:
    """A question as it is written in a form."""

    number: int
    question: Question
    heading: str
    quotation: tuple[str, ...]

    @property
    def name(self) -> str:
        return f"Q{self.number}"

    @cached_property
    def labels(self) -> dict[str, str]:
        """The letter of each choice with its text."""
        return {_letter(number): shown(choice) for number, choice in enumerate(choices_of(self.question))}

    @cached_property
    def words(self) -> str:
        return f" {' '.join(filter(None, map(_plain, self.quotation)))} "

    @property
    def letters(self) -> str:
        found = list(self.labels)
        return f"{found[0]} to {found[-1]}" if len(found) > 1 else found[0]

    def labelled(self, text: str) -> str:
        """The letter of the choice with this text, or nothing; one that is the same to the letter goes first."""
        for like in (str.strip, folded, _plain):
            for letter, label in self.labels.items():
                if like(label) == like(text) != "":
                    return letter
        return ""

    def lettered(self, text: str) -> tuple[str, str]:
        """The letter that a text begins with, and what follows it; nothing where no option has such a letter."""
        if text.strip().upper() in self.labels:
            return text.strip().upper(), ""
        found = _LETTERED.fullmatch(text.strip())
        letter = found["letter"].upper() if found else ""
        return (letter, found["rest"].strip()) if found and letter in self.labels else ("", text)


@dataclass(frozen=True)
class Line:
    """A line of the form; `code`: it stands in a fenced block, where nothing is markup."""

    number: int
    text: str
    code: bool = False


@dataclass
class Found:
    """What is the person's in a section."""

    ticked: dict[str, int] = field(default_factory=dict)  # letter to line
    remarks: list[str] = field(default_factory=list)  # beside a tick
    other: int = 0  # the line of the ticked box for words of their own
    own: list[str] = field(default_factory=list)  # beside that box, ticked or not
    text: list[Line] = field(default_factory=list)
    unclear: list[Unclear] = field(default_factory=list)


def sections(lines: Sequence[str], blank: Sequence[Section]) -> tuple[dict[int, list[Line]], list[Unclear]]:
    """The lines below each question's heading, by its number, and what stands where it cannot be understood."""
    headings = {_plain(section.heading): section.number for section in blank}
    found: dict[int, list[Line]] = {}
    unclear: list[Unclear] = []
    current: list[Line] | None = None
    fence = ""
    for at, line in enumerate(lines, 1):
        number = 0 if line.lstrip().startswith(">") else headings.get(_plain(line), 0)
        if not number and not fence and (loose := _HEADING.fullmatch(line)):
            number = int(loose["number"]) if 1 <= int(loose["number"]) <= len(blank) else 0
        if number:
            if number in found:
                unclear.append(Unclear(at, f"Q{number}", "the question stands here a second time"))
            current, fence = found.setdefault(number, []), ""
            continue
        mark = _FENCE.fullmatch(line)
        code = bool(fence or mark)
        if mark and not fence:
            fence = mark["fence"]
        elif mark and mark["fence"].startswith(fence) and not mark["info"].strip():
            fence = ""
        if current is not None:
            current.append(Line(at, line, code))
        elif ((box := _BOX.match(line)) and _ticked(box["mark"])) or ((words := _ANSWER.match(line)) and words["rest"]):
            unclear.append(Unclear(at, "an answer", "it stands under no question: a heading is missing above"))
    return found, unclear + _headless(found, blank)


def _headless(found: dict[int, list[Line]], blank: Sequence[Section]) -> list[Unclear]:
    """Where a question stands in the section of another one, because its heading is gone."""
    lost = {_plain(section.quotation[0]): section for section in blank if section.number not in found}
    own = {section.number: set(map(_plain, section.quotation)) | {""} for section in blank}
    return [
        Unclear(line.number, section.name, f"its heading is missing: put `## {section.name}` above")
        for number, lines in found.items()
        for line in lines
        if line.text.startswith(">")
        and (plain := _plain(line.text)) not in own[number]
        and (section := lost.get(plain))
    ]


def read_section(section: Section, lines: Iterable[Line]) -> dict[str, Any] | list[Unclear]:
    """The record of the answer, empty where there is none; or what is unclear about it."""
    found = _gathered(section, lines)
    question, several = section.question, is_multiple(section.question)
    text = "\n".join(line.text.rstrip() for line in found.text).strip()
    if not section.labels:
        return answered([text] if text and several else text)
    named, rest = _named(section, text)
    at = max([found.other, *found.ticked.values(), *(line.number for line in found.text[:1])])
    letters = [letter for letter in section.labels if letter in found.ticked or letter in named]
    own = "\n".join([*found.own, rest]).strip() if found.other or found.own or not letters else ""
    unclear = list(found.unclear)
    if wrong := [letter for letter in named if letter not in section.labels]:
        unclear.append(Unclear(at, section.name, f"there is no option {wrong[0]}, only {section.letters}"))
    elif not several and len(letters) + bool(own or found.other) > 1:
        both = " and ".join([*letters, *(["Other"] if own or found.other else [])])
        unclear.append(Unclear(at, section.name, f"{both} are chosen, and the question takes one answer"))
    elif own and not is_open(question):
        unclear.append(Unclear(at, section.name, f"`{shown(own)}` is none of the options {section.letters}"))
    elif found.other and not own:
        unclear.append(Unclear(at, section.name, "`Other` is ticked, and nothing is written there"))
    if unclear:
        return unclear
    choices = dict(zip(section.labels, choices_of(question), strict=True))
    answers = [*(choices[letter] for letter in letters), *([own] if own else [])]
    comment = "\n".join([*found.remarks, *([rest] if rest and not own else [])])
    return answered(answers if several else answers[0] if answers else "", comment=comment)


def _gathered(section: Section, lines: Iterable[Line]) -> Found:
    """What is the person's: ticks, and words that the form does not have."""
    found = Found()
    after = False  # the place for the answer is passed
    for line in _unwrapped(lines) if section.labels else lines:
        plain = _plain(line.text)
        quoted = line.text.lstrip().startswith(">")
        own = (not plain and quoted) or (f" {plain} " in section.words and (quoted or plain.count(" ") >= MANY - 1))
        answer = _ANSWER.fullmatch(line.text)
        box = _BOX.fullmatch(line.text) if section.labels else None
        if answer and not line.code and not (after and found.text):
            after = True
            found.text += [Line(line.number, answer["rest"])] if answer["rest"] else []
        elif line.code or (found.text and not own and not box):
            found.text.append(line)
        elif (own and not after) or _EMPTY.fullmatch(line.text):
            continue
        elif box is None or not _take_box(section, found, line.number, box, after=after):
            found.text.append(line)
    while found.text and _EMPTY.fullmatch(found.text[-1].text):
        found.text.pop()
    return found


def _unwrapped(lines: Iterable[Line]) -> list[Line]:
    """The lines, with what an editor has broken off the text beside a box put back."""
    found: list[Line] = []
    for line in lines:
        last = found[-1] if found else None
        if last and not last.code and not line.code and re.match(r"\s+\w", line.text) and _BOX.match(last.text):
            found[-1] = Line(last.number, f"{last.text} {line.text.strip()}")
        else:
            found.append(line)
    return found


def _take_box(section: Section, found: Found, at: int, box: re.Match[str], *, after: bool) -> bool:
    """Take in a line with a box. False when, below the place for the answer, it is mere text."""
    text, ticked = box["text"].strip(), _ticked(box["mark"])
    letter, rest = section.lettered(text)
    label, rest = section.labels.get(letter, ""), " ".join(rest.split())
    if _plain(rest) != _plain(label) and (alone := section.labelled(text)):
        letter, rest = alone, ""
    remark = rest[len(label) :].strip() if ticked and letter and folded(rest).startswith(folded(label)) else ""
    other = None if letter else _OTHER.fullmatch(text)
    known = letter and (not rest or remark or _plain(rest) == _plain(label))
    if after and not known and not (other and is_open(section.question)):
        return False
    if ticked is None:
        found.unclear.append(Unclear(at, section.name, f"`[{box['mark']}]` is neither ticked nor empty"))
    elif known:
        if ticked:
            found.ticked[letter] = at
            found.remarks += [remark] if remark else []
    elif other and is_open(section.question):
        found.other = at if ticked else found.other
        found.own += [other["rest"].strip()] if other["rest"].strip() else []
    else:
        found.unclear.append(Unclear(at, section.name, f"`{shown(text)}` is none of the options as they stood"))
    return True


def _named(section: Section, text: str) -> tuple[list[str], str]:
    """The letters that a text begins with, by themselves or through the texts of choices, and what follows them."""
    letters: list[str] = []
    lines = text.split("\n")
    for number, line in enumerate(lines):
        found, rest = _named_by(section, re.sub(r"^\s*[-*+]\s+", "", line).strip())
        letters += found
        if rest:
            return letters, "\n".join([rest if found else line, *lines[number + 1 :]]).strip()
    return letters, ""


def _named_by(section: Section, line: str) -> tuple[list[str], str]:
    letter, rest = section.lettered(line)
    same = bool(letter) and _plain(rest) == _plain(section.labels[letter])
    if named := section.labelled(line):
        return [named, *([letter] if same or (letter and not rest) else [])], ""
    if same:
        return [letter], ""
    tokens = [token.strip("().:*_`'\"").upper() for token in _BETWEEN.split(line) if token]
    longest = max(map(len, section.labels))
    if tokens and all(token.isascii() and token.isalpha() and len(token) <= longest for token in tokens):
        return tokens, ""
    if letter:
        named = section.labelled(rest)
        return [letter, *([named] if named else [])], "" if named else rest
    parts = [section.labelled(part) for part in re.split("[,;]", line)]
    return (parts, "") if all(parts) else ([], line)


def _ticked(mark: str) -> bool | None:
    """Whether a box is ticked; None where that is not plain."""
    mark = mark.strip()
    return False if not mark else True if set(mark) <= TICKS else None


def _plain(text: str) -> str:
    """The words of a line without its markup."""
    return folded(re.sub(r"^[\s>#]+|[\\*_`]", "", text))


def _letter(number: int) -> str:
    """A to Z, then AA, AB and so on."""
    return chr(ord("A") + number) if number < 26 else _letter(number // 26 - 1) + _letter(number % 26)
