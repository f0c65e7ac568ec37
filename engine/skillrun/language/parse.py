"""Turns documents into definitions, and reports what is wrong with each of them alone.

Looks at one file at a time; what concerns several files is `check`'s.
"""

import re
from collections.abc import Mapping as AbstractMapping
from dataclasses import replace
from typing import Any, Final

from skillrun.language.definitions import (
    Phase,
    PhaseUse,
    Prompt,
    Protocol,
    Reference,
    Role,
    Row,
    Score,
    Seats,
    Step,
    Value,
    Workflow,
)
from skillrun.language.diagnostics import Problems, allowed, did_you_mean
from skillrun.language.expressions import Template, compile_bare, compile_string
from skillrun.language.fields import Field, input_type
from skillrun.language.kinds import (
    KINDS,
    PHASE_USE_KEYS,
    REFERENCE_KEYS,
    RESERVED,
    ROW_KEYS,
    STEP_KEYS,
    VERBS,
    Key,
    Keys,
)
from skillrun.language.picoschema import parse_shape
from skillrun.language.source import Document, Mapping, Node, Scalar, Section, Sequence, Span, plain

NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")
_PATH: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_./-]*")
_RANGE: Final = re.compile(r"(\d+)\s*\.\.\s*(\d+)")


def parse_workflow(document: Document, name: str, problems: Problems) -> Workflow:
    """The workflow in `document`; what cannot be read is left out and reported."""
    reader = Reader(document, problems)
    entries = reader.entries(document.front, KINDS["workflow"])
    written = reader.name(entries.get("name"))
    if written and written != name:
        problems.report(entries["name"].span, "name", f"the workflow is called `{written}`, its file `{name}.md`", "give both the same name")
    preamble = None
    for section in document.sections:
        if section.name.lower() == "preamble":
            preamble = compile_string(section.text, problems)
    config = entries.get("config")
    return Workflow(
        name=name,
        description=reader.sentence(entries.get("description")),
        help=document.preface.value.strip(),
        document=document,
        inputs=reader.fields(entries.get("inputs")),
        state=reader.fields(entries.get("state")),
        outputs=reader.value_mapping(entries.get("outputs")),
        config=reader.name(config),
        config_span=config.span if config else None,
        repository=reader.template(entries.get("repository")),
        hint=reader.template(entries.get("hint")),
        parallel=reader.value(entries["parallel"]) if "parallel" in entries else None,
        phases=reader.phases(entries.get("phases"), name),
        preamble=preamble,
    )


def parse_phase(document: Document, name: str, problems: Problems) -> Phase:
    reader = Reader(document, problems)
    entries = reader.entries(document.front, KINDS["phase"])
    score = reader.score(document, name, entries, extra=("Acceptance criteria",))
    acceptance = None
    for section in document.sections:
        if section.name.lower() == "acceptance criteria":
            acceptance = compile_string(section.text, problems)
    return Phase(**vars(score), references=reader.references(entries.get("references")), acceptance=acceptance)


def parse_protocol(document: Document, name: str, problems: Problems) -> Protocol:
    reader = Reader(document, problems)
    entries = reader.entries(document.front, KINDS["protocol"])
    score = reader.score(document, name, entries)
    return Protocol(
        **vars(score), seats=reader.seats(entries.get("seats")), inputs=reader.fields(entries.get("inputs"))
    )


def parse_role(document: Document, name: str, problems: Problems) -> Role:
    """A role; keys of other tools' subagent files are left alone, only near misses of ours are reported."""
    reader = Reader(document, problems)
    entries = reader.entries(document.front, KINDS["role"], foreign=True)
    written = reader.name(entries.get("name"))
    if written and written != name:
        problems.report(entries["name"].span, "name", f"the role is called `{written}`, its file `{name}.md`", "give both the same name")
    variants: dict[str, str] = {}
    node = entries.get("variants")
    if isinstance(node, Mapping):
        variants = {key: str(plain(entry.value)) for key, entry in node.entries.items()}
    elif node is not None:
        problems.report(node.span, "type", "`variants` is a mapping of a variant's name to its lens")
    return Role(
        name=name,
        description=reader.sentence(entries.get("description")),
        model=reader.sentence(entries.get("model")) or "strong",
        tools=reader.listed(entries.get("tools")),
        skills=reader.listed(entries.get("skills")),
        variants=variants,
        body=document.body.value.strip(),
        document=document,
    )


