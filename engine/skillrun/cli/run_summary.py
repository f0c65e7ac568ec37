"""What there is to say about a run, read from its folder, its transcript and its journal; changes nothing there."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from contextlib import closing
from dataclasses import replace
from typing import Final

from skillrun.cli.formatting import line_of
from skillrun.cli.times import RunTimes
from skillrun.models.messages import Usage
from skillrun.runtime.usage_totals import Spent
from skillrun.store.artifact_names import is_artifact
from skillrun.store.event_lines import KINDS, Record, moment_of
from skillrun.store.journal import Journal
from skillrun.store.run_data import RunStore
from skillrun.store.state import State
from skillrun.store.stored_run import StoredRun
from skillrun.store.summary import Summary
from skillrun.syntax.diagnostics import SkillrunError
from skillrun.types.fields import SLUG

Paid = dict[tuple[str, int], Spent]
"""By phase and round."""
HAPPENED: Final = ("Said", "Pruned", "Answered", "Tripped", "WentBack", "Expected")


def story(run: StoredRun) -> Record:
    """The whole of it, as plain data. Changes nothing there."""
    counted, paid, store = _from_journal(run)
    state, _ = store.state.read()
    transcript = _Transcript(run)
    status = run.status(state)
    phases = _phases(store, state, status, transcript, paid)
    if "usage" in counted and (again := sum(phase["usage"].get("replayed", 0) for phase in phases)):
        counted["usage"]["replayed"] = again
    recorded = (name for phase in phases for name in phase["artifacts"])
    artifacts = [name for name in dict.fromkeys((*recorded, *store.ledger.artifacts())) if store.ledger.has(name)]
    if "changed_by_hand" in counted:
        half_moved = bool(state.going)  # to a round that is over
        counted["removed_by_hand"] = [] if half_moved else store.removed_by_hand()
    return {
        "run": run.name,
        "workflow": state.workflow,
        "status": status,
        "reason": state.reason,
        "round": state.round,
        "started_at": state.started_at,
        "folder": run.place,
        "inputs": state.inputs,
        "state": state.state,
        "models": state.models,
        "time": transcript.times.to_dict(),
        "estimate": state.estimate or {},
        "phases": phases,
        "happened": [
            _of(phase, text) for phase in phases for text in transcript.lines.get((phase["phase"], phase["round"]), ())
        ],
        "artifacts": artifacts,
        "notices": list(transcript.notices),
        "forms": [name for name in counted.pop("forms", []) if store.ledger.has(name)],
        "warnings": [_of(phase, text) for phase in phases for text in phase["warnings"]],
        "left_out": [_of(phase, text) for phase in phases for text in phase["left_out"]],
        "prompts": [
            {**_of(phase, step), "parts": parts} for phase in phases for step, parts in phase["prompts"].items()
        ],
        "degraded": [
            _of(phase, phase["flags"].get("degraded_because", "")) for phase in phases if phase["flags"].get("degraded")
        ],
        "features": [_feature(*feature) for feature in state.features.items()],
        **counted,
        "not_followed": store.refusals.lines,
    }


class _Transcript:
    """What the events say of each phase in each round; what is evaluated again happens again, and is told once."""

    def __init__(self, run: StoredRun) -> None:
        self.order: list[str] = []
        self.seconds: defaultdict[tuple[str, int], float] = defaultdict(float)
        self.ended: dict[tuple[str, int], Record] = {}
        self.open: dict[tuple[str, int], Record] = {}  # what a summary would say so far
        self.lines: dict[tuple[str, int], list[str]] = {}
        self.notices: dict[str, None] = {}  # warnings about the run as a whole
        self.times = RunTimes()
        self.waited: defaultdict[tuple[str, int], float] = defaultdict(float)
        rounds: dict[str, int] = {}
        for event in run.events():
            if event["event"] not in KINDS:  # of a later skillrun
                continue
            at = moment_of(event.get("at"))
            if at is not None:
                self.times.add(event, at)
            path = str(event.get("phase") or event.get("source") or "")
            phase, _, inner = path.partition("/")  # of a workflow that the phase runs
            own = event["event"].startswith("Phase") and not inner
            rounds[phase] = event.get("round", 1) if own else rounds.get(phase, 1)
            key = (phase, rounds[phase])
            if event["event"] == "RunStarted":
                self.order = [name for name in event["phases"] if SLUG.fullmatch(name)]
            elif event["event"] == "Notice" and event.get("level") == "warn":
                self.notices[str(event["text"])] = None
            elif event["event"] == "PhaseStarted" and own:
                self.lines[key] = []
                self.ended.pop(key, None)
                self.open[key] = {"quality_warnings": [], "artifacts": []}
            elif event["event"] == "PhaseEnded" and own and not event["final"]:
                self.seconds[key] += event["seconds"]
                self.waited[key] += self.times.waiting_seconds(phase, self.times.last)
                self.ended[key] = event
                self.open.pop(key, None)
            elif key in self.open and event["event"] == "Said" and event["level"] == "warn":
                self.open[key]["quality_warnings"].append(event["text"])
            elif key in self.open and event["event"] == "Wrote" and is_artifact(event["path"]):
                self.open[key]["artifacts"] = list(dict.fromkeys([*self.open[key]["artifacts"], event["path"]]))
            if event["event"] in HAPPENED or event.get("reason"):
                again = {"replayed": False} if event["event"] == "Answered" else {}  # it was given, and is told once
                lines = line_of({**event, **again}).split("\n")
                texts = [line.removeprefix(f"{phase}: ").removeprefix(f"{phase}/") for line in lines]
                self.lines.setdefault(key, []).extend(filter(None, texts))


def _phases(store: RunStore, state: State, status: str, transcript: _Transcript, paid: Paid) -> list[Record]:
    """Every phase of every round that has begun, in the order of the workflow; a failed or open one has no summary.

    What it used is what the journal says was paid for; its summary says so where there is no journal.
    """
    begun = [name for name in state.phase if SLUG.fullmatch(name)]
    unordered = [*store.summaries.phases(), *begun]  # without the transcript nothing tells an order
    names = transcript.order or dict.fromkeys(unordered)
    current = {
        name: _so_far(transcript, (name, state.round), status, store.summaries.readable(name), is_open=name in begun)
        for name in names
    }
    records = []
    rounds: list[tuple[int, Mapping[str, Record | None]]] = [
        (past.round, {name: dict(summary.record) for name, summary in past.phases.items()})
        for past in store.summaries.history(state.round)
    ]
    for in_round, summaries in [*rounds, (state.round, current)]:
        for name, summary in summaries.items():
            if summary is None:
                continue
            number = int(summary.get("round", in_round))
            record = {"phase": name, "status": summary.get("status", ""), "reason": summary.get("reason", "")}
            record |= {"round": number, "seconds": transcript.seconds[name, number]}
            record["waited"] = round(transcript.waited[name, number], 3)
            record["back"] = transcript.ended.get((name, number), {}).get("status") == "back"
            record |= {key: summary.get(key) or {} for key in ("usage", "outputs", "flags")}
            if (name, number) in paid:
                again = record["usage"].get("replayed", 0)
                record["usage"] = replace(paid[name, number], replayed=again).to_dict()
            record |= {"warnings": summary.get("quality_warnings") or [], "artifacts": summary.get("artifacts") or []}
            record |= {"left_out": summary.get("left_out") or [], "prompts": summary.get("prompts") or {}}
            records.append(record)
    places = {name: number for number, name in enumerate(transcript.order)}
    return sorted(records, key=lambda record: (record["round"], places.get(record["phase"], len(places))))


def _so_far(
    transcript: _Transcript, key: tuple[str, int], status: str, summary: Summary | None, *, is_open: bool
) -> Record | None:
    """What there is of a phase in this round. An open one stands as the run does, also where it has waited."""
    before = summary is not None and (summary.is_over or key not in transcript.open)
    if is_open and key not in transcript.ended and not before:
        return {"status": status, **transcript.open.get(key, {})}
    return {**transcript.ended.get(key, {}), **(summary.record if summary is not None else {})} or None


def _of(phase: Record, text: str) -> Record:
    return {"phase": phase["phase"], "round": phase["round"], "text": text}


def _feature(name: str, stands: str) -> Record:
    return {"name": name, "on": stands == "on", "because": stands.removeprefix("on").removeprefix("off, ")}


def _from_journal(run: StoredRun) -> tuple[Record, Paid, RunStore]:
    """What only the journal knows, what each phase has used by it, and the run's store as it knows them.

    Nothing, and why, while another process has it or when it is damaged.
    """
    try:
        if not run.has_journal:
            return {"journal": "there is no journal in `.run/`"}, {}, run.store()
        with closing(run.journal_to_read()) as journal:
            store = run.store(journal)
            paid = _paid(journal)
            return _counted(store, journal, paid), paid, store
    except PermissionError:
        return {"journal": "the journal of this run is its owner's"}, {}, run.store()
    except SkillrunError as error:
        return {"journal": error.message}, {}, run.store()


def _paid(journal: Journal) -> Paid:
    """What each phase has used in each round: the calls that were paid for, each once and where it was asked."""
    rounds = {(entry.address, entry.fingerprint): entry.body.get("round") for entry in journal.entries("sent")}
    used: Paid = {}
    for entry in journal.entries("reply"):
        first = str(rounds.get((entry.address, entry.fingerprint))).partition(".")[0]
        key = (f"{entry.address}/".split("/")[1], int(first) if first.isdecimal() else 1)
        call = Spent(1, Usage(**entry.body["usage"]), entry.body["price"])
        used[key] = used.get(key, Spent()) + call
    return used


def _counted(store: RunStore, journal: Journal, paid: Paid) -> Record:
    total = sum(paid.values(), Spent())
    lost = {"without_answer": number} if (number := journal.calls - total.calls) > 0 else {}
    return {
        "usage": {**total.to_dict(), **lost},
        "forms": [name for entry in journal.entries("note") if is_artifact(name := entry.body.get("form"))],
        "changed_by_hand": store.changed_by_hand(),
        "unanswered": [address for address, _ in journal.unanswered()],
    }
