"""The read model of a run, for all commands that show runs. Changes nothing, and leaves out invalid records.

`RunHistory` (`run_history.py`) contains the events of the transcript, `RunCalls` contains the calls in the journal.
`RunView` reads each of them on first use.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final, NamedTuple

from skillrun.models.messages import Message, ModelError, Reply, Request, ToolCall, Usage
from skillrun.store.journal import REUSED_SUFFIX, Journal, JournalEntry
from skillrun.store.journal_bodies import SentBody
from skillrun.store.memory import MemoryJournal
from skillrun.store.outcome import flags_for_resume
from skillrun.store.run_data import RunData
from skillrun.store.run_history import RunHistory, read_history
from skillrun.store.stored_run import StoredRun
from skillrun.syntax.diagnostics import SkillrunError
from skillrun.types.records import matches_record

PER_ROUND_SUFFIX: Final = re.compile(r"@[\d.]+$")
"""The end of a step's address if the step asks again in each round."""
_ADDRESS: Final = re.compile(r"(.+)/(\d+)\.(\d+)")


@dataclass(frozen=True)
class ToolUse:
    """A tool call of a model. `result` is None if the journal has no result."""

    call: ToolCall
    result: str | None


@dataclass(frozen=True)
class ConversationTurn:
    """One call of a conversation.

    `times` is the number of replies: a run can repeat a call. The request, the reply and the results of tools are read
    from the journal at each use, since those of a large run do not fit into memory together.
    """

    journal: Journal
    address: str
    number: int
    fingerprint: str
    seq: int
    """The number of the record of the request."""
    model: str
    round: str
    times: int = 0
    failed: str = ""
    tried: tuple[str, ...] = ()
    is_repair: bool = False
    """Whether the prompt asks the model to repair the previous reply."""
    following_seq: int = 0
    """The number of the record of the conversation's next request; 0 if this is the last one."""

    @property
    def request(self) -> Request:
        return Request.from_dict(self.journal.entry(self.seq).body)

    @property
    def is_exact(self) -> bool:
        """Whether the request still has its recorded fingerprint."""
        return self.request.fingerprint() == self.fingerprint

    @property
    def reply(self) -> Reply | None:
        """The last reply."""
        body = self.journal.find("reply", self.address, self.fingerprint)
        return None if body is None else Reply.from_dict(body)

    @property
    def tools(self) -> tuple[ToolUse, ...]:
        """The tool calls of the reply. A result that was not recorded is taken from the next prompt."""
        reply = self.reply
        uses = []
        for call in reply.calls if reply is not None else ():
            body = self.journal.find("tool", f"{self.address}/{call.id}", call.fingerprint())
            result = self._later_results().get(call.id) if body is None else str(body.get("result", ""))
            uses.append(ToolUse(call, result))
        return tuple(uses)

    def _later_results(self) -> dict[str, str]:
        if not self.following_seq:
            return {}
        messages = Request.from_dict(self.journal.entry(self.following_seq).body).messages
        return {message.call_id: _join_blocks(message) for message in messages if message.role == "tool"}

    @property
    def asks_again(self) -> str:
        """The text of the prompt if it is a request to repair the previous reply."""
        return _join_blocks(self.request.messages[-1]) if self.is_repair else ""

    @property
    def status(self) -> str:
        """`answered`, `failed`, or `unanswered`."""
        return "answered" if self.times else "failed" if self.failed else "unanswered"


def _join_blocks(message: Message) -> str:
    return "\n\n".join(block.text for block in message.blocks)


