"""Runs a case in memory on the scripted model: no key is read, nothing is sent, and nothing is kept.

Owns the circumstances of such a run, which are the same on every machine. What is expected of it is for `comparing`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import NamedTuple

from skillrun.checker.program import Program
from skillrun.events import CallEnded, Event, PhaseStarted
from skillrun.extensions.testing.cases import ROUND, Reply
from skillrun.extensions.testing.checking import ReadyCase
from skillrun.extensions.testing.recorded_prompts import texts_of
from skillrun.models.catalogue import Catalogue
from skillrun.models.messages import Block, Request
from skillrun.models.scripted import Rule, ScriptedGateway
from skillrun.questions.prepared_answers import Prepared
from skillrun.questions.responder import Person
from skillrun.runtime.run import Session
from skillrun.runtime.session import initial_state, rehearse
from skillrun.scoring.compaction import estimate_tokens
from skillrun.store.artifact_names import SUMMARIES
from skillrun.store.files import folders
from skillrun.store.journal import Journal
from skillrun.store.memory import MemoryFiles, MemoryJournal
from skillrun.store.outcome import Outcome
from skillrun.store.run_data import RunStore
from skillrun.store.state import STATE
from skillrun.store.summary import Summary
from skillrun.structured_output.values import parse_reply
from skillrun.syntax.diagnostics import SkillrunError

NO_KEY = "no key"  # what stands in every variable of a key, so that names mean what they do where all are set


class Call(NamedTuple):
    """A call of a run: where it was made, what was sent, and in which round."""

    address: str
    request: Request
    round: int = 1

    @property
    def place(self) -> str:
        """Its address; of a later round behind that, as the folders of rounds are called."""
        return self.address if self.round == 1 else f"round-{self.round}/{self.address}"

    def is_at(self, pattern: str) -> bool:
        """Whether a pattern for addresses means it; `round-2/` in front of one means that round alone."""
        match = ROUND.match(pattern)
        own = match is not None and int(match[1]) == self.round and fnmatchcase(self.address, pattern[match.end() :])
        return own or fnmatchcase(self.address, pattern)


class Unfit(NamedTuple):
    """A reply, written as data, that is none of the shape that its call asked for, and why."""

    reply: Reply
    address: str
    reason: str


@dataclass
class Trial:
    """What came of a run: how it ended, the phases in their order, what was sent, and what was written.

    `price` is None where one of the models has none; `begun` is whether there was a run at all.
    """

    outcome: Outcome
    path: list[str] = field(default_factory=list)
    sent: list[Call] = field(default_factory=list)
    price: float | None = 0.0
    artifacts: dict[str, str] = field(default_factory=dict)
    summaries: Mapping[str, Summary] = field(default_factory=dict)
    begun: bool = True
    untaken: list[Reply] = field(default_factory=list)
    unfit: list[Unfit] = field(default_factory=list)
    unasked: list[str] = field(default_factory=list)


async def tried(ready: ReadyCase, program: Program, catalogue: Catalogue) -> Trial:
    """The run of a case, to where it ends."""
    case = ready.case
    environ = {provider.key: NO_KEY for provider in catalogue.providers.values() if provider.key}
    gateway = ScriptedGateway([reply.rule for reply in case.replies], catalogue.price)
    prepared = Prepared(case.answers)
    person = Person(prepared, None, attended=False)
    session = Session(
        program, catalogue, gateway, person, [], environ, ready.project, override=case.model, typed=case.input_names
    )
    trial = await followed(ready, session)
    rules = list(zip(case.replies, gateway.rules, strict=True))
    trial.unfit = [unfit for reply, rule in rules for unfit in _unfit(reply, rule)]
    trial.untaken = [reply for reply, rule in rules if not rule.taken and rule.times != 0]
    trial.unasked = prepared.unused()
    return trial


async def followed(ready: ReadyCase, session: Session) -> Trial:
    """The run of a case in some circumstances, in memory, to where it ends."""
    case, listener, journal = ready.case, _Listener(), MemoryJournal()
    session = replace(session, listeners=[*session.listeners, listener.heard])
    files = MemoryFiles(runs=ready.runs)
    files.path = Path(case.run.name)
    try:
        state = initial_state(session, ready.inputs)
        state.started_at, state.environment = case.run.started_at, case.run.environment
        outcome = await rehearse(session, ready.inputs, files=files, journal=journal, state=state)
    except SkillrunError as error:  # it could not be begun
        return Trial(Outcome("failed", str(error)), begun=False)
    trial = Trial(outcome, listener.path, list(_calls(journal)), listener.price)
    store = RunStore(files)
    names = {name: store.summaries.readable(name) for name in session.program.workflow.phases}
    trial.summaries = {name: summary for name, summary in names.items() if summary is not None}
    trial.artifacts = {name: files.read(name).decode("utf-8", "replace") for name in _artifacts(files)}
    return trial


def _calls(journal: Journal) -> Iterator[Call]:
    """The calls that are on record; one that was sent several times counts once."""
    for entry in journal.entries("sent"):
        if "attempt" not in entry.body:
            outer, _, _ = str(entry.body.get("round", "1")).partition(".")
            yield Call(entry.address, Request.from_dict(entry.body), int(outer))


def _unfit(reply: Reply, rule: Rule) -> Iterator[Unfit]:
    """The first call for which a reply that is data has another shape; texts may be no reply on purpose."""
    for address, request in rule.answered if rule.data is not None else ():
        if request.schema is not None:
            _, errors = parse_reply(json.dumps(rule.data, ensure_ascii=False), request.schema)
            if errors:
                yield Unfit(reply, address, f"{errors[0].path}: {errors[0].message}".removeprefix(": "))
                return


def prompt_text(request: Request) -> str:
    """What a model was sent, as one text: its paragraphs, with an empty line between two of them."""
    return "\n\n".join(texts_of(request))


def prompt_parts(request: Request) -> dict[str, int]:
    """The tokens of a prompt by its parts, in their order."""
    parts: dict[str, int] = {}
    for block in _blocks(request):
        parts[block.part or "other"] = parts.get(block.part or "other", 0) + estimate_tokens(block.text)
    return parts


def part_lines(request: Request) -> list[tuple[int, str]]:
    """The parts of a prompt by the line of its text that each begins with."""
    lines, line = [], 1
    for block in _blocks(request):
        lines.append((line, block.part or "other"))
        line += block.text.count("\n") + 2
    return lines


def _blocks(request: Request) -> Iterator[Block]:
    yield from request.system
    for message in request.messages:
        yield from message.blocks


def _artifacts(files: MemoryFiles) -> Iterator[str]:
    """The names of what the run has written, but its state and its summaries; earlier rounds and forms with it."""
    for folder in folders(files):
        if folder.partition("/")[0] == SUMMARIES:
            continue
        for leaf, kind in files.entries(folder):
            name = leaf if folder == "." else f"{folder}/{leaf}"
            if kind == "file" and name != STATE:
                yield name


class _Listener:
    """What the events of a run say of its path and its price; phases of a workflow that a phase runs do not count."""

    def __init__(self) -> None:
        self.path: list[str] = []
        self.price: float | None = 0.0

    def heard(self, event: Event) -> None:
        if isinstance(event, PhaseStarted) and "/" not in event.phase:
            self.path.append(event.phase)
        elif isinstance(event, CallEnded) and not event.error:
            known = self.price is not None and event.price is not None
            self.price = (self.price or 0) + (event.price or 0) if known else None
