"""Prepares a run's calls for a report, grouped by phase and step. A text that was sent several times is shown once."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from skillrun.cli.call_view import prompt_parts, status_text
from skillrun.cli.differences import text_difference
from skillrun.definitions.definitions import strip_markers
from skillrun.extensions.report.report_data import ReportDocument
from skillrun.extensions.report.run_pairs import CallPair, pair_versions
from skillrun.models.messages import Request, Usage
from skillrun.store.run_view import PER_ROUND_SUFFIX, Conversation, ConversationTurn, RunCalls, ToolUse
from skillrun.structured_output.values import parse_reply

COLOURS: Final = 8
MAX_PREVIEW_CHARS: Final = 220  # characters of a reply that its summary line shows
MAX_UNFOLDED_CHARS: Final = 700  # longer replies are collapsed
MIN_DOCUMENT_CHARS: Final = 200  # shorter documents are not recognized in replies

_MARKS: Final = str.maketrans({"#": " ", "*": "", "`": "", "|": " "})  # markdown signs that a preview replaces or drops


@dataclass(frozen=True)
class PartView:
    """A part of a prompt, or a tool result: its text, or the anchor where the page already shows the text."""

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
    """A turn. Its reply is in `text` or, if structured, in `value`.

    If the reply begins with the text of a document of the run, `document` names the document.
    """

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
    """How a prompt part or reply changed: the lines of the difference, or the anchor where the page shows them."""

    title: str
    lines: Sequence[str]
    anchor: str


@dataclass(frozen=True)
class CallView:
    """A member's conversation: the parts of its prompt, its turns, and the changes since the previous prompt."""

    anchor: str
    conversation: Conversation
    member: str
    note: str
    """The numbers of the attempt and the prompt, if there were several."""
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
    """How the prompt and the reply changed since the previous prompt at this address."""

    @property
    def prompt_tokens(self) -> int:
        return sum(part.tokens for part in self.parts)


@dataclass(frozen=True)
class StepView:
    """The calls of a step. `turns` contains (name, calls of one or more members) for each turn."""

    name: str
    turns: Sequence[tuple[str, Sequence[CallView]]]

    @property
    def calls(self) -> list[CallView]:
        return [call for _, calls in self.turns for call in calls]

    @property
    def is_panel(self) -> bool:
        return len({call.member for call in self.calls}) > 1


class ReportCalls:
    """All calls of a run, and the texts that several calls share."""

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
        rounds = Counter((each.path, each.attempt, each.round) for each in calls.conversations)
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
        """Return the anchor of the `number`-th call at an address, or of the last call if there are fewer calls.

        Empty for an address without calls.
        """
        anchors = self._anchors_by_address.get(address, [])
        return anchors[min(number, len(anchors)) - 1] if anchors else ""

    def colour_of(self, member: str) -> int:
        return self._colours.setdefault(member, len(self._colours) % COLOURS)

    def letters_of(self, member: str) -> str:
        """Return two letters that stand for a member. Members share letters only if all combinations are used."""
        if member not in self._letters:
            self._letters[member] = _choose_letters(member, set(self._letters.values()))
        return self._letters[member]

    def steps(self, phase: str, number: int) -> list[StepView]:
        """Return the steps of a phase that made calls in a round, in the order in which they started."""
        steps: dict[str, dict[str, list[CallView]]] = {}
        for view in self.views:
            each = view.conversation
            if each.phase == phase and each.round == number:
                first, *inner = [PER_ROUND_SUFFIX.sub("", segment) for segment in each.steps] or [""]
                steps.setdefault(_format_address(first), {}).setdefault(_format_address("/".join(inner)), []).append(
                    view
                )
        return [StepView(name, list(turns.items())) for name, turns in steps.items()]

    def _build_call_view(self, number: int, conversation: Conversation) -> CallView:
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
            conversation.usage,
            conversation.price,
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
        key = (conversation.path, conversation.attempt, conversation.round)
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
        """Return the name of the document that a reply begins with, and the rest of the reply.

        The page links to the document instead of repeating the text.
        """
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


