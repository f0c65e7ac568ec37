"""`each`: steps for every item of a list, some at a time; an item goes by its id, wherever it stands in the list."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from skillrun.language.files.definitions import Step
from skillrun.language.files.places import items_of as items_within
from skillrun.language.templates.absent import Absent
from skillrun.language.types.schemas import shown
from skillrun.language.types.types import identifier
from skillrun.runtime.errors import EachFailed, StepFailed, Stopped, Waiting
from skillrun.runtime.events import ItemEnded
from skillrun.runtime.expected import tell_items
from skillrun.runtime.frame import Frame
from skillrun.runtime.next_step import NOTHING, NextStep
from skillrun.runtime.results import EachResult
from skillrun.runtime.scope import locals_of
from skillrun.runtime.steps.branches import Fork, branch_of, take_answers, take_over
from skillrun.runtime.steps.items import Item, items_of
from skillrun.runtime.steps.partial import Partial
from skillrun.runtime.store.frontmatter import plain_data

AT_ONCE: Final = 5  # items at a time, where a step does not say
MOST_NAMED: Final = 8  # failed items in a reason


@dataclass(frozen=True)
class Tried:
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
class Kept:
    """What a step has come to before a retry: where its branches began, and the items that have succeeded."""

    fork: Fork
    done: dict[str, Tried]


async def act(step: Step, frame: Frame) -> EachResult | Partial:
    """`.done`, each with its id, the item and what the steps gave; `.failed`, with the reason; `.degraded`."""
    address, phase = frame.at(step), frame.open
    items = items_of(step, frame)
    if address not in phase.items and items and not items_within(address):
        tell_items(frame.run, phase.name, address.partition("/")[2], len(items))
    kept = phase.items.setdefault(address, Kept(Fork.of(frame), {}))
    least = frame.whole(step, "at_least", 1) if items else 0
    tried = await _evaluated(step, frame, [one for one in items if one.key not in kept.done], kept, len(items))
    for one in tried:
        take_over(frame, one.inner, kept.fork, succeeded=one.done)
    kept.done |= {one.item.key: one for one in tried if one.done}
    known = {**kept.done, **{one.item.key: one for one in tried}}
    take_answers(frame, [known[one.key].inner for one in items if one.key in known], kept.fork)
    if any(one.waiting for one in tried):
        raise _waiting(one.waiting for one in tried if one.waiting)
    failed = {one.item.key: one for one in tried if not one.done}
    _check_apart(step, frame, [*kept.done.values(), *failed.values()])
    result: EachResult = {
        "done": [_given(step, kept.done[one.key]) for one in items if one.key in kept.done],
        "failed": [
            {"id": one.id, _name(step): one.value, "reason": failed[one.key].reason}
            for one in items
            if one.key in failed
        ],
        "degraded": bool(failed),
    }
    reasons = [f"{one.item.id}: {one.reason}" for one in failed.values()]
    if len(kept.done) < least:
        way = next((one.next_step for one in failed.values() if one.next_step), NOTHING)
        told = _told(reasons) if reasons else f"at least {least} have to"
        message = f"`{step.id or step.verb}` succeeded for {len(kept.done)} of {len(items)} ({told})"
        raise EachFailed(message, address, result, way)
    return Partial(result, [_told(reasons)]) if failed else result


def _told(reasons: list[str]) -> str:
    more = f"; and {len(reasons) - MOST_NAMED} more" if len(reasons) > MOST_NAMED else ""
    return "; ".join(reasons[:MOST_NAMED]) + more


def _name(step: Step) -> str:
    return identifier(step.item)


def _given(step: Step, tried: Tried) -> Mapping[str, object]:
    """An item that is done, with what its steps gave."""
    names = tried.inner.names
    found = {name: names[name] for name in locals_of(step.steps).names if not isinstance(names[name], Absent)}
    return {**found, "id": tried.item.id, _name(step): tried.item.value}


async def _evaluated(step: Step, frame: Frame, items: list[Item], kept: Kept, of: int) -> list[Tried]:
    """Every item, so many at a time, each in a branch of its own. Once one ends the run, no other begins."""
    at_once = 1 if frame.in_turn else frame.whole(step, "at_once", AT_ONCE)
    slots, ending, ended = asyncio.Semaphore(max(1, at_once)), asyncio.Event(), len(kept.done)

    async def one(item: Item) -> Tried | None:
        nonlocal ended
        async with slots:
            if ending.is_set():
                return None
            try:
                tried = await _steps_of(step, frame, kept.fork, item)
            except BaseException:
                ending.set()
                raise
        ended += tried.waiting is None
        if tried.waiting is None and (tried.reason or tried.inner.open.account.prompts.made):
            status = "done" if tried.done else "failed"
            frame.run.emit(ItemEnded(frame.open.name, step.id or step.verb, item.id, status, ended, of, tried.reason))
        return tried

    found = await asyncio.gather(*map(one, items), return_exceptions=True)  # none under way is dropped
    for came in found:
        if isinstance(came, BaseException):
            raise came
    return [came for came in found if isinstance(came, Tried)]


async def _steps_of(step: Step, frame: Frame, fork: Fork, item: Item) -> Tried:
    names = {_name(step): item.value}
    marked = f"{step.id or step.verb} {item.id}"
    inner = branch_of(frame, fork, f"{frame.at(step)}~{item.key}", marked, names, locals_of(step.steps).names)
    try:
        for one in step.steps:
            await inner.evaluate(one)
    except StepFailed as failure:
        return Tried(item, inner, failure.reason, failure.next_step)
    except Stopped as stopped:
        return Tried(item, inner, stopped.reason or "it stopped")
    except Waiting as waiting:
        return Tried(item, inner, waiting=waiting)
    return Tried(item, inner)


def _waiting(several: Iterable[Waiting]) -> Waiting:
    """What is said where a person has something to do for some of the items."""
    found = list(several)
    reason = "; ".join(dict.fromkeys(one.reason for one in found))
    pause = next((one.pause for one in found if one.pause == "exit"), found[0].pause)
    return Waiting(reason, found[0].next_step, pause)


def _check_apart(step: Step, frame: Frame, several: Iterable[Tried]) -> None:
    """Raises StepFailed where two items write one file: which of them it holds would be a matter of time."""
    writers: dict[str, str] = {}
    for one in several:
        for path in one.inner.open.account.artifacts:
            first = writers.setdefault(path, one.item.id)
            if first != one.item.id:
                reason = f"`{step.id or step.verb}`: {first} and {one.item.id} both write {shown(plain_data(path))}"
                way = NextStep.of("let the file's name have the item's id in it")
                raise StepFailed(reason, frame.at(step), way)
