"""Runs the shipped `plan` on the scripted model and inspects the results."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, redirect_stderr, redirect_stdout
from copy import deepcopy
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import cached_property
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

from skillrun.cli import execution
from skillrun.cli.loading import LoadedWorkflow, load_from_project
from skillrun.cli.main import main
from skillrun.cli.preview import estimate_run
from skillrun.store.frontmatter import from_frontmatter
from skillrun.store.local.journal import SqliteJournal
from tests.acceptance.conftest import Done

REQUEST = "Add dark mode to the settings page"
PHASES = ("setup", "research", "clarify", "architecture", "think-deep", "validation", "expert-review",
          "test-strategy", "coverage", "assets", "completion")  # fmt: skip
Rule = Mapping[str, Any]

NOTHING = {"summary": "Done.", "key_decisions": [], "open_questions": [], "risks_identified": []}
CLEAR = {"value": 2, "scope": 2, "acceptance": 2, "constraints": 1, "risk": 1}
CASE = {"given": "one row", "followed": "it is read", "gives": "one row", "wanted": "one row", "holds": True}
PASSING_CASES = {"cases": [{"id": f"CASE-{number}", **CASE} for number in range(1, 5)]}
HAPPY_PATH: Sequence[Rule] = (
    {"address": "plan/research/facts/*", "data": {"files_affected": 12}},
    {"address": "plan/clarify/forks/*", "data": {"questions": []}},
    {"address": "plan/clarify/*/score/*", "data": CLEAR},
    {"address": "plan/clarify/spec/*", "record": NOTHING},
    {"address": "plan/architecture/tried/*", "data": PASSING_CASES},
    {"address": "plan/validation/judged/*", "data": {"score": 18, "reasons": []}},
    {"address": "plan/expert-review/tried/*", "data": PASSING_CASES},
    {"address": "plan/expert-review/*/review/*", "data": {"findings": []}},
    {"address": "plan/coverage/judged/*", "data": {"score": 18, "reasons": []}},
    {"address": "plan/completion/*/read/*", "data": {"points": []}},
)  # fmt: skip
"""Replies that cause no rework and no questions; the rules of a test come first.

A document includes the record of its phase, except for fields that the outputs fill.
"""


@dataclass(frozen=True)
class Plan:
    """A plan run that has ended or is waiting."""

    folder: Path
    project: Path
    done: Done

    def artifact(self, path: str) -> str:
        return (self.folder / path).read_text(encoding="utf-8")

    def summary(self, phase: str, round: int | None = None) -> dict[str, Any]:  # noqa: A002 (domain term)
        """The summary of a phase, from the current round or an earlier one."""
        place = f"round-{round}/summaries" if round else "summaries"
        return dict(from_frontmatter(self.folder / place / f"{phase}.md")[0])

    @cached_property
    def overview(self) -> dict[str, Any]:
        """The output of `show --json`."""
        return dict(skillrun("show", str(self.folder), "--json").json)

    @cached_property
    def events(self) -> list[dict[str, Any]]:
        lines = self.artifact(".run/transcript.ndjson").splitlines()
        return [json.loads(line) for line in lines]

    @cached_property
    def calls(self) -> list[tuple[str, str]]:
        """The address and full prompt of each call, in the order sent."""
        with closing(SqliteJournal.open(self.folder)) as journal:
            return [(entry.address, _prompt(entry.body)) for entry in journal.entries("sent")]

    def addresses(self, pattern: str = "*") -> list[str]:
        """The addresses of matching calls, in the order sent."""
        return [address for address, _ in self.calls if fnmatchcase(address, pattern)]

    def prompts(self, pattern: str = "*") -> list[str]:
        return [prompt for address, prompt in self.calls if fnmatchcase(address, pattern)]

    def prompt(self, pattern: str) -> str:
        """The prompt of the only matching call."""
        (prompt,) = self.prompts(pattern)
        return prompt

    def messages(self) -> list[str]:
        """The messages shown to the user, warnings included."""
        return [event["text"] for event in self.events if event["event"] == "Said"]

    def resume(self, rules: Sequence[Rule] = (), *flags: str) -> Plan:
        """Resume the run with other replies."""
        script = _script(self.project, rules)
        done = skillrun("resume", str(self.folder), "--script", str(script), "--unattended", *flags)
        return replace(self, done=done)


def skillrun(*arguments: str) -> Done:
    """The command line in this process, without a terminal."""
    out, err = StringIO(), StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = main(list(arguments))
    return Done(code, out.getvalue(), err.getvalue())


def _prompt(request: Mapping[str, Any]) -> str:
    blocks = [*request["system"], *(block for message in request["messages"] for block in message["blocks"])]
    return "\n\n".join(block["text"] for block in blocks)


def _script(folder: Path, rules: Sequence[Rule]) -> Path:
    path = folder / "replies.yaml"
    path.write_text(json.dumps([*rules, *HAPPY_PATH]), encoding="utf-8")
    return path


Plans = Callable[..., Plan]


@pytest.fixture(scope="session", autouse=True)
def _check_plan_once(_share_shipped_library: None, projects: Path) -> None:
    """Check the workflow once, so that no single test pays for it."""
    assert isinstance(load_from_project(projects, "plan"), LoadedWorkflow)


@pytest.fixture(scope="session")
def finished_plans() -> dict[str, Plan]:
    """The plans of this session, by their arguments."""
    return {}


@pytest.fixture(scope="session")
def projects(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The folder of all projects: in memory if possible, because these runs need no durability."""
    memory = Path("/dev/shm")
    if not memory.is_dir():
        yield tmp_path_factory.mktemp("plans")
        return
    with tempfile.TemporaryDirectory(dir=memory) as folder:
        yield Path(folder)


