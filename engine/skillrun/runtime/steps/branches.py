"""A branch of a phase: one item of an `each`, evaluated beside others and put on record in the order of the list.

What a branch has on record is its own until it is taken over, so that nothing depends on which of them was quicker.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from skillrun.language.files.kinds import RECORD_KEYS
from skillrun.runtime.breakers import Breakers
from skillrun.runtime.prompt.attached import apart
from skillrun.runtime.run import Frame, PhaseRun, Recorded, Spent
from skillrun.runtime.scope import with_functions


@dataclass(frozen=True)
class Fork:
    """Where branches leave a phase: what it had on record, asked and spent, and how many answers of forms there were.

    A retry leaves from there too: an item that is evaluated again reads what it read before.
    """

    recorded: Mapping[str, Recorded]
    answers: int
    asked: frozenset[str]
    earlier: Spent

    @classmethod
    def of(cls, frame: Frame) -> Fork:
        phase, answers = frame.open, len(frame.names["run"]["answers"])
        asked = phase.asked_before | frozenset(phase.asked)
        return cls(dict(phase.recorded), answers, asked, phase.earlier + phase.spent)


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
        asked_before=fork.asked,
        earlier=fork.earlier,
        spent=Spent(),
        sets={},
        artifacts=[],
        warnings=[],
        degraded=[],
        asked=[],
        context_dropped=[],
        parts={},
        longest={},
        left_out={},
        dropped={},
        recorded=dict(fork.recorded),
        vain=dict(phase.vain),
        items={},
        marked=marked,
        prompts=0,
    )
    sessions = {member: dict(said) for member, said in frame.sessions.items()}
    inner = replace(frame, open=branch, address=address, names={}, sessions=sessions, degraded=[])
    inner.names.update({**frame.names, "run": run, **names})
    inner.absent(absent)
    branch.tell_usage()
    return with_functions(inner)


def take_over(frame: Frame, inner: Frame, fork: Fork, *, succeeded: bool) -> None:
    """Put what a branch has on record on that of the phase; what a failed item says of its documents does not count."""
    phase, branch = frame.open, inner.open
    mark = f"{branch.marked}: "
    _add(phase.warnings, (one if one.startswith(mark) else mark + one for one in branch.warnings))
    _add(phase.degraded, (one if one.startswith(mark) else mark + one for one in branch.degraded))
    _add(phase.artifacts, branch.artifacts)
    _add(phase.asked, branch.asked)
    for step, length in branch.longest.items():
        if length > phase.longest.get(step, 0):
            phase.longest[step], phase.parts[step] = length, branch.parts[step]
    for key, one in branch.left_out.items():
        phase.left_out[key] = max(phase.left_out.get(key, (0, "")), one)
    phase.dropped.update(branch.dropped)
    if branch.prompts:
        phase.context_dropped = branch.context_dropped
    phase.prompts += branch.prompts
    phase.spent += branch.spent
    phase.vain.update(branch.vain)
    if succeeded:
        phase.recorded = _records(phase, branch, fork.recorded)
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
    for one in more:
        if one not in there:
            there.append(one)


def _records(phase: PhaseRun, branch: PhaseRun, before: Mapping[str, Recorded]) -> dict[str, Recorded]:
    """What the steps have on record with that of a branch: behind what other items gave, with ids of its own."""
    gone = {key for key in before if branch.recorded.get(key) is not before[key]}
    found = {key: one for key, one in phase.recorded.items() if key not in gone or one is not before[key]}
    new = {key: one for key, one in branch.recorded.items() if one is not before.get(key)}
    told = iter(apart(_all(new.values()), f"{phase.name.upper()}-", _ids(found.values())))
    for key, one in new.items():
        records = tuple(next(told) for _ in one.records)
        same = found.get(key, Recorded((), frozenset()))
        found[key] = Recorded((*same.records, *records), same.asked | one.asked, same.paths | one.paths)
    return found


def _all(recorded: Iterable[Recorded]) -> Iterator[Mapping[str, Any]]:
    for one in recorded:
        yield from one.records


def _ids(recorded: Iterable[Recorded]) -> set[str]:
    """Every id that is on record."""
    entries = (entry for record in _all(recorded) for name in RECORD_KEYS[1:] for entry in record.get(name) or [])
    return {str(one["id"]) for one in entries if isinstance(one, Mapping) and one.get("id")}
