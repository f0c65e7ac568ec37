"""The person of a run: prepared answers first, then defaults where nobody is there, then the terminal.

Owns who answers; what is asked and what becomes of it is for others.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from shlex import quote
from typing import Any

from skillrun.questions.answers import (
    ENDED,
    GENERATED,
    Answer,
    Question,
    QuestionRecord,
    by_default,
    default_of,
    needs_answer,
    with_more,
)
from skillrun.questions.prepared_answers import Prepared, Read, read_answers
from skillrun.questions.terminal import Keep, Terminal, UnfinishedAnswers
from skillrun.syntax.diagnostics import UsageError
from skillrun.syntax.sanitizing import clean


@dataclass(frozen=True)
class Questions:
    """Questions of one step, to be answered together; `key` names the step, for answers prepared in a file.

    `computed`: what is asked is not the workflow's own words, or not all of it; a model may have written it.
    `may_skip`: each may be left open, as in a form. `is_required`: each without `default` and `skip` needs an answer.
    `left`: what was answered before a pause, by the question's number in the list; `keep` receives each answer.
    `enough`: the words that end the list.
    """

    key: str
    phase: str
    questions: tuple[Question, ...]
    computed: bool = False
    may_skip: bool = False
    is_required: bool = False
    left: UnfinishedAnswers = field(default_factory=UnfinishedAnswers)
    keep: Keep | None = None
    enough: str = ""


class Person:
    """Answers one list of questions at a time; others wait while the run goes on."""

    def __init__(self, prepared: Prepared, terminal: Terminal | None, *, attended: bool, staying: bool = False) -> None:
        """`staying`: what would end the run and wait is asked in the terminal instead."""
        self.prepared = prepared
        self.terminal = terminal
        self.attended = attended
        self.staying = staying
        self._turn = asyncio.Lock()

    async def ask(self, asking: Questions, *, now: bool = True) -> list[Answer] | None:
        """A record for each question, empty where it stays unanswered; None when nobody answers, or is asked, now.

        Raises PreparedUnfit for a prepared answer that does not fit, KeyboardInterrupt for a Ctrl-C.
        """
        given = self._all_ahead(asking)
        left = {str(number): asking.questions[number] for number, answer in enumerate(given) if answer is None}
        answers: list[Answer] = []
        if left:
            if self.terminal is None or not self.attended or not (now or self.staying):
                return None
            async with self._turn:
                parts = (asking.phase, GENERATED if asking.computed else "")
                title = " · ".join(filter(None, parts))
                answers = await self.terminal.ask(
                    left, title, asking.left, asking.keep, may_skip=asking.may_skip, enough=asking.enough
                )
        rest = iter(answers)
        return clean([next(rest) if answer is None else answer for answer in given])

    @property
    def typed(self) -> dict[str, str]:
        """The flags that bring the same person again, with what stands behind each."""
        return flags_of(self.prepared.path, unattended=not self.attended)

    def prepares(self, asking: Questions) -> bool:
        """Whether each of these questions has an answer that was prepared."""
        return all(self.prepared.ready(asking.key, question) for question in asking.questions)

    def earlier(self, asking: Questions) -> None:
        """Questions that the run's journal has the answers of: lists of prepared answers go on behind them."""
        for question in asking.questions:
            self.prepared.skip(asking.key, question)

    def asked_before(self, address: str, questions: Sequence[Question]) -> None:
        """Questions of an earlier process, by their address in the journal: their prepared answers were taken."""
        for question in questions:
            self.prepared.was_asked(address.partition("/")[2].rpartition("@")[0], question)

    def came_late(self, asking: Questions, records: Sequence[QuestionRecord], read: Read) -> None:
        """They stay answered as `records` say; prepared answers that say something else are told at the end."""
        for question, record in zip(asking.questions, records, strict=True):
            self.prepared.come_late(asking.key, question, record, read)

    def _all_ahead(self, asking: Questions) -> list[Answer | None]:
        """What is known of each question; behind the words that end the list nothing is asked."""
        records: list[Answer | None] = []
        for question in asking.questions:
            words: dict[str, object] = {asking.enough: ENDED} if asking.enough else {}
            named = with_more(question, means={**question.get("means", {}), **words})
            required = asking.is_required and needs_answer(question)
            record = self._ahead(asking.key, named, required=required)
            if record is not None and ENDED in (record.get("answer"), *_several(record.get("answer"))):
                return [*records, *([ENDED] * (len(asking.questions) - len(records)))]
            records.append(record)
        return records

    def _ahead(self, key: str, question: Question, *, required: bool) -> Answer | None:
        """What is known without asking anybody: a prepared answer, or the default when the run is unattended."""
        record = self.prepared.take(key, question, required=required)
        if record is None and not self.attended and default_of(question) is not None:
            return by_default(question)
        return record


def _several(answer: Any) -> list[Any]:
    return answer if isinstance(answer, list) else []


def flags_of(answers: Path | None, *, unattended: bool) -> dict[str, str]:
    """The flags that say who is there, with what stands behind each."""
    flags = {"--unattended": ""} if unattended else {}
    return flags | ({"--answers": quote(str(answers))} if answers is not None else {})


def has_terminal() -> bool:
    """Whether somebody can be asked here."""
    return sys.stdin.isatty() and (sys.stdout.isatty() or sys.stderr.isatty())


def open_person(
    *,
    unattended: bool,
    answers: Path | None = None,
    interactive: bool = False,
    terminal: bool | None = None,
    around: Callable[[], AbstractContextManager[object]] = nullcontext,
) -> Person:
    """Who answers. Whether there is a `terminal` is found out where it is not said; `around` is entered while it asks.

    Raises SkillrunError when the prepared answers cannot be read, or nobody can be asked who is to be `interactive`.
    """
    if terminal is None:
        terminal = has_terminal()
    if interactive and (unattended or not terminal):
        why = "--unattended asks nobody" if unattended else "there is none here"
        raise UsageError(f"--interactive asks in the terminal, and {why}", "leave it out")
    prepared = read_answers(answers) if answers is not None else Prepared()
    screen = Terminal(around=around) if terminal and not unattended else None
    return Person(prepared, screen, attended=not unattended, staying=interactive)
