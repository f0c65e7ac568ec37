"""Makes a case of a run: what it was given, each reply by its address, and what came of it.

Changes nothing in the run, and writes nothing.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from glob import escape
from pathlib import Path
from typing import Any, Final

from skillrun.language.check.program import Program
from skillrun.language.replies.attached import last_block
from skillrun.language.text.diagnostics import SkillrunError
from skillrun.language.types.given import given_values
from skillrun.people.answers import DEFAULT, QuestionRecord
from skillrun.runtime.forward import changed_files
from skillrun.runtime.store.files import content_of
from skillrun.runtime.store.frontmatter import to_frontmatter
from skillrun.runtime.store.journal import Body, Journal, Kind
from skillrun.runtime.store.run_store import RunStore
from skillrun.runtime.store.state import State
from skillrun.runtime.store.stored_run import StoredRun

ENDED: Final = ("completed", "failed", "waiting")
MOST_NAMED: Final = 5  # files of another version that are named


@dataclass(frozen=True)
class Recorded:
    """A case as its file holds it, the texts that its artifacts are equal to, and what is to be said of it."""

    text: str
    files: Mapping[str, str]
    notices: list[str] = field(default_factory=list)


def recorded_case(run: StoredRun, program: Program, name: str, project: Path) -> Recorded:
    """The case `name` of a run of this program. Raises SkillrunError where the run has not ended or cannot be read."""
    with closing(run.journal_to_read()) as journal:
        store = run.store(journal)
        state, _ = store.state.read()
        if state.status not in ENDED:
            hint = f"`skillrun resume {run.called(project)}` goes on with it"
            raise SkillrunError(f"the run `{run.name}` has not ended: it is {state.status}", hint)
        notices = _notices(run, program, state, store, project)
        files = dict(_artifacts(store, notices))
        answers = _answers(journal, notices)
        expect: dict[str, Any] = {"outcome": state.status, "path": _path(run)}
        if state.status == "failed" and state.reason:
            expect["outcome"] = {"status": state.status, "reason": state.reason.split("\n", 1)[0]}
        if files:
            expect["artifacts"] = {artifact: {"equals": f"{name}/{artifact}"} for artifact in files}
        front = {
            "inputs": _inputs(program, state),
            **({"answers": answers} if answers else {}),
            **({"model": state.override} if state.override else {}),
            "run": {"name": run.name, "started_at": state.started_at, "environment": state.environment},
            "replies": _replies(journal),
            "expect": expect,
        }
    body = f"Recorded from the run `{run.name}`, which was begun at {state.started_at}.\n"
    return Recorded(to_frontmatter(front, body), {f"{name}/{path}": text for path, text in files.items()}, notices)


def _notices(run: StoredRun, program: Program, state: State, store: RunStore, project: Path) -> list[str]:
    """What makes a run of the case another one than the run was."""
    notices = []
    changed = changed_files(program, state)
    if changed:
        named = ", ".join(changed[:MOST_NAMED])
        more = f" and {len(changed) - MOST_NAMED} more" if len(changed) > MOST_NAMED else ""
        notices.append(f"`{run.name}` is a run of another version: {named}{more} have changed since")
    if state.project and Path(state.project) != project.resolve():
        notices.append(f"`{run.name}` was a run in {state.project}; the case reads files of this project")
    edited = store.changed_by_hand()
    unknown = f"was changed by hand in `{run.name}`, and a run of the case knows nothing of that"
    return notices + [f"{name} {unknown}" for name in edited]


def _inputs(program: Program, state: State) -> dict[str, Any]:
    """The inputs that are not what they are by default."""
    known = {field.name for field in program.workflow.inputs}
    default, _, _ = given_values(program.workflow.inputs, {}, {"config": program.config})
    return {
        name: value
        for name, value in state.inputs.items()
        if name in known and (name not in default or default[name] != value)
    }


def _answers(journal: Journal, notices: list[str]) -> dict[str, Any]:
    """The answers by their questions' ids, of a question that was put several times in their order.

    Those that are all taken by default are left out: so they are in a run of the case.
    """
    given: defaultdict[str, list[QuestionRecord]] = defaultdict(list)
    for entry in journal.entries("answer"):
        for record in entry.body["answers"]:
            given[str(record.get("id", ""))].append(record)
    answers: dict[str, Any] = {}
    for question, records in given.items():
        if any(record.get("comment") for record in records):
            notices.append(f"a comment to `{question}` is not in the case: answers that are prepared have none")
        if any(record.get("ended") for record in records):
            notices.append(f"`{question}` was where a list was ended early; the case leaves it open")
        if any(record.get("answered_by") != DEFAULT for record in records):
            values = [_answer(record) for record in records]
            answers[question] = values[0] if len(values) == 1 else [_each(value) for value in values]
    return answers


def _answer(record: QuestionRecord) -> Any:
    answer = record.get("answer", "")
    return {"answer": answer, "confidence": record["confidence"]} if record.get("confidence") else answer


def _each(answer: Any) -> Any:
    """One of several answers, so that no list of texts is taken for a single answer of several choices."""
    return answer if isinstance(answer, dict) else {"answer": answer}


def _replies(journal: Journal) -> list[dict[str, Any]]:
    """A rule for each reply, and for each failure that stayed one; of one address in the order of the rounds."""
    rounds = {
        (entry.address, entry.fingerprint): str(entry.body.get("round", "1")) for entry in journal.entries("sent")
    }
    last: dict[tuple[str, str], dict[str, Any]] = {}  # by address and round: what was asked again counts
    rules_of: tuple[tuple[Kind, Callable[[Body], dict[str, Any]]], ...] = (("failed", _failure), ("reply", _reply))
    for kind, rule_of in rules_of:
        for entry in journal.entries(kind):
            key = (entry.address, rounds.get((entry.address, entry.fingerprint), "1"))
            last[key] = rule_of(entry.body)
    by_address: defaultdict[str, list[tuple[str, dict[str, Any]]]] = defaultdict(list)
    for (address, number), rule in last.items():
        by_address[address].append((number, rule))
    rules: list[dict[str, Any]] = []
    for address, numbered in by_address.items():
        numbered.sort(key=lambda pair: [int(part) for part in pair[0].split(".") if part.isdecimal()])
        once = {"times": 1} if len(numbered) > 1 else {}
        rules += [{"address": escape(address), **rule, **once} for _, rule in numbered]
    return rules


def _failure(body: Mapping[str, Any]) -> dict[str, Any]:
    return {"fail": body["kind"], "message": body["message"]}


def _reply(body: Mapping[str, Any]) -> dict[str, Any]:
    text, calls, stop = body["text"], body.get("calls") or [], body.get("stop", "end")
    rule: dict[str, Any] = {}
    if calls:
        rule["calls"] = [{key: call[key] for key in ("id", "name", "arguments")} for call in calls]
    if text or not calls:
        data = _data(text)
        rule |= {"text": text} if data is None else {"data": data}
        if data is None and last_block(text) is None:
            rule["record"] = False  # it had none, and gets none
    if stop != ("tool" if calls else "end"):
        rule["stop"] = stop
    return rule


def _data(text: str) -> Any:
    """The JSON object or list that a text is; None for any other."""
    try:
        data = json.loads(text) if text.lstrip()[:1] in ("{", "[") else None
    except ValueError:
        return None
    return data or None


def _path(run: StoredRun) -> list[str]:
    """The phases in the order in which they began, each once a round, however often the run was gone on with."""
    begun: dict[tuple[str, int], None] = {}
    for event in run.events():
        if event["event"] == "PhaseStarted" and "/" not in str(event.get("phase")):
            begun[str(event["phase"]), int(event.get("round", 1))] = None
    return [phase for phase, _ in begun]


def _artifacts(store: RunStore, notices: list[str]) -> list[tuple[str, str]]:
    """The artifacts that are as the run has written them, with their texts."""
    texts = []
    edited = set(store.changed_by_hand())
    for name in store.ledger.artifacts():
        content = content_of(store.files, name) if name not in edited else None
        if content is None:
            continue
        try:
            texts.append((name, content.decode("utf-8")))
        except UnicodeDecodeError:
            notices.append(f"{name} is no text, and is not in the case")
    return texts
