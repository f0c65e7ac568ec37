"""Which tools a member gets: those its role names, where the workflow names a folder to read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from skillrun.models.messages import ToolSpec
from skillrun.runtime.context import Seated
from skillrun.runtime.run import Frame


def tools_of(frame: Frame, seated: Seated) -> tuple[ToolSpec, ...]:
    """Empty where the role names none, there is nothing to read, or the model cannot use them."""
    run = frame.run
    folder = frame.open.names.get("repository")
    if not seated.role.tools or not folder or run.repository is None:
        return ()
    if not run.uses_tools(seated.member.model or seated.role.model):
        return ()
    repository = run.repository(folder)
    descriptions = _descriptions(frame)
    wanted = {name: text for name, text in descriptions.items() if name in seated.role.tools}
    return tuple(ToolSpec(**spec) for spec in repository.specs(wanted))


def _descriptions(frame: Frame) -> Mapping[str, Any]:
    text = frame.run.program.library.text("system/tools")
    if text is None:
        return {}
    return {section.name: section.text.value.strip() for section in text.document.sections}
