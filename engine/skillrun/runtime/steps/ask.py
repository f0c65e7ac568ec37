"""`ask`: asks the user questions, and returns the answers.

With `files`, it waits for the user's files. It reports files that are ignored because they do not match, are links, are
empty, cannot be read as text, or arrive too late.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, Final, cast

from skillrun.definitions.definitions import Step
from skillrun.events import Answered, Said
from skillrun.questions.answers import Answer, Question, default_of, remove_double_stops
from skillrun.questions.prepared_answers import InvalidPreparedAnswer
from skillrun.questions.responder import QuestionSet
from skillrun.replay import READS, Body, fingerprint_text, round_address
from skillrun.runtime.asking.asking import CONTINUE_WITHOUT, ask_questions, pause_for_invalid_answer, record_pause
from skillrun.runtime.asking.forms import (
    answer_phrases,
    build_question_record,
    find_user_files,
    ignore_reason,
    late_files,
)
from skillrun.runtime.errors import StepFailed
from skillrun.runtime.frame import Frame, StepResult
from skillrun.runtime.run import Run
from skillrun.store.journal_bodies import ToolBody
from skillrun.templates.values import Absent
from skillrun.types.records import describe_field, invalid_keys
from skillrun.types.schemas import quote_value

SHARED_KEYS: Final = ("choices", "multiple", "other", "default", "skip")  # apply to each question of a step
SET_BY_RUN: Final = frozenset({*Answer.__annotations__, "means"})
"""Keys of a question's record that only the run sets. A model may have written the record, and gives no answers."""
OPTIONAL_KEYS: Final = frozenset({"skip", "form", "enough"})  # keys that, like a default, let a question stay open
FILES_READY: Final = "the files are there"
MOST_ENTRIES: Final = 200  # folder entries to examine
DEEPEST: Final = 3  # levels of folders to examine


async def run_ask(step: Step, frame: Frame) -> StepResult:
    """Return `answers` (the questions with their answers), `answer` (the first answer), and the `notes` of a form."""
    if "files" in step.values:
        return await _wait_for_files(step, frame)
    questions = _build_questions(step, frame)
    if not questions:
        return StepResult({"answers": []})
    form = frame.text(step, "form") or None
    pause = frame.value(step, "pause", "interactive") == "exit"
    question_values = [step.main, *(step.values.get(name) for name in SHARED_KEYS)]
    computed = any(value is not None and value.is_computed for value in question_values)
    enough = frame.text(step, "enough")
    result = await ask_questions(
        frame,
        frame.at(step),
        questions,
        form=form,
        pause=pause,
        computed=computed,
        enough=enough,
        is_required=not step.values.keys() & OPTIONAL_KEYS and all(default_of(each) is None for each in questions),
    )
    frame.phase.record.question_ids.extend(question["id"] for question in questions)
    first = result["answers"][0].get("answer")
    return StepResult(dict(result) if first is None else {**result, "answer": first})


def _build_questions(step: Step, frame: Frame) -> list[Question]:
    """Return the questions of a step as records. A record without keys such as `choices` gets those of the step."""
    asked = frame.main(step)
    if isinstance(asked, Absent):  # a phase that was skipped when its summary was lost
        return []
    items = asked if isinstance(asked, list) else [asked]
    shared: dict[str, object] = {}
    for name in SHARED_KEYS:
        value = frame.value(step, name)
        if not isinstance(value, Absent):
            shared[name] = value
    levels = frame.value(step, "confidence")
    if isinstance(levels, list) and levels:
        shared["levels"] = levels
    questions = []
    computed = step.main is not None and step.main.template is not None and isinstance(asked, list)
    # Computed questions have other ids in each round, because their texts can differ.
    round_prefix = f"{frame.phase.round}-" if computed and frame.phase.round > 1 else ""
    for number, item in enumerate(items, 1):
        record = dict(item) if isinstance(item, Mapping) else {"text": item}
        record = {key: value for key, value in record.items() if key not in SET_BY_RUN}
        record["text"] = _question_text(step, frame, record.get("text"))
        base = step.id or "question"
        record["id"] = str(
            record.get("id") or (base if len(items) == 1 and not round_prefix else f"{base}-{round_prefix}{number}")
        )
        question = {**shared, **record, "round": frame.phase.round}
        for key in invalid_keys(Question, question):
            allowed = describe_field(Question, key)
            message = (
                f"`{key}` of the question {quote_value(record['id'])} must be {allowed}: {quote_value(question[key])}"
            )
            raise StepFailed(message, frame.at(step))
        questions.append(cast(Question, question))
    return questions


