"""Draws the steps of generated phases and protocols: every verb, with readable names in templates and conditions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import yaml
from hypothesis import strategies as st

VARIANTS = {"bold": "the daring way", "calm": "the careful way"}
MEMBERS = ("lead", "critic", "scribe:bold", "scribe:calm", "critic:bold", "lead@scripted:other")
BREAKERS = ("once", "twice", "skipper", "queue", "asker")
SHAPE = {"score": "integer 0..100", "body": "string", "points(array)": "string"}
NOTED = {"note": "string", "mark?": "integer 0..9"}
MEMBER_PATH = "{{ member.role }}-{{ member.variant or 'plain' }}-{{ member.model }}.md"

Step = dict[str, Any]


@dataclass
class FileDraft:
    """A file to be written: frontmatter and sections."""

    front: dict[str, Any]
    sections: dict[str, str] = field(default_factory=dict)

    @property
    def text(self) -> str:
        front = yaml.safe_dump(self.front, sort_keys=False, width=10_000, allow_unicode=True)
        return f"---\n{front}---\n" + "".join(f"## {name}\n{text}\n\n" for name, text in self.sections.items())


@dataclass
class Writer:
    """Draws steps in order; each may read the results of earlier ones. `before` and `state` are from other phases."""

    draw: st.DrawFn
    prefix: str
    before: list[str] = field(default_factory=list)
    state: list[str] = field(default_factory=list)
    protocols: tuple[str, ...] = ()
    history: bool = True
    texts: list[str] = field(default_factory=list)
    conditions: list[str] = field(default_factory=lambda: ["run.round == 1", "run.round > 1"])
    lists: list[str] = field(default_factory=list)
    sections: dict[str, str] = field(default_factory=dict)
    artifacts: list[str] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    ids: int = 0

    def maybe(self, one_in: int = 4) -> bool:
        return self.draw(st.integers(1, one_in)) == one_in

    def one_of(self, *options: Any) -> Any:
        return self.draw(st.sampled_from(options))

    def add(self, draw_step: Callable[[Writer], Step]) -> Step:
        self.steps.append(draw_step(self))
        return self.steps[-1]

    def id(self) -> str:
        self.ids += 1
        return f"s{self.ids}"

    def reads(self) -> list[str]:
        """Templates that print earlier results."""
        found = [f"{{{{ {text} or 'nothing' }}}}" for text in [*self.texts, *self.before]]
        found += [f"{{{{ state.{name} or 'no {name}' }}}}" for name in self.state]
        found += [f"{{{{ others({name}) | length }}}} others" for name in self.lists]
        if self.history:
            found.append("{% for past in history %}{{ past.round }}: {{ past.phases | list }} {% endfor %}")
        return [*found, "{{ run.usage.calls }} calls", "round {{ run.round }}"]

    def material(self) -> dict[str, str]:
        """All earlier results as material."""
        texts = {f"Text {at}": f"{{{{ {text} }}}}" for at, text in enumerate([*self.texts, *self.before])}
        return texts | {f"Replies {at}": f"{{{{ others({name}) }}}}" for at, name in enumerate(self.lists)}

    def prompt(self, name: str) -> str:
        parts = self.draw(st.lists(st.sampled_from(self.reads()), max_size=3))
        return "\n".join([f"Do {self.prefix}{name}.", *parts])

    def condition(self) -> str:
        found = [
            *self.conditions,
            *(f"not {one}" for one in self.before),
            *(f"state.{name} > 0" for name in self.state),
        ]
        return str(self.one_of(*found))

    def add_guards(self, step: Step) -> None:
        """Sometimes add a condition, a breaker or a fallback."""
        if self.maybe(6):
            step["when"] = self.condition()
        if self.maybe(3):
            step["retry"] = self.one_of(*BREAKERS)
        if self.maybe(3):
            say = {"say": f"{step['id']} has failed.", "level": "warn"}
            ask = {"ask": f"What instead of {step['id']}?", "default": "nothing"}
            step["otherwise"] = self.one_of(say, ask, {"set": {f"{step['id']}_stood_in": "yes"}})

    def outputs(self) -> dict[str, Any]:
        found: dict[str, Any] = {f"o{number}": f"{{{{ {text} }}}}" for number, text in enumerate(self.texts[-3:], 1)}
        return found | ({"flags": {"noted": self.one_of(*self.reads())}} if self.maybe(3) else {})


def agent(writer: Writer, who: Any = None, *, shaped: bool | None = None, writes: bool = True) -> Step:
    """A step for one or several members; `who` names the seats of a protocol."""
    several = writer.maybe(2) if who is None else isinstance(who, list)
    name = writer.id()
    step: Step = {"id": name, "agent": who or writer.one_of(*MEMBERS)}
    if several and who is None:
        step["agent"] = writer.draw(st.lists(st.sampled_from(MEMBERS), min_size=2, max_size=3, unique=True))
    elif several:
        step["agent"] = who[0]
    writer.sections[name] = writer.prompt(name)
    if writer.maybe(2):
        writer.sections[name] += "\nYou are {{ member.role }}, {{ member.variant or 'plain' }}."
    handed = writer.material()
    if handed and writer.maybe(2):
        step["material"] = handed
    shaped = writer.maybe(2) if shaped is None else shaped
    if shaped:
        step["output"] = dict(SHAPE)
    else:
        _attach(writer, step, several=several)
    if shaped and writer.maybe():
        step["invalid"] = "drop"
    if writes and writer.maybe(2):
        step["writes"] = f"{writer.prefix}{name}-{MEMBER_PATH}" if several else f"{writer.prefix}{name}.md"
        writer.artifacts += [] if several else [step["writes"]]
    if writer.maybe():
        step["session"] = "persistent"
    if writer.maybe(6):
        step["fresh"] = True
    if several and writer.maybe(3):
        step["at_least"] = writer.one_of(0, 1, 2)
    writer.add_guards(step)
    writer.texts.append(f"{name}.text")
    writer.conditions += [f"{name}.text", f"{name}.degraded"]
    if several:
        writer.lists.append(name)
    if shaped:
        score = f"{name}.data | map(attribute='score') | sum" if several else f"{name}.data.score"
        writer.conditions += [f"{score} > 50", f"{score} > 20"]
    return step


def _attach(writer: Writer, step: Step, *, several: bool) -> None:
    """Sometimes add a record or points to a text reply."""
    if writer.maybe(3):
        step["record"] = writer.one_of("system/record", dict(NOTED), ["system/record", dict(NOTED)])
        if not several and step["record"] != "system/record":
            writer.texts.append(f"{step['id']}.record.note")
    if writer.maybe(4):
        step["points"] = writer.one_of(["Too long."], [{"id": "X", "what": "Too long."}, "Why?"], [])


def panel(writer: Writer) -> Step:
    name = writer.id()
    writer.sections[name] = writer.prompt(name) + "\nYou are {{ member.role }}."
    members = writer.draw(st.lists(st.sampled_from(MEMBERS), min_size=1, max_size=3, unique=True))
    step: Step = {"id": name, "panel": members, "protocol": writer.one_of(*writer.protocols)}
    if step["protocol"] == "duel" and writer.maybe(2):
        step["panel"] = {"first": writer.one_of(*MEMBERS), "second": writer.one_of(*MEMBERS)}
    if writer.maybe(2):
        step["output"] = dict(SHAPE)
    if writer.maybe(6):
        step["fresh"] = True
    writer.add_guards(step)
    writer.texts.append(f"{name}.said")
    writer.conditions += [f"{name}.said", f"{name}.degraded"]
    return step


def ask(writer: Writer) -> Step:
    name = writer.id()
    text = writer.one_of(f"Is {writer.prefix}{name} right?", writer.prompt(name), "{{ bank('w/bank', 'any', 2) }}")
    step: Step = {"id": name, "ask": text, "default": writer.one_of("", "yes", "no")}
    if "bank" not in text and writer.maybe(2):
        step |= {"choices": ["yes", "no"], "default": writer.one_of("yes", "no")}
    if writer.maybe(6):
        step["when"] = writer.condition()
    writer.texts.append(f"{name}.answer")
    writer.conditions += [f"{name}.answer == 'yes'", f"not {name}.answer"]
    return step


def repeat(writer: Writer) -> Step:
    name, before = writer.id(), list(writer.conditions)
    inner = [agent(writer)]
    first = inner[0]["id"]
    seen = writer.one_of("", "{{ pass.index }}", f"{{{{ pass.previous.{first}.text or 'first' }}}}")
    writer.sections[first] += f"\n{seen}"
    if "writes" in inner[0] and writer.maybe(2):
        inner[0]["writes"] = f"{writer.prefix}{first}-{{{{ pass.index }}}}-{MEMBER_PATH}"
    more = [ask, write, assign, read] if writer.history else [assign]
    if writer.maybe(2):
        inner.append(writer.one_of(*more)(writer))
    if writer.protocols and writer.maybe():
        inner.append(panel(writer))
    step: Step = {"id": name, "repeat": inner, "at_most": writer.one_of(1, 2, 3, "twice")}
    if writer.maybe(2):
        step["until"] = writer.one_of(*writer.conditions[len(before) :])
    if writer.maybe(6):
        step["when"] = writer.one_of(*before)
    writer.texts.append(f"{name}.times")
    writer.conditions.append(f"{name}.exhausted")
    return step


def each(writer: Writer) -> Step:
    """Steps for every item of a literal list, sometimes with a duplicate id, or of a list from a reply."""
    items: Any = writer.one_of(
        [{"id": "T-1", "what": "the roof"}, {"id": "T-2", "what": "the door"}],
        [{"id": "T-1", "what": "the roof"}, {"id": "T-1", "what": "the wall"}],
        ["red", "dark blue", "red"],
    )
    if writer.maybe(4):
        source = writer.add(lambda w: agent(w, w.one_of(*MEMBERS), shaped=True))
        for key in ("when", "retry", "otherwise"):
            source.pop(key, None)
        items = f"{{{{ {source['id']}.data.points }}}}"
    name, prefix = writer.id(), writer.prefix
    word = "{{ item.what }}" if isinstance(items[0], dict) else "{{ item }}"
    before = [list(known) for known in (writer.texts, writer.conditions, writer.lists)]
    inner = [agent(writer, writes=False)]
    first = inner[0]["id"]
    writer.sections[first] += f"\n{word}"
    if writer.maybe(2):
        several = isinstance(inner[0]["agent"], list)
        inner[0]["writes"] = f"{prefix}{first}-{word.replace(' }}', ' | slug }}')}-{MEMBER_PATH if several else 'x.md'}"
    if writer.maybe(2):
        inner.append(writer.one_of(*([ask, read, assign] if writer.history else [assign]))(writer))
    if writer.protocols and writer.maybe(6):
        inner.append(panel(writer))
    if writer.maybe(3):
        inner.append({"stop": "failed", "reason": "Not this one.", "when": writer.conditions[-1]})
    if writer.maybe(6):
        inner = [{"id": writer.id(), "repeat": inner, "at_most": 2}]
    inner.append({"say": f"{word} is through.", "level": writer.one_of("info", "warn")})
    writer.texts[:], writer.conditions[:], writer.lists[:] = before
    step: Step = {"id": name, "each": items, "steps": inner, "at_once": writer.one_of(1, 2)}
    if writer.maybe(2):
        step["at_least"] = writer.one_of(0, 2)
    writer.add_guards(step)
    writer.texts += [f"{name}.done | map(attribute='id') | join(' ')", f"{name}.done | map(attribute='{first}') | list"]
    writer.conditions += [f"{name}.failed", f"{name}.done | length > 1"]
    return step


def assign(writer: Writer) -> Step:
    """Set a local name."""
    name = f"l{writer.id()}"
    step = {"set": {name: writer.one_of(*(f"{{{{ {text} or 'none' }}}}" for text in writer.texts), "plain")}}
    writer.texts.append(name)
    writer.conditions.append(name)
    return step


def assign_state(writer: Writer, names: list[str]) -> Step:
    """Increase, reset or clear a variable of the workflow."""
    name = writer.one_of(*names)
    increased = f"{{{{ (state.{name} or 0) + 1 }}}}"
    step: Step = {"set": {name: writer.one_of(increased, 0, 7, "{{ run.round }}", "{{ history[0].round }}")}}
    return step | ({"when": writer.condition()} if writer.maybe() else {})


def decide(writer: Writer) -> Step:
    name = writer.id()
    rows = [{"when": writer.condition(), "then": "deep", "because": "it holds"}, {"then": "flat"}]
    writer.texts.append(f"{name}.value")
    writer.conditions.append(f"{name}.value == 'deep'")
    return {"id": name, "decide": rows}


def say(writer: Writer) -> Step:
    return {"say": writer.one_of(*writer.reads()), "level": writer.one_of("info", "warn")}


def write(writer: Writer) -> Step:
    name = writer.id()
    writer.sections[name] = writer.prompt(name)
    step: Step = {"id": name, "write": writer.one_of(f"{writer.prefix}{name}.md", f"{writer.prefix}shared.md")}
    writer.artifacts.append(step["write"])
    if writer.maybe():
        step["frontmatter"] = {"round": "{{ run.round }}", "text": writer.one_of(*writer.reads())}
    if writer.maybe(6):
        step["when"] = writer.condition()
    writer.texts.append(f"{name}.text")
    return step


def read(writer: Writer) -> Step:
    """Read files that this phase may have written, or writes later."""
    name = writer.id()
    pattern = writer.one_of("*.md", "shared.md", "s2.md")
    step: Step = {"id": name, "read": writer.prefix + pattern, "otherwise": {"say": "There was nothing to read."}}
    if writer.maybe(3):
        step["retry"] = writer.one_of("once", "twice")
    if pattern == "s2.md":
        return find(writer, step)
    writer.texts.append(f"{name}.text")
    writer.conditions.append(f"{name}.text")
    return step


def find(writer: Writer, step: Step) -> Step:
    """Find files in the repository instead of reading a file."""
    del step["read"]
    step["find"] = ["skills/w/bank.md", "none.md", ".env", "skills/*/*.md", f"{writer.prefix}s2.md"]
    writer.texts.append(f"{step['id']}.missing | length")
    writer.conditions.append(f"{step['id']}.found")
    return step


def run(writer: Writer) -> Step:
    name = writer.id()
    step: Step = {"id": name, "run": "inner", "with": {"topic": f"part {name}"}}
    writer.add_guards(step)
    writer.texts.append(f"{name}.found")
    writer.conditions.append(f"{name}.found")
    return step


def goto(writer: Writer, targets: list[str]) -> Step:
    step: Step = {"goto": writer.one_of(*targets), "at_most": writer.one_of(1, 2, "once"), "when": writer.condition()}
    return step | ({"otherwise": {"say": "No way back is left."}} if writer.maybe() else {})


def stop(writer: Writer) -> Step:
    return {"stop": writer.one_of("failed", "completed"), "reason": "Enough.", "when": writer.condition()}


def talk(draw: st.DrawFn) -> FileDraft:
    """A protocol for any members: they reply, may see each other's replies, and may repeat."""
    writer = Writer(draw, "talk-", history=False, conditions=["run.round == 1"])
    first = writer.add(lambda w: agent(w, ["{{ seats.members }}"], shaped=False, writes=False))
    first |= {"output": "task"} if writer.maybe(2) and not first.keys() & {"record", "points"} else {}
    writer.sections[first["id"]] += "\n{{ task }}"
    if writer.maybe(2):
        second = writer.add(lambda w: agent(w, writes=False))
        second["material"] = {"What the others said": f"{{{{ others({first['id']}) }}}}"}
    said = writer.texts[-1]
    if writer.maybe():
        loop = writer.add(repeat)
        loop["repeat"][0].pop("writes", None)
    outputs = {"said": f"{{{{ {said} or 'silence' }}}}"}
    front = {"kind": "protocol", "seats": {"members": "1..3"}, "steps": writer.steps, "outputs": outputs}
    return FileDraft(front, writer.sections)


def duel(draw: st.DrawFn) -> FileDraft:
    """A protocol with named seats."""
    writer = Writer(draw, "duel-", history=False, conditions=["run.round == 1"])
    for seat in ("first", "second", "first"):
        step = agent(writer, f"{{{{ seats.{seat} }}}}", shaped=False, writes=False)
        plain = seat == "first" and not step.keys() & {"record", "points"}
        step |= {"output": "task"} if plain and writer.maybe(2) else {}
        writer.sections[step["id"]] += "\n{{ task }}"
        writer.steps.append(step)
    outputs = {"said": f"{{{{ {writer.texts[-1]} or {writer.texts[0]} or 'silence' }}}}"}
    front = {"kind": "protocol", "seats": ["first", "second"], "steps": writer.steps, "outputs": outputs}
    return FileDraft(front, writer.sections)
