"""A run's calls as a page tells them: by phase and step, a panel as a conversation, what is sent often only once."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from skillrun.cli.call_selection import RunCalls
from skillrun.cli.call_view import parts_of, spent_by, status_of
from skillrun.cli.differences import text_difference
from skillrun.definitions.step_paths import unmarked
from skillrun.extensions.report.report_data import Document
from skillrun.extensions.report.run_pairs import Pair, pairs_of_versions
from skillrun.extensions.report.shared_texts import SharedTexts
from skillrun.models.messages import Request, Usage
from skillrun.store.conversations import FRESH, Conversation, ToolUse, Turn
from skillrun.structured_output.values import parse_reply

COLOURS: Final = 8
GLANCE: Final = 220  # characters of a reply that stand on the line that unfolds it
OPEN: Final = 700  # characters of a reply that is not folded
LEAST_DOCUMENT: Final = 200  # characters of one that a reply may begin with

_MARKS: Final = str.maketrans({"#": " ", "*": "", "`": "", "|": " "})  # of markdown, which say nothing on a line


@dataclass(frozen=True)
class Part:
    """A part of a prompt, or what a tool gave: its text, or the place on the page where that stands."""

    title: str
    tokens: int
    text: str
    anchor: str
    left_out: Sequence[str] = ()


@dataclass(frozen=True)
class ToldTool:
    name: str
    arguments: Mapping[str, Any]
    result: Part | None


@dataclass(frozen=True)
class ToldTurn:
    """A turn: what it says as text or as a `value`, or `document`, where the reply is a document of the run."""

    number: int
    status: str
    asks_again: str
    tried: Sequence[str]
    tools: Sequence[ToldTool]
    text: str
    value: Any
    document: str
    is_answered: bool
    times: int
    seconds: float


@dataclass(frozen=True)
class Change:
    """What differs of a part of a prompt, or of a reply: the lines, or the place on the page where these stand."""

    title: str
    lines: Sequence[str]
    anchor: str


@dataclass(frozen=True)
class ToldCall:
    """A conversation of a member: its prompt by parts, its turns, and what differs from the prompt before it."""

    anchor: str
    conversation: Conversation
    member: str
    note: str
    """Which attempt or prompt it is, where one round had several."""
    colour: int
    letters: str
    status: str
    is_answered: bool
    usage: Usage
    price: float | None
    seconds: float
    glance: str
    is_open: bool
    parts: Sequence[Part]
    turns: Sequence[ToldTurn]
    dropped: str
    changes: Sequence[Change]
    """What differs from the prompt that was at its address before, and from the reply to that."""

    @property
    def prompt_tokens(self) -> int:
        return sum(part.tokens for part in self.parts)


@dataclass(frozen=True)
class ToldStep:
    """The calls of a step. `turns`: what was asked in it one after another, each of one or several members at once."""

    name: str
    turns: Sequence[tuple[str, Sequence[ToldCall]]]

    @property
    def calls(self) -> list[ToldCall]:
        return [call for _, calls in self.turns for call in calls]

    @property
    def is_panel(self) -> bool:
        return len({call.member for call in self.calls}) > 1


class ToldCalls:
    """All calls of a run, and the texts that they share."""

    def __init__(self, calls: RunCalls, documents: Sequence[Document]) -> None:
        self.shared = SharedTexts()
        self._calls = calls
        self._documents = {each.text.strip(): each.name for each in documents if len(each.text) > LEAST_DOCUMENT}
        self._colours: dict[str, int] = {}
        self._letters: dict[str, str] = {}
        self._changes = {id(pair.after): list(_changes(pair)) for pair in _pairs(calls.conversations)}
        for changes in self._changes.values():
            for title, lines in changes:
                self.shared.count_difference(f"{title}, what changed", lines)
        rounds = Counter((each.path, each.attempt, round_of(each)) for each in calls.conversations)
        self._several = {key for key, number in rounds.items() if number > 1}
        for each in calls.conversations:
            self.shared.count((part["part"], part["text"]) for part in parts_of(each.first.request))
            self.shared.count((use.call.name, use.result) for turn in each.turns for use in turn.tools if use.result)
        for number, each in enumerate(calls.conversations, 1):
            for turn in each.turns:
                if turn.reply is not None:
                    self.shared.stands_at(f"call-{number}", turn.reply.text)
        self.told = [self._told(number, each) for number, each in enumerate(calls.conversations, 1)]
        self._anchors_of: dict[str, list[str]] = {}
        for told in self.told:
            for turn in told.conversation.turns:
                self._anchors_of.setdefault(turn.address, []).append(told.anchor)

    def anchor_of(self, address: str, number: int) -> str:
        """The place of the call that was sent to an address as the number-th one; empty where it is not known."""
        there = self._anchors_of.get(address, [])
        return there[min(number, len(there)) - 1] if there else ""

    def colour_of(self, member: str) -> int:
        return self._colours.setdefault(member, len(self._colours) % COLOURS)

    def letters_of(self, member: str) -> str:
        """Two letters for a member, which no other has as long as there are any."""
        if member not in self._letters:
            self._letters[member] = _letters(member, set(self._letters.values()))
        return self._letters[member]

    def steps(self, phase: str, number: int) -> list[ToldStep]:
        """The steps of a phase that asked somebody in a round, in the order in which they began."""
        steps: dict[str, dict[str, list[ToldCall]]] = {}
        for told in self.told:
            each = told.conversation
            if each.phase == phase and round_of(each) == number:
                first, *inner = [FRESH.sub("", segment) for segment in each.steps] or [""]
                steps.setdefault(_spoken(first), {}).setdefault(_spoken("/".join(inner)), []).append(told)
        return [ToldStep(name, list(turns.items())) for name, turns in steps.items()]

    @staticmethod
    def round_of(told: ToldCall) -> int:
        return round_of(told.conversation)

    def _told(self, number: int, conversation: Conversation) -> ToldCall:
        usage, price = spent_by(conversation)
        turns = [self._turn(turn) for turn in conversation.turns]
        last = conversation.last
        text = last.reply.text if last.reply is not None else ""
        return ToldCall(
            f"call-{number}",
            conversation,
            conversation.member,
            self._note(conversation),
            self.colour_of(conversation.member),
            self.letters_of(conversation.member),
            status_of(last, is_held=self._calls.is_held),
            last.reply is not None,
            usage,
            price,
            sum(turn.seconds for turn in turns),
            _glance(text, turns[-1].value),
            last.reply is not None and len(text) <= OPEN and len(turns) == 1,
            [self._part(part) for part in parts_of(conversation.first.request) if part["text"]],
            turns,
            self._calls.dropped_of(conversation),
            [self._change(*each) for each in self._changes.get(id(conversation), ())],
        )

    def _note(self, conversation: Conversation) -> str:
        attempt = f"attempt {conversation.attempt}" if conversation.attempt > 1 else ""
        key = (conversation.path, conversation.attempt, round_of(conversation))
        version = f"prompt {conversation.version} of {conversation.versions}" if key in self._several else ""
        return ", ".join(filter(None, (attempt, version)))

    def _change(self, title: str, lines: Sequence[str]) -> Change:
        anchor = self.shared.place_of("\n".join(lines))
        return Change(title, [] if anchor else lines, anchor)

    def _part(self, part: Mapping[str, Any]) -> Part:
        anchor = self.shared.place_of(part["text"])
        return Part(part["part"], part["tokens"], "" if anchor else part["text"], anchor, part["left_out"])

    def _turn(self, turn: Turn) -> ToldTurn:
        reply, text, value, document = turn.reply, "", None, ""
        if reply is not None:
            text = reply.text
            if turn.request.schema is not None:
                value = parse_reply(text, turn.request.schema)[0]
            else:
                document, text = self._as_document(text)
        return ToldTurn(
            turn.number,
            status_of(turn, is_held=self._calls.is_held),
            turn.asks_again,
            turn.tried,
            [self._tool(use) for use in turn.tools],
            text,
            value,
            document,
            reply is not None,
            turn.times,
            reply.seconds if reply is not None else 0.0,
        )

    def _as_document(self, text: str) -> tuple[str, str]:
        """The document that a reply begins with, and the rest of the reply; a document is told where it stands."""
        for content, name in self._documents.items():
            if text.strip().startswith(content):
                return name, text.strip()[len(content) :].strip()
        return "", text

    def _tool(self, use: ToolUse) -> ToldTool:
        if use.result is None:
            return ToldTool(use.call.name, use.call.arguments, None)
        anchor = self.shared.place_of(use.result)
        return ToldTool(use.call.name, use.call.arguments, Part(use.call.name, 0, "" if anchor else use.result, anchor))


def round_of(conversation: Conversation) -> int:
    """The round of the run in which it began; a workflow inside of a phase counts its own behind a dot."""
    first = conversation.first.round.partition(".")[0]
    return int(first) if first.isdecimal() else 1


def _pairs(conversations: Sequence[Conversation]) -> Iterator[Pair]:
    """Every prompt that took the place of another at its address, beside that one."""
    for version in range(1, max((each.versions for each in conversations), default=1)):
        both = (each for each in conversations if version <= each.version <= version + 1)
        yield from pairs_of_versions(both, version)


def _changes(pair: Pair) -> Iterator[tuple[str, list[str]]]:
    """What differs between two versions of a call, part by part of the prompt, and of the reply."""
    sides = [pair.before, pair.after]
    before, after = [_texts(side.first.request) if side is not None else {} for side in sides]
    for title in dict.fromkeys([*after, *before]):
        if lines := text_difference(before.get(title, ""), after.get(title, "")):
            yield title, lines
    if pair.reply_difference:
        yield "reply", pair.reply_difference


def _texts(request: Request) -> dict[str, str]:
    """The parts of a prompt by their names; several of one name as one."""
    texts: dict[str, str] = {}
    for part in parts_of(request):
        texts[part["part"]] = "\n\n".join(filter(None, (texts.get(part["part"]), part["text"])))
    return texts


def _spoken(address: str) -> str:
    """`gate, pass 1` for `gate#1`: a part of an address as people read it."""
    bare = unmarked(address)
    if bare == address:
        return address.replace("/", " › ")
    return address.replace("#", ", pass ").replace("~", ": ").replace("/", " › ")


def _glance(text: str, value: Any) -> str:
    """How a reply begins, on one line; of a structured one its first texts and numbers."""
    if isinstance(value, dict):
        short = [f"{name}: {_short(item)}" for name, item in value.items() if item not in ([], {}, "", None)]
        text = " · ".join(short)
    line = " ".join(text[: 4 * GLANCE].translate(_MARKS).split())
    return line if len(line) <= GLANCE else f"{line[: GLANCE - 1]}…"


def _short(item: Any) -> str:
    if isinstance(item, list):
        return f"{len(item)} ({_short(item[0])})" if item and isinstance(item[0], str) else str(len(item))
    return json.dumps(item, ensure_ascii=False) if isinstance(item, dict) else str(item)


def _letters(member: str, taken: Collection[str]) -> str:
    """Of `judge:risk` the first letters of its role and its variant; where they are taken, others of its name."""
    parts = [part for part in re.split("[^A-Za-z0-9]+", member) if part] or [member]
    others = parts[-1] + "".join(parts) if len(parts) > 1 else parts[0][1:]
    ways = [f"{parts[0][0]}{letter}".upper() for letter in f"{others}23456789"]
    return next((way for way in ways if way not in taken), ways[0])
