"""Runs the cases of checked workflows, and returns a result for each case. Many cases run in parallel."""

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
MIN_PARALLEL_CASES: Final = 8  # for fewer cases, starting processes takes longer than running the cases


@dataclass(frozen=True)
class CheckedWorkflow:
    """A checked workflow. If one of its files has errors, it has no `program` and no `catalogue`."""

    program: Program | None
    catalogue: Catalogue | None
    problems: tuple[Problem, ...] = ()


@dataclass(frozen=True)
class CaseResult:
    """The result of a case.

    `status` is `holds` (passed), `misses` (an expectation failed), `broken` (the case file has errors) or `not-run`
    (the workflow has errors). `problems` are the problems of the case file, including warnings about unused entries.
    `prompts` are the prompts that differ from the recorded ones.
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
    """Yield the result of each case, in order. `jobs` cases run in parallel; 0 means one per processor."""

    def run_by_index(number: int) -> CaseResult:
        return run_case(files[number], workflows[files[number].workflow], project)

    jobs = jobs or os.cpu_count() or 1
    if jobs == 1 or len(files) < MIN_PARALLEL_CASES or "fork" not in multiprocessing.get_all_start_methods():
        yield from map(run_by_index, range(len(files)))
        return
    gc.freeze()  # the collector then leaves loaded objects alone, so that forked processes share their memory
    context = multiprocessing.get_context("fork")
    with ProcessPoolExecutor(min(jobs, len(files)), context, _init_worker, (run_by_index,)) as pool:
        try:
            yield from pool.map(_run_in_worker, range(len(files)))
        except BrokenProcessPool:
            message = "a process that ran cases was killed, possibly because memory ran out"
            raise SkillrunError(message, "use `--jobs 1` to run the cases one after the other") from None
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    gc.unfreeze()


def run_case(file: CaseFile, workflow: CheckedWorkflow, project: Path) -> CaseResult:
    """Read, check and run one case, and return the result."""
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


_run_by_index: Callable[[int], CaseResult] | None = None  # set in worker processes


def _init_worker(run_by_index: Callable[[int], CaseResult]) -> None:
    global _run_by_index  # noqa: PLW0603 (a worker process gets its function once, when it is forked)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent process stops the workers
    _run_by_index = run_by_index


def _run_in_worker(number: int) -> CaseResult:
    assert _run_by_index is not None
    return _run_by_index(number)
