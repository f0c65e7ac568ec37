"""A dry run executes nothing and follows the way on which no reply makes the run fail."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from skillrun.definitions.verbs import VERBS
from tests.acceptance.conftest import Call, Make

ROLE = "---\nkind: role\ndescription: Writes drafts.\n---\nYou write drafts.\n"


def test_a_dry_run_refuses_a_verb_that_executes(project: Make, skillrun: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = project("greeting")
    monkeypatch.setitem(VERBS, "write", replace(VERBS["write"], effects=("executes",)))
    done = skillrun("greeting", "Ada", "--dry-run", "--model", "scripted:default")
    assert done.code != 0
    assert "executes something, which a dry run does not do" in done.out + done.err
    assert not (folder / "runs").exists()


@pytest.mark.row("S9")
@pytest.mark.finding("FR27")
@pytest.mark.parametrize(("size", "code"), [(3, 0), (0, 1)])
def test_a_dry_run_ignores_a_failure_that_depends_on_a_reply(
    project: Make, skillrun: Call, size: int, code: int
) -> None:
    phase = """---
kind: phase
steps:
  - {when: inputs.size < 1, stop: failed, reason: There is nothing to do.}
  - {id: draft, agent: clerk}
  - {when: "not ('done' in draft.text)", stop: failed, reason: The draft is not done.}
  - {id: more, agent: clerk, material: {The draft: "{{ draft.text }}"}}
---
## draft
Write.

## more
Write more.
"""
    workflow = "---\nname: job\ndescription: A job.\ninputs: {size: integer}\nphases: {work: }\n---\n"
    folder = project("greeting")
    for path, text in {"workflows/job.md": workflow, "skills/job/work.md": phase, "roles/clerk.md": ROLE}.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, encoding="utf-8")
    done = skillrun("job", str(size), "--dry-run", "--model", "scripted:default", "--json")
    assert done.code == code, done.out + done.err
    data = json.loads(done.out)
    assert (data["status"], data["total"]["calls"]) == (("completed", 2) if code == 0 else ("failed", 0))


@pytest.mark.row("P19")
def test_a_dry_run_shows_what_the_run_says_before_its_first_call(project: Make, skillrun: Call) -> None:
    phase = """---
kind: phase
steps:
  - {say: "Suggested: fast mode, about {{ run.estimate.calls | default(0) }} call."}
  - {id: draft, agent: clerk}
  - {say: The draft is there.}
---
## draft
Write.
"""
    workflow = "---\nname: job\ndescription: A job.\nphases: {work: }\n---\n"
    folder = project("greeting")
    for path, text in {"workflows/job.md": workflow, "skills/job/work.md": phase, "roles/clerk.md": ROLE}.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, encoding="utf-8")
    done = skillrun("job", "--dry-run", "--model", "scripted:default")
    assert done.out.startswith("Suggested: fast mode, about 1 call.\nmodels: ")
    assert "The draft is there." not in done.out
    data = json.loads(skillrun("job", "--dry-run", "--model", "scripted:default", "--json").out)
    assert data["messages"] == ["Suggested: fast mode, about 1 call."]
