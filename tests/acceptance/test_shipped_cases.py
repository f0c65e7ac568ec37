"""All cases of the shipped workflows, `tests/<workflow>/<case>.md`, pass."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Call = Callable[..., Any]
TOP = Path(__file__).parents[2]


@pytest.mark.slow
@pytest.mark.row("A3")
def test_the_cases_of_the_shipped_workflows_pass(skillrun: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(TOP)
    done = skillrun("test", "--jobs", "1", "--json")
    assert done.code == 0, done.err
    cases = done.json["cases"]
    assert {"plan", "refine", "brainstorm", "implementation-plan"} <= {case["workflow"] for case in cases}
    assert [problem["message"] for case in cases for problem in case["problems"]] == []
