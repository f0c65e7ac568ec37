"""Reads a user's ticks and text as the answer to a question. Unclear answers are reported, never guessed.

A choice is named by its text, its letter (`B`, `b)`, `B. On the server`) or its number. A reason may follow the name
(`B because …`, `2) – the cheaper one`). Any other text is an answer if the question accepts free text. Otherwise it is
reported.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

from skillrun.questions.answers import (
    Answer,
    InvalidAnswer,
    Question,
    accepts_free_text,
    build_answer,
    choices_of,
    find_choice,
    is_multiple,
    to_one_line,
)
from skillrun.syntax.diagnostics import allowed_hint

OTHER_ANSWER: Final = re.compile(r"[\W_]*other[*_`\s]*(?:[:：…][*_`\s]*(?P<words>.*)|$)", re.IGNORECASE | re.DOTALL)
_MARKS: Final = re.compile(r"[*_`\\]")
_OUTER_MARKS: Final = " .!,;:*_`\"'()[]…“”„‘‚’«»"
_BLANK: Final = " \t\n\r\f\v\u00a0\u00ad\u200b\u200c\u200d\u200e\u200f\u2060\ufeff"  # no mark that can be seen
_BULLET: Final = re.compile(r"[-*+•–]\s+")
_LABEL: Final = re.compile(r"^(?:option )?[(\[]?#?(?P<sign>[a-z]{1,2}|\d{1,3})(?:[)\].:]+ ?|$)")
_SIGN: Final = re.compile(r"[(\[*_`\"']*(?:option\s+)?#?(?:[a-z]|(?P<number>\d{1,3}))[)\].:*_`\"']*", re.IGNORECASE)
_LONE_LETTER: Final = re.compile(r"\(?[a-z][).]?", re.IGNORECASE)
_LIST_SEPARATORS: Final = (r"\n", r"[\n,;/&+]|\band\b")
_BREAK: Final = re.compile(
    r"(?P<line>\n|(?=\(|<!--)|[)\]]\s)|(?P<comma>,\s)|(?P<mark>[:;!]\s|\s[-–—]+\s)|(?P<stop>\.\s)"
)
_MAX_BREAKS: Final = 50  # number of breaks that are checked as the end of a choice's name
_EXTRA_CHARACTERS: Final = 40  # characters allowed around the text of a choice: letters, marks, spaces
_MIN_MENTION: Final = 3  # characters; a shorter choice in a reason does not count as a mention


@dataclass(frozen=True)
class Phrases:
    """The phrases under `answers` in `config/skillrun.yaml`: `open` leaves a question open, `because` starts a reason
    after a choice, and `either` makes a choice doubtful."""

    open: frozenset[str] = frozenset()
    because: re.Pattern[str] = re.compile(r"(?!)")
    either: re.Pattern[str] = re.compile(r"(?!)")

    @classmethod
    def from_settings(cls, settings: Mapping[str, Any] | None) -> Phrases:
        """Return the phrases that the data of `config/skillrun.yaml` lists."""
        lists = (settings or {}).get("answers") or {}
        return cls(
            frozenset(normalize_phrase(str(phrase)) for phrase in lists.get("open") or []),
            _compile_phrases(lists.get("because") or []),
            _compile_phrases(lists.get("either") or []),
        )

    def leaves_open(self, question: Question, words: str) -> bool:
        """Whether `words` is a phrase that leaves the question open, such as `TBD` or `?`. A phrase that names a
        choice, or that is followed by more text, is an answer."""
        phrase = normalize_phrase(words)
        if phrase not in self.open:
            return False
        start = re.compile(rf"{re.escape(phrase)}(?!\w)")
        return not any(start.match(normalize_phrase(to_one_line(choice))) for choice in choices_of(question))


def _compile_phrases(phrases: Iterable[object]) -> re.Pattern[str]:
    longest_first = sorted(map(str, phrases), key=len, reverse=True)
    one_of = "|".join(r"\s+".join(map(re.escape, phrase.split())) for phrase in longest_first)
    return re.compile(rf"(?<!\w)(?:{one_of})(?!\w)" if one_of else r"(?!)", re.IGNORECASE)


def normalize_phrase(words: str) -> str:
    """Return the text in lower case, without surrounding punctuation marks. If it has only marks, the first mark
    remains."""
    text = re.sub("[–—]", "-", " ".join(words.casefold().replace("’", "'").split()))
    return text.strip(_OUTER_MARKS + "?-") or text[:1]


def choice_letter(number: int) -> str:
    """Return the letter of a choice: `A` to `Z`, then `AA` and so on."""
    return (choice_letter(number // 26 - 1) if number >= 26 else "") + chr(ord("A") + number % 26)


def normalize_text(text: str) -> str:
    """Return the text in lower case, without bullets, markdown marks, and surrounding brackets and quotes."""
    plain = " ".join(_MARKS.sub("", _BULLET.sub("", text.strip(), count=1)).split()).casefold()
    return _LABEL.sub(r"\g<sign> ", plain, count=1).strip(_OUTER_MARKS) if plain else text.strip()


class ChoiceNames:
    """The names of a question's choices: texts, letters and numbers."""

    def __init__(self, question: Question) -> None:
        self.question = question
        self.labels = [to_one_line(choice) for choice in choices_of(question)]
        self.texts = [*map(normalize_text, self.labels)]
        self._max_length = sum(_EXTRA_CHARACTERS + 2 * len(text) for text in ["", *self.texts])
        self._names: defaultdict[str, list[Any]] = defaultdict(list)
        has_digits = any(re.search(r"\d", text) for text in self.texts)
        for number, (choice, text) in enumerate(zip(choices_of(question), self.texts, strict=True)):
            letter = choice_letter(number).casefold()
            names = {text, letter, f"{letter} {text}"} | (set() if has_digits else {str(number + 1)})
            for name in names - {""}:
                self._names[name].append(choice)

    def match(self, words: str) -> list[Any]:
        """Return the choices that the words may mean, by text, letter or number. Numbers start at 1. They name no
        choice if the text of any choice contains a digit."""
        exact = find_choice(self.question, words) if words.strip() else None
        named = self._names.get(normalize_text(words), [])
        if exact is None:
            return named
        return [exact, *(choice for choice in named if choice != exact and _SIGN.fullmatch(words.strip()))]

    def match_list(self, words: str) -> list[Any]:
        """Return the choices that the words name. Several names are separated by commas or line breaks. Empty if the
        words contain other text."""
        if len(words) > self._max_length:
            return []
        splits = [[words], *([*filter(str.strip, re.split(separator, words))] for separator in _LIST_SEPARATORS)]
        for parts in splits:
            meanings = [self.match(part) for part in parts]
            if meanings and all(len(choices) == 1 for choices in meanings):
                return [choice for place, (choice,) in enumerate(meanings) if [choice] not in meanings[:place]]
        return []

    def read(self, words: str, phrases: Phrases) -> tuple[list[Any], str]:
        """Return the choices that the words name or start with, and the reason after them. Empty if the words are
        other text."""
        if choices := self.match_list(words):
            return choices, ""
        breaks = [(match.start(), match.lastgroup or "") for match in islice(_BREAK.finditer(words), _MAX_BREAKS)]
        breaks += [(match.start(), "because") for match in islice(phrases.because.finditer(words), _MAX_BREAKS)]
        if (sign := _SIGN.match(words)) and words[sign.end() :][:1].isspace():
            breaks.append((sign.end(), "space"))
        for end, kind in sorted(breaks, reverse=True):
            head = words[:end].strip()
            choices = self.match_list(head)
            if choices and (len(choices) == 1 or is_multiple(self.question)):
                reason = _clean_reason(words[end:])
                if self._is_reason(head, choices, kind, reason, phrases):
                    own_texts = [normalize_text(to_one_line(choice)) for choice in choices]
                    return choices, "" if normalize_text(reason) in own_texts else reason
        return [], ""

    def _is_reason(self, head: str, choices: Sequence[Any], kind: str, reason: str, phrases: Phrases) -> bool:
        """Whether the text after a choice is the reason for the choice. It is not a reason if it may continue a phrase
        (`A bit`), makes the choice doubtful (`B or C`), or mentions another choice."""
        if phrases.because.match(reason):
            return True
        sign, is_closed = _SIGN.fullmatch(head), not accepts_free_text(self.question)
        is_article = head in ("A", "I") and reason[:1].islower()
        is_allowed = {
            "line": True,
            "comma": (sign is not None or is_closed) and not is_multiple(self.question),
            "mark": sign is not None or is_closed,
            "stop": is_closed,
            "space": is_closed and not is_article,
        }.get(kind, False)
        if not is_allowed or not re.search(r"\w", reason) or reason.endswith("?") or phrases.either.match(reason):
            return False
        others = [number for number, choice in enumerate(choices_of(self.question)) if choice not in choices]
        is_number = sign is not None and sign["number"] is not None
        signs = [str(number + 1) if is_number else choice_letter(number) for number in others]
        plain = normalize_text(reason)
        return not (
            set(signs) & set(re.findall(r"\w+", reason))
            or any(len(self.texts[number]) >= _MIN_MENTION and self.texts[number] in plain for number in others)
            or any(choice not in choices for choice in self.match(reason))
        )


