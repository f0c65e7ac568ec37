"""The formats that other programs and later versions read: events, journal records, run files and `--json` output.

Some attribute and class names of the engine are part of them, so a rename must not change `formats.txt`. Each line is
a key and the types of its values in the runs below. `SKILLRUN_UPDATE_EXAMPLES=1` rewrites the file; review the diff.
"""

from __future__ import annotations

import json
import os
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from skillrun.store.local.journal import read_journal
from tests.acceptance.conftest import Call, skillrun  # noqa: F401 (a fixture)
from tests.golden.runs import HERE, KINDS, make_project

FORMATS: Final = HERE / "formats.txt"
UPDATE: Final = bool(os.environ.get("SKILLRUN_UPDATE_EXAMPLES"))
MODEL: Final = ("--model", "scripted:default", "--unattended", "--name")
RUNS: Final = {
    "plan": ("plan", "Add dark mode to the settings page", *MODEL),
    "deliberation": ("design-session", "Where do sessions live?", *MODEL),
    "plans": ("implementation-plan", "Add dark mode to the settings page", *MODEL),
    "brainstorm": ("brainstorm", "Ways to say goodbye", "--model", "scripted:default", "--name"),
    "refine": ("refine", "Reminders for loans", "--model", "scripted:default", "--name"),
    "trek": ("trek", "Rome", "--script", "script.yaml", "--name"),
    "broken-trek": ("trek", "Rome", "--script", "failing.yaml", "--name"),
}
COMMANDS: Final = {
    "list": ("list",),
    "validate": ("validate",),
    "models": ("models",),
    "runs": ("runs",),
    "questions": ("questions",),
    "outdated": ("outdated",),
    "show": ("show", "plan"),
    "show (waiting)": ("show", "refine"),
    "show (failed)": ("show", "broken-trek"),
    "answers": ("answers", "refine"),
    "render": ("render", "plan/research", "--run", "plan"),
    "diff": ("diff", "trek", "broken-trek"),
}
# Values whose shape depends on authors and models: only their keys are part of the format.
CONTENTS: Final = frozenset({"data", "inputs", "outputs", "schema", "set", "state", "summary", "arguments", "shape"})
# Objects whose keys are chosen by authors: only their values are part of the format.
NAMED: Final = frozenset(
    {"backs", "estimate.phases", "features", "files", "flags", "models", "parts", "phases", "prompts", "prompts.*"}
)


def leaves(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """Each value of JSON data as the path to it and its type; `[]` is an item and `*` any key."""
    place = path.rpartition("[]")[2].lstrip(".")
    if place.rpartition(".")[2] in CONTENTS:
        yield path, "any"
    elif isinstance(value, Mapping) and value:
        for key, entry in value.items():
            name = "*" if place in NAMED else key
            yield from leaves(entry, f"{path}.{name}" if path else name)
    elif isinstance(value, list) and value:
        for entry in value:
            yield from leaves(entry, f"{path}[]")
    else:
        yield path, type(value).__name__


def records(run: Path) -> Iterator[tuple[str, Any]]:
    """The records of a run folder, each with its kind."""
    for line in (run / ".run" / "transcript.ndjson").read_text(encoding="utf-8").splitlines():
        event = json.loads(line)
        yield f"event {event['event']}", event
    with closing(read_journal(run)) as journal:
        for kind in KINDS:
            for entry in journal.entries(kind):
                yield f"journal {kind}", entry.body
    yield "state.md", frontmatter_of(run / "state.md")
    for summary in run.glob("summaries/*.md"):
        yield "summary", frontmatter_of(summary)


def frontmatter_of(path: Path) -> Any:
    return yaml.safe_load(path.read_text(encoding="utf-8").split("---\n")[1])


@pytest.mark.slow
def test_stored_and_printed_data_keeps_its_format(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    skillrun: Call,  # noqa: F811
) -> None:
    make_project(tmp_path / "project")
    monkeypatch.chdir(tmp_path / "project")
    formats: defaultdict[str, set[str]] = defaultdict(set)
    for name, arguments in RUNS.items():
        assert skillrun(*arguments, name).code in (0, 75, 1), name
        for record_kind, record in records(Path("runs", name)):
            for path, kind in leaves(record):
                formats[f"{record_kind} · {path}"].add(kind)
    for name, arguments in COMMANDS.items():
        result = skillrun(*arguments, "--json")
        for path, kind in leaves(result.json):
            formats[f"{name} --json · {path}"].add(kind)
    text = "".join(f"{line}: {' | '.join(sorted(kinds))}\n" for line, kinds in sorted(formats.items()))
    if UPDATE:
        FORMATS.write_text(text, encoding="utf-8")
    assert text == FORMATS.read_text(encoding="utf-8")
