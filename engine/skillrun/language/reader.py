"""Reads the values of a file by the tables in `kinds`: templates, conditions, names, steps, rows.

Looks at one value at a time; whether what a name refers to exists is `check`'s concern.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any, Final

from jinja2 import nodes

from skillrun.language.definitions import Row, Step, Value
from skillrun.language.diagnostics import Problems, SkillrunError, allowed, did_you_mean, suggest
from skillrun.language.expressions import Template, compile_bare, compile_string
from skillrun.language.fields import Field, input_type
from skillrun.language.kinds import RESERVED, ROW_KEYS, STEP_KEYS, VERB_KEYS, VERBS, Key, Keys
from skillrun.language.picoschema import ShapeSpec, Type, parse_shape
from skillrun.language.schemas import Shape, shown
from skillrun.language.source import Mapping, Node, Scalar, Sequence, Span, Text, plain
from skillrun.language.templates.functions import CONTEXT_FUNCTIONS, FUNCTIONS

ID: Final = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")
NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_./-]*")
_BRACE: Final = re.compile(
    r"(?P<open>(?:\{%(?:(?!%\}).)*%|\{\{(?:(?!\}\}).)*\})(?=[ \t]*$))"
    r"|(?s:\{%-? *raw *-?%\}.*?\{%-? *endraw *-?%\}|\{%.*?%\}|\{#.*?#\})"
    r"|(?s:\{\{(?:'[^'\n]*'|\"[^\"\n]*\"|.)*?\}\})"
    r"|\{|%\}|\}\}|\}",
    re.MULTILINE,
)
MOST_TREES: Final = 10_000
_TREES: Final[dict[tuple[str, bool], nodes.Template]] = {}
OWN_NAMES: Final = RESERVED | FUNCTIONS.keys() | CONTEXT_FUNCTIONS.keys()


def close_to(name: str, options: Iterable[str]) -> str | None:
    """The option that differs from `name` by one slip: a letter left out, added or changed, or two swapped."""
    return next(
        (one for one in options if min(len(one), len(name)) > 2 and _is_slip(*sorted((one, name), key=len))), None
    )


def _is_slip(short: str, long: str) -> bool:
    at = next((place for place, letter in enumerate(short) if letter != long[place]), len(short))
    if len(short) < len(long):
        return short[at:] == long[at + 1 :]
    swapped = short[at : at + 2] == long[at : at + 2][::-1] and short[at + 2 :] == long[at + 2 :]
    return swapped or short[at + 1 :] == long[at + 1 :]


def spans_of(node: Node | None) -> dict[str, Span]:
    """Where the values of a mapping's keys stand."""
    return {key: entry.value.span for key, entry in node.entries.items()} if isinstance(node, Mapping) else {}


def compiled(text: Text, problems: Problems) -> Template | None:
    """A text as a template; a brace that was forgotten is a problem too, although the rest is a sound text."""
    value = text.value
    if value.count("}}") + value.count("%}") != value.count("{{") + value.count("{%"):
        _check_braces(text, problems)
    return _parsed(text, problems, bare=False)


def _parsed(text: Text, problems: Problems, *, bare: bool) -> Template | None:
    """A template; the tree of a text that was sound before is taken over."""
    key = (text.value, bare)
    tree = _TREES.get(key)
    if tree is not None:
        return Template(text, tree, bare)
    template = (compile_bare if bare else compile_string)(text, problems)
    if template is not None:
        if len(_TREES) >= MOST_TREES:
            _TREES.clear()
        _TREES[key] = template.tree
    return template


def _check_braces(text: Text, problems: Problems) -> None:
    """Report signs that close no tag, as far as they cannot be braces of the text itself, and statements left open."""
    depth = 0
    for found in _BRACE.finditer(text.value):
        sign = found[0]
        if sign == "{":
            depth += 1
        elif sign == "%}" or (sign == "}}" and depth < 2):
            opening = "{%" if sign == "%}" else "{{"
            problems.report(text.at(found.start()), "syntax", f"`{sign}` closes nothing", f"open it with `{opening}`")
        elif sign in ("}", "}}"):
            depth = max(0, depth - len(sign))
        elif found["open"]:
            hint = "a value ends with `}}`, a statement with `%}`"
            problems.report(text.at(found.end()), "syntax", "`}` is missing here", hint)


