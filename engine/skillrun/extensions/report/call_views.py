"""Prepares a run's calls for a report, grouped by phase and step. A text that was sent several times is shown once."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from skillrun.cli.call_view import prompt_parts, status_text
from skillrun.cli.differences import text_difference
from skillrun.definitions.definitions import strip_markers
from skillrun.extensions.report.report_data import ReportDocument
from skillrun.extensions.report.run_pairs import CallPair, pair_versions
from skillrun.models.messages import Request
from skillrun.store.run_view import PER_ROUND_SUFFIX, Conversation, ConversationTurn, RunCalls
from skillrun.structured_output.values import parse_reply

COLOURS: Final = 8
MAX_PREVIEW_CHARS: Final = 220  # characters of a reply that its summary line shows
MAX_UNFOLDED_CHARS: Final = 700  # longer replies are collapsed
MIN_DOCUMENT_CHARS: Final = 200  # shorter documents are not recognized in replies

_MARKS: Final = str.maketrans({"#": " ", "*": "", "`": "", "|": " "})  # markdown signs that a preview replaces or drops


@dataclass(frozen=True)
class TurnView:
    """A turn. Its reply is in `text` or, if structured, in `value`.

    If the reply begins with the text of a document of the run, `document` names the document, and `text` is the rest.
    """

    turn: ConversationTurn
    status: str
    text: str = ""
    value: Any = None
    document: str = ""


@dataclass(frozen=True)
class CallView:
    """A member's conversation: the parts of its prompt, its turns, and the changes since the previous prompt."""

    anchor: str
    conversation: Conversation
    note: str
    """The numbers of the attempt and the prompt, if there were several."""
    colour: int
    letters: str
    parts: Sequence[Mapping[str, Any]]
    turns: Sequence[TurnView]
    dropped: str
    changes: Sequence[tuple[str, Sequence[str]]]
    """How the prompt and the reply changed since the previous prompt at this address, as (title, difference)."""

    @property
    def member(self) -> str:
        return self.conversation.member

    @property
    def seconds(self) -> float:
        return sum(turn.reply.seconds for turn in self.conversation.turns if turn.reply is not None)

    @property
    def glance(self) -> str:
        """The beginning of the last reply on one line. A structured reply is shown without its empty fields."""
        reply, value = self.conversation.last.reply, self.turns[-1].value
        text = reply.text if reply is not None else ""
        if isinstance(value, dict):
            fields = ((name, item) for name, item in value.items() if item not in ([], {}, "", None))
            text = " · ".join(f"{name}: {_summarize_value(item)}" for name, item in fields)
        line = " ".join(text[: 4 * MAX_PREVIEW_CHARS].translate(_MARKS).split())
        return line if len(line) <= MAX_PREVIEW_CHARS else f"{line[: MAX_PREVIEW_CHARS - 1]}…"

    @property
    def is_open(self) -> bool:
        reply = self.conversation.last.reply
        return reply is not None and len(reply.text) <= MAX_UNFOLDED_CHARS and len(self.turns) == 1


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
                self.shared.count(f"{title}, what changed", "\n".join(lines), is_difference=True)
        rounds = Counter((each.path, each.attempt, each.round) for each in calls.conversations)
        self._multi_version_keys = {key for key, number in rounds.items() if number > 1}
        for number, each in enumerate(calls.conversations, 1):
            for part in prompt_parts(each.first.request):
                self.shared.count(part["part"], part["text"])
            for turn in each.turns:
                for use in turn.tools:
                    self.shared.count(use.call.name, use.result or "")
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
        """Return the initials of a member, which no other member of the run has."""
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
                turns = steps.setdefault(_format_address(first), {})
                turns.setdefault(_format_address("/".join(inner)), []).append(view)
        return [StepView(name, list(turns.items())) for name, turns in steps.items()]

    def _build_call_view(self, number: int, conversation: Conversation) -> CallView:
        member = conversation.member
        note = f"attempt {conversation.attempt}" if conversation.attempt > 1 else ""
        if (conversation.path, conversation.attempt, conversation.round) in self._multi_version_keys:
            note += f"{', ' if note else ''}prompt {conversation.version} of {conversation.versions}"
        return CallView(
            f"call-{number}",
            conversation,
            note,
            self.colour_of(member),
            self.letters_of(member),
            [part for part in prompt_parts(conversation.first.request) if part["text"]],
            [self._turn(turn) for turn in conversation.turns],
            self._calls.dropped_text(conversation),
            self._changes.get(id(conversation), ()),
        )

    def _turn(self, turn: ConversationTurn) -> TurnView:
        status = status_text(turn, is_held=self._calls.is_held)
        if turn.reply is None:
            return TurnView(turn, status)
        text = turn.reply.text
        if turn.request.schema is not None:
            return TurnView(turn, status, text, parse_reply(text, turn.request.schema)[0])
        for content, name in self._documents.items():  # the page links to the document instead of repeating the text
            if text.strip().startswith(content):
                return TurnView(turn, status, text.strip()[len(content) :].strip(), None, name)
        return TurnView(turn, status, text)


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


class SharedTexts:
    """The texts of a page and their anchors. `set_anchor` registers texts that have another place on the page."""

    def __init__(self) -> None:
        self._uses: Counter[str] = Counter()
        self._titles: dict[str, str] = {}
        self._anchors: dict[str, str] = {}
        self._differences: set[str] = set()

    def count(self, title: str, text: str, *, is_difference: bool = False) -> None:
        """Count one use of a text, and keep its first title. Must be called before `anchor_of`."""
        self._uses[text] += 1
        self._titles.setdefault(text, title)
        if is_difference:
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
        texts = [
            SharedText(self.anchor_of(text), title, text, self._uses[text], text in self._differences)
            for text, title in self._titles.items()
            if self.anchor_of(text).startswith("text-")
        ]
        return sorted(texts, key=lambda shared: -shared.uses)
