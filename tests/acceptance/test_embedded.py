"""The real small model from the command line to the artifacts, with no key and no network but the loopback."""

from collections.abc import Callable
from typing import Any

import pytest

Call = Callable[..., Any]


@pytest.mark.embedded
@pytest.mark.row("X5")
def test_a_workflow_runs_on_the_embedded_model_without_a_key(project: Call, process: Call) -> None:
    folder = project("greeting")
    draft = folder / "skills" / "greeting" / "draft.md"
    draft.write_text(draft.read_text().replace("writes: greeting.md}", "output: {words: string}, writes: greeting.md}"))
    done = process("greeting", "Ada", "--lines", "1", "--json")
    assert done.code == 0, done.err
    assert done.err.count("small embedded model") == 1
    told = done.json
    assert told["models"] == {"strong": "embedded:smollm2-135m", "fast": "embedded:smollm2-135m"}
    assert told["usage"]["calls"] >= 2
    assert told["usage"]["price"] == 0
    assert (folder / "runs" / "ada" / "greeting.md").read_text().startswith("---\nwords: ")
