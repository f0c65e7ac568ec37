"""Prepared answers from a YAML file: `--answers FILE`.

A key is the id of a question, the id of a step (for all its questions), or the address of a question or step
(`architecture/divergence`). In an address, the pass of a loop, the item of an `each` and the round are optional. A key
that fits questions of several steps is refused. A value is the answer, `{answer: …, confidence: …}`, or a list with one
answer for each time that the question is asked.

A single answer that fits a question for which the run has waited answers that question, and no question that was asked
later: the user has not seen it yet.

Before a run, the questions of its workflow show whether the run needs a user and whether the prepared answers are
valid. Questions whose condition cannot be true with the inputs are left out.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from collections.abc import Mapping as AbstractMapping
from collections.abc import Sequence as AbstractSequence
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
    accepts_free_text,
    build_answer,
    choices_of,
    default_of,
    find_choice,
    find_levels,
    is_multiple,
    levels_of,
    to_one_line,
    validate_answer,
)
from skillrun.questions.written_answers import find_named_choice
from skillrun.syntax.diagnostics import Problems, SkillrunError, allowed_hint, did_you_mean, render_problem
from skillrun.syntax.document import as_mapping, read_yaml
from skillrun.syntax.source import Mapping, Node, Scalar, Sequence, Span, entries_of, to_plain

KEYS: Final[Keys] = {
    "answer": Key("anything", "a text, a number, or a list of them", required=True),
    "confidence": Key("sentence", "the confidence level"),
}
_ROUND: Final = re.compile(r"@([\d.]+)$")
_NUMBER: Final = re.compile(r"(-\d+)+$")
RecordBuilder = Callable[[Question, Answer], QuestionRecord]
"""A function that builds the record of a question and its answer, as the run stores it."""


class InvalidPreparedAnswer(SkillrunError):
    """A prepared answer is invalid for its question. The question stays open."""

    def __init__(self, error: InvalidAnswer, span: Span, key: str, question: Question) -> None:
        what = f"`{question.get('id')}` of `{split_key(key)[0]}`"
        super().__init__(f"{span.path}:{span.line}:{span.column}: {error.message}, for {what}", error.next_step)
        self.path = span.path


class PreparedAnswer(NamedTuple):
    """A prepared answer and its position in the file."""

    span: Span
    answer: Any
    confidence: Any = None
    null: str = ""
    """The word for null, `null` or `~`, if the answer is this word: it could be text, too."""


class PreparedEntry(NamedTuple):
    """The value of a key. `whole` is the value itself. If it is a list, `items` has its items."""

    key: Span
    whole: PreparedAnswer
    items: tuple[PreparedAnswer, ...] | None = None


class ShownQuestion(NamedTuple):
    """A question for which an earlier process waited, and the record of its answer, if it was answered since.

    `key` is the address of its step with the round. `shown_at` and `answered_at` count the events of the run.
    """

    key: str
    question: Question
    shown_at: int
    record: QuestionRecord | None = None
    answered_at: int = 0


class PreparedAnswers:
    """The answers in a file. A list provides one answer each time that the question is asked."""

    def __init__(self, entries: AbstractMapping[str, PreparedEntry] | None = None, path: Path | None = None) -> None:
        self.path = path
        self._entries = entries or {}
        self._use_counts: Counter[str] = Counter()
        self._used_keys: set[str] = set()
        self._counted: set[tuple[str, str]] = set()  # the steps and ids of the questions that count as asked
        self._steps: dict[str, str] = {}  # keyed by key: the step that used it first, without passes and items
        self._allowed: dict[str, set[tuple[str, str]]] = {}
        """The questions that the answer to a question for which the run has waited may answer: step and id."""
        self.late_answers: dict[str, str] = {}
        """A line for each prepared answer that came too late for its question, keyed by the answer's key."""

    def restrict(self, shown: Iterable[ShownQuestion]) -> None:
        """Restrict each single answer that fits a question in `shown` to such questions: a later question has not been
        shown to the user who wrote the answer. An answer that was used before a question was shown does not fit it."""
        questions_by_name: dict[str, list[ShownQuestion]] = {}
        for each in shown:
            name = self._find_key(each.key, each.question)
            if name is not None and not self._has_answer_list(name, each.question):
                questions_by_name.setdefault(name, []).append(each)
        for name, questions in questions_by_name.items():
            uses = [each.answered_at for each in questions if self._has_answered(name, each)]
            first_use = min(uses, default=math.inf)
            self._allowed[name] = {
                (each.key, str(each.question.get("id")))
                for each in questions
                if each.shown_at < first_use or each.question.get("once")
            }

    def _has_answered(self, name: str, shown: ShownQuestion) -> bool:
        """Whether the answer to a question is the prepared answer of the key `name`."""
        return shown.record is not None and _is_answer_of(self._entries[name].whole, shown.question, shown.record)

    def take(self, key: str, question: Question, *, required: bool = False) -> Answer | None:
        """Return the prepared answer to a question that is asked now, or None if the file has no answer left.

        `key` is the address of the question's step, with the round. Raises InvalidPreparedAnswer if the answer is
        invalid, if it is empty and `required` is set, or if its key fits questions of several steps.
        """
        name = self._find_key(key, question)
        if name is None or not self._may_answer(name, key, question):
            return None
        self._check_step(name, key, question)
        prepared = self._next_answer(name, question)
        self._count_use(name)
        self._counted.add((key, str(question.get("id"))))
        if prepared is None:
            return None
        try:
            return _validate_prepared_answer(prepared, question, required=required)
        except InvalidAnswer as error:
            raise InvalidPreparedAnswer(error, prepared.span, key, question) from None

    def skip(self, key: str, questions: Iterable[Question]) -> None:
        """Count questions whose answers are in the journal. A list then continues with the answer for the next
        question. A single answer stays available. A question that was counted before is not counted again."""
        for question in questions:
            identity = (key, str(question.get("id")))
            if identity in self._counted:
                continue
            name = self._find_key(key, question)
            if name is None:
                continue
            self._steps.setdefault(name, strip_markers(split_key(key)[0]))
            if self._has_answer_list(name, question):
                self._count_use(name)
            else:
                self._used_keys.add(name)

    def mark_used(self, key: str, records: Iterable[QuestionRecord], *, is_final: bool = False) -> None:
        """Mark the prepared answers to the questions of `records` as used. An earlier process asked these questions.

        `is_final`: the phase has ended, so that its questions are not repeated. A list continues after the answers that
        it gave there: those that are the same, in the same order.
        """
        for record in records:
            name = self._find_key(key, record)
            if name is None:
                continue
            self._used_keys.add(name)
            prepared = self._next_answer(name, record) if is_final and self._has_answer_list(name, record) else None
            if prepared is not None and _is_answer_of(prepared, record, record):
                self._use_counts[name] += 1
                self._counted.add((key, str(record.get("id"))))

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
        return all(
            (name := self._find_key(key, question)) is not None
            and self._may_answer(name, key, question)
            and self._next_answer(name, question) is not None
            for question in questions
        )

    def _may_answer(self, name: str, key: str, question: Question) -> bool:
        """Whether the answer of the key `name` may answer a question. If it was for an earlier one, note that."""
        if name not in self._allowed or (key, str(question.get("id"))) in self._allowed[name]:
            return True
        (address,) = answer_names(key, [question])
        self.late_answers[name] = f"`{name}` answers an earlier question, so it does not answer `{address}`"
        return False

    def _check_step(self, name: str, key: str, question: Question) -> None:
        """Raise InvalidPreparedAnswer if a question of another step has used the same key."""
        step = strip_markers(split_key(key)[0])
        first = self._steps.setdefault(name, step)
        if step != first and not question.get("once"):
            names = " or ".join(f"`{each}/{question.get('id')}`" for each in (first, step))
            error = InvalidAnswer(f"`{name}` may mean {names}", "write the one that you mean")
            raise InvalidPreparedAnswer(error, self._entries[name].key, key, question)

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

    def check_names(self, known: set[str], computed: set[str], problems: Problems) -> None:
        """Warn of unknown names that resemble the name of a question. Other unknown names may belong to computed
        questions, whose steps have the names `computed`: their ids are numbered, or come from the expression."""
        for name, entry in self._entries.items():
            plain = _without_markers(name)
            if plain in known or _NUMBER.sub("", plain) in computed or plain.rpartition("/")[0] in computed:
                continue
            if hint := did_you_mean(name, known):
                problems.report(entry.key, "unknown-question", f"no question has the name `{name}`", hint, "warning")

    def check_unique(self, asked: Iterable[tuple[str, AbstractSequence[Question]]], problems: Problems) -> None:
        """Report the keys that fit questions of several steps. `asked` has each step's address and its questions."""
        addresses: dict[str, dict[str, str]] = {}  # keyed by key and by step
        for key, questions in asked:
            step = strip_markers(split_key(key)[0])
            for question, address in zip(questions, answer_names(step, questions), strict=True):
                for name in () if question.get("once") else answer_keys(step, question):
                    addresses.setdefault(name, {}).setdefault(step, address)
        for name, entry in self._entries.items():
            if len(found := [*addresses.get(name, {}).values()]) > 1:
                message = f"`{name}` may mean {' or '.join(f'`{address}`' for address in found)}"
                problems.report(entry.key, "ambiguous", message, "write the one that you mean, or each of them")

    def _find_key(self, key: str, question: Question) -> str | None:
        return next((name for name in answer_keys(key, question) if name in self._entries), None)

    def matching_entries(self, key: str, question: Question) -> list[PreparedEntry]:
        """Return the entries for a question, in any pass and round and for any item."""
        names = answer_keys(key, question)
        return [written for name, written in self._entries.items() if _without_markers(name) in names]


