"""What ticks and words of a person mean as the answer of a question. What could mean two things is said, never guessed.

A choice is named by its text, its letter (`B`, `b)`, `B. On the server`), or the beginning of its text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, Final

from skillrun.people.answers import Question, answered, choice_like, choices_of, is_multiple, is_open, shown

Unclear = Callable[[str], None]
"""Takes why an answer is not plain."""

OTHER: Final = re.compile(r"[\W_]*other[*_`\s]*(?:[:：…][*_`\s]*(?P<words>.*)|$)", re.IGNORECASE | re.DOTALL)
_LETTER: Final = re.compile(
    r"[(\[*_`\s]*(?:option\s+)?(?P<letter>[a-z]{1,2})[*_`\s]*(?:[)\].:,–—-]+[*_`\s]*(?P<rest>.*))?",
    re.IGNORECASE | re.DOTALL,
)
_BULLET: Final = re.compile(r"\s*(?:[-*+•–]|\d+[.)])?\s*(?:(?:\[[xX✓✔ ]*\]|[xX✓✔](?=\s))\s*)?")
_HEAD: Final = re.compile(
    r"(?P<head>\(?[a-z]{1,2}(?=[).,\]]\s)|[^\n]+?(?=\s*:|\s+[-–—]\s|\s*\n))[).,\]:\s–—-]+(?P<rest>\S.*)",
    re.IGNORECASE | re.DOTALL,
)
_SPACES: Final = r"[\n,;/&+\s]+"
_BETWEEN: Final = ("", r"\n", r"[\n,;/&+]|\band\b", _SPACES)
_LONE: Final = re.compile(r"\(?[a-z][).]?", re.IGNORECASE)
_SHORTEST: Final = 3  # letters of a beginning that ends inside a word


def letter(number: int) -> str:
    """`A` to `Z`, then `AA` and so on."""
    return (letter(number // 26 - 1) if number >= 26 else "") + chr(ord("A") + number % 26)


def squeezed(text: str) -> str:
    """A text without case, markdown's marks, and spaces of which one would do."""
    plain = " ".join(re.sub(r"[*_`~\\>]", "", text).split()).casefold().rstrip(".")
    return plain or text.strip()


def answer_of(
    question: Question, ticked: Sequence[Any], other: str | None, words: str, unclear: Unclear
) -> dict[str, Any]:
    """The record of ticked choices, of what stands behind `Other:` (None where it is not chosen), and of the words."""
    several, words = is_multiple(question), words.strip()
    if not choices_of(question):
        return answered([words] if words and several else words)
    named = _named(question, words, begun=not ticked and not is_open(question))
    picked = [*ticked, *(choice for choice in named if choice not in ticked)]
    words = "" if named else words
    if is_open(question) and (found := OTHER.fullmatch(words)) and found["words"]:
        other, words = "\n".join(filter(None, [other, found["words"]])), ""
    if other == "":
        other, words = words, ""
        if not other:
            unclear("`Other` is ticked, and no words stand behind it")
    own = [other] if other else []
    if words and not picked and not own:
        picked, own, words = _alone(question, words, unclear)
    elif _LONE.fullmatch(words):
        unclear(f"`{shown(words)}` is none of the choices")
    elif words and several and is_open(question) and not own:
        own, words = [words], ""
    given = [*picked, *own]
    if several:
        return answered(given, comment=words)
    if len(given) > 1:
        chosen = " and ".join(f"`{shown(each)}`" for each in given)
        unclear(f"{chosen} are chosen, and the question takes one answer")
    return answered(given[0] if given else "", comment=words)


def _alone(question: Question, words: str, unclear: Unclear) -> tuple[list[Any], list[str], str]:
    """Words that name no choice as they are: a choice with a comment behind it, an answer of one's own, or unclear."""
    found = meant_by(question, words, begun=True)
    if not found and (head := _HEAD.fullmatch(words)):
        found = meant_by(question, head["head"])
        if len(found) == 1 and not is_open(question) and not _LETTER.fullmatch(head["rest"]):
            found += [choice for choice in meant_by(question, head["rest"], begun=True) if choice not in found]
            if len(found) == 1:
                return found, [], head["rest"]
    if not found and is_open(question) and not _LONE.fullmatch(words):
        return [], [words], ""
    may = " or ".join(f"`{shown(choice)}`" for choice in found)
    own = "; tick one, or write `other:` in front of words of your own" if is_open(question) else "; tick one"
    unclear(f"`{shown(words)}` {f'may mean {may}' if may else 'is none of the choices'}{own}")
    return [], [], ""


def _named(question: Question, words: str, *, begun: bool) -> list[Any]:
    """The choices that the words are, by themselves, a line each, or between commas; none where they are more.

    `begun`: also by the beginnings of their texts.
    """
    for between in _BETWEEN:
        parts = re.split(between, words) if between else [words]
        begun = begun and between != _SPACES
        found = [
            meant_by(question, part)
            or meant_by(question, _BULLET.sub("", part, count=1) if between else part, begun=begun)
            for part in parts
            if part.strip()
        ]
        if found and all(len(each) == 1 for each in found):
            return [choice for place, (choice,) in enumerate(found) if [choice] not in found[:place]]
    return []


def meant_by(question: Question, words: str, *, begun: bool = False) -> list[Any]:
    """The choices that the words may mean: by text and by letter, and where they are neither, as its beginning."""
    plain = squeezed(words)
    choices = choices_of(question)
    texts = [squeezed(shown(choice)) for choice in choices]
    exact = choice_like(question, words)
    found = [exact] if exact is not None else [choices[number] for number, text in enumerate(texts) if text == plain]
    by_letter = _LETTER.fullmatch(words.strip())
    for number, text in enumerate(texts) if by_letter else ():
        rest = squeezed(by_letter["rest"] or "") if by_letter else ""
        same = by_letter and by_letter["letter"].upper() == letter(number) and text.startswith(rest)
        if same and choices[number] not in found:
            found.append(choices[number])
    if not found and begun and plain:
        found = [choices[number] for number, text in enumerate(texts) if _begins(text, plain)]
    return found


def _begins(text: str, beginning: str) -> bool:
    """Whether a text begins so: with whole words, or with three letters and more."""
    if not text.startswith(beginning):
        return False
    return not text[len(beginning) :][:1].isalnum() or (len(beginning) >= _SHORTEST and beginning[-1].isalpha())
