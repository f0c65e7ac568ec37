"""Runs a case in memory on the scripted model, and reports the expectations that the run does not meet.

A case runs without keys, network access or stored files, and in the same environment on every machine.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final, NamedTuple

from skillrun.checker.program import Program
from skillrun.events import CallEnded, Event, PhaseStarted
from skillrun.extensions.testing.cases import ROUND_PREFIX, Expectation
from skillrun.extensions.testing.checking import ReadyCase
from skillrun.extensions.testing.differences import add_part_names, diff_lines, matching_lines, nearest_lines
from skillrun.models.catalogue import Catalogue
from skillrun.models.messages import Request
from skillrun.models.scripted import ScriptedGateway
from skillrun.questions.prepared_answers import PreparedAnswers
from skillrun.questions.responder import InteractiveResponder
from skillrun.runtime.run import RunOptions, Services, Session
from skillrun.runtime.session import initial_state, simulate_run
from skillrun.scoring.compaction import estimate_tokens
from skillrun.scoring.patterns import find_hits
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
from skillrun.types.schemas import quote_value

NO_CALL: Final = "the run makes no call"
PATTERN_TIMEOUT: Final = 5.0  # seconds to search with one regular expression
OUTCOME: Final = ("outcome", "reason")  # reported first
MOST_PROMPTS: Final = 3  # prompts shown for one failed expectation; the others are only counted
NO_KEY: Final = "no key"  # value of every key variable, so that model names resolve as if all keys were set


class Call(NamedTuple):
    """A call of a run: its address, request and round."""

    address: str
    request: Request
    round: int = 1

    @property
    def round_address(self) -> str:
        """The address. From the second round on, it starts with `round-N/`."""
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

    `path` lists the phases in the order in which they started, without the phases of inline workflows. `price` is None
    if the price of a model is unknown. `warnings` report unused replies, unused answers, and replies that violate the
    schema of their call.
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
        """Update the path and the price from an event of the run."""
        if isinstance(event, PhaseStarted) and "/" not in event.phase:
            self.path.append(event.phase)
        elif isinstance(event, CallEnded) and not event.error:
            is_priced = self.price is not None and event.price is not None
            self.price = (self.price or 0) + (event.price or 0) if is_priced else None


async def run_scripted_case(ready: ReadyCase, program: Program, catalogue: Catalogue) -> CaseRun:
    """Run a case with its scripted replies and return the results.

    A reply written as `data:` must match the schema. A reply written as `text:` can be invalid on purpose.
    """
    case = ready.case
    environ = {provider.key: NO_KEY for provider in catalogue.providers.values() if provider.key}
    gateway = ScriptedGateway(case.replies, catalogue.price)
    prepared = PreparedAnswers(case.answers)
    services = Services(catalogue, gateway, InteractiveResponder(prepared, None, attended=False), environ=environ)
    session = Session(program, services, RunOptions(ready.project, case.model))
    case_run = await run_case_in_memory(ready, session)
    if not case_run.has_started:
        return case_run
    warnings = Problems()
    addresses = list(dict.fromkeys(call.address for call in case_run.calls))
    for rule in gateway.rules:
        span = rule.span or case.span("replies")
        if rule.is_unused:
            hint = suggest(rule.address, addresses) or NO_CALL
            warnings.report(span, "untaken", "no call used this reply", hint, "warning")
        for address, request in rule.answered_calls if rule.data is not None else ():
            if request.schema is not None:
                _, errors = parse_reply(json.dumps(rule.data, ensure_ascii=False), request.schema)
                if errors:
                    message = f"this reply does not match the schema of `{address}`: {errors[0]}"
                    hint = "correct the reply, or write an intentionally invalid reply as `text:`"
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

    The names include files of earlier rounds and forms.
    """
    for folder in walk_folders(files):
        if folder.partition("/")[0] == SUMMARIES:
            continue
        for leaf, kind in files.entries(folder):
            name = leaf if folder == "." else f"{folder}/{leaf}"
            if kind == "file" and name != STATE:
                yield name


@dataclass(frozen=True)
class Mismatch:
    """A failed expectation: the problem to report, both values, and the lines of their difference."""

    problem: Problem
    expected: Any
    actual: Any
    difference: tuple[str, ...] = ()


