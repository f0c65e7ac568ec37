"""`each`: evaluates steps for every item of a list, several items at a time."""

from __future__ import annotations

import asyncio
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from skillrun.definitions.definitions import Step
from skillrun.definitions.definitions import enclosing_items as items_within
from skillrun.events import ItemEnded
from skillrun.runtime.breakers import Breakers
from skillrun.runtime.errors import StepFailed, Stopped
from skillrun.runtime.estimate_updates import emit_items_estimate
from skillrun.runtime.frame import Frame, StepResult
from skillrun.runtime.phase_record import PhaseRecord, StepRecords, UsageTotals
from skillrun.runtime.prompts.step_records import record_ids, renumber_records
from skillrun.runtime.scope import locals_of, with_functions
from skillrun.store.errors import WaitingForUser
from skillrun.store.files import sha256_of
from skillrun.store.frontmatter import plain_data
from skillrun.store.next_step import NO_NEXT_STEP, NextStep
from skillrun.templates.absent import Absent
from skillrun.templates.functions import slug
from skillrun.types.schemas import quote_value
from skillrun.types.types import identifier

DEFAULT_CONCURRENCY: Final = 5  # items that are evaluated at the same time, unless `at_once` sets a different number
MOST_NAMED: Final = 8  # failed items that a reason names


@dataclass(frozen=True)
class ItemAttempt:
    """The outcome for an item: done, failed with a `reason`, or waiting for the user."""

    item: Item
    inner: Frame
    reason: str = ""
    next_step: NextStep = NO_NEXT_STEP
    waiting: WaitingForUser | None = None

    @property
    def done(self) -> bool:
        return not self.reason and self.waiting is None


@dataclass
class EachProgress:
    """The progress of an `each` step before a retry: the fork of its branches, and the items that succeeded."""

    fork: Fork
    done: dict[str, ItemAttempt]


async def run_each(step: Step, frame: Frame) -> StepResult:
    """Return the completed items with the results of their steps, and the failed items with the reasons.

    A retry evaluates only items that have not succeeded.
    """
    address, phase = frame.at(step), frame.phase
    items = each_items(step, frame)
    if address not in phase.each_progress and items and not items_within(address):
        emit_items_estimate(frame.run, phase.name, address.partition("/")[2], len(items))
    progress = phase.each_progress.setdefault(address, EachProgress(Fork.from_frame(frame), {}))
    least = frame.whole(step, "at_least", 1) if items else 0
    attempts = await _evaluate_items(
        step, frame, [item for item in items if item.key not in progress.done], progress, len(items)
    )
    for attempt in attempts:
        merge_branch(frame, attempt.inner, progress.fork, succeeded=attempt.done)
    progress.done |= {attempt.item.key: attempt for attempt in attempts if attempt.done}
    known = {**progress.done, **{attempt.item.key: attempt for attempt in attempts}}
    merge_answers(frame, [known[item.key].inner for item in items if item.key in known], progress.fork)
    if any(attempt.waiting for attempt in attempts):
        raise _combine_pauses(attempt.waiting for attempt in attempts if attempt.waiting)
    failed = {attempt.item.key: attempt for attempt in attempts if not attempt.done}
    _check_distinct_files(step, frame, [*progress.done.values(), *failed.values()])
    result = {
        "done": [_item_result(step, progress.done[item.key]) for item in items if item.key in progress.done],
        "failed": [
            {"id": item.id, _name(step): item.value, "reason": failed[item.key].reason}
            for item in items
            if item.key in failed
        ],
        "degraded": bool(failed),
    }
    reasons = [f"{attempt.item.id}: {attempt.reason}" for attempt in failed.values()]
    if len(progress.done) < least:
        way = next((attempt.next_step for attempt in failed.values() if attempt.next_step), NO_NEXT_STEP)
        because = _format_reasons(reasons) if reasons else f"at least {least} must succeed"
        message = f"`{step.id or step.verb}` succeeded for {len(progress.done)} of {len(items)} ({because})"
        raise StepFailed(message, address, way, result)
    return StepResult(result, [_format_reasons(reasons)] if failed else ())


