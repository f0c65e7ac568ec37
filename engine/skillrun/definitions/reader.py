"""Reads the values of a file according to the key tables: templates, conditions, names, steps, rows, phases, seats.

Reads one value at a time; `checker` verifies that referenced names exist.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from itertools import permutations
from typing import Any, Final

from skillrun.definitions.definitions import (
    CHECK_KEYS,
    PHASE_USE_KEYS,
    REFERENCE_KEYS,
    ROW_KEYS,
    STEP_KEYS,
    VERB_KEYS,
    Check,
    PhaseUse,
    RecordPart,
    Reference,
    Row,
    Seats,
    Step,
)
from skillrun.definitions.verbs import QUESTION_KEYS, RESERVED, VERBS, Key, Keys
from skillrun.syntax.diagnostics import (
    Problems,
    SkillrunError,
    Suggestion,
    allowed_hint,
    did_you_mean,
    suggest,
)
from skillrun.syntax.source import Mapping, Node, Scalar, Sequence, Span, Text, to_plain
from skillrun.syntax.yaml import report_rewritten_numbers
from skillrun.templates.expressions import Template, Value, compile_condition, compile_value
from skillrun.templates.vocabulary import CONTEXT_FUNCTIONS, FUNCTIONS
from skillrun.types.fields import parse_fields
from skillrun.types.json_schema import parse_json_schema
from skillrun.types.picoschema import ShapeSpec, parse_shape
from skillrun.types.schemas import quote_value
from skillrun.types.types import ANY

ID: Final = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")
NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_./-]*")
MAX_PHASES: Final = 500  # per workflow
MAX_PARTS: Final = 1_000  # per file: steps, rows of decisions, and names that are set
LOOPS: Final = ("repeat", "each")
MAX_LOOP_DEPTH: Final = 3  # the checker visits a loop's steps twice, so each level doubles its work
RESERVED_NAMES: Final = RESERVED | FUNCTIONS.keys() | CONTEXT_FUNCTIONS.keys()
_MENTIONED: Final = re.compile(r"""'[^']*'|"[^"]*"|([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+)""")
_QUESTION: Final = "the text of a question, or a record with a `text`"
_RANGE: Final = re.compile(r"(\d+)\s*\.\.\s*(\d+)")


