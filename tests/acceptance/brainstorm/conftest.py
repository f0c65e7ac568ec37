"""Runs the shipped `brainstorm` and `feature` on the scripted model, with prepared answers or simulated keys."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import closing, contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput

from skillrun.cli.main import main
from skillrun.questions import responder, terminal
from skillrun.store.frontmatter import from_frontmatter
from skillrun.store.local.journal import SqliteJournal
from tests.acceptance.conftest import Done

TOPIC = "Neighbours share their tools"
UX, TECHNICAL, EDGES = "inquisitor:ux", "inquisitor:technical", "inquisitor:edge-cases"
Rule = Mapping[str, Any]


def question(text: str, priority: int = 2, **more: Any) -> dict[str, Any]:
    return {"text": text, "priority": priority, **more}


def inquisitor(member: str, *questions: Any) -> Rule:
    """The questions of an inquisitor."""
    return {"address": f"*/inquisitors/{member}/*", "data": {"questions": list(questions)}}


WHO, PAYS, WHERE, TWICE = (
    "Who borrows the ladder on a Sunday morning?",
    "Who pays when the drill comes back broken?",
    "Where does it say who has the ladder now?",
    "What happens when two people want the saw?",
)
NEXT = "What is a neighbour to you?"
STORY: Rule = {
    "address": "*/story/*",
    "text": "## In short\n\nTools are shared.",
    "record": {"unsettled": ["How long may one keep a tool?"]},
}
ASKING: Sequence[Rule] = (
    inquisitor(UX, question(WHO, 3), question(PAYS, 1)),
    inquisitor(TECHNICAL, question(WHERE)),
    inquisitor(EDGES, question(TWICE, 4)),
    {"address": "*/own/*", "data": {"questions": [question(NEXT, angle="people")]}},
    STORY,
)


@dataclass
class Scene:
    """A project in which brainstorms and features are run."""

    project: Path
    done: Done = field(default_factory=lambda: Done(0, "", ""))
    name: str = "tools"

    def run(self, workflow: str, *flags: str, rules: Sequence[Rule] = ASKING, **answers: Any) -> Done:
        """Run a workflow; keywords are prepared answers, with `_` for `-`."""
        prepared = {key.replace("_", "-"): value for key, value in answers.items()}
        (self.project / "answers.yaml").write_text(json.dumps(prepared))
        (self.project / "replies.yaml").write_text(json.dumps([*rules]))
        self.done = self.call(workflow, *flags, "--script", "replies.yaml", "--answers", "answers.yaml")
        return self.done

    def brainstorm(self, *flags: str, rules: Sequence[Rule] = ASKING, name: str = "tools", **answers: Any) -> Done:
        self.name = name
        return self.run("brainstorm", TOPIC, "--name", name, *flags, rules=rules, **answers)

    def feature(self, *flags: str, rules: Sequence[Rule] = ASKING, name: str = "feature", **answers: Any) -> Done:
        self.name = name
        return self.run("feature", "A list of who has which tool", "--name", name, *flags, rules=rules, **answers)

    def call(self, *arguments: str) -> Done:
        out, err = StringIO(), StringIO()
        with redirect_stdout(out), redirect_stderr(err):
            code = main(list(arguments))
        return Done(code, out.getvalue(), err.getvalue())

    @property
    def folder(self) -> Path:
        return self.project / "runs" / self.name

    def text(self, path: str) -> str:
        return (self.folder / path).read_text(encoding="utf-8")

    def front(self, path: str) -> dict[str, Any]:
        return dict(from_frontmatter(self.folder / path)[0])

    def context(self) -> dict[str, Any]:
        return self.front("00-brainstorming.context.md")

    def pairs(self) -> list[tuple[Any, ...]]:
        return [(one["round"], one["angle"], one["question"], one.get("answer")) for one in self.context()["qa_pairs"]]

    def events(self, kind: str) -> list[dict[str, Any]]:
        lines = self.text(".run/transcript.ndjson").splitlines()
        return [one for one in map(json.loads, lines) if one["event"] == kind]

    @property
    def calls(self) -> list[tuple[str, str]]:
        """The address and full prompt of each call, in the order sent."""
        with closing(SqliteJournal.open(self.folder)) as journal:
            return [(entry.address, _prompt(entry.body)) for entry in journal.entries("sent")]

    def prompts(self, pattern: str) -> list[str]:
        return [prompt for address, prompt in self.calls if fnmatchcase(address, pattern)]

    @contextmanager
    def type_keys(self, keys: str, monkeypatch: pytest.MonkeyPatch) -> Any:
        """A terminal in which the user types these keys."""

        class Piped(terminal.Terminal):
            def __init__(self, *more: Any, **named: Any) -> None:
                super().__init__(*more, **{**named, "keyboard": keyboard, "screen": DummyOutput()})

        with create_pipe_input() as keyboard, monkeypatch.context() as patch:
            patch.setattr(responder, "Terminal", Piped)
            patch.setattr(responder, "has_terminal", lambda: True)
            keyboard.send_text(keys)
            yield


def _prompt(request: Mapping[str, Any]) -> str:
    blocks = [*request["system"], *(block for message in request["messages"] for block in message["blocks"])]
    return "\n\n".join(block["text"] for block in blocks)


@pytest.fixture
def scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Scene:
    """An empty project."""
    project = tmp_path / "project"
    project.mkdir()
    monkeypatch.chdir(project)
    return Scene(project)
