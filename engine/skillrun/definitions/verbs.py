"""Declares the kinds of keys, and the verbs with their keys.

The fields in `definitions` declare the keys of files. All code that reads, checks or explains files uses these
declarations, so every accepted key has an effect. The module reads no files.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from types import MappingProxyType
from typing import Any, Final, Literal

from skillrun.replay import EffectName
from skillrun.syntax.diagnostics import allowed_hint
from skillrun.types.records import MAX_NUMBER

KeyKind = Literal[
    "text",  # a string, rendered as a template
    "value",  # anything; strings in it are templates
    "condition",  # a bare expression
    "id",  # the name of a step
    "name",  # a literal name
    "target",  # a literal name, kept with its position
    "names",  # a list of literal names, or a single name
    "integer",
    "number",
    "boolean",
    "choice",  # one of `values`, or a template that yields one
    "mapping",  # names to values
    "list",  # a list of values, or a template that yields one; if `least` is set, duplicates are invalid
    "questions",  # a text, a record with a `text`, or a list of these
    "rows",  # the rows of a decision
    "shape",
    "record",  # a shape, the name of a template with a shape, or a list of these
    "json",  # JSON Schema, unchanged
    "fields",
    "step",
    "steps",
    "phases",
    "references",
    "checks",
    "seats",
    "sentence",  # text, never rendered
    "label",  # text or a list of texts, never rendered
    "words",  # names in any form that other tools use
    "address",  # the base URL of a provider
    "variable",  # the name of an environment variable
    "rates",  # prices of tokens
    "calls",  # tool calls
    "anything",  # any value, never rendered
    "sentences",  # names to texts
]


@dataclass(frozen=True)
class Key:
    """One key of a file's frontmatter or of a step."""

    kind: KeyKind
    doc: str
    required: bool = False
    values: tuple[str, ...] = ()
    least: int | None = None
    most: int | None = None

    def expected_form(self, value: Any) -> str | None:
        """Describe the expected form of a literal value. Return None if the value is valid."""
        match self.kind:
            case "choice" if value not in self.values:
                return allowed_hint(self.values)
            case "boolean" if not isinstance(value, bool):
                return allowed_hint(("true", "false"))
            case "list" if not isinstance(value, list) or (self.least and not value):
                return "expected a list that is not empty, such as `[low, high]`" if self.least else "expected a list"
            case "text" | "target" if not isinstance(value, str):
                return "expected text"
            case "integer" | "number":
                is_number = isinstance(value, int if self.kind == "integer" else (int, float))
                least = -MAX_NUMBER if self.least is None else self.least
                most = MAX_NUMBER if self.most is None else self.most
                if is_number and not isinstance(value, bool) and least <= value <= most:
                    return None
                form = "expected a whole number" if self.kind == "integer" else "expected a number"
                if self.most is not None:
                    return f"{form} from {self.least or 0} to {self.most:,}"
                if is_number and not -MAX_NUMBER <= value <= MAX_NUMBER:
                    return f"{form} of at most 10^18"
                return f"{form} of at least {self.least}" if self.least else form
        return None


Keys = Mapping[str, Key]


def key(kind: KeyKind, doc: str, default: Any = None, *, required: bool = False, least: int | None = None) -> Any:
    """Declare a field that is read from a key of the file. For an empty mapping, pass `dict` as `default`."""
    metadata = {"key": Key(kind, doc, required, least=least)}
    if default is dict:
        return field(default_factory=dict, metadata=metadata)
    return field(default=default, metadata=metadata)


def keys_of(definition: Any) -> Keys:
    """Return the keys that a definition reads."""
    return MappingProxyType({field.name: field.metadata["key"] for field in fields(definition) if field.metadata})


def _keys(**keys: Key) -> Keys:
    return MappingProxyType({name.rstrip("_"): key for name, key in keys.items()})


@dataclass(frozen=True)
class Verb:
    """A verb of the language: its main value, its effects, its other keys, and the fields of its result.

    `effects` does not include the effects of nested steps. However, `each` and `run` have the effect `calls`, because
    their nested steps usually make calls.
    """

    main: Key
    effects: tuple[EffectName, ...]
    keys: Keys = field(default_factory=_keys)
    result_fields: tuple[str, ...] = ()
    section: bool = False


_OUTPUT: Final = Key("shape", "the shape of a structured reply")
_SCHEMA: Final = Key("json", "the shape as JSON Schema")
_WITH: Final = Key("mapping", "the inputs to pass")
_MATERIAL: Final = Key("mapping", "the material of the prompt, by title: texts, lists, records, replies")
_FRESH: Final = Key("boolean", "call the model in each round, even if the prompt is unchanged")
_CRITERIA: Final = Key("text", "acceptance criteria that replace the criteria of the phase")
_AT_MOST: Final = Key("value", "a number, or the name of the breaker that sets the limit")
_OF_QUESTIONS: Final = _keys(
    choices=Key("list", "the answers to choose from", least=1),
    multiple=Key("boolean", "whether several choices can be selected"),
    other=Key("boolean", "whether answers other than the choices are allowed"),
    default=Key("value", "the answer if the user gives none"),
    skip=Key("boolean", "whether the user may skip the question"),
)
QUESTION_KEYS: Final = _keys(text=Key("text", "the text of the question", True), **_OF_QUESTIONS)
"""The keys of a question written as a record; other keys are kept unchanged."""

