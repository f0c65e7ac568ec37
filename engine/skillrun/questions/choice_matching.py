"""What ticks and words of a person mean as the answer of a question. What could mean two things is said, never guessed.

A choice is named by its text, its letter (`B`, `b)`, `B. On the server`), its number, or the beginning of its text, and
words about it may follow (`B (people plan)`, `B because …`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from skillrun.questions.answers import (
    Answer,
    Question,
    answered,
    choice_like,
    choices_of,
    is_multiple,
    is_open,
    on_one_line,
)
from skillrun.questions.phrases import Phrases

Unclear = Callable[[str], None]
"""Takes why an answer is not plain."""

OTHER: Final = re.compile(r"[\W_]*other[*_`\s]*(?:[:：…][*_`\s]*(?P<words>.*)|$)", re.IGNORECASE | re.DOTALL)
STRUCK: Final = re.compile(r"~~(?=\S)(.+?)(?<=\S)~~", re.DOTALL)
_LETTER: Final = re.compile(
    r"[(\[*_`\s]*(?:option\s+)?(?P<letter>[a-z]{1,2})[*_`\s]*(?:[)\].:,–—-]+[*_`\s]*(?P<rest>.*))?",
    re.IGNORECASE | re.DOTALL,
)
_NUMBER: Final = re.compile(r"[(\[*_`\s]*(?:option\s+)?#?(?P<number>\d{1,3})[)\].:*_`\s]*", re.IGNORECASE)
_DRESS: Final = re.compile(r"\s*(?:(?:->|=>|[→⇒➜>])\s*)*[\"'“”„‘’‚«»`]*(?P<words>.*?)[!\"'“”‘’«»`\s]*", re.DOTALL)
_BULLET: Final = re.compile(r"\s*(?:[-*+•–]|\d+[.)])?\s*(?:(?:\[[xX✓✔ ]*\]|[xX✓✔](?=\s))\s*)?")
_HEAD: Final = re.compile(
    r"(?P<head>\(?[a-z]{1,2}(?=[).,\]]\s)|[^\n]+?(?=\s*:|\s+[-–—]\s|\s*\n))[).,\]:\s–—-]+(?P<rest>\S.*)",
    re.IGNORECASE | re.DOTALL,
)
_SPACES: Final = r"[\n,;/&+\s]+"
_BETWEEN: Final = ("", r"\n", r"[\n,;/&+]|\band\b", _SPACES)
_LONE: Final = re.compile(r"\(?[a-z][).]?", re.IGNORECASE)
_BREAK: Final = re.compile(r"\s*\n\s*|\s*\(|(?<=[)\]])\s+|\s*[:,;!](?=\s)|\s+[-–—]+\s|(?<=\w)[.](?=\s)|(?<=[A-Z])\s")
_SHORTEST: Final = 3  # letters of a beginning that ends inside a word
_ROOM: Final = 40  # characters that stand beside a choice's text: letters, boxes, marks, blanks
_FAR: Final = 50  # breaks in the words that are looked at for the end of a choice's name


def letter(number: int) -> str:
    """`A` to `Z`, then `AA` and so on."""
    return (letter(number // 26 - 1) if number >= 26 else "") + chr(ord("A") + number % 26)


def squeezed(text: str) -> str:
    """A text without case, markdown's marks, and spaces of which one would do."""
    plain = " ".join(re.sub(r"[*_`~\\>]", "", text).split()).casefold().rstrip(".")
    return plain or text.strip()


