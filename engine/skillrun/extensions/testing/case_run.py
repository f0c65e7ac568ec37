"""Runs a case in memory on the scripted model, without keys, network access or stored files.

Every machine runs a case in the same environment. `mismatches` checks the expectations.
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
from skillrun.extensions.testing.cases import ROUND_PREFIX, ScriptedReply
from skillrun.extensions.testing.checking import ReadyCase
from skillrun.extensions.testing.recorded_prompts import list_prompt_texts
from skillrun.models.catalogue import Catalogue
from skillrun.models.messages import Block, Request
from skillrun.models.scripted import Rule, ScriptedGateway
from skillrun.questions.prepared_answers import PreparedAnswers
from skillrun.questions.responder import InteractiveResponder
from skillrun.runtime.run import RunOptions, Services, Session
from skillrun.runtime.session import initial_state, simulate_run
from skillrun.scoring.compaction import estimate_tokens
from skillrun.store.artifacts import SUMMARIES
from skillrun.store.files import walk_folders
from skillrun.store.journal import Journal
from skillrun.store.memory import MemoryFiles, MemoryJournal
from skillrun.store.outcome import Outcome
from skillrun.store.run_data import RunData
from skillrun.store.state import STATE
from skillrun.store.summaries import Summary
from skillrun.structured_output.values import parse_reply
from skillrun.syntax.diagnostics import SkillrunError

NO_KEY = "no key"  # value of every key variable, so that model names resolve as if all keys were set


class Call(NamedTuple):
    """A call of a run: its address, request and round."""

    address: str
    request: Request
    round: int = 1

    @property
    def round_address(self) -> str:
        """The address, with the prefix `round-N/` in every round but the first."""
        return self.address if self.round == 1 else f"round-{self.round}/{self.address}"

    def matches(self, pattern: str) -> bool:
        """Whether an address pattern matches this call. A pattern such as `round-2/…` matches only in round 2."""
        match = ROUND_PREFIX.match(pattern)
        matches_in_round = (
            match is not None and int(match[1]) == self.round and fnmatchcase(self.address, pattern[match.end() :])
        )
        return matches_in_round or fnmatchcase(self.address, pattern)


class MismatchedReply(NamedTuple):
    """A scripted reply, written as `data:`, that violates the schema of the call at `address`; `reason` says how."""

    reply: ScriptedReply
    address: str
    reason: str


@dataclass
class CaseRun:
    """The results of running a case.

    `path` lists the phases in the order in which they started. `price` is None if the price of a model is unknown.
    """

    outcome: Outcome
    path: list[str] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    price: float | None = 0.0
    artifacts: dict[str, str] = field(default_factory=dict)
    summaries: Mapping[str, Summary] = field(default_factory=dict)
    has_started: bool = True
    unused_replies: list[ScriptedReply] = field(default_factory=list)
    mismatched_replies: list[MismatchedReply] = field(default_factory=list)
    unused_answers: list[str] = field(default_factory=list)


async def run_scripted_case(ready: ReadyCase, program: Program, catalogue: Catalogue) -> CaseRun:
    """Run a case with its scripted replies and return the results."""
    case = ready.case
    environ = {provider.key: NO_KEY for provider in catalogue.providers.values() if provider.key}
    gateway = ScriptedGateway([reply.rule for reply in case.replies], catalogue.price)
    prepared = PreparedAnswers(case.answers)
    person = InteractiveResponder(prepared, None, attended=False)
    services = Services(catalogue, gateway, person, environ=environ)
    session = Session(program, services, RunOptions(ready.project, case.model, explicit_inputs=case.input_names))
    case_run = await run_case_in_memory(ready, session)
    rules = list(zip(case.replies, gateway.rules, strict=True))
    case_run.mismatched_replies = [unfit for reply, rule in rules for unfit in _find_mismatched_reply(reply, rule)]
    case_run.unused_replies = [reply for reply, rule in rules if not rule.is_used and rule.times != 0]
    case_run.unused_answers = prepared.unused_keys()
    return case_run


async def run_case_in_memory(ready: ReadyCase, session: Session) -> CaseRun:
    """Run a case in memory with the given session and return the results."""
    case, listener, journal = ready.case, _Listener(), MemoryJournal()
    session = replace(session, services=replace(session.services, listeners=[listener.on_event]))
    files = MemoryFiles(runs=ready.runs)
    files.path = Path(case.run.name)
    try:
        state = initial_state(session, ready.inputs)
        state.started_at, state.environment = case.run.started_at, case.run.environment
        outcome = await simulate_run(session, ready.inputs, files=files, journal=journal, state=state)
    except SkillrunError as error:  # the run could not start
        return CaseRun(Outcome("failed", str(error)), has_started=False)
    case_run = CaseRun(outcome, listener.path, list(_recorded_calls(journal)), listener.price)
    store = RunData(files)
    names = {name: store.summaries.find_readable(name) for name in session.program.workflow.phases}
    case_run.summaries = {name: summary for name, summary in names.items() if summary is not None}
    case_run.artifacts = {name: files.read(name).decode("utf-8", "replace") for name in _artifact_names(files)}
    return case_run


def _recorded_calls(journal: Journal) -> Iterator[Call]:
    """Yield the calls in the journal. A call with several attempts is yielded once."""
    for entry in journal.entries("sent"):
        if "attempt" not in entry.body:
            outer, _, _ = str(entry.body.get("round", "1")).partition(".")
            yield Call(entry.address, Request.from_dict(entry.body), int(outer))


def _find_mismatched_reply(reply: ScriptedReply, rule: Rule) -> Iterator[MismatchedReply]:
    """Yield the first schema violation of a reply written as `data:`.

    A reply written as `text:` may be invalid on purpose.
    """
    for address, request in rule.answered_calls if rule.data is not None else ():
        if request.schema is not None:
            _, errors = parse_reply(json.dumps(rule.data, ensure_ascii=False), request.schema)
            if errors:
                yield MismatchedReply(reply, address, str(errors[0]))
                return


def prompt_text(request: Request) -> str:
    """Return a prompt as one text, with empty lines between its parts."""
    return "\n\n".join(list_prompt_texts(request))


def prompt_parts(request: Request) -> dict[str, int]:
    """Return the estimated number of tokens in each part of a prompt, keyed by the part's name."""
    parts: dict[str, int] = {}
    for block in _blocks(request):
        parts[block.part or "other"] = parts.get(block.part or "other", 0) + estimate_tokens(block.text)
    return parts


