"""The one set of definitions: which keys each kind of file and each verb has, and what each key takes.

Everything that reads, checks or explains files does so by these tables, so a key that one part accepts and another
ignores cannot exist. Nothing here reads a file.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, Literal

Takes = Literal[
    "text",  # a string, rendered as a template
    "value",  # anything; strings in it are templates
    "condition",  # a bare expression
    "id",  # the name of a step
    "name",  # a literal name
    "target",  # a literal name, kept with its place
    "names",  # a list of literal names, or one
    "integer",
    "boolean",
    "choice",  # one of `values`, or a template that yields one
    "mapping",  # names to values
    "rows",  # the rows of a decision
    "shape",
    "json",  # JSON Schema, taken as it is
    "fields",
    "step",
    "steps",
    "sentence",  # text, never rendered
    "node",  # read by the kind of file itself
]


@dataclass(frozen=True)
class Key:
    """One key of a file's frontmatter or of a step."""

    takes: Takes
    doc: str
    required: bool = False
    values: tuple[str, ...] = ()
    least: int | None = None


Keys = Mapping[str, Key]


def _keys(**keys: Key) -> Keys:
    return MappingProxyType({name.rstrip("_").replace("__", "-"): key for name, key in keys.items()})


@dataclass(frozen=True)
class Verb:
    """A verb of the language: what its own value takes, the keys beside it, and the fields its id gives."""

    main: Key
    doc: str
    keys: Keys = field(default_factory=_keys)
    gives: tuple[str, ...] = ()
    section: bool = False


STEP_KEYS: Final = _keys(
    id=Key("id", "the name that later steps, the section and the journal know it by"),
    when=Key("condition", "run only when this holds"),
    retry=Key("name", "the breaker that counts its failures"),
    otherwise=Key("step", "the step that stands in for it when it fails"),
)

_OUTPUT: Final = Key("shape", "the shape of a structured reply")
_SCHEMA: Final = Key("json", "the same in JSON Schema")
_WITH: Final = Key("mapping", "the inputs it is given")
_AT_MOST: Final = Key("value", "a number, or the name of a breaker whose limit it is")

VERBS: Final[MappingProxyType[str, Verb]] = MappingProxyType(
    {
        "agent": Verb(
            Key("value", "a member or a list of members"),
            "one or several members answer the step's section",
            _keys(
                output=_OUTPUT,
                schema=_SCHEMA,
                writes=Key("text", "the artifact that takes the reply"),
                session=Key("choice", "whether a member keeps its conversation", values=("fresh", "persistent")),
                at_least=Key("integer", "how many of a list have to answer", least=0),
                invalid=Key("choice", "what happens to bad items of a list", values=("drop",)),
                fresh=Key("boolean", "ask again in each round, even the same prompt"),
            ),
            gives=("text", "data", "path", "replies", "degraded"),
            section=True,
        ),
        "panel": Verb(
            Key("value", "the members, in order or by seat"),
            "seats members in a protocol",
            _keys(
                protocol=Key("text", "the protocol's name", required=True),
                with_=_WITH,
                output=_OUTPUT,
                schema=_SCHEMA,
                fresh=Key("boolean", "ask again in each round, even the same prompts"),
            ),
            section=True,
        ),
        "ask": Verb(
            Key("value", "a question, or a list of them"),
            "puts questions to the person",
            _keys(
                choices=Key("value", "the answers to choose from"),
                multiple=Key("boolean", "whether several may be chosen"),
                other=Key("boolean", "whether an answer of one's own is allowed beside the choices"),
                default=Key("value", "the answer when nobody gives one"),
                pause=Key("choice", "ask now, or end and wait", values=("interactive", "exit")),
                form=Key("text", "the file to fill in while the run waits"),
                files=Key("text", "the files to wait for"),
            ),
            gives=("answers", "answer"),
        ),
        "read": Verb(
            Key("text", "a file or a pattern"),
            "reads files",
            _keys(
                from_=Key("text", "`project`, or the slug of another run"),
                shape=Key("shape", "the shape of the frontmatter"),
            ),
            gives=("text", "data", "files"),
        ),
        "write": Verb(
            Key("text", "the artifact's path"),
            "writes an artifact without a model",
            _keys(
                template=Key("text", "the template to use instead of the step's section"),
                frontmatter=Key("mapping", "the artifact's frontmatter"),
            ),
            gives=("path", "text"),
            section=True,
        ),
        "say": Verb(
            Key("text", "the line"),
            "tells the user, and keeps it in the record",
            _keys(level=Key("choice", "a warning also goes into the summary", values=("info", "warn"))),
        ),
        "set": Verb(Key("mapping", "names and their values, in order"), "sets state and local names"),
        "decide": Verb(
            Key("rows", "the rows, each with `then`"),
            "chooses by rules and keeps the reason",
            _keys(order=Key("value", "from the least to the most; the furthest holding row wins")),
            gives=("value", "because"),
        ),
        "repeat": Verb(
            Key("steps", "the steps of one pass"),
            "runs steps until a condition holds",
            _keys(until=Key("condition", "stop after the pass in which this holds"), at_most=_AT_MOST),
            gives=("times", "exhausted"),
        ),
        "run": Verb(Key("target", "the workflow"), "runs another workflow in this run", _keys(with_=_WITH)),
        "goto": Verb(
            Key("target", "an earlier phase, or this one"), "goes back in a new round", _keys(at_most=_AT_MOST)
        ),
        "stop": Verb(
            Key("choice", "how the run ends", values=("failed", "completed")),
            "ends the run",
            _keys(reason=Key("text", "why")),
        ),
    }
)

