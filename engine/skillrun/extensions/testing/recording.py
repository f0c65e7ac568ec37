"""Creates a case from a run. The case has the run's inputs and replies, and expects the run's results."""

from __future__ import annotations

import json
import os
import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from glob import escape
from pathlib import Path
from typing import Any, Final

from skillrun.checker.checker import check_workflow
from skillrun.checker.program import Program
from skillrun.cli.formatting import count_noun
from skillrun.cli.loading import exit_on_errors, open_library, require_workflow
from skillrun.cli.options import current_project, relative_to_cwd
from skillrun.cli.output import Output
from skillrun.cli.registry import RESERVED_NAMES
from skillrun.extensions.testing.cases import CASES_FOLDER
from skillrun.extensions.testing.differences import MAX_PROMPTS_BYTES, RecordedPrompt, dump_prompts
from skillrun.models.messages import Request
from skillrun.questions.answers import DEFAULT, QuestionRecord
from skillrun.repository.user_files import create_files
from skillrun.runtime.resumed_state import changed_files
from skillrun.store.artifacts import is_plain_path
from skillrun.store.files import read_content
from skillrun.store.frontmatter import to_frontmatter
from skillrun.store.journal import Journal
from skillrun.store.run_data import RunData
from skillrun.store.run_view import call_rounds
from skillrun.store.state import State
from skillrun.store.stored_run import StoredRun
from skillrun.structured_output.trailing_record import find_last_block
from skillrun.syntax.diagnostics import SkillrunError, UsageError
from skillrun.syntax.source import MAX_BYTES
from skillrun.types.fields import resolve_inputs
from skillrun.types.slugs import is_slug

ENDED: Final = ("completed", "failed", "waiting")
MOST_NAMED: Final = 5  # changed files that a warning lists
MAX_CASE_BYTES: Final = MAX_BYTES * 9 // 10  # maximum size of a recorded case file or script
PROMPTS: Final = ".prompts.json"  # no artifact can have this name
RUNS: Final = ".runs"
_UNUSED_BY_TOOLS: Final = re.compile(
    r"(?!(agents|claude|gemini|skill)\.md$)[^/]+\.md|(?!test|package\.|replies-)[^/]+\.(csv|json|tsv|txt|ya?ml)",
    re.IGNORECASE,
)
"""File names that a case may contain. Programs that scan `tests` execute or obey files with other names: pytest runs
`conftest.py` and `test*.txt` and reads `setup.cfg`, npm reads `package.json`, and coding agents read `AGENTS.md`."""


def create_case(run: StoredRun, name: str, out: Output) -> tuple[str, str]:
    """Write a case recorded from a run, and return the names of its workflow and of the case.

    Raises UsageError if the name is invalid or a file already exists.
    """
    if not is_slug(name):
        raise UsageError(
            f"`{name}` is not a valid case name", "use lowercase letters, digits and `-`: `--as dark-mode`"
        )
    library, project = open_library(), Path(os.path.realpath(current_project()))
    with run:
        workflow = run.state().workflow
        require_workflow(workflow, library)
        program = check_workflow(library, workflow, RESERVED_NAMES)
        if library.problems.has_errors:  # warnings are printed later, when the case runs
            exit_on_errors(library.problems, out, "No case was written.")
        assert program is not None
        notices: list[str] = []
        text, artifacts, extra_files = _record_case(run, program, name, project, notices)
    folder = project / CASES_FOLDER / workflow
    case = folder / f"{name}.md"
    for path in (case, folder / name):
        if os.path.lexists(path):
            raise UsageError(f"{relative_to_cwd(path)} already exists", "choose another name with `--as`")
    contents = {f"{name}/{path}": content for path, content in {**artifacts, **extra_files}.items()}
    create_files(folder, {**contents, case.name: text}, project)
    number = len(artifacts)
    artifacts_note = f", and {count_noun(number, 'artifact')} in {relative_to_cwd(folder / name)}" if number else ""
    out.line(f"wrote {relative_to_cwd(case)}{artifacts_note}")
    for notice in notices:
        out.note(f"warning: {notice}")
    return workflow, name


