"""What there is to say about a run, read from its folder, its transcript and its journal; changes nothing there."""

from __future__ import annotations

import contextlib
import json
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from skillrun.cli.words import line_of
from skillrun.language.diagnostics import SkillrunError
from skillrun.models.messages import Usage
from skillrun.runtime.folder import RunFolder, State
from skillrun.runtime.journal import Journal
from skillrun.runtime.lock import hold
from skillrun.runtime.run import Spent

Record = dict[str, Any]
HAPPENED: Final = ("Said", "Pruned", "Answered", "Tripped", "WentBack")
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


def story(folder: Path) -> Record:
    """The whole of it, as plain data."""
    state = read_state(folder)
    told = _Told(folder)
    phases = _phases(folder, state, told)
    artifacts = dict.fromkeys(name for one in phases for name in one["artifacts"] if (folder / name).is_file())
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
        "models": state.models,
        "estimate": state.estimate or {},
        "phases": phases,
        "happened": [_of(one, text) for one in phases for text in told.lines.get((one["phase"], one["round"]), ())],
        "artifacts": list(artifacts),
        "warnings": [_of(one, text) for one in phases for text in one["warnings"]],
        "degraded": [
            _of(one, one["flags"].get("degraded_because", "")) for one in phases if one["flags"].get("degraded")
        ],
        "features": [_feature(*one) for one in state.features.items()],
        **_from_journal(folder),
    }


class _Told:
    """What the events say of each phase in each round; what is evaluated again happens again, and is told once."""

    def __init__(self, folder: Path) -> None:
        self.order: list[str] = []
        self.seconds: defaultdict[tuple[str, int], float] = defaultdict(float)
        self.ended: dict[tuple[str, int], Record] = {}
        self.lines: dict[tuple[str, int], list[str]] = {}
        rounds: dict[str, int] = {}
        for event in events(folder):
            phase = str(event.get("phase") or event.get("source") or "")
            rounds[phase] = event.get("round", 1) if event["event"].startswith("Phase") else rounds.get(phase, 1)
            key = (phase, rounds[phase])
            if event["event"] == "RunStarted":
                self.order = event["phases"]
            elif event["event"] == "PhaseStarted":
                self.lines[key] = []
            elif event["event"] == "PhaseEnded" and not event["final"]:
                self.seconds[key] += event["seconds"]
                self.ended[key] = event
            if event["event"] in HAPPENED or event.get("reason"):
                text = line_of(event).removeprefix(f"{phase}: ")
                self.lines.setdefault(key, []).extend(filter(None, text.split("\n")))


def _files(folder: Path) -> RunFolder:
    """The run's files without its journal."""
    return RunFolder(folder)


def _phases(folder: Path, state: State, told: _Told) -> list[Record]:
    """Every phase of every round that has ended or waits, in the order of the workflow; a failed one has no summary."""
    files = _files(folder)
    current = {
        name: {**told.ended.get((name, state.round), {}), **(files.any_summary(name) or {})} or None
        for name in told.order
    }
    found = []
    for past in [*files.history(state.round), {"phases": current, "round": state.round}]:
        for name, summary in past["phases"].items():
            if summary is None:
                continue
            number = int(summary.get("round", past["round"]))
            one = {"phase": name, "status": summary["status"], "reason": summary.get("reason", ""), "round": number}
            one["seconds"] = told.seconds[name, number]
            one["back"] = told.ended.get((name, number), {}).get("status") == "back"
            one |= {key: summary.get(key) or {} for key in ("usage", "outputs", "flags")}
            one |= {"warnings": summary.get("quality_warnings") or [], "artifacts": summary.get("artifacts") or []}
            found.append(one)
    places = {name: number for number, name in enumerate(told.order)}
    return sorted(found, key=lambda one: (one["round"], places.get(one["phase"], len(places))))


def _of(phase: Record, text: str) -> Record:
    return {"phase": phase["phase"], "round": phase["round"], "text": text}


def _feature(name: str, stands: str) -> Record:
    return {"name": name, "on": stands == "on", "because": stands.removeprefix("on").removeprefix("off, ")}


def _from_journal(folder: Path) -> Record:
    """What only the journal knows; nothing, and why, while another process has it or when it is damaged."""
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
    calls = (Spent(1, Usage(**entry.body["usage"]), entry.body["price"]) for entry in journal.entries("reply"))
    return {
        "usage": sum(calls, Spent()).to_dict(),
        "changed_by_hand": RunFolder(folder, journal).changed_by_hand(),
        "unanswered": [address for address, _ in journal.unanswered()],
    }
