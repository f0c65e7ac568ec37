"""Formats the results of cases for the terminal, as JSON data and as JUnit XML."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from typing import Any, Final
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from skillrun.extensions.testing.mismatches import MOST_PROMPTS, Mismatch
from skillrun.extensions.testing.recorded_prompts import PromptDifference
from skillrun.extensions.testing.suite import CaseResult
from skillrun.syntax.diagnostics import Problem, make_printable, render_problem

SUITES: Final = "testsuites"
NOT_AS_RECORDED: Final = ("{} prompt differs from the recording", "{} prompts differ from the recording")
_STATUS_NOTES: Final = {"differs": "", "new": ": not in the recording", "gone": ": no longer sent"}
_NOT_XML: Final = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]"
)  # characters that XML 1.0 does not allow


def format_result(result: CaseResult, *, prompts: bool = False) -> Iterator[str]:
    """Yield the lines for a case: mismatches, errors, changed prompts and warnings, with an empty line after each.

    By default, only a failed case shows prompts that differ from the recording, and only the first ones. With
    `prompts`, every case shows all of them.
    """
    errors = [problem for problem in result.problems if problem.severity != "warning"]
    warnings = [problem for problem in result.problems if problem.severity == "warning"]
    for mismatch in result.mismatches:
        yield from (*_mismatch_lines(mismatch), "")
    for problem in errors:
        yield from (render_problem(problem), "")
    if result.prompts and (result.mismatches or prompts):
        yield from (*_prompt_lines(result.prompts, len(result.prompts) if prompts else MOST_PROMPTS), "")
    for problem in warnings:
        yield from (render_problem(problem), "")


def _prompt_lines(prompts: Sequence[PromptDifference], most: int) -> Iterator[str]:
    """Yield the first `most` prompts that differ from the recording, and the number of the others."""
    yield NOT_AS_RECORDED[0 if len(prompts) == 1 else 1].format(len(prompts))
    for prompt in prompts[:most]:
        yield f"  {prompt.address}{_STATUS_NOTES[prompt.status]}"
        yield from (f"    {make_printable(line)}" for line in prompt.difference)
    if len(prompts) > most:
        yield f"  … and {len(prompts) - most} more; `--prompts` shows all"


def build_result_data(result: CaseResult) -> dict[str, Any]:
    """Return the result as JSON data."""
    return {
        "workflow": result.workflow,
        "case": result.name,
        "path": result.path,
        "status": result.status,
        "calls": result.calls,
        "price": result.price,
        "seconds": round(result.seconds, 3),
        "prompts": [asdict(prompt) for prompt in result.prompts],
        "problems": [asdict(problem) for problem in result.problems],
        "misses": [
            {
                **asdict(miss.problem),
                "expected": miss.expected,
                "actual": miss.actual,
                "difference": list(miss.difference),
            }
            for miss in result.mismatches
        ],
    }


def render_junit(results: Iterable[CaseResult], seconds: float) -> bytes:
    """Return JUnit XML with one suite per workflow.

    A failed case is a failure. A case that is invalid or was not run is an error.
    """
    suites: defaultdict[str, list[CaseResult]] = defaultdict(list)
    for result in results:
        suites[result.workflow].append(result)
    everything = [result for suite in suites.values() for result in suite]
    top = Element(SUITES, {"name": "skillrun", **_numbers(everything, seconds)})
    for name, suite in suites.items():
        times = sum(result.seconds for result in suite)
        element = SubElement(top, "testsuite", {"name": _text(name), **_numbers(suite, times)})
        for result in suite:
            _add(element, result)
    indent(top)
    written: bytes = tostring(top, encoding="utf-8", xml_declaration=True)
    return written + b"\n"


def _numbers(results: Iterable[CaseResult], seconds: float) -> dict[str, str]:
    statuses = [result.status for result in results]
    errors = statuses.count("broken") + statuses.count("not-run")
    numbers = {"tests": len(statuses), "failures": statuses.count("misses"), "errors": errors}
    return {**{name: str(number) for name, number in numbers.items()}, "time": f"{seconds:.3f}"}


def _add(suite: Element, result: CaseResult) -> None:
    place = {"classname": result.workflow, "name": result.name, "file": result.path, "time": f"{result.seconds:.3f}"}
    case = SubElement(suite, "testcase", {name: _text(value) for name, value in place.items()})
    warnings = [problem for problem in result.problems if problem.severity == "warning"]
    if result.status == "misses":
        blocks = ["\n".join(_mismatch_lines(miss)) for miss in result.mismatches]
        number = len(blocks)
        if result.prompts:
            blocks.append("\n".join(_prompt_lines(result.prompts, MOST_PROMPTS)))
        _add_outcome(case, "failure", result.mismatches[0].problem, number, blocks)
    elif result.status == "broken":
        errors = [problem for problem in result.problems if problem.severity == "error"]
        _add_outcome(case, "error", errors[0], len(errors), [render_problem(problem) for problem in errors])
    elif result.status == "not-run":
        message = f"`{result.workflow}` has problems; run `skillrun validate` to see them"
        SubElement(case, "error", {"type": "not-run", "message": _text(message)})
    if warnings:
        SubElement(case, "system-out").text = _text("\n\n".join(map(render_problem, warnings)))


def _add_outcome(case: Element, tag: str, first: Problem, number: int, blocks: Iterable[str]) -> None:
    """Add one element with the first problem as its message and all problems as its text.

    JUnit readers expect one such element per case.
    """
    more = f" (and {number - 1} more)" if number > 1 else ""
    element = SubElement(case, tag, {"type": first.code, "message": _text(f"{first.message}{more}")})
    element.text = _text("\n\n".join(blocks))


def _mismatch_lines(mismatch: Mismatch) -> Iterator[str]:
    yield render_problem(mismatch.problem)
    yield from (f"    {make_printable(line)}" for line in mismatch.difference)


def _text(text: str) -> str:
    return _NOT_XML.sub("\N{REPLACEMENT CHARACTER}", text)