def _format_reasons(reasons: list[str]) -> str:
    more = f"; and {len(reasons) - MOST_NAMED} more" if len(reasons) > MOST_NAMED else ""
    return "; ".join(reasons[:MOST_NAMED]) + more


def _name(step: Step) -> str:
    return identifier(step.item)


def _item_result(step: Step, attempt: ItemAttempt) -> Mapping[str, object]:
    """Return the value of a completed item in `done`: its id, the item, and the results of its steps."""
    names = attempt.inner.names
    given = {name: names[name] for name in locals_of(step.steps).names if not isinstance(names[name], Absent)}
    return {**given, "id": attempt.item.id, _name(step): attempt.item.value}


async def _evaluate_items(
    step: Step, frame: Frame, items: list[Item], progress: EachProgress, total: int
) -> list[ItemAttempt]:
    """Evaluate each item in a separate branch, several at a time. If an item ends the run, no other item is started."""
    at_once = 1 if frame.sequential else frame.whole(step, "at_once", DEFAULT_CONCURRENCY)
    slots, ending, ended = asyncio.Semaphore(max(1, at_once)), asyncio.Event(), len(progress.done)

    async def evaluate(item: Item) -> ItemAttempt | None:
        nonlocal ended
        async with slots:
            if ending.is_set():
                return None
            try:
                attempt = await _evaluate_item(step, frame, progress.fork, item)
            except BaseException:
                ending.set()
                raise
        ended += attempt.waiting is None
        if attempt.waiting is None and (attempt.reason or attempt.inner.phase.record.prompts.count):
            status = "done" if attempt.done else "failed"
            frame.run.emit(
                ItemEnded(frame.phase.name, step.id or step.verb, item.id, status, ended, total, attempt.reason)
            )
        return attempt

    results = await asyncio.gather(*map(evaluate, items), return_exceptions=True)  # active items end
    for result in results:
        if isinstance(result, BaseException):
            raise result
    return [result for result in results if isinstance(result, ItemAttempt)]


async def _evaluate_item(step: Step, frame: Frame, fork: Fork, item: Item) -> ItemAttempt:
    names = {_name(step): item.value}
    marked = f"{step.id or step.verb} {item.id}"
    inner = create_branch(frame, fork, f"{frame.at(step)}~{item.key}", marked, names, locals_of(step.steps).names)
    try:
        for inner_step in step.steps:
            await inner.evaluate(inner_step)
    except StepFailed as failure:
        return ItemAttempt(item, inner, failure.reason, failure.next_step)
    except Stopped as stopped:
        return ItemAttempt(item, inner, stopped.reason or "it stopped")
    except WaitingForUser as waiting:
        return ItemAttempt(item, inner, waiting=waiting)
    return ItemAttempt(item, inner)


def _combine_pauses(several: Iterable[WaitingForUser]) -> WaitingForUser:
    """Return one pause that combines the pauses of several items."""
    waits = list(several)
    reason = "; ".join(dict.fromkeys(wait.reason for wait in waits))
    pause = next((wait.pause_type for wait in waits if wait.pause_type == "exit"), waits[0].pause_type)
    return WaitingForUser(reason, waits[0].next_step, pause)


def _check_distinct_files(step: Step, frame: Frame, attempts: Iterable[ItemAttempt]) -> None:
    """Raise StepFailed if two items write the same file, whose content would then depend on which item ends last."""
    writers: dict[str, str] = {}
    for attempt in attempts:
        for path in attempt.inner.phase.record.artifacts:
            first = writers.setdefault(path, attempt.item.id)
            if first != attempt.item.id:
                file = quote_value(plain_data(path))
                reason = f"`{step.id or step.verb}`: {first} and {attempt.item.id} both write {file}"
                way = NextStep.of("include the item's id in the name of the file")
                raise StepFailed(reason, frame.at(step), way)