VERB_KEYS: Final[MappingProxyType[str, Keys]] = MappingProxyType(
    {name: MappingProxyType({**STEP_KEYS, name: verb.main, **verb.keys}) for name, verb in VERBS.items()}
)

ROW_KEYS: Final = _keys(
    when=Key("condition", "the row counts when this holds"),
    then=Key("value", "the value that is chosen"),
    at_least=Key("value", "the least value that may be chosen"),
    because=Key("text", "the reason that is kept"),
)

PHASE_USE_KEYS: Final = _keys(
    when=STEP_KEYS["when"],
    after=Key("names", "the phases it follows, when not the one above"),
    retry=STEP_KEYS["retry"],
    otherwise=STEP_KEYS["otherwise"],
    skill=Key("name", "the phase's file, when not `<workflow>/<phase>`"),
    was=Key("names", "what older state files called it"),
)

REFERENCE_KEYS: Final = _keys(
    skill=Key("name", "the skill", required=True), when=Key("condition", "only when this holds")
)

_DESCRIPTION: Final = Key("sentence", "one line that says what it is for")
_KIND: Final = Key("name", "the kind of file")

KINDS: Final[MappingProxyType[str, Keys]] = MappingProxyType(
    {
        "workflow": _keys(
            name=Key("name", "the command's name", required=True),
            description=_DESCRIPTION,
            inputs=Key("fields", "what it is given"),
            state=Key("fields", "its variables"),
            outputs=Key("mapping", "what it returns"),
            config=Key("name", "its file in `config/`"),
            repository=Key("text", "the folder that agents' tools may read"),
            hint=Key("text", "the one line of `skillrun hint`"),
            parallel=Key("value", "whether unordered phases run at the same time"),
            documents=Key("mapping", "what its prompts carry of earlier phases, by title"),
            phases=Key("node", "its phases", required=True),
        ),
        "phase": _keys(
            kind=_KIND,
            description=_DESCRIPTION,
            references=Key("node", "texts that its prompts carry"),
            steps=Key("steps", "its steps", required=True),
            outputs=Key("mapping", "what it returns"),
        ),
        "protocol": _keys(
            kind=_KIND,
            description=_DESCRIPTION,
            seats=Key("node", "the seats' names, or `members: 1..4`", required=True),
            inputs=Key("fields", "what it is given"),
            steps=Key("steps", "its steps", required=True),
            outputs=Key("mapping", "what it returns"),
        ),
        "role": _keys(
            name=Key("sentence", "the role's name"),
            description=_DESCRIPTION,
            model=Key("sentence", "a tier, an alias or a model's name"),
            tools=Key("names", "the tools it may use"),
            skills=Key("names", "the skills it brings"),
            variants=Key("node", "its variants, each with its lens"),
        ),
        "questions": _keys(kind=_KIND, description=_DESCRIPTION),
        "reference": _keys(kind=_KIND, description=_DESCRIPTION),
        "template": _keys(kind=_KIND, description=_DESCRIPTION, output=_OUTPUT),
        "skill": _keys(name=Key("sentence", "the skill's name"), description=_DESCRIPTION),
    }
)

BREAKER_KEYS: Final = _keys(
    limit=Key("integer", "how many failures in a row it takes, or how often something is repeated", True, least=1),
    then=Key("choice", "what happens then", True, ("fall back", "skip", "ask", "sequential")),
)

FEATURE_KEYS: Final = _keys(
    enabled=Key("boolean", "whether it can be on at all", True),
    description=_DESCRIPTION,
    rollback=Key("sentence", "how to do without it"),
    modes=Key("names", "the modes that it is on in; all of them without it"),
    requires=Key("names", "the features that have to be on as well"),
)

TOOLS: Final = ("Read", "Grep", "Glob", "List")

OWN_FILES: Final = (".run", "summaries", "state.md")  # where a run keeps its own, beside the folders `round-…`

SKILL_KINDS: Final = ("phase", "protocol", "questions", "reference", "template")

# Names that the interpreter gives every template; a step or a local cannot take one of them.
RESERVED: Final = frozenset(
    {
        "inputs", "state", "config", "features", "phases", "history", "pass", "run", "member", "task", "seats",
        "others", "bank", "members", "true", "false", "none", "loop",
    }
)  # fmt: skip

# Keys of a phase's outputs that go into its summary, and from there into later prompts.
SUMMARY_KEYS: Final = ("flags", "key_decisions", "open_questions", "risks_identified")
