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
from skillrun.definitions.step_paths import strip_markers
from skillrun.definitions.verbs import Key, Keys
from skillrun.questions.answers import (
    PREPARED,
    Answer,
    InvalidAnswer,
    Question,
    QuestionRecord,
    build_answer,
    is_multiple,
    to_one_line,
    validate_answer,
)
from skillrun.syntax.diagnostics import Problems, SkillrunError, did_you_mean, render_problem
from skillrun.syntax.document import as_mapping, read_yaml
from skillrun.syntax.source import Mapping, MappingEntry, Node, Scalar, Sequence, Span, to_plain

KEYS: Final[Keys] = {
    "answer": Key("anything", "is a text, a number, or a list of them", required=True),
    "confidence": Key("sentence", "how sure it is"),
}
RecordBuilder = Callable[[Question, Answer], QuestionRecord]
"""The record of a question with what was answered, as the run keeps it."""


class InvalidPreparedAnswer(SkillrunError):
    """A prepared answer that its question does not take; the question is still open."""

    def __init__(self, error: InvalidAnswer, span: Span, what: str) -> None:
        super().__init__(f"{span.path}:{span.line}:{span.column}: {error.message}, for {what}", error.next_step)
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
    is_plain: bool = False


class PreparedAnswers:
    """The answers of a file; a list gives one after the other."""

    def __init__(self, entries: AbstractMapping[str, PreparedEntry] | None = None, path: Path | None = None) -> None:
        self.path = path
        self._entries = entries or {}
        self._use_counts: Counter[str] = Counter()
        self._used_keys: set[str] = set()
        self._late_answers: dict[str, str] = {}

    def take(self, key: str, question: Question, *, required: bool = False) -> Answer | None:
        """The answer of a question that is put now; None where the file has none.

        Raises InvalidPreparedAnswer, also for an empty answer where one is `required`.
        """
        name = self._find_key(key, question)
        if name is None:
            return None
        prepared = self._next_answer(name, question)
        self._count_use(name)
        if prepared is None:
            return None
        try:
            return _validate_prepared_answer(prepared, question, required=required)
        except InvalidAnswer as error:
            raise InvalidPreparedAnswer(error, prepared.span, f"`{question.get('id')}` of `{key}`") from None

    def skip(self, key: str, question: Question) -> None:
        """Count a question that was put before, so that lists go on behind it; one answer is for what comes now."""
        name = self._find_key(key, question)
        if name is not None and self._has_answer_list(name, question):
            self._count_use(name)
        elif name is not None:
            self._used_keys.add(name)

    def mark_used(self, key: str, question: Question) -> None:
        """Count the answer to a question of an earlier process as one that a question has taken."""
        if (name := self._find_key(key, question)) is not None:
            self._used_keys.add(name)

    def note_late_answer(
        self, key: str, question: Question, record: QuestionRecord, build_record: RecordBuilder
    ) -> None:
        """Note the answer to a question that has another one since an earlier process, unless one comes that takes it.

        `record` has that answer, and `read` gives the record that the one of the file would have had.
        """
        name = self._find_key(key, question)
        if name is None or self._use_counts[name] or self._has_answer_list(name, question):
            return
        prepared = self._entries[name].whole
        with suppress(InvalidAnswer):
            if build_record(question, _validate_prepared_answer(prepared, question)).get("answer") == record.get(
                "answer"
            ):
                return
        earlier_answer = f"with `{_format_answer(record['answer'])}`" if "answer" in record else "and left open"
        prepared_text = _format_answer(prepared.answer)
        self._late_answers[name] = (
            f"`{question.get('id')}` was answered before, {earlier_answer}: the prepared `{prepared_text}` was not used"
        )

    def late_answers(self) -> list[str]:
        """A line for each answer that came too late for its question."""
        return [*self._late_answers.values()]

    def has_unused_answer(self, key: str, question: Question) -> bool:
        """Whether an answer is left for such a question."""
        name = self._find_key(key, question)
        return name is not None and self._next_answer(name, question) is not None

    def _next_answer(self, name: str, question: Question) -> PreparedAnswer | None:
        answers = _answers_per_time(self._entries[name], question)
        if answers is None:
            return self._entries[name].whole
        return answers[self._use_counts[name]] if self._use_counts[name] < len(answers) else None

    def _has_answer_list(self, name: str, question: Question) -> bool:
        """Whether the file has an answer there for each time."""
        entry = self._entries[name]
        return entry.items is not None and _answers_per_time(entry, question) is not None

    def _count_use(self, name: str) -> None:
        self._used_keys.add(name)
        self._use_counts[name] += 1
        self._late_answers.pop(name, None)

    def unused_keys(self) -> list[str]:
        """The keys of answers that no question used."""
        return [name for name in self._entries if name not in self._used_keys]

    def has_answer(self, key: str, question: Question) -> bool:
        """Whether there is an answer for such a question, whatever the pass and the item."""
        return bool(self._matching_entries(key, question))

    def check_question(self, key: str, question: Question, problems: Problems) -> None:
        """Report the answers that such a question would not take, in any pass and for any item."""
        for entry in self._matching_entries(key, question):
            for answer in _answers_per_time(entry, question) or (entry.whole,):
                try:
                    _validate_prepared_answer(answer, question)
                except InvalidAnswer as error:
                    problems.report(answer.span, "answer", error.message, error.next_step)

    def check_names(self, known: set[str], problems: Problems) -> None:
        """Warn of names that are close to one of a question; what else is unknown, a computed question may have."""
        for name, entry in self._entries.items():
            if strip_markers(name) not in known and (hint := did_you_mean(name, known)):
                problems.report(entry.key, "unknown-question", f"no question is called `{name}`", hint, "warning")

    def _find_key(self, key: str, question: Question) -> str | None:
        return next((name for name in answer_keys(key, question) if name in self._entries), None)

    def _matching_entries(self, key: str, question: Question) -> list[PreparedEntry]:
        """What the file has for a question in any pass, and for any item, of what it stands in."""
        names = answer_keys(key, question)
        return [written for name, written in self._entries.items() if strip_markers(name) in names]


