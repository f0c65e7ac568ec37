"""Runs the three deliberation workflows on the scripted model and inspects the results."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cached_property
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

from skillrun.cli.main import main
from skillrun.store.frontmatter import from_frontmatter
from skillrun.store.local.journal import SqliteJournal
from tests.acceptance.conftest import Done

Rule = Mapping[str, Any]
ARCHITECT, SECURITY, TESTER = "software-architect:pragmatic", "security-analyst", "qa-strategist"
TABLE = f"{ARCHITECT},{SECURITY},{TESTER}"
PHASES = {
    "design-session": "deliberation/session",
    "plan-issue": "deliberation/session",
    "review-plan": "challenge/attack",
}


def answer(position: str, *reasons: Any, level: str = "HIGH", concerns: Sequence[str] = ()) -> dict[str, Any]:
    """The answer of a specialist."""
    listed = [one if isinstance(one, Mapping) else {"reason": one} for one in reasons]
    confidence = {"level": level, "because": f"{level} because of it.", "would_change": "A measurement."}
    return {"position": position, "reasons": listed, "concerns": list(concerns), "confidence": confidence}


def conflict(by: str = SECURITY, against: str = ARCHITECT, name: str = "C-1") -> dict[str, Any]:
    proposed = {"member": against, "proposed": "Keep sessions in a signed cookie."}
    concern = "A stolen cookie cannot be taken back."
    return {"id": name, "topic": "Where sessions live", "raised_by": by, "concern": concern, "parties": [proposed]}


def findings(*conflicts: Any, consensus: Sequence[str] = ("Sessions end after a day.",)) -> dict[str, Any]:
    """The chair's findings in the answers."""
    return {"consensus": list(consensus), "conflicts": list(conflicts), "gaps": []}


COOKIE = answer(
    "Keep sessions in a signed cookie.", "No server has to share any state then, so that each can be replaced."
)
TABLE_ROW = answer("Keep sessions in a table of the database.", "They can be ended at once when someone leaves.")
TESTS = answer("Keep sessions in a table of the database.", "A test can put a row there and check it.", level="MEDIUM")
FIRST: Sequence[Rule] = (
    {"address": f"*/first/{ARCHITECT}/*", "data": COOKIE},
    {"address": f"*/first/{SECURITY}/*", "data": TABLE_ROW},
    {"address": f"*/first/{TESTER}/*", "data": TESTS},
)
CALM: Rule = {"address": "*/findings/*", "data": findings()}
CLASH: Rule = {"address": "*/findings/*", "data": findings(conflict())}
RECORD: Rule = {
    "address": "*/record/decision/*",
    "data": {
        "title": "Sessions are rows of a table",
        "decision": "Sessions live in a table of the database, and a row is looked up on each request.",
        "reasons": [{"reason": "They can be ended at once.", "rests_on": "`src/login.py` 3–8"}],
        "costs": ["One query more on each request."],
        "options": [
            {"option": "A table", "speaks_for": "Ended at once.", "speaks_against": "A query.",
             "held_by": [{"member": SECURITY}, {"member": TESTER}]},
            {"option": "A signed | cookie", "speaks_for": "No state.", "speaks_against": "No end.", "held_by": []},
        ],
        "dissents": [{"member": ARCHITECT, "holds": "A signed cookie.", "because": "Servers stay alike."}],
        "open": [{"question": "How long does it last?", "matters": "The table grows with it.", "who": "the owner."}],
        "reconsider": ["More than 2,000 requests a second."],
        "next": ["Write the migration."],
    },
}  # fmt: skip
RULING: Rule = {
    "address": "*/resolution/*",
    "data": {"rulings": [{"conflict": "C-1", "holds": "Rows hold.", "because": "A row is deleted.", "by": "evidence"}]},
}


@dataclass(frozen=True)
class Session:
    """A run of one of the workflows."""

    workflow: str
    folder: Path
    done: Done

    def artifact(self, path: str) -> str:
        return (self.folder / path).read_text(encoding="utf-8")

    def summary(self, phase: str) -> dict[str, Any]:
        return dict(from_frontmatter(self.folder / "summaries" / f"{phase}.md")[0])

    @cached_property
    def record(self) -> dict[str, Any]:
        """The deliberation in the run's record."""
        phase = PHASES[self.workflow].partition("/")[0]
        return dict(self.summary(phase)["outputs"]["deliberation"])

    @cached_property
    def calls(self) -> dict[str, str]:
        """Every prompt that was sent, by address."""
        with closing(SqliteJournal.open(self.folder)) as journal:
            return {entry.address: _prompt(entry.body) for entry in journal.entries("sent")}

    def called_members(self, step: str) -> list[str]:
        """The members called in a step of the protocol, in the order of the panel."""
        start = f"{self.workflow}/{PHASES[self.workflow]}/{step}/"
        members = (one.removeprefix(start).split("/")[0] for one in self.calls if one.startswith(start))
        return list(dict.fromkeys(members))

    def prompt(self, pattern: str) -> str:
        """The last message of the first matching call."""
        return next(text for address, text in self.calls.items() if fnmatchcase(address, pattern))


def _prompt(request: Mapping[str, Any]) -> str:
    blocks = [*request["system"]] if len(request["messages"]) == 1 else []
    return "\n\n".join(block["text"] for block in [*blocks, *request["messages"][-1]["blocks"]])


def skillrun(*arguments: str) -> Done:
    """The command line in this process, without a terminal."""
    out, err = StringIO(), StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = main(list(arguments))
    return Done(code, out.getvalue(), err.getvalue())


Hold = Callable[..., Session]


@pytest.fixture
def hold(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Hold:
    """Holds a session in a new project; `rules` come before the default answers and the final record."""

    def run(
        *rules: Rule,
        workflow: str = "design-session",
        subject: str = "Where do sessions live?",
        table: str | None = TABLE,
        files: Mapping[str, str] | None = None,
        config: Mapping[str, Any] | None = None,
        answers: Mapping[str, Any] | None = None,
        flags: Sequence[str] = (),
        code: int = 0,
    ) -> Session:
        monkeypatch.chdir(tmp_path)
        script = [*rules, *FIRST, CALM, RULING, RECORD]
        contents = dict(files or {}) | {"replies.yaml": json.dumps(script)}
        contents |= {"config/deliberation.yaml": json.dumps(config)} if config else {}
        contents |= {"answers.yaml": json.dumps(answers)} if answers else {}
        for path, text in contents.items():
            (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / path).write_text(text, encoding="utf-8")
        more = ["--answers", "answers.yaml"] if answers else []
        more += ["--specialists", table] if table else []
        done = skillrun(workflow, subject, "--script", "replies.yaml", "--name", "run", "--unattended", *more, *flags)
        assert done.code == code, done.out + done.err
        out = flags[flags.index("--out") + 1] if "--out" in flags else "runs"
        return Session(workflow, tmp_path / out / "run", done)

    return run