def find_named_choice(question: Question, words: str) -> Any | None:
    """Return the choice that the words name by text, letter or number; None if the words are other text.

    Raises InvalidAnswer if they may name several choices, and for a single letter that names none.
    """
    names = ChoiceNames(question)
    named = names.match(words.strip(_BLANK))
    if len(named) == 1:
        return named[0]
    if named or _LONE_LETTER.fullmatch(words.strip(_BLANK)):
        raise InvalidAnswer(_explain_letter(words, named), f"write the text of a choice, {allowed_hint(names.labels)}")
    return None


def _explain_letter(words: str, named: Sequence[Any]) -> str:
    may = " or ".join(f"`{to_one_line(choice)}`" for choice in named)
    return f"`{to_one_line(words)}` {f'may mean {may}' if may else 'is not one of the choices'}"


def _clean_reason(words: str) -> str:
    """Return the text after a choice without the marks that separate it, and without brackets around all of it."""
    reason = words.lstrip(" \t\n)].,:;!-–—").rstrip()
    inner = reason[1:-1]
    return inner.strip() if reason.startswith("(") and reason.endswith(")") and "(" not in inner else reason


def interpret_answer(
    question: Question, ticked: Sequence[Any], other: str | None, words: str, phrases: Phrases
) -> tuple[Answer, list[str]]:
    """Return the user's answer, and the reasons why it is unclear.

    `ticked` are the ticked choices. `other` is the text of the box `Other`; None if the box is not ticked. `words` is
    the text below `Answer:`.

    Text that is not an answer becomes the `comment` of the record.
    """
    words = words.strip(_BLANK)
    written = "\n".join(filter(None, [other, words]))
    if not ticked and phrases.leaves_open(question, written):
        return build_answer("", comment=written), []
    several, is_open = is_multiple(question), accepts_free_text(question)
    if not choices_of(question):
        return build_answer([words] if words and several else words), []
    unclear = []
    names = ChoiceNames(question)
    named, reason = names.read(words, phrases)
    picked = [*ticked, *(choice for choice in named if choice not in ticked)]
    words = reason if named else words
    if not named and is_open and (match := OTHER_ANSWER.fullmatch(words)) and match["words"]:
        other, words = "\n".join(filter(None, [other, match["words"]])), ""
    if other == "":
        other, words = ("", words) if named else (words, "")
        unclear += [] if other else ["`Other` is ticked without any text after it"]
    free_text = [other] if other else []
    if words and not named and not free_text:
        if _LONE_LETTER.fullmatch(words) or not (picked or is_open):
            tick = "tick one, or write `other:` before your own words" if is_open else "tick one"
            unclear.append(f"{_explain_letter(words, names.match(words))}; {tick}")
            words = ""
        elif is_open and (several or not picked):
            free_text, words = [words], ""
    answers = [*picked, *free_text]
    if several:
        return build_answer(answers, comment=words), unclear
    if len(answers) > 1:
        chosen = " and ".join(f"`{to_one_line(choice)}`" for choice in answers)
        unclear.append(f"{chosen} are chosen, although the question takes only one answer")
    return build_answer(answers[0] if answers else "", comment=words), unclear