MismatchDetails = Iterator[tuple[str, Any, Sequence[str], str]]
"""Yields the message, the actual value, the lines of the difference and the hint."""
TextMismatches = Iterator[tuple[str, Any, Sequence[str]]]
"""Yields the message, the actual value and the lines of the difference."""


def find_mismatches(ready: ReadyCase, case_run: CaseRun) -> list[Mismatch]:
    """Return the expectations that a run does not meet. Unless the case names an outcome, the run must complete."""
    case = ready.case
    expected = list(case.expectations)
    if not any(expectation.kind == "outcome" for expectation in expected):
        expected.insert(0, Expectation("outcome", "completed", case.span("expect")))
    if not case_run.has_started and not all(expectation.kind in OUTCOME for expectation in expected):
        first = next(expectation for expectation in expected if expectation.kind == "outcome")
        message = f"the run could not start: {case_run.outcome.reason}"
        return [Mismatch(_problem_at(first, "outcome", message), first.value, case_run.outcome.status)]
    expected.sort(key=lambda wanted: wanted.kind not in OUTCOME)  # other mismatches may follow from these
    by_message: dict[str, Mismatch] = {}  # each message is reported once, even if several expectations fail with it
    for expectation in expected:
        for message, actual, difference, hint in _check(expectation, case_run, ready.files):
            problem = _problem_at(expectation, expectation.test or expectation.kind, message, hint)
            by_message.setdefault(message, Mismatch(problem, expectation.value, actual, tuple(difference)))
    return list(by_message.values())


def _problem_at(expectation: Expectation, code: str, message: str, hint: str = "") -> Problem:
    span = expectation.span
    line, column = span.source.position(span.offset)
    return Problem(span.path, line, column, code, message, hint, "error", span.source.line(line))


def _check(expectation: Expectation, case_run: CaseRun, files: Mapping[str, str]) -> MismatchDetails:
    outcome, subject, expected = case_run.outcome, expectation.subject, expectation.value
    match expectation.kind:
        case "outcome" if outcome.status != expected:
            reason = f": {outcome.reason}" if outcome.reason else ""
            message = f"expected the run to be {expected}, but it is {outcome.status}{reason}"
            yield message, outcome.status, (), str(outcome.next_step) if not reason else ""
        case "reason" if expected not in outcome.reason:
            difference = [f"the reason is: {outcome.reason or '(none)'}"]
            yield "the reason does not contain the expected words", outcome.reason, difference, ""
        case "path" if list(expected) != case_run.path:
            yield "the run took a different path", case_run.path, diff_lines(expected, case_run.path), ""
        case "outputs" | "flags":
            yield from _check_phase_value(expectation, case_run)
        case "artifact":
            yield from _check_artifact(expectation, case_run, files)
        case "prompt":
            yield from _check_prompts(expectation, case_run, files)
        case "calls":
            least, most = expected
            addresses = [call.round_address for call in case_run.calls if call.matches(subject)]
            if len(addresses) < least or (most is not None and len(addresses) > most):
                number = f"{least}" if least == most else f"at most {most}" if not least else f"at least {least}"
                number = f"{least} to {most}" if least and most is not None and least != most else number
                place = "" if subject == "*" else f" at `{subject}`"
                message = f"calls made{place}: {len(addresses)}; expected: {number}"
                yield message, len(addresses), addresses or [call.round_address for call in case_run.calls], ""
        case "price" if case_run.price is None:
            models = ", ".join(dict.fromkeys(call.request.model for call in case_run.calls))
            hint = "add the price to `models:` in config/models.yaml"
            yield f"the price of at least one of the models is unknown: {models}", None, (), hint
        case "price" if case_run.price > expected:
            message = f"the calls cost ${case_run.price:.4f}; expected at most ${expected:.4f}"
            yield message, case_run.price, (), ""


