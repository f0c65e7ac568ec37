"""Executes steps with one function for each verb."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType
from typing import Final

from skillrun.definitions.definitions import Step
from skillrun.runtime.frame import Frame, StepResult
from skillrun.runtime.steps import ask, each, files, flow, members, values

StepHandler = Callable[[Step, Frame], Awaitable[StepResult]]

VERBS: Final[Mapping[str, StepHandler]] = MappingProxyType(
    {
        "agent": members.run_agent,
        "panel": members.run_panel,
        "ask": ask.run_ask,
        "read": files.run_read,
        "find": files.run_find,
        "write": files.run_write,
        "say": flow.run_say,
        "set": values.run_set,
        "decide": values.run_decide,
        "repeat": flow.run_repeat,
        "each": each.run_each,
        "run": flow.run_inline_workflow,
        "goto": flow.run_goto,
        "stop": flow.run_stop,
    }
)
