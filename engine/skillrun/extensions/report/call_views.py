"""A run's calls as a page tells them: by phase and step, a panel as a conversation, what is sent often only once."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from skillrun.cli.call_selection import RunCalls
from skillrun.cli.call_view import conversation_usage, prompt_parts, status_text
from skillrun.cli.differences import text_difference
from skillrun.definitions.step_paths import strip_markers
from skillrun.extensions.report.report_data import ReportDocument
from skillrun.extensions.report.run_pairs import CallPair, pair_versions
from skillrun.extensions.report.shared_texts import SharedTexts
from skillrun.models.messages import Request, Usage
from skillrun.store.conversations import PER_ROUND_SUFFIX, Conversation, ConversationTurn, ToolUse
from skillrun.structured_output.values import parse_reply

COLOURS: Final = 8
MAX_PREVIEW_CHARS: Final = 220  # characters of a reply that stand on the line that unfolds it
MAX_UNFOLDED_CHARS: Final = 700  # characters of a reply that is not folded
MIN_DOCUMENT_CHARS: Final = 200  # characters of one that a reply may begin with

_MARKS: Final = str.maketrans({"#": " ", "*": "", "`": "", "|": " "})  # of markdown, which say nothing on a line


@dataclass(frozen=True)
class PartView:
    """A part of a prompt, or what a tool gave: its text, or the place on the page where that stands."""

    title: str
    tokens: int
    text: str
    anchor: str
    left_out: Sequence[str] = ()


@dataclass(frozen=True)
class ToolView:
    name: str
    arguments: Mapping[str, Any]
    result: PartView | None


@dataclass(frozen=True)
class TurnView:
    """A turn: what it says as text or as a `value`, or `document`, where the reply is a document of the run."""

    number: int
    status: str
    asks_again: str
    tried: Sequence[str]
    tools: Sequence[ToolView]
    text: str
    value: Any
    document: str
    is_answered: bool
    times: int
    seconds: float


@dataclass(frozen=True)
class ChangeView:
    """What differs of a part of a prompt, or of a reply: the lines, or the place on the page where these stand."""

    title: str
    lines: Sequence[str]
    anchor: str


@dataclass(frozen=True)
class CallView:
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
    parts: Sequence[PartView]
    turns: Sequence[TurnView]
    dropped: str
    changes: Sequence[ChangeView]
    """What differs from the prompt that was at its address before, and from the reply to that."""

    @property
    def prompt_tokens(self) -> int:
        return sum(part.tokens for part in self.parts)


@dataclass(frozen=True)
class StepView:
    """The calls of a step. `turns`: what was asked in it one after another, each of one or several members at once."""

    name: str
    turns: Sequence[tuple[str, Sequence[CallView]]]

    @property
    def calls(self) -> list[CallView]:
        return [call for _, calls in self.turns for call in calls]

    @property
    def is_panel(self) -> bool:
        return len({call.member for call in self.calls}) > 1


class ReportCalls:
    """All calls of a run, and the texts that they share."""

    def __init__(self, calls: RunCalls, documents: Sequence[ReportDocument]) -> None:
        self.shared = SharedTexts()
        self._calls = calls
        self._documents = {each.text.strip(): each.name for each in documents if len(each.text) > MIN_DOCUMENT_CHARS}
        self._colours: dict[str, int] = {}
        self._letters: dict[str, str] = {}
        self._changes = {id(pair.after): list(_changes(pair)) for pair in _pairs(calls.conversations)}
        for changes in self._changes.values():
            for title, lines in changes:
                self.shared.count_difference(f"{title}, what changed", lines)
        rounds = Counter((each.path, each.attempt, round_of(each)) for each in calls.conversations)
        self._multi_version_keys = {key for key, number in rounds.items() if number > 1}
        for each in calls.conversations:
            self.shared.count((part["part"], part["text"]) for part in prompt_parts(each.first.request))
            self.shared.count((use.call.name, use.result) for turn in each.turns for use in turn.tools if use.result)
        for number, each in enumerate(calls.conversations, 1):
            for turn in each.turns:
                if turn.reply is not None:
                    self.shared.set_anchor(f"call-{number}", turn.reply.text)
        self.views = [self._build_call_view(number, each) for number, each in enumerate(calls.conversations, 1)]
        self._anchors_by_address: dict[str, list[str]] = {}
        for view in self.views:
            for turn in view.conversation.turns:
                self._anchors_by_address.setdefault(turn.address, []).append(view.anchor)

    def anchor_of(self, address: str, number: int) -> str:
        """The place of the call that was sent to an address as the number-th one; empty where it is not known."""
        anchors = self._anchors_by_address.get(address, [])
        return anchors[min(number, len(anchors)) - 1] if anchors else ""

    def colour_of(self, member: str) -> int:
        return self._colours.setdefault(member, len(self._colours) % COLOURS)

    def letters_of(self, member: str) -> str:
        """Two letters for a member, which no other has as long as there are any."""
        if member not in self._letters:
            self._letters[member] = _choose_letters(member, set(self._letters.values()))
        return self._letters[member]

    def steps(self, phase: str, number: int) -> list[StepView]:
        """The steps of a phase that asked somebody in a round, in the order in which they began."""
        steps: dict[str, dict[str, list[CallView]]] = {}
        for view in self.views:
            each = view.conversation
            if each.phase == phase and round_of(each) == number:
                first, *inner = [PER_ROUND_SUFFIX.sub("", segment) for segment in each.steps] or [""]
                steps.setdefault(_format_address(first), {}).setdefault(_format_address("/".join(inner)), []).append(
                    view
                )
        return [StepView(name, list(turns.items())) for name, turns in steps.items()]

    @staticmethod
    def round_of(view: CallView) -> int:
        return round_of(view.conversation)

    def _build_call_view(self, number: int, conversation: Conversation) -> CallView:
        usage, price = conversation_usage(conversation)
        turns = [self._turn(turn) for turn in conversation.turns]
        last = conversation.last
        text = last.reply.text if last.reply is not None else ""
        return CallView(
            f"call-{number}",
            conversation,
            conversation.member,
            self._note(conversation),
            self.colour_of(conversation.member),
            self.letters_of(conversation.member),
            status_text(last, is_held=self._calls.is_held),
            last.reply is not None,
            usage,
            price,
            sum(turn.seconds for turn in turns),
            _preview(text, turns[-1].value),
            last.reply is not None and len(text) <= MAX_UNFOLDED_CHARS and len(turns) == 1,
            [self._part(part) for part in prompt_parts(conversation.first.request) if part["text"]],
            turns,
            self._calls.dropped_text(conversation),
            [self._change(*each) for each in self._changes.get(id(conversation), ())],
        )

    def _note(self, conversation: Conversation) -> str:
        attempt = f"attempt {conversation.attempt}" if conversation.attempt > 1 else ""
        key = (conversation.path, conversation.attempt, round_of(conversation))
        version = f"prompt {conversation.version} of {conversation.versions}" if key in self._multi_version_keys else ""
        return ", ".join(filter(None, (attempt, version)))

    def _change(self, title: str, lines: Sequence[str]) -> ChangeView:
        anchor = self.shared.anchor_of("\n".join(lines))
        return ChangeView(title, [] if anchor else lines, anchor)

    def _part(self, part: Mapping[str, Any]) -> PartView:
        anchor = self.shared.anchor_of(part["text"])
        return PartView(part["part"], part["tokens"], "" if anchor else part["text"], anchor, part["left_out"])

    def _turn(self, turn: ConversationTurn) -> TurnView:
        reply, text, value, document = turn.reply, "", None, ""
        if reply is not None:
            text = reply.text
            if turn.request.schema is not None:
                value = parse_reply(text, turn.request.schema)[0]
            else:
                document, text = self._split_document(text)
        return TurnView(
            turn.number,
            status_text(turn, is_held=self._calls.is_held),
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

    def _split_document(self, text: str) -> tuple[str, str]:
        """The document that a reply begins with, and the rest of the reply; a document is told where it stands."""
        for content, name in self._documents.items():
            if text.strip().startswith(content):
                return name, text.strip()[len(content) :].strip()
        return "", text

    def _tool(self, use: ToolUse) -> ToolView:
        if use.result is None:
            return ToolView(use.call.name, use.call.arguments, None)
        anchor = self.shared.anchor_of(use.result)
        return ToolView(
            use.call.name, use.call.arguments, PartView(use.call.name, 0, "" if anchor else use.result, anchor)
        )


def round_of(conversation: Conversation) -> int:
    """The round of the run in which it began; a workflow inside of a phase counts its own behind a dot."""
    first = conversation.first.round.partition(".")[0]
    return int(first) if first.isdecimal() else 1


def _pairs(conversations: Sequence[Conversation]) -> Iterator[CallPair]:
    """Every prompt that took the place of another at its address, beside that one."""
    for version in range(1, max((each.versions for each in conversations), default=1)):
        both = (each for each in conversations if version <= each.version <= version + 1)
        yield from pair_versions(both, version)


def _changes(pair: CallPair) -> Iterator[tuple[str, list[str]]]:
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
    for part in prompt_parts(request):
        texts[part["part"]] = "\n\n".join(filter(None, (texts.get(part["part"]), part["text"])))
    return texts


def _format_address(address: str) -> str:
    """`gate, pass 1` for `gate#1`: a part of an address as people read it."""
    bare = strip_markers(address)
    if bare == address:
        return address.replace("/", " › ")
    return address.replace("#", ", pass ").replace("~", ": ").replace("/", " › ")


def _preview(text: str, value: Any) -> str:
    """How a reply begins, on one line; of a structured one its first texts and numbers."""
    if isinstance(value, dict):
        short = [f"{name}: {_summarize_value(item)}" for name, item in value.items() if item not in ([], {}, "", None)]
        text = " · ".join(short)
    line = " ".join(text[: 4 * MAX_PREVIEW_CHARS].translate(_MARKS).split())
    return line if len(line) <= MAX_PREVIEW_CHARS else f"{line[: MAX_PREVIEW_CHARS - 1]}…"


def _summarize_value(item: Any) -> str:
    if isinstance(item, list):
        return f"{len(item)} ({_summarize_value(item[0])})" if item and isinstance(item[0], str) else str(len(item))
    return json.dumps(item, ensure_ascii=False) if isinstance(item, dict) else str(item)


def _choose_letters(member: str, used: Collection[str]) -> str:
    """Of `judge:risk` the first letters of its role and its variant; where they are taken, others of its name."""
    parts = [part for part in re.split("[^A-Za-z0-9]+", member) if part] or [member]
    others = parts[-1] + "".join(parts) if len(parts) > 1 else parts[0][1:]
    candidates = [f"{parts[0][0]}{letter}".upper() for letter in f"{others}23456789"]
    return next((way for way in candidates if way not in used), candidates[0])
