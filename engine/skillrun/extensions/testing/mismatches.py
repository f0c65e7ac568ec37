"""Compares a finished run with the expectations of its case, and returns a mismatch for each that is not met."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from skillrun.extensions.testing.case_run import CaseRun, part_lines, prompt_parts, prompt_text
from skillrun.extensions.testing.cases import ROUND_PREFIX, Case, Expectation
from skillrun.extensions.testing.checking import ReadyCase
from skillrun.extensions.testing.differences import add_part_names, diff_lines, matching_lines, nearest_lines
from skillrun.models.messages import Request
from skillrun.scoring.patterns import find_hits
from skillrun.syntax.diagnostics import Problem, Problems, Severity, suggest
from skillrun.syntax.source import Span
from skillrun.types.schemas import quote_value

PATTERN_TIMEOUT: Final = 5.0  # seconds to search with one regular expression
NO_CALL: Final = "the run makes no call"
OUTCOME: Final = ("outcome", "reason")  # reported first
MOST_PROMPTS: Final = 3  # prompts shown for one failed expectation; the others are only counted


@dataclass(frozen=True)
class Mismatch:
    """A failed expectation, with a problem at its position and the lines of the difference."""

    problem: Problem
    expected: Any
    actual: Any
    difference: tuple[str, ...] = ()


MismatchDetails = Iterator[tuple[str, Any, Sequence[str], str]]
"""Yields the message, the actual value, the lines of the difference and the hint."""


def find_mismatches(ready: ReadyCase, case_run: CaseRun) -> list[Mismatch]:
    """Return all mismatches of a run. If the case expects no outcome, the run must complete."""
    case = ready.case
    expected = list(case.expectations)
    if not any(expectation.kind == "outcome" for expectation in expected):
        expected.insert(0, Expectation("outcome", "completed", case.front.key_span("expect") or case.span))
    if not case_run.has_started and not all(expectation.kind in OUTCOME for expectation in expected):
        return [_start_failure(expected, case_run)]
    expected.sort(key=lambda wanted: wanted.kind not in OUTCOME)  # other mismatches may follow from these
    by_message: dict[str, Mismatch] = {}  # each message is reported once, even if several expectations fail with it
    for expectation in expected:
        for mismatch in _check_expectation(expectation, case_run, ready):
            by_message.setdefault(mismatch.problem.message, mismatch)
    return list(by_message.values())


def _start_failure(expected: Sequence[Expectation], case_run: CaseRun) -> Mismatch:
    """Return the single mismatch of a run that did not start."""
    expectation = next((expectation for expectation in expected if expectation.kind == "outcome"), expected[0])
    message = f"the run could not start: {case_run.outcome.reason}"
    return Mismatch(problem_at(expectation.span, "outcome", message), expectation.value, case_run.outcome.status)


def check_unused_entries(case: Case, case_run: CaseRun) -> list[Problem]:
    """Return warnings about unused replies, replies that violate the schema of their call, and unused answers."""
    problems = Problems()
    if not case_run.has_started:
        return []
    for mismatched in case_run.mismatched_replies:
        message = f"this reply does not match the schema of `{mismatched.address}`: {mismatched.reason}"
        hint = "correct it, or write an intentionally invalid reply as `text:`"
        problems.report(mismatched.reply.span, "unfit", message, hint, "warning")
    addresses = list(dict.fromkeys(call.address for call in case_run.calls))
    for reply in case_run.unused_replies:
        hint = _suggest_name(reply.rule.address, addresses, NO_CALL)
        problems.report(reply.span, "untaken", "no call used this reply", hint, "warning")
    for name in case_run.unused_answers:
        span = case.front.key_span("answers", name) or case.span
        problems.report(span, "untaken", f"no question used the answer `{name}`", "", "warning")
    return list(problems)


def _check_expectation(expectation: Expectation, case_run: CaseRun, ready: ReadyCase) -> Iterator[Mismatch]:
    for message, actual, difference, hint in _CHECKS[expectation.kind](expectation, case_run, ready.files):
        problem = problem_at(expectation.span, expectation.test or expectation.kind, message, hint)
        yield Mismatch(problem, expectation.value, actual, tuple(difference))


def _suggest_name(name: str, names: Iterable[str], fallback: str) -> str:
    """Return a hint with the closest name, or with all names; `fallback` if there are no names."""
    return suggest(name, names) or fallback


def problem_at(span: Span, code: str, message: str, hint: str = "", severity: Severity = "error") -> Problem:
    """Return a problem at the position of `span`."""
    line, column = span.source.position(span.offset)
    return Problem(span.path, line, column, code, message, hint, severity, span.source.line(line))


# checks, one function for each kind of expectation


def _outcome(expectation: Expectation, case_run: CaseRun, _files: Mapping[str, str]) -> MismatchDetails:
    if case_run.outcome.status != expectation.value:
        reason = f": {case_run.outcome.reason}" if case_run.outcome.reason else ""
        message = f"expected the run to be {expectation.value}, but it is {case_run.outcome.status}{reason}"
        yield message, case_run.outcome.status, (), str(case_run.outcome.next_step) if not reason else ""


def _reason(expectation: Expectation, case_run: CaseRun, _files: Mapping[str, str]) -> MismatchDetails:
    reason = case_run.outcome.reason
    if expectation.value not in reason:
        yield "the reason does not contain these words", reason, (f"the reason is: {reason or '(none)'}",), ""


def _path(expectation: Expectation, case_run: CaseRun, _files: Mapping[str, str]) -> MismatchDetails:
    path = list(expectation.value)
    if path != case_run.path:
        yield "the run took a different path", case_run.path, diff_lines(path, case_run.path), ""


def _phase_checker(field: str) -> Callable[[Expectation, CaseRun, Mapping[str, str]], MismatchDetails]:
    def check(expectation: Expectation, case_run: CaseRun, _files: Mapping[str, str]) -> MismatchDetails:
        summary = case_run.summaries.get(expectation.subject)
        if summary is None:
            why = f"`{expectation.subject}` has no summary: {_phase_state(expectation.subject, case_run)}"
            yield why, None, (), ""
            return
        values: Mapping[str, Any] = getattr(summary, field)
        if expectation.test not in values:
            yield (
                f"`{expectation.subject}` has no `{expectation.test}`",
                None,
                (),
                _suggest_name(expectation.test, values, "it has none"),
            )
        elif values[expectation.test] != expectation.value:
            actual = values[expectation.test]
            lines = diff_lines([quote_value(expectation.value)], [quote_value(actual)])
            yield f"`{expectation.test}` of `{expectation.subject}` has a different value", actual, lines, ""

    return check


def _phase_state(phase: str, case_run: CaseRun) -> str:
    return "it has not ended" if phase in case_run.path else "the run did not reach it"


def _artifact(expectation: Expectation, case_run: CaseRun, files: Mapping[str, str]) -> MismatchDetails:
    text = case_run.artifacts.get(expectation.subject)
    if not expectation.test and not expectation.value:
        if text is not None:
            yield f"`{expectation.subject}` was written, but is not expected", True, (), ""
    elif text is None:
        hint = _suggest_name(expectation.subject, case_run.artifacts, "the run wrote no artifacts")
        yield f"`{expectation.subject}` was not written", None, (), hint
    elif expectation.test:
        for message, difference in _text(expectation, text, files):
            yield f"`{expectation.subject}` {message}", _actual_text(expectation, text), difference, ""


def _prompt(expectation: Expectation, case_run: CaseRun, files: Mapping[str, str]) -> MismatchDetails:
    prompts = [call for call in case_run.calls if call.matches(expectation.subject)]
    if not prompts:
        yield f"no call matches `{expectation.subject}`", None, (), _suggest_address(expectation.subject, case_run)
    mismatch_count = 0
    for call in prompts:
        details = list(_one_prompt(expectation, call.request, files))
        mismatch_count += bool(details)
        if mismatch_count <= MOST_PROMPTS:
            for message, actual, difference in details:
                yield f"the prompt at `{call.round_address}` {message}", actual, difference, ""
    if mismatch_count > MOST_PROMPTS:
        yield f"{mismatch_count - MOST_PROMPTS} more of these {len(prompts)} prompts fail the same way", None, (), ""


def _suggest_address(pattern: str, case_run: CaseRun) -> str:
    """Return a hint about a pattern that matches no call: the rounds in which the pattern would match, or addresses."""
    anywhere = ROUND_PREFIX.sub("", pattern, count=1)
    rounds = dict.fromkeys(call.round for call in case_run.calls if anywhere != pattern and call.matches(anywhere))
    if rounds:
        return (
            f"it matches only in round {', '.join(map(str, rounds))}. A round does not send an unchanged prompt again"
        )
    return _suggest_name(pattern, dict.fromkeys(call.round_address for call in case_run.calls), NO_CALL)


def _one_prompt(
    expectation: Expectation, request: Request, files: Mapping[str, str]
) -> Iterator[tuple[str, Any, Sequence[str]]]:
    if expectation.test == "at_most":
        parts = prompt_parts(request)
        tokens = sum(parts.values())
        if tokens > expectation.value:
            lines = [f"{part}: {number:,} tokens" for part, number in parts.items()]
            yield f"has {tokens:,} tokens; expected at most {expectation.value:,}", tokens, lines
        return
    text = prompt_text(request)
    for message, difference in _text(expectation, text, files):
        yield message, _actual_text(expectation, text), add_part_names(difference, part_lines(request))


def _text(expectation: Expectation, text: str, files: Mapping[str, str]) -> Iterator[tuple[str, Sequence[str]]]:
    """Yield the message and the lines of the difference if a text fails an expectation.

    In a difference, `-` marks expected lines and `+` actual lines.
    """
    words = str(expectation.value)
    match expectation.test:
        case "contains" if words not in text:
            yield f"does not contain {quote_value(words)}", nearest_lines(words, text)
        case "lacks" if words in text:
            yield f"contains {quote_value(words)}, but must not", matching_lines(words, text)
        case "matches" if not _has_match(words, text):
            yield f"has no match for {quote_value(words)}", ()
        case "equals" if files[words].rstrip() != text.rstrip():
            yield f"differs from {words}", diff_lines(files[words].splitlines(), text.splitlines())


def _has_match(pattern: str, text: str) -> bool:
    """Whether a regular expression matches in the whole text or in one line of it.

    So `^` and `$` match at the ends of the text and of each line.
    """
    return any(find_hits(pattern, part, PATTERN_TIMEOUT, ignore_case=False) for part in (text, *text.splitlines()))


def _actual_text(expectation: Expectation, text: str) -> str | None:
    return text if expectation.test == "equals" else None


def _calls(expectation: Expectation, case_run: CaseRun, _files: Mapping[str, str]) -> MismatchDetails:
    least, most = expectation.value
    addresses = [call.round_address for call in case_run.calls if call.matches(expectation.subject)]
    if least <= len(addresses) and (most is None or len(addresses) <= most):
        return
    number = f"{least}" if least == most else f"at most {most}" if not least else f"at least {least}"
    number = f"{least} to {most}" if least and most is not None and least != most else number
    place = "" if expectation.subject == "*" else f" at `{expectation.subject}`"
    message = f"calls made{place}: {len(addresses)}; expected: {number}"
    yield message, len(addresses), addresses or [call.round_address for call in case_run.calls], ""


def _price(expectation: Expectation, case_run: CaseRun, _files: Mapping[str, str]) -> MismatchDetails:
    if case_run.price is None:
        models = ", ".join(dict.fromkeys(call.request.model for call in case_run.calls))
        hint = "add the price to `models:` in config/models.yaml"
        yield f"the price of at least one of the models is unknown: {models}", None, (), hint
    elif case_run.price > expectation.value:
        message = f"the calls cost ${case_run.price:.4f}; expected at most ${expectation.value:.4f}"
        yield message, case_run.price, (), ""


_CHECKS: Final[dict[str, Callable[[Expectation, CaseRun, Mapping[str, str]], MismatchDetails]]] = {
    "outcome": _outcome,
    "reason": _reason,
    "path": _path,
    "outputs": _phase_checker("outputs"),
    "flags": _phase_checker("flags"),
    "artifact": _artifact,
    "prompt": _prompt,
    "calls": _calls,
    "price": _price,
}
