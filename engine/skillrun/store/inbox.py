"""Passes answers from other processes to the process that executes the run.

Each list of questions has one answer file. The first process that writes the file answers the questions; later
processes do not overwrite it. `runtime/asking` asks the questions and reads the answers.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, TypeVar, cast

from skillrun.questions.answers import ENDED, PERSON, PREPARED, UNSEEN, Answer, Question, validate_answer
from skillrun.questions.terminal import ProgressKind
from skillrun.repository.paths import PathRefused
from skillrun.store.artifacts import INBOX
from skillrun.store.files import Files, sha256_of
from skillrun.store.journal import Journal
from skillrun.store.outcome import RESUME_RUN, NextStep, WaitingForUser
from skillrun.syntax.diagnostics import SkillrunError, sanitize
from skillrun.syntax.source import MAX_BYTES

T = TypeVar("T")

POLL: Final = 0.3  # seconds between checks for an answer, while this process asks a user
KEYS: Final = ("answer", "answered_by", "confidence", "comment")


def progress_address(address: str) -> str:
    """Return the journal address of the progress of a list of questions."""
    return f"{address}/given"


def read_progress(journal: Journal, address: str, fingerprint: str) -> dict[ProgressKind, dict[str, Any]]:
    """Return the progress of a user who has paused at a list of questions, by kind and by question number."""
    note = journal.find("note", progress_address(address), fingerprint) or {}
    kinds: tuple[ProgressKind, ...] = ("given", "sure", "typed", "times")
    progress = {kind: dict(values) if isinstance(values := note.get(kind), dict) else {} for kind in kinds}
    for kind in kinds[1:]:
        progress[kind] = {name: text for name, text in progress[kind].items() if isinstance(text, str)}
    return progress


@dataclass(frozen=True)
class PendingQuestions:
    """The unanswered questions of one step. `address` and `fingerprint` identify the record of the answers."""

    address: str
    fingerprint: str
    phase: str
    questions: tuple[Question, ...]
    computed: bool = False
    may_skip: bool = False
    enough: str = ""

    @property
    def key(self) -> str:
        """The key of the questions in prepared answers: phase, step and round."""
        return self.address.partition("/")[2]


class AnswerInbox:
    """The answers in a run's folder that the run has not read yet."""

    def __init__(self, files: Files) -> None:
        self._files = files

    def put(self, waiting: PendingQuestions, answers: Sequence[Answer]) -> bool:
        """Store the answers, one for each question.

        If the questions are already answered, change nothing and return False.
        """
        kept = [{name: value for name, value in answer.items() if value not in (None, "")} for answer in answers]
        text = json.dumps({"address": waiting.address, "answers": kept}, ensure_ascii=False, indent=1)
        return self._files.write_new(_name(waiting.address, waiting.fingerprint), text + "\n")

    def has(self, where: str, fingerprint: str) -> bool:
        return self._files.is_file(_name(where, fingerprint))

    def answers(self, where: str, fingerprint: str, questions: Sequence[Question]) -> list[Answer]:
        """Return the stored answers to `questions`. Raises WaitingForUser if the file contains no valid answers."""
        name = _name(where, fingerprint)
        try:
            body = json.loads(self._files.read(name, MAX_BYTES)[:MAX_BYTES])
            return list(_validate_answers(body, where, questions))
        except (ValueError, RecursionError, LookupError, TypeError, AttributeError, PathRefused) as error:
            place = self._files.path / name
            message = f"{place} contains no valid answers to `{where}` ({error})"
            raise WaitingForUser(message, NextStep.of("remove it, answer again, and ", RESUME_RUN)) from None

    async def run_until_arrival(self, where: str, fingerprint: str, asking: Callable[[], Awaitable[T]]) -> T | None:
        """Return the result of `asking`. If stored answers exist or arrive first, cancel `asking` and return None."""
        if self.has(where, fingerprint):
            return None
        arrival = asyncio.create_task(self._wait_for_arrival(where, fingerprint))
        patience = asyncio.timeout(None)
        try:
            async with patience:
                arrival.add_done_callback(lambda task: None if task.cancelled() else patience.reschedule(0))
                return await asking()
        except TimeoutError:
            if not patience.expired():
                raise
            return None
        finally:
            arrival.cancel()

    async def _wait_for_arrival(self, where: str, fingerprint: str) -> None:
        while not self.has(where, fingerprint):  # noqa: ASYNC110 -- another process makes the file
            await asyncio.sleep(POLL)


def _name(where: str, fingerprint: str) -> str:
    return f"{INBOX}/{sha256_of(f'{where} {fingerprint}')[:32]}.json"


def _validate_answers(body: Any, where: str, questions: Sequence[Question]) -> Iterator[Answer]:
    """Yield the validated answers. Raises ValueError, LookupError, TypeError or SkillrunError if any is invalid."""
    if body["address"] != where or len(body["answers"]) != len(questions):
        raise ValueError("the file answers other questions")
    for question, given in zip(questions, body["answers"], strict=True):
        if given.get("ended") is True:
            yield UNSEEN if given.get("shown") is False else ENDED
            continue
        answer = {name: given[name] for name in KEYS if name in given}
        if answer.get("answered_by", PERSON) not in (PERSON, PREPARED):
            raise ValueError("`answered_by` is invalid")
        if "answer" in answer:
            with suppress(SkillrunError):  # an invalid answer stays as free text, as in the terminal
                answer["answer"] = validate_answer(question, answer["answer"])
        yield cast(Answer, sanitize(answer))
