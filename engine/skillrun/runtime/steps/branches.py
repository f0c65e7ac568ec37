"""Branches of a phase: items of an `each`, evaluated in parallel and merged in the order of the list.

A branch keeps its records separate until it is merged, so that results do not depend on timing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from skillrun.definitions.verbs import RECORD_KEYS
from skillrun.runtime.breakers import Breakers
from skillrun.runtime.frame import Frame
from skillrun.runtime.phase_record import PhaseRecord, StepRecords
from skillrun.runtime.prompts.step_records import renumber_records
from skillrun.runtime.scope import with_functions
from skillrun.runtime.usage_totals import UsageTotals


@dataclass(frozen=True)
class Fork:
    """The point where branches leave a phase: its records, questions and usage, and its number of form answers.

    A retry starts from the same point, so that an item reads the same values again.
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
    """Return a frame for the steps of one item, with a separate address and record.

    Breakers count only the item's failures. `names` extend the names of the frame, `absent` are not bound yet.
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
    """Merge a branch's record into that of the phase; the records of a failed item's documents do not count."""
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
    """Append the form answers of branches to the earlier ones: once for each branch, even after a retry, and including
    equal answers."""
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
    """Return the records of steps merged with those of a branch, which follow those of other items and get unique ids
    that begin with `start`. `before` holds the records at the fork."""
    gone = {key for key in before if given.get(key) is not before[key]}
    kept = {key: step for key, step in known.items() if key not in gone or step is not before[key]}
    new = {key: step for key, step in given.items() if step is not before.get(key)}
    numbered = iter(renumber_records(_all(new.values()), start, _ids(kept.values())))
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


def _ids(recorded: Iterable[StepRecords]) -> set[str]:
    """Return every recorded id."""
    entries = (entry for record in _all(recorded) for name in RECORD_KEYS[1:] for entry in record.get(name) or [])
    return {str(entry["id"]) for entry in entries if isinstance(entry, Mapping) and entry.get("id")}