def _pairs(conversations: Sequence[Conversation]) -> Iterator[CallPair]:
    """Yield a pair for each prompt that replaced an earlier one at the same address."""
    for version in range(1, max((each.versions for each in conversations), default=1)):
        both = (each for each in conversations if version <= each.version <= version + 1)
        yield from pair_versions(both, version)


def _changes(pair: CallPair) -> Iterator[tuple[str, list[str]]]:
    """Yield (title, difference) for each prompt part that changed between two versions, and for the reply."""
    sides = [pair.before, pair.after]
    before, after = [_texts(side.first.request) if side is not None else {} for side in sides]
    for title in dict.fromkeys([*after, *before]):
        if lines := text_difference(before.get(title, ""), after.get(title, "")):
            yield title, lines
    if pair.reply_difference:
        yield "reply", pair.reply_difference


def _texts(request: Request) -> dict[str, str]:
    """Return the parts of a prompt, keyed by name. Parts with the same name are joined."""
    texts: dict[str, str] = {}
    for part in prompt_parts(request):
        texts[part["part"]] = "\n\n".join(filter(None, (texts.get(part["part"]), part["text"])))
    return texts


def _format_address(address: str) -> str:
    """Format a part of an address for readers. `gate#1` becomes `gate, pass 1`."""
    bare = strip_markers(address)
    if bare == address:
        return address.replace("/", " › ")
    return address.replace("#", ", pass ").replace("~", ": ").replace("/", " › ")


def _preview(text: str, value: Any) -> str:
    """Return the beginning of a reply on one line. A structured reply is shown without its empty fields."""
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
    """Return initials such as `JR` for `judge:risk`. If `used` contains the initials, return other letters."""
    parts = [part for part in re.split("[^A-Za-z0-9]+", member) if part] or [member]
    others = parts[-1] + "".join(parts) if len(parts) > 1 else parts[0][1:]
    candidates = [f"{parts[0][0]}{letter}".upper() for letter in f"{others}23456789"]
    return next((way for way in candidates if way not in used), candidates[0])


MAX_INLINE_CHARS: Final = 240  # shorter texts are repeated wherever they are used


class SharedText(NamedTuple):
    """A text that the page shows once, at `anchor`. `title` is the first title under which the text was sent."""

    anchor: str
    title: str
    text: str
    uses: int
    is_difference: bool


@dataclass
class SharedTexts:
    """The texts of a page and their anchors. `set_anchor` registers texts that have another place on the page."""

    _uses: Counter[str] = field(default_factory=Counter)
    _titles: dict[str, str] = field(default_factory=dict)
    _anchors: dict[str, str] = field(default_factory=dict)
    _differences: set[str] = field(default_factory=set)

    def count(self, texts: Iterable[tuple[str, str]]) -> None:
        """Count one use of each text, and keep its title. Must be called before `anchor_of`."""
        for title, text in texts:
            self._uses[text] += 1
            self._titles.setdefault(text, title)

    def count_difference(self, title: str, lines: Sequence[str]) -> None:
        """Count one use of a difference."""
        text = "\n".join(lines)
        self.count([(title, text)])
        self._differences.add(text)

    def set_anchor(self, anchor: str, text: str) -> None:
        """Register that the page shows a text at this anchor."""
        if len(text) > MAX_INLINE_CHARS:
            self._anchors.setdefault(text, anchor)

    def anchor_of(self, text: str) -> str:
        """Return the anchor where the page shows a text once; empty if the page repeats the text at each use."""
        if text in self._anchors:
            return self._anchors[text]
        if self._uses[text] < 2 or len(text) <= MAX_INLINE_CHARS:
            return ""
        self._anchors[text] = f"text-{len(self._anchors) + 1}"
        return self._anchors[text]

    def list_texts(self) -> list[SharedText]:
        """Return the texts of the section "Shared texts", the most used first."""
        texts = [text for text in self._titles if self.anchor_of(text).startswith("text-")]
        shared_texts = [
            SharedText(self._anchors[text], self._titles[text], text, self._uses[text], text in self._differences)
            for text in texts
        ]
        return sorted(shared_texts, key=lambda shared: -shared.uses)
