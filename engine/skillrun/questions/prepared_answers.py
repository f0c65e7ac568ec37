"""Prepared answers from a YAML file: `--answers FILE`.

A key is the id of a question, the id of a step (for all its questions), or the address of a question or step
(`architecture/divergence`). In an address, the pass of a loop and the item of an `each` are optional. A value is the
answer, `{answer: …, confidence: …}`, or a list with one answer for each time that the question is asked.

Before a run, the questions of its workflow show whether the run needs a user and whether the prepared answers are
valid. Questions whose condition cannot be true with the inputs are left out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from collections.abc import Mapping as AbstractMapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, NamedTuple, cast

from skillrun.checker.program import NestedCall, Program, QuestionStep
from skillrun.checker.static_conditions import StaticConditions
from skillrun.definitions.definitions import strip_markers
from skillrun.definitions.reader import Reader
from skillrun.definitions.verbs import Key, Keys
from skillrun.questions.answers import (
    PREPARED,
    Answer,
    InvalidAnswer,
    Question,
    QuestionRecord,
    build_answer,
    choices_of,
    default_of,
    is_multiple,
    to_one_line,
    validate_answer,
)
from skillrun.syntax.diagnostics import Problems, SkillrunError, did_you_mean, render_problem
from skillrun.syntax.document import as_mapping, read_yaml
from skillrun.syntax.source import Mapping, Node, Scalar, Sequence, Span, entries_of, to_plain

KEYS: Final[Keys] = {
    "answer": Key("anything", "a text, a number, or a list of them", required=True),
    "confidence": Key("sentence", "the confidence level"),
}
RecordBuilder = Callable[[Question, Answer], QuestionRecord]
"""A function that builds the record of a question and its answer, as the run stores it."""


class InvalidPreparedAnswer(SkillrunError):
    """A prepared answer is invalid for its question. The question stays open."""

    def __init__(self, error: InvalidAnswer, span: Span, what: str) -> None:
        super().__init__(f"{span.path}:{span.line}:{span.column}: {error.message}, for {what}", error.next_step)
        self.path = span.path


class PreparedAnswer(NamedTuple):
    """A prepared answer and its position in the file."""

    span: Span
    answer: Any
    confidence: Any = None


class PreparedEntry(NamedTuple):
    """The value of a key. `whole` is the value itself. If it is a list, `items` has its items."""

    key: Span
    whole: PreparedAnswer
    items: tuple[PreparedAnswer, ...] | None = None


class PreparedAnswers:
    """The answers in a file. A list provides one answer each time that the question is asked."""

    def __init__(self, entries: AbstractMapping[str, PreparedEntry] | None = None, path: Path | None = None) -> None:
        self.path = path
        self._entries = entries or {}
        self._use_counts: Counter[str] = Counter()
        self._used_keys: set[str] = set()
        self.late_answers: dict[str, str] = {}
        """A line for each prepared answer that came too late for its question, keyed by the answer's key."""

    def take(self, key: str, question: Question, *, required: bool = False) -> Answer | None:
        """Return the prepared answer to a question that is asked now, or None if the file has no answer left.

        Raises InvalidPreparedAnswer if the answer is invalid, or if it is empty and `required` is set.
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

    def skip(self, key: str, questions: Iterable[Question]) -> None:
        """Count questions whose answers are in the journal. A list then continues with the answer for the next
        question. A single answer stays available."""
        for question in questions:
            name = self._find_key(key, question)
            if name is not None and self._has_answer_list(name, question):
                self._count_use(name)
            elif name is not None:
                self._used_keys.add(name)

    def mark_used(self, key: str, questions: Iterable[Question]) -> None:
        """Mark the prepared answers to `questions` as used. An earlier process asked these questions."""
        self._used_keys.update(filter(None, (self._find_key(key, question) for question in questions)))

    def note_late_answers(
        self, key: str, questions: Iterable[Question], records: Iterable[QuestionRecord], build_record: RecordBuilder
    ) -> None:
        """Note each prepared answer that differs from the answer in `records`. The answers in `records` come from an
        earlier process and stay valid. If a prepared answer is used later, its note is dropped.

        `build_record` builds the record of a prepared answer.
        """
        for question, record in zip(questions, records, strict=True):
            name = self._find_key(key, question)
            if name is None or self._use_counts[name] or self._has_answer_list(name, question):
                continue
            prepared = self._entries[name].whole
            with suppress(InvalidAnswer):
                late_record = build_record(question, _validate_prepared_answer(prepared, question))
                if late_record.get("answer") == record.get("answer"):
                    continue
            earlier_answer = (
                f"answered with `{_format_answer(record['answer'])}`" if "answer" in record else "left open"
            )
            prepared_text = _format_answer(prepared.answer)
            self.late_answers[name] = (
                f"`{question.get('id')}` was already {earlier_answer}, "
                f"so the prepared answer `{prepared_text}` was not used"
            )

    def has_unused_answers(self, key: str, questions: Iterable[Question]) -> bool:
        """Whether an unused answer remains for each question."""
        names = ((self._find_key(key, question), question) for question in questions)
        return all(name is not None and self._next_answer(name, question) is not None for name, question in names)

    def _next_answer(self, name: str, question: Question) -> PreparedAnswer | None:
        answers = _answers_per_time(self._entries[name], question)
        if answers is None:
            return self._entries[name].whole
        return answers[self._use_counts[name]] if self._use_counts[name] < len(answers) else None

    def _has_answer_list(self, name: str, question: Question) -> bool:
        """Whether the key `name` has a list with one answer for each time that the question is asked."""
        entry = self._entries[name]
        return entry.items is not None and _answers_per_time(entry, question) is not None

    def _count_use(self, name: str) -> None:
        self._used_keys.add(name)
        self._use_counts[name] += 1
        self.late_answers.pop(name, None)

    def unused_keys(self) -> list[str]:
        """Return the keys of the answers that no question used."""
        return [name for name in self._entries if name not in self._used_keys]

    def check_question(self, key: str, question: Question, problems: Problems) -> None:
        """Report the prepared answers that are invalid for the question, in any pass and for any item."""
        for entry in self.matching_entries(key, question):
            for answer in _answers_per_time(entry, question) or (entry.whole,):
                try:
                    _validate_prepared_answer(answer, question)
                except InvalidAnswer as error:
                    problems.report(answer.span, "answer", error.message, error.next_step)

    def check_names(self, known: set[str], problems: Problems) -> None:
        """Warn of unknown names that resemble the name of a question. Other unknown names may belong to computed
        questions."""
        for name, entry in self._entries.items():
            if strip_markers(name) not in known and (hint := did_you_mean(name, known)):
                problems.report(entry.key, "unknown-question", f"no question has the name `{name}`", hint, "warning")

    def _find_key(self, key: str, question: Question) -> str | None:
        return next((name for name in answer_keys(key, question) if name in self._entries), None)

    def matching_entries(self, key: str, question: Question) -> list[PreparedEntry]:
        """Return the entries for a question, in any pass and for any item."""
        names = answer_keys(key, question)
        return [written for name, written in self._entries.items() if strip_markers(name) in names]


def answer_keys(key: str, question: Question) -> tuple[str, ...]:
    """Return the keys that provide an answer to a question, most specific first: for this pass and item, for any pass
    and item, and for any step."""
    id_, step = str(question.get("id", "")), strip_markers(key)
    return (_sibling_key(key, id_), key, _sibling_key(step, id_), step, id_, step.rpartition("/")[2])


def unique_answer_key(key: str, question: Question) -> str:
    """Return a key that only this question has. It includes the pass and the item if the question may be asked several
    times."""
    id_ = str(question["id"])
    return id_ if strip_markers(key) == key or question.get("once") else _sibling_key(key, id_)


def _sibling_key(place: str, id_: str) -> str:
    """Return the address of the question `id_` in the step at the address `place`."""
    return f"{place.rpartition('/')[0]}/{id_}"


def read_answers(path: Path) -> PreparedAnswers:
    """Return the prepared answers in a file. Raises SkillrunError with all problems in the file."""
    problems = Problems()
    entries = read_yaml(path, problems, parse_prepared_answers)
    if problems.has_errors:
        text = "\n".join(map(render_problem, problems))
        raise SkillrunError(f"the prepared answers cannot be used:\n{text}", f"fix {path}, then run again")
    return PreparedAnswers(entries, path)


def _answers_per_time(entry: PreparedEntry, question: Question) -> tuple[PreparedAnswer, ...] | None:
    """Return the answers for the first, second and later times that a question is asked. None if one answer is used
    every time.

    The answer to a question with `once` is used only once. If it were used again, the question would be asked
    endlessly.
    """
    if entry.items is None:
        return (entry.whole,) if question.get("once") else None
    has_single_values = not any(isinstance(item, dict | list) for item in entry.whole.answer)
    return None if is_multiple(question) and has_single_values else entry.items


def parse_prepared_answers(node: Node, problems: Problems) -> dict[str, PreparedEntry]:
    """Return the entries of a file by key. Invalid values are reported."""
    reader = Reader(problems, literal=True)
    answers = {}
    for name, (key, value) in entries_of(as_mapping(node, problems)).items():
        if isinstance(value, Sequence):
            items = tuple(_parse_answer(item, reader) for item in value.items)
            answers[name] = PreparedEntry(key.span, PreparedAnswer(value.span, to_plain(value)), items)
        else:
            answers[name] = PreparedEntry(key.span, _parse_answer(value, reader))
    return answers


def _parse_answer(node: Node, reader: Reader) -> PreparedAnswer:
    values = reader.read(node, KEYS) if isinstance(node, Mapping) else {"answer": to_plain(node)}
    answer = node.get("answer") if isinstance(node, Mapping) else node
    for part in answer.items if isinstance(answer, Sequence) else (answer,) if answer else ():
        if not isinstance(part, Scalar):
            reader.report(part.span, "answer", "this is not a valid answer", "write a text, a list, or `{answer: …}`")
    return PreparedAnswer(node.span, values.get("answer"), values.get("confidence"))


def _format_answer(answer: Any) -> str:
    return ", ".join(map(to_one_line, answer if isinstance(answer, list) else [answer]))


def _validate_prepared_answer(prepared: PreparedAnswer, question: Question, *, required: bool = False) -> Answer:
    answer = build_answer(
        validate_answer(question, prepared.answer), confidence=prepared.confidence, answered_by=PREPARED
    )
    if required and "answer" not in answer:
        raise InvalidAnswer("the answer is empty, but the question requires an answer", "write an answer")
    return answer


# the questions that a run can ask


def unanswerable_questions(
    program: Program, prepared: PreparedAnswers, inputs: AbstractMapping[str, Any] | None = None
) -> list[str]:
    """Return a line for each step that prevents an unattended run of the program. Empty if no user is needed.

    `inputs` contains the inputs of the run, including defaults.
    """
    lines = []
    for ask in iterate_asks(program, inputs):
        address = strip_markers(ask.address)
        is_answered = not ask.waits_for_files and all(
            default_of(question) is not None or prepared.matching_entries(address, question)
            for question in questions_of(ask)
        )
        if not (ask.has_default or is_answered):
            place = f"{ask.step.span.path}:{ask.step.span.line}: `{address}`"
            if ask.waits_for_files:
                lines.append(f"{place} waits for files from the user: run without --unattended")
            else:
                one = (
                    f" (this answers it every time; `{ask.address}` answers it once)" if ask.address != address else ""
                )
                hint = f"answer `{address}` in --answers FILE{one}, "
                hint += "add a `default:` to the step, or run without --unattended"
                lines.append(f"{place} asks the user: {hint}")
    return list(dict.fromkeys(lines))


def check_answers(program: Program, prepared: PreparedAnswers) -> Problems:
    """Report prepared answers that are not among the choices, and unknown names that resemble a known name."""
    problems = Problems()
    known: set[str] = set()
    for ask in iterate_asks(program):
        for question in questions_of(ask):
            known |= {*answer_keys(strip_markers(ask.address), question)}
            if choices_of(question):
                prepared.check_question(strip_markers(ask.address), question, problems)
    prepared.check_names(known, problems)
    return problems


def iterate_asks(program: Program, inputs: AbstractMapping[str, Any] | None = None) -> Iterator[QuestionStep]:
    """Yield every `ask` that a run can reach, with its address in the run. If `inputs` are given, steps that cannot run
    with these inputs are left out."""
    return _asks_in_program(program, "", StaticConditions({"inputs": inputs}) if inputs is not None else None)


def questions_of(ask: QuestionStep) -> Iterator[Question]:
    """Yield the questions of a step. A computed question has only an id."""
    return (cast(Question, question) for question in ask.questions)


def _asks_in_program(program: Program, prefix: str, inputs: StaticConditions | None) -> Iterator[QuestionStep]:
    conditions = StaticConditions.for_program(program, inputs)
    for use in program.workflow.phases.values():
        if not conditions.rules_out(use.when):
            yield from _asks_in_records(program.question_steps.get(use.name, ()), f"{prefix}{use.name}", conditions)


def _asks_in_records(
    records: Iterable[QuestionStep | NestedCall], prefix: str, conditions: StaticConditions
) -> Iterator[QuestionStep]:
    for record in records:
        if any(conditions.rules_out(condition) for condition in record.conditions):
            continue
        address = f"{prefix}{record.address}"
        if isinstance(record, QuestionStep):
            yield replace(record, address=address)
            continue
        for target in record.callees:
            called = target.workflow if isinstance(target, Program) else target.protocol
            inputs = conditions.for_inputs(called.inputs, record.step.values.get("with"))
            if isinstance(target, Program):
                yield from _asks_in_program(target, f"{address}/", inputs)
            else:
                names = {**conditions.names, **inputs.names}
                yield from _asks_in_records(
                    target.question_steps,
                    address,
                    replace(inputs, names=names, mode_dependent_keys=conditions.mode_dependent_keys),
                )
