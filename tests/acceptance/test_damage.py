"""Manually changed files of a run: some are refused with a position, some are recovered, all are reported."""

from __future__ import annotations

import asyncio
import re
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from skillrun.checker.checker import check_workflow
from skillrun.library.library import Library
from skillrun.library.roots import search_path
from skillrun.models.catalogue import Catalogue
from skillrun.models.scripted import Rule, ScriptedGateway
from skillrun.questions.responder import open_responder
from skillrun.runtime import session
from skillrun.runtime.run import RunOptions, Services, Session
from skillrun.store.local.local_run import LocalRun
from skillrun.store.outcome import Outcome
from tests.acceptance.conftest import Call, Make

GREET = ("greeting", "Ada", "--model", "scripted:default")
RESUME = ("resume", "ada", "--answers", "answers.yaml")


@pytest.fixture
def run(project: Make, skillrun: Call) -> Path:
    """The folder of a run whose first phase has completed and whose second phase waits for an answer."""
    folder = project("greeting")
    send = folder / "skills" / "greeting" / "send.md"
    send.write_text(send.read_text().replace("steps:\n", "steps:\n  - {id: fine, ask: 'Is it fine?'}\n"))
    assert skillrun(*GREET).code == 75
    (folder / "answers.yaml").write_text("fine: it is\n")
    return folder / "runs" / "ada"


def edit(path: Path, pattern: str, new: str) -> None:
    text = path.read_text()
    edited = re.sub(pattern, new, text, count=1, flags=re.MULTILINE | re.DOTALL)
    assert edited != text
    path.write_text(edited)


STATES = {
    r"^phase:.*?(?=^\w)": ("phase: [[1]]\n", "`phase` is", "a list of texts"),
    r"^models:.*?(?=^\w)": ("models: {strong: 5}\n", "`models` is", "a mapping of names to texts"),
    r"^round: 1$": ("round: 1000000000", "`round` is `1000000000`", "a whole number from 1 to 10,000"),
    r"^status: waiting$": ("status: idle", "`status` is `idle`", "one of running, waiting, completed, failed"),
    r"^budget:.*?(?=^\w)": ("budget: {calls: many}\n", "`budget` is", "a mapping of names to numbers from 0 to 10^18"),
    r"^inputs:.*?(?=^\w)": ("inputs: [a]\n", "`inputs` is", "a mapping of names to values"),
}


@pytest.mark.finding("FM14")
@pytest.mark.parametrize("pattern", STATES)
def test_a_damaged_state_is_refused_with_position_and_allowed_values(run: Path, skillrun: Call, pattern: str) -> None:
    new, message, allowed = STATES[pattern]
    edit(run / "state.md", pattern, new)
    line, column = (run / "state.md").read_text().splitlines().index(new.strip()) + 1, new.index(": ") + 3
    for arguments in (RESUME, ("show", "ada"), ("resume", "ada", "--preview")):
        done = skillrun(*arguments)
        expected = f"{run / 'state.md'}:{line}:{column}: error[type]: {message}"
        assert (done.code, expected in done.err, f"hint: it is {allowed}" in done.err) == (1, True, True), done
        assert f"\n  {new.strip()}\n  {' ' * (column - 1)}^\n" in done.err


RECOVERED = {
    "an invalid status": (r"^status: completed$", "status: nonsense", "its status is `nonsense`"),
    "another phase": (r"^phase: draft$", "phase: send", "it belongs to `send`"),
    "another round": (r"^round: 1$", "round: 7", "its round is 7, but the run is in round 1"),
    "a goto to an unknown phase": (r"^round: 1$", "round: 1\ngoto: {target: x, step: y}", "it goes back to `x`"),
    "no frontmatter": (r"\A.*\Z", "nothing", "its status is ``"),
    "a truncated file": (r"^status: .*\Z", "", "cannot be read"),
}
USED = {
    "no round": (r"^round: 1\n", ""),
    "flags": (r"^flags:.*?(?=^\w)", "flags: [a, b]\n"),
    "outputs": (r"^outputs:.*?(?=^\w)", "outputs: 7\n"),
    "no outputs": (r"^outputs:.*?(?=^\w)", ""),
    "failed": (r"^status: completed$", "status: failed"),
    "a wrong number": (r"^number: 1$", "number: 3"),
}


