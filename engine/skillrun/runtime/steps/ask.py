"""`ask`: puts questions to the person, and gives the answers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, cast

from skillrun.definitions.definitions import Step
from skillrun.events import Answered, Said
from skillrun.questions.answers import Question
from skillrun.questions.prepared_answers import PreparedUnfit
from skillrun.questions.punctuation import one_stop
from skillrun.questions.responder import Questions
from skillrun.runtime.asking.asking import GO_ON, paused, put_questions, unfit_error
from skillrun.runtime.asking.awaited_files import late_files, passed_over_files, pattern_folder
from skillrun.runtime.asking.forms import phrases_of, question_record
from skillrun.runtime.errors import StepFailed
from skillrun.runtime.frame import Frame
from skillrun.store.files import sha256_of
from skillrun.store.journal_bodies import ToolBody
from skillrun.templates.absent import Absent
from skillrun.types.schemas import quoted

SHARED: Final = ("choices", "multiple", "other", "default", "skip")  # keys of the step, for each of its questions
MAY_STAY_OPEN: Final = frozenset({"default", "skip", "form", "enough"})  # keys that let a question stay open
THERE: Final = "the files are there"


async def act(step: Step, frame: Frame) -> Mapping[str, object]:
    """`.answers`, the records with their answers, `.answer`, the first one's, and the `.notes` of a form."""
    if "files" in step.values:
        return await _wait_for_files(step, frame)
    questions = _questions(step, frame)
    if not questions:
        return {"answers": []}
    form = frame.text(step, "form") or None
    leave = frame.value(step, "pause", "interactive") == "exit"
    own = [step.main, *(step.values.get(name) for name in SHARED)]
    computed = any(value is not None and value.computed for value in own)
    enough = frame.text(step, "enough")
    result = await put_questions(
        frame,
        frame.at(step),
        questions,
        form=form,
        leave=leave,
        computed=computed,
        enough=enough,
        is_required=not step.values.keys() & MAY_STAY_OPEN,
    )
    frame.open.account.asked.extend(question["id"] for question in questions)
    first = result["answers"][0].get("answer")
    return dict(result) if first is None else {**result, "answer": first}


def _questions(step: Step, frame: Frame) -> list[Question]:
    """The records to ask: a text becomes one, with the choices and the default beside it."""
    asked = frame.main(step)
    if isinstance(asked, Absent):  # a phase that was skipped when its summary was lost
        return []
    items = asked if isinstance(asked, list) else [asked]
    shared: dict[str, object] = {}
    for name in SHARED:
        value = frame.value(step, name)
        if not isinstance(value, Absent):
            shared[name] = value
    levels = frame.value(step, "confidence")
    if isinstance(levels, list) and levels:
        shared["levels"] = levels
    questions = []
    computed = step.main is not None and step.main.template is not None and isinstance(asked, list)
    again = f"{frame.open.round}-" if computed and frame.open.round > 1 else ""  # no two rounds' questions share a name
    for number, item in enumerate(items, 1):
        record = dict(item) if isinstance(item, Mapping) else {"text": item}
        record["text"] = _words(step, frame, record.get("text"))
        base = step.id or "question"
        record["id"] = str(record.get("id") or (base if len(items) == 1 and not again else f"{base}-{again}{number}"))
        questions.append(cast(Question, {**shared, **record, "round": frame.open.round}))
    return questions


def _words(step: Step, frame: Frame, asked: Any) -> str:
    """The words of a question. Raises StepFailed where there are none."""
    if isinstance(asked, bool) or not isinstance(asked, (str, int, float)) or asked == "":
        raise StepFailed(f"a question of `{step.id or 'ask'}` has no `text`: {quoted(asked)}", frame.at(step))
    return one_stop(str(asked))


async def _wait_for_files(step: Step, frame: Frame) -> Mapping[str, object]:
    """The files that were there when there were any; more of them do not change what has been asked since.

    A step with a default can do without: a person who comes back without files is asked. What lies beside the files
    and is not read is told, and so is what comes late.
    """
    pattern = frame.text(step, "files")
    where = f"{frame.at(step)}@{frame.open.rounds}"
    known = cast("ToolBody | None", frame.run.journal.find("tool", where, sha256_of(pattern)))
    if known is not None and frame.run.session.keeps_reads:
        _warn(frame, [*known.get("passed_over", []), *late_files(frame.run, pattern, known.get("files") or [])])
        return _given(known)
    names = frame.run.store.matching(pattern)
    default = frame.value(step, "default", None)
    beside = passed_over_files(frame.run, pattern, names)
    if not names and pattern_folder(pattern):
        frame.run.store.ledger.make_folder(pattern_folder(pattern))
    files = list(names)
    if not names and default is not None:
        asked: Question = {"id": step.id or "files", "text": frame.text(step), "default": GO_ON}
        asked["choices"], asked["means"] = [THERE, GO_ON], {str(default): GO_ON}
        asking = Questions(frame.at(step).partition("/")[2], frame.open.title, (asked,))
        try:
            given = await frame.run.session.person.ask(asking, now=frame.open.returned)
        except PreparedUnfit as unfit:
            raise unfit_error(unfit) from None
        answers = tuple(question_record(asked, given_answer, phrases_of(frame.run)) for given_answer in given or ())
        if answers:
            frame.run.emit(Answered(where, frame.open.name, answers, replayed=False))
        without = given is not None and given[0].get("answer") == GO_ON
        files = [] if without else frame.run.store.matching(pattern)
        names = [str(default)] if without else files
    _warn(frame, beside)
    if not names:
        hint = f"put files that match `{pattern}` into {frame.run.store.place()}"
        raise await paused(frame, frame.text(step), hint)
    result: ToolBody = {"answers": [], "answer": ", ".join(names), "pattern": pattern, "files": files}
    if beside:
        result["passed_over"] = beside
    await frame.run.journal.record("tool", where, sha256_of(pattern), dict(result))
    return _given(result)


def _given(record: ToolBody) -> Mapping[str, object]:
    return {key: value for key, value in record.items() if key in ("answers", "answer")}


def _warn(frame: Frame, lines: list[str]) -> None:
    for text in lines:
        frame.open.account.warnings.append(text)
        frame.run.emit(Said(frame.open.name, text, "warn"))