def answer_keys(key: str, question: Question) -> tuple[str, ...]:
    """What a question of a step may be called, the most exact first: of this pass and item, of any, and anywhere."""
    id_, step = str(question.get("id", "")), strip_markers(key)
    return (_sibling_key(key, id_), key, _sibling_key(step, id_), step, id_, step.rpartition("/")[2])


def unique_answer_key(key: str, question: Question) -> str:
    """What calls this question and no other: where it may be asked several times, with the pass and the item."""
    id_ = str(question["id"])
    return id_ if strip_markers(key) == key or question.get("once") else _sibling_key(key, id_)


def _sibling_key(place: str, id_: str) -> str:
    """The place of a question whose step stands there."""
    return f"{place.rpartition('/')[0]}/{id_}"


def read_answers(path: Path) -> PreparedAnswers:
    """The prepared answers of a file. Raises SkillrunError with everything that is wrong with it."""
    problems = Problems()
    entries = read_yaml(path, problems, parse_prepared_answers)
    if problems.has_errors:
        text = "\n".join(map(render_problem, problems))
        raise SkillrunError(f"the prepared answers cannot be used:\n{text}", f"mend {path}, then run again")
    return PreparedAnswers(entries, path)


def _answers_per_time(entry: PreparedEntry, question: Question) -> tuple[PreparedAnswer, ...] | None:
    """The answers of a list that has one for each time; None where one answer is for all times.

    A question that says `once` is one that an answer for all times would put without end.
    """
    if entry.items is None:
        return (entry.whole,) if question.get("once") else None
    return None if is_multiple(question) and entry.is_plain else entry.items


def parse_prepared_answers(node: Node, problems: Problems) -> dict[str, PreparedEntry]:
    """The answers of a file by their keys; what is none, nor a list of answers, is reported where it stands."""
    reader = Reader(problems, literal=True)
    mapping = as_mapping(node, problems)
    return {name: _parse_entry(entry, reader) for name, entry in mapping.entries.items()} if mapping is not None else {}


def _parse_entry(entry: MappingEntry, reader: Reader) -> PreparedEntry:
    node = entry.value
    if not isinstance(node, Sequence):
        return PreparedEntry(entry.key.span, _parse_answer(node, reader), None)
    items = tuple(_parse_answer(item, reader) for item in node.items)
    plain_items = all(isinstance(item, Scalar) for item in node.items)
    return PreparedEntry(entry.key.span, PreparedAnswer(node.span, to_plain(node)), items, plain_items)


def _parse_answer(node: Node, reader: Reader) -> PreparedAnswer:
    values = reader.read(node, KEYS) if isinstance(node, Mapping) else {"answer": to_plain(node)}
    answer = node.get("answer") if isinstance(node, Mapping) else node
    for part in answer.items if isinstance(answer, Sequence) else (answer,) if answer else ():
        if not isinstance(part, Scalar):
            reader.report(part.span, "answer", "this is no answer", "write a text, a list, or `{answer: …}`")
    return PreparedAnswer(node.span, values.get("answer"), values.get("confidence"))


def _format_answer(answer: Any) -> str:
    return ", ".join(map(to_one_line, answer if isinstance(answer, list) else [answer]))


def _validate_prepared_answer(prepared: PreparedAnswer, question: Question, *, required: bool = False) -> Answer:
    answer = build_answer(
        validate_answer(question, prepared.answer), confidence=prepared.confidence, answered_by=PREPARED
    )
    if required and "answer" not in answer:
        raise InvalidAnswer("the answer is empty, and the question needs one", "write an answer")
    return answer
