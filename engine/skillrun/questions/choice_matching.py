"""Interprets a user's ticks and text as the answer to a question. Ambiguous answers are reported, never guessed.

The user can name a choice by its text, its letter (`B`, `b)`, `B. On the server`), its number, or the beginning of its
text. A remark may follow the name (`B (people plan)`, `B because …`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from skillrun.questions.answers import (
    Answer,
    Question,
    accepts_free_text,
    build_answer,
    choices_of,
    find_choice,
    is_multiple,
    to_one_line,
)
from skillrun.questions.phrases import Phrases

ReportUnclear = Callable[[str], None]
"""A function that receives the reason why an answer is unclear."""

OTHER_ANSWER: Final = re.compile(r"[\W_]*other[*_`\s]*(?:[:：…][*_`\s]*(?P<words>.*)|$)", re.IGNORECASE | re.DOTALL)
STRUCK_OUT: Final = re.compile(r"~~(?=\S)(.+?)(?<=\S)~~", re.DOTALL)
_LETTER: Final = re.compile(
    r"[(\[*_`\s]*(?:option\s+)?(?P<letter>[a-z]{1,2})[*_`\s]*(?:[)\].:,–—-]+[*_`\s]*(?P<rest>.*))?",
    re.IGNORECASE | re.DOTALL,
)
_NUMBER: Final = re.compile(r"[(\[*_`\s]*(?:option\s+)?#?(?P<number>\d{1,3})[)\].:*_`\s]*", re.IGNORECASE)
_DECORATION: Final = re.compile(r"\s*(?:(?:->|=>|[→⇒➜>])\s*)*[\"'“”„‘’‚«»`]*(?P<words>.*?)[!\"'“”‘’«»`\s]*", re.DOTALL)
_BULLET: Final = re.compile(r"\s*(?:[-*+•–]|\d+[.)])?\s*(?:(?:\[[xX✓✔ ]*\]|[xX✓✔](?=\s))\s*)?")
_HEAD: Final = re.compile(
    r"(?P<head>\(?[a-z]{1,2}(?=[).,\]]\s)|[^\n]+?(?=\s*:|\s+[-–—]\s|\s*\n))[).,\]:\s–—-]+(?P<rest>\S.*)",
    re.IGNORECASE | re.DOTALL,
)
_SPACES: Final = r"[\n,;/&+\s]+"
_SEPARATORS: Final = ("", r"\n", r"[\n,;/&+]|\band\b", _SPACES)
_SINGLE_LETTER: Final = re.compile(r"\(?[a-z][).]?", re.IGNORECASE)
_BREAK: Final = re.compile(r"\s*\n\s*|\s*\(|(?<=[)\]])\s+|\s*[:,;!](?=\s)|\s+[-–—]+\s|(?<=\w)[.](?=\s)|(?<=[A-Z])\s")
_SHORTEST: Final = 3  # letters that a prefix needs if it ends inside a word
_EXTRA_CHARACTERS: Final = 40  # characters allowed around the text of a choice: letters, boxes, marks, spaces
_MAX_BREAKS: Final = 50  # how many breaks are checked for the end of a choice's name


def choice_letter(number: int) -> str:
    """Return the letter of a choice: `A` to `Z`, then `AA` and so on."""
    return (choice_letter(number // 26 - 1) if number >= 26 else "") + chr(ord("A") + number % 26)


def normalize_text(text: str) -> str:
    """Return the text in lower case, without markdown marks and repeated white space."""
    plain = " ".join(re.sub(r"[*_`~\\>]", "", text).split()).casefold().rstrip(".")
    return plain or text.strip()


def interpret_answer(
    question: Question,
    ticked: Sequence[Any],
    other: str | None,
    words: str,
    unclear: ReportUnclear,
    phrases: Phrases = Phrases(),  # noqa: B008 (frozen)
) -> Answer:
    """Return the answer given by the ticked choices, by `other` (the text after `Other:`, None if that is not ticked),
    and by the answer text `words`.

    Words that do not select a choice become the `comment` of the record.
    """
    several, words = is_multiple(question), words.strip()
    only_words = words if other is None else "" if other and words else other or words
    if not ticked and (phrase := phrases.find_open_phrase(only_words)) and not _is_choice(question, only_words, phrase):
        similar = _choices_starting_with(question, phrase)
        if not similar:
            return build_answer("", comment=only_words)
        choice_text = to_one_line(similar[0])
        unclear(
            f"`{to_one_line(only_words)}` may leave the question open, or mean `{choice_text}`; tick one, or write `-`"
        )
        return {}
    if not choices_of(question):
        return build_answer([words] if words and several else words)
    named_choices, comment = _find_choices(
        question, words, phrases, allow_prefix=not ticked and not accepts_free_text(question)
    )
    picked = [*ticked, *(choice for choice in named_choices if choice not in ticked)]
    words = comment if named_choices else words
    if (
        not named_choices
        and accepts_free_text(question)
        and (match := OTHER_ANSWER.fullmatch(words))
        and match["words"]
    ):
        other, words = "\n".join(filter(None, [other, match["words"]])), ""
    if other == "":
        other, words = ("", words) if named_choices else (words, "")
        if not other:
            unclear("`Other` is ticked without any text after it")
    free_text = [other] if other else []
    if words and not picked and not free_text:
        if not STRUCK_OUT.sub("", words).strip():
            return build_answer("", comment=words)
        picked, free_text, words = _interpret_words(question, words, phrases, unclear)
    elif _SINGLE_LETTER.fullmatch(words) and not named_choices:
        unclear(f"`{to_one_line(words)}` is not one of the choices")
    elif words and several and accepts_free_text(question) and not free_text and not named_choices:
        free_text, words = [words], ""
    answers = [*picked, *free_text]
    if several:
        return build_answer(answers, comment=words)
    if len(answers) > 1:
        chosen = " and ".join(f"`{to_one_line(choice)}`" for choice in answers)
        unclear(f"{chosen} are chosen, although the question takes only one answer")
    return build_answer(answers[0] if answers else "", comment=words)


def is_undecided(question: Question, words: str, phrases: Phrases) -> bool:
    """Whether the text of an answer leaves the question open."""
    phrase = phrases.find_open_phrase(words)
    return bool(phrase) and not _is_choice(question, words, phrase)


def _is_choice(question: Question, words: str, phrase: str) -> bool:
    """Whether a choice has these words, or the phrase at their start, as its text."""
    if find_choice(question, words) is not None or find_choice(question, phrase) is not None:
        return True
    return any(len(text) > len(phrase) and normalize_text(words).startswith(text) for text in _choice_texts(question))


def _choices_starting_with(question: Question, phrase: str) -> list[Any]:
    """Return the choices whose texts start with the words of a phrase."""
    pattern = re.compile(rf"{re.escape(phrase)}(?!\w)", re.IGNORECASE)
    return [
        choice
        for choice, text in zip(choices_of(question), _choice_texts(question), strict=True)
        if pattern.match(text)
    ]


def _choice_texts(question: Question) -> list[str]:
    return [normalize_text(to_one_line(choice)) for choice in choices_of(question)]


def _find_choices(question: Question, words: str, phrases: Phrases, *, allow_prefix: bool) -> tuple[list[Any], str]:
    """Return the choices that the words name, and the remark about them. If the words are other text, return no
    choices."""
    choices = _match_list(question, words, allow_prefix=allow_prefix)
    if choices:
        return choices, ""
    remaining = STRUCK_OUT.sub("", words).strip()
    if remaining and remaining != words and (choices := _match_list(question, remaining, allow_prefix=allow_prefix)):
        return choices, words
    plain = phrases.strip_choose_phrase(words)
    if plain != words and (choices := _match_list(question, plain, allow_prefix=allow_prefix)):
        return choices, ""
    statement = phrases.strip_think_phrase(plain)
    if statement == plain:
        return _match_leading_choice(question, plain, phrases)
    choices = (
        _match_list(question, statement, allow_prefix=allow_prefix)
        or _match_leading_choice(question, statement, phrases)[0]
    )
    return choices, words if choices else ""


def _match_leading_choice(question: Question, words: str, phrases: Phrases) -> tuple[list[Any], str]:
    """Return the choices that are named at the start of the words, and the remark that follows. The longest match is
    used."""
    best: tuple[list[Any], str] = ([], "")
    for end, rest, kind in _find_breaks(words, phrases):
        head = words[:end]
        choices = _match_list(question, head, allow_prefix=kind == "line" and not accepts_free_text(question))
        if not choices or (len(choices) > 1 and not is_multiple(question)):
            continue
        closed, plain = not accepts_free_text(question), _strip_decoration(head)
        is_sign = bool(_LETTER.fullmatch(plain) or _NUMBER.fullmatch(plain))
        allowed = {
            "(": True, "line": True, ")": is_sign or closed, "because": is_sign or closed, ".": closed,
            ",": (is_sign or closed) and not is_multiple(question), "think": is_sign or closed,
            " ": is_sign and closed and not _is_ordinary_word(head, rest),
        }[kind]  # fmt: skip
        is_bracketed = is_sign and kind == "(" and words[end:].rstrip().endswith(")")
        if allowed and not (
            kind != "because" and _is_doubtful(question, choices, rest, phrases, is_bracketed=is_bracketed)
        ):
            best = choices, rest
    return best


def _find_breaks(words: str, phrases: Phrases) -> Iterator[tuple[int, str, str]]:
    """Yield each place where a choice's name may end: the offset, the words that follow, and the kind of break."""
    places: list[tuple[int, str, str]] = []
    for match in _BREAK.finditer(words):
        mark = match[0].strip()
        kind = mark if mark in ("(", ".") else "line" if "\n" in match[0] else "," if mark else " "
        if not mark and words[: match.start()].endswith((")", "]")):
            kind = "line" if kind == "line" else ")"
        rest = words[match.start() :] if mark == "(" else words[match.end() :]
        places.append((match.start(), rest, kind))
        if len(places) == _MAX_BREAKS:
            break
    places += [(place, words[place:], "because") for place in phrases.find_reasons(words)[:_MAX_BREAKS]]
    places += [(place, words[place:], "think") for place in phrases.find_trailing_phrases(words)[:_MAX_BREAKS]]
    for end, rest, kind in sorted(places):
        if rest.strip():
            yield end, _strip_brackets(rest.strip()), kind


