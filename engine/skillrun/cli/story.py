"""What there is to say about a run, read from its folder, its transcript and its journal; changes nothing there."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from skillrun.language.library import Library
    from skillrun.runtime.folder import RunFolder, State
    from skillrun.runtime.journal import Journal

Record = dict[str, Any]
POLL: Final = 0.2  # seconds between two looks at a transcript that grows


def read_state(folder: Path) -> State:
    """The state that `state.md` holds. Raises SkillrunError."""
    return _files(folder).read_state()[0]


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


def events(folder: Path, *, follow: bool = False) -> Iterator[Record]:
    """The transcript, oldest first, and with `follow` what comes until the run ends; a line cut off is left out."""
    path = folder / ".run" / "transcript.ndjson"
    rest, place = "", 0
    while path.is_file():
        held = follow and is_held(folder)
        with path.open(encoding="utf-8", errors="replace") as file:
            file.seek(place)
            *whole, rest = (rest + file.read()).split("\n")
            place = file.tell()
        for line in whole:
            with contextlib.suppress(ValueError):
                yield json.loads(line)
        if not held:
            return
        time.sleep(POLL)


def story(folder: Path, library: Library) -> Record:
    """The whole of it, as plain data."""
    state = read_state(folder)
    phases = _phases(folder, state)
    artifacts = dict.fromkeys(name for one in phases for name in one["artifacts"] if (folder / name).is_file())
    degraded = [(one, one["flags"].get("degraded_because", "")) for one in phases if one["flags"].get("degraded")]
    warnings = [(one, text) for one in phases for text in one["warnings"]]
    return {
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
        "artifacts": list(artifacts),
        "warnings": [{"phase": one["phase"], "round": one["round"], "text": text} for one, text in warnings],
        "degraded": [{"phase": one["phase"], "round": one["round"], "text": text} for one, text in degraded],
        "features": _features(state, library),
        **_from_journal(folder),
    }


def _files(folder: Path) -> RunFolder:
    """The run's files without its journal."""
    from skillrun.runtime.folder import RunFolder

    return RunFolder(folder)


def _phases(folder: Path, state: State) -> list[Record]:
    """Every phase of every round that has ended, in the order of the workflow; a failed one has no summary."""
    files = _files(folder)
    order: list[str] = []
    seconds: dict[tuple[str, int], float] = {}
    last: dict[str, Record] = {}
    for event in events(folder):
        if event["event"] == "RunStarted":
            order = event["phases"]
        elif event["event"] == "PhaseEnded" and not event["final"]:
            key = (event["phase"], event["round"])
            seconds[key] = seconds.get(key, 0.0) + event["seconds"]
            if event["round"] == state.round:
                last[event["phase"]] = event
    current = {name: files.summary(name) or last.get(name) for name in order}
    found = []
    for past in [*files.history(state.round), {"phases": current, "round": state.round}]:
        for name, summary in past["phases"].items():
            if summary is None:
                continue
            number = int(summary.get("round", past["round"]))
            one = {"phase": name, "status": summary["status"], "reason": summary.get("reason", ""), "round": number}
            one["seconds"] = seconds.get((name, number), 0.0)
            one |= {key: summary.get(key) or {} for key in ("usage", "outputs", "flags")}
            one |= {"warnings": summary.get("quality_warnings") or [], "artifacts": summary.get("artifacts") or []}
            found.append(one)
    places = {name: number for number, name in enumerate(order)}
    return sorted(found, key=lambda one: (one["round"], places.get(one["phase"], len(places))))


def _features(state: State, library: Library) -> list[Record]:
    from skillrun.language.configuration import resolve_features

    workflow = library.workflow(state.workflow)
    config = library.config(workflow.config) if workflow and workflow.config else None
    mode = state.state.get("mode") or state.inputs.get("mode")
    return [vars(one) for one in resolve_features((config.data if config else {}).get("features") or {}, mode).values()]


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
    from skillrun.runtime.run import Spent

    total = Spent()
    for entry in journal.entries("reply"):
        total.add(Usage(**entry.body["usage"]), entry.body["price"])
    return {
        "usage": total.to_dict(),
        "changed_by_hand": RunFolder(folder, journal).changed_by_hand(),
        "unanswered": [address for address, _ in journal.unanswered()],
    }