def _record_case(
    run: StoredRun, program: Program, name: str, project: Path, notices: list[str]
) -> tuple[str, dict[str, str], dict[str, str]]:
    """Return the text of the case `name`, its artifacts and its other files.

    Files are keyed by their path in the case's folder. Warnings are added to `notices`. Raises SkillrunError if the run
    is unreadable or has not ended.
    """
    journal = run.read_journal()
    store = run.data(journal)
    state, _ = store.state.read()
    if state.status not in ENDED:
        hint = f"`skillrun resume {run.command_argument(project)}` continues the run"
        raise SkillrunError(f"the run `{run.name}` has not ended: its status is {state.status}", hint)
    edited = store.edited_files()
    _warn_of_changes(run, program, state, project, edited, notices)
    artifacts, expected_artifacts = _artifacts(store, name, edited, notices)
    answers = _answers(journal, notices)
    started = dict.fromkeys(  # a phase occurs once per round, even after a resume
        (str(event["phase"]), int(event.get("round", 1)))
        for event in run.events()
        if event["event"] == "PhaseStarted" and "/" not in str(event.get("phase"))
    )
    expect: dict[str, Any] = {"outcome": state.status, "path": [phase for phase, _ in started]}
    if state.status == "failed" and state.reason:
        expect["outcome"] = {"status": state.status, "reason": state.reason.split("\n", 1)[0]}
    if expected_artifacts:
        expect["artifacts"] = expected_artifacts
    others = _other_runs(journal, notices)
    prompts = dump_prompts(_prompts(journal))
    if len(prompts) > MAX_PROMPTS_BYTES:
        notices.append(f"the case does not include the prompts: they have more than {MAX_PROMPTS_BYTES:,} bytes")
        prompts = ""
    rules = _replies(journal)
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
        scripts = {f"replies-{number}.yaml": script for number, script in enumerate(_split_into_scripts(rules), 1)}
        extra_files |= scripts
        text = to_frontmatter({**front, "replies": [f"{name}/{file}" for file in scripts]}, body)
    return text, artifacts, extra_files


def _warn_of_changes(
    run: StoredRun, program: Program, state: State, project: Path, edited: Iterable[str], notices: list[str]
) -> None:
    """Add a notice for files that changed after the run, and for a run of another project."""
    changed = changed_files(program, state)
    if changed:
        named = ", ".join(changed[:MOST_NAMED])
        more = f" and {len(changed) - MOST_NAMED} more" if len(changed) > MOST_NAMED else ""
        have = "has" if len(changed) == 1 else "have"
        notices.append(f"`{run.name}` ran a different version: {named}{more} {have} changed since")
    if state.project and Path(state.project) != Path(os.path.realpath(project)):
        notices.append(f"`{run.name}` ran in {state.project}; the case reads the files of this project")
    for file in edited:
        what = f"was edited in `{run.name}` after the run wrote the file"
        notices.append(f"{file} {what}; the case does not include the edit")


def _artifacts(
    store: RunData, name: str, edited: Collection[str], notices: list[str]
) -> tuple[dict[str, str], dict[str, dict[str, str] | bool]]:
    """Return the texts of the artifacts in the case, and the expectations about all artifacts.

    Artifacts that were edited after the run wrote them are left out. If an artifact is too long, the case
    only expects that it exists. A name that other programs use gets `.md` at its end.
    """
    texts: dict[str, str] = {}
    expected: dict[str, dict[str, str] | bool] = {}
    for artifact in store.artifacts.list_names():
        content = read_content(store.files, artifact) if artifact not in edited else None
        if content is None:
            continue
        try:
            text = content.decode("utf-8")
        except UnicodeDecodeError:
            notices.append(f"the case does not include {artifact}: it is not a text file")
            continue
        if len(content) <= MAX_BYTES:
            file = artifact
            while not _is_unused_by_tools(file) or file in texts:
                file += ".md"
            texts[file], expected[artifact] = text, {"equals": f"{name}/{file}"}
        else:
            limit = f"{artifact} has more than {MAX_BYTES:,} bytes"
            notices.append(f"{limit}, so the case only checks that the file is written")
            expected[artifact] = True
    return texts, expected


def _is_unused_by_tools(name: str) -> bool:
    """Whether no program that scans folders executes or obeys a file with this name."""
    return _UNUSED_BY_TOOLS.fullmatch(name.rpartition("/")[2]) is not None


def _inputs(program: Program, state: State) -> dict[str, Any]:
    """Return the inputs of the run that differ from their defaults."""
    known = {field.name for field in program.workflow.inputs}
    default, _, _ = resolve_inputs(program.workflow.inputs, {}, {"config": program.config})
    return {
        name: value
        for name, value in state.inputs.items()
        if name in known and (name not in default or default[name] != value)
    }