@pytest.mark.finding("FM14")
@pytest.mark.parametrize("damage", [*RECOVERED, *USED])
def test_a_damaged_summary_is_recovered_or_used_with_a_notice(run: Path, skillrun: Call, damage: str) -> None:
    summary = run / "summaries" / "draft.md"
    before = summary.read_text()
    pattern, new, *reasons = (RECOVERED | USED)[damage]
    edit(summary, pattern, new)
    assert skillrun("show", "ada").code == 0
    notice = "summaries/draft.md was edited manually; the edited version is used"
    if damage in USED:
        assert "summaries/draft.md" in skillrun("show", "ada", "--json").json["changed_by_hand"]
    done = skillrun(*RESUME)
    if damage in RECOVERED:
        assert (done.code, "is recovered: " in done.out, reasons[0] in done.out, notice in done.out) == (
            0, True, True, False
        ), done  # fmt: skip
        assert summary.read_text() == before.replace("flags:\n", "flags:\n  recovered: true\n").replace(
            "flags: {}", "flags:\n  recovered: true"
        )
    else:
        failed = damage in ("failed", "outputs", "no outputs")  # the next phase reads a missing output
        assert (done.code in ((0, 1) if failed else (0,)), notice in done.out) == (True, True), done
    assert skillrun("show", "ada", "--json").json["usage"]["calls"] == 2


@pytest.mark.finding("FM14")
def test_a_truncated_witness_is_reported_and_the_run_resumes(run: Path, skillrun: Call) -> None:
    witness = run / ".run" / "witness"
    witness.write_bytes(witness.read_bytes()[:30])
    assert skillrun("show", "ada").code == 0
    done = skillrun(*RESUME)
    assert (done.code, f"{witness} was damaged" in done.out) == (0, True), done
    assert skillrun("show", "ada", "--json").json["usage"]["calls"] == 2


@pytest.mark.finding("FM14")
def test_an_edited_summary_of_a_completed_round_is_reported_when_the_run_resumes(project: Make, skillrun: Call) -> None:
    folder = project("greeting")
    for path, text in (
        ("workflows/loop.md", LOOP),
        ("config/loop.yaml", "{}\n"),
        ("skills/loop/one.md", ONE),
        ("skills/loop/two.md", TWO.replace("  - {id: note", "  - {id: fine, ask: 'Is it fine?'}\n  - {id: note")),
    ):
        (folder / path).parent.mkdir(exist_ok=True)
        (folder / path).write_text(text)
    assert skillrun("loop", "--name", "ada", "--model", "scripted:default").code == 75
    (folder / "answers.yaml").write_text("fine: it is\n")
    edit(folder / "runs/ada/round-1/summaries/one.md", r"^number: 1$", "number: 3")
    notice = "round-1/summaries/one.md was edited manually; the edited version is used"
    assert notice.split(maxsplit=1)[0] in skillrun("show", "ada", "--json").json["changed_by_hand"]
    done = skillrun(*RESUME)
    assert (done.code, done.out.count(notice)) == (0, 1), done


LOOP = """---
name: loop
description: Goes back once.
inputs: {}
config: loop
phases:
  one:
  two:
---
Loops.
"""
ONE = """---
kind: phase
description: Write.
steps:
  - {id: said, agent: writer, writes: a.md}
---
## said
Say it{% if history %} again{% endif %}.
"""
TWO = """---
kind: phase
description: Go back.
steps:
  - {goto: one, at_most: 1}
  - {id: note, write: b.md}
---
## note
Done.
"""


class Dev:
    """Evaluates a run of LOOP in this process, as `dev` does at each save."""

    def __init__(self, folder: Path) -> None:
        (folder / "skills" / "loop").mkdir()
        (folder / "config").mkdir()
        (folder / "config" / "loop.yaml").write_text("{}\n")
        (folder / "workflows" / "loop.md").write_text(LOOP)
        self.two, self.one = folder / "skills" / "loop" / "two.md", folder / "skills" / "loop" / "one.md"
        self.one.write_text(ONE)
        self.two.write_text(TWO)
        self.folder, self.run = folder, folder / "runs" / "dev-loop"
        self.run.mkdir(parents=True)
        self.answers = folder / "answers.yaml"

    def save(self, script: list[dict[str, Any]]) -> Outcome:
        library = Library(search_path(self.folder))
        program = check_workflow(library, "loop")
        models = library.config("models")
        assert program is not None, list(library.problems)
        assert models is not None
        responder = open_responder(unattended=True, answers=self.answers if self.answers.exists() else None)
        gateway = ScriptedGateway(Rule(**rule) for rule in script)
        services = Services(Catalogue.from_config(models.data), gateway, responder)
        run_session = Session(program, services, RunOptions(self.folder, "scripted:x"))
        folder = LocalRun(self.run)
        with folder.lease.hold(), closing(folder.open_journal(create=True)) as journal:
            return asyncio.run(session.reevaluate_run(run_session, folder, journal, {}))

    def texts(self) -> dict[str, str]:
        return {
            path.relative_to(self.run).as_posix(): path.read_text()
            for path in self.run.rglob("*.md")
            if "summaries" not in path.parts and path.name != "state.md"
        }