def part_lines(request: Request) -> list[tuple[int, str]]:
    """Return the number of the first line and the name of each part of a prompt."""
    lines, line = [], 1
    for block in _blocks(request):
        lines.append((line, block.part or "other"))
        line += block.text.count("\n") + 2
    return lines


def _blocks(request: Request) -> Iterator[Block]:
    yield from request.system
    for message in request.messages:
        yield from message.blocks


def _artifact_names(files: MemoryFiles) -> Iterator[str]:
    """Yield the names of the files that the run wrote, except its state and summaries.

    Files of earlier rounds and forms are included.
    """
    for folder in walk_folders(files):
        if folder.partition("/")[0] == SUMMARIES:
            continue
        for leaf, kind in files.entries(folder):
            name = leaf if folder == "." else f"{folder}/{leaf}"
            if kind == "file" and name != STATE:
                yield name


class _Listener:
    """Collects the path and price of a run from its events. The path leaves out phases of inline workflows."""

    def __init__(self) -> None:
        self.path: list[str] = []
        self.price: float | None = 0.0

    def on_event(self, event: Event) -> None:
        if isinstance(event, PhaseStarted) and "/" not in event.phase:
            self.path.append(event.phase)
        elif isinstance(event, CallEnded) and not event.error:
            is_priced = self.price is not None and event.price is not None
            self.price = (self.price or 0) + (event.price or 0) if is_priced else None
