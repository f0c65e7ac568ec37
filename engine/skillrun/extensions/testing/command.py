"""`skillrun test`: runs the cases of workflows on the scripted model and reports failed expectations."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final

import click

from skillrun.checker.checker import check_workflow
from skillrun.checker.program import Program
from skillrun.cli import completion, options
from skillrun.cli.formatting import count_noun, format_duration, format_price
from skillrun.cli.loading import exit_on_errors, open_catalogue, open_library, require_workflow
from skillrun.cli.options import current_project, relative_to_cwd
from skillrun.cli.output import Output
from skillrun.cli.registry import RESERVED_NAMES
from skillrun.extensions.testing.case_reader import CASES_FOLDER, CaseFile, case_files, looks_like_case
from skillrun.extensions.testing.compare import compare, compare_options, parse_compare_options
from skillrun.extensions.testing.recording import record_case
from skillrun.extensions.testing.reports import NOT_AS_RECORDED, SUITES, build_result_data, format_result, render_junit
from skillrun.extensions.testing.suite import CaseResult, CheckedWorkflow, run_cases
from skillrun.library.library import Library
from skillrun.store.stored_run import StoredRun
from skillrun.syntax.diagnostics import Problem, Problems, UsageError, render_problem, suggest
from skillrun.syntax.source import Span
from skillrun.types.fields import SLUG

INVALID_CASE: Final = 2
HEAD_BYTES: Final = 200  # enough to recognize a report
NO_CASES_HINT: Final = (
    f"write {CASES_FOLDER}/<workflow>/<case>.md, starting with `---`, `inputs: {{…}}`, `expect: {{…}}`, `---`; "
    "or create a case from a run with `skillrun test --record RUN`"
)


def _complete_cases(context: click.Context, _parameter: click.Parameter, incomplete: str) -> completion.Items:
    """Return the cases of the given workflow."""
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
@compare_options
@options.runs_folder
@options.as_json
def test(workflow: str, names: tuple[str, ...], **chosen: Any) -> int:
    out, report = Output(chosen["json"]), chosen["report"]
    _check_report(report)
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
    library, project = open_library(), current_project().resolve()
    files, strays = _select_cases(library, project, workflow, names)
    if compare_settings is not None:
        return compare(compare_settings, library, files, out)
    workflows = _check_workflows(library, dict.fromkeys(file.workflow for file in files), out)
    results = list(strays)
    for result in strays:
        _print_result(result, out)
    for result in run_cases(files, workflows, project, chosen["jobs"]):
        results.append(result)
        _print_result(result, out, prompts=chosen["prompts"])
    seconds = time.monotonic() - started
    if report is not None:
        report.write_bytes(render_junit(results, seconds))
    counts: Counter[str] = Counter(result.status for result in results)
    out.line(f"{count_noun(len(results), 'case')}: {_format_counts(counts)} ({format_duration(seconds)})")
    out.data(
        {
            "cases": [build_result_data(result) for result in results],
            "seconds": round(seconds, 3),
            **_counts_data(counts),
        }
    )
    return INVALID_CASE if counts["broken"] else 1 if counts["misses"] or counts["not-run"] else 0


def _check_report(report: Path | None) -> None:
    """Raise UsageError if the report's folder is missing, or if the report would overwrite another file."""
    if report is None:
        return
    if not report.parent.is_dir():
        raise UsageError(f"the folder of the report is missing: {report.parent}", "create it first")
    if report.exists() and SUITES.encode() not in report.read_bytes()[:HEAD_BYTES]:
        raise UsageError(f"{report} exists and is not a test report", "choose another name, or move the file")


def _select_cases(
    library: Library, project: Path, workflow: str, names: Sequence[str]
) -> tuple[list[CaseFile], list[CaseResult]]:
    """Return the selected cases, and results for cases whose workflow is missing.

    Raises UsageError if there are no cases, or if a named case does not exist.
    """
    files = list(case_files(project))
    workflow_names = library.names("workflows")
    if not workflow:
        strays = [
            stray
            for file in files
            if file.workflow not in workflow_names and (stray := _unknown_workflow_result(library, project, file))
        ]
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


def _unknown_workflow_result(library: Library, project: Path, file: CaseFile) -> CaseResult | None:
    """Return a result for a case whose workflow is missing; None if the file is not a case."""
    problems = Problems()
    document = file.document(problems, project)
    if document is None or not looks_like_case(document):
        return None
    hint = suggest(file.workflow, library.names("workflows"))
    message = f"the folder of this case is named `{file.workflow}`, but no workflow has this name"
    problems.report(Span(document.source, 0), "unknown-workflow", message, hint)
    return CaseResult(file.workflow, file.name, file.label, "broken", tuple(problems))


