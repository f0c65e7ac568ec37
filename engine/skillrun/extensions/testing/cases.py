"""What a case is: what a run of a workflow is given, and what is expected of it. The keys of its file.

Reads no file and runs nothing.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from skillrun.definitions.verbs import Key, Keys
from skillrun.models.scripted import Rule
from skillrun.questions.prepared_answers import PreparedEntry
from skillrun.syntax import source
from skillrun.syntax.source import Span

STATUSES: Final = ("completed", "failed", "waiting")
ENVIRONMENTS: Final = ("terminal", "editor", "ci")
DEFAULT_STARTED_AT: Final = "2026-01-01T00:00:00Z"
ROUND_PREFIX: Final = re.compile(r"round-([0-9]{1,9})/")  # in front of a pattern for addresses: in that round alone

CASE_KEYS: Final[Keys] = {
    "inputs": Key("anything", "what the workflow is given"),
    "answers": Key("anything", "answers to questions, as in a file of prepared answers"),
    "replies": Key("anything", "what models reply, as in a script"),
    "model": Key("sentence", "one model for everything, such as `scripted:noise-1`"),
    "project": Key("sentence", "the folder that the run takes for the project, from the case on"),
    "runs": Key("sentence", "the folder of the other runs that it reads, from the case on"),
    "prompts": Key("sentence", "the file of the prompts that it was recorded with, from the case on"),
    "run": Key("anything", "what the run says of itself"),
    "expect": Key("anything", "what has to come of it"),
}
RUN_KEYS: Final[Keys] = {
    "name": Key("sentence", "`run.name`"),
    "started_at": Key("sentence", "`run.started_at`"),
    "environment": Key("choice", "`run.environment`", values=ENVIRONMENTS),
}
EXPECT_KEYS: Final[Keys] = {
    "outcome": Key("anything", "how the run ends"),
    "path": Key("anything", "the phases in the order in which they begin"),
    "outputs": Key("anything", "outputs of phases"),
    "flags": Key("anything", "flags of phases"),
    "artifacts": Key("anything", "what the run has written"),
    "prompts": Key("anything", "what was sent, by patterns for addresses"),
    "calls": Key("anything", "how many calls were made"),
    "price": Key("number", "dollars that the calls cost at most", least=0),
}
OUTCOME_KEYS: Final[Keys] = {
    "status": Key("choice", "how the run ends", values=STATUSES),
    "reason": Key("sentence", "words of the reason"),
}
TEXT_KEYS: Final[Keys] = {
    "contains": Key("anything", "a text that stands in it, or a list of them"),
    "lacks": Key("anything", "a text that does not stand in it, or a list of them"),
    "matches": Key("anything", "a regular expression that occurs in it, or a list of them"),
    "equals": Key("sentence", "the file that it is the same as, from the case on"),
}
PROMPT_KEYS: Final[Keys] = {**TEXT_KEYS, "at_most": Key("integer", "tokens", least=0)}
BOUND_KEYS: Final[Keys] = {
    "at_least": Key("integer", "the fewest", least=0),
    "at_most": Key("integer", "the most", least=0),
}


@dataclass(frozen=True)
class Expectation:
    """One thing that is expected. `kind` says what is looked at, `subject` of what: a phase, an artifact, a pattern for
    addresses; `test` how, where there are several ways."""

    kind: str
    value: Any
    span: Span
    subject: str = ""
    test: str = ""


class ScriptedReply(NamedTuple):
    """A reply of the script, and where it stands."""

    rule: Rule
    span: Span


@dataclass(frozen=True)
class RunSettings:
    """What a run says of itself, which is the same each time that its case is run."""

    name: str = "run"
    started_at: str = DEFAULT_STARTED_AT
    environment: str = "terminal"


@dataclass(frozen=True)
class Case:
    """A run that is given so much, and what is expected of it."""

    name: str
    workflow: str
    front: source.Mapping
    description: str = ""
    answers: Mapping[str, PreparedEntry] = field(default_factory=dict)
    replies: tuple[ScriptedReply, ...] = ()
    model: str = ""
    project: str = ""
    runs: str = ""
    prompts: str = ""
    run: RunSettings = field(default_factory=RunSettings)
    expectations: tuple[Expectation, ...] = ()

    @property
    def span(self) -> Span:
        """Where its file begins."""
        return Span(self.front.span.source, 0)

    @property
    def input_names(self) -> frozenset[str]:
        """The inputs that it gives."""
        node = self.front.get("inputs")
        return frozenset(node.entries) if isinstance(node, source.Mapping) else frozenset()
