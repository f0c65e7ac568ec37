"""`each`: evaluates steps for every item of a list, several at a time; items are identified by id, not position."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from skillrun.definitions.definitions import Step
from skillrun.definitions.step_paths import enclosing_items as items_within
from skillrun.events import ItemEnded
from skillrun.runtime.errors import EachFailed, StepFailed, Stopped
from skillrun.runtime.estimate_updates import emit_items_estimate
from skillrun.runtime.frame import Frame
from skillrun.runtime.results import EachResult
from skillrun.runtime.scope import locals_of
from skillrun.runtime.steps.branches import Fork, create_branch, merge_answers, merge_branch
from skillrun.runtime.steps.items import Item, each_items
from skillrun.runtime.steps.partial_result import PartialResult
from skillrun.store.errors import WaitingForUser
from skillrun.store.frontmatter import plain_data
from skillrun.store.next_step import NO_NEXT_STEP, NextStep
from skillrun.templates.absent import Absent
from skillrun.types.schemas import quote_value
from skillrun.types.types import identifier

DEFAULT_CONCURRENCY: Final = 5  # items at a time, unless a step sets another number
MOST_NAMED: Final = 8  # failed items in a reason


@dataclass(frozen=True)
class ItemAttempt:
    """The outcome for an item: done, failed for a `reason`, or waiting for the user."""

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
    """The progress of a step before a retry: where its branches began, and the items that succeeded."""

    fork: Fork
    done: dict[str, ItemAttempt]


async def execute(step: Step, frame: Frame) -> EachResult | PartialResult:
    """Return `done`, each with its id, the item and the step results; `failed`, with the reason; `degraded`."""
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
    result: EachResult = {
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
        raise EachFailed(message, address, result, way)
    return PartialResult(result, [_format_reasons(reasons)]) if failed else result


def _format_reasons(reasons: list[str]) -> str:
    more = f"; and {len(reasons) - MOST_NAMED} more" if len(reasons) > MOST_NAMED else ""
    return "; ".join(reasons[:MOST_NAMED]) + more


def _name(step: Step) -> str:
    return identifier(step.item)


def _item_result(step: Step, attempt: ItemAttempt) -> Mapping[str, object]:
    """Return a completed item with the results of its steps."""
    names = attempt.inner.names
    given = {name: names[name] for name in locals_of(step.steps).names if not isinstance(names[name], Absent)}
    return {**given, "id": attempt.item.id, _name(step): attempt.item.value}


async def _evaluate_items(
    step: Step, frame: Frame, items: list[Item], progress: EachProgress, total: int
) -> list[ItemAttempt]:
    """Evaluate all items, a few at a time, each in a separate branch. Once an item ends the run, no other starts."""
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

    results = await asyncio.gather(*map(evaluate, items), return_exceptions=True)  # active items are not dropped
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
    """Combine the pauses of several items into one."""
    waits = list(several)
    reason = "; ".join(dict.fromkeys(wait.reason for wait in waits))
    pause = next((wait.pause_type for wait in waits if wait.pause_type == "exit"), waits[0].pause_type)
    return WaitingForUser(reason, waits[0].next_step, pause)


def _check_distinct_files(step: Step, frame: Frame, attempts: Iterable[ItemAttempt]) -> None:
    """Raise StepFailed if two items write the same file, because its content would depend on timing."""
    writers: dict[str, str] = {}
    for attempt in attempts:
        for path in attempt.inner.phase.record.artifacts:
            first = writers.setdefault(path, attempt.item.id)
            if first != attempt.item.id:
                file = quote_value(plain_data(path))
                reason = f"`{step.id or step.verb}`: {first} and {attempt.item.id} both write {file}"
                way = NextStep.of("include the item's id in the name of the file")
                raise StepFailed(reason, frame.at(step), way)
