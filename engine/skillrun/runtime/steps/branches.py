"""A branch of a phase: one item of an `each`, evaluated beside others and put on record in the order of the list.

What a branch has on record is its own until it is taken over, so that nothing depends on which of them was quicker.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from skillrun.definitions.verbs import RECORD_KEYS
from skillrun.runtime.breakers import Breakers
from skillrun.runtime.frame import Frame
from skillrun.runtime.phase_record import Account, StepRecords
from skillrun.runtime.prompts.step_records import renumbered
from skillrun.runtime.scope import with_functions
from skillrun.runtime.usage_totals import Spent


@dataclass(frozen=True)
class Fork:
    """Where branches leave a phase: what it had on record, asked and spent, and how many answers of forms there were.

    A retry leaves from there too: an item that is evaluated again reads what it read before.
    """

    recorded: Mapping[str, StepRecords]
    answers: int
    asked: frozenset[str]
    spent: Spent

    @classmethod
    def of(cls, frame: Frame) -> Fork:
        phase, answers = frame.open, len(frame.names["run"]["answers"])
        before, account = phase.before, phase.account
        return cls(
            dict(account.recorded), answers, before.asked | frozenset(account.asked), before.spent + account.spent
        )


def branch_of(
    frame: Frame, fork: Fork, address: str, marked: str, names: Mapping[str, Any], absent: Iterable[str]
) -> Frame:
    """A frame for the steps of one item, at an address of its own, with a record of its own.

    Breakers count the item's failures alone. `names` come on top of what the frame knows, `absent` are not bound yet.
    """
    phase = frame.open
    run = {**frame.names["run"], "answers": frame.names["run"]["answers"][: fork.answers]}
    branch = replace(
        phase,
        names={**phase.names, "run": run},
        breakers=Breakers(frame.names["config"].get("breakers") or {}),
        before=replace(phase.before, asked=fork.asked, spent=fork.spent),
        account=Account(recorded=dict(fork.recorded)),
        attempts=replace(phase.attempts, vain=dict(phase.attempts.vain)),
        made=replace(phase.made),
        items={},
        marked=marked,
    )
    sessions = {member: dict(conversations) for member, conversations in frame.sessions.items()}
    inner = replace(frame, open=branch, address=address, names={}, sessions=sessions, degraded=[])
    inner.names.update({**frame.names, "run": run, **names})
    inner.absent(absent)
    branch.tell_usage()
    return with_functions(inner)


def take_over(frame: Frame, inner: Frame, fork: Fork, *, succeeded: bool) -> None:
    """Put what a branch has on record on that of the phase; what a failed item says of its documents does not count."""
    phase, mark = frame.open, f"{inner.open.marked}: "
    account, branch = phase.account, inner.open.account
    _add(account.warnings, (text if text.startswith(mark) else mark + text for text in branch.warnings))
    _add(account.degraded, (text if text.startswith(mark) else mark + text for text in branch.degraded))
    _add(account.artifacts, branch.artifacts)
    _add(account.asked, branch.asked)
    account.dropped.update(branch.dropped)
    account.prompts.add(branch.prompts)
    account.spent += branch.spent
    phase.attempts.vain.update(inner.open.attempts.vain)
    if succeeded:
        account.recorded = _records(f"{phase.name.upper()}-", account.recorded, branch.recorded, fork.recorded)
    frame.degraded.extend(inner.degraded)
    phase.tell_usage()


def take_answers(frame: Frame, branches: Iterable[Frame], fork: Fork) -> None:
    """Put what forms of branches say behind what they said before: of each branch once, be it evaluated again, and all
    of it, also where two say the same."""
    answers = frame.names["run"]["answers"]
    del answers[fork.answers :]
    for inner in branches:
        answers.extend(inner.names["run"]["answers"][fork.answers :])


def _add(there: list[Any], more: Iterable[Any]) -> None:
    for entry in more:
        if entry not in there:
            there.append(entry)


def _records(
    start: str, known: Mapping[str, StepRecords], given: Mapping[str, StepRecords], before: Mapping[str, StepRecords]
) -> dict[str, StepRecords]:
    """What the steps have on record with what a branch has given: behind what other items gave, with ids of its own,
    which begin with `start`. `before` is what was on record where the branch left."""
    gone = {key for key in before if given.get(key) is not before[key]}
    kept = {key: step for key, step in known.items() if key not in gone or step is not before[key]}
    new = {key: step for key, step in given.items() if step is not before.get(key)}
    numbered = iter(renumbered(_all(new.values()), start, _ids(kept.values())))
    for key, step in new.items():
        records = tuple(next(numbered) for _ in step.records)
        same = kept.get(key, StepRecords((), frozenset()))
        kept[key] = StepRecords((*same.records, *records), same.asked | step.asked, same.paths | step.paths)
    return kept


def _all(recorded: Iterable[StepRecords]) -> Iterator[Mapping[str, Any]]:
    for step in recorded:
        yield from step.records


def _ids(recorded: Iterable[StepRecords]) -> set[str]:
    """Every id that is on record."""
    entries = (entry for record in _all(recorded) for name in RECORD_KEYS[1:] for entry in record.get(name) or [])
    return {str(entry["id"]) for entry in entries if isinstance(entry, Mapping) and entry.get("id")}
