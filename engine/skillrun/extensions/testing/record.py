"""`skillrun test --record`: creates a case from a run and warns where the case differs from the run."""

from __future__ import annotations

from skillrun.checker.checker import check_workflow
from skillrun.checker.program import Program
from skillrun.cli.formatting import count_noun
from skillrun.cli.loading import exit_on_errors, open_library, require_workflow
from skillrun.cli.output import Output
from skillrun.cli.project_folder import current_project, relative_to_cwd
from skillrun.cli.registry import COMMANDS
from skillrun.extensions.testing.case_reader import CASES_FOLDER
from skillrun.extensions.testing.recording import record_case
from skillrun.library.library import Library
from skillrun.store.stored_run import StoredRun
from skillrun.syntax.diagnostics import UsageError
from skillrun.types.fields import SLUG


def create_case(run: StoredRun, name: str, out: Output) -> tuple[str, str]:
    """Write the case `name` of a run and return its workflow and name. Existing files are not overwritten."""
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
    """Return a workflow's program; exit if it has errors. Warnings are printed when the case runs."""
    require_workflow(workflow, library)
    program = check_workflow(library, workflow, COMMANDS)
    if library.problems.has_errors:
        exit_on_errors(library.problems, out, "No case was written.")
    assert program is not None
    return program
