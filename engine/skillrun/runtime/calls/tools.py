"""Which tools a member gets, and which folder they read: those its role names, where the workflow names a folder.

The folder lies in the project, unless it is what the user typed for an input that is a path.
"""

from __future__ import annotations

import errno
import os
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from skillrun.events import Notice
from skillrun.models.messages import ToolSpec
from skillrun.runtime.frame import Frame
from skillrun.runtime.run import PhaseRun, Run
from skillrun.syntax.diagnostics import SkillrunError
from skillrun.types.schemas import quote_value

if TYPE_CHECKING:
    from skillrun.repository.readable_folder import ReadableFolder
    from skillrun.repository.repository import Repository
    from skillrun.runtime.members import SeatedMember

TOLD: Final = 4  # names of what is withheld


def member_tools(frame: Frame, seated: SeatedMember) -> tuple[ToolSpec, ...]:
    """Empty where the role names none, there is nothing to read, or the model cannot use them."""
    run, role = frame.run, seated.role
    if (
        not role.tools
        or not frame.phase.names["repository"]
        or not run.resolve_model(seated.member.model or role.model).tools
    ):
        return ()
    from skillrun.repository.repository import tool_specs

    text = run.program.library.text("system/tools")
    sections = text.document.sections if text is not None else ()
    wanted = {section.name: section.text.value.strip() for section in sections if section.name in role.tools}
    return tuple(ToolSpec(**spec) for spec in tool_specs(wanted))


def build_repository(phase: PhaseRun) -> Repository:
    """The folder that the workflow names, for reading."""
    from skillrun.repository.repository import Repository

    return Repository(partial(open_repository, phase.run, phase.names["repository"]))


def open_repository(run: Run, folder: str) -> ReadableFolder:
    """The folder, open. Raises SkillrunError where there is none, it leads out of the project or is withheld there."""
    from skillrun.repository.confined_folder import ConfinedFolder
    from skillrun.repository.paths import PathRefused
    from skillrun.repository.readable_folder import ReadableFolder

    try:
        if is_user_path_outside(run, folder):
            return ReadableFolder(ConfinedFolder(project_folder(run) / folder, links=True), withheld_names(run))
        with open_project(run) as project, project.open_path(project_relative_path(run, folder)) as entry:
            if not entry.is_folder:
                raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
            place = project.tree.path / entry.name
            return ReadableFolder(
                ConfinedFolder(place, links=True, descriptor=os.dup(entry.descriptor)), withheld_names(run)
            )
    except PathRefused as error:
        raise SkillrunError(f"the repository {error.message}", _outside_folder_hint(run)) from None
    except SkillrunError as error:
        raise SkillrunError(f"the repository {error.message}", error.next_step or _outside_folder_hint(run)) from None
    except OSError as error:
        reason = (error.strerror or "it cannot be read").lower()
        raise SkillrunError(f"the repository {quote_value(folder)} cannot be opened: {reason}") from None


def is_user_path_outside(run: Run, path: str) -> bool:
    """Whether the user typed a path that lies outside of the project.

    What was typed and lies in the project as it is written is confined to it: a link out is the project's.
    """
    folder = project_folder(run)
    outside = not Path(os.path.normpath(folder / path)).is_relative_to(folder)
    return outside and path in user_paths(run)


def resolve_user_path(run: Run, path: str) -> tuple[Path, str] | None:
    """The folder, links followed, and the name or pattern in it, where a path is or begins with what the user typed and
    lies outside of the project; None for any other."""
    for user_path in user_paths(run):
        if is_user_path_outside(run, user_path):
            place = Path(os.path.realpath(project_folder(run) / user_path))
            if path == user_path:
                return place.parent, place.name
            if path.startswith(f"{user_path.rstrip('/')}/"):
                return place, path[len(user_path.rstrip("/")) + 1 :]
    return None


def open_project(run: Run) -> ReadableFolder:
    """The folder of the project, open for reading from."""
    from skillrun.repository.confined_folder import ConfinedFolder
    from skillrun.repository.readable_folder import ReadableFolder

    return ReadableFolder(ConfinedFolder(project_folder(run), links=True), withheld_names(run))


def project_folder(run: Run) -> Path:
    return Path(run.state.project or run.session.project)


def project_relative_path(run: Run, path: str) -> str:
    """A path from the project on, also where it is written from the root on."""
    for base in (project_folder(run), project_folder(run).resolve()):
        if path.startswith("/") and Path(path).is_relative_to(base):
            return Path(path).relative_to(base).as_posix()
    return path


def withheld_names(run: Run) -> tuple[str, ...]:
    from skillrun.library.secrets import secret_names

    return secret_names(run.program.library)


def user_paths(run: Run) -> set[str]:
    """What the user typed for the run's inputs that are paths; a workflow inside a run has none of its own."""
    outer = run.outermost
    paths = {field.name for field in outer.program.workflow.inputs if field.type.word == "path"}
    return {str(outer.state.inputs[name]) for name in outer.state.typed if name in paths and name in outer.state.inputs}


def report_repository(run: Run, folder: str) -> None:
    """Say once which folder models may read, and what is withheld of it. Raises SkillrunError, as opening it does."""
    if not folder or folder in run.reported_folders:
        return
    from skillrun.repository.readable_folder import one_line

    with open_repository(run, folder) as repository:
        run.reported_folders.add(folder)
        names = [name for name in withheld_names(run) if not name.startswith("!")]
        some = f"; {len(names)} kinds of names that hold secrets: {', '.join(names[:TOLD])}, …" if names else ""
        place = one_line(os.path.realpath(repository.tree.path))
        run.emit(Notice(f"reads: {place} (withheld: .git; what git ignores{some})"))


def _outside_folder_hint(run: Run) -> str:
    """What to type instead; the folder is not repeated, for it is not the user who wrote it."""
    workflow = run.outermost.program.workflow
    name = next((field.name for field in workflow.inputs if field.type.word == "path"), None)
    if name is None:
        return "a folder outside is read where the workflow has an input that is a path, and you type it"
    flag = f"--{name.replace('_', '-')}"
    return f"name it yourself: begin again with `skillrun {workflow.name} … {flag} FOLDER`"
