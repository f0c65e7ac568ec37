"""`each`: evaluates steps for every item of a list, several items at a time."""

from __future__ import annotations

import asyncio
import json
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, Final

from skillrun.definitions.definitions import Step
from skillrun.definitions.definitions import enclosing_items as items_within
from skillrun.events import ItemEnded
from skillrun.repository.paths import PathRefused, fold_path
from skillrun.runtime.errors import FileConflict, StepFailed, Stopped
from skillrun.runtime.estimate_updates import emit_items_estimate
from skillrun.runtime.frame import Frame, StepResult, file_conflict
from skillrun.runtime.phase_record import Breakers, PhaseRecord, StepRecords, UsageTotals
from skillrun.runtime.prompts.step_records import record_ids, renumber_records
from skillrun.runtime.run import PhaseRun
from skillrun.runtime.scope import names_bound_by, with_functions
from skillrun.store.artifacts import normalize_artifact_name
from skillrun.store.files import sha256_of
from skillrun.store.frontmatter import plain_data
from skillrun.store.outcome import NO_NEXT_STEP, NextStep, WaitingForUser
from skillrun.templates.expressions import RenderError, Value
from skillrun.templates.values import Absent
from skillrun.types.schemas import quote_value
from skillrun.types.types import identifier

DEFAULT_CONCURRENCY: Final = 5  # items that are evaluated at the same time, unless `at_once` sets a different number
MOST_NAMED: Final = 8  # failed items that a reason names
MOST: Final = 200  # items in a list, unless `limits.items` sets a different number
LONGEST: Final = 40  # characters of an item's key
LONGEST_ID: Final = 80  # characters of an item's id
MARK: Final = 12  # characters of the hash in a key
_KEY: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_MARKED: Final = re.compile(rf"(?:^|-)[0-9a-f]{{{MARK}}}$")


@dataclass(frozen=True)
class Item:
    """An item of the list. `id` is shown to users. `key` is part of addresses: letters, digits, `.`, `_` and `-`."""

    id: str
    key: str
    value: Any


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


@dataclass(frozen=True)
class EachProgress:
    """The items that succeeded, and the data of the phase when the step began: records, questions, usage, and the
    number of form answers.

    A retry begins with the same data, so that an item reads the same values again.
    """

    step_records: Mapping[str, StepRecords]
    answer_count: int
    question_ids: frozenset[str]
    usage: UsageTotals
    done: dict[str, ItemAttempt] = field(default_factory=dict)


async def run_each(step: Step, frame: Frame) -> StepResult:
    """Return the completed items with the results of their steps, and the failed items with the reasons.

    A retry evaluates only items that have not succeeded.
    """
    address, phase, answers = frame.at(step), frame.phase, frame.names["run"]["answers"]
    rows = each_items(step, frame)
    items = list({item.key: item for item in rows}.values())
    if address not in phase.each_progress:
        if items and not items_within(address):
            await frame.run.load_estimate()
            emit_items_estimate(frame.run, phase.name, address.partition("/")[2], len(items))
        before, record = phase.prior, phase.record
        asked = before.question_ids | frozenset(record.question_ids)
        phase.each_progress[address] = EachProgress(
            dict(record.step_records), len(answers), asked, before.usage + record.usage
        )
    _check_distinct_files(step, frame, items)
    progress: EachProgress = phase.each_progress[address]
    least = frame.whole(step, "at_least", 1) if items else 0
    attempts = await _evaluate_items(step, frame, items, progress)
    for attempt in attempts:
        merge_branch(frame, attempt, progress)
    latest = {**progress.done, **{attempt.item.key: attempt for attempt in attempts}}
    progress.done.update((attempt.item.key, attempt) for attempt in attempts if attempt.done)
    # each branch's answers are then in the list once, even after a retry; equal answers of two branches are both kept
    del answers[progress.answer_count :]
    for item in items:
        if item.key in latest:
            answers.extend(latest[item.key].inner.names["run"]["answers"][progress.answer_count :])
    if waits := [attempt.waiting for attempt in attempts if attempt.waiting]:
        reason = "; ".join(dict.fromkeys(wait.reason for wait in waits))
        pause = next((wait.pause_type for wait in waits if wait.pause_type == "exit"), waits[0].pause_type)
        raise WaitingForUser(reason, waits[0].next_step, pause)
    failed = {attempt.item.key: attempt for attempt in attempts if not attempt.done}
    name, bound_names = identifier(step.item), names_bound_by(step.steps)
    done = []
    for item in rows:
        if item.key in progress.done:
            names = progress.done[item.key].inner.names
            results = {key: names[key] for key in bound_names if not isinstance(names[key], Absent)}
            done.append({**results, "id": item.id, name: item.value})
    result = {
        "done": done,
        "failed": [
            {"id": item.id, name: item.value, "reason": failed[item.key].reason} for item in rows if item.key in failed
        ],
        "degraded": bool(failed),
    }
    reasons = [f"{attempt.item.id}: {attempt.reason}" for attempt in failed.values()]
    more = f"; and {len(reasons) - MOST_NAMED} more" if len(reasons) > MOST_NAMED else ""
    because = "; ".join(reasons[:MOST_NAMED]) + more
    if len(progress.done) < least:
        way = next((attempt.next_step for attempt in failed.values() if attempt.next_step), NO_NEXT_STEP)
        because = because or f"at least {least} must succeed"
        message = f"`{step.id or step.verb}` succeeded for {len(progress.done)} of {len(items)} ({because})"
        raise StepFailed(message, address, way, result)
    return StepResult(result, [because] if failed else ())