def split_key(key: str) -> tuple[str, str]:
    """Return the address and the round of a step's key, such as `gate/ok` and `2` for `gate/ok@2`.

    The round is empty in the first round.
    """
    match = _ROUND.search(key)
    if match is None:
        return key, ""
    return key[: match.start()], match[1] if set(match[1].split(".")) != {"1"} else ""


def answer_keys(key: str, question: Question) -> tuple[str, ...]:
    """Return the keys that provide an answer to a question, most specific first: for this round, for this pass and
    item, for any pass and item, and for any step."""
    id_, (place, round_number) = str(question.get("id", "")), split_key(key)
    step = strip_markers(place)
    places = (f"{place}/{id_}", _sibling_key(place, id_), place)
    in_round = tuple(f"{name}@{round_number}" for name in places) if round_number else ()
    return (*in_round, *places, f"{step}/{id_}", _sibling_key(step, id_), step, id_, step.rpartition("/")[2])


def answer_names(key: str, questions: AbstractSequence[Question]) -> list[str]:
    """Return for each question of a step a key that no other question of the run has."""
    place, round_number = split_key(key)
    end = f"@{round_number}" if round_number else ""
    if questions and questions[0].get("once"):  # an offer of a retry, which an answer may take each time
        return [_sibling_key(place, str(each.get("id"))) + end for each in questions]
    return [f"{place}/{each.get('id')}{end}" if len(questions) > 1 else f"{place}{end}" for each in questions]


