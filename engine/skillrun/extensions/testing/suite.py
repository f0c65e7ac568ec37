"""Runs the cases of checked workflows in parallel, and formats the results as text, JSON and JUnit XML."""

from __future__ import annotations

import asyncio
import gc
import multiprocessing
import os
import re
import signal
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, Literal
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from skillrun.cli.formatting import count_noun, format_price
from skillrun.cli.loading import LoadedWorkflow
from skillrun.extensions.testing.case_run import MOST_PROMPTS, Mismatch, find_mismatches, run_scripted_case
from skillrun.extensions.testing.cases import CaseFile
from skillrun.extensions.testing.checking import load_case
from skillrun.extensions.testing.differences import PromptDifference, prompt_differences
from skillrun.syntax.diagnostics import Problem, Problems, SkillrunError, make_printable, render_problem

Status = Literal["holds", "misses", "broken", "not-run"]
MIN_PARALLEL_CASES: Final = 8  # for fewer cases, starting processes takes longer than running the cases
SUITES: Final = "testsuites"
_PROMPT_NOTES: Final = {"differs": "", "new": ": not in the recording", "gone": ": no longer sent"}
_NOT_XML: Final = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]"
)  # characters that XML 1.0 does not allow


@dataclass(frozen=True)
class CaseResult:
    """The result of a case.

    `status` is `holds` (passed), `misses` (an expectation failed), `broken` (the case file has errors) or `not-run`
    (the workflow has errors). `problems` are the problems of the case file, including warnings about unused entries.
    `prompts` are the prompts that differ from the recording.
    """

    file: CaseFile
    status: Status
    problems: tuple[Problem, ...] = ()
    mismatches: tuple[Mismatch, ...] = ()
    prompts: tuple[PromptDifference, ...] = ()
    calls: int = 0
    price: float | None = None
    seconds: float = 0.0

    @property
    def errors(self) -> list[Problem]:
        return [problem for problem in self.problems if problem.severity == "error"]

    @property
    def warnings(self) -> list[Problem]:
        return [problem for problem in self.problems if problem.severity == "warning"]

    def to_dict(self) -> dict[str, Any]:
        """Return the result as JSON data."""
        return {
            "workflow": self.file.workflow,
            "case": self.file.name,
            "path": self.file.label,
            "status": self.status,
            "calls": self.calls,
            "price": self.price,
            "seconds": round(self.seconds, 3),
            "prompts": [asdict(prompt) for prompt in self.prompts],
            "problems": [asdict(problem) for problem in self.problems],
            "misses": [
                {
                    **asdict(miss.problem),
                    "expected": miss.expected,
                    "actual": miss.actual,
                    "difference": list(miss.difference),
                }
                for miss in self.mismatches
            ],
        }


_jobs: list[tuple[CaseFile, LoadedWorkflow | None, Path]] = []
"""The arguments of `_run_case` for each case. Worker processes inherit the list, so no program has to be pickled."""


def run_cases(
    files: Sequence[CaseFile], workflows: Mapping[str, LoadedWorkflow | None], project: Path, jobs: int = 0
) -> Iterator[CaseResult]:
    """Yield the result of each case, in order. `jobs` cases run in parallel; 0 means one per processor.

    If a workflow is None, its cases are not run.
    """
    _jobs[:] = [(file, workflows[file.workflow], project) for file in files]
    jobs = jobs or os.cpu_count() or 1
    if jobs == 1 or len(files) < MIN_PARALLEL_CASES or "fork" not in multiprocessing.get_all_start_methods():
        yield from map(_run_job, range(len(files)))
        return
    gc.freeze()  # the collector then leaves loaded objects alone, so that forked processes share their memory
    context = multiprocessing.get_context("fork")
    ignore_interrupt = (signal.SIGINT, signal.SIG_IGN)  # the parent process stops the workers
    with ProcessPoolExecutor(min(jobs, len(files)), context, signal.signal, ignore_interrupt) as pool:
        try:
            yield from pool.map(_run_job, range(len(files)))
        except BrokenProcessPool:
            message = "a process that ran cases was killed, possibly because memory ran out"
            raise SkillrunError(message, "use `--jobs 1` to run the cases one after the other") from None
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    gc.unfreeze()


def _run_job(number: int) -> CaseResult:
    """Read, check and run one case, and return the result."""
    file, workflow, project = _jobs[number]
    problems = Problems()
    ready = load_case(file, workflow.program if workflow is not None else None, project, problems)
    if ready is None or workflow is None:
        return CaseResult(file, "not-run" if workflow is None else "broken", tuple(problems))
    started_at = time.monotonic()
    case_run = asyncio.run(run_scripted_case(ready, workflow.program, workflow.catalogue))
    mismatches, sent = tuple(find_mismatches(ready, case_run)), [call[:2] for call in case_run.calls]
    prompts = tuple(prompt_differences(ready.prompts, sent)) if ready.prompts is not None else ()
    status: Status = "misses" if mismatches else "holds"
    used = len(case_run.calls), case_run.price, time.monotonic() - started_at
    return CaseResult(file, status, (*problems, *case_run.warnings), mismatches, prompts, *used)


