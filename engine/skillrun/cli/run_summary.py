"""Summarises a run from its folder, transcript and journal. It changes no files."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from contextlib import closing
from dataclasses import replace
from typing import Final

from skillrun.cli.formatting import format_event
from skillrun.cli.options import current_project
from skillrun.cli.times import RunTimes
from skillrun.models.messages import Usage
from skillrun.runtime.phase_record import UsageTotals
from skillrun.store.artifact_names import is_artifact_name
from skillrun.store.event_lines import EVENT_TYPES, Record, event_timestamp
from skillrun.store.inbox import pending_questions
from skillrun.store.journal import Journal
from skillrun.store.next_step import ResumeCommand, recorded_flags
from skillrun.store.run_data import RunData
from skillrun.store.state import State
from skillrun.store.stored_run import StoredRun
from skillrun.store.summary import Summary
from skillrun.syntax.diagnostics import SkillrunError
from skillrun.types.fields import SLUG

UsageByPhase = dict[tuple[str, int], UsageTotals]
"""Usage, keyed by phase and round."""
TIMELINE_EVENTS: Final = ("Said", "Pruned", "Answered", "Tripped", "WentBack", "Expected")


def resume_command(run: StoredRun) -> str:
    """Return the command that resumes the run with the flags of its last process, such as `--script`."""
    return ResumeCommand().render(run.command_argument(current_project()), recorded_flags(run.events()))


def _next_step(run: StoredRun, status: str) -> str:
    """Return the next command for a run that has stopped before its end; empty for other runs."""
    if status == "waiting" and pending_questions(run.events()):
        return f"answer with `skillrun answers {run.command_argument(current_project())}`"
    return f"resume with {resume_command(run)}" if status in ("interrupted", "failed") else ""


def summarize_run(run: StoredRun) -> Record:
    """Return the summary as JSON data."""
    journal_record, usage, store = _read_journal(run)
    state, _ = store.state.read()
    transcript = _EventHistory(run)
    status = run.status(state)
    phases = _phase_records(store, state, status, transcript, usage)
    if "usage" in journal_record and (replayed := sum(phase["usage"].get("replayed", 0) for phase in phases)):
        journal_record["usage"]["replayed"] = replayed
    recorded = (name for phase in phases for name in phase["artifacts"])
    artifacts = [
        name for name in dict.fromkeys((*recorded, *store.artifacts.list_names())) if store.artifacts.has(name)
    ]
    if "changed_by_hand" in journal_record:
        is_between_rounds = bool(state.going)  # artifacts may be missing then
        journal_record["removed_by_hand"] = [] if is_between_rounds else store.missing_artifacts()
    return {
        "run": run.name,
        "workflow": state.workflow,
        "status": status,
        "reason": state.reason,
        "round": state.round,
        "started_at": state.started_at,
        "folder": run.location,
        "inputs": state.inputs,
        "state": state.state,
        "models": state.models,
        "time": transcript.times.to_dict(),
        "estimate": state.estimate or {},
        "phases": phases,
        "happened": [
            _text_entry(phase, text)
            for phase in phases
            for text in transcript.lines.get((phase["phase"], phase["round"]), ())
        ],
        "artifacts": artifacts,
        "notices": list(transcript.notices),
        "forms": [name for name in journal_record.pop("forms", []) if store.artifacts.has(name)],
        "warnings": [_text_entry(phase, text) for phase in phases for text in phase["warnings"]],
        "left_out": [_text_entry(phase, text) for phase in phases for text in phase["left_out"]],
        "prompts": [
            {**_text_entry(phase, step), "parts": parts} for phase in phases for step, parts in phase["prompts"].items()
        ],
        "degraded": [
            _text_entry(phase, phase["flags"].get("degraded_because", ""))
            for phase in phases
            if phase["flags"].get("degraded")
        ],
        "features": [_feature_record(*feature) for feature in state.features.items()],
        **journal_record,
        "not_followed": store.refusals.lines,
        "next": _next_step(run, status),
    }


class _EventHistory:
    """The events of each phase in each round. If a phase restarts in the same round, its earlier events are dropped."""

    def __init__(self, run: StoredRun) -> None:
        self.order: list[str] = []
        self.seconds: defaultdict[tuple[str, int], float] = defaultdict(float)
        self.ended: dict[tuple[str, int], Record] = {}
        self.open: dict[tuple[str, int], Record] = {}  # the summaries of open phases so far
        self.lines: dict[tuple[str, int], list[str]] = {}
        self.notices: dict[str, None] = {}  # warnings about the run as a whole
        self.times = RunTimes()
        self.waited: defaultdict[tuple[str, int], float] = defaultdict(float)
        rounds: dict[str, int] = {}
        for event in run.events():
            if event["event"] not in EVENT_TYPES:  # from a newer version of skillrun
                continue
            at = event_timestamp(event.get("at"))
            if at is not None:
                self.times.add(event, at)
            path = str(event.get("phase") or event.get("source") or "")
            phase, _, inner = path.partition("/")  # `inner` is a phase of a workflow that the phase runs
            is_phase_event = event["event"].startswith("Phase") and not inner
            rounds[phase] = event.get("round", 1) if is_phase_event else rounds.get(phase, 1)
            key = (phase, rounds[phase])
            if event["event"] == "RunStarted":
                self.order = [name for name in event["phases"] if SLUG.fullmatch(name)]
            elif event["event"] == "Notice" and event.get("level") == "warn":
                self.notices[str(event["text"])] = None
            elif event["event"] == "PhaseStarted" and is_phase_event:
                self.lines[key] = []
                self.ended.pop(key, None)
                self.open[key] = {"quality_warnings": [], "artifacts": []}
            elif event["event"] == "PhaseEnded" and is_phase_event and not event["final"]:
                self.seconds[key] += event["seconds"]
                self.waited[key] += self.times.waiting_seconds(phase, self.times.last)
                self.ended[key] = event
                self.open.pop(key, None)
            elif key in self.open and event["event"] == "Said" and event["level"] == "warn":
                self.open[key]["quality_warnings"].append(event["text"])
            elif key in self.open and event["event"] == "Wrote" and is_artifact_name(event["path"]):
                self.open[key]["artifacts"] = list(dict.fromkeys([*self.open[key]["artifacts"], event["path"]]))
            if event["event"] in TIMELINE_EVENTS or event.get("reason"):
                overrides = (
                    {"replayed": False} if event["event"] == "Answered" else {}
                )  # list the answer even if it was replayed
                lines = format_event({**event, **overrides}).split("\n")
                texts = [line.removeprefix(f"{phase}: ").removeprefix(f"{phase}/") for line in lines]
                self.lines.setdefault(key, []).extend(filter(None, texts))


def _phase_records(
    store: RunData, state: State, status: str, transcript: _EventHistory, usage: UsageByPhase
) -> list[Record]:
    """Return a record for each started phase of each round, in the order of the workflow.

    Failed and open phases have no summary. The usage of a phase is the usage of its paid calls in the journal or, if
    there are none, the usage in its summary.
    """
    started_names = [name for name in state.phase if SLUG.fullmatch(name)]
    unordered = [*store.summaries.phases(), *started_names]  # the order is unknown without a transcript
    names = transcript.order or dict.fromkeys(unordered)
    current = {
        name: _current_record(
            transcript, (name, state.round), status, store.summaries.find_readable(name), is_open=name in started_names
        )
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
            if (name, number) in usage:
                replayed = record["usage"].get("replayed", 0)
                record["usage"] = replace(usage[name, number], replayed=replayed).to_dict()
            record |= {"warnings": summary.get("quality_warnings") or [], "artifacts": summary.get("artifacts") or []}
            record |= {"left_out": summary.get("left_out") or [], "prompts": summary.get("prompts") or {}}
            records.append(record)
    places = {name: number for number, name in enumerate(transcript.order)}
    return sorted(records, key=lambda record: (record["round"], places.get(record["phase"], len(places))))


def _current_record(
    transcript: _EventHistory, key: tuple[str, int], status: str, summary: Summary | None, *, is_open: bool
) -> Record | None:
    """Return the record of a phase in this round. An open phase has the status of the run."""
    is_earlier = summary is not None and (summary.is_over or key not in transcript.open)
    if is_open and key not in transcript.ended and not is_earlier:
        return {"status": status, **transcript.open.get(key, {})}
    return {**transcript.ended.get(key, {}), **(summary.record if summary is not None else {})} or None


def _text_entry(phase: Record, text: str) -> Record:
    return {"phase": phase["phase"], "round": phase["round"], "text": text}


def _feature_record(name: str, state: str) -> Record:
    return {"name": name, "on": state == "on", "because": state.removeprefix("on").removeprefix("off, ")}


def _read_journal(run: StoredRun) -> tuple[Record, UsageByPhase, RunData]:
    """Return a record with data from the journal, the usage by phase, and the data of the run.

    If the journal is missing, damaged or held by another process, the record has only the reason.
    """
    try:
        if not run.has_journal:
            return {"journal": "not found in `.run/`"}, {}, run.data()
        with closing(run.read_only_journal()) as journal:
            store = run.data(journal)
            paid = _usage_by_phase(journal)
            return _journal_record(store, journal, paid), paid, store
    except PermissionError:
        return {"journal": "only the run's owner can read its journal"}, {}, run.data()
    except SkillrunError as error:
        return {"journal": error.message}, {}, run.data()


def _usage_by_phase(journal: Journal) -> UsageByPhase:
    """Return the usage of each phase in each round. Each paid call counts once, in the round of its request."""
    rounds = {(entry.address, entry.fingerprint): entry.body.get("round") for entry in journal.entries("sent")}
    used: UsageByPhase = {}
    for entry in journal.entries("reply"):
        first = str(rounds.get((entry.address, entry.fingerprint))).partition(".")[0]
        key = (f"{entry.address}/".split("/")[1], int(first) if first.isdecimal() else 1)
        call = UsageTotals(1, Usage(**entry.body["usage"]), entry.body["price"])
        used[key] = used.get(key, UsageTotals()) + call
    return used


def _journal_record(store: RunData, journal: Journal, usage: UsageByPhase) -> Record:
    total = sum(usage.values(), UsageTotals())
    lost = {"without_answer": number} if (number := journal.call_count - total.calls) > 0 else {}
    return {
        "usage": {**total.to_dict(), **lost},
        "forms": [name for entry in journal.entries("note") if is_artifact_name(name := entry.body.get("form"))],
        "changed_by_hand": store.edited_files(),
        "unanswered": [address for address, _ in journal.pending_calls()],
    }