class Reader:
    """Every finding goes to `problems`; what cannot be read is left out."""

    def __init__(self, problems: Problems) -> None:
        self.problems = problems
        self.report = problems.report

    def read(self, node: Node | None, keys: Keys, *, foreign: bool = False) -> dict[str, Any]:
        """What the known keys of a mapping hold, each read as its key takes it."""
        known = self.entries(node, keys, foreign=foreign)
        taken = {name: self.take(name, keys[name], child) for name, child in known.items()}
        return {name: one for name, one in taken.items() if one is not None}

    def entries(self, node: Node | None, keys: Keys, *, foreign: bool = False) -> dict[str, Node]:
        """The known entries of a mapping. Of a foreign one, only near misses of keys that it lacks are reported."""
        if not isinstance(node, Mapping):
            if node is not None:
                self.wrong_type(node, f"a mapping with the keys {', '.join(keys)}")
            return {}
        if foreign and not node.entries:
            hint = "it stands at the top, between two lines `---`"
            self.report(node.span, "frontmatter", "the file has no frontmatter", hint)
        known = {name: entry.value for name, entry in node.entries.items() if name in keys}
        for name, entry in node.entries.items():
            if name in known:
                continue
            if not foreign:
                self.report(entry.key.span, "unknown-key", f"unknown key `{name}`", suggest(name, keys))
            elif close := close_to(name, keys.keys() - known.keys()):
                hint = f"did you mean `{close}`?"
                self.report(entry.key.span, "unknown-key", f"unknown key `{name}`", hint, "warning")
        for name, key in keys.items():
            if key.required and name not in known:
                self.report(node.span, "missing-key", f"`{name}` is missing", f"`{name}:` {key.doc}")
        return known

    def take(self, name: str, key: Key, node: Node) -> Any:
        """The value of a key as it takes it; None where it cannot be read."""
        read = _READ.get(key.takes)
        return read(self, node) if read is not None else self.constrained(name, key, node)

    def wrong_type(self, node: Node, expected: str, hint: str = "") -> None:
        self.report(node.span, "type", f"expected {expected}", hint)

    # single values

    def name(self, node: Node, pattern: re.Pattern[str] = NAME) -> str | None:
        if isinstance(node, Scalar) and isinstance(node.value, str) and pattern.fullmatch(node.value):
            return node.value
        hint = "letters, digits, `-` and `_`, beginning with a letter"
        self.report(node.span, "name", "expected a name", hint)
        return None

    def id(self, node: Node) -> str | None:
        found = self.name(node, ID)
        if found and found.replace("-", "_") in OWN_NAMES:
            self.report(node.span, "reserved", f"`{found}` is the language's own name", "choose another id")
        return found

    def names(self, node: Node) -> dict[str, Span]:
        """A list of names and where they stand; or text with commas, as subagent files write `tools: Read, Grep`."""
        if isinstance(node, Sequence):
            return {name: item.span for item in node.items if (name := self.sentence(item))}
        parts = (part.strip() for part in self.sentence(node).split(","))
        return {part: node.span for part in parts if part}

    def sentence(self, node: Node | None) -> str:
        if isinstance(node, Scalar):
            return "" if node.value is None else node.text.value if node.text else str(node.value)
        if node is not None:
            self.wrong_type(node, "text")
        return ""

    def fields(self, node: Node) -> tuple[Field, ...]:
        return () if isinstance(node, Scalar) and node.value is None else input_type(node, self.problems)

    def shape(self, node: Node) -> ShapeSpec:
        return parse_shape(node, self.problems) or ShapeSpec(node.span, Type("any"))

    def schema(self, node: Node) -> Any:
        try:
            return Shape.from_schema(plain(node)).schema
        except SkillrunError as error:
            self.report(node.span, "schema", error.message)
            return {}

    # templates

    def condition(self, node: Node) -> Template | None:
        if isinstance(node, Scalar) and node.text is not None:
            return _parsed(node.text, self.problems, bare=True)
        if isinstance(node, Scalar) and isinstance(node.value, bool):
            written = Text("true" if node.value else "false", node.span.source, ((0, node.span.offset),))
            return _parsed(written, self.problems, bare=True)
        self.wrong_type(node, "an expression")
        return None

    def value(self, node: Node) -> Value:
        if isinstance(node, Mapping):
            for key, entry in node.entries.items():
                if isinstance(entry.value, Scalar) and entry.value.value is None:
                    hint = "a value with a comma needs quotes inside `{ }`"
                    self.report(entry.key.span, "empty", f"`{key}` has no value", hint)
            entries = {key: self.value(entry.value) for key, entry in node.entries.items()}
            return Value(node.span, entries=entries, keys={k: entry.key.span for k, entry in node.entries.items()})
        if isinstance(node, Sequence):
            return Value(node.span, items=tuple(self.value(item) for item in node.items))
        if node.text is None:
            return Value(node.span, node.value)
        template = compiled(node.text, self.problems)
        return Value(node.span, node.value if template is not None else None, template)

    def constrained(self, name: str, key: Key, node: Node) -> Value | None:
        """A value of the kind that the key takes; templates are left for the run."""
        if isinstance(node, Scalar) and node.value is None:
            self.report(node.span, "empty", f"`{name}` has no value", f"`{name}:` {key.doc}")
            return None
        if key.takes == "mapping" and not isinstance(node, Mapping):
            self.wrong_type(node, f"a mapping of names to values for `{name}`")
            return None
        value = self.value(node)
        literal = value.literal
        if literal is None:
            return value
        wrong = _misfit(key, literal)
        if wrong is not None:
            hint = did_you_mean(str(literal), key.values) or wrong
            self.report(node.span, "choice" if key.values else "type", f"`{name}` is {shown(literal)}", hint)
        elif key.takes == "target":
            self.name(node)
        return value

    # steps

    def steps(self, node: Node) -> tuple[Step, ...]:
        if not isinstance(node, Sequence):
            self.wrong_type(node, "a list of steps", "start each step with `- `")
            return ()
        return tuple(step for item in node.items if (step := self.step(item)) is not None)

    def step(self, node: Node, inherited: str | None = None) -> Step | None:
        if not isinstance(node, Mapping):
            self.wrong_type(node, "a step, which is a mapping with one verb", allowed(VERBS))
            return None
        verbs = [name for name in node.entries if name in VERBS]
        if len(verbs) != 1:
            self.refuse_verbs(node, verbs)
            written = node.get("id")
            return Step("", node.span, spans_of(node), self.id(written) if written else inherited)
        [verb] = verbs
        inner = node.get("otherwise")
        known = Mapping({k: entry for k, entry in node.entries.items() if k != "otherwise"}, node.span)
        found = self.read(known, VERB_KEYS[verb])
        id_ = found.get("id", inherited)
        main = found.pop(verb, None)
        step = Step(
            verb=verb,
            span=node.entries[verb].key.span,
            spans=spans_of(node),
            id=id_,
            when=found.get("when"),
            retry=found.get("retry"),
            otherwise=self.step(inner, id_) if inner is not None else None,
            main=main if isinstance(main, Value) else None,
            values={name: one for name, one in found.items() if isinstance(one, Value)},
            output=found.get("output") or found.get("shape"),
            schema=found.get("schema"),
            until=found.get("until"),
            rows=main if verb == "decide" and main else (),
            steps=main if verb == "repeat" and main else (),
        )
        if VERBS[verb].section and id_ is None and "template" not in step.values:
            hint = "the id names its section in the body"
            self.report(step.span, "missing-id", f"`{verb}` needs an `id`", hint)
        self.check_order(step)
        return step

    def refuse_verbs(self, node: Mapping, verbs: list[str]) -> None:
        if verbs:
            listed = ", ".join(f"`{verb}`" for verb in verbs)
            span = node.entries[verbs[1]].key.span
            self.report(span, "two-verbs", f"a step has one verb; here are {listed}", "make two steps of it")
            return
        unknown = [(key, entry.key.span) for key, entry in node.entries.items() if key not in STEP_KEYS]
        for key, span in unknown:
            if close := did_you_mean(key, VERBS):
                self.report(span, "no-verb", f"unknown verb `{key}`", close)
                return
        span = unknown[0][1] if unknown else node.span
        self.report(span, "no-verb", "this step has no verb", allowed(VERBS))

    def rows(self, node: Node) -> tuple[Row, ...]:
        if not isinstance(node, Sequence):
            self.wrong_type(node, "a list of rows", "each row has `then`, and `when` but for the last")
            return ()
        rows = []
        for item in node.items:
            found = self.read(item, ROW_KEYS)
            if not found.keys() & {"then", "at_least"} and isinstance(item, Mapping):
                self.report(item.span, "missing-key", "the row chooses nothing", "give it `then`")
            rows.append(Row(item.span, *(found.get(name) for name in ("when", "then", "at_least", "because"))))
        return tuple(rows)

    def check_order(self, step: Step) -> None:
        """What a row chooses stands in the decision's `order`."""
        if "order" in step.values and not (step.order or any(step.values["order"].templates())):
            self.report(step.values["order"].span, "type", "expected a list of values", "for example `[low, high]`")
        for row in step.rows:
            if row.at_least is not None and "order" not in step.values:
                self.report(row.at_least.span, "order", "`at_least` needs the decision's `order`")
            for value in (row.then, row.at_least):
                literal = value.literal if value is not None and step.order else None
                if literal is not None and literal not in step.order:
                    assert value is not None
                    hint = suggest(str(literal), step.order)
                    self.report(value.span, "order", f"`{literal}` is not in `order`", hint)


_READ: Final[dict[str, Callable[[Reader, Node], Any]]] = {
    "condition": Reader.condition,
    "id": Reader.id,
    "name": Reader.name,
    "names": Reader.names,
    "sentence": Reader.sentence,
    "shape": Reader.shape,
    "json": Reader.schema,
    "fields": Reader.fields,
    "step": Reader.step,
    "steps": Reader.steps,
    "rows": Reader.rows,
    "node": lambda _, node: node,
}


def _misfit(key: Key, value: Any) -> str | None:
    """What would fit instead of a literal value; None where it fits."""
    match key.takes:
        case "choice":
            return None if value in key.values else allowed(key.values)
        case "integer":
            whole = isinstance(value, int) and not isinstance(value, bool)
            expected = "expected a whole number" + (f" of at least {key.least}" if key.least else "")
            return None if whole and (key.least is None or value >= key.least) else expected
        case "boolean":
            return None if isinstance(value, bool) else allowed(("true", "false"))
        case "text" | "target":
            return None if isinstance(value, str) else "expected text"
    return None