async def _evaluate_items(step: Step, frame: Frame, items: list[Item], progress: EachProgress) -> list[ItemAttempt]:
    """Evaluate the items that have not succeeded, several at a time. If an item ends the run, start no further item."""
    at_once = 1 if frame.sequential else frame.whole(step, "at_once", DEFAULT_CONCURRENCY)
    slots, ending, ended = asyncio.Semaphore(max(1, at_once)), asyncio.Event(), len(progress.done)

    async def evaluate(item: Item) -> ItemAttempt | None:
        nonlocal ended
        async with slots:
            if ending.is_set():
                return None
            try:
                attempt = await _evaluate_item(step, frame, progress, item)
            except BaseException:
                ending.set()
                raise
        ended += attempt.waiting is None
        if attempt.waiting is None and (attempt.reason or attempt.inner.phase.record.prompts.count):
            status, name = "done" if attempt.done else "failed", step.id or step.verb
            frame.run.emit(ItemEnded(frame.phase.name, name, item.id, status, ended, len(items), attempt.reason))
        return attempt

    remaining = [item for item in items if item.key not in progress.done]
    results = await asyncio.gather(*map(evaluate, remaining), return_exceptions=True)  # active items end
    for result in results:
        if isinstance(result, BaseException):
            raise result
    return [result for result in results if isinstance(result, ItemAttempt)]


async def _evaluate_item(step: Step, frame: Frame, progress: EachProgress, item: Item) -> ItemAttempt:
    """Evaluate the steps for an item in a branch of the phase, which has its own address, names and record.

    Breakers in the branch count only the failures of this item.
    """
    phase = frame.phase
    run = {**frame.names["run"], "answers": frame.names["run"]["answers"][: progress.answer_count]}
    branch = replace(
        phase,
        names={**phase.names, "run": run},
        breakers=Breakers(frame.names["config"].get("breakers") or {}),
        prior=replace(phase.prior, question_ids=progress.question_ids, usage=progress.usage),
        record=PhaseRecord(step_records=dict(progress.step_records), branch_label=f"{step.id or step.verb} {item.id}"),
        attempts=replace(phase.attempts, permanent_failures=dict(phase.attempts.permanent_failures)),
        prompt_cache=replace(phase.prompt_cache),
        each_progress={},
    )
    inner = replace(
        frame,
        phase=branch,
        address=f"{frame.at(step)}~{item.key}",
        names={**frame.names, "run": run, identifier(step.item): item.value},
        sessions={member: dict(conversations) for member, conversations in frame.sessions.items()},
        degraded_steps=[],
    )
    inner.mark_absent(names_bound_by(step.steps))
    branch.update_usage()
    with_functions(inner)
    try:
        for inner_step in step.steps:
            await inner.evaluate(inner_step)
    except FileConflict:  # which of the items would win is not determined, so no item counts
        raise
    except StepFailed as failure:
        return ItemAttempt(item, inner, failure.reason, failure.next_step)
    except Stopped as stopped:
        return ItemAttempt(item, inner, stopped.reason or "it stopped")
    except WaitingForUser as waiting:
        return ItemAttempt(item, inner, waiting=waiting)
    return ItemAttempt(item, inner)


def _check_distinct_files(step: Step, frame: Frame, items: Iterable[Item]) -> None:
    """Raise FileConflict if two items write the same file, as far as the names are known before any step runs."""
    name, address = identifier(step.item), frame.at(step)
    results = {"member", "pass", *names_bound_by(step.steps)}
    results |= {identifier(inner.item) for nested in step.steps for inner in nested.walk() if inner.verb == "each"}
    for path in _certain_files(step.steps):
        if any(template.mentions_any(*results) for template in path.templates()):
            continue
        writers: dict[str, str] = {}
        for item in items:
            with suppress(RenderError, PathRefused):  # the step reports it
                file = normalize_artifact_name(path.text({**frame.names, name: item.value}))
                first = writers.setdefault(fold_path(file), item.id)
                if first != item.id:
                    label = step.id or step.verb
                    raise file_conflict(f"{label} {first}", f"{label} {item.id}", file, address)


def _certain_files(steps: Iterable[Step]) -> Iterator[Value]:
    """Yield the names of the files that the steps write, up to the first step that may end the item."""
    for step in steps:
        if step.verb == "stop":
            return
        if step.when is None:
            yield from filter(None, (step.artifact, step.values.get("form")))
            if step.verb == "repeat":
                yield from _certain_files(step.steps)


