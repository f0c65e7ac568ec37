"""Selects the tools that a member's role names, and opens the folder (`repository:`) that the tools read.

The folder must be in the project, unless the user gave its path as an input of type `path`.
"""

from __future__ import annotations

import errno
import os
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from skillrun import registry
from skillrun.events import Notice
from skillrun.installation import extra_hint, has_outlines
from skillrun.models.messages import ToolSpec
from skillrun.runtime.frame import Frame
from skillrun.runtime.run import PhaseRun, Run
from skillrun.syntax.diagnostics import SkillrunError, UsageError
from skillrun.types.schemas import quote_value

if TYPE_CHECKING:
    from skillrun.repository.readable_folder import ReadableFolder
    from skillrun.repository.repository import Repository
    from skillrun.runtime.members import SeatedMember

TOLD: Final = 4  # withheld names in the notice


def member_tools(frame: Frame, seated: SeatedMember) -> tuple[ToolSpec, ...]:
    """Return the tools that the role lists, without those that need a folder if the workflow has none. Empty if the
    model does not support tools."""
    run, role = frame.run, seated.role
    if not role.tools or not run.resolve_model(seated.member.model or role.model).tools:
        return ()
    from skillrun.repository.repository import load_tool, tool_spec

    texts = tool_descriptions(run)
    packaged = [name for name in role.tools if name not in texts and name not in registry.BUILT_IN["tools"]]
    specs = []
    for name in (*(name for name in texts if name in role.tools), *packaged):
        if not registry.is_registered("tools", name):  # the checker has warned
            continue
        try:
            tool = load_tool(name)
        except UsageError as error:
            _report_once(run, f"warning: {error}")
            continue
        if frame.phase.names["repository"] or not tool.needs_repository:
            if tool.effect == "executes":
                _report_once(run, f"executes: models may call the tool {name}")
            specs.append(ToolSpec(**tool_spec(name, texts.get(name, tool.description), tool.parameters)))
    return tuple(specs)


def tool_descriptions(run: Run) -> dict[str, str]:
    """Return the descriptions of tools in `skills/system/tools.md`, keyed by name."""
    text = run.program.library.text("system/tools")
    sections = text.document.sections if text is not None else ()
    return {section.name: section.text.value.strip() for section in sections}


def _report_once(run: Run, text: str, level: str = "info") -> None:
    if text not in run.evaluation.reported:
        run.evaluation.reported.add(text)
        run.emit(Notice(text, level))


def build_repository(phase: PhaseRun) -> Repository:
    """Return the repository that the tools read: the folder that the workflow names."""
    from skillrun.repository.repository import Repository

    return Repository(partial(open_repository, phase.run, phase.names["repository"]))


def open_repository(run: Run, folder: str) -> ReadableFolder:
    """Open the folder. Raises SkillrunError if it is missing, outside of the project, or withheld."""
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
    """Return whether a path leads outside of the project and was given by the user.

    A path that is inside the project as written counts as inside, even if a link in it leads out of the project.
    """
    folder = project_folder(run)
    outside = not Path(os.path.normpath(folder / path)).is_relative_to(folder)
    return outside and path in user_paths(run)


def resolve_user_path(run: Run, path: str) -> tuple[Path, str] | None:
    """Return the folder of a path, with links resolved, and the name or pattern of the path in this folder.

    Returns None unless the path is, or is inside, a path that leads outside of the project and was given by the user.
    """
    for user_path in user_paths(run):
        if is_user_path_outside(run, user_path):
            place = Path(os.path.realpath(project_folder(run) / user_path))
            if path == user_path:
                return place.parent, place.name
            if path.startswith(f"{user_path.rstrip('/')}/"):
                return place, path[len(user_path.rstrip("/")) + 1 :]
    return None


def open_project(run: Run) -> ReadableFolder:
    """Open the project folder for reading."""
    from skillrun.repository.confined_folder import ConfinedFolder
    from skillrun.repository.readable_folder import ReadableFolder

    return ReadableFolder(ConfinedFolder(project_folder(run), links=True), withheld_names(run))


def project_folder(run: Run) -> Path:
    return Path(run.state.project or run.options.project)


def project_relative_path(run: Run, path: str) -> str:
    """Return a path relative to the project if it is an absolute path in the project; any other path unchanged."""
    for base in (project_folder(run), project_folder(run).resolve()):
        if path.startswith("/") and Path(path).is_relative_to(base):
            return Path(path).relative_to(base).as_posix()
    return path


def withheld_names(run: Run) -> tuple[str, ...]:
    from skillrun.library.settings import secret_names

    return secret_names(run.program.library)


def user_paths(run: Run) -> set[str]:
    """Return the paths that the user gave as inputs of the outermost run. They also hold for its inline workflows."""
    outer = run.outermost
    paths = {field.name for field in outer.program.workflow.inputs if field.type.word == "path"}
    return {str(outer.state.inputs[name]) for name in outer.state.typed if name in paths and name in outer.state.inputs}


def report_repository(run: Run, folder: str) -> None:
    """Report once which folder models may read, what is withheld, and that source files have no outlines without the
    extra `outline`. Raises SkillrunError if the folder cannot be opened."""
    if not folder or folder in run.evaluation.reported:
        return
    from skillrun.repository.readable_folder import one_line

    with open_repository(run, folder) as repository:
        run.evaluation.reported.add(folder)
        names = [name for name in withheld_names(run) if not name.startswith("!")]
        some = f"; {len(names)} patterns of secret file names: {', '.join(names[:TOLD])}, …" if names else ""
        place = one_line(os.path.realpath(repository.tree.path))
        run.emit(Notice(f"reads: {place} (withheld: .git; files that git ignores{some})"))
    if not has_outlines():
        hint = extra_hint("outline")
        text = f"source files have no outlines: the extra `outline` is not installed; install it: {hint}"
        _report_once(run, text, "warn")


def _outside_folder_hint(run: Run) -> str:
    """Return a hint for a folder outside of the project, without its path, which the user did not write."""
    workflow = run.outermost.program.workflow
    name = next((field.name for field in workflow.inputs if field.type.word == "path"), None)
    if name is None:
        return "a folder outside of the project must be given as a path input, and this workflow has no such input"
    flag = f"--{name.replace('_', '-')}"
    return f"give the folder yourself: start again with `skillrun {workflow.name} … {flag} FOLDER`"
