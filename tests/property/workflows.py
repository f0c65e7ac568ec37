"""Generates valid workflow libraries with every verb and kind of failure.

A library is drawn as plain data, so that a test can change a section or file and write it again.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from hypothesis import strategies as st

from tests.property import scores
from tests.property.scores import BREAKERS, VARIANTS, FileDraft, Step, Writer

ROLES = ("lead", "critic", "scribe")
VARIABLES = ("alpha", "beta", "gamma")
BANK = "- What is it for?\n- Who pays?\n- How many?\n- Since when?"
KINDS = (
    *(scores.agent, scores.ask, scores.write, scores.read, scores.decide, scores.say, scores.assign),
    *(scores.repeat, scores.each),
)


@dataclass
class Workflows:
    """The library of a workflow, the failures of its scripted models, and the behaviour of its user."""

    workflow: dict[str, Any]
    phases: dict[str, FileDraft]
    others: dict[str, FileDraft]
    breakers: dict[str, dict[str, Any]]
    rules: list[dict[str, Any]]
    pauses: int
    attended: bool
    patient: bool

    def files(self) -> dict[str, str]:
        """The text of every file, by its path in the project."""
        role = {"model": "strong", "variants": VARIANTS}
        return {
            "workflows/w.md": FileDraft(self.workflow, {"Preamble": "You plan together."}).text,
            **{f"skills/w/{name}.md": phase.text for name, phase in self.phases.items()},
            **{f"{name}.md": score.text for name, score in self.others.items()},
            "skills/w/bank.md": FileDraft({"kind": "questions"}, {"any": BANK}).text,
            "config/w.yaml": yaml.safe_dump({"breakers": self.breakers}, sort_keys=False),
            **{f"roles/{name}.md": FileDraft({"name": name, **role}).text + f"You are {name}.\n" for name in ROLES},
        }

    def write(self, project: Path) -> None:
        for name, text in self.files().items():
            path = project / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")

    def __repr__(self) -> str:
        """The files, to explain a failing example."""
        texts = "\n".join(f"=== {name}\n{text}" for name, text in self.files().items() if not name.startswith("roles"))
        rules = "\n".join(json.dumps(rule) for rule in self.rules)
        return f"\n{texts}\nrules:\n{rules}\npauses {self.pauses}, attended {self.attended}, patient {self.patient}\n"


@st.composite
def workflows(draw: st.DrawFn, *, gotos: bool = True, most: int = 4) -> Workflows:
    graph = _Graph(draw, [f"p{number}" for number in range(draw(st.integers(1, most)))], gotos=gotos)
    for name in graph.names:
        graph.add(name)
    front: dict[str, Any] = {
        "name": "w",
        "inputs": {"request": "string"},
        "state": {f"{name}?": {"type": "integer", "default": 0} for name in VARIABLES},
        "config": "w",
        "parallel": draw(st.booleans()),
        "phases": graph.uses,
        "outputs": {"last": f"{{{{ phases.{graph.names[-1]}.summary.summary or 'none' }}}}"},
        **({"repository": "."} if len(graph.names) % 2 else {}),
    }
    actions = ("fall back", "fall back", "skip", "sequential", "ask")
    limits = (1, 2, *(draw(st.integers(1, 2)) for _ in range(3)))
    breakers = {
        name: {"limit": limit, "then": then} for name, limit, then in zip(BREAKERS, limits, actions, strict=True)
    }
    return Workflows(
        front,
        graph.phases,
        graph.others,
        breakers,
        draw(st.one_of(st.just([]), st.lists(_rules(graph.names), min_size=2, max_size=5))),
        draw(st.integers(0, 3)),
        draw(st.booleans()),
        draw(st.booleans()),
    )


class _Graph:
    """The phases, with what each follows, reads and sets. Parallel phases follow the rules of the checker."""

    def __init__(self, draw: st.DrawFn, names: list[str], *, gotos: bool) -> None:
        self.draw, self.names, self.gotos = draw, names, gotos
        self.after: dict[str, list[str]] = {}
        self.uses: dict[str, Any] = {}
        self.phases: dict[str, FileDraft] = {}
        self.others: dict[str, FileDraft] = {}
        self.written: dict[str, list[str]] = {}
        self.sets: dict[str, set[str]] = {name: set() for name in VARIABLES}
        self.readers: dict[str, set[str]] = {name: set() for name in VARIABLES}
        self.runs: set[str] = set()
        self.protocols: tuple[str, ...] = ()
        if draw(st.booleans()):
            self.others |= {"skills/protocols/talk": scores.talk(draw), "skills/protocols/duel": scores.duel(draw)}
            self.protocols = ("talk", "duel")
        if draw(st.integers(1, 3)) == 3:
            self.others |= _inner(draw)

    def add(self, name: str) -> None:
        use = self._draw_order(name)
        above = self._ancestors(name)
        readable = [variable for variable in VARIABLES if self.sets[variable] <= above]
        writer = Writer(self.draw, f"{name}-", self._before(above), readable, self.protocols)
        for _ in range(self.draw(st.integers(1, 4))):
            self._step(writer, name, above)
        if writer.maybe(3):
            self._improve(writer, above)
        outputs = writer.outputs()
        self.phases[name] = FileDraft({"kind": "phase", "steps": writer.steps, "outputs": outputs}, writer.sections)
        self.written[name] = writer.artifacts
        if above and writer.maybe(5):
            use["when"] = writer.one_of(*writer.before, *(f"state.{variable} >= 0" for variable in readable), "history")
        if writer.maybe(3):
            use["retry"] = writer.one_of(*BREAKERS)
        if writer.maybe(5):
            question = {"ask": f"What instead of {name}?", "default": "continue"}
            use["otherwise"] = writer.one_of({"say": f"{name} has failed."}, question)
        self.uses[name] = use or None
        text = json.dumps([use, self.phases[name].front, writer.sections])
        for variable in VARIABLES:
            if f"state.{variable}" in text:
                self.readers[variable].add(name)
            if any(variable in step.get("set", {}) for step in writer.steps):
                self.sets[variable].add(name)

    def _draw_order(self, name: str) -> dict[str, Any]:
        """Draw what the phase follows: the previous phase, or one or two of the earlier ones."""
        index = self.names.index(name)
        self.after[name] = self.names[max(index - 1, 0) : index]
        if index and self.draw(st.booleans()):
            chosen = self.draw(st.sets(st.sampled_from(self.names[:index]), min_size=1, max_size=2))
            self.after[name] = sorted(chosen)
            return {"after": self.after[name]}
        return {}

    def _ancestors(self, name: str) -> set[str]:
        found = set(self.after[name])
        for one in self.after[name]:
            found |= self._ancestors(one)
        return found

    def _before(self, above: set[str]) -> list[str]:
        found = []
        for name in sorted(above):
            found += [f"phases.{name}.outputs.{key}" for key in self.phases[name].front["outputs"] if key != "flags"]
            found += [f"phases.{name}.artifacts['{path}']" for path in self.written[name]]
            found.append(f"phases.{name}.summary.summary")
        return found

    def _step(self, writer: Writer, name: str, above: set[str]) -> None:
        settable = [variable for variable in writer.state if self.readers[variable] <= above]
        kinds: list[Any] = list(KINDS)
        if self.protocols:
            kinds += [scores.panel, scores.panel]
        if settable:
            kinds += [lambda w: scores.assign_state(w, settable)] * 2
        if "workflows/inner" in self.others and self.runs <= above | {name}:
            kinds += [scores.run, scores.run]
        kind = writer.one_of(*kinds)
        if kind is scores.run:
            self.runs.add(name)
        writer.add(kind)
        if self.gotos and writer.maybe(3):
            writer.add(lambda w: scores.goto(w, [*sorted(above), name]))
        if writer.maybe(16):
            writer.add(scores.stop)

    def _improve(self, writer: Writer, above: set[str]) -> None:
        """Let a member rewrite an artifact of an earlier phase, unless a parallel phase rewrites it."""
        earlier = sorted({path for phase in above for path in self.written[phase]})
        parallel = {path for phase in self.phases.keys() - above for path in self.written[phase]}
        own = [path for path in earlier if path not in parallel]
        if own:
            step = writer.add(lambda w: scores.agent(w, "scribe:calm", writes=False))
            step["writes"] = writer.one_of(*own)
            writer.artifacts.append(step["writes"])


def _inner(draw: st.DrawFn) -> dict[str, FileDraft]:
    """A small workflow that others run inline: two phases, sometimes with a goto."""
    found: dict[str, FileDraft] = {}
    for name in ("one", "two"):
        before = ["phases.one.outputs.o1"] if name == "two" else []
        writer = Writer(draw, f"inner-{name}-", before, ["turns"], texts=["inputs.topic"])
        for _ in range(draw(st.integers(1, 2))):
            writer.add(writer.one_of(scores.agent, scores.ask, scores.write, scores.read))
        if name == "two":
            increase: Step = {"set": {"turns": "{{ state.turns + 1 }}"}}
            writer.steps.append(increase)
        if name == "two" and writer.maybe(2):
            writer.add(lambda w: scores.goto(w, ["one", "two"]))
        front = {"kind": "phase", "steps": writer.steps, "outputs": {"o1": "{{ inputs.topic }}", **writer.outputs()}}
        found[f"skills/inner/{name}"] = FileDraft(front, writer.sections)
    front = {
        "name": "inner",
        "inputs": {"topic": "string"},
        "state": {"turns": {"type": "integer", "default": 0}},
        "config": "w",
        "outputs": {"found": "{{ phases.two.outputs.o1 or 'nothing' }}", "turns": "{{ state.turns }}"},
        "phases": {"one": None, "two": None},
    }
    return {**found, "workflows/inner": FileDraft(front)}


FAULTS: tuple[dict[str, Any], ...] = (
    {"fail": "other"},
    {"fail": "timeout"},
    {"fail": "overloaded"},
    {"stop": "length"},
    {"stop": "refusal"},
    {"text": "This is not JSON."},
    {"text": '{"score": "many", "points": 3}'},
    {"text": " "},
)


def _rules(names: list[str]) -> st.SearchStrategy[dict[str, Any]]:
    """Draw a fault of some steps or members in their first attempts, so that resumed runs end."""
    places = [
        *(f"w/{name}/*" for name in names),
        *(f"*/s{n}/*" for n in (1, 2, 3)),
        "*/lead*",
        "*/critic*",
        "*/summary/*",
    ]
    return st.builds(
        lambda place, turn, attempts, fault: {"address": f"{place}/{turn}.{attempts}", **fault},
        st.sampled_from(places),
        st.sampled_from(["*", "*", "1", "2"]),
        st.sampled_from(["1", "[12]", "[1-3]", "[1-5]"]),
        st.sampled_from(FAULTS),
    )
