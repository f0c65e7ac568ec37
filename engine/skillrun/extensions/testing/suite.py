"""Runs the cases of workflows, beside one another where there are many, and says of each what came of it.

Is given workflows that were checked; prints nothing.
"""

from __future__ import annotations

import asyncio
import gc
import multiprocessing
import os
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from skillrun.checker.program import Program
from skillrun.extensions.testing.case_reader import CaseFile, read_case
from skillrun.extensions.testing.case_run import run_scripted_case
from skillrun.extensions.testing.checking import prepare_case
from skillrun.extensions.testing.mismatches import Mismatch, check_unused_entries, find_mismatches
from skillrun.extensions.testing.recorded_prompts import PromptDifference, prompt_differences
from skillrun.models.catalogue import Catalogue
from skillrun.syntax.diagnostics import Problem, Problems, SkillrunError

Status = Literal["holds", "misses", "broken", "not-run"]
MIN_PARALLEL_CASES: Final = 8  # cases; fewer are done before others could begin


@dataclass(frozen=True)
class CheckedWorkflow:
    """A workflow that was checked; without a program where one of its files has a problem."""

    program: Program | None
    catalogue: Catalogue | None
    problems: tuple[Problem, ...] = ()


@dataclass(frozen=True)
class CaseResult:
    """What came of a case. `broken` is one whose file has a problem, `not-run` one whose workflow has.

    `problems` are those of the file, warnings included, which also say what was given and not used. `prompts` are those
    that are not as they were recorded.
    """

    workflow: str
    name: str
    path: str
    status: Status
    problems: tuple[Problem, ...] = ()
    mismatches: tuple[Mismatch, ...] = ()
    prompts: tuple[PromptDifference, ...] = ()
    calls: int = 0
    price: float | None = None
    seconds: float = 0.0


def run_cases(
    files: Sequence[CaseFile], workflows: Mapping[str, CheckedWorkflow], project: Path, jobs: int = 0
) -> Iterator[CaseResult]:
    """What came of each case, in their order; `jobs` is how many are run at once, 0 one for each processor."""

    def run_by_index(number: int) -> CaseResult:
        return run_case(files[number], workflows[files[number].workflow], project)

    jobs = jobs or os.cpu_count() or 1
    if jobs == 1 or len(files) < MIN_PARALLEL_CASES or "fork" not in multiprocessing.get_all_start_methods():
        yield from map(run_by_index, range(len(files)))
        return
    gc.freeze()  # what is loaded is shared with the processes, and stays so while nobody looks through it
    context = multiprocessing.get_context("fork")
    with ProcessPoolExecutor(min(jobs, len(files)), context, _init_worker, (run_by_index,)) as pool:
        try:
            yield from pool.map(_run_in_worker, range(len(files)))
        except BrokenProcessPool:
            message = "a process that ran cases was ended from outside, perhaps for want of memory"
            raise SkillrunError(message, "`--jobs 1` runs them one after the other") from None
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    gc.unfreeze()


def run_case(file: CaseFile, workflow: CheckedWorkflow, project: Path) -> CaseResult:
    """What came of one case."""
    problems = Problems()
    document = file.document(problems, project)
    case = read_case(file, document, problems, project) if document is not None else None
    if workflow.program is None or workflow.catalogue is None:
        return CaseResult(file.workflow, file.name, file.label, "not-run", tuple(problems))
    ready = prepare_case(case, workflow.program, project, problems) if case is not None else None
    if ready is None or problems.has_errors:
        return CaseResult(file.workflow, file.name, file.label, "broken", tuple(problems))
    started_at = time.monotonic()
    case_run = asyncio.run(run_scripted_case(ready, workflow.program, workflow.catalogue))
    mismatches, sent = tuple(find_mismatches(ready, case_run)), [call[:2] for call in case_run.calls]
    return CaseResult(
        file.workflow,
        file.name,
        file.label,
        "misses" if mismatches else "holds",
        (*problems, *check_unused_entries(ready.case, case_run)),
        mismatches,
        tuple(prompt_differences(ready.prompts, sent)) if ready.prompts is not None else (),
        len(case_run.calls),
        case_run.price,
        time.monotonic() - started_at,
    )


_run_by_index: Callable[[int], CaseResult] | None = None  # of a process that runs cases


def _init_worker(run_by_index: Callable[[int], CaseResult]) -> None:
    global _run_by_index  # noqa: PLW0603 (a process of a pool is given its work once, by what it was forked with)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # who started it ends it
    _run_by_index = run_by_index


def _run_in_worker(number: int) -> CaseResult:
    assert _run_by_index is not None
    return _run_by_index(number)