def format_result(result: CaseResult, *, prompts: bool = False) -> Iterator[str]:
    """Yield the lines for a case: its status, then mismatches, errors, changed prompts and warnings.

    By default, only a failed case shows prompts that differ from the recording, and only the first ones. With
    `prompts`, every case shows all of them.
    """
    others = f"; {_count_prompts(result)}" if result.prompts else ""
    status_texts = {
        "holds": f"passed ({count_noun(result.calls, 'call')}, {format_price(result.price)}{others})",
        "misses": f"failed: {count_noun(len(result.mismatches), 'expectation')} not met",
        "broken": "invalid",
        "not-run": f"not run: `{result.file.workflow}` has problems",
    }
    yield f"{result.file.workflow}/{result.file.name}: {status_texts[result.status]}"
    for mismatch in result.mismatches:
        yield from (*_mismatch_lines(mismatch), "")
    for problem in result.errors:
        yield from (render_problem(problem), "")
    if result.prompts and (result.mismatches or prompts):
        yield from (*_prompt_lines(result, len(result.prompts) if prompts else MOST_PROMPTS), "")
    for problem in result.warnings:
        yield from (render_problem(problem), "")


def _mismatch_lines(mismatch: Mismatch) -> Iterator[str]:
    yield render_problem(mismatch.problem)
    yield from (f"    {make_printable(line)}" for line in mismatch.difference)


def _prompt_lines(result: CaseResult, most: int) -> Iterator[str]:
    """Yield the first `most` prompts that differ from the recording, and the number of remaining prompts."""
    yield _count_prompts(result)
    for prompt in result.prompts[:most]:
        yield f"  {prompt.address}{_PROMPT_NOTES[prompt.status]}"
        yield from (f"    {make_printable(line)}" for line in prompt.difference)
    if len(result.prompts) > most:
        yield f"  … and {len(result.prompts) - most} more; `--prompts` shows all"


def _count_prompts(result: CaseResult) -> str:
    number = len(result.prompts)
    return f"{number} prompt{' differs' if number == 1 else 's differ'} from the recording"


def render_junit(results: Iterable[CaseResult], seconds: float) -> bytes:
    """Return JUnit XML with one suite per workflow.

    A failed case is a failure. A case that is invalid or was not run is an error. JUnit readers expect at most one
    failure or error per case, so its message is the first problem, and its text has all problems.
    """
    suites: defaultdict[str, list[CaseResult]] = defaultdict(list)
    for result in results:
        suites[result.file.workflow].append(result)
    everything = [result for suite in suites.values() for result in suite]
    top = Element(SUITES, {"name": "skillrun", **_suite_numbers(everything, seconds)})
    for name, suite in suites.items():
        times = sum(result.seconds for result in suite)
        element = SubElement(top, "testsuite", {"name": name, **_suite_numbers(suite, times)})
        for result in suite:
            _add_case(element, result)
    indent(top)
    text = _NOT_XML.sub("\N{REPLACEMENT CHARACTER}", tostring(top, encoding="unicode"))
    return f"<?xml version='1.0' encoding='utf-8'?>\n{text}\n".encode()


def _suite_numbers(results: Iterable[CaseResult], seconds: float) -> dict[str, str]:
    statuses = [result.status for result in results]
    errors = statuses.count("broken") + statuses.count("not-run")
    numbers = {"tests": len(statuses), "failures": statuses.count("misses"), "errors": errors}
    return {**{name: str(number) for name, number in numbers.items()}, "time": f"{seconds:.3f}"}


def _add_case(suite: Element, result: CaseResult) -> None:
    file = result.file
    place = {"classname": file.workflow, "name": file.name, "file": file.label, "time": f"{result.seconds:.3f}"}
    case = SubElement(suite, "testcase", place)
    if result.status == "not-run":
        message = f"`{file.workflow}` has problems; run `skillrun validate` to see them"
        SubElement(case, "error", {"type": "not-run", "message": message})
    elif result.status != "holds":
        problems = [miss.problem for miss in result.mismatches] or result.errors
        blocks = ["\n".join(_mismatch_lines(miss)) for miss in result.mismatches] or map(render_problem, problems)
        prompts = ["\n".join(_prompt_lines(result, MOST_PROMPTS))] if result.prompts else []
        more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        attributes = {"type": problems[0].code, "message": f"{problems[0].message}{more}"}
        element = SubElement(case, "failure" if result.mismatches else "error", attributes)
        element.text = "\n\n".join([*blocks, *prompts])
    if result.warnings:
        SubElement(case, "system-out").text = "\n\n".join(map(render_problem, result.warnings))
