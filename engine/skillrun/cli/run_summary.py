"""Summarises a run from its folder, transcript and journal. It changes no files."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from dataclasses import replace

from skillrun.cli.formatting import format_event
from skillrun.cli.options import current_project
from skillrun.models.messages import Usage
from skillrun.runtime.phase_record import UsageTotals
from skillrun.store.artifacts import is_artifact_name
from skillrun.store.event_lines import Record
from skillrun.store.outcome import ResumeCommand
from skillrun.store.run_data import RunData
from skillrun.store.run_history import RunHistory
from skillrun.store.run_view import RunView, call_rounds, run_round
from skillrun.store.state import State
from skillrun.store.stored_run import StoredRun
from skillrun.syntax.diagnostics import SkillrunError
from skillrun.types.slugs import ASCII_SLUG

UsageByPhase = dict[tuple[str, int], UsageTotals]
"""Usage, keyed by phase and round."""


def resume_command(run: StoredRun) -> str:
    """Return the command that resumes the run with the flags of its last process, such as `--script`."""
    return ResumeCommand().render(run.command_argument(current_project()), RunView(run).resume_flags)


def _next_step(view: RunView, status: str) -> str:
    """Return the next command for a run that has stopped before its end; empty for other runs."""
    argument = view.run.command_argument(current_project())
    if status == "waiting" and view.history.waiting:
        return f"answer with `skillrun answers {argument}`"
    is_resumable = status in ("interrupted", "failed")
    return f"resume with {ResumeCommand().render(argument, view.resume_flags)}" if is_resumable else ""


def summarize_run(view: RunView) -> Record:
    """Return the summary as JSON data."""
    run, history = view.run, view.history
    journal_record, usage, store = _read_journal(run)
    state, _ = store.state.read()
    status = run.status(state)
    phases = _phase_records(store, state, status, history, usage)
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
        "time": history.times.to_dict(),
        "estimate": state.estimate or {},
        "phases": phases,
        "happened": [
            _text_entry(phase, text)
            for phase in phases
            for event in history.rounds[phase["phase"], phase["round"]].happened
            for text in _event_texts(event, phase["phase"])
        ],
        "artifacts": artifacts,
        "notices": list(history.notices),
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
        "features": [
            {"name": name, "on": text == "on", "because": text.removeprefix("on").removeprefix("off, ")}
            for name, text in state.features.items()
        ],
        **journal_record,
        "not_followed": store.refusals.lines,
        "next": _next_step(view, status),
    }


def _event_texts(event: Record, phase: str) -> list[str]:
    """Return the lines of an event without the name of its phase. An answer is listed even if it was replayed."""
    shown = {**event, "replayed": False} if event["event"] == "Answered" else event
    lines = format_event(shown).split("\n")
    return [text for line in lines if (text := line.removeprefix(f"{phase}: ").removeprefix(f"{phase}/"))]


def _phase_records(store: RunData, state: State, status: str, history: RunHistory, usage: UsageByPhase) -> list[Record]:
    """Return a record for each started phase of each round, in the order of the workflow.

    Failed and open phases have no summary. The usage of a phase is the usage of its paid calls in the journal or, if
    there are none, the usage in its summary.
    """
    started_names = [name for name in state.phase if ASCII_SLUG.fullmatch(name)]
    names = history.phases or dict.fromkeys([*store.summaries.phases(), *started_names])  # without a transcript
    current: dict[str, Record | None] = {}
    for name in names:
        phase, summary = history.rounds[name, state.round], store.summaries.find_readable(name)
        is_summarized = summary is not None and (summary.is_over or phase.so_far is None)
        if name in started_names and not phase.ended and not is_summarized:  # an open phase has the status of the run
            current[name] = {"status": status, **(phase.so_far or {})}
        else:
            current[name] = {**phase.ended, **(summary.record if summary is not None else {})} or None
    records = []
    rounds: list[tuple[int, Mapping[str, Record | None]]] = [
        (past.round, past.records) for past in store.summaries.history(state.round)
    ]
    for in_round, records_by_phase in [*rounds, (state.round, current)]:
        for name, recorded in records_by_phase.items():
            if recorded is None:
                continue
            number = int(recorded.get("round", in_round))
            phase = history.rounds[name, number]
            used = recorded.get("usage") or {}
            if (name, number) in usage:
                used = replace(usage[name, number], replayed=used.get("replayed", 0)).to_dict()
            records.append(
                {
                    "phase": name,
                    "status": recorded.get("status", ""),
                    "reason": recorded.get("reason", ""),
                    "round": number,
                    "seconds": phase.seconds,
                    "waited": round(phase.waited, 3),
                    "back": phase.ended.get("status") == "back",
                    "usage": used,
                    "outputs": recorded.get("outputs") or {},
                    "flags": recorded.get("flags") or {},
                    "warnings": recorded.get("quality_warnings") or [],
                    "artifacts": recorded.get("artifacts") or [],
                    "left_out": recorded.get("left_out") or [],
                    "prompts": recorded.get("prompts") or {},
                }
            )
    places = {name: number for number, name in enumerate(history.phases)}
    return sorted(records, key=lambda record: (record["round"], places.get(record["phase"], len(places))))


def _text_entry(phase: Record, text: str) -> Record:
    return {"phase": phase["phase"], "round": phase["round"], "text": text}


def _read_journal(run: StoredRun) -> tuple[Record, UsageByPhase, RunData]:
    """Return a record with data from the journal, the usage by phase, and the data of the run.

    If the journal is missing, damaged or held by another process, the record contains only the reason.
    """
    used: UsageByPhase = {}
    try:
        if not run.has_journal:
            return {"journal": "not found in `.run/`"}, {}, run.data()
        with closing(run.read_journal()) as journal:
            store, rounds = run.data(journal), call_rounds(journal)
            paid = [(1, entry) for entry in journal.entries("reply", texts=False)]
            paid += [(0, entry) for entry in journal.entries("tried", texts=False) if "usage" in entry.body]
            for replies, entry in paid:  # each in the round of its request
                number = run_round(rounds.get((entry.address, entry.fingerprint), "1"))
                key = (f"{entry.address}/".split("/")[1], number)
                call = UsageTotals(replies, Usage(**entry.body["usage"]), entry.body["price"])
                used[key] = used.get(key, UsageTotals()) + call
            total = sum(used.values(), UsageTotals())
            lost = journal.call_count - total.calls
            forms = [entry.body.get("form") for entry in journal.entries("note")]
            record = {
                "usage": {**total.to_dict(), **({"without_answer": lost} if lost > 0 else {})},
                "forms": [name for name in forms if is_artifact_name(name)],
                "changed_by_hand": store.edited_files(),
                "unanswered": [address for address, _ in journal.pending_calls()],
            }
            return record, used, store
    except PermissionError:
        return {"journal": "only the run's owner can read its journal"}, {}, run.data()
    except SkillrunError as error:
        return {"journal": error.message}, {}, run.data()
