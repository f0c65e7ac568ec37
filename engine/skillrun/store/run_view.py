"""The read model of a run, for all commands that show runs. Changes nothing, and leaves out invalid records.

`RunHistory` (`run_history.py`) contains the events of the transcript, `RunCalls` contains the calls in the journal.
`RunView` reads each of them on first use.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final

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

    `reply` is the last reply. `times` is the number of replies: a run can repeat a call. `is_exact` says whether the
    request still has its recorded fingerprint.
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
    """The text of the prompt if it asks the model to repair the previous reply."""

    @property
    def status(self) -> str:
        """`answered`, `failed`, or `unanswered`."""
        return "answered" if self.reply is not None else "failed" if self.failed else "unanswered"


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
        return sum((turn.reply.usage for turn in self.turns if turn.reply is not None), Usage())

    @property
    def price(self) -> float | None:
        """The price of all replies; None if any price is unknown."""
        prices = [turn.reply.price for turn in self.turns if turn.reply is not None]
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
    sent: dict[tuple[str, str], JournalEntry] = {}
    used: dict[tuple[str, str], int] = {}  # number of the last record that makes a prompt current
    for entry in journal.entries("sent"):
        sent.setdefault((entry.address, entry.fingerprint), entry)
        used[entry.address, entry.fingerprint] = entry.seq
    for entry in journal.entries("note", texts=False):
        if entry.address.endswith(REUSED_SUFFIX):
            used[entry.address.removesuffix(REUSED_SUFFIX), entry.fingerprint] = entry.seq
    times = Counter((entry.address, entry.fingerprint) for entry in journal.entries("reply", texts=False))
    tried: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    for entry in journal.entries("tried"):
        tried[entry.address, entry.fingerprint].append(entry.body.get("message", ""))
    by_attempt: dict[tuple[str, str], list[list[ConversationTurn]]] = {}
    started: list[tuple[tuple[str, str], list[ConversationTurn]]] = []
    invalid_count = 0
    for key, entry in sent.items():
        place = _ADDRESS.fullmatch(entry.address)
        if place is None or not matches_record(SentBody, entry.body):
            invalid_count += 1
            continue
        path, number, attempt = place.groups()
        turn = _build_turn(journal, entry, int(number), times[key], tried[key])
        variants = by_attempt.setdefault((path, attempt), [])
        continued = next((turns for turns in reversed(variants) if _is_continuation(turns[0], turn)), None)
        if continued is not None:
            continued.append(turn)
        else:
            variants.append([turn])
            started.append(((path, attempt), variants[-1]))
    conversations = []
    for (path, attempt), turns in started:
        variants = by_attempt[path, attempt]
        last_use, *others = [used[each[0].address, each[0].fingerprint] for each in (turns, *variants)]
        version = 1 + sum(seq < last_use for seq in others)
        conversations.append(Conversation(path, int(attempt), _complete_turns(turns), version, len(variants)))
    return conversations, invalid_count


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
    """Return the turns in order. Add the texts of repair prompts, and missing tool results from the next prompt."""
    ordered = sorted(turns, key=lambda turn: turn.number)
    completed = []
    for previous, turn, following in zip([None, *ordered], ordered, [*ordered[1:], None], strict=False):
        last = turn.request.messages[-1] if turn.request.messages else None
        is_repair = previous is not None and last is not None and last.role == "user"
        text = "\n\n".join(block.text for block in last.blocks) if is_repair and last is not None else ""
        later_results = {
            message.call_id: "\n\n".join(block.text for block in message.blocks)
            for message in (following.request.messages if following is not None else ())
            if message.role == "tool"
        }
        tools = tuple(
            use if use.result is not None else replace(use, result=later_results.get(use.call.id)) for use in turn.tools
        )
        completed.append(replace(turn, tools=tools, asks_again=text))
    return tuple(completed)


def _build_turn(
    journal: Journal, sent: JournalEntry, number: int, times: int, tried: Iterable[str]
) -> ConversationTurn:
    """Return the turn that a request began, with its outcome in the journal."""
    key = (sent.address, sent.fingerprint)
    body, failed = journal.find("reply", *key), journal.find("failed", *key)
    request, reply = Request.from_dict(sent.body), Reply.from_dict(body) if body is not None else None
    tools = []
    for call in reply.calls if reply is not None else ():
        recorded = journal.find("tool", f"{sent.address}/{call.id}", call.fingerprint())
        tools.append(ToolUse(call, str(recorded.get("result", "")) if recorded is not None else None))
    return ConversationTurn(
        sent.address,
        number,
        sent.fingerprint,
        request,
        str(sent.body.get("round", "1")),
        request.fingerprint() == sent.fingerprint,
        reply,
        times,
        ModelError.from_dict(failed).message if failed is not None else "",
        tuple(tried),
        tuple(tools),
    )


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
