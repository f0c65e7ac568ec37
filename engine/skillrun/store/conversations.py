"""Reads the conversations of members from a journal: requests, tool results and replies.

Used by views of a run. Reads only the journal, changes nothing, and leaves out invalid requests.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from skillrun.models.messages import Message, ModelError, Reply, Request, ToolCall
from skillrun.store.base_journal import REUSED_SUFFIX
from skillrun.store.journal import Journal, JournalEntry
from skillrun.store.journal_bodies import SentBody
from skillrun.types.records import matches_record

PER_ROUND_SUFFIX: Final = re.compile(r"@[\d.]+$")
"""The end of a step's address if the step asks again in each round."""
_ADDRESS: Final = re.compile(r"(.+)/(\d+)\.(\d+)")


@dataclass(frozen=True)
class ToolUse:
    """A tool call of a model; `result` is None if it is not recorded."""

    call: ToolCall
    result: str | None


@dataclass(frozen=True)
class ConversationTurn:
    """One call of a conversation.

    `reply` is the last reply. `times` is the number of replies, since a run can repeat calls. `is_exact` says whether
    the request still has the fingerprint with which it was recorded.
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
    """The text of the prompt, if it asks for a better reply than the previous one."""

    @property
    def status(self) -> str:
        """`answered`, `failed`, or `unanswered`."""
        return "answered" if self.reply is not None else "failed" if self.failed else "unanswered"


@dataclass(frozen=True)
class Conversation:
    """The turns of one attempt of a member, beginning with its first prompt.

    Each first prompt at an address begins another version of the conversation, for example in a later round or after an
    edit. Versions are numbered in order of their last use.
    """

    address: str
    """The address of the conversation's calls, without turn and attempt."""
    attempt: int
    turns: tuple[ConversationTurn, ...]
    version: int = 1
    versions: int = 1

    @property
    def phase(self) -> str:
        return f"{self.address}/".split("/")[1]

    @property
    def path(self) -> str:
        """The conversation's path in the workflow, with the member last."""
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
        """The index of the segment in which the member begins.

        If the member has a separate model, the model's name follows an `@` and may contain slashes.
        """
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
    """Return all conversations in order of their start, and the number of invalid requests. Raises SkillrunError."""
    sent: dict[tuple[str, str], JournalEntry] = {}
    used: dict[tuple[str, str], int] = {}  # number of the last record that makes a prompt current
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
    """Whether a turn continues the conversation that begins with `first`."""
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
    """Return the turns in order, with texts of repair turns and tool results that only the next prompt contains."""
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
    """Yield the tool results in a prompt, each with the id of its tool call."""
    for message in request.messages:
        if message.role == "tool":
            yield message.call_id, "\n\n".join(block.text for block in message.blocks)


@dataclass(frozen=True)
class _CallOutcomes:
    """The results of calls, keyed by address and fingerprint."""

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
