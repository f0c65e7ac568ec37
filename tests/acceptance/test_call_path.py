"""The path from a command to its first request stays short."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.acceptance.conftest import Call, Make
from tests.measures import CallPath
from tests.servers.openai import error
from tests.servers.wire import serve

PAGE = Path(__file__).parents[2] / "docs" / "architecture.md"
MODELS = 'providers: {{local: {{kind: openai, base_url: "{url}/v1", key: ""}}}}\n'
MAX_FUNCTIONS, MAX_FILES = 18, 10
"""Between `main` and the HTTP client, both `main` and the provider's client included."""


@pytest.mark.allow_hosts(["127.0.0.1"])
def test_few_functions_are_between_a_command_and_its_first_request(
    project: Make, skillrun: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = CallPath()
    send = httpx2.AsyncClient.send

    async def record(client: httpx2.AsyncClient, request: httpx2.Request, **settings: Any) -> Any:
        if request.method == "POST":  # not the list of models
            path.reached()
        return await send(client, request, **settings)

    path.install(monkeypatch.setattr)
    monkeypatch.setattr(httpx2.AsyncClient, "send", record)
    with serve([error(401, "this is far enough")]) as server:
        folder = project()
        (folder / "config").mkdir()
        (folder / "config" / "models.yaml").write_text(MODELS.format(url=server.url))
        done = skillrun("plan", "x", "--model", "local:m", "--unattended", "--trust-project")
    assert "this is far enough" in done.out + done.err
    functions = path.functions()
    page = PAGE.read_text(encoding="utf-8").partition("## The path of a call")[2].partition("\n## ")[0]
    assert [f"{file}:{name}" for file, name in re.findall(r"^\d+\. `(.*)`: `(.*)`$", page, re.MULTILINE)] == functions
    assert len(functions) <= MAX_FUNCTIONS, functions
    assert len({name.partition(":")[0] for name in functions}) <= MAX_FILES, functions
