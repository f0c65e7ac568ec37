"""Answers given ahead in a YAML file: `--answers FILE`.

A key is a question's id, a step's id for all its questions, or where one of these stands (`architecture/divergence`;
the number of a loop's pass and the item of an `each` may be left out). A value is the answer, `{answer: …,
confidence: …}`, or a list, one for each time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from collections.abc import Mapping as AbstractMapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

from skillrun.definitions.reader import Reader
from skillrun.definitions.step_paths import unmarked
from skillrun.definitions.verbs import Key, Keys
from skillrun.questions.answers import (
    PREPARED,
    Answer,
    AnswerUnfit,
    Question,
    QuestionRecord,
    answered,
    fitted_answer,
    is_multiple,
    on_one_line,
)
from skillrun.syntax.diagnostics import Problems, SkillrunError, did_you_mean, render_problem
from skillrun.syntax.document import as_mapping, read_yaml
from skillrun.syntax.source import Mapping, MappingEntry, Node, Scalar, Sequence, Span, plain

KEYS: Final[Keys] = {
    "answer": Key("anything", "is a text, a number, or a list of them", required=True),
    "confidence": Key("sentence", "how sure it is"),
}
Read = Callable[[Question, Answer], QuestionRecord]
"""The record of a question with what was answered, as the run keeps it."""


class PreparedUnfit(SkillrunError):
    """A prepared answer that its question does not take; the question is still open."""

    def __init__(self, unfit: AnswerUnfit, span: Span, what: str) -> None:
        super().__init__(f"{span.path}:{span.line}:{span.column}: {unfit.message}, for {what}", unfit.next_step)
        self.path = span.path


class PreparedAnswer(NamedTuple):
    """An answer, and where it stands."""

    span: Span
    answer: Any
    confidence: Any = None


class PreparedEntry(NamedTuple):
    """What a file has for a key: the `whole` of it, and where it is a list the `items`, which may be `plain` values."""

    key: Span
    whole: PreparedAnswer
    items: tuple[PreparedAnswer, ...] | None
    plain: bool = False


class Prepared:
    """The answers of a file; a list gives one after the other."""

    def __init__(self, entries: AbstractMapping[str, PreparedEntry] | None = None, path: Path | None = None) -> None:
        self.path = path
        self._entries = entries or {}
        self._used: Counter[str] = Counter()
        self._taken: set[str] = set()
        self._late: dict[str, str] = {}

    def take(self, key: str, question: Question, *, required: bool = False) -> Answer | None:
        """The answer of a question that is put now; None where the file has none.

        Raises PreparedUnfit, also for an empty answer where one is `required`.
        """
        name = self._name(key, question)
        if name is None:
            return None
        ahead = self._next(name, question)
        self._count(name)
        if ahead is None:
            return None
        try:
            return _answer(ahead, question, required=required)
        except AnswerUnfit as unfit:
            raise PreparedUnfit(unfit, ahead.span, f"`{question.get('id')}` of `{key}`") from None

    def skip(self, key: str, question: Question) -> None:
        """Count a question that was put before, so that lists go on behind it; one answer is for what comes now."""
        name = self._name(key, question)
        if name is not None and self._counts(name, question):
            self._count(name)
        elif name is not None:
            self._taken.add(name)

    def was_asked(self, key: str, question: Question) -> None:
        """Count the answer to a question of an earlier process as one that a question has taken."""
        if (name := self._name(key, question)) is not None:
            self._taken.add(name)

    def come_late(self, key: str, question: Question, record: QuestionRecord, read: Read) -> None:
        """Note the answer to a question that has another one since an earlier process, unless one comes that takes it.

        `record` has that answer, and `read` gives the record that the one of the file would have had.
        """
        name = self._name(key, question)
        if name is None or self._used[name] or self._counts(name, question):
            return
        ahead = self._entries[name].whole
        with suppress(AnswerUnfit):
            if read(question, _answer(ahead, question)).get("answer") == record.get("answer"):
                return
        before = f"with `{_words(record['answer'])}`" if "answer" in record else "and left open"
        given = _words(ahead.answer)
        self._late[name] = f"`{question.get('id')}` was answered before, {before}: the prepared `{given}` was not used"

    def late(self) -> list[str]:
        """A line for each answer that came too late for its question."""
        return [*self._late.values()]

    def ready(self, key: str, question: Question) -> bool:
        """Whether an answer is left for such a question."""
        name = self._name(key, question)
        return name is not None and self._next(name, question) is not None

    def _next(self, name: str, question: Question) -> PreparedAnswer | None:
        times = _each_time(self._entries[name], question)
        if times is None:
            return self._entries[name].whole
        return times[self._used[name]] if self._used[name] < len(times) else None

    def _counts(self, name: str, question: Question) -> bool:
        """Whether the file has an answer there for each time."""
        written = self._entries[name]
        return written.items is not None and _each_time(written, question) is not None

    def _count(self, name: str) -> None:
        self._taken.add(name)
        self._used[name] += 1
        self._late.pop(name, None)

    def unused(self) -> list[str]:
        """The keys of answers that no question used."""
        return [name for name in self._entries if name not in self._taken]

    def has(self, key: str, question: Question) -> bool:
        """Whether there is an answer for such a question, whatever the pass and the item."""
        return bool(self._meant(key, question))

    def check(self, key: str, question: Question, problems: Problems) -> None:
        """Report the answers that such a question would not take, in any pass and for any item."""
        for written in self._meant(key, question):
            for answer in _each_time(written, question) or (written.whole,):
                try:
                    _answer(answer, question)
                except AnswerUnfit as unfit:
                    problems.report(answer.span, "answer", unfit.message, unfit.next_step)

    def check_names(self, known: set[str], problems: Problems) -> None:
        """Warn of names that are close to one of a question; what else is unknown, a computed question may have."""
        for name, written in self._entries.items():
            if unmarked(name) not in known and (hint := did_you_mean(name, known)):
                problems.report(written.key, "unknown-question", f"no question is called `{name}`", hint, "warning")

    def _name(self, key: str, question: Question) -> str | None:
        return next((name for name in names_of(key, question) if name in self._entries), None)

    def _meant(self, key: str, question: Question) -> list[PreparedEntry]:
        """What the file has for a question in any pass, and for any item, of what it stands in."""
        names = names_of(key, question)
        return [written for name, written in self._entries.items() if unmarked(name) in names]


def names_of(key: str, question: Question) -> tuple[str, ...]:
    """What a question of a step may be called, the most exact first: of this pass and item, of any, and anywhere."""
    id_, step = str(question.get("id", "")), unmarked(key)
    return (_beside(key, id_), key, _beside(step, id_), step, id_, step.rpartition("/")[2])


def own_name(key: str, question: Question) -> str:
    """What calls this question and no other: where it may be asked several times, with the pass and the item."""
    id_ = str(question["id"])
    return id_ if unmarked(key) == key or question.get("once") else _beside(key, id_)


def _beside(place: str, id_: str) -> str:
    """The place of a question whose step stands there."""
    return f"{place.rpartition('/')[0]}/{id_}"


def read_answers(path: Path) -> Prepared:
    """The prepared answers of a file. Raises SkillrunError with everything that is wrong with it."""
    problems = Problems()
    entries = read_yaml(path, problems, read_prepared)
    if problems.errors:
        text = "\n".join(map(render_problem, problems))
        raise SkillrunError(f"the prepared answers cannot be used:\n{text}", f"mend {path}, then run again")
    return Prepared(entries, path)


def _each_time(written: PreparedEntry, question: Question) -> tuple[PreparedAnswer, ...] | None:
    """The answers of a list that has one for each time; None where one answer is for all times.

    A question that says `once` is one that an answer for all times would put without end.
    """
    if written.items is None:
        return (written.whole,) if question.get("once") else None
    return None if is_multiple(question) and written.plain else written.items


def read_prepared(node: Node, problems: Problems) -> dict[str, PreparedEntry]:
    """The answers of a file by their keys; what is none, nor a list of answers, is reported where it stands."""
    reader = Reader(problems, literal=True)
    mapping = as_mapping(node, problems)
    return {name: _written(entry, reader) for name, entry in mapping.entries.items()} if mapping is not None else {}


def _written(entry: MappingEntry, reader: Reader) -> PreparedEntry:
    node = entry.value
    if not isinstance(node, Sequence):
        return PreparedEntry(entry.key.span, _ahead(node, reader), None)
    items = tuple(_ahead(item, reader) for item in node.items)
    plain_items = all(isinstance(item, Scalar) for item in node.items)
    return PreparedEntry(entry.key.span, PreparedAnswer(node.span, plain(node)), items, plain_items)


def _ahead(node: Node, reader: Reader) -> PreparedAnswer:
    values = reader.read(node, KEYS) if isinstance(node, Mapping) else {"answer": plain(node)}
    answer = node.get("answer") if isinstance(node, Mapping) else node
    for part in answer.items if isinstance(answer, Sequence) else (answer,) if answer else ():
        if not isinstance(part, Scalar):
            reader.report(part.span, "answer", "this is no answer", "write a text, a list, or `{answer: …}`")
    return PreparedAnswer(node.span, values.get("answer"), values.get("confidence"))


def _words(answer: Any) -> str:
    return ", ".join(map(on_one_line, answer if isinstance(answer, list) else [answer]))


def _answer(ahead: PreparedAnswer, question: Question, *, required: bool = False) -> Answer:
    answer = answered(fitted_answer(question, ahead.answer), confidence=ahead.confidence, answered_by=PREPARED)
    if required and "answer" not in answer:
        raise AnswerUnfit("the answer is empty, and the question needs one", "write an answer")
    return answer
