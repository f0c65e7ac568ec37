"""Error-prone cases of replay: small workflows, killed at any checkpoint.

They are cases that `test_replay.py` finds only by chance. A sample of the checkpoints is tested;
`SKILLRUN_CRASH_ALL=1` tests all.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.property.runs import SnapshotPolicy
from tests.property.scores import FileDraft
from tests.property.test_replay import assert_resumes_exactly, kept_snapshots, open_project
from tests.property.workflows import Workflows

ALL = bool(os.environ.get("SKILLRUN_CRASH_ALL"))
MOST = 10  # snapshots of a case, or nearly twice as many, if not all are tested
Step = dict[str, Any]
SAY = {"say": "Something stood in."}


@dataclass
class Case:
    """Phases with their steps; `prompts` are the sections of steps, which have a default."""

    phases: Mapping[str, list[Step]]
    prompts: Mapping[str, str] = field(default_factory=dict)
    uses: Mapping[str, dict[str, Any]] = field(default_factory=dict)
    rules: list[dict[str, Any]] = field(default_factory=list)
    others: Mapping[str, FileDraft] = field(default_factory=dict)
    parallel: bool = True
    pauses: int = 0
    patient: bool = True
    ends: tuple[str, ...] = ("completed",)

    @property
    def workflows(self) -> Workflows:
        front = {
            "name": "w",
            "inputs": {"request": "string"},
            "state": {f"{name}?": {"type": "integer", "default": 0} for name in ("alpha", "beta")},
            "config": "w",
            "parallel": self.parallel,
            "phases": {name: self.uses.get(name) for name in self.phases},
        }
        phases = {
            name: FileDraft({"kind": "phase", "steps": steps}, self._sections(steps))
            for name, steps in self.phases.items()
        }
        breakers = {"twice": {"limit": 2, "then": "fall back"}, "queue": {"limit": 1, "then": "sequential"}}
        return Workflows(front, phases, dict(self.others), breakers, self.rules, self.pauses, False, self.patient)

    def _sections(self, steps: list[Step]) -> dict[str, str]:
        inner = [child for step in steps for child in (*step.get("repeat", []), *step.get("steps", []))]
        named = [step["id"] for step in [*steps, *inner] if {"agent", "write", "panel"} & step.keys()]
        return {name: self.prompts.get(name, f"Do {name}.") for name in named}


AGENT: Step = {"id": "last", "agent": "lead"}
INNER = {
    "workflows/inner": FileDraft(
        {"name": "inner", "config": "w", "outputs": {"found": "{{ phases.one.outputs.o }}"}, "phases": {"one": None}}
    ),
    "skills/inner/one": FileDraft(
        {"kind": "phase", "steps": [{"id": "deep", "agent": "critic"}], "outputs": {"o": "{{ deep.text }}"}},
        {"deep": "Go deep."},
    ),
}

CASES: dict[str, Case] = {
    "a value set by a later phase survives a goto": Case(
        {
            "p0": [{"set": {"alpha": 1}}],
            "p1": [{"id": "s1", "agent": "lead"}, {"set": {"alpha": 7}}, {"goto": "p1", "at_most": 1}],
        },
        {"s1": "Alpha is {{ state.alpha }}."},
    ),
    "a cleared value stays cleared": Case(
        {"p0": [{"set": {"alpha": 7}}], "p1": [{"set": {"alpha": "{{ history[0].round }}"}}], "p2": [AGENT]},
        {"last": "Alpha is {{ state.alpha or 'nothing' }}."},
    ),
    "of two gotos the one with the earlier target wins": Case(
        {
            "p0": [AGENT],
            "a": [AGENT],
            "b": [AGENT],
            "c": [AGENT, {"goto": "a", "at_most": 1}],
            "d": [AGENT, {"goto": "b", "at_most": 1}],
        },
        {"last": "Round {{ run.round }}."},
        {"a": {"after": ["p0"]}, "b": {"after": ["p0"]}, "c": {"after": ["a"]}, "d": {"after": ["b"]}},
    ),
    "a goto waits for the parallel phase": Case(
        {
            "p0": [AGENT],
            "a": [{"goto": "p0", "at_most": 1}],
            "b": [{"id": "s1", "agent": "lead"}, {"id": "s2", "agent": "critic", "writes": "b.md"}],
        },
        {"s1": "Round {{ run.round }}."},
        {"a": {"after": ["p0"]}, "b": {"after": ["p0"]}},
        pauses=3,
    ),
    "questions of earlier rounds are not repeated": Case(
        {
            "p0": [
                {"id": "q", "ask": "{{ bank('w/bank', 'any', 1) }}", "default": ""},
                AGENT,
                {"goto": "p0", "at_most": 2},
            ]
        },
        {"last": "They said {{ q.answers | map(attribute='text') | join }}."},
    ),
    "members of one step see the same token usage": Case(
        {"p0": [{"id": "s1", "agent": ["lead", "critic", "scribe:bold"], "otherwise": SAY}, AGENT]},
        {"s1": "{{ run.usage.calls }} calls, {{ run.usage.input }} tokens."},
        pauses=2,
    ),
    "a missing file is missing again": Case(
        {
            "p0": [
                {
                    "id": "again",
                    "at_most": 2,
                    "repeat": [
                        {"id": "r", "read": "p0-x.md", "otherwise": SAY},
                        {"id": "s1", "agent": "lead", "writes": "p0-x.md"},
                    ],
                },
                AGENT,
            ]
        },
        {"s1": "There is {{ r.text or 'nothing' }}."},
    ),
    "a failure in a later round is retried in that round": Case(
        {
            "p0": [
                {"id": "s1", "agent": "lead", "otherwise": SAY},
                {"id": "s2", "agent": "critic", "when": "run.round > 1"},
                {"id": "s3", "agent": "scribe:bold"},
                {"goto": "p0", "at_most": 1},
            ]
        },
        {"s3": "{{ s1.text or 'nothing' }} in {{ run.round }}"},
        rules=[{"address": "*/s1/*.[12]", "fail": "other"}, {"address": "*/s2/*.[12]", "fail": "timeout"}],
        ends=("failed", "completed"),
    ),
    "a phase that overwrites a file reads the same content again": Case(
        {
            "p0": [{"id": "s1", "agent": "lead", "writes": "x.md"}],
            "p1": [
                {"id": "s2", "agent": "critic", "writes": "x.md"},
                {"id": "s3", "agent": "scribe:bold"},
                {"goto": "p1", "at_most": 1},
            ],
        },
        {"s2": "Improve {{ phases.p0.artifacts['x.md'] }}", "s3": "Look at {{ phases.p0.artifacts['x.md'] }}"},
    ),
    "a failed inline workflow is retried": Case(
        {"p0": [{"id": "s1", "run": "inner", "retry": "twice"}, AGENT]},
        rules=[{"address": "*/deep/*.[12]", "fail": "timeout"}],
        others=INNER,
    ),
    "an inline workflow that failed permanently is retried after a resume": Case(
        {"p0": [{"id": "s1", "run": "inner"}, AGENT]},
        rules=[{"address": "*/deep/*.[12]", "fail": "timeout"}],
        others=INNER,
        ends=("failed", "completed"),
    ),
    "an inline workflow with a fallback is not retried": Case(
        {"p0": [{"id": "s1", "run": "inner", "otherwise": SAY}, AGENT, {"id": "s3", "agent": "scribe:bold"}]},
        rules=[{"address": "*/deep/*.[12]", "fail": "timeout"}],
        others=INNER,
    ),
    "a member with a session is not called again when another member fails": Case(
        {
            "p0": [
                {"id": "s1", "agent": ["lead", "critic"], "session": "persistent"},
                {"id": "s2", "agent": ["lead", "critic"], "session": "persistent", "at_least": 2},
                {"id": "s3", "agent": "lead", "session": "persistent"},
            ]
        },
        rules=[{"address": "*/s2/critic/*.1", "fail": "overloaded"}],
    ),
    "a pattern does not match files of an earlier evaluation": Case(
        {"p0": [{"id": "r", "read": "p0-*.md", "otherwise": SAY}, {"id": "s1", "agent": "lead", "writes": "p0-s1.md"}]},
        {"s1": "There is {{ r.text or 'nothing' }}."},
    ),
    "only the failed member is called again": Case(
        {"p0": [{"id": "s1", "agent": ["lead", "critic"], "at_least": 2}, AGENT]},
        rules=[{"address": "*/s1/lead/*.1", "fail": "other"}, {"address": "*/s1/critic/*.[12]", "fail": "other"}],
        ends=("failed", "completed"),
    ),
    "a breaker counts separately in each phase": Case(
        {
            "p0": [AGENT],
            "a": [{"id": "s1", "agent": "lead", "retry": "twice"}, {"id": "s2", "agent": "lead"}],
            "b": [{"id": "s1", "agent": "critic", "retry": "twice"}],
            "c": [{"id": "s1", "agent": "critic", "retry": "twice", "otherwise": SAY}],
        },
        {},
        {"a": {"after": ["p0"]}, "b": {"after": ["p0"]}, "c": {"after": ["a", "b"]}},
        rules=[{"address": "w/[abc]/*/*.1", "stop": "refusal"}],
        pauses=2,
    ),
    "parallel phases that fail are retried sequentially": Case(
        {"p0": [AGENT], "a": [{"id": "s1", "agent": "lead"}], "b": [{"id": "s1", "agent": "critic"}], "c": [AGENT]},
        {},
        {
            "a": {"after": ["p0"], "retry": "queue"},
            "b": {"after": ["p0"], "retry": "queue"},
            "c": {"after": ["a", "b"]},
        },
        rules=[{"address": "w/[ab]/*/*.[12]", "fail": "other"}],
        pauses=2,
    ),
    "one branch waits for the user while the other continues": Case(
        {
            "p0": [AGENT],
            "a": [{"id": f"q{number}", "ask": f"Really, {number}?"} for number in range(4)] + [AGENT],
            "b": [{"id": "s1", "agent": "critic"}, {"id": "s2", "agent": "scribe:bold"}],
            "c": [AGENT],
        },
        {},
        {"a": {"after": ["p0"]}, "b": {"after": ["p0"]}, "c": {"after": ["a", "b"]}},
        patient=False,
        pauses=1,
        ends=("waiting", "completed"),
    ),
    "items change order, fail, count separately and are retried": Case(
        {
            "p0": [
                {
                    "id": "e",
                    "each": [{"id": name, "what": f"part {name}"} for name in ("B", "C", "D")],
                    "at_once": 2,
                    "at_least": 3,
                    "retry": "twice",
                    "otherwise": SAY,
                    "steps": [
                        {"id": "s1", "agent": "lead", "record": "system/record", "retry": "twice"},
                        {"id": "s2", "agent": ["lead", "critic"], "writes": "{{ item.id }}-{{ member.role }}.md"},
                        {"say": "{{ run.usage.calls }} calls for {{ item.id }}.", "level": "warn"},
                    ],
                },
                AGENT,
            ],
            "p1": [{"id": "end", "agent": "lead"}],
        },
        {"s1": "Do {{ item.what }}.", "s2": "Look at {{ s1.text }}.", "last": "{{ e.done | length }} done."},
        rules=[
            {"address": "*~B/s1/*.1", "fail": "other"},
            {"address": "*~C/s1/*.[123]", "stop": "length"},
            {"address": "*~D/s1/lead/*.[1-4]", "fail": "timeout"},
        ],
        pauses=3,
    ),
    "some items wait for the user while the others continue": Case(
        {
            "p0": [
                {
                    "id": "e",
                    "each": ["oak", "yew", "ash", "seven"],
                    "steps": [{"id": "s1", "agent": "lead"}, {"id": "q", "ask": "Is {{ item }} right?"}],
                },
                AGENT,
            ]
        },
        {"s1": "Paint it {{ item }}.", "last": "{% for one in e.done %}{{ one.q.answer or '?' }} {% endfor %}"},
        patient=False,
        pauses=2,
        ends=("waiting", "completed"),
    ),
    "workflows are run for several items at once": Case(
        {"p0": [{"id": "e", "each": ["a", "b", "a b"], "steps": [{"id": "s1", "run": "inner"}]}, AGENT]},
        rules=[{"address": "*~b/s1/*/deep/*.[12]", "fail": "timeout"}],
        others=INNER,
        pauses=2,
    ),
    "a summary that the fast model failed to give is not requested twice": Case(
        {"p0": [AGENT], "p1": [AGENT]},
        rules=[{"address": "w/p0/summary/*", "text": "This is not JSON."}],
    ),
}


@pytest.mark.slow
@pytest.mark.row("X4")
@pytest.mark.parametrize("name", CASES)
def test_a_run_killed_at_any_checkpoint_resumes_exactly(name: str) -> None:
    case = CASES[name]
    with open_project(case.workflows) as (project, root):
        original = project.start(root / "runs", SnapshotPolicy(root / "kept"))
        assert tuple(outcome.status for outcome in original.outcomes) == case.ends
        snapshots = kept_snapshots(original)
        for snapshot in snapshots[:: 1 if ALL else max(1, len(snapshots) // MOST)]:
            assert_resumes_exactly(project, original, original.calls[: snapshot.sent], snapshot)
        files, state = original.files, original.state
        repeated = project.reevaluate(root / "runs")
        assert repeated.calls == []
        assert repeated.files == files
        assert repeated.state == state
