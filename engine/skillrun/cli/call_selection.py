"""Selects calls of a run by phase, step, member and address, from the run's journal.

It reads no workflow files, so it also works for runs of other projects and for files that have changed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Final

from skillrun.definitions.definitions import strip_markers
from skillrun.store.conversations import PER_ROUND_SUFFIX, Conversation, read_conversations
from skillrun.store.stored_run import StoredRun
from skillrun.syntax.diagnostics import SkillrunError, UsageError, allowed_hint, did_you_mean
from skillrun.types.fields import SLUG

MAX_NAMED: Final = 12  # addresses in a hint
_TURN: Final = re.compile(r"(\d+)\.(\d+)")


@dataclass(frozen=True)
class RunCalls:
    """The calls of a run. If `is_held`, a process is executing it, and calls without a reply may still get one."""

    name: str
    conversations: Sequence[Conversation]
    phases: Sequence[str]
    """All known phases, including those without calls."""
    is_held: bool
    notes: Sequence[str]
    dropped: Mapping[str, str]
    """Messages about items that were left out of a reply, keyed by the member's address without the round."""

    def dropped_text(self, conversation: Conversation) -> str:
        """Return the message about the items left out of a call's reply; empty unless this is the latest version."""
        address = "/".join(PER_ROUND_SUFFIX.sub("", part) for part in conversation.address.split("/"))
        return self.dropped.get(address, "") if conversation.is_latest else ""


@dataclass(frozen=True)
class CallSelector:
    """The command-line arguments that select calls.

    `phase` is a phase or the address of a call. `step` is the id of a step, or (part of) its address. `version` is the
    number of the prompt at the address, 0 for the latest.
    """

    phase: str
    step: str = ""
    member: str = ""
    version: int = 0

    @property
    def turn(self) -> int:
        """The turn that the address names; 0 if it names none."""
        turn = _TURN.fullmatch((self.step or self.phase).rpartition("/")[2])
        return int(turn[1]) if turn is not None else 0

    def __str__(self) -> str:
        return "/".join(filter(None, (self.phase, self.step, self.member)))


def read_run_calls(run: StoredRun) -> RunCalls:
    """Return the calls in the journal of a run. Raises SkillrunError if the journal is missing or cannot be read."""
    if not run.has_journal:
        raise SkillrunError(
            f"{run.location} has no journal in `.run/`, so its prompts and replies are missing",
            f"copy the run with its `.run` folder; `skillrun show {run.name}` summarises the other files",
        )
    with closing(run.journal_snapshot()) as journal:
        found_calls, wrong = read_conversations(journal)
        doubt = journal.warning
    notes = [doubt] if doubt else []
    if wrong:
        notes.append(f"{wrong} records of requests are invalid and not shown")
    phases: list[str] = []  # those at the last start; other phases with calls or summaries are added below
    dropped: dict[str, str] = {}
    for event in run.events():
        if event["event"] == "RunStarted":
            phases = [name for name in event["phases"] if SLUG.fullmatch(name)]
        elif event["event"] == "Pruned":
            dropped[event["address"]] = event["text"]
    phase_names = dict.fromkeys([*phases, *run.data().summaries.phases(), *(each.phase for each in found_calls)])
    return RunCalls(run.name, found_calls, list(phase_names), run.lease.is_held(), notes, dropped)


def select_calls(calls: RunCalls, selector: CallSelector) -> list[Conversation]:
    """Return the matching conversations: for each address, the latest version or the selected one.

    Raises UsageError if none matches; its hint lists what exists.
    """
    at = selector if "/" not in selector.phase else _parse_address(calls, selector)
    in_phase = [each for each in calls.conversations if each.phase == at.phase]
    if not in_phase:
        _raise_unknown_phase(calls, at.phase)
    matches = [each for each in in_phase if _is_at_step(each, at.step) and matches_member(each.member, at.member)]
    if not matches:
        names = list(dict.fromkeys(each.path.partition("/")[2] for each in in_phase))
        text = "/".join(filter(None, (at.step, at.member)))
        last = [part for name in names for part in name.split("/")]
        shortest = dict.fromkeys(strip_markers(name) for name in names)  # names without passes and items
        hint = did_you_mean(at.member or at.step, last) or allowed_hint(list(shortest)[:MAX_NAMED])
        raise UsageError(f"`{at.phase}` of {calls.name} has no call at `{text}`", hint)
    chosen = [each for each in matches if (each.version == at.version if at.version else each.is_latest)]
    if not chosen:
        most = max(each.versions for each in matches)
        raise UsageError(
            f"there is no prompt version {at.version} at `{at}`", f"use a version from 1 (the first) to {most}"
        )
    return chosen


def _parse_address(calls: RunCalls, selector: CallSelector) -> CallSelector:
    """Return the selector for an address such as `workflow/phase/step/…`; the workflow may be left out."""
    segments = selector.phase.split("/")
    if segments[0] not in calls.phases and len(segments) > 1:
        segments = segments[1:]
    steps = "/".join(filter(None, (*segments[1:], selector.step)))
    return CallSelector(segments[0], steps, selector.member, selector.version)


def _raise_unknown_phase(calls: RunCalls, phase: str) -> None:
    with_calls = list(dict.fromkeys(each.phase for each in calls.conversations))
    if phase in calls.phases:
        reason = f"phases with calls: {', '.join(with_calls)}" if with_calls else "no phase has made a call yet"
        raise UsageError(f"`{phase}` of {calls.name} has made no calls", reason)
    known = calls.phases or with_calls
    hint = did_you_mean(phase, known) or (allowed_hint(known) if known else "it has made no calls")
    raise UsageError(f"{calls.name} has no phase `{phase}`", hint)


def _is_at_step(conversation: Conversation, step: str) -> bool:
    """Whether the conversation is at `step`, which is a step's id or part of an address.

    If `step` names no pass or item, every pass and item matches.
    """
    if not step:
        return True
    wanted = step.strip("/").split("/")
    attempt = _TURN.fullmatch(wanted[-1])
    if attempt is not None and int(attempt[2]) == conversation.attempt:
        wanted = wanted[:-1]
    segments = conversation.steps if len(wanted) == 1 else [*conversation.steps, *conversation.member.split("/")]
    starts = range(len(segments) - len(wanted) + 1)
    return any(all(map(_is_segment, segments[at:], wanted)) for at in starts)


def _is_segment(segment: str, wanted: str) -> bool:
    return wanted in (
        segment,
        bare := strip_markers(segment),
        PER_ROUND_SUFFIX.sub("", bare),
        PER_ROUND_SUFFIX.sub("", segment),
    )


def matches_member(member_id: str, pattern: str) -> bool:
    """Whether the pattern is the member's id, role, variant or model; an empty pattern matches any member."""
    who, _, model = member_id.partition("@")
    return not pattern or pattern in (member_id, who, model, *who.split(":"))
