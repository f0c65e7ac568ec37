"""`run`: another workflow, inline, in the same run folder."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from skillrun.language.check import check_workflow
from skillrun.language.definitions import Step
from skillrun.runtime.errors import StepFailed
from skillrun.runtime.run import Frame


async def act(step: Step, frame: Frame) -> dict[str, Any]:
    """The workflow's outputs. Its phases have their summaries in a folder of their own."""
    from skillrun.runtime.inline import run_inline

    outer = frame.run.program
    program = outer.inline.get(step.text) or check_workflow(outer.library, step.text)
    if program is None:
        raise StepFailed(f"the workflow `{step.text}` cannot be run", frame.at(step))
    given = frame.value(step, "with", {})
    return await run_inline(frame, frame.at(step), program, given if isinstance(given, Mapping) else {})
