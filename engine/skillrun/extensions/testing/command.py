"""`skillrun test`: runs the cases of workflows on the scripted model, and says what is otherwise than expected."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final

import click

from skillrun.cli import completers, options
from skillrun.cli.formatting import counted, duration, money
from skillrun.cli.loading import look_for, open_catalogue, open_library
from skillrun.cli.output import Output
from skillrun.cli.project_folder import project_here
from skillrun.cli.registry import COMMANDS
from skillrun.extensions.testing.case_reader import FOLDER, CaseFile, case_files, is_meant
from skillrun.extensions.testing.compare import compare, compared_options, comparing
from skillrun.extensions.testing.record import record
from skillrun.extensions.testing.reports import NOT_AS_RECORDED, SUITES, data_of, junit, lines_of
from skillrun.extensions.testing.suite import CaseResult, CheckedWorkflow, run_cases
from skillrun.library.library import Library
from skillrun.syntax.diagnostics import Problem, Problems, UsageError, render_problem, suggest
from skillrun.syntax.source import Span

BROKEN: Final = 2
BEGINNING: Final = 200  # bytes of a report, in which it says what it is
BEGIN: Final = (
    f"write {FOLDER}/<workflow>/<case>.md, which begins with `---`, `inputs: {{…}}`, `expect: {{…}}`, `---`; "
    "or make one of a run with `skillrun test --record RUN`"
)


def _complete_cases(context: click.Context, _parameter: click.Parameter, incomplete: str) -> completers.Items:
    """The cases of the workflow given before them."""
    workflow = context.params.get("workflow")
    names = (case.name for case in case_files(project_here()) if case.workflow == workflow)
    return completers.starting_with(incomplete, names)


@click.command(
    help="Run the test cases in tests/<workflow>/<case>.md with scripted replies, at no cost.\n\n"
    "Runs all cases, those of WORKFLOW, or the named ones. Exit code 1: a case failed. Exit code 2: a case is invalid."
)
@click.argument("workflow", default="", shell_complete=completers.workflows)
@click.argument("names", nargs=-1, metavar="[CASE]...", shell_complete=_complete_cases)
@click.option(
    "--jobs",
    type=click.IntRange(min=0),
    default=0,
    metavar="N",
    help="Number of parallel cases. Default: one per processor.",
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
    help="Create a case from RUN, and run it.",
    shell_complete=completers.runs,
)
@click.option("--as", "name", default="", metavar="CASE", help="Name of the recorded case. Default: the run's name.")
@click.option("--prompts", is_flag=True, help="Show changed prompts of recorded cases even if the case passes.")
@compared_options
@options.runs_folder
@options.as_json
def test(workflow: str, names: tuple[str, ...], **chosen: Any) -> int:
    out, report = Output(chosen["json"]), chosen["report"]
    _check_report(report)
    recorded, name = chosen["recorded"], chosen["name"]
    if name and not recorded:
        raise UsageError("`--as` names the case that `--record RUN` makes", "add `--record RUN`, or leave it out")
    if recorded:
        if workflow:
            raise UsageError("`--record` takes the run, which knows its workflow", "leave the workflow out")
        run = options.stored_run(recorded, chosen["runs"])
        workflow, case = record(run, name or run.name, out)
        names = (case,)
    typed = comparing(workflow, chosen)
    begun = time.monotonic()
    library, project = open_library(), project_here().resolve()
    files, strays = _chosen(library, project, workflow, names)
    if typed is not None:
        return compare(typed, library, files, out)
    workflows = _checked(library, dict.fromkeys(file.workflow for file in files), out)
    results = list(strays)
    for result in strays:
        _tell(result, out)
    for result in run_cases(files, workflows, project, chosen["jobs"]):
        results.append(result)
        _tell(result, out, prompts=chosen["prompts"])
    seconds = time.monotonic() - begun
    if report is not None:
        report.write_bytes(junit(results, seconds))
    counts: Counter[str] = Counter(result.status for result in results)
    out.line(f"{counted(len(results), 'case')}: {_sum(counts)} ({duration(seconds)})")
    out.data({"cases": [data_of(result) for result in results], "seconds": round(seconds, 3), **_counts(counts)})
    return BROKEN if counts["broken"] else 1 if counts["misses"] or counts["not-run"] else 0


def _check_report(report: Path | None) -> None:
    """Raises UsageError, before anything is run, where a report would stand in a place of something else."""
    if report is None:
        return
    if not report.parent.is_dir():
        raise UsageError(f"there is no folder {report.parent} for the report", "make it first")
    if report.exists() and SUITES.encode() not in report.read_bytes()[:BEGINNING]:
        raise UsageError(f"{report} is there, and is no report of tests", "choose another name, or move it away")


def _chosen(
    library: Library, project: Path, workflow: str, names: Sequence[str]
) -> tuple[list[CaseFile], list[CaseResult]]:
    """The cases that are meant, and those of folders that no workflow is named like. Raises UsageError for none."""
    files = list(case_files(project))
    known = library.names("workflows")
    if not workflow:
        strays = [stray for file in files if file.workflow not in known and (stray := _stray(library, project, file))]
        files = [file for file in files if file.workflow in known]
        if not files and not strays:
            raise UsageError(f"there is no case in {FOLDER}/", BEGIN)
        return files, strays
    look_for(workflow, library)
    files = [file for file in files if file.workflow == workflow]
    if not files:
        raise UsageError(f"`{workflow}` has no case in {FOLDER}/{workflow}/", BEGIN.replace("<workflow>", workflow))
    by_name = {file.name: file for file in files}
    for name in names:
        if name not in by_name:
            raise UsageError(f"`{workflow}` has no case `{name}`", suggest(name, by_name))
    return [by_name[name] for name in names] or files, []


def _stray(library: Library, project: Path, file: CaseFile) -> CaseResult | None:
    """What is said of a case that names no workflow; None for a file that is none."""
    problems = Problems()
    document = file.document(problems, project)
    if document is None or not is_meant(document):
        return None
    hint = suggest(file.workflow, library.names("workflows"))
    message = f"no workflow is called `{file.workflow}`, as the folder of this case is"
    problems.report(Span(document.source, 0), "unknown-workflow", message, hint)
    return CaseResult(file.workflow, file.name, file.label, "broken", tuple(problems))


def _checked(library: Library, names: Iterable[str], out: Output) -> dict[str, CheckedWorkflow]:
    """Each workflow with everything that it uses, checked once; what is wrong with one is printed."""
    from skillrun.checker.checker import check_workflow

    workflows: dict[str, CheckedWorkflow] = {}
    told: set[Problem] = set()
    for name in names:
        library = Library(library.roots, library)  # its problems are those of this workflow
        program = check_workflow(library, name, COMMANDS)
        library.config("models")
        problems = tuple(library.problems)
        for problem in problems:
            if problem not in told:
                out.note(render_problem(problem) + "\n")
        told.update(problems)
        broken = program is None or library.problems.errors
        catalogue = None if broken else open_catalogue(library, trusted=True)  # nothing is sent to anybody
        workflows[name] = CheckedWorkflow(None if broken else program, catalogue, problems)
    return workflows


def _tell(result: CaseResult, out: Output, *, prompts: bool = False) -> None:
    title = f"{result.workflow}/{result.name}"
    number = len(result.prompts)
    others = f"; {NOT_AS_RECORDED[0 if number == 1 else 1].format(number)}" if number else ""
    told = {
        "holds": f"holds ({counted(result.calls, 'call')}, {money(result.price)}{others})",
        "misses": f"misses {counted(len(result.misses), 'expectation')}",
        "broken": "is broken",
        "not-run": f"was not run: `{result.workflow}` has problems",
    }
    out.line(f"{title}: {told[result.status]}")
    for line in lines_of(result, prompts=prompts):
        out.line(line)


def _sum(counts: Counter[str]) -> str:
    words = {"holds": ("holds", "hold"), "misses": ("misses", "miss"), "broken": ("broken",), "not-run": ("not run",)}
    numbers = {status: counts[status] for status in words if counts[status]}
    return ", ".join(f"{number} {words[status][-1 if number > 1 else 0]}" for status, number in numbers.items())


def _counts(counts: Counter[str]) -> dict[str, int]:
    return {name.replace("-", "_"): counts[name] for name in ("holds", "misses", "broken", "not-run")}