def _strip_brackets(words: str) -> str:
    inner = words[1:-1]
    return inner.strip() if words.startswith("(") and words.endswith(")") and "(" not in inner else words


def _is_ordinary_word(head: str, rest: str) -> bool:
    """Whether a letter may be a word of the text that follows, as in `A bit` or `I think`."""
    return _strip_decoration(head).strip() in ("A", "I") and rest[:1].islower()


def _is_doubtful(
    question: Question, choices: Sequence[Any], rest: str, phrases: Phrases, *, is_bracketed: bool
) -> bool:
    """Whether the words after a choice make it doubtful, because they name another choice or are only a letter.

    `is_bracketed`: the words are in brackets. They may then mention other choices, but not end with one.
    """
    if (
        phrases.starts_with_alternative(rest)
        or _SINGLE_LETTER.fullmatch(rest)
        or match_choices(question, rest, allow_prefix=True)
    ):
        return True
    others = [number for number, choice in enumerate(choices_of(question)) if choice not in choices]
    plain = normalize_text(rest)
    texts = [normalize_text(to_one_line(choices_of(question)[number])) for number in others]
    letters = [re.escape(choice_letter(number)) for number in others]
    end = r"\W*$" if is_bracketed else ""
    by_letter = re.search(rf"(?<!\w)(?:{'|'.join(letters)})(?!\w){end}", rest) if letters else None
    in_plain = plain.rstrip("?!., ").endswith if is_bracketed else plain.__contains__
    return bool(by_letter) or any(len(text) >= _SHORTEST and in_plain(text) for text in texts)