MOST: Final = 200  # items in a list, unless `limits.items` sets a different number
LONGEST: Final = 40  # characters of an item's key
LONGEST_ID: Final = 80  # characters of an item's id
MARK: Final = 12  # characters of the hash in a key
_KEY: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_MARKED: Final = re.compile(rf"(?:^|-)[0-9a-f]{{{MARK}}}$")


@dataclass(frozen=True)
class Item:
    """An item of the list. `id` is for readers; `key` is for addresses: letters, digits, `.`, `_` and `-`."""

    id: str
    key: str
    value: Any


def each_items(step: Step, frame: Frame) -> list[Item]:
    """Return the items of the list in their order, without duplicates. Raises StepFailed."""
    given = frame.main(step)
    if given is None or isinstance(given, Absent):
        return []
    if not isinstance(given, list | tuple):
        raise StepFailed(f"`each` is {quote_value(plain_data(given))}; expected a list", frame.at(step))
    name, most = step.id or step.verb, int((frame.run.program.engine.get("limits") or {}).get("items", MOST))
    if len(given) > most:
        way = NextStep.of("use fewer, as with `| top(…)`, or raise `limits.items` in config/skillrun.yaml")
        raise StepFailed(f"`{name}` has {len(given):,} items; a list may have at most {most:,}", frame.at(step), way)
    written = [(_canonical_json(value), _id(value, step.by or "id"), value) for value in given]
    different = {text: (known, value) for text, known, value in written}
    times = Counter(known for known, _ in different.values() if known)
    items = []
    for text, (known, value) in different.items():
        key = _key(known, text, alone=times[known] == 1)
        items.append(Item(known if times[known] == 1 and len(known) <= LONGEST_ID else key, key, value))
    if len(items) < len(given):
        frame.phase.warn(f"{name}: {len(given) - len(items)} of {len(given)} items are duplicates and count once")
    for duplicate_id in (known for known, number in times.items() if number > 1):
        ids = ", ".join(item.id for item in items if item.id.startswith(_start(duplicate_id)))
        frame.phase.warn(
            f"{name}: {times[duplicate_id]} items have the id {quote_value(duplicate_id)}; they are identified as {ids}"
        )
    return items


def _canonical_json(value: Any) -> str:
    return json.dumps(plain_data(value), sort_keys=True, ensure_ascii=False, default=str)


def _id(value: Any, field: str) -> str:
    """Return the id in an item's `field`, or the item itself if it is text or a number; empty if it has no id."""
    named = value.get(field) if isinstance(value, Mapping) else value
    if isinstance(named, bool) or not isinstance(named, str | int):
        return ""
    return " ".join(str(named).split())


def _key(known: str, text: str, *, alone: bool) -> str:
    """Return an item's key: the id if it is unique and valid in an address, or else the start of the id and a hash."""
    if alone and len(known) <= LONGEST and _KEY.fullmatch(known) and not _MARKED.search(known):
        return known
    return f"{_start(known)}{sha256_of(known if alone else text)[:MARK]}"


def _start(known: str) -> str:
    begins = known if _KEY.fullmatch(known) or not known else slug(known)
    return f"{begins[: LONGEST - MARK - 1].rstrip('-') or 'item'}-"


@dataclass(frozen=True)
class Fork:
    """The data of a phase when its branches begin: records, questions, usage, and the number of form answers.

    The branches of a retry begin with the same data, so that an item reads the same values again.
    """

    step_records: Mapping[str, StepRecords]
    answer_count: int
    question_ids: frozenset[str]
    usage: UsageTotals

    @classmethod
    def from_frame(cls, frame: Frame) -> Fork:
        phase, answers = frame.phase, len(frame.names["run"]["answers"])
        before, account = phase.prior, phase.record
        return cls(
            dict(account.step_records),
            answers,
            before.question_ids | frozenset(account.question_ids),
            before.usage + account.usage,
        )


