"""What people read on the terminal: plain statuses instead of keys, and a question once."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Call = Callable[..., Any]
FILES = {
    "workflows/cause.md": """---
name: cause
description: Asks why.
phases: {asking: }
---
""",
    "skills/cause/asking.md": """---
kind: phase
steps:
  - {id: guess, agent: "host"}
  - {id: why, ask: "Is it {{ guess.text | clip(20) }}?", choices: [yes, no]}
---
## guess
Guess.
""",
    "roles/host.md": "---\nname: host\ndescription: A host.\n---\nYou guess.\n",
}
MARK = "may contain generated text"
KEYS = ("needs-user-input", "pause_type", "block_reason", "worded")


@pytest.fixture
def cause(project: Call) -> Path:
    folder: Path = project()
    for name, text in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


@pytest.mark.finding("NC12")
def test_people_read_plain_statuses_and_machines_their_keys(cause: Path, skillrun: Call) -> None:
    started = skillrun("cause", "--name", "a", "--model", "scripted:default")
    assert started.code == 75
    assert "asking: waiting for your answer\n" in started.out
    assert started.out.count(MARK) == 1
    shown, logged = skillrun("show", "a").out, skillrun("logs", "a").out
    assert "asking  waiting for your answer" in shown
    said = [started.out, started.err, shown, logged, skillrun("runs").out, skillrun("answers", "a").err]
    skillrun("report", "a", "--output", "a.html")
    page = (cause / "a.html").read_text()
    assert "waiting for your answer" in page
    visible = page.partition("</style>")[2].partition("<script")[0]
    assert not [key for key in KEYS for text in (*said, visible) if key in text]
    assert skillrun("show", "a", "--json").json["phases"][0]["status"] == "needs-user-input"
