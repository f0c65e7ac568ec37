"""Creates a case from a run. The case has the run's inputs and replies, and expects the run's results."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from skillrun.checker.program import Program
from skillrun.extensions.testing.recorded_prompts import MAX_PROMPTS_BYTES, dump_prompts, recorded_prompts
from skillrun.extensions.testing.recorded_replies import MAX_CASE_BYTES, recorded_replies, split_into_scripts
from skillrun.questions.answers import DEFAULT, QuestionRecord
from skillrun.runtime.resumed_state import changed_files
from skillrun.store.files import read_content
from skillrun.store.frontmatter import to_frontmatter
from skillrun.store.journal import Journal
from skillrun.store.run_data import RunData
from skillrun.store.state import State
from skillrun.store.stored_run import StoredRun
from skillrun.syntax.diagnostics import SkillrunError
from skillrun.syntax.source import MAX_BYTES
from skillrun.types.fields import resolve_inputs

ENDED: Final = ("completed", "failed", "waiting")
MOST_NAMED: Final = 5  # changed files that a warning lists
PROMPTS: Final = ".prompts.json"  # no artifact can have this name
RUNS: Final = ".runs"


@dataclass(frozen=True)
class RecordedCase:
    """A case recorded from a run.

    `text` is the content of the case file. `artifacts` and `extra_files` map the paths of the case's other files to
    their contents. `notices` are warnings to print.
    """

    text: str
    artifacts: Mapping[str, str]
    extra_files: Mapping[str, str]
    notices: list[str] = field(default_factory=list)


def record_case(run: StoredRun, program: Program, name: str, project: Path) -> RecordedCase:
    """Return a case called `name`, recorded from a run. Raises SkillrunError if the run is unreadable or not over."""
    with closing(run.read_journal()) as journal:
        store = run.data(journal)
        state, _ = store.state.read()
        if state.status not in ENDED:
            hint = f"`skillrun resume {run.command_argument(project)}` continues the run"
            raise SkillrunError(f"the run `{run.name}` has not ended: its status is {state.status}", hint)
        notices = _notices(run, program, state, store, project)
        files = dict(_artifacts(store, notices))
        answers = _answers(journal, notices)
        expect: dict[str, Any] = {"outcome": state.status, "path": _path(run)}
        if state.status == "failed" and state.reason:
            expect["outcome"] = {"status": state.status, "reason": state.reason.split("\n", 1)[0]}
        if files:
            expect["artifacts"] = {
                artifact: _artifact_expectation(name, artifact, text, notices) for artifact, text in files.items()
            }
        files = {artifact: text for artifact, text in files.items() if isinstance(expect["artifacts"][artifact], dict)}
        others = _other_runs(journal)
        prompts = dump_prompts(recorded_prompts(journal))
        if len(prompts) > MAX_PROMPTS_BYTES:
            notices.append(f"the case does not include the prompts: they have more than {MAX_PROMPTS_BYTES:,} bytes")
            prompts = ""
        rules = recorded_replies(journal)
        front = {
            "inputs": _inputs(program, state),
            **({"answers": answers} if answers else {}),
            **({"model": state.override} if state.override else {}),
            "run": {"name": run.name, "started_at": state.started_at, "environment": state.environment},
            **({"runs": f"{name}/{RUNS}"} if others else {}),
            **({"prompts": f"{name}/{PROMPTS}"} if prompts else {}),
            "replies": rules,
            "expect": expect,
        }
    body = f"Recorded from the run `{run.name}`, started at {state.started_at}.\n"
    text = to_frontmatter(front, body)
    extra_files = {**({PROMPTS: prompts} if prompts else {}), **others}
    if len(text.encode()) > MAX_CASE_BYTES:  # the reader refuses a longer file
        reply_scripts = split_into_scripts(rules)
        replies = {f"replies-{number}.yaml": script for number, script in enumerate(reply_scripts, 1)}
        extra_files |= replies
        text = to_frontmatter({**front, "replies": [f"{name}/{file}" for file in replies]}, body)
    artifacts, extra_files = ({f"{name}/{path}": kept for path, kept in each.items()} for each in (files, extra_files))
    return RecordedCase(text, artifacts, extra_files, notices)


def _notices(run: StoredRun, program: Program, state: State, store: RunData, project: Path) -> list[str]:
    """Return warnings about how the case differs from the run."""
    notices = []
    changed = changed_files(program, state)
    if changed:
        named = ", ".join(changed[:MOST_NAMED])
        more = f" and {len(changed) - MOST_NAMED} more" if len(changed) > MOST_NAMED else ""
        have = "has" if len(changed) == 1 else "have"
        notices.append(f"`{run.name}` ran a different version: {named}{more} {have} changed since")
    if state.project and Path(state.project) != project.resolve():
        notices.append(f"`{run.name}` ran in {state.project}; the case reads the files of this project")
    edited = store.edited_files()
    unknown = f"was edited in `{run.name}` after the run wrote the file; the case does not include the edit"
    return notices + [f"{name} {unknown}" for name in edited]


def _inputs(program: Program, state: State) -> dict[str, Any]:
    """Return the inputs of the run whose values are not the defaults."""
    known = {field.name for field in program.workflow.inputs}
    default, _, _ = resolve_inputs(program.workflow.inputs, {}, {"config": program.config})
    return {
        name: value
        for name, value in state.inputs.items()
        if name in known and (name not in default or default[name] != value)
    }


def _answers(journal: Journal, notices: list[str]) -> dict[str, Any]:
    """Return the answers, keyed by question id. A question that was asked several times has a list of answers.

    A question that only got default answers is omitted, since a run of the case uses the same defaults.
    """
    records_by_question: defaultdict[str, list[QuestionRecord]] = defaultdict(list)
    for entry in journal.entries("answer"):
        for record in entry.body["answers"]:
            records_by_question[str(record.get("id", ""))].append(record)
    answers: dict[str, Any] = {}
    for question, records in records_by_question.items():
        if any(record.get("comment") for record in records):
            notices.append(f"the case does not include the comment on `{question}`: prepared answers have no comments")
        if any(record.get("ended") for record in records):
            notices.append(f"the case does not include that the user ended the list of questions at `{question}` early")
        if any(record.get("answered_by") != DEFAULT for record in records):
            values = [_answer(record) for record in records]
            answers[question] = values[0] if len(values) == 1 else [_as_single_answer(value) for value in values]
    return answers


def _answer(record: QuestionRecord) -> Any:
    answer = record.get("answer", "")
    return {"answer": answer, "confidence": record["confidence"]} if record.get("confidence") else answer


def _as_single_answer(answer: Any) -> Any:
    """Return one of several answers as a mapping.

    A list of plain texts would be read as one answer with several choices.
    """
    return answer if isinstance(answer, dict) else {"answer": answer}


def _artifact_expectation(name: str, artifact: str, text: str, notices: list[str]) -> dict[str, str] | bool:
    """Return the expectation about an artifact: that it has this text or, if the text is too long, that it exists."""
    if len(text.encode("utf-8", "surrogatepass")) <= MAX_BYTES:
        return {"equals": f"{name}/{artifact}"}
    notices.append(f"{artifact} has more than {MAX_BYTES:,} bytes, so the case only checks that the file is written")
    return True


def _other_runs(journal: Journal) -> dict[str, str]:
    """Return the files that the run read from other runs, keyed by their paths in the case's folder."""
    files: dict[str, str] = {}
    for entry in journal.entries("tool"):
        origin, names, texts = (entry.body.get(key) for key in ("run", "files", "texts"))
        if origin and names and texts:
            data = entry.body.get("data")
            fronts = [data] if isinstance(data, dict) else data or [None] * len(names)
            for name, text, front in zip(names, texts, fronts, strict=False):
                files[f"{RUNS}/{origin}/{name}"] = to_frontmatter(front, text) if front is not None else text
    return files


def _path(run: StoredRun) -> list[str]:
    """Return the phases in the order in which they started. A phase occurs once per round, even after a resume."""
    begun: dict[tuple[str, int], None] = {}
    for event in run.events():
        if event["event"] == "PhaseStarted" and "/" not in str(event.get("phase")):
            begun[str(event["phase"]), int(event.get("round", 1))] = None
    return [phase for phase, _ in begun]


def _artifacts(store: RunData, notices: list[str]) -> list[tuple[str, str]]:
    """Return the names and texts of the artifacts, without artifacts that were edited after the run wrote them."""
    texts = []
    edited = set(store.edited_files())
    for name in store.artifacts.list_names():
        content = read_content(store.files, name) if name not in edited else None
        if content is None:
            continue
        try:
            texts.append((name, content.decode("utf-8")))
        except UnicodeDecodeError:
            notices.append(f"the case does not include {name}: it is not a text file")
    return texts