def create_branch(
    frame: Frame, fork: Fork, address: str, label: str, names: Mapping[str, Any], absent: Iterable[str]
) -> Frame:
    """Return a frame for the steps of one item, with its own address and record.

    Breakers in the branch count only the failures of this item. `names` are added to the names of the frame; those in
    `absent` are not bound yet.
    """
    phase = frame.phase
    run = {**frame.names["run"], "answers": frame.names["run"]["answers"][: fork.answer_count]}
    branch = replace(
        phase,
        names={**phase.names, "run": run},
        breakers=Breakers(frame.names["config"].get("breakers") or {}),
        prior=replace(phase.prior, question_ids=fork.question_ids, usage=fork.usage),
        record=PhaseRecord(step_records=dict(fork.step_records)),
        attempts=replace(phase.attempts, permanent_failures=dict(phase.attempts.permanent_failures)),
        prompt_cache=replace(phase.prompt_cache),
        each_progress={},
        branch_label=label,
    )
    sessions = {member: dict(conversations) for member, conversations in frame.sessions.items()}
    inner = replace(frame, phase=branch, address=address, names={}, sessions=sessions, degraded_steps=[])
    inner.names.update({**frame.names, "run": run, **names})
    inner.mark_absent(absent)
    branch.update_usage()
    return with_functions(inner)


def merge_branch(frame: Frame, inner: Frame, fork: Fork, *, succeeded: bool) -> None:
    """Merge the record of a branch into the record of the phase. Document records of a failed item are left out."""
    phase, mark = frame.phase, f"{inner.phase.branch_label}: "
    account, branch = phase.record, inner.phase.record
    _add(account.warnings, (text if text.startswith(mark) else mark + text for text in branch.warnings))
    _add(account.degraded_reasons, (text if text.startswith(mark) else mark + text for text in branch.degraded_reasons))
    _add(account.artifacts, branch.artifacts)
    _add(account.question_ids, branch.question_ids)
    account.dropped_counts.update(branch.dropped_counts)
    account.prompts.add(branch.prompts)
    account.usage += branch.usage
    phase.attempts.permanent_failures.update(inner.phase.attempts.permanent_failures)
    if succeeded:
        account.step_records = _records(
            f"{phase.name.upper()}-", account.step_records, branch.step_records, fork.step_records
        )
    frame.degraded_steps.extend(inner.degraded_steps)
    phase.update_usage()


def merge_answers(frame: Frame, branches: Iterable[Frame], fork: Fork) -> None:
    """Replace the form answers since the fork with the answers of the branches.

    Each branch's answers are then in the list once, even after a retry. Equal answers of two branches are both kept.
    """
    answers = frame.names["run"]["answers"]
    del answers[fork.answer_count :]
    for inner in branches:
        answers.extend(inner.names["run"]["answers"][fork.answer_count :])


def _add(there: list[Any], more: Iterable[Any]) -> None:
    for entry in more:
        if entry not in there:
            there.append(entry)


def _records(
    start: str, known: Mapping[str, StepRecords], given: Mapping[str, StepRecords], before: Mapping[str, StepRecords]
) -> dict[str, StepRecords]:
    """Return the records of steps (`known`), followed by the records of a branch (`given`).

    An id of the branch that is already used is replaced by a new one that begins with `start`. `before` holds the
    records at the fork.
    """
    gone = {key for key in before if given.get(key) is not before[key]}
    kept = {key: step for key, step in known.items() if key not in gone or step is not before[key]}
    new = {key: step for key, step in given.items() if step is not before.get(key)}
    numbered = iter(renumber_records(_all(new.values()), start, set(record_ids(_all(kept.values())))))
    for key, step in new.items():
        records = tuple(next(numbered) for _ in step.records)
        same = kept.get(key, StepRecords((), frozenset()))
        kept[key] = StepRecords(
            (*same.records, *records), same.requested_fields | step.requested_fields, same.paths | step.paths
        )
    return kept


def _all(recorded: Iterable[StepRecords]) -> Iterator[Mapping[str, Any]]:
    for step in recorded:
        yield from step.records
