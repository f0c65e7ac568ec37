"""What there is to say about a run, read from its folder, its transcript and its journal; changes nothing there."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from skillrun.language.configuration import Feature
    from skillrun.language.library import Library
    from skillrun.runtime.folder import State
    from skillrun.runtime.journal import Journal

Record = dict[str, Any]


def read_state(folder: Path) -> State:
    """The state that `state.md` holds. Raises SkillrunError."""
    from skillrun.runtime.memory import MemoryJournal
    from skillrun.runtime.session import read_state as read

    return read(folder, MemoryJournal())[0]


def is_held(folder: Path) -> bool:
    """Whether a process is running this run now."""
    import filelock

    path = folder / ".run" / "lock"
    if not path.exists():
        return False
    try:
        with filelock.FileLock(path, timeout=0, mode=0o600):
            return False
    except filelock.Timeout:
        return True


def status_of(folder: Path, state: State) -> str:
    """The status; a run that says it is running and that no process holds was cut off."""
    return "interrupted" if state.status == "running" and not is_held(folder) else state.status


def events(folder: Path) -> Iterator[Record]:
    """The transcript, oldest first; a line that was cut off by a kill is left out."""
    path = folder / ".run" / "transcript.ndjson"
    if not path.is_file():
        return
    with path.open(encoding="utf-8", errors="replace") as file:
        for line in file:
            try:
                found = json.loads(line)
            except ValueError:
                continue
            if isinstance(found, dict):
                yield found


def story(folder: Path, library: Library | None = None) -> Record:
    """The whole of it, as plain data."""
    state = read_state(folder)
    told = list(events(folder))
    phases = _phases(folder, state, told)
    record: Record = {
        "run": folder.name,
        "workflow": state.workflow,
        "status": status_of(folder, state),
        "reason": state.reason,
        "round": state.round,
        "started_at": state.started_at,
        "folder": str(folder),
        "inputs": state.inputs,
        "state": state.state,
        "models": state.models or {},
        "phases": phases,
        "artifacts": list(
            dict.fromkeys(name for one in phases for name in one["artifacts"] if (folder / name).is_file())
        ),
        "warnings": [_told(one, text) for one in phases for text in one["warnings"]],
        "degraded": [
            _told(one, one["flags"].get("degraded_because", "")) for one in phases if one["flags"].get("degraded")
        ],
        "features": [vars(feature) for feature in _features(state, library)],
    }
    return record | _from_journal(folder)


def _phases(folder: Path, state: State, told: list[Record]) -> list[Record]:
    """Every phase of every round that has a summary, in the order of the workflow."""
    from skillrun.runtime.folder import RunFolder
    from skillrun.runtime.ledger import Ledger
    from skillrun.runtime.memory import MemoryJournal

    files = RunFolder(folder, Ledger(MemoryJournal()))
    order = next((list(event["phases"]) for event in reversed(told) if event.get("event") == "RunStarted"), [])
    seconds: dict[tuple[str, int], float] = {}
    ended: dict[str, Record] = {}
    for event in told:
        if event.get("event") == "PhaseEnded" and not event["final"]:
            key = (event["phase"], event["round"])
            seconds[key] = seconds.get(key, 0.0) + event["seconds"]
            ended[event["phase"]] = event
    rounds = [(past["phases"], past["round"]) for past in files.history(state.round)]
    current = {name: summary for name in order if (summary := files.summary(name)) is not None}
    for name in order:
        if name not in current and name in ended and ended[name]["round"] == state.round:
            current[name] = {"status": ended[name]["status"], "reason": ended[name]["reason"]}
    found = [
        _phase(one, name, at, seconds)
        for one_round, at in [*rounds, (current, state.round)]
        for name, one in one_round.items()
    ]
    return sorted(
        found, key=lambda one: (one["round"], order.index(one["phase"]) if one["phase"] in order else len(order))
    )


def _phase(summary: Mapping[str, Any], name: str, number: int, seconds: Mapping[tuple[str, int], float]) -> Record:
    entered = int(summary.get("round", number))
    return {
        "phase": name,
        "status": summary.get("status", ""),
        "reason": summary.get("reason", ""),
        "round": entered,
        "seconds": seconds.get((name, entered), 0.0),
        "usage": summary.get("usage") or {},
        "outputs": summary.get("outputs") or {},
        "flags": summary.get("flags") or {},
        "warnings": summary.get("quality_warnings") or [],
        "artifacts": summary.get("artifacts") or [],
    }


def _told(one: Mapping[str, Any], text: str) -> Record:
    return {"phase": one["phase"], "round": one["round"], "text": text}


def _features(state: State, library: Library | None) -> list[Feature]:
    from skillrun.language.configuration import resolve_features

    workflow = library.workflow(state.workflow) if library is not None else None
    config = library.config(workflow.config) if library is not None and workflow and workflow.config else None
    mode = state.state.get("mode") or state.inputs.get("mode")
    return list(resolve_features((config.data if config else {}).get("features") or {}, mode).values())


def _from_journal(folder: Path) -> Record:
    """What only the journal knows; nothing, and why, while another process has it or when it is damaged."""
    from skillrun.language.diagnostics import SkillrunError
    from skillrun.runtime.journal import Journal
    from skillrun.runtime.lock import hold

    if not (folder / ".run" / "journal.db").is_file():
        return {"journal": "there is no journal in `.run/`"}
    try:
        with hold(folder):
            journal = Journal.open(folder)
            try:
                return _counted(folder, journal)
            finally:
                journal.close()
    except SkillrunError as error:
        return {"journal": error.message}


def _counted(folder: Path, journal: Journal) -> Record:
    from skillrun.models.messages import Usage
    from skillrun.runtime.folder import RunFolder
    from skillrun.runtime.ledger import Ledger
    from skillrun.runtime.run import Spent

    total = Spent()
    for entry in journal.entries("reply"):
        total.add(Usage(**entry.body["usage"]), entry.body["price"])
    ledger = Ledger(journal)
    return {
        "usage": total.to_dict(),
        "changed_by_hand": RunFolder(folder, ledger).changed_by_hand(ledger.names()),
        "unanswered": [address for address, _ in journal.unanswered()],
    }