@pytest.mark.slow
@pytest.mark.finding("FM11")
@pytest.mark.parametrize("texts", [("first", "second"), ("same", "same")])
def test_an_edited_artifact_that_each_round_rewrites_is_kept_at_every_save(
    project: Make, texts: tuple[str, str]
) -> None:
    dev = Dev(project("greeting"))
    script = [{"address": "loop/one/said/*", "text": text, "times": 1} for text in texts]
    assert dev.save(script).status == "completed"
    assert dev.texts() == {"a.md": f"{texts[1]}\n", "round-1/a.md": f"{texts[0]}\n", "b.md": "Done.\n"}
    (dev.run / "a.md").write_text("mine\n")
    for number in range(3):
        dev.two.write_text(TWO.replace("Done.", f"Done {number}."))
        assert dev.save([]).status == "completed"
        assert dev.texts()["a.md"] == "mine\n", number
        assert dev.texts()["b.md"] == f"Done {number}.\n"


@pytest.mark.slow
@pytest.mark.finding("FM11")
def test_new_text_for_an_edited_artifact_is_written_next_to_it(project: Make) -> None:
    dev = Dev(project("greeting"))
    assert dev.save([{"address": "loop/one/said/*", "text": "first"}]).status == "completed"
    (dev.run / "a.md").write_text("mine\n")
    dev.one.write_text(ONE.replace("Say it", "Say it kindly"))
    assert dev.save([{"address": "loop/one/said/*", "text": "kind"}]).status == "completed"
    assert (dev.texts()["a.md"], dev.texts()["a.new.md"]) == ("mine\n", "kind\n")
    dev.two.write_text(TWO.replace("Done.", "Over."))
    assert dev.save([]).status == "completed"
    assert (dev.texts()["a.md"], dev.texts()["a.new.md"]) == ("mine\n", "kind\n")


@pytest.mark.slow
@pytest.mark.finding("FM11")
def test_an_edit_in_a_completed_round_is_kept_when_the_run_is_evaluated_again(project: Make) -> None:
    dev = Dev(project("greeting"))
    script = [{"address": "loop/one/said/*", "text": text, "times": 1} for text in ("first", "second")]
    assert dev.save(script).status == "completed"
    (dev.run / "round-1" / "a.md").write_text("mine\n")
    (dev.run / "a.md").write_text("mine, too\n")
    for _ in range(2):
        assert dev.save([]).status == "completed"
        assert {"mine\n", "mine, too\n"} <= set(dev.texts().values())


@pytest.mark.slow
def test_an_edit_that_moves_with_its_round_is_reported_with_its_new_path(project: Make, skillrun: Call) -> None:
    folder = project("visit")
    check = folder / "skills" / "visit" / "check.md"
    check.write_text(
        check.read_text().replace(
            "  - {goto: plan", "  - {id: well, ask: Is it well?, choices: [so, so la la]}\n  - {goto: plan"
        )
    )
    answers = folder / "answers.yaml"
    answers.write_text("choose/where: the lake\n")
    arguments = ("--answers", "answers.yaml")
    assert skillrun("visit", *arguments, "--model", "scripted:x").code == 75
    (folder / "runs" / "visit" / "visit.md").write_text("Mine.\n")
    answers.write_text("choose/where: the lake\ncheck/well: so\n")
    done = skillrun("resume", "visit", *arguments)
    assert done.code == 75, done.out
    answers.write_text("choose/where: the lake\ncheck/well: so\ncheck/well@2: so\n")
    assert skillrun("resume", "visit", *arguments).code == 0
    notice = "your edit of visit.md was moved to round-1/, because visit.md is written again"
    assert notice in done.out
    assert notice in skillrun("show", "visit", "--json").json["notices"]
    assert (folder / "runs" / "visit" / "round-1" / "visit.md").read_text() == "Mine.\n"
