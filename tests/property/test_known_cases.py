"""Replay where it is easy to get wrong: one small workflow for each way, killed at any moment.

What `test_replay.py` finds only with luck stands here, by hand. Of many moments a sample is tried;
`SKILLRUN_CRASH_ALL=1` tries all.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.property.runs import Keep
from tests.property.scores import Score
from tests.property.test_replay import assert_goes_on, bench, kept
from tests.property.workflows import Workflows

ALL = bool(os.environ.get("SKILLRUN_CRASH_ALL"))
MOST = 10  # moments of a case, or nearly twice as many, where not all are tried
Step = dict[str, Any]
SAY = {"say": "Something stood in."}


@dataclass
class Case:
    """Phases with their steps; the sections are the prompts of the steps that want one."""

    phases: Mapping[str, list[Step]]
    prompts: Mapping[str, str] = field(default_factory=dict)
    uses: Mapping[str, dict[str, Any]] = field(default_factory=dict)
    rules: list[dict[str, Any]] = field(default_factory=list)
    others: Mapping[str, Score] = field(default_factory=dict)
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
            name: Score({"kind": "phase", "steps": steps}, self._sections(steps)) for name, steps in self.phases.items()
        }
        breakers = {"twice": {"limit": 2, "then": "fall back"}, "queue": {"limit": 1, "then": "sequential"}}
        return Workflows(front, phases, dict(self.others), breakers, self.rules, self.pauses, False, self.patient)

    def _sections(self, steps: list[Step]) -> dict[str, str]:
        inner = [one for step in steps for one in (*step.get("repeat", []), *step.get("steps", []))]
        named = [step["id"] for step in [*steps, *inner] if {"agent", "write", "panel"} & step.keys()]
        return {name: self.prompts.get(name, f"Do {name}.") for name in named}


AGENT: Step = {"id": "last", "agent": "lead"}
INNER = {
    "workflows/inner": Score(
        {"name": "inner", "config": "w", "outputs": {"found": "{{ phases.one.outputs.o }}"}, "phases": {"one": None}}
    ),
    "skills/inner/one": Score(
        {"kind": "phase", "steps": [{"id": "deep", "agent": "critic"}], "outputs": {"o": "{{ deep.text }}"}},
        {"deep": "Go deep."},
    ),
}

CASES: dict[str, Case] = {
    "a value that a later phase has set outlives going back": Case(
        {
            "p0": [{"set": {"alpha": 1}}],
            "p1": [{"id": "s1", "agent": "lead"}, {"set": {"alpha": 7}}, {"goto": "p1", "at_most": 1}],
        },
        {"s1": "Alpha is {{ state.alpha }}."},
    ),
    "a value that was taken away stays away": Case(
        {"p0": [{"set": {"alpha": 7}}], "p1": [{"set": {"alpha": "{{ history[0].round }}"}}], "p2": [AGENT]},
        {"last": "Alpha is {{ state.alpha or 'nothing' }}."},
    ),
    "of two ways back the earlier counts and the other is forgotten": Case(
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
    "going back waits for the phase beside it": Case(
        {
            "p0": [AGENT],
            "a": [{"goto": "p0", "at_most": 1}],
            "b": [{"id": "s1", "agent": "lead"}, {"id": "s2", "agent": "critic", "writes": "b.md"}],
        },
        {"s1": "Round {{ run.round }}."},
        {"a": {"after": ["p0"]}, "b": {"after": ["p0"]}},
        pauses=3,
    ),
    "questions of earlier rounds are not asked again": Case(
        {
            "p0": [
                {"id": "q", "ask": "{{ bank('w/bank', 'any', 1) }}", "default": ""},
                AGENT,
                {"goto": "p0", "at_most": 2},
            ]
        },
        {"last": "They said {{ q.answers | map(attribute='text') | join }}."},
    ),
    "members of one step all see the same use of tokens": Case(
        {"p0": [{"id": "s1", "agent": ["lead", "critic", "scribe:bold"], "otherwise": SAY}, AGENT]},
        {"s1": "{{ run.usage.calls }} calls, {{ run.usage.input }} tokens."},
        pauses=2,
    ),
    "a file that was missing is missing again": Case(
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
    "what failed in a later round is forgiven in that round": Case(
        {
            "p0": [
                {"id": "s1", "agent": "lead", "otherwise": SAY},
                {"id": "s2", "agent": "critic", "when": "run.round > 1"},
                {"id": "s3", "agent": "scribe:bold"},
                {"goto": "p0", "at_most": 1},
            ]
        },
        {"s3": "{{ s1.text or 'nothing' }} in {{ run.round }}"},
        rules=[{"address": "*/s1/*.[12]", "fail": "other"}, {"address": "*/s2/*.[12]", "stop": "length"}],
        ends=("failed", "completed"),
    ),
    "a phase that writes over what it has read reads the same again": Case(
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
    "an inline workflow that failed is asked again": Case(
        {"p0": [{"id": "s1", "run": "inner", "retry": "twice"}, AGENT]},
        rules=[{"address": "*/deep/*.[12]", "fail": "timeout"}],
        others=INNER,
    ),
    "an inline workflow that failed for good is asked again after a resume": Case(
        {"p0": [{"id": "s1", "run": "inner"}, AGENT]},
        rules=[{"address": "*/deep/*.[12]", "fail": "timeout"}],
        others=INNER,
        ends=("failed", "completed"),
    ),
    "an inline workflow that was stood in for is not asked again": Case(
        {"p0": [{"id": "s1", "run": "inner", "otherwise": SAY}, AGENT, {"id": "s3", "agent": "scribe:bold"}]},
        rules=[{"address": "*/deep/*.[12]", "fail": "timeout"}],
        others=INNER,
    ),
    "a member with a conversation that answered is not asked again for another": Case(
        {
            "p0": [
                {"id": "s1", "agent": ["lead", "critic"], "session": "persistent"},
                {"id": "s2", "agent": ["lead", "critic"], "session": "persistent", "at_least": 2},
                {"id": "s3", "agent": "lead", "session": "persistent"},
            ]
        },
        rules=[{"address": "*/s2/critic/*.1", "fail": "overloaded"}],
    ),
    "a pattern sees nothing of an earlier evaluation": Case(
        {"p0": [{"id": "r", "read": "p0-*.md", "otherwise": SAY}, {"id": "s1", "agent": "lead", "writes": "p0-s1.md"}]},
        {"s1": "There is {{ r.text or 'nothing' }}."},
    ),
    "only the member that failed is asked again": Case(
        {"p0": [{"id": "s1", "agent": ["lead", "critic"], "at_least": 2}, AGENT]},
        rules=[{"address": "*/s1/lead/*.1", "fail": "other"}, {"address": "*/s1/critic/*.[12]", "fail": "other"}],
        ends=("failed", "completed"),
    ),
    "a breaker counts in each phase for itself": Case(
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
    "phases that fail beside each other are tried one after the other": Case(
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
    "one branch waits for a person while the other goes on": Case(
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
    "items overtake each other, fail, count for themselves and are tried again": Case(
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
    "a person is asked about some of the items, which wait while the others go on": Case(
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
    "a summary that the fast model could not give is not asked for twice": Case(
        {"p0": [AGENT], "p1": [AGENT]},
        rules=[{"address": "w/p0/summary/*", "text": "This is no JSON."}],
    ),
}


@pytest.mark.slow
@pytest.mark.row("X4")
@pytest.mark.parametrize("name", CASES)
def test_killed_at_any_moment_it_goes_on_exactly(name: str) -> None:
    case = CASES[name]
    with bench(case.workflows) as (made, here):
        whole = made.begin(here / "runs", Keep(here / "kept"))
        assert tuple(outcome.status for outcome in whole.outcomes) == case.ends
        moments = kept(whole)
        for moment in moments[:: 1 if ALL else max(1, len(moments) // MOST)]:
            assert_goes_on(made, whole, whole.calls[: moment.sent], moment)
        before, state = whole.files, whole.state
        again = made.again(here / "runs")
        assert again.calls == []
        assert again.files == before
        assert again.state == state
