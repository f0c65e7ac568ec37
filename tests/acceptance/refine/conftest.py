"""Runs the shipped `refine` on the scripted model, fills in its forms and inspects the results."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
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

IDEA = "An app that finds a quiet place to work"
NAME = "quiet"
SECTIONS = (
    "Problem", "Target Users", "Workflows", "Feature Inventory", "Revenue Model", "Success Metrics",
)  # fmt: skip
SUBJECTS = {
    "Problem": "What does a noisy hour cost a translator today",
    "Target Users": "Who comes first: students before an exam, or travellers between two trains",
    "Workflows": "Which seat is kept when a guest is late by ten minutes",
    "Feature Inventory": "May the first version leave out reservations",
    "Revenue Model": "Would a library pay for being listed",
    "Success Metrics": "How many seats found in March would make you proud",
}
Rule = Mapping[str, Any]


def question(section: str, text: str = "", priority: str = "CRITICAL", **more: Any) -> dict[str, Any]:
    """A question as a member proposes it; the wording is unique, so that no two count as duplicates."""
    return {
        "text": text or f"{SUBJECTS[section]}?",
        "priority": priority,
        "section": section,
        "recommended": "Only after the summer ends - the request names no date",
        "depends": f"With another answer {section.lower()} is written otherwise.",
        "notes": [{"perspective": "product-strategist", "note": f"It decides {section.lower()}."}],
        "choices": ["Everybody gets one early", "Only after the summer ends"],
        **more,
    }


QUESTIONS = [question(section) for section in SECTIONS]
CITED = "[D-1, D-2, D-3, D-4, D-5, D-6]"
PRD = "# Quiet\n\n" + "\n".join(
    f"## {name}\n\nText {CITED}.\n" for name in ("Executive Summary", "Decisions", *SECTIONS, "Delivery")
)
RESCORED = "refine/draft/revising#*/rescored/*"
CORRECTED = "refine/draft/revising#2/corrected/*"
REASON = {"place": "Workflows", "wrong": "It is unclear what a late guest does.", "settled_by": "Say it."}


def analysis(next_action: str = "proceed", *gaps: str, insight: str = "Seats are what counts.") -> dict[str, Any]:
    """The analyst's reply; a gap is `GAP-1-1 Workflows`."""
    listed = [{"id": one.split()[0], "section": one.split(" ", 1)[1], "gap": f"Missing: {one}."} for one in gaps]
    return {"gaps": listed, "vague": [], "insight": insight, "next_action": next_action, "why": "It is so."}


def scores(points: int, **more: int) -> dict[str, Any]:
    names = ("problem", "users", "workflows", "features", "success")
    return {"reasons": [REASON] if points < 4 else [], **dict.fromkeys(names, points), **more}


def rewrite(text: str = PRD, *kept: str, points: int = 1) -> Rule:
    """The rewritten document, with the points `P-1` and so on changed, except for those that are `kept`."""
    ids = [f"P-{number}" for number in range(1, points + 1)]
    answers = [{"id": one, "done": "kept" if one in kept else "changed", "how": f"{one} it is."} for one in ids]
    return {"address": "refine/draft/revising#*/revision/*", "text": text, "record": {"answers": answers}}


def correct(*changes: tuple[str, str], points: int = 1) -> Rule:
    """Corrections of the remaining points by exact replacement of text."""
    answers = [{"id": f"P-{number}", "done": "changed", "how": "It is put right."} for number in range(1, points + 1)]
    edits = [{"says": says, "instead": instead} for says, instead in changes]
    return {"address": CORRECTED, "text": "It is put right.", "record": {"corrections": edits, "answers": answers}}


HAPPY_PATH: Sequence[Rule] = (
    {"address": "refine/questions/proposals/*", "data": {"questions": QUESTIONS}},
    {"address": "refine/questions/merged/*", "data": {"questions": QUESTIONS}},
    {"address": "refine/answers/missing/*", "data": analysis()},
    {"address": "refine/draft/prd/*", "text": PRD},
    {"address": "refine/draft/scores/*", "data": scores(4)},
    {"address": RESCORED, "data": scores(4)},
    rewrite(),
    {"address": CORRECTED, "text": "Nothing was left to put right.", "record": {"corrections": [], "answers": []}},
)
"""Replies that lead to a ready document in one round; the rules of a test come first."""


def skillrun(*arguments: str) -> Done:
    """The command line in this process, without a terminal."""
    out, err = StringIO(), StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = main(list(arguments))
    return Done(code, out.getvalue(), err.getvalue())