def _check_phase_value(expectation: Expectation, case_run: CaseRun) -> MismatchDetails:
    """Yield a mismatch if an output or a flag of a phase does not have the expected value."""
    phase, name = expectation.subject, expectation.test
    summary = case_run.summaries.get(phase)
    if summary is None:
        state = "the phase has not ended" if phase in case_run.path else "the run did not reach the phase"
        yield f"`{phase}` has no summary: {state}", None, (), ""
        return
    values: Mapping[str, Any] = getattr(summary, expectation.kind)
    if name not in values:
        yield f"`{phase}` has no `{name}`", None, (), suggest(name, values) or "the phase has none"
    elif values[name] != expectation.value:
        lines = diff_lines([quote_value(expectation.value)], [quote_value(values[name])])
        yield f"`{name}` of `{phase}` has a different value", values[name], lines, ""


def _check_artifact(expectation: Expectation, case_run: CaseRun, files: Mapping[str, str]) -> MismatchDetails:
    name, text = expectation.subject, case_run.artifacts.get(expectation.subject)
    if not expectation.test and not expectation.value:
        if text is not None:
            yield f"`{name}` was written, but is not expected", True, (), ""
    elif text is None:
        hint = suggest(name, case_run.artifacts) or "the run wrote no artifacts"
        yield f"`{name}` was not written", None, (), hint
    elif expectation.test:
        for message, actual, difference in _check_text(expectation, text, files):
            yield f"`{name}` {message}", actual, difference, ""


def _check_prompts(expectation: Expectation, case_run: CaseRun, files: Mapping[str, str]) -> MismatchDetails:
    pattern = expectation.subject
    calls = [call for call in case_run.calls if call.matches(pattern)]
    if not calls:
        anywhere = ROUND_PREFIX.sub("", pattern, count=1)
        rounds = dict.fromkeys(call.round for call in case_run.calls if anywhere != pattern and call.matches(anywhere))
        names = ", ".join(map(str, rounds))
        hint = f"the pattern matches only in round {names}; a round does not send an unchanged prompt again"
        if not rounds:
            hint = suggest(pattern, dict.fromkeys(call.round_address for call in case_run.calls)) or NO_CALL
        yield f"no call matches `{pattern}`", None, (), hint
    mismatch_count = 0
    for call in calls:
        details = list(_check_prompt(expectation, call.request, files))
        mismatch_count += bool(details)
        if mismatch_count <= MOST_PROMPTS:
            for message, actual, difference in details:
                yield f"the prompt at `{call.round_address}` {message}", actual, difference, ""
    if mismatch_count > MOST_PROMPTS:
        yield f"{mismatch_count - MOST_PROMPTS} more of the {len(calls)} prompts fail the same way", None, (), ""


def _check_prompt(expectation: Expectation, request: Request, files: Mapping[str, str]) -> TextMismatches:
    if expectation.test != "at_most":
        text = "\n\n".join(block.text for block in request.blocks)
        for message, actual, difference in _check_text(expectation, text, files):
            yield message, actual, add_part_names(difference, request.blocks)
        return
    parts: Counter[str] = Counter()
    for block in request.blocks:
        parts[block.part or "other"] += estimate_tokens(block.text)
    if parts.total() > expectation.value:
        lines = [f"{part}: {number:,} tokens" for part, number in parts.items()]
        yield f"has {parts.total():,} tokens; expected at most {expectation.value:,}", parts.total(), lines


def _check_text(expectation: Expectation, text: str, files: Mapping[str, str]) -> TextMismatches:
    """Yield a mismatch if `text` fails the expectation. `-` marks expected lines, and `+` marks actual lines.

    A regular expression is searched in the whole text and in each line, so `^` and `$` match the ends of both.
    """
    words = str(expectation.value)
    match expectation.test:
        case "contains" if words not in text:
            yield f"does not contain {quote_value(words)}", None, nearest_lines(words, text)
        case "lacks" if words in text:
            yield f"contains {quote_value(words)}, but must not", None, matching_lines(words, text)
        case "matches":
            parts = (text, *text.splitlines())
            if not any(find_hits(words, part, PATTERN_TIMEOUT, ignore_case=False) for part in parts):
                yield f"has no match for {quote_value(words)}", None, ()
        case "equals" if files[words].rstrip() != text.rstrip():
            yield f"differs from {words}", text, diff_lines(files[words].splitlines(), text.splitlines())
