"""Which calls of a run a command means: by phase, step, member and address, from the run's journal alone.

Reads no workflow: a run of another project, or of files that have changed since, is looked at as well. Prints nothing.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Final

from skillrun.definitions.step_paths import strip_markers
from skillrun.store.conversations import PER_ROUND_SUFFIX, Conversation, read_conversations
from skillrun.store.stored_run import StoredRun
from skillrun.syntax.diagnostics import SkillrunError, UsageError, allowed_hint, did_you_mean
from skillrun.types.fields import SLUG

MAX_NAMED: Final = 12  # addresses in a hint
_TURN: Final = re.compile(r"(\d+)\.(\d+)")


@dataclass(frozen=True)
class RunCalls:
    """The calls of a run. `is_held`: a process runs it now, so that what has no answer may still get one."""

    name: str
    conversations: Sequence[Conversation]
    phases: Sequence[str]
    """All that are known of, those without calls too."""
    is_held: bool
    notes: Sequence[str]
    dropped: Mapping[str, str]
    """What was left out of a reply, in words, by the address of its member without the round."""

    def dropped_text(self, conversation: Conversation) -> str:
        """What the run says that was left out of its reply; nothing of one that was asked before the last."""
        address = "/".join(PER_ROUND_SUFFIX.sub("", part) for part in conversation.address.split("/"))
        return self.dropped.get(address, "") if conversation.is_latest else ""


@dataclass(frozen=True)
class CallSelector:
    """What was typed: a phase or an address; a step by its id, a part of its address or all of it; a member; and which
    of the prompts that an address has had, 0 for the last one."""

    phase: str
    step: str = ""
    member: str = ""
    version: int = 0

    @property
    def turn(self) -> int:
        """The turn that an address names; 0 where none does."""
        turn = _TURN.fullmatch((self.step or self.phase).rpartition("/")[2])
        return int(turn[1]) if turn is not None else 0

    def __str__(self) -> str:
        return "/".join(filter(None, (self.phase, self.step, self.member)))


def read_run_calls(run: StoredRun) -> RunCalls:
    """What the journal of a run holds of its calls. Raises SkillrunError where it cannot be read."""
    if not run.has_journal:
        raise SkillrunError(
            f"{run.location} has no journal in `.run/`, and so no prompts or replies",
            f"copy the run with its `.run`; `skillrun show {run.name}` tells what its files say",
        )
    with closing(run.journal_snapshot()) as journal:
        found_calls, wrong = read_conversations(journal)
        doubt = journal.warning
    notes = [doubt] if doubt else []
    if wrong:
        notes.append(f"{wrong} records of requests are none that a run writes, and are not shown")
    phases: list[str] = []  # of the workflow as it was last started, before others with calls or on record
    dropped: dict[str, str] = {}
    for event in run.events():
        if event["event"] == "RunStarted":
            phases = [name for name in event["phases"] if SLUG.fullmatch(name)]
        elif event["event"] == "Pruned":
            dropped[event["address"]] = event["text"]
    phase_names = dict.fromkeys([*phases, *run.data().summaries.phases(), *(each.phase for each in found_calls)])
    return RunCalls(run.name, found_calls, list(phase_names), run.lease.is_held(), notes, dropped)


def select_calls(calls: RunCalls, selector: CallSelector) -> list[Conversation]:
    """The conversations at a place, of each address the last one or the version that is wanted.

    Raises UsageError, saying what there is.
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
        shortest = dict.fromkeys(strip_markers(name) for name in names)  # whatever the pass and the item
        hint = did_you_mean(at.member or at.step, last) or allowed_hint(list(shortest)[:MAX_NAMED])
        raise UsageError(f"no call of `{at.phase}` in {calls.name} is at `{text}`", hint)
    chosen = [each for each in matches if (each.version == at.version if at.version else each.is_latest)]
    if not chosen:
        most = max(each.versions for each in matches)
        raise UsageError(
            f"there is no version {at.version} of a prompt at `{at}`", f"there are versions 1 to {most}; 1 is the first"
        )
    return chosen


def _parse_address(calls: RunCalls, selector: CallSelector) -> CallSelector:
    """The place of a whole address, `workflow/phase/step/…` or without the workflow, as `logs --json` has it."""
    segments = selector.phase.split("/")
    if segments[0] not in calls.phases and len(segments) > 1:
        segments = segments[1:]
    steps = "/".join(filter(None, (*segments[1:], selector.step)))
    return CallSelector(segments[0], steps, selector.member, selector.version)


def _raise_unknown_phase(calls: RunCalls, phase: str) -> None:
    with_calls = list(dict.fromkeys(each.phase for each in calls.conversations))
    if phase in calls.phases:
        reason = f"calls are in {', '.join(with_calls)}" if with_calls else "no phase has one so far"
        raise UsageError(f"`{phase}` of {calls.name} has made no call", reason)
    known = calls.phases or with_calls
    hint = did_you_mean(phase, known) or (allowed_hint(known) if known else "it has made no calls")
    raise UsageError(f"{calls.name} has no phase `{phase}`", hint)


def _is_at_step(conversation: Conversation, step: str) -> bool:
    """Whether the step's id, or a part of its address, names it: any pass and item where none is said."""
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
    """Whether a member, as its id is written, is meant: by the id, the role, the variant or the model."""
    who, _, model = member_id.partition("@")
    return not pattern or pattern in (member_id, who, model, *who.split(":"))
