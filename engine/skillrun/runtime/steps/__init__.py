"""Executes steps, one module per verb; each returns the value that the step's id is bound to."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

from skillrun.definitions.definitions import Step
from skillrun.runtime.frame import Frame
from skillrun.runtime.steps import (
    agent,
    ask,
    assign,
    decide,
    each,
    find,
    goto,
    panel,
    read,
    repeat,
    run,
    say,
    stop,
    write,
)

StepHandler = Callable[[Step, Frame], Awaitable[Any]]

VERBS: Final[Mapping[str, StepHandler]] = MappingProxyType(
    {
        "agent": agent.execute,
        "panel": panel.execute,
        "ask": ask.execute,
        "read": read.execute,
        "find": find.execute,
        "write": write.execute,
        "say": say.execute,
        "set": assign.execute,
        "decide": decide.execute,
        "repeat": repeat.execute,
        "each": each.execute,
        "run": run.execute,
        "goto": goto.execute,
        "stop": stop.execute,
    }
)