class Reader:
    """Reads one document's frontmatter by the tables in `kinds`; every finding goes to `problems`."""

    def __init__(self, document: Document, problems: Problems) -> None:
        self.document = document
        self.problems = problems

    # mappings

    def entries(self, node: Node | None, keys: Keys, *, foreign: bool = False, also: tuple[str, ...] = ()) -> dict[str, Node]:
        """The known entries of a mapping. Unknown keys are reported before missing ones."""
        if node is None:
            return {}
        if not isinstance(node, Mapping):
            self.problems.report(node.span, "type", f"expected a mapping with the keys {', '.join(keys)}")
            return {}
        known: dict[str, Node] = {}
        for name, entry in node.entries.items():
            if name in keys or name in also:
                known[name] = entry.value
                continue
            close = did_you_mean(name, [*keys, *also])
            if foreign and not close:
                continue
            hint = close or allowed([*keys, *also])
            self.problems.report(entry.key.span, "unknown-key", f"unknown key `{name}`", hint, severity="warning" if foreign else "error")
        for name, key in keys.items():
            if key.required and name not in known:
                self.problems.report(node.span, "missing-key", f"`{name}` is missing", f"`{name}:` {key.doc}")
        return known

    def name(self, node: Node | None, pattern: re.Pattern[str] = _PATH) -> str | None:
        if node is None:
            return None
        if isinstance(node, Scalar) and isinstance(node.value, str) and pattern.fullmatch(node.value):
            return node.value
        self.problems.report(node.span, "name", "expected a name", "letters, digits, `-` and `_`, beginning with a letter")
        return None

    def sentence(self, node: Node | None) -> str:
        if node is None or (isinstance(node, Scalar) and node.value is None):
            return ""
        if isinstance(node, Scalar):
            return str(node.value)
        self.problems.report(node.span, "type", "expected text")
        return ""

    def listed(self, node: Node | None) -> tuple[str, ...]:
        """A list of names; subagent files also write `tools: Read, Grep`."""
        if node is None:
            return ()
        if isinstance(node, Sequence):
            return tuple(name for item in node.items if (name := self.sentence(item)))
        return tuple(part.strip() for part in self.sentence(node).split(",") if part.strip())

    def fields(self, node: Node | None) -> tuple[Field, ...]:
        return input_type(node, self.problems) if node is not None else ()

    # values

    def template(self, node: Node | None) -> Template | None:
        if node is None:
            return None
        if isinstance(node, Scalar) and node.text is not None:
            return compile_string(node.text, self.problems)
        self.problems.report(node.span, "type", "expected text")
        return None

    def condition(self, node: Node | None) -> Template | None:
        if node is None:
            return None
        if isinstance(node, Scalar) and node.text is not None:
            if node.text.value.strip().startswith("{{"):
                self.problems.report(node.span, "condition", "a condition is a bare expression", "leave out `{{` and `}}`")
                return None
            return compile_bare(node.text, self.problems)
        if isinstance(node, Scalar) and isinstance(node.value, bool):
            return compile_string(_const(node), self.problems)
        self.problems.report(node.span, "type", "expected an expression")
        return None

    def value(self, node: Node) -> Value:
        if isinstance(node, Mapping):
            return Value(node.span, entries={key: self.value(entry.value) for key, entry in node.entries.items()})
        if isinstance(node, Sequence):
            return Value(node.span, items=tuple(self.value(item) for item in node.items))
        if node.text is not None:
            template = compile_string(node.text, self.problems)
            return Value(node.span, plain=node.value, template=template)
        return Value(node.span, plain=node.value)

    def value_mapping(self, node: Node | None) -> dict[str, Value]:
        if node is None:
            return {}
        if not isinstance(node, Mapping):
            self.problems.report(node.span, "type", "expected a mapping of names to values")
            return {}
        return {key: self.value(entry.value) for key, entry in node.entries.items()}

    def constrained(self, node: Node, key: Key, name: str) -> Value:
        """A value of the kind that `key` takes; templates are left for the run."""
        value = self.value(node)
        literal = value.literal
        if literal is None:
            return value
        if key.takes == "choice" and literal not in key.values:
            hint = did_you_mean(str(literal), key.values) or allowed(key.values)
            self.problems.report(node.span, "choice", f"`{name}` is `{literal}`", hint)
        elif key.takes == "integer" and (not isinstance(literal, int) or isinstance(literal, bool)):
            self.problems.report(node.span, "type", f"`{name}` is `{literal}`; expected a whole number")
        elif key.takes == "boolean" and not isinstance(literal, bool):
            self.problems.report(node.span, "type", f"`{name}` is `{literal}`", allowed(("true", "false")))
        elif key.takes == "text" and not isinstance(literal, str):
            self.problems.report(node.span, "type", f"`{name}` is `{literal}`; expected text")
        return value

    # steps

    def score(self, document: Document, name: str, entries: dict[str, Node], extra: tuple[str, ...] = ()) -> Score:
        steps = self.steps(entries.get("steps"))
        prompts = self.prompts(steps, extra)
        return Score(
            name=name,
            description=self.sentence(entries.get("description")),
            document=document,
            steps=steps,
            outputs=self.value_mapping(entries.get("outputs")),
            prompts=prompts,
        )

    def steps(self, node: Node | None) -> tuple[Step, ...]:
        if node is None:
            return ()
        if not isinstance(node, Sequence):
            self.problems.report(node.span, "type", "`steps` is a list", "start each step with `- `")
            return ()
        return tuple(step for item in node.items if (step := self.step(item)) is not None)

    def step(self, node: Node, inherited: str | None = None) -> Step | None:
        if not isinstance(node, Mapping):
            self.problems.report(node.span, "type", "a step is a mapping with one verb", allowed(VERBS))
            return None
        found = [name for name in node.entries if name in VERBS]
        if len(found) != 1:
            return self._no_verb(node, found)
        verb_name = found[0]
        verb = VERBS[verb_name]
        entries = self.entries(node, STEP_KEYS, also=(verb_name, *verb.keys))
        written = self.name(entries.get("id"), NAME)
        if written and written.replace("-", "_") in RESERVED:
            self.problems.report(entries["id"].span, "reserved", f"`{written}` is the language's own name", "choose another id")
        step_id = written or inherited
        step = Step(
            verb=verb_name,
            span=node.entries[verb_name].key.span,
            id=step_id,
            id_span=entries["id"].span if "id" in entries else None,
            when=self.condition(entries.get("when")),
            retry=self.name(entries.get("retry")),
            retry_span=entries["retry"].span if "retry" in entries else None,
            otherwise=self.step(entries["otherwise"], step_id) if "otherwise" in entries else None,
        )
        if verb.section and step_id is None and not (verb_name == "write" and "template" in entries):
            self.problems.report(step.span, "missing-id", f"`{verb_name}` needs an `id`", "the id names its section in the body")
        return self._verb(step, entries, verb.main, verb.keys)

    def _no_verb(self, node: Mapping, found: list[str]) -> None:
        if found:
            second = node.entries[found[1]].key
            self.problems.report(second.span, "two-verbs", f"a step has one verb; here are {', '.join(f'`{v}`' for v in found)}", "make two steps of it")
            return
        unknown = [(key, entry) for key, entry in node.entries.items() if key not in STEP_KEYS]
        for key, entry in unknown:
            if close := did_you_mean(key, VERBS):
                self.problems.report(entry.key.span, "no-verb", f"unknown verb `{key}`", close)
                return
        span = unknown[0][1].key.span if unknown else node.span
        self.problems.report(span, "no-verb", "this step has no verb", allowed(VERBS))

    def _verb(self, step: Step, entries: dict[str, Node], main: Key, keys: Keys) -> Step:
        node = entries[step.verb]
        values = {
            name: self.constrained(entries[name], key, name)
            for name, key in keys.items()
            if name in entries and key.takes in ("text", "value", "integer", "boolean", "choice", "mapping")
        }
        if "with" in entries and not isinstance(entries["with"], Mapping):
            self.problems.report(entries["with"].span, "type", "`with` is a mapping of inputs to values")
        step = replace(
            step,
            values=values,
            output=parse_shape(entries["output"], self.problems) if "output" in entries else None,
            schema=plain(entries["schema"]) if "schema" in entries else None,
            until=self.condition(entries.get("until")),
            order=self.listed(entries.get("order")),
        )
        for name, key in keys.items():
            if key.required and name not in entries:
                self.problems.report(step.span, "missing-key", f"`{step.verb}` needs `{name}`", f"`{name}:` {key.doc}")
        if "shape" in entries:
            step = replace(step, output=parse_shape(entries["shape"], self.problems))
        if main.takes == "steps":
            return replace(step, steps=self.steps(node))
        if main.takes == "rows":
            return replace(step, rows=self.rows(node, step.order))
        if main.takes == "mapping" and not isinstance(node, Mapping):
            self.problems.report(node.span, "type", f"`{step.verb}` takes a mapping of names to values")
        if main.takes == "name":
            self.name(node)
        return replace(step, main=self.constrained(node, main, step.verb))

    def rows(self, node: Node, order: tuple[str, ...]) -> tuple[Row, ...]:
        if not isinstance(node, Sequence):
            self.problems.report(node.span, "type", "`decide` is a list of rows", "each row has `then`, and `when` but for the last")
            return ()
        rows = []
        for item in node.items:
            entries = self.entries(item, ROW_KEYS)
            if "then" not in entries and "at_least" not in entries:
                self.problems.report(item.span, "missing-key", "the row chooses nothing", "give it `then`")
            if "at_least" in entries and not order:
                self.problems.report(entries["at_least"].span, "order", "`at_least` needs the decision's `order`")
            for key in ("then", "at_least"):
                literal = self.value(entries[key]).literal if key in entries and order else None
                if literal is not None and literal not in order:
                    self.problems.report(entries[key].span, "order", f"`{literal}` is not in `order`", did_you_mean(str(literal), order) or allowed(order))
            rows.append(
                Row(
                    item.span,
                    self.condition(entries.get("when")),
                    self.value(entries["then"]) if "then" in entries else None,
                    self.value(entries["at_least"]) if "at_least" in entries else None,
                    self.value(entries["because"]) if "because" in entries else None,
                )
            )
        return tuple(rows)

    def prompts(self, steps: tuple[Step, ...], extra: tuple[str, ...]) -> dict[str, Prompt]:
        """The sections that steps use; a missing heading, and one that nothing uses, are problems."""
        everything = [step for top in steps for step in top.walk()]
        wanted: dict[str, Step] = {}
        for step in everything:
            if VERBS[step.verb].section and step.id and "template" not in step.values:
                wanted.setdefault(step.id, step)
        sections: dict[str, Section] = {}
        for section in self.document.sections:
            if section.name.lower() in {name.lower() for name in extra}:
                continue
            if section.name in wanted:
                sections[section.name] = section
                continue
            hint = did_you_mean(section.name, [name for name in wanted if name not in sections])
            self.problems.report(section.heading, "unused-section", f"no step uses the section `{section.name}`", hint or "a heading inside a prompt is written `\\##`")
        for name, step in wanted.items():
            if name not in sections:
                self.problems.report(step.id_span or step.span, "missing-section", f"the step `{name}` has no section", f"add `## {name}` to the body")
        compiled: dict[str, Prompt] = {}
        for name, section in sections.items():
            template = compile_string(section.text, self.problems)
            if template is not None:
                compiled[name] = Prompt(name, section.heading, template)
            if not section.text.value.strip() and wanted[name].verb != "write":
                self.problems.report(section.heading, "empty-section", f"the section `{name}` is empty")
        return compiled

    # workflows, phases, protocols

    def phases(self, node: Node | None, workflow: str) -> dict[str, PhaseUse]:
        if node is None:
            return {}
        if not isinstance(node, Mapping) or not node.entries:
            self.problems.report(node.span, "type", "`phases` is a mapping of phases, in order", "`phases:` then `  research:` on a line of its own")
            return {}
        uses: dict[str, PhaseUse] = {}
        previous: tuple[str, ...] = ()
        for name, entry in node.entries.items():
            self.name(entry.key, NAME)
            value = entry.value
            keys = {} if isinstance(value, Scalar) and value.value is None else self.entries(value, PHASE_USE_KEYS)
            uses[name] = PhaseUse(
                name=name,
                span=entry.key.span,
                skill=self.name(keys.get("skill")) or f"{workflow}/{name}",
                after=self.listed(keys["after"]) if "after" in keys else previous,
                when=self.condition(keys.get("when")),
                retry=self.name(keys.get("retry")),
                retry_span=keys["retry"].span if "retry" in keys else None,
                otherwise=self.step(keys["otherwise"]) if "otherwise" in keys else None,
                was=self.sentence(keys.get("was")) or None,
            )
            previous = (name,)
        return uses

    def references(self, node: Node | None) -> tuple[Reference, ...]:
        if node is None:
            return ()
        if not isinstance(node, Sequence):
            self.problems.report(node.span, "type", "`references` is a list")
            return ()
        found = []
        for item in node.items:
            if isinstance(item, Scalar):
                if name := self.name(item):
                    found.append(Reference(name, item.span, agent_skill="/" not in name))
                continue
            entries = self.entries(item, REFERENCE_KEYS)
            if name := self.name(entries.get("skill")):
                condition = self.condition(entries.get("when"))
                found.append(Reference(name, entries["skill"].span, agent_skill="/" not in name, when=condition))
        return tuple(found)

    def seats(self, node: Node | None) -> Seats:
        if isinstance(node, Sequence):
            return Seats(names=tuple(name for item in node.items if (name := self.name(item, NAME))))
        if isinstance(node, Mapping):
            number = node.get("members")
            match = _RANGE.fullmatch(str(plain(number))) if number is not None else None
            for name, entry in node.entries.items():
                if name != "members":
                    self.problems.report(entry.key.span, "unknown-key", f"unknown key `{name}`", allowed(("members",)))
            if match and int(match[1]) <= int(match[2]):
                return Seats(least=int(match[1]), most=int(match[2]))
            self.problems.report(node.span, "seats", "`members` is a range", "for example `{members: 1..4}`")
        elif node is not None:
            self.problems.report(node.span, "seats", "`seats` is a list of names, or `{members: 1..4}`")
        return Seats()


def _const(node: Scalar) -> Any:
    from skillrun.language.source import Text

    return Text.of("{{ true }}" if node.value else "{{ false }}")


KIND_FOLDERS: Final[AbstractMapping[str, str]] = {"workflow": "workflows", "role": "roles"}


def kind_of(document: Document, problems: Problems, allowed_kinds: tuple[str, ...]) -> str | None:
    """What `kind:` says, or a problem with what it may be."""
    node = document.front.get("kind")
    if node is None:
        span = document.front.span if document.front.entries else Span(document.source, 0)
        problems.report(span, "kind", "the file does not say its `kind`", allowed(allowed_kinds))
        return None
    value = plain(node)
    if value in allowed_kinds:
        return str(value)
    problems.report(node.span, "kind", f"unknown kind `{value}`", did_you_mean(str(value), allowed_kinds) or allowed(allowed_kinds))
    return None
