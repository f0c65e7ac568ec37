"""`each`: steps for every item of a list that the run computes, identified by the items' ids."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from skillrun.store.frontmatter import from_frontmatter
from skillrun.store.local.journal import read_journal

Call = Callable[..., Any]

WORKFLOW = "---\nname: w\ninputs: {request: string}\nconfig: w\nphases:\n  build:\n---\n"
ROLE = "---\nname: a\nvariants: {x: one, y: two}\n---\nYou write.\n"
PARTS = [{"id": "T-1", "what": "roof"}, {"id": "T-2", "what": "door"}, {"id": "T-3", "what": "sill"}]
PHASE = """---
kind: phase
steps:
  - {id: plan, agent: a, output: {parts(array): {id?: string, what: string}}}
  - id: built
    each: "{{ plan.data.parts }}"
    as: part
    at_once: 2
    steps:
      - {id: draft, agent: a, writes: "{{ part.what }}.md", record: system/record}
      - {id: marks, agent: ["a:x", "a:y"], output: {mark: integer 0..10}, material: {The draft: "{{ draft.text }}"}}
      - set: {mark: "{{ marks.data | map(attribute='mark') | sum }}"}
{more}
outputs:
  marks: "{{ built.done | map(attribute='mark') | list }}"
  done: "{{ built.done | map(attribute='id') | list }}"
  failed: "{{ built.failed | map(attribute='id') | list }}"
{outputs}---
## plan
Plan it.

## draft
Draft the {{ part.what }}.