def answer_of(
    question: Question,
    ticked: Sequence[Any],
    other: str | None,
    words: str,
    unclear: Unclear,
    phrases: Phrases = Phrases(),  # noqa: B008 (frozen)
) -> Answer:
    """The record of ticked choices, of what stands behind `Other:` (None where it is not chosen), and of the words.

    Words that decide nothing stay in the record as its `comment`.
    """
    several, words = is_multiple(question), words.strip()
    alone = words if other is None else "" if other and words else other or words
    if not ticked and (phrase := phrases.left_open(alone)) and not _is_choice(question, alone, phrase):
        like = _begun_by(question, phrase)
        if not like:
            return answered("", comment=alone)
        meant = on_one_line(like[0])
        unclear(f"`{on_one_line(alone)}` may leave the question open, or mean `{meant}`; tick one, or write `-`")
        return {}
    if not choices_of(question):
        return answered([words] if words and several else words)
    named, about = _spoken(question, words, phrases, begun=not ticked and not is_open(question))
    picked = [*ticked, *(choice for choice in named if choice not in ticked)]
    words = about if named else words
    if not named and is_open(question) and (match := OTHER.fullmatch(words)) and match["words"]:
        other, words = "\n".join(filter(None, [other, match["words"]])), ""
    if other == "":
        other, words = ("", words) if named else (words, "")
        if not other:
            unclear("`Other` is ticked, and no words stand behind it")
    own = [other] if other else []
    if words and not picked and not own:
        if not STRUCK.sub("", words).strip():
            return answered("", comment=words)
        picked, own, words = _alone(question, words, phrases, unclear)
    elif _LONE.fullmatch(words) and not named:
        unclear(f"`{on_one_line(words)}` is none of the choices")
    elif words and several and is_open(question) and not own and not named:
        own, words = [words], ""
    given = [*picked, *own]
    if several:
        return answered(given, comment=words)
    if len(given) > 1:
        chosen = " and ".join(f"`{on_one_line(choice)}`" for choice in given)
        unclear(f"{chosen} are chosen, and the question takes one answer")
    return answered(given[0] if given else "", comment=words)


def is_undecided(question: Question, words: str, phrases: Phrases) -> bool:
    """Whether words that were given as an answer leave the question open."""
    phrase = phrases.left_open(words)
    return bool(phrase) and not _is_choice(question, words, phrase)


def _is_choice(question: Question, words: str, phrase: str) -> bool:
    """Whether the words, or the phrase that they begin with, are a choice's own text."""
    if choice_like(question, words) is not None or choice_like(question, phrase) is not None:
        return True
    return any(len(text) > len(phrase) and squeezed(words).startswith(text) for text in _texts(question))


def _begun_by(question: Question, phrase: str) -> list[Any]:
    """The choices whose texts begin with the words of a phrase."""
    pattern = re.compile(rf"{re.escape(phrase)}(?!\w)", re.IGNORECASE)
    return [choice for choice, text in zip(choices_of(question), _texts(question), strict=True) if pattern.match(text)]


def _texts(question: Question) -> list[str]:
    return [squeezed(on_one_line(choice)) for choice in choices_of(question)]


def _spoken(question: Question, words: str, phrases: Phrases, *, begun: bool) -> tuple[list[Any], str]:
    """The choices that the words name, and what they say about them; none where they are something else."""
    choices = _named(question, words, begun=begun)
    if choices:
        return choices, ""
    left = STRUCK.sub("", words).strip()
    if left and left != words and (choices := _named(question, left, begun=begun)):
        return choices, words
    plain = phrases.chosen(words)
    if plain != words and (choices := _named(question, plain, begun=begun)):
        return choices, ""
    thought = phrases.thought(plain)
    if thought == plain:
        return _with_words(question, plain, phrases)
    choices = _named(question, thought, begun=begun) or _with_words(question, thought, phrases)[0]
    return choices, words if choices else ""


def _with_words(question: Question, words: str, phrases: Phrases) -> tuple[list[Any], str]:
    """A choice, or several, that the words begin with, and the words about it; the longest name counts."""
    best: tuple[list[Any], str] = ([], "")
    for end, rest, kind in _breaks(words, phrases):
        head = words[:end]
        named = _named(question, head, begun=kind == "line" and not is_open(question))
        if not named or (len(named) > 1 and not is_multiple(question)):
            continue
        closed, plain = not is_open(question), _undressed(head)
        is_sign = bool(_LETTER.fullmatch(plain) or _NUMBER.fullmatch(plain))
        allowed = {
            "(": True, "line": True, ")": is_sign or closed, "because": is_sign or closed, ".": closed,
            ",": (is_sign or closed) and not is_multiple(question), "think": is_sign or closed,
            " ": is_sign and closed and not _reads_on(head, rest),
        }[kind]  # fmt: skip
        aside = is_sign and kind == "(" and words[end:].rstrip().endswith(")")
        if allowed and not (kind != "because" and _takes_back(question, named, rest, phrases, aside=aside)):
            best = named, rest
    return best


