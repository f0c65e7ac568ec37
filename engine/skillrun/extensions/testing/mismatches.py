"""What is expected of a run beside what came of it: a miss for each thing that is otherwise, with the difference.

Looks at a run that is over; prints nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from skillrun.extensions.testing.case_run import Trial, part_lines, prompt_parts, prompt_text
from skillrun.extensions.testing.cases import ROUND, Case, Expectation
from skillrun.extensions.testing.checking import ReadyCase
from skillrun.extensions.testing.differences import differing_lines, lines_around, nearest_lines, with_parts
from skillrun.models.messages import Request
from skillrun.scoring.patterns import hits
from skillrun.syntax.diagnostics import Problem, Problems, Severity, suggest
from skillrun.syntax.source import Span
from skillrun.types.schemas import quoted

SEARCH: Final = 5.0  # seconds for a regular expression
NO_CALL: Final = "the run makes no call"
OUTCOME: Final = ("outcome", "reason")  # what is told first
MOST_PROMPTS: Final = 3  # whose difference is told for one expectation; the others are counted


@dataclass(frozen=True)
class Miss:
    """What is otherwise than expected, at the place of the expectation; in `difference` what there is, line by line."""

    problem: Problem
    expected: Any
    actual: Any
    difference: tuple[str, ...] = ()


Missed = Iterator[tuple[str, Any, Sequence[str], str]]
"""Message, what there is, its difference, and a hint."""


def misses(ready: ReadyCase, trial: Trial) -> list[Miss]:
    """All that is otherwise than the case expects. Where it says nothing of the outcome, the run has to complete."""
    case = ready.case
    expected = list(case.expected)
    if not any(wanted.kind == "outcome" for wanted in expected):
        expected.insert(0, Expectation("outcome", "completed", case.front.place("expect") or case.span))
    if not trial.begun and not all(wanted.kind in OUTCOME for wanted in expected):
        return [_not_begun(expected, trial)]
    expected.sort(key=lambda wanted: wanted.kind not in OUTCOME)  # the rest may follow from it
    told: dict[str, Miss] = {}  # by what it says: that a text is not there is said once, whatever is expected of it
    for wanted in expected:
        for miss in _missed(wanted, trial, ready):
            told.setdefault(miss.problem.message, miss)
    return list(told.values())


def _not_begun(expected: Sequence[Expectation], trial: Trial) -> Miss:
    """The one thing that there is to say of a run that never was, whatever is expected of it."""
    wanted = next((wanted for wanted in expected if wanted.kind == "outcome"), expected[0])
    message = f"the run could not begin: {trial.outcome.reason}"
    return Miss(problem_at(wanted.span, "outcome", message), wanted.wanted, trial.outcome.status)


def unused(case: Case, trial: Trial) -> list[Problem]:
    """A warning for each reply that no call has taken or that is of another shape, and for each answer without a
    question."""
    problems = Problems()
    if not trial.begun:
        return []
    for unfit in trial.unfit:
        message = f"this reply is none of the shape that `{unfit.address}` asks for: {unfit.reason}"
        hint = "mend it; one that is to be unreadable is written as `text:`"
        problems.report(unfit.reply.span, "unfit", message, hint, "warning")
    addresses = list(dict.fromkeys(call.address for call in trial.sent))
    for reply in trial.untaken:
        hint = _nearest(reply.rule.address, addresses, NO_CALL)
        problems.report(reply.span, "untaken", "no call has taken this reply", hint, "warning")
    for name in trial.unasked:
        span = case.front.place("answers", name) or case.span
        problems.report(span, "untaken", f"no question used the answer `{name}`", "", "warning")
    return list(problems)


def _missed(wanted: Expectation, trial: Trial, ready: ReadyCase) -> Iterator[Miss]:
    for message, actual, difference, hint in _LOOK[wanted.kind](wanted, trial, ready.files):
        problem = problem_at(wanted.span, wanted.test or wanted.kind, message, hint)
        yield Miss(problem, wanted.wanted, actual, tuple(difference))


def _nearest(name: str, there: Iterable[str], none: str) -> str:
    """What is there instead: the name that is near, or all of them."""
    return suggest(name, there) or none


def problem_at(span: Span, code: str, message: str, hint: str = "", severity: Severity = "error") -> Problem:
    """A problem at a place."""
    line, column = span.source.position(span.offset)
    return Problem(span.path, line, column, code, message, hint, severity, span.source.line(line))


# one function for each kind of expectation


def _outcome(wanted: Expectation, trial: Trial, _files: Mapping[str, str]) -> Missed:
    if trial.outcome.status != wanted.wanted:
        reason = f": {trial.outcome.reason}" if trial.outcome.reason else ""
        message = f"the run is expected to be {wanted.wanted}, and is {trial.outcome.status}{reason}"
        yield message, trial.outcome.status, (), str(trial.outcome.next_step) if not reason else ""


def _reason(wanted: Expectation, trial: Trial, _files: Mapping[str, str]) -> Missed:
    reason = trial.outcome.reason
    if wanted.wanted not in reason:
        yield "these words are not in the reason", reason, (f"the reason is: {reason or '(none)'}",), ""


def _path(wanted: Expectation, trial: Trial, _files: Mapping[str, str]) -> Missed:
    path = list(wanted.wanted)
    if path != trial.path:
        yield "the run took another path", trial.path, differing_lines(path, trial.path), ""


def _of_phases(field: str) -> Callable[[Expectation, Trial, Mapping[str, str]], Missed]:
    def look(wanted: Expectation, trial: Trial, _files: Mapping[str, str]) -> Missed:
        summary = trial.summaries.get(wanted.subject)
        if summary is None:
            why = f"`{wanted.subject}` has no summary: {_stand(wanted.subject, trial)}"
            yield why, None, (), ""
            return
        values: Mapping[str, Any] = getattr(summary, field)
        if wanted.test not in values:
            yield f"`{wanted.subject}` has no `{wanted.test}`", None, (), _nearest(wanted.test, values, "it has none")
        elif values[wanted.test] != wanted.wanted:
            actual = values[wanted.test]
            lines = differing_lines([quoted(wanted.wanted)], [quoted(actual)])
            yield f"`{wanted.test}` of `{wanted.subject}` is another", actual, lines, ""

    return look


def _stand(phase: str, trial: Trial) -> str:
    return "it has not ended" if phase in trial.path else "the run has not come to it"


def _artifact(wanted: Expectation, trial: Trial, files: Mapping[str, str]) -> Missed:
    text = trial.artifacts.get(wanted.subject)
    if not wanted.test and not wanted.wanted:
        if text is not None:
            yield f"`{wanted.subject}` was written, and is not expected", True, (), ""
    elif text is None:
        hint = _nearest(wanted.subject, trial.artifacts, "the run has written nothing")
        yield f"`{wanted.subject}` was not written", None, (), hint
    elif wanted.test:
        for message, difference in _text(wanted, text, files):
            yield f"`{wanted.subject}` {message}", _actual(wanted, text), difference, ""


def _prompt(wanted: Expectation, trial: Trial, files: Mapping[str, str]) -> Missed:
    prompts = [call for call in trial.sent if call.is_at(wanted.subject)]
    if not prompts:
        yield f"no call is at `{wanted.subject}`", None, (), _instead(wanted.subject, trial)
    missing = 0
    for call in prompts:
        told = list(_one_prompt(wanted, call.request, files))
        missing += bool(told)
        if missing <= MOST_PROMPTS:
            for message, actual, difference in told:
                yield f"the prompt at `{call.place}` {message}", actual, difference, ""
    if missing > MOST_PROMPTS:
        yield f"{missing - MOST_PROMPTS} more of {len(prompts)} prompts there miss it", None, (), ""


def _instead(pattern: str, trial: Trial) -> str:
    """Where calls are made, when none is at a pattern: in other rounds, or at other addresses."""
    anywhere = ROUND.sub("", pattern, count=1)
    rounds = dict.fromkeys(call.round for call in trial.sent if anywhere != pattern and call.is_at(anywhere))
    if rounds:
        return f"it is asked there in round {', '.join(map(str, rounds))} alone; an unchanged prompt is not sent again"
    return _nearest(pattern, dict.fromkeys(call.place for call in trial.sent), NO_CALL)


def _one_prompt(
    wanted: Expectation, request: Request, files: Mapping[str, str]
) -> Iterator[tuple[str, Any, Sequence[str]]]:
    if wanted.test == "at_most":
        parts = prompt_parts(request)
        tokens = sum(parts.values())
        if tokens > wanted.wanted:
            lines = [f"{part}: {number:,} tokens" for part, number in parts.items()]
            yield f"has {tokens:,} tokens, and at most {wanted.wanted:,} are expected", tokens, lines
        return
    text = prompt_text(request)
    for message, difference in _text(wanted, text, files):
        yield message, _actual(wanted, text), with_parts(difference, part_lines(request))


def _text(wanted: Expectation, text: str, files: Mapping[str, str]) -> Iterator[tuple[str, Sequence[str]]]:
    """What is otherwise in a text, and the difference: what is expected behind `-`, what there is behind `+`."""
    words = str(wanted.wanted)
    match wanted.test:
        case "contains" if words not in text:
            yield f"does not contain {quoted(words)}", nearest_lines(words, text)
        case "lacks" if words in text:
            yield f"contains {quoted(words)}, which is not expected", lines_around(words, text)
        case "matches" if not _occurs(words, text):
            yield f"has nothing that matches {quoted(words)}", ()
        case "equals" if files[words].rstrip() != text.rstrip():
            yield f"is not equal to {words}", differing_lines(files[words].splitlines(), text.splitlines())


def _occurs(pattern: str, text: str) -> bool:
    """Whether a regular expression occurs in a text, or in one of its lines: `^` and `$` are those of a line too."""
    return any(hits(pattern, part, SEARCH, ignore_case=False) for part in (text, *text.splitlines()))


def _actual(wanted: Expectation, text: str) -> str | None:
    return text if wanted.test == "equals" else None


def _calls(wanted: Expectation, trial: Trial, _files: Mapping[str, str]) -> Missed:
    least, most = wanted.wanted
    addresses = [call.place for call in trial.sent if call.is_at(wanted.subject)]
    if least <= len(addresses) and (most is None or len(addresses) <= most):
        return
    number = f"{least}" if least == most else f"at most {most}" if not least else f"at least {least}"
    number = f"{least} to {most}" if least and most is not None and least != most else number
    place = "" if wanted.subject == "*" else f" at `{wanted.subject}`"
    message = f"calls made{place}: {len(addresses)}; expected: {number}"
    yield message, len(addresses), addresses or [call.place for call in trial.sent], ""


def _price(wanted: Expectation, trial: Trial, _files: Mapping[str, str]) -> Missed:
    if trial.price is None:
        models = ", ".join(dict.fromkeys(call.request.model for call in trial.sent))
        hint = "`models:` of config/models.yaml has the prices"
        yield f"the price is not known of all models that were asked: {models}", None, (), hint
    elif trial.price > wanted.wanted:
        message = f"the calls cost ${trial.price:.4f}, and at most ${wanted.wanted:.4f} are expected"
        yield message, trial.price, (), ""


_LOOK: Final[dict[str, Callable[[Expectation, Trial, Mapping[str, str]], Missed]]] = {
    "outcome": _outcome,
    "reason": _reason,
    "path": _path,
    "outputs": _of_phases("outputs"),
    "flags": _of_phases("flags"),
    "artifact": _artifact,
    "prompt": _prompt,
    "calls": _calls,
    "price": _price,
}