def _question_text(step: Step, frame: Frame, asked: Any) -> str:
    """Return the text of a question. Raises StepFailed if it is missing."""
    if isinstance(asked, bool) or not isinstance(asked, (str, int, float)) or asked == "":
        raise StepFailed(f"a question of `{step.id or 'ask'}` has no `text`: {quote_value(asked)}", frame.at(step))
    return remove_double_stops(str(asked))


async def _wait_for_files(step: Step, frame: Frame) -> StepResult:
    """Return the files that match the pattern. The first check that finds files journals them for later evaluations.

    If the step has a `default`, a user who resumes the run without the files is asked whether to continue with the
    default. Ignored files, and files that arrive after the first check, are reported.
    """
    pattern = frame.text(step, "files")
    where = round_address(frame.at(step), frame.phase.round_path)
    find = partial(_find_files, step, frame, pattern, where)
    body, is_replayed = await frame.run.replay.once(READS, where, fingerprint_text(pattern), find)
    if is_replayed:
        _warn(frame, [*body.get("passed_over", []), *late_files(frame.run, pattern, body.get("files") or [])])
    return StepResult({key: body[key] for key in ("answers", "answer") if key in body})


async def _find_files(step: Step, frame: Frame, pattern: str, where: str) -> Body:
    """Return the journal body with the files that match the pattern. Raises WaitingForUser if no file matches."""
    names = find_user_files(frame.run, pattern)
    default = frame.value(step, "default", None)
    if not names and pattern_folder(pattern):
        frame.run.store.artifacts.make_folder(pattern_folder(pattern))
    files = list(names)
    if not names and default is not None:
        question: Question = {"id": step.id or "files", "text": frame.text(step), "default": CONTINUE_WITHOUT}
        question["choices"], question["means"] = [FILES_READY, CONTINUE_WITHOUT], {str(default): CONTINUE_WITHOUT}
        question_set = QuestionSet(where.partition("/")[2], frame.phase.title, (question,))
        try:
            given = await frame.run.services.responder.ask(question_set, interactive=frame.phase.is_reentry)
        except InvalidPreparedAnswer as unfit:
            raise pause_for_invalid_answer(unfit) from None
        answers = tuple(
            build_question_record(question, given_answer, answer_phrases(frame.run)) for given_answer in given or ()
        )
        if answers:
            frame.run.emit(Answered(where, frame.phase.name, answers, replayed=False))
        use_default = given is not None and given[0].get("answer") == CONTINUE_WITHOUT
        files = [] if use_default else find_user_files(frame.run, pattern)
        names = [str(default)] if use_default else files
    ignored = ignored_files(frame.run, pattern, files)
    _warn(frame, ignored)
    if not names:
        hint = f"put files that match `{pattern}` into {frame.run.store.location()}"
        raise await record_pause(frame, frame.text(step), hint)
    result: ToolBody = {"answers": [], "answer": ", ".join(names), "pattern": pattern, "files": files}
    if ignored:
        result["passed_over"] = ignored
    return dict(result)


def _warn(frame: Frame, lines: list[str]) -> None:
    for text in lines:
        frame.phase.record.warnings.append(text)
        frame.run.emit(Said(frame.phase.name, text, "warn"))


def pattern_folder(pattern: str) -> str:
    """Return the folder part of a pattern before its first wildcard; empty for the run folder."""
    return re.split(r"[*?[]", pattern)[0].rpartition("/")[0]


def ignored_files(run: Run, pattern: str, matched: Collection[str]) -> list[str]:
    """Return a line for each ignored file or link in the pattern's folder, and for each matching file that is ignored.

    The line says why the file is ignored.
    """
    folder = pattern_folder(pattern)
    others = [name for name in run.store.matching(pattern) if name not in matched]
    lines = [f"{quote_value(name)} {why}, so it is ignored" for name in others if (why := ignore_reason(run, name))]
    if not folder:
        return lines
    known = {*matched, *others, *run.store.artifacts.list_names()}
    for name, kind in _walk(run, folder):
        if name not in known and not any(part.startswith(".") for part in name.split("/")):
            why = "is a link, and links are not followed" if kind == "link" else f"does not match `{pattern}`"
            lines.append(f"{quote_value(name)} {why}, so it is ignored")
    return lines


def _walk(run: Run, folder: str) -> Iterator[tuple[str, str]]:
    """Yield the name and the kind of each file and link in a folder and its subfolders, to a limited depth.

    Hidden folders and the folders of other rounds are not opened.
    """
    left = [(folder, 1)]
    seen = 0
    while left:
        name, depth = left.pop(0)
        with suppress(OSError):
            for leaf, kind in run.store.files.entries(name):
                seen += 1
                if seen > MOST_ENTRIES:
                    return
                if kind != "folder":
                    yield f"{name}/{leaf}", kind
                elif depth < DEEPEST and not re.fullmatch(r"round-\d+|\..*", leaf):
                    left.append((f"{name}/{leaf}", depth + 1))
