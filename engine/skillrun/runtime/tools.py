"""Which tools a member gets: those its role names, where the workflow names a folder to read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skillrun.models.messages import ToolSpec
from skillrun.runtime.run import Frame, PhaseRun

if TYPE_CHECKING:
    from skillrun.runtime.context import Seated
    from skillrun.tools.repository import Repository


def tools_of(frame: Frame, seated: Seated) -> tuple[ToolSpec, ...]:
    """Empty where the role names none, there is nothing to read, or the model cannot use them."""
    run, role = frame.run, seated.role
    if not role.tools or not frame.open.names["repository"] or not run.resolve(seated.member.model or role.model).tools:
        return ()
    text = run.program.library.text("system/tools")
    sections = text.document.sections if text is not None else ()
    wanted = {one.name: one.text.value.strip() for one in sections if one.name in role.tools}
    return tuple(ToolSpec(**spec) for spec in repository_of(frame.open).specs(wanted))


def repository_of(phase: PhaseRun) -> Repository:
    """The folder that the workflow names, for reading."""
    from skillrun.tools.repository import Repository

    return Repository(phase.run.session.project / phase.names["repository"])
