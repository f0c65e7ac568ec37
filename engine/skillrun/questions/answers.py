"""Records of questions and answers: choices, defaults, and the validation of answers. Does not ask questions."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, TypedDict, cast

from skillrun.syntax.diagnostics import SkillrunError, allowed_hint, did_you_mean, make_printable
from skillrun.templates.values import Absent
from skillrun.types.records import NonNegativeInt


class Question(TypedDict, total=False):
    """A question to the user. It comes from the workflow's author or from a model, and may have further keys."""

    id: str
    text: str
    choices: object
    other: object
    multiple: object
    default: object
    skip: object
    levels: object
    recommended: object
    depends: object
    notes: object
    priority: object
    section: object
    means: Mapping[str, object]
    """Maps synonyms to the choices that they mean."""
    once: bool
    round: NonNegativeInt
    version: str
    """The version of what the question is about. An answer for another version does not count."""


class Answer(TypedDict, total=False):
    """The answer to a question. If `answer` is missing, the question is open."""

    answer: Any
    answered_by: str
    asked_at: str
    confidence: str
    comment: str
    ended: bool
    shown: bool


class QuestionRecord(Question, Answer, total=False):
    """A question with its answer, as the run stores it."""


MAX_ANSWER: Final = 100_000  # characters of an answer
GENERATED_NOTE: Final = "may contain generated text"
"""The note on a question whose text does not come from the workflow. A model may have written such a text."""
ENDED: Final[Answer] = {"ended": True}
"""Stored instead of an answer if the user ended the list at this question."""
UNSEEN: Final[Answer] = {"ended": True, "shown": False}
"""Stored instead of an answer if the user ended the list before this question was shown."""
PERSON, PREPARED, DEFAULT = "person", "prepared", "default"
"""The values of `answered_by` in an answer's record. `person` is used only for answers that a user gave."""


class InvalidAnswer(SkillrunError):
    """The answer is invalid for its question."""


def choices_of(question: Question) -> list[Any]:
    """Return the choices of a question, without empty and blank texts."""
    choices = question.get("choices")
    return [choice for choice in choices if str(choice).strip()] if isinstance(choices, list | tuple) else []


def accepts_free_text(question: Question) -> bool:
    """Whether free text is a valid answer."""
    return not choices_of(question) or question.get("other") is True


def is_multiple(question: Question) -> bool:
    return question.get("multiple") is True


def levels_of(question: Question) -> list[str]:
    """Return the confidence levels that an answer may have, highest first. Empty if the question has none."""
    levels = question.get("levels")
    return [to_one_line(level) for level in levels] if isinstance(levels, list | tuple) else []


def may_skip(question: Question) -> bool:
    return question.get("skip") is True


def needs_answer(question: Question) -> bool:
    """Whether the question has no default and cannot be skipped."""
    return default_of(question) is None and not may_skip(question)


def with_fields(question: Question, **fields: object) -> Question:
    """Return a copy of the question with `fields` replaced."""
    return cast(Question, {**question, **fields})


def default_of(question: Question) -> Any:
    """Return the default answer: None if an answer is required, empty if the question may be left open."""
    default = question.get("default")
    return None if isinstance(default, Absent) else default


def notes_of(question: Question) -> list[str]:
    """Return the notes of a question, one line each. A note is a text, or a record such as `{perspective, note}`."""
    notes = question.get("notes") or []
    return [
        ": ".join(map(to_one_line, note.values())) if isinstance(note, Mapping) else to_one_line(note)
        for note in (notes if isinstance(notes, list | tuple) else [notes])
    ]


def context_lines(question: Question) -> list[str]:
    """Return the context of a question, one line each: the recommended answer, what depends on the answer, and the
    notes."""
    parts = (("Recommended", question.get("recommended")), ("What depends on it", question.get("depends")))
    return [*(f"{title}: {to_one_line(text)}" for title, text in parts if text), *notes_of(question)]


def to_one_line(value: Any) -> str:
    """Return a choice, or any other value, as one line without control characters."""
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return " ".join(make_printable(text).split())


def build_answer(answer: object, **details: object) -> Answer:
    """Return the record of an answer with its details. For an empty answer, only the comment is kept."""
    known_details = {name: value for name, value in details.items() if value not in (None, "")}
    if answer is None or answer in ("", []):
        return cast(Answer, {name: value for name, value in known_details.items() if name == "comment"})
    return cast(Answer, {"answer": answer, **known_details})


def default_answer(question: Question) -> Answer:
    return build_answer(default_of(question), answered_by=DEFAULT)


def find_choice(question: Question, answer: Any) -> Any | None:
    """Return the choice that an answer names, ignoring case; None if no choice matches.

    Synonyms in the question's `means` also name a choice.
    """
    synonyms = question.get("means")
    names = [*synonyms.items()] if isinstance(synonyms, Mapping) else []
    names += [(to_one_line(choice), choice) for choice in choices_of(question)]
    for normalize in (str, str.casefold):
        for name, choice in names:
            if normalize(name) == normalize(to_one_line(answer)):
                return choice
    return None


def find_levels(question: Question, text: str) -> list[str]:
    """Return the confidence levels that a text names, ignoring case. The text may be the beginning of a level."""
    levels = levels_of(question)
    exact = [level for level in levels if level.casefold() == text.casefold()]
    return exact or [level for level in levels if text and level.casefold().startswith(text.casefold())]


def explain_length(text: str) -> str:
    """Return why a text is too long for an answer; empty if it is not."""
    return (
        f"the answer has {len(text):,} characters; at most {MAX_ANSWER:,} are allowed" if len(text) > MAX_ANSWER else ""
    )


def validate_answer(question: Question, answer: Any) -> Any:
    """Return the validated answer, with each choice spelled as in the question. Raises InvalidAnswer."""
    items = [item for item in (answer if isinstance(answer, list) else [answer]) if item not in (None, "")]
    if len(items) > 1 and not is_multiple(question):
        raise InvalidAnswer(f"the question takes one answer, not {len(items)}")
    answers = [_validate_item(question, item) for item in items]
    return answers if is_multiple(question) else answers[0] if answers else ""


def _validate_item(question: Question, answer: Any) -> Any:
    if isinstance(answer, str) and (why := explain_length(answer)):
        raise InvalidAnswer(why, "shorten the answer")
    choice = find_choice(question, answer)
    if choice is not None:
        return choice
    if accepts_free_text(question):
        return answer.strip() if isinstance(answer, str) else to_one_line(answer)
    labels = [to_one_line(choice) for choice in choices_of(question)]
    hint = did_you_mean(to_one_line(answer), labels)
    raise InvalidAnswer(f"`{to_one_line(answer)}` is not one of the choices", f"{hint} {allowed_hint(labels)}".strip())


_DOUBLED: Final = re.compile(r"(?<=[\w)\]\"'`’”])([.!?])\.(?=\s|$)")


def remove_double_stops(text: str) -> str:
    """Remove a full stop directly after a full stop, question mark or exclamation mark. Templates produce it when they
    add a full stop to a complete sentence. An ellipsis stays."""
    return _DOUBLED.sub(r"\1", text)
