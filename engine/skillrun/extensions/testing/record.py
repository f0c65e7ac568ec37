"""`skillrun test --record`: writes a case that is made of a run, and says in what a run of it would be another one."""

from __future__ import annotations

from skillrun.checker.checker import check_workflow
from skillrun.checker.program import Program
from skillrun.cli.formatting import counted
from skillrun.cli.loading import look_for, open_library, refuse
from skillrun.cli.output import Output
from skillrun.cli.project_folder import from_here, project_here
from skillrun.cli.registry import COMMANDS
from skillrun.extensions.testing.case_reader import FOLDER
from skillrun.extensions.testing.recording import recorded_case
from skillrun.library.library import Library
from skillrun.store.stored_run import StoredRun
from skillrun.syntax.diagnostics import UsageError
from skillrun.types.fields import SLUG


def record(run: StoredRun, name: str, out: Output) -> tuple[str, str]:
    """Write the case `name` of a run; its workflow, and its name. Writes over nothing."""
    if not SLUG.fullmatch(name):
        raise UsageError(f"`{name}` is no name for a case", "small letters, digits and `-`: `--as dark-mode`")
    library, project = open_library(), project_here().resolve()
    with run:
        workflow = run.state().workflow
        program = _program(workflow, library, out)
        recorded = recorded_case(run, program, name, project)
    place = project / FOLDER / workflow
    case = place / f"{name}.md"
    for path in (case, place / name):
        if path.exists() or path.is_symlink():
            raise UsageError(f"{from_here(path)} already exists", "choose another name with `--as`")
    if not place.resolve().is_relative_to(project):
        raise UsageError(f"{from_here(place)} leads out of the project", "make it a folder of the project")
    for written, text in {**recorded.artifacts, **recorded.files, case.name: recorded.text}.items():
        (place / written).parent.mkdir(parents=True, exist_ok=True)
        (place / written).write_text(text, encoding="utf-8")
    number = len(recorded.artifacts)
    beside = f", and {counted(number, 'artifact')} in {from_here(place / name)}" if number else ""
    out.line(f"wrote {from_here(case)}{beside}")
    for notice in recorded.notices:
        out.note(f"warning: {notice}")
    return workflow, name


def _program(workflow: str, library: Library, out: Output) -> Program:
    """The program of a workflow; ends the command where it has errors. Warnings are told when the case is run."""
    look_for(workflow, library)
    program = check_workflow(library, workflow, COMMANDS)
    if library.problems.errors:
        refuse(library.problems, out, "No case was written.")
    assert program is not None
    return program
