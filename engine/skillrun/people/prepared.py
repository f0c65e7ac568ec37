"""Answers given ahead in a YAML file: `--answers FILE`.

A key is a question's id, a step's id for all its questions, or where it stands (`architecture/divergence`; the number
of a loop's pass and the item of an `each` may be left out). A value is the answer, `{answer: …, confidence: …}`, or a
list, one for each time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from collections.abc import Mapping as AbstractMapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from skillrun.language.files.kinds import Key, Keys
from skillrun.language.files.places import unmarked
from skillrun.language.files.reader import Reader
from skillrun.language.text.diagnostics import Problems, SkillrunError, did_you_mean, render
from skillrun.language.text.document import as_mapping, read_yaml
from skillrun.language.text.source import Entry, Mapping, Node, Scalar, Sequence, plain
from skillrun.people.answers import (
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

KEYS: Final[Keys] = {
    "answer": Key("anything", "is a text, a number, or a list of them", required=True),
    "confidence": Key("sentence", "how sure it is"),
}
Read = Callable[[Question, Answer], QuestionRecord]
"""The record of a question with what was answered, as the run keeps it."""


class PreparedUnfit(SkillrunError):
    """A prepared answer that its question does not take; the question is still open."""

    def __init__(self, unfit: AnswerUnfit, node: Node, what: str) -> None:
        place = f"{node.span.path}:{node.span.line}:{node.span.column}"
        super().__init__(f"{place}: {unfit.message}, for {what}", unfit.next_step)
        self.path = node.span.path


class Prepared:
    """The answers of a file; a list gives one after the other."""

    def __init__(self, entries: AbstractMapping[str, Entry] | None = None, path: Path | None = None) -> None:
        self.path = path
        self._entries = entries or {}
        self._used: Counter[str] = Counter()
        self._taken: set[str] = set()
        self._late: dict[str, str] = {}

    def take(self, key: str, question: Question) -> Answer | None:
        """The answer of a question that is put now; None where the file has none. Raises PreparedUnfit."""
        name = self._name(key, question)
        if name is None:
            return None
        node = self._next(name, question)
        self._count(name)
        if node is None:
            return None
        try:
            return _answer(node, question)
        except AnswerUnfit as unfit:
            raise PreparedUnfit(unfit, node, f"`{question.get('id')}` of `{key}`") from None

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
        node = self._entries[name].value
        with suppress(AnswerUnfit):
            if read(question, _answer(node, question)).get("answer") == record.get("answer"):
                return
        before = f"with `{_words(record['answer'])}`" if "answer" in record else "and left open"
        given = plain(node)
        given = _words(given["answer"] if isinstance(given, dict) else given)
        self._late[name] = f"`{question.get('id')}` was answered before, {before}: the prepared `{given}` was not used"

    def late(self) -> list[str]:
        """A line for each answer that came too late for its question."""
        return [*self._late.values()]

    def ready(self, key: str, question: Question) -> bool:
        """Whether an answer is left for such a question."""
        name = self._name(key, question)
        return name is not None and self._next(name, question) is not None

    def _next(self, name: str, question: Question) -> Node | None:
        nodes = _each_time(self._entries[name].value, question)
        if nodes is None:
            return self._entries[name].value
        return nodes[self._used[name]] if self._used[name] < len(nodes) else None

    def _counts(self, name: str, question: Question) -> bool:
        """Whether the file has an answer there for each time."""
        node = self._entries[name].value
        return isinstance(node, Sequence) and _each_time(node, question) is not None

    def _count(self, name: str) -> None:
        self._taken.add(name)
        self._used[name] += 1
        self._late.pop(name, None)

    def unused(self) -> list[str]:
        """The keys of answers that no question has taken."""
        return [name for name in self._entries if name not in self._taken]

    def has(self, key: str, question: Question) -> bool:
        """Whether there is an answer for such a question."""
        return self._name(key, question) is not None

    def check(self, key: str, question: Question, problems: Problems) -> None:
        """Report the answers that such a question would not take."""
        name = self._name(key, question)
        if name is None:
            return
        node = self._entries[name].value
        for each in _each_time(node, question) or (node,):
            try:
                _answer(each, question)
            except AnswerUnfit as unfit:
                problems.report(each.span, "answer", unfit.message, unfit.next_step)

    def check_names(self, known: set[str], problems: Problems) -> None:
        """Warn of names that are close to one of a question; what else is unknown, a computed question may have."""
        for name, entry in self._entries.items():
            if unmarked(name) not in known and (hint := did_you_mean(name, known)):
                problems.report(entry.key.span, "unknown-question", f"no question is called `{name}`", hint, "warning")

    def _name(self, key: str, question: Question) -> str | None:
        step = unmarked(key)
        names = (key, step, str(question.get("id", "")), step.rpartition("/")[2])
        return next((name for name in names if name in self._entries), None)


def read_answers(path: Path) -> Prepared:
    """The prepared answers of a file. Raises SkillrunError with everything that is wrong with it."""
    problems = Problems()
    node = read_yaml(path, problems, _check)
    if problems.errors:
        text = "\n".join(map(render, problems))
        raise SkillrunError(f"the prepared answers cannot be used:\n{text}", f"mend {path}, then run again")
    return Prepared(node.entries if isinstance(node, Mapping) else {}, path)


def _each_time(node: Node, question: Question) -> tuple[Node, ...] | None:
    """The answers of a list that has one for each time; None where one answer is for all times.

    A question that says `once` is one that an answer for all times would put without end.
    """
    if not isinstance(node, Sequence):
        return (node,) if question.get("once") else None
    choices = is_multiple(question) and all(isinstance(item, Scalar) for item in node.items)
    return None if choices else node.items


def _check(node: Node, problems: Problems) -> None:
    """Report what is no answer, nor a list of answers."""
    reader = Reader(problems, literal=True)
    mapping = as_mapping(node, problems)
    for entry in mapping.entries.values() if mapping is not None else ():
        for item in entry.value.items if isinstance(entry.value, Sequence) else (entry.value,):
            if isinstance(item, Mapping):
                reader.read(item, KEYS)
            found = item.get("answer") if isinstance(item, Mapping) else item
            parts = found.items if isinstance(found, Sequence) else (found,) if found else ()
            for part in parts:
                if not isinstance(part, Scalar):
                    problems.report(part.span, "answer", "this is no answer", "write a text, a list, or `{answer: …}`")


def _words(answer: Any) -> str:
    return ", ".join(map(on_one_line, answer if isinstance(answer, list) else [answer]))


def _answer(node: Node, question: Question) -> Answer:
    given: Any = plain(node)
    if isinstance(given, dict):
        answer, sure = fitted_answer(question, given["answer"]), given.get("confidence")
        return answered(answer, confidence=sure, answered_by=PREPARED)
    return answered(fitted_answer(question, given), answered_by=PREPARED)