## marks
Mark the {{ part.what }} as {{ member.lens }}.
"""


def record(number: int) -> str:
    fields: dict[str, Any] = {
        "summary": f"Draft {number}.",
        "key_decisions": [],
        "open_questions": [],
        "risks_identified": [],
    }
    fields["key_decisions"] = [{"id": "BUILD-1", "decision": f"No {number}.", "rationale": "", "confidence": "HIGH"}]
    return f"# Draft {number}\n\n```record\n{json.dumps(fields)}\n```\n"


class Flow:
    """A project with a workflow of one phase, and its runs on a scripted model."""

    def __init__(self, folder: Path, skillrun: Call) -> None:
        self.folder, self.skillrun = folder, skillrun

    def write(self, phase: str = PHASE, more: str = "", outputs: str = "", config: str = "") -> None:
        texts = {"workflows/w.md": WORKFLOW, "roles/a.md": ROLE, "config/w.yaml": config or "breakers: {}\n"}
        texts["skills/w/build.md"] = phase.replace("{more}", more).replace("{outputs}", outputs)
        for name, text in texts.items():
            path = self.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")

    def run(self, parts: Any, *rules: dict[str, Any], code: int = 0) -> Any:
        script = [*rules, {"address": "w/build/plan/*", "data": {"parts": parts}}]
        (self.folder / "script.yaml").write_text(json.dumps(script), encoding="utf-8")
        done = self.skillrun("w", "it", "--script", "script.yaml", "--unattended", "--name", "run")
        assert done.code == code, done.err + done.out
        return done

    def called_steps(self) -> list[str]:
        """The steps that called a model for an item, with the item."""
        with closing(read_journal(self.folder / "runs/run")) as journal:
            found = {one.address.rsplit("/", 2)[0] for one in journal.entries("sent")}
        return sorted(one.removeprefix("w/build/") for one in found if "~" in one)

    def summary(self) -> dict[str, Any]:
        data, _ = from_frontmatter(self.folder / "runs/run/summaries/build.md")
        return data


@pytest.fixture
def flow(project: Call, skillrun: Call) -> Flow:
    return Flow(project(), skillrun)


MARK = {"address": "*/marks/*", "data": {"mark": 4}}


def test_every_item_has_its_own_address_and_results_keep_the_order_of_the_list(flow: Flow) -> None:
    flow.write()
    slow = {"address": "*~T-1/draft/*", "text": record(1), "delay": 0.02}  # the first one ends last
    done = flow.run(PARTS, slow, MARK)
    assert flow.called_steps() == [f"built~T-{n}/{step}" for n in (1, 2, 3) for step in ("draft", "marks")]
    assert flow.summary()["outputs"] == {"marks": [8, 8, 8], "done": ["T-1", "T-2", "T-3"], "failed": []}
    assert flow.summary()["artifacts"] == ["roof.md", "door.md", "sill.md"]
    assert flow.summary()["flags"] == {}
    assert "build: built T-1: done" in done.out
    assert "(3 of 3)" in done.out


def test_a_failed_item_is_recorded_and_the_others_count(flow: Flow) -> None:
    flow.write()
    done = flow.run(PARTS, {"address": "*~T-2/draft/*", "fail": "other", "message": "no hands"}, MARK)
    summary = flow.summary()
    assert summary["outputs"] == {"marks": [8, 8], "done": ["T-1", "T-3"], "failed": ["T-2"]}
    assert summary["flags"]["degraded"] is True
    [warning] = [one for one in summary["quality_warnings"] if "continued without" in one]
    assert "T-2: `draft` was not answered (a: no hands)" in warning
    assert "build: built T-2: failed" in done.out


def test_too_few_successes_fail_the_step_and_the_fallback_sees_the_results(flow: Flow) -> None:
    more = "    at_least: 3\n    otherwise: {say: Not all of it was built.}\n"
    flow.write(more=more)
    done = flow.run(PARTS, {"address": "*~T-2/draft/*", "fail": "other"}, MARK)
    assert flow.summary()["outputs"]["done"] == ["T-1", "T-3"]
    assert "build: Not all of it was built." in done.out
    flow.write(more="    at_least: 3\n")
    again = flow.skillrun("w", "it", "--script", "script.yaml", "--unattended", "--name", "second")
    assert again.code == 1
    assert "`built` succeeded for 2 of 3 (T-2: `draft` was not answered" in again.err + again.out


def test_a_retry_calls_only_the_failed_items(flow: Flow) -> None:
    flow.write(more="    retry: twice\n", config="breakers: {twice: {limit: 2, then: fall back}}\n")
    drafts = [{"address": f"*~T-{n}/draft/*", "text": record(n)} for n in (1, 2, 3)]
    done = flow.run(PARTS, {"address": "*~T-2/marks/*", "fail": "other", "times": 4}, *drafts, MARK)
    summary = flow.summary()
    assert summary["outputs"] == {"marks": [8, 8, 8], "done": ["T-1", "T-2", "T-3"], "failed": []}
    assert summary["flags"] == {}
    assert done.out.count("built T-1: done") == done.out.count("built T-3: done") == 1
    assert "built T-2: done (3 of 3)" in done.out


def test_an_item_that_is_evaluated_again_reads_the_same_values(flow: Flow) -> None:
    read = PHASE.replace("Draft the {{ part.what }}.", "Draft the {{ part.what }}, after {{ run.usage.calls }} calls.")
    flow.write(read, more="    retry: twice\n", config="breakers: {twice: {limit: 2, then: fall back}}\n")
    flow.run(PARTS, {"address": "*~T-2/marks/*", "fail": "other", "times": 4}, MARK)
    assert flow.summary()["outputs"]["done"] == ["T-1", "T-2", "T-3"]
    with closing(read_journal(flow.folder / "runs/run")) as journal:
        drafts = [one.address for one in journal.entries("sent") if "~T-2/draft" in one.address]
    assert len(drafts) == 1, "its call had a reply"


def test_the_decisions_of_all_items_are_recorded_with_unique_ids(flow: Flow) -> None:
    flow.write(outputs="")
    (flow.folder / "skills/w").mkdir(parents=True, exist_ok=True)
    workflow = WORKFLOW.replace("  build:\n", "  build:\n  after:\n")
    (flow.folder / "workflows/w.md").write_text(workflow)
    (flow.folder / "skills/w/after.md").write_text("---\nkind: phase\nsteps: [{id: x, agent: a}]\n---\n## x\nGo on.\n")
    flow.run(PARTS, *({"address": f"*~T-{n}/draft/*", "text": record(n)} for n in (1, 2, 3)), MARK)
    decisions = {one["id"]: one["decision"] for one in flow.summary()["key_decisions"]}
    assert decisions == {"BUILD-1": "No 1.", "BUILD-2": "No 2.", "BUILD-3": "No 3."}
    assert flow.summary()["summary"] == "Draft 1. Draft 2. Draft 3."


@pytest.mark.row("X4")
def test_a_longer_list_in_another_order_calls_only_the_new_items(flow: Flow) -> None:
    flow.write()
    flow.run(PARTS[:2], MARK)
    before = flow.called_steps()
    state = flow.folder / "runs/run/state.md"
    phase = flow.folder / "skills/w/build.md"
    phase.write_text(phase.read_text().replace("Plan it.", "Plan more of it."))
    script = [MARK, {"address": "w/build/plan/*", "data": {"parts": PARTS[::-1]}}]
    (flow.folder / "script.yaml").write_text(json.dumps(script))
    state.write_text(state.read_text().replace("status: completed", "status: running"))
    (flow.folder / "runs/run/summaries/build.md").unlink()
    done = flow.skillrun("resume", "run", "--script", "script.yaml", "--unattended", "--yes")
    assert done.code == 0, done.err
    assert sorted(set(flow.called_steps()) - set(before)) == ["built~T-3/draft", "built~T-3/marks"]
    assert flow.summary()["outputs"]["done"] == ["T-3", "T-2", "T-1"]
    assert "11 calls" in done.out, "7 before, the plan, and the draft and two marks of the new item"


def test_items_with_the_same_id_are_identified_by_their_content(flow: Flow) -> None:
    flow.write()
    twice = [{"id": "T-1", "what": "roof"}, {"id": "T-1", "what": "door"}, {"what": "sill"}, {"what": "sill"}]
    flow.run([*twice, {"id": "On the\nwall, ../../etc", "what": "wall"}], MARK)
    keys = {one.split("/")[0].removeprefix("built~") for one in flow.called_steps()}
    same = sorted(one for one in keys if one.startswith("T-1-"))
    assert len(keys) == 4
    assert len(same) == 2
    assert [one for one in keys if one.startswith("on-the-wall-etc-")]
    warnings = flow.summary()["quality_warnings"]
    assert "built: 1 of 5 items are duplicates and share one evaluation" in warnings
    assert any(one.startswith("built: 2 items have the id `T-1`; they are identified as T-1-") for one in warnings)
    assert flow.summary()["outputs"]["done"][-1] == "On the wall, ../../etc"


@pytest.mark.finding("FX13")
def test_each_copy_of_an_item_is_in_the_result(flow: Flow) -> None:
    flow.write(more="      - {when: part.id == 'T-3', stop: failed, reason: No sill.}\n")
    roof, door, sill = PARTS
    flow.run([roof, door, door, sill, roof, sill], MARK)
    outputs = flow.summary()["outputs"]
    assert (outputs["done"], outputs["failed"]) == (["T-1", "T-2", "T-2", "T-1"], ["T-3", "T-3"])
    assert outputs["marks"] == [8] * 4
    assert len([one for one in flow.called_steps() if "/draft" in one]) == 3


def test_text_a_long_list_or_one_file_for_two_items_fails_the_step(flow: Flow) -> None:
    flow.write()
    same = [{"id": "T-1", "what": "roof"}, {"id": "T-2", "what": "roof"}]
    done = flow.run(same, MARK, code=1)
    assert "`built`: T-1 and T-2 both write `roof.md`" in done.err + done.out
    many = [{"id": f"T-{n}", "what": f"part {n}"} for n in range(201)]
    (flow.folder / "script.yaml").write_text(json.dumps([{"address": "w/build/plan/*", "data": {"parts": many}}]))
    done = flow.skillrun("w", "it", "--script", "script.yaml", "--unattended", "--name", "many")
    assert done.code == 1
    assert "`built` has 201 items; a list may have at most 200" in done.err + done.out
    assert "limits.items" in done.err + done.out
    phase = flow.folder / "skills/w/build.md"
    text = phase.read_text().replace("plan.data.parts }}", "plan.data.parts[0].what }}").replace("part.what", "part")
    phase.write_text(text)
    done = flow.skillrun("w", "it", "--script", "script.yaml", "--unattended", "--name", "text")
    assert done.code == 1
    assert "`each` is text" in done.err + done.out


def test_a_dry_run_estimates_one_item(project: Any, skillrun: Call) -> None:
    project("errands")
    done = skillrun("errands", "rainy", "--dry-run")
    assert done.code == 0, done.err
    assert "for each of 2 items in `walk/letters` (the number may differ in a real run): about 1 calls" in done.out
    estimates = skillrun("errands", "rainy", "--dry-run", "--json").json["each"]
    assert estimates["walk/letters"]["items"] == 2
    assert estimates["walk/letters"]["calls"] == 1
    assert estimates["walk/visits"]["calls"] > estimates["walk/visits/haggled/answered"]["calls"] > 0


def test_answers_can_be_prepared_for_all_items_or_one_and_an_item_prompt_is_rendered(
    project: Any, skillrun: Call
) -> None:
    folder = project("errands")
    (folder / "answers.yaml").write_text("walk/letters~cobbler/sure: no\nwalk/letters/sure: yes\n")
    done = skillrun("errands", "rainy", "--model", "scripted:x", "--answers", "answers.yaml", "--name", "r")
    assert done.code == 0, done.err + done.out
    with closing(read_journal(folder / "runs/r")) as journal:
        answers = {one.address: one.body["answers"][0]["answer"] for one in journal.entries("answer")}
    assert answers == {"errands/walk/letters~baker/sure@1": "yes", "errands/walk/letters~cobbler/sure@1": "no"}
    shown = skillrun("render", "errands", "walk", "letters", "-i", "day=rainy")
    assert "errands/walk/letters~baker/letter/write/letter/friend/1.1" in shown.out
    assert "longest prompt of each step" in skillrun("show", "r").out


@pytest.mark.slow
def test_a_waiting_run_names_the_item_and_the_pass_of_its_question(project: Any, skillrun: Call) -> None:
    folder = project()
    phase = """---
