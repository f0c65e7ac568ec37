"""One module per verb. Each takes a step and its frame, and gives what the step's id is bound to."""

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

Act = Callable[[Step, Frame], Awaitable[Any]]

VERBS: Final[Mapping[str, Act]] = MappingProxyType(
    {
        "agent": agent.act,
        "panel": panel.act,
        "ask": ask.act,
        "read": read.act,
        "find": find.act,
        "write": write.act,
        "say": say.act,
        "set": assign.act,
        "decide": decide.act,
        "repeat": repeat.act,
        "each": each.act,
        "run": run.act,
        "goto": goto.act,
        "stop": stop.act,
    }
)
