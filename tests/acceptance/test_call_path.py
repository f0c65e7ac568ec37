"""The path from a command to its first request stays short."""

from __future__ import annotations

from typing import Any

import pytest

from skillrun.models.scripted import ScriptedGateway
from skillrun.syntax.diagnostics import SkillrunError
from tests.acceptance.conftest import Call, Make
from tests.measures import CallPath

MAX_FUNCTIONS, MAX_FILES = 31, 16
"""Between `main` and the first request. The goal is 18 functions in 10 files."""


def test_few_functions_are_between_a_command_and_its_first_request(
    project: Make, skillrun: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = CallPath()
    send = ScriptedGateway.send

    async def record(gateway: ScriptedGateway, *arguments: Any, **settings: Any) -> Any:
        if type(gateway) is not ScriptedGateway:  # the dry run that estimates the costs
            return await send(gateway, *arguments, **settings)
        path.reached()
        raise SkillrunError("this is far enough")

    project()
    path.install(monkeypatch.setattr)
    monkeypatch.setattr(ScriptedGateway, "send", record)
    done = skillrun("plan", "x", "--model", "scripted:default", "--unattended")
    assert "this is far enough" in done.out + done.err
    functions = path.functions()
    assert functions[0] == "cli/main.py:main"
    assert functions[-1] == "models/gateway.py:ModelGateway.send"
    assert len(functions) <= MAX_FUNCTIONS, functions
    assert len({name.partition(":")[0] for name in functions}) <= MAX_FILES, functions