kind: phase
steps:
  - {id: packed, each: [{id: hat}, {id: coat}], steps: [{id: sure, ask: "Take the {{ item.id }}?", choices: [yes, no]}]}
  - {id: again, at_most: 2, repeat: [{id: more, ask: [More?, Why?]}]}
---
"""
    files = {"workflows/w.md": "---\nname: w\nphases:\n  pack:\n---\nPacks.\n", "skills/w/pack.md": phase}
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, encoding="utf-8")
    answers = folder / "answers.yaml"
    waiting = skillrun("w", "--name", "r", "--model", "scripted:x")
    assert (waiting.code, "put `pack/packed~hat/sure: yes` (or: no) into answers.yaml" in waiting.out) == (75, True)
    answers.write_text("pack/packed~hat/sure: yes\npack/packed~coat/sure: no\nmore: [a, b]\n", encoding="utf-8")
    waiting = skillrun("resume", "r", "--answers", "answers.yaml")
    assert (waiting.code, "put `pack/again#2/more/more-1: …` and `pack/again#2/more/more-2: …`" in waiting.out) == (
        75,
        True,
    )
    assert "no question has the name" not in waiting.out + waiting.err
    assert "answered from the prepared answers: pack/packed~coat/sure = no" in waiting.out
    unanswered = skillrun("answers", "r")
    assert "`pack/again#2/more/more-1`: More?" in unanswered.err
    with answers.open("a", encoding="utf-8") as file:
        file.write("pack/again#2/more-1: c\npack/again#2/more-2: d\n")
    assert skillrun("resume", "r", "--answers", "answers.yaml").code == 0


def test_at_once_limits_concurrent_items_and_a_spent_budget_loses_none(flow: Flow) -> None:
    text = PHASE.replace('\n      - {id: marks, agent: ["a:x", "a:y"], output: {mark: integer 0..10}', "").split(
        "      - set"
    )[0]
    steps = text.replace(', material: {The draft: "{{ draft.text }}"}}', "").rstrip()
    flow.write(f"{steps}\n---\n## plan\nPlan it.\n\n## draft\nDraft the {{{{ part.what }}}}.\n")
    parts = [{"id": f"T-{n}", "what": f"part {n}"} for n in range(6)]
    slow = {"address": "*/draft/*", "delay": 0.002}
    script = [slow, {"address": "w/build/plan/*", "data": {"parts": parts}}]
    (flow.folder / "script.yaml").write_text(json.dumps(script), encoding="utf-8")
    options = ("--script", "script.yaml", "--unattended")
    assert flow.skillrun("w", "it", *options, "--name", "run", "--budget", "calls=4").code == 75
    assert len(flow.called_steps()) == 3
    assert flow.skillrun("resume", "run", *options, "--budget", "calls=100").code == 0
    assert flow.called_steps() == [f"built~T-{n}/draft" for n in range(6)]
    lines = (flow.folder / "runs/run/.run/transcript.ndjson").read_text().splitlines()
    running, most, calls = 0, 0, 0
    for event in map(json.loads, lines):
        if event["event"] == "CallStarted":
            calls, running = calls + 1, running + 1
            most = max(most, running)
        elif event["event"] == "CallEnded" and not event["replayed"]:
            running -= 1
    assert (most, calls) == (2, 7), "`at_once`, and the plan and each draft once"


def test_the_length_of_a_list_changes_the_estimate(flow: Flow) -> None:
    flow.write(more='  - {when: run.estimate, say: "{{ run.estimate.calls }} were expected."}\n')
    many = [{"id": f"T-{n}", "what": f"part {n}"} for n in range(7)]
    done = flow.run(many, MARK)
    found = re.search(r"build: expected now, because `built` has 7 items, not (\d): about (\d+) calls", done.out)
    assert found is not None, done.out
    assert int(found[2]) == 1 + 7 * 3
    assert f"build: {1 + int(found[1]) * 3} were expected." in done.out


def test_a_question_about_items_needs_a_user(flow: Flow) -> None:
    flow.write(PHASE.replace("      - set:", "      - {id: sure, ask: Is it?, choices: ['yes', 'no']}\n      - set:"))
    done = flow.skillrun("w", "it", "--unattended", "--model", "scripted:x", "--name", "run")
    assert done.code == 1
    assert "the workflow asks questions and the run is unattended" in done.err
    assert "build/built/sure" in done.err