class Reader:
    """Reads values.

    Invalid values are reported and omitted. If `literal` is set, templates are not compiled.
    """

    def __init__(self, problems: Problems, *, literal: bool = False) -> None:
        self.problems = problems
        self.literal = literal
        self.remaining_parts = MAX_PARTS
        self.loop_depth = 0
        self.report = problems.report

    def read(self, node: Node, keys: Keys) -> dict[str, Any]:
        """Read the values of the keys of a mapping.

        A misspelled key is reported, and its value is read as the value of the intended key, to avoid further errors.
        """
        if not isinstance(node, Mapping):
            self.report_wrong_type(node, f"a mapping with the keys {', '.join(keys)}")
            return {}
        values = {}
        misspelt: dict[str, Node] = {}
        for name, entry in node.entries.items():
            if name in keys:
                values[name] = self.read_key_value(name, keys[name], entry.value)
                continue
            hint = suggest(name, keys)
            self.report(entry.key.span, "unknown-key", f"unknown key `{name}`", hint)
            if isinstance(hint, Suggestion) and hint.meant not in node.entries:
                misspelt[hint.meant] = entry.value
        for name, value in misspelt.items():
            trial = Reader(Problems.without_limit(), literal=self.literal)
            trial.remaining_parts, trial.loop_depth = self.remaining_parts, self.loop_depth
            trial_value = trial.read_key_value(name, keys[name], value)
            if not trial.problems.has_errors:  # if there are errors, another key may be intended
                values[name] = trial_value
        for name, key in keys.items():
            if key.required and name not in node.entries and name not in misspelt:
                self.report(node.span, "missing-key", f"`{name}` is missing", f"add `{name}: …`, {key.doc}")
        return {name: value for name, value in values.items() if value is not None}

    def read_key_value(self, name: str, key: Key, node: Node) -> Any:
        """Read the value of a key; None if it is invalid."""
        if (name in ("choices", "default") or key.kind == "questions") and not self.literal:
            report_rewritten_numbers(node, self.problems)
        if key.kind == "anything":
            return to_plain(node)
        read = _READ.get(key.kind)
        return read(self, node) if read is not None else self.read_constrained_value(name, key, node)

    def report_wrong_type(self, node: Node, expected: str, hint: str = "") -> None:
        self.report(node.span, "type", f"expected {expected}", hint)

    # single values

    def read_name(self, node: Node, pattern: re.Pattern[str] = NAME) -> str | None:
        if isinstance(node, Scalar) and isinstance(node.value, str) and pattern.fullmatch(node.value):
            return node.value
        self.report(node.span, "name", "expected a name", "use letters, digits, `-` and `_`, starting with a letter")
        return None

    def read_id(self, node: Node) -> str | None:
        id_ = self.read_name(node, ID)
        if id_ and id_.replace("-", "_") in RESERVED_NAMES:
            self.report(node.span, "reserved", f"`{id_}` is a reserved name", "choose another id")
        return id_

    def read_names(self, node: Node) -> dict[str, Span]:
        """Return names with their positions, from a list or from text with commas."""
        if isinstance(node, Sequence):
            return {name: item.span for item in node.items if (name := self.read_sentence(item))}
        parts = (part.strip() for part in self.read_sentence(node).split(","))
        return {part: node.span for part in parts if part}

    def read_words(self, node: Node, *, blanks: bool = False) -> dict[str, Span]:
        """Return words with their positions, in whichever form a tool writes them.

        That is a list, the keys of a mapping, or text with commas or, if `blanks`, with blanks. Commas and blanks in
        parentheses belong to a word.
        """
        if isinstance(node, Mapping):
            return {name: entry.key.span for name, entry in node.entries.items()}
        if isinstance(node, Sequence):
            found: dict[str, Span] = {}
            for item in node.items:
                name = item.get("name") if isinstance(item, Mapping) else item  # `- name: Read`
                found |= self.read_words(name if isinstance(name, Scalar) else item)
            return found
        text = self.read_sentence(node)
        words = _split_words(text, r"[,;\n]")
        return dict.fromkeys(_split_words(text, r"\s") if blanks and len(words) == 1 else words, node.span)

    def read_label(self, node: Node) -> str:
        """Return a text, or the texts of a list. Other values, such as the placeholder `{{ name }}`, are no text."""
        items = node.items if isinstance(node, Sequence) else (node,)
        texts = [item.as_written for item in items if isinstance(item, Scalar) and item.value is not None]
        return ", ".join(texts)

    def read_sentence(self, node: Node) -> str:
        if isinstance(node, Scalar):
            return "" if node.value is None else node.as_written
        self.report_wrong_type(node, "text")
        return ""

    def read_sentences(self, node: Node) -> dict[str, str]:
        if not isinstance(node, Mapping):
            self.report_wrong_type(node, "a mapping of names to texts")
            return {}
        return {name: self.read_sentence(entry.value) for name, entry in node.entries.items()}

    def read_shape(self, node: Node) -> ShapeSpec:
        if isinstance(node, Scalar) and isinstance(node.value, str) and "/" in node.value:
            return ShapeSpec(node.span, ANY, name=self.read_name(node) or "")
        return parse_shape(node, self.problems) or ShapeSpec(node.span, ANY)

    def read_record_parts(self, node: Node) -> tuple[RecordPart, ...]:
        if isinstance(node, Sequence) and not node.items:
            self.report_wrong_type(node, "a shape, the name of a template with an `output`, or a list of these")
        parts = []
        for item in node.items if isinstance(node, Sequence) else (node,):
            if isinstance(item, Scalar):
                name = self.read_name(item)
                parts += [RecordPart(item.span, name=name)] if name else []
            elif (shape := parse_shape(item, self.problems)) is not None:
                parts.append(RecordPart(item.span, shape))
        return tuple(parts)

    def read_schema(self, node: Node) -> Any:
        report_rewritten_numbers(node, self.problems, "warning")
        try:
            return parse_json_schema(to_plain(node)).schema
        except SkillrunError as error:
            self.report(node.span, "schema", error.message)
            return {}

    # templates

    def read_condition(self, node: Node) -> Template | None:
        """Compile a condition.

        To avoid further errors, an invalid condition is replaced with a condition that requires each mentioned value.
        """
        if isinstance(node, Scalar) and isinstance(node.value, bool):
            written = Text("true" if node.value else "false", node.span.source, ((0, node.span.offset),))
            return compile_condition(written, self.problems)
        if not isinstance(node, Scalar) or node.text is None:
            self.report_wrong_type(node, "an expression")
            return None
        text = node.text
        if (condition := compile_condition(text, self.problems)) is not None:
            return condition
        values, runs = "", []
        for match in _MENTIONED.finditer(text.value):
            if match[1]:
                values += " and " if values else ""
                runs.append((len(values), text.at(match.start(1)).offset))
                values += match[1]
        return compile_condition(Text(values, text.source, tuple(runs)), Problems.without_limit()) if values else None

    def read_constrained_value(self, name: str, key: Key, node: Node) -> Value | None:
        """Read a value of the key's kind; templates are rendered during the run."""
        if isinstance(node, Scalar) and node.value is None:
            self.report(node.span, "empty", f"`{name}` has no value", f"write `{name}: …`, {key.doc}")
            return None
        if key.kind == "mapping" and not isinstance(node, Mapping):
            self.report_wrong_type(node, f"a mapping of names to values for `{name}`")
            return None
        value = Value(node.span, to_plain(node)) if self.literal else compile_value(node, self.problems)
        if key.kind == "questions":
            self.check_questions(name, value)
        literal = value.literal
        if key.kind == "target" and value.is_computed:
            hint = "to choose at run time, add one step per name, each with a `when`"
            self.report(node.span, "type", f"`{name}` must be a literal name, not a template", hint)
        if literal is None:
            return value
        if not self.check_literal(name, key, value):
            return None if self.literal else value
        if key.kind == "target":
            self.read_name(node)
        return value

    def check_literal(self, name: str, key: Key, value: Value) -> bool:
        """Return whether a literal value fits the key. Report an unsuitable value, and invalid items of a list."""
        literal = value.literal
        expectation = key.expected_form(literal) if literal is not None else None
        if expectation is not None:
            hint = did_you_mean(str(literal), key.values) or expectation
            self.report(value.span, "choice" if key.values else "type", f"`{name}` is {quote_value(literal)}", hint)
            return False
        seen: set[str] = set()
        for item in value.items or () if key.kind == "list" and key.least else ():
            choice = item.literal
            if isinstance(choice, list | dict):
                self.report(item.span, "type", f"`{name}` contains {quote_value(choice)}", "expected texts or numbers")
            elif choice is not None and str(choice) in seen:
                self.report(item.span, "duplicate", f"`{name}` contains {quote_value(choice)} twice", "remove one")
            seen |= {str(choice)} if choice is not None else set()
        return True

    def check_questions(self, name: str, value: Value) -> None:
        """Report questions without text, duplicate ids, and keys of the wrong kind."""
        if value.items == ():
            self.report(value.span, "type", f"`{name}` has no questions", f"expected {_QUESTION}, or a list of these")
        seen_ids: set[str] = set()
        for question in (value,) if value.items is None else value.items:
            literal = question.literal
            if question.entries is not None:
                id_ = question.entries["id"].literal if "id" in question.entries else None
                if str(id_) in seen_ids:
                    message = f"another question has the id {quote_value(id_)}"
                    self.report(question.entries["id"].span, "duplicate-id", message, "choose another id")
                seen_ids |= {str(id_)} if id_ is not None else set()
                if "text" not in question.entries:
                    self.report(question.span, "missing-key", "this question has no `text`", "add `text: …`")
                for key in question.entries.keys() & QUESTION_KEYS.keys():
                    self.check_literal(key, QUESTION_KEYS[key], question.entries[key])
            elif literal is not None and (literal == "" or not isinstance(literal, str)):
                hint = f"expected {_QUESTION}" + ("" if value.items is not None else ", or a list of these")
                self.report(question.span, "type", f"`{name}` is {quote_value(literal)}", hint)

    # steps

    def read_items(self, node: Node, description: str, hint: str = "") -> tuple[Node, ...]:
        if isinstance(node, Sequence):
            return node.items
        first_entry = next(iter(node.entries.values()), None) if isinstance(node, Mapping) else None
        if first_entry is not None and str(first_entry.key.value).startswith("-"):
            name = str(first_entry.key.value)[1:]
            self.report(first_entry.key.span, "yaml", "a space is missing after the `-`", f"write `- {name}: …`")
            return ()
        self.report_wrong_type(node, f"a list of {description}", hint)
        return ()

    def read_steps(self, node: Node) -> tuple[Step, ...]:
        items = self.read_items(node, "steps", "start each step with `- `")
        return tuple(step for item in items if (step := self.read_step(item)) is not None)

    def read_step(self, node: Node) -> Step | None:
        if not isinstance(node, Mapping):
            self.report_wrong_type(node, "a step, which is a mapping with one verb", allowed_hint(VERBS))
            return None
        verbs = [name for name in node.entries if name in VERBS]
        if len(verbs) != 1:
            self.report_verbs(node, verbs)
            written = node.get("id")
            return Step(verb="", span=node.span, node=node, id=self.read_id(written) if written else None)
        [verb] = verbs
        main = node.entries[verb].value
        self.count_parts(node, 1 + len(main.entries) if verb == "set" and isinstance(main, Mapping) else 1)
        self.loop_depth += verb in LOOPS
        if self.loop_depth > MAX_LOOP_DEPTH:
            message = f"this `{verb}` is nested inside {MAX_LOOP_DEPTH} other loops"
            hint = "move a part into a separate phase or protocol"
            self.problems.report_and_stop(node.span, "too-deep", message, hint)
        fields = self.read(node, VERB_KEYS[verb])
        self.loop_depth -= verb in LOOPS
        if verb in fields:
            fields[{"decide": "rows", "repeat": "steps"}.get(verb, "main")] = fields.pop(verb)
        if "shape" in fields:
            fields["output"] = fields.pop("shape")
        if "as" in fields:
            fields["item"] = fields.pop("as")
        if "otherwise" in fields:
            fields["otherwise"] = _inherit_id(fields["otherwise"], fields.get("id"))
        values = {name: fields.pop(name) for name in VERBS[verb].keys if isinstance(fields.get(name), Value)}
        step = Step(verb=verb, span=node.entries[verb].key.span, node=node, values=values, **fields)
        for row in step.rows:
            if row.at_least is not None and "order" not in values:
                self.report(row.at_least.span, "order", "`at_least` needs the decision's `order`")
            for value in (row.then, row.at_least) if step.order else ():
                literal = value.literal if value is not None else None
                if value is not None and literal is not None and literal not in step.order:
                    hint = suggest(str(literal), map(str, step.order))
                    self.report(value.span, "order", f"`{literal}` is not in `order`", hint)
        return step

    def count_parts(self, node: Node, parts: int = 1) -> None:
        """Stop parsing if the file has more than MAX_PARTS parts."""
        self.remaining_parts -= parts
        if self.remaining_parts < 0:
            message = f"the file has more than {MAX_PARTS:,} steps, decision rows and `set` names in total"
            self.problems.report_and_stop(node.span, "too-many", message, "move a part into a separate phase")

    def report_verbs(self, node: Mapping, verbs: list[str]) -> None:
        """Report a step with no verb or several verbs. A verb can be a misspelled key of another verb."""
        if verbs:
            misspelt, hint = verbs[1], "split it into two steps"
            for verb, written in permutations(verbs, 2):
                keys = [key for key in VERBS[verb].keys if key not in node.entries]
                options = [key for key in keys if key.startswith(written) or written.startswith(key)]
                if close := did_you_mean(written, options, " Otherwise, split it into two steps"):
                    misspelt, hint = written, close  # for example, `write` may be meant as the key `writes` of `agent`
                    break
            listed = ", ".join(f"`{verb}`" for verb in verbs)
            span = node.entries[misspelt].key.span
            self.report(span, "two-verbs", f"a step must have one verb; this one has {listed}", hint)
            return
        unknown = [(key, entry.key.span) for key, entry in node.entries.items() if key not in STEP_KEYS]
        for key, span in unknown:
            if close := did_you_mean(key, VERBS):
                self.report(span, "no-verb", f"unknown verb `{key}`", close)
                return
        span = unknown[0][1] if unknown else node.span
        self.report(span, "no-verb", "this step has no verb", allowed_hint(VERBS))

    def read_rows(self, node: Node) -> tuple[Row, ...]:
        rows = []
        for item in self.read_items(node, "rows", "each row has `then`, and each row but the last has `when`"):
            self.count_parts(item)
            row = Row(span=item.span, **self.read(item, ROW_KEYS))
            if row.then is None and row.at_least is None and isinstance(item, Mapping):
                self.report(item.span, "missing-key", "the row has no value", "add `then`")
            rows.append(row)
        return tuple(rows)

    # parts of files

    def read_phase_uses(self, node: Node) -> dict[str, PhaseUse]:
        if not isinstance(node, Mapping) or not node.entries:
            hint = "write `phases:`, then `  research:` on the next line"
            self.report_wrong_type(node, "a mapping of phases, in order", hint)
            return {}
        if len(node.entries) > MAX_PHASES:
            span, hint = list(node.entries.values())[MAX_PHASES].key.span, "let a phase `run` another workflow"
            message = f"a workflow can have at most {MAX_PHASES} phases"
            self.problems.report_and_stop(span, "too-many", message, hint)
        uses: dict[str, PhaseUse] = {}
        previous: dict[str, Span] = {}
        for name, entry in node.entries.items():
            self.read_name(entry.key, ID)
            empty = isinstance(entry.value, Scalar) and entry.value.value is None
            fields = {} if empty else self.read(entry.value, PHASE_USE_KEYS)
            uses[name] = PhaseUse(name=name, span=entry.key.span, node=entry.value, **{"after": previous, **fields})
            previous = {name: entry.key.span}
        return uses

    def read_references(self, node: Node) -> tuple[Reference, ...]:
        references = list[Reference]()
        for item in self.read_items(node, "references"):
            named = {"skill": self.read_name(item)} if isinstance(item, Scalar) else self.read(item, REFERENCE_KEYS)
            if named.get("skill"):
                written = item.get("skill") if isinstance(item, Mapping) else item
                reference = Reference(span=(written or item).span, **named)
                if any(each.skill == reference.skill and None in (each.when, reference.when) for each in references):
                    message = f"`{reference.skill}` is listed twice, so prompts would contain its text twice"
                    self.report(reference.span, "duplicate", message, "remove one")
                references.append(reference)
        return tuple(references)

    def read_checks(self, node: Node) -> tuple[Check, ...]:
        checks = []
        for item in self.read_items(node, "checks", "each check has `must`, a condition on `config`, and `say`"):
            self.count_parts(item)
            checks.append(Check(span=item.span, **self.read(item, CHECK_KEYS)))
        return tuple(checks)

    def read_seats(self, node: Node) -> Seats:
        hint = "for example `[proposer, challenger]`, or `{members: 1..4}`"
        if isinstance(node, Sequence) and node.items:
            return Seats(names=tuple(name for item in node.items if (name := self.read_name(item, ID))))
        if isinstance(node, Mapping):
            for key, entry in node.entries.items():
                if key != "members":
                    self.report(entry.key.span, "unknown-key", f"unknown key `{key}`", allowed_hint(("members",)))
            members = node.get("members")
            match = _RANGE.fullmatch(str(to_plain(members))) if members is not None else None
            if match and 1 <= int(match[1]) <= int(match[2]):
                return Seats(least=int(match[1]), most=int(match[2]))
            self.report(node.span, "seats", "`members` must be a range that starts at 1 or more", hint)
        else:
            self.report(node.span, "seats", "`seats` must list the seats, or set the number of members", hint)
        return Seats()


