"""What a journal holds of each member's conversation: what was sent, what tools answered, what came back.

For who looks at a run from outside. Needs none of its files, and changes nothing; a request that is none is not shown.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from skillrun.models.messages import Message, ModelError, Reply, Request, ToolCall
from skillrun.store.index import REUSED_SUFFIX
from skillrun.store.journal import Journal, JournalEntry
from skillrun.store.journal_bodies import SentBody
from skillrun.types.records import matches_record

PER_ROUND_SUFFIX: Final = re.compile(r"@[\d.]+$")
"""How the address of a step ends that asks anew in each round."""
_ADDRESS: Final = re.compile(r"(.+)/(\d+)\.(\d+)")


@dataclass(frozen=True)
class ToolUse:
    """A tool that a model has called; `result` is None where none is on record."""

    call: ToolCall
    result: str | None


@dataclass(frozen=True)
class ConversationTurn:
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
    turns: tuple[ConversationTurn, ...]
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
        return self._segments[: self._member_index]

    @property
    def member(self) -> str:
        return "/".join(self._segments[self._member_index :])

    @property
    def _segments(self) -> list[str]:
        return self.path.split("/")[1:]

    @property
    def _member_index(self) -> int:
        """A member on a model of its own has it behind an `@`, and its name may have slashes."""
        segments = self._segments
        on_models = (
            at for at, segment in enumerate(segments) if "@" in segment and not PER_ROUND_SUFFIX.search(segment)
        )
        return next(on_models, len(segments) - 1)

    @property
    def first(self) -> ConversationTurn:
        return self.turns[0]

    @property
    def last(self) -> ConversationTurn:
        return self.turns[-1]

    @property
    def is_latest(self) -> bool:
        return self.version == self.versions


def read_conversations(journal: Journal) -> tuple[list[Conversation], int]:
    """All of them by when they began, and how many records of requests are none. Raises SkillrunError."""
    sent: dict[tuple[str, str], JournalEntry] = {}
    used: dict[tuple[str, str], int] = {}  # where the journal says last that a prompt is the present one
    for entry in journal.entries("sent"):
        sent.setdefault((entry.address, entry.fingerprint), entry)
        used[entry.address, entry.fingerprint] = entry.seq
    for entry in journal.entries("note"):
        if entry.address.endswith(REUSED_SUFFIX):
            used[entry.address.removesuffix(REUSED_SUFFIX), entry.fingerprint] = entry.seq
    answers = _CallOutcomes.from_journal(journal)
    by_attempt: dict[tuple[str, str], list[list[ConversationTurn]]] = {}
    order: list[tuple[tuple[str, str], int]] = []
    invalid_count = 0
    for entry in sent.values():
        place = _ADDRESS.fullmatch(entry.address)
        if place is None or not matches_record(SentBody, entry.body):
            invalid_count += 1
            continue
        path, number, attempt = place.groups()
        turn = answers.turn(entry, int(number))
        variants = by_attempt.setdefault((path, attempt), [])
        continued = next((turns for turns in reversed(variants) if _is_continuation(turns[0], turn)), None)
        if continued is not None:
            continued.append(turn)
        else:
            variants.append([turn])
            order.append(((path, attempt), len(variants) - 1))
    result = []
    for (path, attempt), at in order:
        variants = by_attempt[path, attempt]
        last = [used[turns[0].address, turns[0].fingerprint] for turns in variants]
        version = 1 + sum(seq < last[at] for seq in last)
        result.append(Conversation(path, int(attempt), _complete_turns(variants[at]), version, len(variants)))
    return result, invalid_count


def _is_continuation(first: ConversationTurn, turn: ConversationTurn) -> bool:
    """Whether a turn is a later one of the conversation that begins with `first`."""
    before, after = first.request, turn.request
    return (
        turn.number > first.number
        and before.model == after.model
        and _message_texts(after.messages[: len(before.messages)]) == _message_texts(before.messages)
        and [block.text for block in before.system] == [block.text for block in after.system]
    )


def _message_texts(messages: Sequence[Message]) -> list[tuple[str, list[str]]]:
    return [(message.role, [block.text for block in message.blocks]) for message in messages]


def _complete_turns(turns: Sequence[ConversationTurn]) -> tuple[ConversationTurn, ...]:
    """The turns in their order, with what tools answered where only the next turn's prompt has it, and repairs."""
    ordered = sorted(turns, key=lambda turn: turn.number)
    completed = []
    for previous, turn, following in zip([None, *ordered], ordered, [*ordered[1:], None], strict=False):
        last = turn.request.messages[-1] if turn.request.messages else None
        is_repair = previous is not None and last is not None and last.role == "user"
        text = "\n\n".join(block.text for block in last.blocks) if is_repair and last is not None else ""
        later_results = dict(_tool_results(following.request)) if following is not None else {}
        tools = tuple(
            use if use.result is not None else replace(use, result=later_results.get(use.call.id)) for use in turn.tools
        )
        completed.append(replace(turn, tools=tools, asks_again=text))
    return tuple(completed)


def _tool_results(request: Request) -> Iterator[tuple[str, str]]:
    """What tools have answered by what a prompt says, by the id of the call."""
    for message in request.messages:
        if message.role == "tool":
            yield message.call_id, "\n\n".join(block.text for block in message.blocks)


@dataclass(frozen=True)
class _CallOutcomes:
    """What came of calls, by address and fingerprint."""

    journal: Journal
    times: dict[tuple[str, str], int] = field(default_factory=dict)
    tried: dict[tuple[str, str], list[str]] = field(default_factory=dict)

    @classmethod
    def from_journal(cls, journal: Journal) -> _CallOutcomes:
        answers = cls(journal)
        for entry in journal.entries("reply"):
            key = (entry.address, entry.fingerprint)
            answers.times[key] = answers.times.get(key, 0) + 1
        for entry in journal.entries("tried"):
            message = entry.body.get("message", "")
            answers.tried.setdefault((entry.address, entry.fingerprint), []).append(message)
        return answers

    def turn(self, entry: JournalEntry, number: int) -> ConversationTurn:
        key = (entry.address, entry.fingerprint)
        request = Request.from_dict(entry.body)
        body = self.journal.find("reply", *key)
        reply = Reply.from_dict(body) if body is not None else None
        failed = self.journal.find("failed", *key)
        return ConversationTurn(
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
            tuple(self._tool_use(entry.address, call) for call in reply.calls) if reply is not None else (),
        )

    def _tool_use(self, address: str, call: ToolCall) -> ToolUse:
        recorded: dict[str, Any] | None = self.journal.find("tool", f"{address}/{call.id}", call.fingerprint())
        return ToolUse(call, str(recorded.get("result", "")) if recorded is not None else None)
