"""Defines the data of a test case and the keys of a case file."""

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
ROUND_PREFIX: Final = re.compile(r"round-([0-9]{1,9})/")  # a prefix that limits an address pattern to one round

CASE_KEYS: Final[Keys] = {
    "inputs": Key("anything", "the workflow's inputs"),
    "answers": Key("anything", "answers to questions, as in a prepared answers file"),
    "replies": Key("anything", "the models' replies, as in a script"),
    "model": Key("sentence", "one model for every call, such as `scripted:noise-1`"),
    "project": Key("sentence", "the run's project folder, relative to the case"),
    "runs": Key("sentence", "the folder of other runs that the run reads, relative to the case"),
    "prompts": Key("sentence", "the file of recorded prompts, relative to the case"),
    "run": Key("anything", "the values of `run`"),
    "expect": Key("anything", "the expected results"),
}
RUN_KEYS: Final[Keys] = {
    "name": Key("sentence", "`run.name`"),
    "started_at": Key("sentence", "`run.started_at`"),
    "environment": Key("choice", "`run.environment`", values=ENVIRONMENTS),
}
EXPECT_KEYS: Final[Keys] = {
    "outcome": Key("anything", "the final status of the run"),
    "path": Key("anything", "the phases in the order in which they start"),
    "outputs": Key("anything", "outputs of phases"),
    "flags": Key("anything", "flags of phases"),
    "artifacts": Key("anything", "the artifacts of the run"),
    "prompts": Key("anything", "the prompts, by address pattern"),
    "calls": Key("anything", "the number of calls"),
    "price": Key("number", "the maximum price of the calls, in dollars", least=0),
}
OUTCOME_KEYS: Final[Keys] = {
    "status": Key("choice", "the final status of the run", values=STATUSES),
    "reason": Key("sentence", "a part of the reason"),
}
TEXT_KEYS: Final[Keys] = {
    "contains": Key("anything", "a text that must occur, or a list of them"),
    "lacks": Key("anything", "a text that must not occur, or a list of them"),
    "matches": Key("anything", "a regular expression that must match, or a list of them"),
    "equals": Key("sentence", "a file with the same text, relative to the case"),
}
PROMPT_KEYS: Final[Keys] = {**TEXT_KEYS, "at_most": Key("integer", "the maximum number of tokens", least=0)}
BOUND_KEYS: Final[Keys] = {
    "at_least": Key("integer", "the minimum", least=0),
    "at_most": Key("integer", "the maximum", least=0),
}


@dataclass(frozen=True)
class Expectation:
    """One expectation of a case.

    `kind` says what is checked, `subject` is the phase, artifact or address pattern. If the kind has several checks,
    `test` is the key of this one, such as `contains`.
    """

    kind: str
    value: Any
    span: Span
    subject: str = ""
    test: str = ""


class ScriptedReply(NamedTuple):
    """A scripted reply and its position in the case."""

    rule: Rule
    span: Span


@dataclass(frozen=True)
class RunSettings:
    """The values of the template variable `run`, which are fixed for every run of the case."""

    name: str = "run"
    started_at: str = DEFAULT_STARTED_AT
    environment: str = "terminal"


@dataclass(frozen=True)
class Case:
    """A test case: what a run gets (inputs, answers, replies), and what is expected of it."""

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
        """The start of the case file."""
        return Span(self.front.span.source, 0)

    @property
    def input_names(self) -> frozenset[str]:
        """The names of the inputs that the case sets."""
        node = self.front.get("inputs")
        return frozenset(node.entries) if isinstance(node, source.Mapping) else frozenset()
