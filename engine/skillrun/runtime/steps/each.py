"""`each`: steps for every item of a list, some at a time; an item goes by its id, wherever it stands in the list."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from skillrun.definitions.definitions import Step
from skillrun.definitions.step_paths import enclosing_items as items_within
from skillrun.events import ItemEnded
from skillrun.runtime.errors import EachFailed, StepFailed, Stopped
from skillrun.runtime.estimate_updates import tell_items
from skillrun.runtime.frame import Frame
from skillrun.runtime.results import EachResult
from skillrun.runtime.scope import locals_of
from skillrun.runtime.steps.branches import Fork, branch_of, take_answers, take_over
from skillrun.runtime.steps.items import Item, each_items
from skillrun.runtime.steps.partial_result import Partial
from skillrun.store.errors import Waiting
from skillrun.store.frontmatter import plain_data
from skillrun.store.next_step import NOTHING, NextStep
from skillrun.templates.absent import Absent
from skillrun.types.schemas import quoted
from skillrun.types.types import identifier

AT_ONCE: Final = 5  # items at a time, where a step does not say
MOST_NAMED: Final = 8  # failed items in a reason


@dataclass(frozen=True)
class ItemAttempt:
    """What the steps came to for an item: done, failed for a `reason`, or waiting for a person."""

    item: Item
    inner: Frame
    reason: str = ""
    next_step: NextStep = NOTHING
    waiting: Waiting | None = None

    @property
    def done(self) -> bool:
        return not self.reason and self.waiting is None


@dataclass
class EachProgress:
    """What a step has come to before a retry: where its branches began, and the items that have succeeded."""

    fork: Fork
    done: dict[str, ItemAttempt]


async def act(step: Step, frame: Frame) -> EachResult | Partial:
    """`.done`, each with its id, the item and what the steps gave; `.failed`, with the reason; `.degraded`."""
    address, phase = frame.at(step), frame.open
    items = each_items(step, frame)
    if address not in phase.items and items and not items_within(address):
        tell_items(frame.run, phase.name, address.partition("/")[2], len(items))
    kept = phase.items.setdefault(address, EachProgress(Fork.of(frame), {}))
    least = frame.whole(step, "at_least", 1) if items else 0
    attempts = await _evaluated(step, frame, [item for item in items if item.key not in kept.done], kept, len(items))
    for attempt in attempts:
        take_over(frame, attempt.inner, kept.fork, succeeded=attempt.done)
    kept.done |= {attempt.item.key: attempt for attempt in attempts if attempt.done}
    known = {**kept.done, **{attempt.item.key: attempt for attempt in attempts}}
    take_answers(frame, [known[item.key].inner for item in items if item.key in known], kept.fork)
    if any(attempt.waiting for attempt in attempts):
        raise _waiting(attempt.waiting for attempt in attempts if attempt.waiting)
    failed = {attempt.item.key: attempt for attempt in attempts if not attempt.done}
    _check_apart(step, frame, [*kept.done.values(), *failed.values()])
    result: EachResult = {
        "done": [_given(step, kept.done[item.key]) for item in items if item.key in kept.done],
        "failed": [
            {"id": item.id, _name(step): item.value, "reason": failed[item.key].reason}
            for item in items
            if item.key in failed
        ],
        "degraded": bool(failed),
    }
    reasons = [f"{attempt.item.id}: {attempt.reason}" for attempt in failed.values()]
    if len(kept.done) < least:
        way = next((attempt.next_step for attempt in failed.values() if attempt.next_step), NOTHING)
        because = _reasons_text(reasons) if reasons else f"at least {least} have to"
        message = f"`{step.id or step.verb}` succeeded for {len(kept.done)} of {len(items)} ({because})"
        raise EachFailed(message, address, result, way)
    return Partial(result, [_reasons_text(reasons)]) if failed else result


def _reasons_text(reasons: list[str]) -> str:
    more = f"; and {len(reasons) - MOST_NAMED} more" if len(reasons) > MOST_NAMED else ""
    return "; ".join(reasons[:MOST_NAMED]) + more


def _name(step: Step) -> str:
    return identifier(step.item)


def _given(step: Step, attempt: ItemAttempt) -> Mapping[str, object]:
    """An item that is done, with what its steps gave."""
    names = attempt.inner.names
    given = {name: names[name] for name in locals_of(step.steps).names if not isinstance(names[name], Absent)}
    return {**given, "id": attempt.item.id, _name(step): attempt.item.value}


async def _evaluated(step: Step, frame: Frame, items: list[Item], kept: EachProgress, of: int) -> list[ItemAttempt]:
    """Every item, so many at a time, each in a branch of its own. Once one ends the run, no other begins."""
    at_once = 1 if frame.in_turn else frame.whole(step, "at_once", AT_ONCE)
    slots, ending, ended = asyncio.Semaphore(max(1, at_once)), asyncio.Event(), len(kept.done)

    async def evaluate(item: Item) -> ItemAttempt | None:
        nonlocal ended
        async with slots:
            if ending.is_set():
                return None
            try:
                attempt = await _steps_of(step, frame, kept.fork, item)
            except BaseException:
                ending.set()
                raise
        ended += attempt.waiting is None
        if attempt.waiting is None and (attempt.reason or attempt.inner.open.account.prompts.made):
            status = "done" if attempt.done else "failed"
            frame.run.emit(ItemEnded(frame.open.name, step.id or step.verb, item.id, status, ended, of, attempt.reason))
        return attempt

    results = await asyncio.gather(*map(evaluate, items), return_exceptions=True)  # none under way is dropped
    for result in results:
        if isinstance(result, BaseException):
            raise result
    return [result for result in results if isinstance(result, ItemAttempt)]


async def _steps_of(step: Step, frame: Frame, fork: Fork, item: Item) -> ItemAttempt:
    names = {_name(step): item.value}
    marked = f"{step.id or step.verb} {item.id}"
    inner = branch_of(frame, fork, f"{frame.at(step)}~{item.key}", marked, names, locals_of(step.steps).names)
    try:
        for inner_step in step.steps:
            await inner.evaluate(inner_step)
    except StepFailed as failure:
        return ItemAttempt(item, inner, failure.reason, failure.next_step)
    except Stopped as stopped:
        return ItemAttempt(item, inner, stopped.reason or "it stopped")
    except Waiting as waiting:
        return ItemAttempt(item, inner, waiting=waiting)
    return ItemAttempt(item, inner)


def _waiting(several: Iterable[Waiting]) -> Waiting:
    """What is said where a person has something to do for some of the items."""
    waits = list(several)
    reason = "; ".join(dict.fromkeys(wait.reason for wait in waits))
    pause = next((wait.pause for wait in waits if wait.pause == "exit"), waits[0].pause)
    return Waiting(reason, waits[0].next_step, pause)


def _check_apart(step: Step, frame: Frame, attempts: Iterable[ItemAttempt]) -> None:
    """Raises StepFailed where two items write one file: which of them it holds would be a matter of time."""
    writers: dict[str, str] = {}
    for attempt in attempts:
        for path in attempt.inner.open.account.artifacts:
            first = writers.setdefault(path, attempt.item.id)
            if first != attempt.item.id:
                reason = (
                    f"`{step.id or step.verb}`: {first} and {attempt.item.id} both write {quoted(plain_data(path))}"
                )
                way = NextStep.of("let the file's name have the item's id in it")
                raise StepFailed(reason, frame.at(step), way)