_READ: Final[dict[str, Callable[[Reader, Node], Any]]] = {
    "condition": Reader.read_condition,
    "id": Reader.read_id,
    "name": Reader.read_name,
    "names": Reader.read_names,
    "sentence": Reader.read_sentence,
    "label": Reader.read_label,
    "words": Reader.read_words,
    "sentences": Reader.read_sentences,
    "shape": Reader.read_shape,
    "record": Reader.read_record_parts,
    "json": Reader.read_schema,
    "fields": lambda reader, node: parse_fields(node, reader.problems) if to_plain(node) is not None else (),
    "step": Reader.read_step,
    "steps": Reader.read_steps,
    "rows": Reader.read_rows,
    "phases": Reader.read_phase_uses,
    "references": Reader.read_references,
    "checks": Reader.read_checks,
    "seats": Reader.read_seats,
}


def _split_words(text: str, separator: str) -> list[str]:
    """Split a text at separators outside of parentheses, and remove brackets, quotes and list marks around words."""
    text = text.strip()
    text = text[1:-1] if text[:1] == "[" and text[-1:] == "]" else text
    parts = re.findall(rf"(?:\([^()]*\)|(?!{separator}).)+", text, re.DOTALL)
    return [word for part in parts if (word := part.strip().removeprefix("- ").strip().strip("'\"`").strip())]


def _inherit_id(step: Step, id: str | None) -> Step:  # noqa: A002
    """Return an `otherwise` step; if it has no id, it gets the id of the step that failed."""
    if step.id is not None:
        return step
    return replace(step, id=id, otherwise=_inherit_id(step.otherwise, id) if step.otherwise is not None else None)