@pytest.fixture(scope="session")
def estimates() -> dict[str, Any]:
    """The estimates of this session's plans; plans that differ only in their scripts share one."""
    return {}


@pytest.fixture
def plan(
    finished_plans: dict[str, Plan], estimates: dict[str, Any], projects: Path, monkeypatch: pytest.MonkeyPatch
) -> Plans:
    """Runs a plan in a new project; equal arguments return the earlier run, so do not change its folder.

    `mode`, `rules` for the scripted model, `config` for the project's planning.yaml, `files` of the project, prepared
    `answers`, more `flags`. `until` names the last phase that a test checks: later phases cannot reach their model,
    so the run fails there. `isolated` gives the test a separate run to resume or edit.

    Only plans of the usual request, with the shipped files and no prepared answers, are estimated before they start.
    """

    def run(
        mode: str | None = "standard",
        rules: Sequence[Rule] = (),
        *,
        request: str = REQUEST,
        until: str = "completion",
        config: Mapping[str, Any] | None = None,
        files: Mapping[str, str] | None = None,
        answers: Mapping[str, Any] | None = None,
        flags: Sequence[str] = (),
        unattended: bool = True,
        isolated: bool = False,
    ) -> Plan:
        later = PHASES[PHASES.index(until) + 1 :]
        rules = [*({"address": f"plan/{phase}/*", "fail": "budget"} for phase in later), *rules]
        settings = [mode, request, config, files, answers, list(flags), unattended]
        key = json.dumps([rules, settings])
        if not isolated and key in finished_plans:
            monkeypatch.chdir(finished_plans[key].project)
            return finished_plans[key]
        project = Path(tempfile.mkdtemp(dir=projects))
        contents = {**(files or {}), **({"config/planning.yaml": json.dumps(config)} if config else {})}
        for path, text in contents.items():
            (project / path).parent.mkdir(parents=True, exist_ok=True)
            (project / path).write_text(text, encoding="utf-8")
        arguments = ["--mode", mode] if mode else []
        arguments += ["--script", str(_script(project, rules)), "--name", "run", *flags]
        arguments += ["--unattended"] if unattended else []
        if answers:
            (project / "answers.yaml").write_text(json.dumps(answers), encoding="utf-8")
            arguments += ["--answers", "answers.yaml"]
        monkeypatch.chdir(project)
        if mode and (config or files or answers or request != REQUEST):
            estimates.setdefault(json.dumps(settings), None)
        with share_estimate(estimates, json.dumps(settings)):
            done = skillrun("plan", request, *arguments)
        finished = Plan(project / "runs" / "run", project, done)
        return finished if isolated else finished_plans.setdefault(key, finished)

    return run


@contextmanager
def share_estimate(estimates: dict[str, Any], key: str) -> Iterator[None]:
    """Estimate a plan only if `estimates` has none for `key`: an estimate takes as long as the plan itself."""

    async def estimate(*arguments: Any) -> Any:
        if key not in estimates:
            estimates[key] = await estimate_run(*arguments)
        return deepcopy(estimates[key])

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(execution, "estimate_run", estimate)
        yield