def _interpret_words(
    question: Question, words: str, phrases: Phrases, unclear: ReportUnclear
) -> tuple[list[Any], list[str], str]:
    """Interpret words that do not name a choice exactly. Return the choices, the free text and the comment, or report
    that the words are unclear."""
    choices = match_choices(question, words, allow_prefix=True)
    if not choices and (split_words := phrases.split_alternatives(words)) != words:
        choices = _match_list(question, split_words, allow_prefix=False)
    if not choices and (head := _HEAD.fullmatch(words)):
        choices = match_choices(question, head["head"])
        if len(choices) == 1 and not accepts_free_text(question) and not _LETTER.fullmatch(head["rest"]):
            choices += [
                choice for choice in match_choices(question, head["rest"], allow_prefix=True) if choice not in choices
            ]
    if not choices:
        choices = _match_letters(question, words)
        choices = choices if len(choices) > 1 or not accepts_free_text(question) else []
    if not choices and accepts_free_text(question) and not _SINGLE_LETTER.fullmatch(words):
        return [], [words], ""
    may = " or ".join(f"`{to_one_line(choice)}`" for choice in choices)
    own = "; tick one, or write `other:` before your own words" if accepts_free_text(question) else "; tick one"
    unclear(f"`{to_one_line(words)}` {f'may mean {may}' if may else 'is not one of the choices'}{own}")
    return [], [], ""


