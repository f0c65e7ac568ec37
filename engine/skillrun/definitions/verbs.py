"""What a key takes, and the verbs with their keys. The keys of files are the fields of `definitions`.

Everything that reads, checks or explains files does so by these tables, so a key that one part accepts and another
ignores cannot exist. Nothing here reads a file.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from types import MappingProxyType
from typing import Any, Final, Literal

KeyKind = Literal[
    "text",  # a string, rendered as a template
    "value",  # anything; strings in it are templates
    "condition",  # a bare expression
    "id",  # the name of a step
    "name",  # a literal name
    "target",  # a literal name, kept with its place
    "names",  # a list of literal names, or one
    "integer",
    "number",
    "boolean",
    "choice",  # one of `values`, or a template that yields one
    "mapping",  # names to values
    "list",  # a list of values, or a template that yields one; with `least`, none of them twice
    "questions",  # a text, a record with a `text`, or a list of these
    "rows",  # the rows of a decision
    "shape",
    "record",  # a shape, the name of a template that has one, or a list of these
    "json",  # JSON Schema, taken as it is
    "fields",
    "step",
    "steps",
    "phases",
    "references",
    "checks",
    "seats",
    "sentence",  # text, never rendered
    "address",  # where a provider is reached
    "variable",  # the name of an environment variable
    "rates",  # what tokens cost
    "calls",  # calls of tools
    "anything",  # as it stands, never rendered
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


Keys = Mapping[str, Key]


def key(kind: KeyKind, doc: str, default: Any = None, *, required: bool = False, least: int | None = None) -> Any:
    """A field of a definition that a key of the file gives; `default` may be the class `dict`."""
    metadata = {"key": Key(kind, doc, required, least=least)}
    return (
        field(default_factory=dict, metadata=metadata) if default is dict else field(default=default, metadata=metadata)
    )


def keys_of(definition: Any) -> Keys:
    """The keys that a definition reads."""
    return MappingProxyType({field.name: field.metadata["key"] for field in fields(definition) if field.metadata})


def _keys(**keys: Key) -> Keys:
    return MappingProxyType({name.rstrip("_"): key for name, key in keys.items()})


@dataclass(frozen=True)
class Verb:
    """A verb of the language: what its own value takes, the keys beside it, and the fields its id gives."""

    main: Key
    keys: Keys = field(default_factory=_keys)
    result_fields: tuple[str, ...] = ()
    section: bool = False


_OUTPUT: Final = Key("shape", "the shape of a structured reply")
_SCHEMA: Final = Key("json", "the same in JSON Schema")
_WITH: Final = Key("mapping", "the inputs it is given")
_MATERIAL: Final = Key("mapping", "what is handed over, by title: texts, lists, records, replies")
_FRESH: Final = Key("boolean", "ask again in each round, even the same prompt")
_CRITERIA: Final = Key("text", "when its work is done, in place of the phase's acceptance criteria")
_AT_MOST: Final = Key("value", "a number, or the name of a breaker whose limit it is")
_OF_QUESTIONS: Final = _keys(
    choices=Key("list", "the answers to choose from", least=1),
    multiple=Key("boolean", "whether several may be chosen"),
    other=Key("boolean", "whether an answer of one's own is allowed beside the choices"),
    default=Key("value", "the answer when nobody gives one"),
    skip=Key("boolean", "whether the person may leave a question open"),
)
QUESTION_KEYS: Final = _keys(text=Key("text", "its words", True), **_OF_QUESTIONS)
"""What a question that is written as a record may have; its other keys are kept as they are."""

VERBS: Final[Mapping[str, Verb]] = {
    "agent": Verb(
        Key("value", "a member or a list of members"),
        _keys(
            output=_OUTPUT,
            schema=_SCHEMA,
            record=Key("record", "the record that comes with a reply that is a document"),
            points=Key("list", "what the reply has to answer, point by point"),
            writes=Key("text", "the artifact that takes the reply"),
            session=Key("choice", "whether a member keeps its conversation", values=("fresh", "persistent")),
            at_least=Key("integer", "how many of a list have to answer", least=0),
            invalid=Key("choice", "what happens to bad items of a list", values=("drop", "gather")),
            fresh=_FRESH,
            criteria=_CRITERIA,
            material=_MATERIAL,
        ),
        result_fields=("text", "data", "record", "points", "path", "replies", "degraded"),
        section=True,
    ),
    "panel": Verb(
        Key("value", "the members, in order or by seat"),
        _keys(
            protocol=Key("text", "the protocol's name", required=True),
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
        Key("questions", "a question, or a list of them"),
        _keys(
            **_OF_QUESTIONS,
            confidence=Key("list", "how sure an answer may be, from the most to the least", least=1),
            enough=Key("text", "the words with which the person ends the list, and leaves the rest open"),
            pause=Key("choice", "ask now, or end and wait", values=("interactive", "exit")),
            form=Key("text", "the file to fill in while the run waits"),
            files=Key("text", "the files to wait for"),
        ),
        result_fields=("answers", "answer", "enough"),
    ),
    "read": Verb(
        Key("text", "a file or a pattern"),
        _keys(
            from_=Key("text", "`project`, or the slug of another run"),
            shape=Key("shape", "the shape of the frontmatter"),
        ),
        result_fields=("text", "data", "files"),
    ),
    "find": Verb(
        Key("value", "paths or patterns, or records with a `path`"),
        _keys(show=Key("integer", "gives their text, too: so many lines of all together", least=1)),
        result_fields=("found", "missing", "withheld", "texts", "left_out"),
    ),
    "write": Verb(
        Key("text", "the artifact's path"),
        _keys(
            template=Key("text", "the template to use instead of the step's section"),
            frontmatter=Key("mapping", "the artifact's frontmatter"),
            shape=Key("shape", "the shape that the frontmatter has to have"),
        ),
        result_fields=("path", "text"),
        section=True,
    ),
    "say": Verb(
        Key("text", "the line"),
        _keys(level=Key("choice", "a warning also goes into the summary", values=("info", "warn"))),
    ),
    "set": Verb(Key("mapping", "names and their values, in order")),
    "decide": Verb(
        Key("rows", "the rows, each with `then`"),
        _keys(order=Key("list", "from the least to the most; the furthest holding row wins", least=1)),
        result_fields=("value", "because"),
    ),
    "repeat": Verb(
        Key("steps", "the steps of one pass"),
        _keys(until=Key("condition", "stop after the pass in which this holds"), at_most=_AT_MOST),
        result_fields=("times", "exhausted"),
    ),
    "each": Verb(
        Key("list", "the list"),
        _keys(
            steps=Key("steps", "the steps for one item", required=True),
            as_=Key("id", "what an item is called; `item` without it"),
            by=Key("name", "the field that tells items apart; `id` without it"),
            at_once=Key("integer", "how many items at a time", least=1),
            at_least=Key("integer", "how many items have to succeed", least=0),
        ),
        result_fields=("done", "failed", "degraded"),
    ),
    "run": Verb(Key("target", "the workflow"), _keys(with_=_WITH)),
    "goto": Verb(Key("target", "an earlier phase, or this one"), _keys(at_most=_AT_MOST)),
    "stop": Verb(
        Key("choice", "how the run ends", values=("failed", "completed")),
        _keys(reason=Key("text", "why")),
    ),
}

BREAKER_KEYS: Final = _keys(
    limit=Key("integer", "how many failures in a row it takes, or how often something is repeated", True, least=1),
    then=Key("choice", "what happens then", True, ("fall back", "skip", "ask", "sequential")),
    ask=Key("sentence", "the words in which the person is asked"),
    choices=Key("sentences", "what the person may choose: words for `retry`, `go_on` and `stop`"),
)
BREAKER_CHOICES: Final = ("retry", "go_on", "stop")  # what a person may choose at a breaker's limit

FEATURE_KEYS: Final = _keys(
    enabled=Key("boolean", "whether it can be on at all", True),
    description=Key("sentence", "one line that says what it is for"),
    rollback=Key("sentence", "how to do without it"),
    modes=Key("names", "the modes that it is on in; all of them without it"),
    requires=Key("names", "the features that have to be on as well"),
)

TOOLS: Final = ("Read", "Outline", "Grep", "Glob", "List")
LOOKUP: Final = "Lookup"  # what whoever has tools has as well, where something on record is not in their prompt

ENGINE_FILES: Final = (".run", "summaries", "state.md")  # where a run keeps its own, beside the folders `round-…`

# Names that the interpreter gives every template; a step or a local cannot take one of them.
RESERVED: Final = frozenset(
    {
        "inputs", "state", "config", "features", "phases", "history", "pass", "run", "member", "task", "seats",
        "others", "bank", "members", "model", "failure", "true", "false", "none", "loop",
    }
)  # fmt: skip

# Keys of a phase's outputs that go into its summary, and from there into later prompts.
SUMMARY_KEYS: Final = ("flags", "key_decisions", "open_questions", "risks_identified")

# Fields of what a step asks for beside its document that go there too.
RECORD_KEYS: Final = ("summary", *SUMMARY_KEYS[1:])