def _without_markers(name: str) -> str:
    """Return a key without passes, items and round."""
    return strip_markers(_ROUND.sub("", name))


def _sibling_key(place: str, id_: str) -> str:
    """Return the address of the question `id_` next to the step at the address `place`."""
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
            answers[name] = PreparedEntry(key.span, PreparedAnswer(value.span, _answer_text(value)), items)
        else:
            answers[name] = PreparedEntry(key.span, _parse_answer(value, reader))
    return answers


def _parse_answer(node: Node, reader: Reader) -> PreparedAnswer:
    values = reader.read(node, KEYS) if isinstance(node, Mapping) else {}
    answer = node.get("answer") if isinstance(node, Mapping) else node
    for part in answer.items if isinstance(answer, Sequence) else (answer,) if answer else ():
        if not isinstance(part, Scalar):
            reader.report(part.span, "answer", "this is not a valid answer", "write a text, a list, or `{answer: …}`")
    null = answer.written if isinstance(answer, Scalar) and answer.value is None else ""
    return PreparedAnswer(node.span, _answer_text(answer), values.get("confidence"), null)


def _answer_text(node: Node | None) -> Any:
    """Return an answer or a list of answers as text, each as it is written in the file. A null does not count."""
    match node:
        case Sequence():
            return [_answer_text(item) for item in node.items]
        case Scalar() if node.value is not None:
            return node.as_written
        case Mapping():  # an item of a list that is not one answer
            return to_plain(node)
    return None


def _format_answer(answer: Any) -> str:
    return ", ".join(map(to_one_line, answer if isinstance(answer, list) else [answer]))


def _validate_prepared_answer(prepared: PreparedAnswer, question: Question, *, required: bool = False) -> Answer:
    if prepared.null and accepts_free_text(question):
        hint = f'write `"{prepared.null}"` for the text, or `""` to leave the question open'
        raise InvalidAnswer(f"`{prepared.null}` may be a text or no answer", hint)
    level = prepared.confidence
    if level and (levels := levels_of(question)):
        matches = find_levels(question, to_one_line(level))
        if len(matches) != 1:
            raise InvalidAnswer(f"the confidence `{to_one_line(level)}` is not one of the levels", allowed_hint(levels))
        level = matches[0]
    written = prepared.answer
    if choices_of(question) and accepts_free_text(question):  # a letter or a number is a choice, as in a form
        items = [_read_choice(question, item) for item in (written if isinstance(written, list) else [written])]
        written = items if isinstance(written, list) else items[0]
    answer = build_answer(validate_answer(question, written), confidence=level, answered_by=PREPARED)
    if required and "answer" not in answer:
        raise InvalidAnswer("the answer is empty, but the question requires an answer", "write an answer")
    return answer


def _read_choice(question: Question, item: Any) -> Any:
    """Return the choice that an item of an answer names, or the item itself."""
    if not isinstance(item, str) or not item.strip() or find_choice(question, item) is not None:
        return item
    choice = find_named_choice(question, item)
    return item if choice is None else choice


def _is_answer_of(prepared: PreparedAnswer, question: Question, record: QuestionRecord) -> bool:
    """Whether the recorded answer to a question is the prepared answer."""
    if record.get("answered_by") != PREPARED:
        return False
    with suppress(InvalidAnswer):
        return _validate_prepared_answer(prepared, question).get("answer") == record.get("answer")
    return False


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
    """Report prepared answers that are not among the choices, names that fit questions of several steps, and unknown
    names that resemble a known name."""
    problems = Problems()
    known: set[str] = set()
    computed: set[str] = set()
    asked = [(strip_markers(ask.address), [*questions_of(ask)]) for ask in iterate_asks(program)]
    for step, questions in asked:
        for question in questions:
            names = {*answer_keys(step, question)}
            known |= names
            computed |= names if question.keys() == {"id"} else set()
            if choices_of(question):
                prepared.check_question(step, question, problems)
    prepared.check_names(known, computed, problems)
    prepared.check_unique(asked, problems)
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