def each_items(step: Step, frame: Frame) -> list[Item]:
    """Return the items of the list in their order. An item that is in the list twice is returned twice, with the same
    key. Raises StepFailed."""
    given = frame.main(step)
    if given is None or isinstance(given, Absent):
        return []
    if not isinstance(given, list | tuple):
        raise StepFailed(f"`each` is {quote_value(plain_data(given))}; expected a list", frame.at(step))
    name, most = step.id or step.verb, int((frame.run.program.engine.get("limits") or {}).get("items", MOST))
    if len(given) > most:
        way = NextStep.of("use fewer items, as with `| top(…)`, or raise `limits.items` in config/skillrun.yaml")
        raise StepFailed(f"`{name}` has {len(given):,} items; a list may have at most {most:,}", frame.at(step), way)
    different, texts = {}, []
    for value in given:
        text = json.dumps(plain_data(value), sort_keys=True, ensure_ascii=False, default=str)
        named = value.get(step.by or "id") if isinstance(value, Mapping) else value
        has_id = isinstance(named, str | int) and not isinstance(named, bool)
        texts.append(text)
        different[text] = (" ".join(str(named).split()) if has_id else "", value)
    times = Counter(known for known, _ in different.values() if known)
    items = {}
    for text, (known, value) in different.items():
        key = _key(known, text, alone=times[known] == 1)
        items[text] = Item(known if times[known] == 1 and len(known) <= LONGEST_ID else key, key, value)
    if len(items) < len(given):
        copies = len(given) - len(items)
        frame.phase.warn(f"{name}: {copies} of {len(given)} items are duplicates and share one evaluation")
    for duplicate_id in (known for known, number in times.items() if number > 1):
        ids = ", ".join(item.id for item in items.values() if item.id.startswith(_start(duplicate_id)))
        frame.phase.warn(
            f"{name}: {times[duplicate_id]} items have the id {quote_value(duplicate_id)}; they are identified as {ids}"
        )
    return [items[text] for text in texts]


def _key(known: str, text: str, *, alone: bool) -> str:
    """Return an item's key: the id if it is unique and valid in an address, else the start of the id and a hash."""
    if alone and len(known) <= LONGEST and _KEY.fullmatch(known) and not _MARKED.search(known):
        return known
    return f"{_start(known)}{sha256_of(known if alone else text)[:MARK]}"


def _start(known: str) -> str:
    begins = known
    if known and not _KEY.fullmatch(known):  # ASCII as in earlier versions, because addresses in journals contain it
        letters = unicodedata.normalize("NFKD", known[:1000]).encode("ascii", "ignore").decode().lower()
        begins = re.sub(r"[^a-z0-9]+", "-", letters).strip("-")[:64].rstrip("-") or sha256_of(known)[:8]
    return f"{begins[: LONGEST - MARK - 1].rstrip('-') or 'item'}-"


def merge_branch(frame: Frame, attempt: ItemAttempt, progress: EachProgress) -> None:
    """Merge the record of an item's branch into that of the phase. Document records of a failed item are left out."""
    phase, inner = frame.phase, attempt.inner
    record, branch, mark = phase.record, inner.phase.record, f"{inner.phase.record.branch_label}: "
    for there, more in (
        (record.warnings, [text if text.startswith(mark) else mark + text for text in branch.warnings]),
        (record.degraded_reasons, [text if text.startswith(mark) else mark + text for text in branch.degraded_reasons]),
        (record.artifacts, branch.artifacts),
        (record.question_ids, branch.question_ids),
    ):
        there.extend(entry for entry in dict.fromkeys(more) if entry not in there)
    record.dropped_counts.update(branch.dropped_counts)
    record.prompts.add(branch.prompts)
    record.usage += branch.usage
    phase.attempts.permanent_failures.update(inner.phase.attempts.permanent_failures)
    if attempt.done:
        _merge_step_records(phase, branch.step_records, progress.step_records)
    frame.degraded_steps.extend(inner.degraded_steps)
    phase.update_usage()


def _merge_step_records(phase: PhaseRun, branch: Mapping[str, StepRecords], before: Mapping[str, StepRecords]) -> None:
    """Merge the step records of a branch into those of the phase. `before` holds the records when the branch began.

    If the phase already uses an id of the branch, the branch's id is replaced by a new id.
    """
    known = phase.record.step_records
    gone = {key for key in before if branch.get(key) is not before[key]}
    merged = {key: step for key, step in known.items() if key not in gone or step is not before[key]}
    new = {key: step for key, step in branch.items() if step is not before.get(key)}
    used = set(record_ids(record for step in merged.values() for record in step.records))
    numbered = renumber_records(
        (record for step in new.values() for record in step.records), f"{phase.name.upper()}-", used
    )
    for key, step in new.items():
        records = tuple(islice(numbered, len(step.records)))
        same = merged.get(key, StepRecords((), frozenset()))
        merged[key] = StepRecords(
            (*same.records, *records), same.requested_fields | step.requested_fields, same.paths | step.paths
        )
    phase.record.step_records = merged
