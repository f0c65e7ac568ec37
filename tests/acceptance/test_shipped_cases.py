"""The cases of the workflows that are shipped, `tests/<workflow>/<case>.md`: all of them hold."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Call = Callable[..., Any]
TOP = Path(__file__).parents[2]


@pytest.mark.slow
@pytest.mark.row("A3")
def test_the_cases_of_the_shipped_workflows_hold(skillrun: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(TOP)
    done = skillrun("test", "--jobs", "1", "--json")
    assert done.code == 0, done.err
    cases = done.json["cases"]
    assert {"plan", "refine", "brainstorm", "implementation-plan"} <= {case["workflow"] for case in cases}
    assert [problem["message"] for case in cases for problem in case["problems"]] == []
