"""Runs the shipped `implementation-plan` on three scripted models and inspects the results."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import closing, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

from skillrun.cli.main import main
from skillrun.store.frontmatter import from_frontmatter
from skillrun.store.local.journal import SqliteJournal
from tests.acceptance.conftest import Done

REQUEST = "Let `export` write at most 500 rows to a file"
NAME = "export"
MODELS = ("scripted:ada", "scripted:bea", "scripted:cyn")
Rule = Mapping[str, Any]


def plan(title: str = "the export", sources: str = "", limit: int = 500, more: str = "") -> str:
    """A plan without rule findings; `sources` follows every part."""
    end = f" [{sources}]" if sources else ""
    return f"""# Implementation plan

## In short
Changes {title}.

## Constraints
- C-1: "at most {limit} rows"

## Decisions
- D-1: rows are counted while they are written; counting first lost, it reads twice.{end}

## Interfaces
- I-1: `export(path, limit={limit})`{end}

## Tasks

### T-1: a limit

- Files: `src/export.py` (changed)
- Serves: C-1, D-1, I-1; Needs: nothing
- Tests first: `tests/test_export.py`: given {limit + 1} rows, when exported, then {limit} are written
- Does: counts rows
- Run: `pytest tests/test_export.py`; Expect: 1 passed
{end}
{more}
"""


def point(name: str, kind: str, about: str, weight: str = "IMPROVE", **more: str) -> dict[str, str]:
    details = {"where": "T-1", "what": f"What {name} says of {about}.", **more}
    return {"id": name, "kind": kind, "plan": about, "weight": weight, **details}


def review(verdict: str = "PASS", *items: Mapping[str, str]) -> dict[str, Any]:
    return {"walked": "All of it.", "items": list(items), "verdict": verdict}


def item(name: str, kind: str = "BLOCKING") -> dict[str, str]:
    return {"id": name, "kind": kind, "where": "T-1", "what": f"What {name} says."}


def answers(*ids: str, **kept: str) -> dict[str, Any]:
    """The record of a rewrite: each point changed, or kept for a reason."""
    done = [{"id": one, "done": "changed", "how": f"{one} is in T-1."} for one in ids]
    return {
        "answers": [*done, *({"id": one.replace("_", "-"), "done": "kept", "how": why} for one, why in kept.items())]
    }


COMPARISON = {
    "why": "It says how rows are counted.",
    "base": "PLAN-bea",
    "points": [point("POINT-1", "strength", "PLAN-ada")],
}
HAPPY_PATH: Sequence[Rule] = (
    {"address": "implementation-plan/drafting/*/drafts/*", "text": plan()},
    {"address": "implementation-plan/drafting/comparison/*", "data": COMPARISON},
    {
        "address": "implementation-plan/planning/rewritten/*",
        "text": plan(sources="PLAN-bea, POINT-1"),
        "record": answers("POINT-1"),
    },
    {"address": "implementation-plan/planning/written/*", "text": plan()},
    {"address": "implementation-plan/review/*/reviews/*", "data": review()},
)
"""Replies that cause no failure and no rework; the rules of a test come first."""


def skillrun(*arguments: str) -> Done:
    """The command line in this process, without a terminal."""
    out, err = StringIO(), StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = main(list(arguments))
    return Done(code, out.getvalue(), err.getvalue())


@dataclass
class Society:
    """One run of implementation-plan: starts and resumes it, and reads its output."""

    project: Path
    done: Done = field(default_factory=lambda: Done(0, "", ""))

    @property
    def folder(self) -> Path:
        return self.project / "runs" / NAME

    def begin(
        self,
        mode: str = "single-model",
        review_mode: str = "single-model",
        rules: Sequence[Rule] = (),
        *flags: str,
        models: Sequence[str] = MODELS,
        prepared: Mapping[str, Any] | None = None,
        request: str = REQUEST,
        attended: bool = False,
    ) -> Done:
        chosen = [*_several("--planning-models", models), *_several("--plan-review-models", models)]
        modes = ["--planning-mode", mode, "--plan-review-mode", review_mode]
        more = [] if attended else ["--unattended"]
        if prepared:
            (self.project / "answers.yaml").write_text(json.dumps(prepared), encoding="utf-8")
            more += ["--answers", str(self.project / "answers.yaml")]
        words = [request, *modes, *chosen, "--name", NAME, "--script", self.script(rules), *more, *flags]
        self.done = skillrun("implementation-plan", *words)
        return self.done

    def resume(self, rules: Sequence[Rule] = (), *flags: str) -> Done:
        self.done = skillrun("resume", str(self.folder), "--script", self.script(rules), *flags)
        return self.done

    def script(self, rules: Sequence[Rule]) -> str:
        path = self.project / "replies.yaml"
        path.write_text(json.dumps([*rules, *HAPPY_PATH]), encoding="utf-8")
        return str(path)

    def text(self, path: str) -> str:
        return (self.folder / path).read_text(encoding="utf-8")

    def front(self, path: str) -> dict[str, Any]:
        return dict(from_frontmatter(self.folder / path)[0])

    def files(self, folder: str = "planning") -> list[str]:
        return sorted(path.name for path in (self.folder / folder).iterdir())

    @property
    def events(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.text(".run/transcript.ndjson").splitlines()]

    def messages(self) -> list[str]:
        return [event["text"] for event in self.events if event["event"] == "Said"]

    @property
    def calls(self) -> list[tuple[str, str]]:
        """The address and full prompt of each call, in the order sent."""
        with closing(SqliteJournal.open(self.folder)) as journal:
            return [(entry.address, _prompt(entry.body)) for entry in journal.entries("sent")]

    def addresses(self, pattern: str = "*") -> list[str]:
        return [address for address, _ in self.calls if fnmatchcase(address, f"implementation-plan/{pattern}")]

    def prompts(self, pattern: str = "*") -> list[str]:
        return [prompt for address, prompt in self.calls if fnmatchcase(address, f"implementation-plan/{pattern}")]


def _several(flag: str, names: Sequence[str]) -> list[str]:
    return [part for name in names for part in (flag, name)]


def _prompt(request: Mapping[str, Any]) -> str:
    blocks = [*request["system"], *(block for message in request["messages"] for block in message["blocks"])]
    return "\n\n".join(block["text"] for block in blocks)


@pytest.fixture
def society(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Society:
    """An empty project."""
    project = tmp_path / "project"
    project.mkdir()
    monkeypatch.chdir(project)
    return Society(project)
