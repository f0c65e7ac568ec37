"""`skillrun test`: runs the cases of workflows on the scripted model and reports failed expectations."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, Final

import click

from skillrun.checker.checker import check_workflow
from skillrun.cli import completion, options
from skillrun.cli.formatting import count_noun, format_duration
from skillrun.cli.loading import LoadedWorkflow, open_catalogue, open_library, require_workflow
from skillrun.cli.options import FILE, current_project
from skillrun.cli.output import Output
from skillrun.cli.registry import RESERVED_NAMES
from skillrun.extensions.testing.cases import CASES_FOLDER, CaseFile, case_files
from skillrun.extensions.testing.checking import case_problems
from skillrun.extensions.testing.compare import compare, parse_compare_options
from skillrun.extensions.testing.recording import create_case
from skillrun.extensions.testing.suite import SUITES, CaseResult, format_result, render_junit, run_cases
from skillrun.library.library import Library
from skillrun.repository.user_files import OutputFile
from skillrun.syntax.diagnostics import Problem, UsageError, suggest

INVALID_CASE: Final = 2
NO_CASES_HINT: Final = (
    f"write {CASES_FOLDER}/<workflow>/<case>.md, starting with `---`, `inputs: {{…}}`, `expect: {{…}}`, `---`; "
    "or create a case from a run with `skillrun test --record RUN`"
)


def _complete_cases(context: click.Context, _parameter: click.Parameter, incomplete: str) -> completion.Items:
    """Return the cases of the workflow on the command line."""
    workflow = context.params.get("workflow")
    names = (case.name for case in case_files(current_project()) if case.workflow == workflow)
    return completion.items_with_prefix(incomplete, names)


@click.command(
    help="Run the test cases in tests/<workflow>/<case>.md with scripted replies, at no cost.\n\n"
    "Runs all cases, all cases of WORKFLOW, or the named cases. Exit code 1: a case failed. Exit code 2: a case is "
    "invalid."
)
@click.argument("workflow", default="", shell_complete=completion.workflows)
@click.argument("names", nargs=-1, metavar="[CASE]...", shell_complete=_complete_cases)
@click.option(
    "--jobs",
    type=click.IntRange(min=0),
    default=0,
    metavar="N",
    help="Number of cases to run in parallel. Default: one per processor.",
)
@click.option(
    "--junit",
    "report",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Also write the results to FILE as JUnit XML.",
)
@click.option(
    "--record",
    "recorded",
    default="",
    metavar="RUN",
    help="Create a case from RUN, then run the case.",
    shell_complete=completion.runs,
)
@click.option("--as", "name", default="", metavar="CASE", help="Name of the recorded case. Default: the run's name.")
@click.option("--prompts", is_flag=True, help="Show changed prompts of recorded cases even if the case passes.")
@click.option(
    "--compare",
    "other",
    default="",
    metavar="VERSION",
    help="Compare the project's files with VERSION on a real model. VERSION is a git revision, a folder, or "
    "`shipped` (the built-in files). Prints the price before it starts.",
)
@click.option("--samples", type=click.IntRange(1, 100), default=None, metavar="N", help="Samples per case. Default: 3.")
@click.option("--phase", default="", metavar="PHASE", help="Compare the calls of this phase.")
@click.option("--step", default="", metavar="STEP", help="Compare the calls of this step.")
@click.option("--whole", is_flag=True, help="Compare whole runs: a real model replies to every call.")
@click.option(
    "--judge",
    default="",
    metavar="WORKFLOW",
    help="Score each pair of results with WORKFLOW, such as the built-in `judge-pair`. The judge does not see "
    "which version a result comes from.",
)
@click.option("--model", default="", metavar="NAME", help="Use this model for every call. Default: SKILLRUN_MODEL.")
@click.option(
    "--script", type=FILE, metavar="FILE", help="Use the replies in this file instead of calling a model, for tests."
)
@click.option("--yes", is_flag=True, help="Start without asking for confirmation.")
@click.option("--trust-project", is_flag=True, help="Trust this project's provider addresses.")
@options.budget
@options.runs_folder
@options.as_json
def test(workflow: str, names: tuple[str, ...], **chosen: Any) -> int:
    out, report = chosen["out"], chosen["report"]
    if report is not None:
        report = OutputFile.open(report, current_project(), SUITES.encode(), "test report")
    recorded, name = chosen["recorded"], chosen["name"]
    if name and not recorded:
        raise UsageError("`--as` requires `--record`", "add `--record RUN`, or remove `--as`")
    if recorded:
        if workflow:
            raise UsageError("`--record` uses the workflow of the run", "remove the workflow")
        run = options.open_run(recorded, chosen["runs"])
        workflow, case = create_case(run, name or run.name, out)
        names = (case,)
    compare_settings = parse_compare_options(workflow, chosen)
    started = time.monotonic()
    library, project = open_library(), Path(os.path.realpath(current_project()))
    files, strays = _select_cases(library, project, workflow, names)
    if compare_settings is not None:
        return compare(compare_settings, library, files, out)
    workflows = _check_workflows(library, dict.fromkeys(file.workflow for file in files), out)
    results: list[CaseResult] = []
    for result in chain(strays, run_cases(files, workflows, project, chosen["jobs"])):
        results.append(result)
        out.lines(format_result(result, prompts=chosen["prompts"]))
    seconds = time.monotonic() - started
    if report is not None:
        report.write(render_junit(results, seconds))
    counts: Counter[str] = Counter(result.status for result in results)
    words = {"holds": "passed", "misses": "failed", "broken": "invalid", "not-run": "not run"}
    summary = ", ".join(f"{counts[status]} {word}" for status, word in words.items() if counts[status])
    out.line(f"{count_noun(len(results), 'case')}: {summary} ({format_duration(seconds)})")
    out.data(
        {
            "cases": [result.to_dict() for result in results],
            "seconds": round(seconds, 3),
            **{status.replace("-", "_"): counts[status] for status in words},
        }
    )
    return INVALID_CASE if counts["broken"] else 1 if counts["misses"] or counts["not-run"] else 0


def _select_cases(
    library: Library, project: Path, workflow: str, names: Sequence[str]
) -> tuple[list[CaseFile], list[CaseResult]]:
    """Return the selected cases, and results for cases whose workflow is missing.

    Raises UsageError if there are no cases, or if a named case does not exist.
    """
    files = list(case_files(project))
    workflow_names = library.names("workflows")
    if not workflow:
        strays = []
        for file in files:
            if file.workflow not in workflow_names:
                problems = tuple(case_problems(file, workflow_names, None, project))
                if problems:
                    strays.append(CaseResult(file, "broken", problems))
        files = [file for file in files if file.workflow in workflow_names]
        if not files and not strays:
            raise UsageError(f"{CASES_FOLDER}/ has no cases", NO_CASES_HINT)
        return files, strays
    require_workflow(workflow, library)
    files = [file for file in files if file.workflow == workflow]
    if not files:
        raise UsageError(
            f"`{workflow}` has no cases in {CASES_FOLDER}/{workflow}/", NO_CASES_HINT.replace("<workflow>", workflow)
        )
    by_name = {file.name: file for file in files}
    for name in names:
        if name not in by_name:
            raise UsageError(f"`{workflow}` has no case `{name}`", suggest(name, by_name))
    return [by_name[name] for name in names] or files, []


def _check_workflows(library: Library, names: Iterable[str], out: Output) -> dict[str, LoadedWorkflow | None]:
    """Check each workflow and its files once, and print the problems. In the result, a workflow with errors is None."""
    workflows: dict[str, LoadedWorkflow | None] = {}
    printed: set[Problem] = set()
    for name in names:
        library = Library(library.roots, library)  # a new library, which collects only this workflow's problems
        program = check_workflow(library, name, RESERVED_NAMES)
        library.config("models")
        for problem in library.problems:
            if problem not in printed:
                out.problem(problem)
                printed.add(problem)
        if program is None or library.problems.has_errors:
            workflows[name] = None
        else:
            workflows[name] = LoadedWorkflow(program, open_catalogue(library, trusted=True))  # no request is sent
    return workflows