def _match_letters(question: Question, words: str) -> list[Any]:
    """Return the choices whose letters occur in the words. If the words start with a letter, also return the choices
    whose text occurs in them."""
    choices: list[Any] = []
    first = False
    for number, choice in enumerate(choices_of(question)):
        for place in re.finditer(rf"(?<![\w'’.-]){choice_letter(number)}(?![\w'’-]|\.\w)", words):
            following = words[place.end() :]
            joined = re.match(r"\s+(?:and|or)\b", following) or re.search(r"\b(?:and|or)\s+$", words[: place.start()])
            article = _is_ordinary_word(place[0], following.lstrip()) and not joined and accepts_free_text(question)
            if not article and choice not in choices:
                choices.append(choice)
                first = first or not place.start()
    for choice, text in zip(choices_of(question), _choice_texts(question), strict=True) if first else ():
        if choice not in choices and len(text) >= _SHORTEST and text in normalize_text(words):
            choices.append(choice)
    return choices


def _match_list(question: Question, words: str, *, allow_prefix: bool) -> list[Any]:
    """Return the choices that the words list: a single choice, one per line, or several separated by commas. Empty if
    there is other text.

    With `allow_prefix`, the beginning of a choice's text is enough.
    """
    if len(words) > _EXTRA_CHARACTERS + sum(
        _EXTRA_CHARACTERS + 2 * len(to_one_line(choice)) for choice in choices_of(question)
    ):
        return []
    for separator in _SEPARATORS:
        parts = re.split(separator, words) if separator else [words]
        allow_prefix = allow_prefix and separator != _SPACES
        meanings = [
            match_choices(question, part)
            or match_choices(question, _BULLET.sub("", part, count=1) if separator else part, allow_prefix=allow_prefix)
            for part in parts
            if part.strip()
        ]
        if meanings and all(len(choices_meant) == 1 for choices_meant in meanings):
            return [choice for place, (choice,) in enumerate(meanings) if [choice] not in meanings[:place]]
    return []


def match_choices(question: Question, words: str, *, allow_prefix: bool = False) -> list[Any]:
    """Return the choices that the words may mean, by text, letter or number. If nothing matches and `allow_prefix` is
    set, match by the beginning of the text."""
    return _match_words(question, words, allow_prefix=allow_prefix) or _match_words(
        question, _strip_decoration(words), allow_prefix=allow_prefix
    )


def _strip_decoration(words: str) -> str:
    """Return the words without leading arrows, surrounding quotes and trailing exclamation marks."""
    match = _DECORATION.fullmatch(words)
    return match["words"] if match else words


def _match_words(question: Question, words: str, *, allow_prefix: bool) -> list[Any]:
    choices = choices_of(question)
    exact = find_choice(question, words)
    if exact is None and STRUCK_OUT.search(words):
        return []
    plain = normalize_text(words)
    texts = [normalize_text(to_one_line(choice)) for choice in choices]
    matches = [exact] if exact is not None else [choices[number] for number, text in enumerate(texts) if text == plain]
    by_letter = _LETTER.fullmatch(words.strip())
    for number, text in enumerate(texts) if by_letter else ():
        rest = normalize_text(by_letter["rest"] or "") if by_letter else ""
        same = by_letter and by_letter["letter"].upper() == choice_letter(number) and text.startswith(rest)
        if same and choices[number] not in matches:
            matches.append(choices[number])
    if not matches:
        matches = [
            choices[number]
            for number, text in enumerate(texts)
            if plain == f"{choice_letter(number).casefold()} {text}"
        ]
    if not matches:
        matches = _match_number(question, words)
    if not matches and allow_prefix and plain:
        matches = [choices[number] for number, text in enumerate(texts) if _has_prefix(text, plain)]
    return matches


def _match_number(question: Question, words: str) -> list[Any]:
    """Return the choice with this number, counted from 1. Numbers name no choice if the text of any choice contains a
    digit."""
    match, choices = _NUMBER.fullmatch(words.strip()), choices_of(question)
    has_digits = any(re.search(r"\d", to_one_line(choice)) for choice in choices)
    if not match or has_digits or not 0 < int(match["number"]) <= len(choices):
        return []
    return [choices[int(match["number"]) - 1]]


def _has_prefix(text: str, beginning: str) -> bool:
    """Whether a text starts with the given beginning, which must consist of whole words or have at least three
    letters."""
    if not text.startswith(beginning):
        return False
    return not text[len(beginning) :][:1].isalnum() or (len(beginning) >= _SHORTEST and beginning[-1].isalpha())