@dataclass(frozen=True)
class Conversation:
    """The turns of one attempt of a member, beginning with its first prompt.

    An address can have several versions of a conversation, for example after an edit or in a later round. Each version
    begins with its own first prompt. Versions are numbered in order of their last use.
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
        return self._split_path()[0]

    @property
    def member(self) -> str:
        return "/".join(self._split_path()[1])

    def _split_path(self) -> tuple[list[str], list[str]]:
        """Return the segments of the address between the phase and the member, and those of the member.

        If the member has a separate model, the model's name follows an `@` and may contain slashes.
        """
        segments = self.path.split("/")[1:]
        on_models = (
            at for at, segment in enumerate(segments) if "@" in segment and not PER_ROUND_SUFFIX.search(segment)
        )
        member = next(on_models, len(segments) - 1)
        return segments[:member], segments[member:]

    @property
    def first(self) -> ConversationTurn:
        return self.turns[0]

    @property
    def last(self) -> ConversationTurn:
        return self.turns[-1]

    @property
    def is_latest(self) -> bool:
        return self.version == self.versions

    @property
    def round(self) -> int:
        """The round of the run in which the conversation started."""
        return run_round(self.first.round)

    @property
    def usage(self) -> Usage:
        return sum((reply.usage for turn in self.turns if (reply := turn.reply) is not None), Usage())

    @property
    def price(self) -> float | None:
        """The price of all replies; None if any price is unknown."""
        prices = [reply.price for turn in self.turns if (reply := turn.reply) is not None]
        return None if None in prices else sum(price for price in prices if price is not None)


@dataclass(frozen=True)
class RunCalls:
    """The calls of a run. If `is_held`, a process is executing the run, so unanswered calls can still get replies."""

    name: str
    conversations: Sequence[Conversation] = ()
    phases: Sequence[str] = ()
    """All known phases, including those without calls."""
    is_held: bool = False
    notes: Sequence[str] = ()
    dropped: Mapping[str, str] = field(default_factory=dict)
    """Messages about omitted items of replies; see `RunHistory`."""

    def dropped_text(self, conversation: Conversation) -> str:
        """Return the message about omitted items of the reply; empty if `conversation` is not the latest version."""
        address = "/".join(PER_ROUND_SUFFIX.sub("", part) for part in conversation.address.split("/"))
        return self.dropped.get(address, "") if conversation.is_latest else ""


def run_round(number: str) -> int:
    """Return the run's round: 2 for `2.1`, which is round 1 of an inline workflow in round 2 of the run."""
    first = number.partition(".")[0]
    return int(first) if first.isdecimal() else 1


def call_rounds(journal: Journal) -> dict[tuple[str, str], str]:
    """Return the round of each request, keyed by address and fingerprint."""
    sent = journal.entries("sent", texts=False)
    return {(entry.address, entry.fingerprint): str(entry.body.get("round", "1")) for entry in sent}


def read_conversations(journal: Journal) -> tuple[list[Conversation], int]:
    """Return all conversations in order of their start, and the number of invalid requests. Raises SkillrunError."""
    sent: dict[tuple[str, str], _SentRequest | None] = {}
    used: dict[tuple[str, str], int] = {}  # number of the last record that makes a prompt current
    for entry in journal.entries("sent"):
        key = (entry.address, entry.fingerprint)
        if key not in sent:
            sent[key] = _read_request(entry)
        used[key] = entry.seq
    for entry in journal.entries("note", texts=False):
        if entry.address.endswith(REUSED_SUFFIX):
            used[entry.address.removesuffix(REUSED_SUFFIX), entry.fingerprint] = entry.seq
    times = Counter((entry.address, entry.fingerprint) for entry in journal.entries("reply", texts=False))
    tried: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    for entry in journal.entries("tried"):
        tried[entry.address, entry.fingerprint].append(entry.body.get("message", ""))
    failed = {entry[1:3]: ModelError.from_dict(entry.body).message for entry in journal.entries("failed")}
    by_attempt: dict[tuple[str, str], list[list[_SentRequest]]] = {}
    started: list[tuple[tuple[str, str], list[_SentRequest]]] = []
    for request in filter(None, sent.values()):
        variants = by_attempt.setdefault((request.path, request.attempt), [])
        continued = next((requests for requests in reversed(variants) if requests[0].is_continued_by(request)), None)
        if continued is not None:
            continued.append(request)
        else:
            variants.append([request])
            started.append(((request.path, request.attempt), variants[-1]))
    conversations = []
    for (path, attempt), requests in started:
        variants = by_attempt[path, attempt]
        last_use, *others = [used[each[0].address, each[0].fingerprint] for each in (requests, *variants)]
        version = 1 + sum(seq < last_use for seq in others)
        turns = []
        ordered = sorted(requests, key=lambda request: request.number)
        for previous, each, following in zip([None, *ordered], ordered, [*ordered[1:], None], strict=False):
            key = (each.address, each.fingerprint)
            turn = ConversationTurn(
                journal, each.address, each.number, each.fingerprint, each.seq, each.model, each.round, times[key],
                failed.get(key, ""), tuple(tried[key]), previous is not None and each.ends_with_user,
                following.seq if following is not None else 0,
            )  # fmt: skip
            turns.append(turn)
        conversations.append(Conversation(path, int(attempt), tuple(turns), version, len(variants)))
    return conversations, list(sent.values()).count(None)