def _breaks(words: str, phrases: Phrases) -> Iterator[tuple[int, str, str]]:
    """Where a name may end: the place, the words that follow, and what stands there."""
    places: list[tuple[int, str, str]] = []
    for match in _BREAK.finditer(words):
        mark = match[0].strip()
        kind = mark if mark in ("(", ".") else "line" if "\n" in match[0] else "," if mark else " "
        if not mark and words[: match.start()].endswith((")", "]")):
            kind = "line" if kind == "line" else ")"
        rest = words[match.start() :] if mark == "(" else words[match.end() :]
        places.append((match.start(), rest, kind))
        if len(places) == _FAR:
            break
    places += [(place, words[place:], "because") for place in phrases.reasons(words)[:_FAR]]
    places += [(place, words[place:], "think") for place in phrases.thoughts(words)[:_FAR]]
    for end, rest, kind in sorted(places):
        if rest.strip():
            yield end, _unbracketed(rest.strip()), kind


def _unbracketed(words: str) -> str:
    inner = words[1:-1]
    return inner.strip() if words.startswith("(") and words.endswith(")") and "(" not in inner else words


def _reads_on(head: str, rest: str) -> bool:
    """Whether a letter may be a word of what follows: `A bit`, `I think`."""
    return _undressed(head).strip() in ("A", "I") and rest[:1].islower()


def _takes_back(question: Question, named: Sequence[Any], rest: str, phrases: Phrases, *, aside: bool) -> bool:
    """Whether the words behind a choice leave doubt about it: they offer another one, or nothing but a letter.

    `aside`: they stand in brackets, and may speak of other choices as long as they do not end with one.
    """
    if phrases.doubts(rest) or _LONE.fullmatch(rest) or meant_by(question, rest, begun=True):
        return True
    others = [number for number, choice in enumerate(choices_of(question)) if choice not in named]
    plain = squeezed(rest)
    texts = [squeezed(on_one_line(choices_of(question)[number])) for number in others]
    letters = [re.escape(letter(number)) for number in others]
    end = r"\W*$" if aside else ""
    by_letter = re.search(rf"(?<!\w)(?:{'|'.join(letters)})(?!\w){end}", rest) if letters else None
    in_plain = plain.rstrip("?!., ").endswith if aside else plain.__contains__
    return bool(by_letter) or any(len(text) >= _SHORTEST and in_plain(text) for text in texts)


def _alone(question: Question, words: str, phrases: Phrases, unclear: Unclear) -> tuple[list[Any], list[str], str]:
    """Words that name no choice as they are: a choice with a comment behind it, an answer of one's own, or unclear."""
    choices = meant_by(question, words, begun=True)
    if not choices and (parted := phrases.parted(words)) != words:
        choices = _named(question, parted, begun=False)
    if not choices and (head := _HEAD.fullmatch(words)):
        choices = meant_by(question, head["head"])
        if len(choices) == 1 and not is_open(question) and not _LETTER.fullmatch(head["rest"]):
            choices += [choice for choice in meant_by(question, head["rest"], begun=True) if choice not in choices]
    if not choices:
        choices = _lettered(question, words)
        choices = choices if len(choices) > 1 or not is_open(question) else []
    if not choices and is_open(question) and not _LONE.fullmatch(words):
        return [], [words], ""
    may = " or ".join(f"`{on_one_line(choice)}`" for choice in choices)
    own = "; tick one, or write `other:` in front of words of your own" if is_open(question) else "; tick one"
    unclear(f"`{on_one_line(words)}` {f'may mean {may}' if may else 'is none of the choices'}{own}")
    return [], [], ""