VERBS: Final[Mapping[str, Verb]] = {
    "agent": Verb(
        Key("value", "a member or a list of members"),
        ("calls",),
        _keys(
            output=_OUTPUT,
            schema=_SCHEMA,
            record=Key("record", "the record to add to a document reply"),
            points=Key("list", "the points that the reply must answer one by one"),
            writes=Key("text", "the artifact to write the reply to"),
            session=Key("choice", "whether a member continues its conversation", values=("fresh", "persistent")),
            at_least=Key("integer", "how many members of the list must reply", least=0),
            invalid=Key("choice", "how to handle invalid items of a list", values=("drop", "gather")),
            fresh=_FRESH,
            criteria=_CRITERIA,
            material=_MATERIAL,
        ),
        result_fields=("text", "data", "record", "points", "path", "replies", "degraded"),
        section=True,
    ),
    "panel": Verb(
        Key("value", "the members, in order or by seat"),
        ("calls",),
        _keys(
            protocol=Key("text", "the name of the protocol", required=True),
            with_=_WITH,
            output=_OUTPUT,
            schema=_SCHEMA,
            fresh=_FRESH,
            criteria=_CRITERIA,
            material=_MATERIAL,
        ),
        section=True,
    ),
    "ask": Verb(
        Key("questions", "a question, or a list of questions"),
        ("asks",),
        _keys(
            **_OF_QUESTIONS,
            confidence=Key("list", "the confidence levels of an answer, highest first", least=1),
            enough=Key("text", "the label with which the user ends the list and skips the remaining questions"),
            pause=Key("choice", "ask now, or exit and wait for the answer", values=("interactive", "exit")),
            form=Key("text", "the file that the user fills in while the run waits"),
            files=Key("text", "the files to wait for"),
        ),
        result_fields=("answers", "answer", "enough"),
    ),
    "read": Verb(
        Key("text", "a file or a pattern"),
        ("reads",),
        _keys(
            from_=Key("text", "`project`, or the slug of another run"),
            shape=Key("shape", "the shape of the frontmatter"),
        ),
        result_fields=("text", "data", "files"),
    ),
    "find": Verb(
        Key("value", "paths or patterns, or records with a `path`"),
        ("reads",),
        _keys(show=Key("integer", "also return the texts, up to this many lines in total", least=1)),
        result_fields=("found", "missing", "withheld", "past_end", "texts", "left_out"),
    ),
    "write": Verb(
        Key("text", "the artifact's path"),
        ("writes",),
        _keys(
            template=Key("text", "the template to use instead of the step's section"),
            frontmatter=Key("mapping", "the artifact's frontmatter"),
            shape=Key("shape", "the shape that the frontmatter must have"),
        ),
        result_fields=("path", "text"),
        section=True,
    ),
    "say": Verb(
        Key("text", "the line to print"),
        ("pure",),
        _keys(level=Key("choice", "the level; a warning is also added to the summary", values=("info", "warn"))),
    ),
    "set": Verb(Key("mapping", "the names and their values, in order"), ("pure",)),
    "decide": Verb(
        Key("rows", "the rows, each with `then`"),
        ("pure",),
        _keys(order=Key("list", "the values from lowest to highest; the highest applicable row wins", least=1)),
        result_fields=("value", "because"),
    ),
    "repeat": Verb(
        Key("steps", "the steps of one pass"),
        ("pure",),
        _keys(until=Key("condition", "stop after the first pass in which the condition holds"), at_most=_AT_MOST),
        result_fields=("times", "exhausted"),
    ),
    "each": Verb(
        Key("list", "the list"),
        ("calls",),
        _keys(
            steps=Key("steps", "the steps for one item", required=True),
            as_=Key("id", "the name of the current item; default `item`"),
            by=Key("name", "the field that identifies an item; default `id`"),
            at_once=Key("integer", "the number of items to process at a time", least=1),
            at_least=Key("integer", "the number of items that must succeed", least=0),
        ),
        result_fields=("done", "failed", "degraded"),
    ),
    "run": Verb(Key("target", "the workflow"), ("calls",), _keys(with_=_WITH)),
    "goto": Verb(Key("target", "an earlier phase, or this phase"), ("pure",), _keys(at_most=_AT_MOST)),
    "stop": Verb(
        Key("choice", "how the run ends", values=("failed", "completed")),
        ("pure",),
        _keys(reason=Key("text", "why")),
    ),
}

BREAKER_KEYS: Final = _keys(
    limit=Key("integer", "the number of consecutive failures or repetitions that triggers the breaker", True, least=1),
    then=Key("choice", "the action when the breaker triggers", True, ("fall back", "skip", "ask", "sequential")),
    ask=Key("sentence", "the question to the user"),
    choices=Key("sentences", "the choices of the user: labels for `retry`, `go_on` and `stop`"),
)
BREAKER_CHOICES: Final = ("retry", "go_on", "stop")  # what the user can choose when a breaker triggers

FEATURE_KEYS: Final = _keys(
    enabled=Key("boolean", "whether the feature can be switched on", True),
    description=Key("sentence", "the purpose, in one line"),
    rollback=Key("sentence", "how to work without the feature"),
    modes=Key("names", "the modes in which the feature is on; default all"),
    requires=Key("names", "the features that must also be on"),
)

LOOKUP: Final = "Lookup"  # for members with tools whose prompt leaves out content of the journal

ENGINE_FILES: Final = (".run", "summaries", "state.md")  # what the engine writes to a run's folder, besides `round-…`

# Names that the interpreter provides to every template; steps and locals cannot use them.
RESERVED: Final = frozenset(
    {
        "inputs", "state", "config", "features", "phases", "history", "pass", "run", "member", "task", "seats",
        "others", "bank", "members", "model", "failure", "true", "false", "none", "loop",
    }
)  # fmt: skip

# Keys of a phase's outputs that are copied to its summary, and from there to later prompts.
SUMMARY_KEYS: Final = ("flags", "key_decisions", "open_questions", "risks_identified")

# Fields that are also copied to the summary, if the record that follows a document has them.
RECORD_KEYS: Final = ("summary", *SUMMARY_KEYS[1:])