def _answers(journal: Journal, notices: list[str]) -> dict[str, Any]:
    """Return the answers, keyed by question id. A question that was asked several times has a list of answers.

    A question that only got default answers is left out, because a run of the case uses the same defaults.
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
            notices.append(f"the case does not record that the user ended the list of questions at `{question}` early")
        if all(record.get("answered_by") == DEFAULT for record in records):
            continue
        values: list[Any] = []
        for record in records:
            answer: Any = record.get("answer", "")
            if record.get("confidence"):
                answer = {"answer": answer, "confidence": record["confidence"]}
            elif len(records) > 1 and not isinstance(answer, dict):
                answer = {"answer": answer}  # a list of plain texts would be read as one answer with several choices
            values.append(answer)
        answers[question] = values[0] if len(values) == 1 else values
    return answers


def _other_runs(journal: Journal, notices: list[str]) -> dict[str, str]:
    """Return the files that the run read from other runs, keyed by their paths in the case's folder.

    A file is left out with a notice if its name is invalid, so that skillrun has not recorded it, or if other programs
    use files with its name.
    """
    files: dict[str, str] = {}
    for entry in journal.entries("tool"):
        origin, names, texts = (entry.body.get(key) for key in ("run", "files", "texts"))
        if origin and names and texts:
            data = entry.body.get("data")
            fronts = [data] if isinstance(data, dict) else data or [None] * len(names)
            for name, text, front in zip(names, texts, fronts, strict=False):
                if not is_slug(str(origin)) or not is_plain_path(name):
                    notices.append(f"the case does not include `{name}` of the run `{origin}`: the name is invalid")
                    continue
                if any(part.startswith(".") for part in name.split("/")) or not _is_unused_by_tools(name):
                    reason = "other programs, such as pytest, can execute a file with this name in `tests`"
                    notices.append(f"the case does not include `{name}` of the run `{origin}`: {reason}")
                    continue
                files[f"{RUNS}/{origin}/{name}"] = to_frontmatter(front, text) if front is not None else text
    return files


def _prompts(journal: Journal) -> list[RecordedPrompt]:
    """Return the last prompt that a run sent at each address in each round, sorted by round."""
    last: dict[tuple[str, str], list[str]] = {}
    for entry in journal.entries("sent"):
        request = Request.from_dict(entry.body)
        last[entry.address, str(entry.body.get("round", "1"))] = [block.text for block in request.blocks]
    ordered = sorted(last, key=lambda key: _round_sort_key(key[1]))
    return [(address, last[address, number]) for address, number in ordered]


def _replies(journal: Journal) -> list[dict[str, Any]]:
    """Return a script rule for each reply and each final failure. Rules for the same address are sorted by round."""
    rounds = call_rounds(journal)
    by_address: defaultdict[str, dict[str, dict[str, Any]]] = defaultdict(dict)
    for kind in ("failed", "reply"):  # a reply, or a later attempt, replaces an earlier failure in the same round
        for entry in journal.entries(kind):
            body = entry.body
            rule = {"fail": body["kind"], "message": body["message"]} if kind == "failed" else _reply_rule(body)
            by_address[entry.address][rounds.get((entry.address, entry.fingerprint), "1")] = rule
    rules: list[dict[str, Any]] = []
    for address, by_round in by_address.items():
        once = {"times": 1} if len(by_round) > 1 else {}
        rules += [
            {"address": escape(address), **by_round[key], **once} for key in sorted(by_round, key=_round_sort_key)
        ]
    return rules


def _round_sort_key(number: str) -> list[int]:
    """Return the sort key of a round such as `2`, or `2.1` for a round of an inline workflow."""
    return [int(part) for part in number.split(".") if part.isdecimal()]


def _reply_rule(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return the script rule for a reply. A text that is a nonempty JSON object or list is written as `data:`."""
    text, calls, stop = body["text"], body.get("calls") or [], body.get("stop", "end")
    rule: dict[str, Any] = {}
    if calls:
        rule["calls"] = [{key: call[key] for key in ("id", "name", "arguments")} for call in calls]
    if text or not calls:
        data = None
        if text.lstrip().startswith(("{", "[")):
            with suppress(ValueError):
                data = json.loads(text)
        rule |= {"data": data} if data else {"text": text}
        if not data and find_last_block(text) is None:
            rule["record"] = False  # the reply had no record, so none is generated
    if stop != ("tool" if calls else "end"):
        rule["stop"] = stop
    return rule


def _split_into_scripts(rules: Sequence[dict[str, Any]]) -> list[str]:
    """Return the texts of scripts that contain the rules in order, each within the size limit.

    Raises SkillrunError if a single reply exceeds the limit.
    """
    parts: list[list[str]] = [[]]
    size = 0
    for rule in rules:
        text = to_frontmatter({"replies": [rule]}).partition("replies:\n")[2].rpartition("\n---")[0] + "\n"
        length = len(text.encode("utf-8", "surrogatepass"))
        if length > MAX_BYTES:
            message = f"the reply at `{rule['address']}` exceeds the size limit of a case file ({MAX_BYTES:,} bytes)"
            raise SkillrunError(message, "write the case manually, with a shorter reply")
        if parts[-1] and size + length > MAX_CASE_BYTES:
            parts.append([])
            size = 0
        parts[-1].append(text)
        size += length
    return ["".join(part) for part in parts]