class _SentRequest(NamedTuple):
    """The parts of a request that show to which conversation it belongs. Texts are hashes."""

    address: str
    fingerprint: str
    seq: int
    path: str
    number: int
    attempt: str
    round: str
    model: str
    system: int
    messages: tuple[int, ...]
    ends_with_user: bool

    def is_continued_by(self, later: _SentRequest) -> bool:
        """Whether a request continues the conversation that begins with this one."""
        return (
            later.number > self.number
            and (later.model, later.system) == (self.model, self.system)
            and later.messages[: len(self.messages)] == self.messages
        )


def _read_request(entry: JournalEntry) -> _SentRequest | None:
    """Return these parts of a request; None if its record is invalid."""
    place = _ADDRESS.fullmatch(entry.address)
    if place is None or not matches_record(SentBody, entry.body):
        return None
    path, number, attempt = place.groups()
    request = Request.from_dict(entry.body)
    system = hash(tuple(block.text for block in request.system))
    messages = tuple(hash((each.role, *(block.text for block in each.blocks))) for each in request.messages)
    ends_with_user = bool(request.messages) and request.messages[-1].role == "user"
    return _SentRequest(
        entry.address, entry.fingerprint, entry.seq, path, int(number), attempt, str(entry.body.get("round", "1")),
        request.model, system, messages, ends_with_user,
    )  # fmt: skip


# a run


class RunView:
    """A stored run as commands show it. Each part is read when it is first used."""

    def __init__(self, run: StoredRun) -> None:
        self.run = run

    @cached_property
    def history(self) -> RunHistory:
        return read_history(self.run.events())

    @property
    def resume_flags(self) -> dict[str, str]:
        """The flags with which to resume the run from the current folder."""
        with suppress(SkillrunError):  # a transcript that cannot be read is reported by the run itself
            return flags_for_resume(self.history.flags)
        return {}

    @cached_property
    def journal(self) -> MemoryJournal:
        """The journal so far. Raises SkillrunError if it is missing or cannot be read."""
        if not self.run.has_journal:
            raise SkillrunError(
                f"{self.run.location} has no journal in `.run/`, so its prompts and replies are missing",
                f"copy the run with its `.run` folder; `skillrun show {self.run.name}` summarises the other files",
            )
        return self.run.read_journal(while_held=True)

    @cached_property
    def data(self) -> RunData:
        """The files of the run, with what its journal records about them. Raises SkillrunError."""
        return self.run.data(self.journal)

    @cached_property
    def calls(self) -> RunCalls:
        """The calls in the journal. Raises SkillrunError."""
        conversations, invalid_count = read_conversations(self.journal)
        notes = [self.journal.warning] if self.journal.warning else []
        if invalid_count:
            notes.append(f"{invalid_count} records of requests are invalid and not shown")
        with_calls = (each.phase for each in conversations)
        phases = dict.fromkeys([*self.history.phases, *self.run.data().summaries.phases(), *with_calls])
        is_held, dropped = self.run.lease.is_held(), self.history.dropped
        return RunCalls(self.run.name, conversations, list(phases), is_held, notes, dropped)
