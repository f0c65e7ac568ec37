"""Runs a case in memory on the scripted model, without keys, network access or stored files.

Every machine runs a case in the same environment. `mismatches` checks the expectations.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final, NamedTuple

from skillrun.checker.program import Program
from skillrun.events import CallEnded, Event, PhaseStarted
from skillrun.extensions.testing.cases import ROUND_PREFIX
from skillrun.extensions.testing.checking import ReadyCase
from skillrun.models.catalogue import Catalogue
from skillrun.models.messages import Request
from skillrun.models.scripted import ScriptedGateway
from skillrun.questions.prepared_answers import PreparedAnswers
from skillrun.questions.responder import InteractiveResponder
from skillrun.runtime.run import RunOptions, Services, Session
from skillrun.runtime.session import initial_state, simulate_run
from skillrun.store.artifacts import SUMMARIES
from skillrun.store.files import walk_folders
from skillrun.store.memory import MemoryFiles, MemoryJournal
from skillrun.store.outcome import Outcome
from skillrun.store.run_data import RunData
from skillrun.store.run_view import run_round
from skillrun.store.state import STATE
from skillrun.store.summaries import Summary
from skillrun.structured_output.values import parse_reply
from skillrun.syntax.diagnostics import Problem, Problems, SkillrunError, suggest

NO_CALL: Final = "the run makes no call"
NO_KEY: Final = "no key"  # value of every key variable, so that model names resolve as if all keys were set


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


@dataclass
class CaseRun:
    """The results of running a case.

    `path` lists the phases in the order in which they started, without those of inline workflows. `price` is None if
    the price of a model is unknown. `warnings` are about unused replies, replies that violate the schema of their call,
    and unused answers.
    """

    outcome: Outcome
    path: list[str] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    price: float | None = 0.0
    artifacts: dict[str, str] = field(default_factory=dict)
    summaries: Mapping[str, Summary] = field(default_factory=dict)
    has_started: bool = True
    warnings: list[Problem] = field(default_factory=list)

    def on_event(self, event: Event) -> None:
        """Add an event of the run to the path and the price."""
        if isinstance(event, PhaseStarted) and "/" not in event.phase:
            self.path.append(event.phase)
        elif isinstance(event, CallEnded) and not event.error:
            is_priced = self.price is not None and event.price is not None
            self.price = (self.price or 0) + (event.price or 0) if is_priced else None


async def run_scripted_case(ready: ReadyCase, program: Program, catalogue: Catalogue) -> CaseRun:
    """Run a case with its scripted replies and return the results.

    A reply written as `text:` may be invalid on purpose, so only a reply written as `data:` must match the schema.
    """
    case = ready.case
    environ = {provider.key: NO_KEY for provider in catalogue.providers.values() if provider.key}
    gateway = ScriptedGateway(case.replies, catalogue.price)
    prepared = PreparedAnswers(case.answers)
    services = Services(catalogue, gateway, InteractiveResponder(prepared, None, attended=False), environ=environ)
    session = Session(program, services, RunOptions(ready.project, case.model, explicit_inputs=case.input_names))
    case_run = await run_case_in_memory(ready, session)
    if not case_run.has_started:
        return case_run
    warnings = Problems()
    addresses = list(dict.fromkeys(call.address for call in case_run.calls))
    for rule in gateway.rules:
        span = rule.span or case.span("replies")
        if not rule.is_used and rule.times != 0:
            hint = suggest(rule.address, addresses) or NO_CALL
            warnings.report(span, "untaken", "no call used this reply", hint, "warning")
        for address, request in rule.answered_calls if rule.data is not None else ():
            if request.schema is not None:
                _, errors = parse_reply(json.dumps(rule.data, ensure_ascii=False), request.schema)
                if errors:
                    message = f"this reply does not match the schema of `{address}`: {errors[0]}"
                    hint = "correct it, or write an intentionally invalid reply as `text:`"
                    warnings.report(span, "unfit", message, hint, "warning")
                    break
    for name in prepared.unused_keys():
        warnings.report(case.span("answers", name), "untaken", f"no question used the answer `{name}`", "", "warning")
    case_run.warnings = list(warnings)
    return case_run


async def run_case_in_memory(ready: ReadyCase, session: Session) -> CaseRun:
    """Run a case in memory with the given session and return the results."""
    case, journal, files = ready.case, MemoryJournal(), MemoryFiles(runs=ready.runs)
    case_run = CaseRun(Outcome("failed"))
    session = replace(session, services=replace(session.services, listeners=[case_run.on_event]))
    files.path = Path(case.run.name)
    try:
        state = initial_state(session, ready.inputs)
        state.started_at, state.environment = case.run.started_at, case.run.environment
        case_run.outcome = await simulate_run(session, ready.inputs, files=files, journal=journal, state=state)
    except SkillrunError as error:  # the run could not start
        return CaseRun(Outcome("failed", str(error)), has_started=False)
    case_run.calls = [
        Call(entry.address, Request.from_dict(entry.body), run_round(str(entry.body.get("round", "1"))))
        for entry in journal.entries("sent")
        if "attempt" not in entry.body  # a call with several attempts is listed once
    ]
    summaries = RunData(files).summaries
    readable = {name: summaries.find_readable(name) for name in session.program.workflow.phases}
    case_run.summaries = {name: summary for name, summary in readable.items() if summary is not None}
    case_run.artifacts = {name: files.read(name).decode("utf-8", "replace") for name in _artifact_names(files)}
    return case_run


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