def _lettered(question: Question, words: str) -> list[Any]:
    """The choices whose letters stand in the words; where they begin with one, also those whose texts do."""
    choices: list[Any] = []
    first = False
    for number, choice in enumerate(choices_of(question)):
        for place in re.finditer(rf"(?<![\w'’.-]){letter(number)}(?![\w'’-]|\.\w)", words):
            behind = words[place.end() :]
            joined = re.match(r"\s+(?:and|or)\b", behind) or re.search(r"\b(?:and|or)\s+$", words[: place.start()])
            article = _reads_on(place[0], behind.lstrip()) and not joined and is_open(question)
            if not article and choice not in choices:
                choices.append(choice)
                first = first or not place.start()
    for choice, text in zip(choices_of(question), _texts(question), strict=True) if first else ():
        if choice not in choices and len(text) >= _SHORTEST and text in squeezed(words):
            choices.append(choice)
    return choices


def _named(question: Question, words: str, *, begun: bool) -> list[Any]:
    """The choices that the words are, by themselves, a line each, or between commas; none where they are more.

    `begun`: also by the beginnings of their texts.
    """
    if len(words) > _ROOM + sum(_ROOM + 2 * len(on_one_line(choice)) for choice in choices_of(question)):
        return []
    for between in _BETWEEN:
        parts = re.split(between, words) if between else [words]
        begun = begun and between != _SPACES
        meanings = [
            meant_by(question, part)
            or meant_by(question, _BULLET.sub("", part, count=1) if between else part, begun=begun)
            for part in parts
            if part.strip()
        ]
        if meanings and all(len(choices_meant) == 1 for choices_meant in meanings):
            return [choice for place, (choice,) in enumerate(meanings) if [choice] not in meanings[:place]]
    return []


def meant_by(question: Question, words: str, *, begun: bool = False) -> list[Any]:
    """The choices that the words may mean: by text and by letter, and where they are neither, as its beginning."""
    return _choices_meant(question, words, begun=begun) or _choices_meant(question, _undressed(words), begun=begun)


def _undressed(words: str) -> str:
    """Words without an arrow in front of them, quotes around them and marks of emphasis behind them."""
    match = _DRESS.fullmatch(words)
    return match["words"] if match else words


def _choices_meant(question: Question, words: str, *, begun: bool) -> list[Any]:
    choices = choices_of(question)
    exact = choice_like(question, words)
    if exact is None and STRUCK.search(words):
        return []
    plain = squeezed(words)
    texts = [squeezed(on_one_line(choice)) for choice in choices]
    meant = [exact] if exact is not None else [choices[number] for number, text in enumerate(texts) if text == plain]
    by_letter = _LETTER.fullmatch(words.strip())
    for number, text in enumerate(texts) if by_letter else ():
        rest = squeezed(by_letter["rest"] or "") if by_letter else ""
        same = by_letter and by_letter["letter"].upper() == letter(number) and text.startswith(rest)
        if same and choices[number] not in meant:
            meant.append(choices[number])
    if not meant:
        meant = [choices[number] for number, text in enumerate(texts) if plain == f"{letter(number).casefold()} {text}"]
    if not meant:
        meant = _numbered(question, words)
    if not meant and begun and plain:
        meant = [choices[number] for number, text in enumerate(texts) if _begins(text, plain)]
    return meant


def _numbered(question: Question, words: str) -> list[Any]:
    """The choice of a number, counted from 1, where no choice has a number in it."""
    match, choices = _NUMBER.fullmatch(words.strip()), choices_of(question)
    counted = any(re.search(r"\d", on_one_line(choice)) for choice in choices)
    if not match or counted or not 0 < int(match["number"]) <= len(choices):
        return []
    return [choices[int(match["number"]) - 1]]


def _begins(text: str, beginning: str) -> bool:
    """Whether a text begins so: with whole words, or with three letters and more."""
    if not text.startswith(beginning):
        return False
    return not text[len(beginning) :][:1].isalnum() or (len(beginning) >= _SHORTEST and beginning[-1].isalpha())