@dataclass
class Refinement:
    """One run of refine: starts, answers and resumes it, and reads its output."""

    project: Path
    runs: str = "runs"
    done: Done = field(default_factory=lambda: Done(0, "", ""))

    @property
    def folder(self) -> Path:
        return self.project / self.runs / NAME

    # user actions

    def begin(self, mode: str = "rapid", rules: Sequence[Rule] = (), *flags: str, idea: str = IDEA) -> Done:
        script = self.script(rules)
        self.done = skillrun("refine", idea, "--mode", mode, "--name", NAME, "--script", script, *flags)
        return self.done

    def resume(self, rules: Sequence[Rule] = (), *flags: str, **answers: Any) -> Done:
        """Resume the run; keywords are prepared answers, with `_` for `-`.

        `answers` and `draft` both ask for the next mode and at the breaker. An answer is for both of them; of a list,
        those after `draft now` are for the draft.
        """
        for name in {"next_mode", "breaker"} & answers.keys():
            value = answers.pop(name)
            behind = value.index("draft now") + 1 if isinstance(value, list) and "draft now" in value else 0
            answers[f"answers/{name}"] = value[:behind] if behind else value
            if not behind or value[behind:]:
                answers[f"draft/{name}"] = value[behind:] if behind else value
        if answers:
            path = self.project / "answers.yaml"
            path.write_text(json.dumps({key.replace("_", "-"): value for key, value in answers.items()}))
            flags = ("--answers", str(path), *flags)
        self.done = skillrun("resume", str(self.folder), "--script", self.script(rules), *flags)
        return self.done

    def script(self, rules: Sequence[Rule]) -> str:
        path = self.project / "replies.yaml"
        path.write_text(json.dumps([*rules, *HAPPY_PATH]), encoding="utf-8")
        return str(path)

    def report(self, text: str = "Libraries are empty after six.", place: str = "research/reports/one.md") -> None:
        path = self.folder / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def form(self, number: int = 1) -> Path:
        return self.folder / "working" / f"QUESTIONS-{number:03d}.md"

    def fill(self, number: int = 1, answer: str = "Ten seats.", skip: Sequence[int] = ()) -> None:
        """Answer each question of the form except those in `skip`."""
        path = self.form(number)
        parts = re.split(r"^(?=## Q\d+)", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
        filled = [
            part if at == 0 or at in skip else re.sub(r"^Answer:.*$", f"Answer: {answer}", part, flags=re.MULTILINE)
            for at, part in enumerate(parts)
        ]
        path.write_text("".join(filled), encoding="utf-8")

    def config(self, **more: Any) -> None:
        """The project's own refinement.yaml."""
        folder = self.project / "config"
        folder.mkdir(exist_ok=True)
        (folder / "refinement.yaml").write_text(json.dumps(more), encoding="utf-8")

    # results

    def text(self, path: str) -> str:
        return (self.folder / path).read_text(encoding="utf-8")

    def summary(self, phase: str, round: int | None = None) -> dict[str, Any]:  # noqa: A002 (domain term)
        place = f"round-{round}/summaries" if round else "summaries"
        return dict(from_frontmatter(self.folder / place / f"{phase}.md")[0])

    def state(self) -> dict[str, Any]:
        return dict(from_frontmatter(self.folder / "state.md")[0])

    def warnings(self, phase: str, round: int | None = None) -> list[str]:  # noqa: A002
        return list(self.summary(phase, round)["quality_warnings"])

    def entries(self, phase: str) -> list[str]:
        """The entry type of each start of the phase."""
        events = [json.loads(line) for line in self.text(".run/transcript.ndjson").splitlines()]
        return [one["entry_type"] for one in events if one["event"] == "PhaseStarted" and one["phase"] == phase]

    def messages(self) -> list[str]:
        events = [json.loads(line) for line in self.text(".run/transcript.ndjson").splitlines()]
        return [event["text"] for event in events if event["event"] == "Said"]

    @property
    def calls(self) -> list[tuple[str, str]]:
        """The address and full prompt of each call, in the order sent."""
        with closing(SqliteJournal.open(self.folder)) as journal:
            return [(entry.address, _prompt(entry.body)) for entry in journal.entries("sent")]

    def prompts(self, pattern: str = "*") -> list[str]:
        return [prompt for address, prompt in self.calls if fnmatchcase(address, pattern)]


def _prompt(request: Mapping[str, Any]) -> str:
    blocks = [*request["system"], *(block for message in request["messages"] for block in message["blocks"])]
    return "\n\n".join(block["text"] for block in blocks)


Refine = Callable[[], Refinement]


@pytest.fixture
def refine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Refinement:
    """An empty project."""
    project = tmp_path / "project"
    project.mkdir()
    monkeypatch.chdir(project)
    return Refinement(project)
