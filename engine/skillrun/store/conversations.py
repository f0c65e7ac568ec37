"""What a journal holds of each member's conversation: what was sent, what tools answered, what came back.

For who looks at a run from outside. Needs none of its files, and changes nothing; a request that is none is not shown.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from skillrun.models.messages import Message, ModelError, Reply, Request, ToolCall
from skillrun.store.index import AGAIN
from skillrun.store.journal import Journal, JournalEntry
from skillrun.store.journal_bodies import SentBody
from skillrun.types.records import fits

FRESH: Final = re.compile(r"@[\d.]+$")
"""How the address of a step ends that asks anew in each round."""
_ADDRESS: Final = re.compile(r"(.+)/(\d+)\.(\d+)")


@dataclass(frozen=True)
class ToolUse:
    """A tool that a model has called; `result` is None where none is on record."""

    call: ToolCall
    result: str | None


@dataclass(frozen=True)
class Turn:
    """One call of a conversation.

    `times`: how often it was asked and answered, in runs that ask again; the last reply is here. `is_exact`: the
    request has the fingerprint that it was recorded with.
    """

    address: str
    number: int
    fingerprint: str
    request: Request
    round: str
    is_exact: bool
    reply: Reply | None = None
    times: int = 0
    failed: str = ""
    tried: tuple[str, ...] = ()
    tools: tuple[ToolUse, ...] = ()
    asks_again: str = ""
    """Of a turn that asks for a better reply than the one before: what it says."""

    @property
    def status(self) -> str:
        """`answered`, `failed`, or `unanswered`."""
        return "answered" if self.reply is not None else "failed" if self.failed else "unanswered"


@dataclass(frozen=True)
class Conversation:
    """The turns of one attempt of a member, from its first prompt on.

    An address may have had several first prompts, in later rounds and after edits: this is number `version` of them, in
    the order in which they were used last.
    """

    address: str
    """That of its calls, without turn and attempt."""
    attempt: int
    turns: tuple[Turn, ...]
    version: int = 1
    versions: int = 1

    @property
    def phase(self) -> str:
        return f"{self.address}/".split("/")[1]

    @property
    def path(self) -> str:
        """Its place in the workflow, the member last."""
        return self.address.partition("/")[2]

    @property
    def steps(self) -> list[str]:
        """The segments of the address between the phase and the member."""
        return self._segments[: self._member_at]

    @property
    def member(self) -> str:
        return "/".join(self._segments[self._member_at :])

    @property
    def _segments(self) -> list[str]:
        return self.path.split("/")[1:]

    @property
    def _member_at(self) -> int:
        """A member on a model of its own has it behind an `@`, and its name may have slashes."""
        segments = self._segments
        on_models = (at for at, segment in enumerate(segments) if "@" in segment and not FRESH.search(segment))
        return next(on_models, len(segments) - 1)

    @property
    def first(self) -> Turn:
        return self.turns[0]

    @property
    def last(self) -> Turn:
        return self.turns[-1]

    @property
    def is_latest(self) -> bool:
        return self.version == self.versions


def conversations(journal: Journal) -> tuple[list[Conversation], int]:
    """All of them by when they began, and how many records of requests are none. Raises SkillrunError."""
    sent: dict[tuple[str, str], JournalEntry] = {}
    used: dict[tuple[str, str], int] = {}  # where the journal says last that a prompt is the present one
    for entry in journal.entries("sent"):
        sent.setdefault((entry.address, entry.fingerprint), entry)
        used[entry.address, entry.fingerprint] = entry.seq
    for entry in journal.entries("note"):
        if entry.address.endswith(AGAIN):
            used[entry.address.removesuffix(AGAIN), entry.fingerprint] = entry.seq
    answers = _Answers.of(journal)
    begun: dict[tuple[str, str], list[list[Turn]]] = {}
    order: list[tuple[tuple[str, str], int]] = []
    wrong = 0
    for entry in sent.values():
        place = _ADDRESS.fullmatch(entry.address)
        if place is None or not fits(SentBody, entry.body):
            wrong += 1
            continue
        path, number, attempt = place.groups()
        turn = answers.turn(entry, int(number))
        several = begun.setdefault((path, attempt), [])
        earlier = next((turns for turns in reversed(several) if _goes_on(turns[0], turn)), None)
        if earlier is not None:
            earlier.append(turn)
        else:
            several.append([turn])
            order.append(((path, attempt), len(several) - 1))
    made = []
    for (path, attempt), at in order:
        several = begun[path, attempt]
        last = [used[turns[0].address, turns[0].fingerprint] for turns in several]
        version = 1 + sum(seq < last[at] for seq in last)
        made.append(Conversation(path, int(attempt), _told(several[at]), version, len(several)))
    return made, wrong


def _goes_on(first: Turn, turn: Turn) -> bool:
    """Whether a turn is a later one of the conversation that begins with `first`."""
    before, after = first.request, turn.request
    return (
        turn.number > first.number
        and before.model == after.model
        and _texts(after.messages[: len(before.messages)]) == _texts(before.messages)
        and [block.text for block in before.system] == [block.text for block in after.system]
    )


def _texts(messages: Sequence[Message]) -> list[tuple[str, list[str]]]:
    return [(message.role, [block.text for block in message.blocks]) for message in messages]


def _told(turns: Sequence[Turn]) -> tuple[Turn, ...]:
    """The turns in their order, with what tools answered where only the next turn's prompt has it, and repairs."""
    ordered = sorted(turns, key=lambda turn: turn.number)
    told = []
    for before, turn, after in zip([None, *ordered], ordered, [*ordered[1:], None], strict=False):
        last = turn.request.messages[-1] if turn.request.messages else None
        again = before is not None and last is not None and last.role == "user"
        text = "\n\n".join(block.text for block in last.blocks) if again and last is not None else ""
        sent = dict(_results(after.request)) if after is not None else {}
        tools = tuple(
            use if use.result is not None else replace(use, result=sent.get(use.call.id)) for use in turn.tools
        )
        told.append(replace(turn, tools=tools, asks_again=text))
    return tuple(told)