def _check_workflows(library: Library, names: Iterable[str], out: Output) -> dict[str, CheckedWorkflow]:
    """Check each workflow and its files once, and print the problems."""
    from skillrun.checker.checker import check_workflow

    workflows: dict[str, CheckedWorkflow] = {}
    printed: set[Problem] = set()
    for name in names:
        library = Library(library.roots, library)  # a new library, which collects only this workflow's problems
        program = check_workflow(library, name, RESERVED_NAMES)
        library.config("models")
        problems = tuple(library.problems)
        for problem in problems:
            if problem not in printed:
                out.note(render_problem(problem) + "\n")
        printed.update(problems)
        broken = program is None or library.problems.has_errors
        catalogue = None if broken else open_catalogue(library, trusted=True)  # no request is sent
        workflows[name] = CheckedWorkflow(None if broken else program, catalogue, problems)
    return workflows


def _print_result(result: CaseResult, out: Output, *, prompts: bool = False) -> None:
    title = f"{result.workflow}/{result.name}"
    number = len(result.prompts)
    others = f"; {NOT_AS_RECORDED[0 if number == 1 else 1].format(number)}" if number else ""
    status_texts = {
        "holds": f"passed ({count_noun(result.calls, 'call')}, {format_price(result.price)}{others})",
        "misses": f"failed: {count_noun(len(result.mismatches), 'expectation')} not met",
        "broken": "invalid",
        "not-run": f"not run: `{result.workflow}` has problems",
    }
    out.line(f"{title}: {status_texts[result.status]}")
    for line in format_result(result, prompts=prompts):
        out.line(line)


def _format_counts(counts: Counter[str]) -> str:
    words = {
        "holds": ("passed", "passed"),
        "misses": ("failed", "failed"),
        "broken": ("invalid",),
        "not-run": ("not run",),
    }
    numbers = {status: counts[status] for status in words if counts[status]}
    return ", ".join(f"{number} {words[status][-1 if number > 1 else 0]}" for status, number in numbers.items())


def _counts_data(counts: Counter[str]) -> dict[str, int]:
    return {name.replace("-", "_"): counts[name] for name in ("holds", "misses", "broken", "not-run")}


def create_case(run: StoredRun, name: str, out: Output) -> tuple[str, str]:
    """Write a case recorded from a run, and return the names of its workflow and of the case.

    Raises UsageError if the name is invalid or a file already exists.
    """
    if not SLUG.fullmatch(name):
        raise UsageError(
            f"`{name}` is not a valid case name", "use lowercase letters, digits and `-`: `--as dark-mode`"
        )
    library, project = open_library(), current_project().resolve()
    with run:
        workflow = run.state().workflow
        program = _check_program(workflow, library, out)
        recorded = record_case(run, program, name, project)
    folder = project / CASES_FOLDER / workflow
    case = folder / f"{name}.md"
    for path in (case, folder / name):
        if path.exists() or path.is_symlink():
            raise UsageError(f"{relative_to_cwd(path)} already exists", "choose another name with `--as`")
    if not folder.resolve().is_relative_to(project):
        raise UsageError(
            f"{relative_to_cwd(folder)} is outside the project", "replace the link with a folder in the project"
        )
    for written, text in {**recorded.artifacts, **recorded.extra_files, case.name: recorded.text}.items():
        (folder / written).parent.mkdir(parents=True, exist_ok=True)
        (folder / written).write_text(text, encoding="utf-8")
    number = len(recorded.artifacts)
    artifacts_note = f", and {count_noun(number, 'artifact')} in {relative_to_cwd(folder / name)}" if number else ""
    out.line(f"wrote {relative_to_cwd(case)}{artifacts_note}")
    for notice in recorded.notices:
        out.note(f"warning: {notice}")
    return workflow, name


def _check_program(workflow: str, library: Library, out: Output) -> Program:
    """Return the program of a workflow. If the workflow has errors, print them and exit.

    Warnings are printed later, when the case runs.
    """
    require_workflow(workflow, library)
    program = check_workflow(library, workflow, RESERVED_NAMES)
    if library.problems.has_errors:
        exit_on_errors(library.problems, out, "No case was written.")
    assert program is not None
    return program
