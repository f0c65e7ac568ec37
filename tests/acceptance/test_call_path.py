"""The path from a command to its first request stays short."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from skillrun.models.scripted import ScriptedGateway
from skillrun.syntax.diagnostics import SkillrunError
from tests.acceptance.conftest import Call, Make
from tests.measures import CallPath

PAGE = Path(__file__).parents[2] / "docs" / "architecture.md"
MAX_FUNCTIONS, MAX_FILES = 21, 10
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
    page = PAGE.read_text(encoding="utf-8").partition("## The path of a call")[2].partition("\n## ")[0]
    assert [f"{file}:{name}" for file, name in re.findall(r"^\d+\. `(.*)`: `(.*)`$", page, re.MULTILINE)] == functions
    assert len(functions) <= MAX_FUNCTIONS, functions
    assert len({name.partition(":")[0] for name in functions}) <= MAX_FILES, functions