def _results(request: Request) -> Iterator[tuple[str, str]]:
    """What tools have answered by what a prompt says, by the id of the call."""
    for message in request.messages:
        if message.role == "tool":
            yield message.call_id, "\n\n".join(block.text for block in message.blocks)


@dataclass(frozen=True)
class _Answers:
    """What came of calls, by address and fingerprint."""

    journal: Journal
    times: dict[tuple[str, str], int] = field(default_factory=dict)
    tried: dict[tuple[str, str], list[str]] = field(default_factory=dict)

    @classmethod
    def of(cls, journal: Journal) -> _Answers:
        answers = cls(journal)
        for entry in journal.entries("reply"):
            key = (entry.address, entry.fingerprint)
            answers.times[key] = answers.times.get(key, 0) + 1
        for entry in journal.entries("tried"):
            message = entry.body.get("message", "")
            answers.tried.setdefault((entry.address, entry.fingerprint), []).append(message)
        return answers

    def turn(self, entry: JournalEntry, number: int) -> Turn:
        key = (entry.address, entry.fingerprint)
        request = Request.from_dict(entry.body)
        body = self.journal.find("reply", *key)
        reply = Reply.from_dict(body) if body is not None else None
        failed = self.journal.find("failed", *key)
        return Turn(
            entry.address,
            number,
            entry.fingerprint,
            request,
            str(entry.body.get("round", "1")),
            request.fingerprint() == entry.fingerprint,
            reply,
            self.times.get(key, 0),
            ModelError.from_dict(failed).message if failed is not None else "",
            tuple(self.tried.get(key, ())),
            tuple(self._used(entry.address, call) for call in reply.calls) if reply is not None else (),
        )

    def _used(self, address: str, call: ToolCall) -> ToolUse:
        known: dict[str, Any] | None = self.journal.find("tool", f"{address}/{call.id}", call.fingerprint())
        return ToolUse(call, str(known.get("result", "")) if known is not None else None)
