"""Terminal output for users: plain statuses instead of keys, and each question once."""

import json
import re
from collections.abc import Callable
from datetime import datetime, timedelta
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


@pytest.mark.slow
@pytest.mark.finding("NC12")
def test_users_see_plain_statuses_and_json_keeps_the_keys(cause: Path, skillrun: Call) -> None:
    started = skillrun("cause", "--name", "a", "--model", "scripted:default")
    assert started.code == 75
    assert "asking: waiting for your answer\n" in started.out
    assert started.out.count(MARK) == 1
    shown, logged = skillrun("show", "a").out, skillrun("logs", "a").out
    assert "asking  waiting for your answer" in shown
    outputs = [started.out, started.err, shown, logged, skillrun("runs").out, skillrun("answers", "a").err]
    skillrun("report", "a", "--output", "a.html")
    page = (cause / "a.html").read_text()
    assert "waiting for your answer" in page
    visible = page.partition("</style>")[2].partition("<script")[0]
    assert not [key for key in KEYS for text in (*outputs, visible) if key in text]
    assert skillrun("show", "a", "--json").json["phases"][0]["status"] == "needs-user-input"


@pytest.mark.finding("NC10")
def test_model_time_and_waiting_time_are_separate(cause: Path, skillrun: Call) -> None:
    (cause / "answers.yaml").write_text("why: 'yes'\n")
    done = skillrun("cause", "--name", "a", "--model", "scripted:default", "--answers", "answers.yaml")
    assert done.code == 0, done.err
    transcript = cause / "runs" / "a" / ".run" / "transcript.ndjson"
    events = [json.loads(line) for line in transcript.read_text().splitlines()]
    first_answer = next(at for at, event in enumerate(events) if event["event"] == "Answered")
    for event in events[first_answer:]:  # as if the user had taken 27 seconds
        event["at"] = (datetime.fromisoformat(event["at"]) + timedelta(seconds=27)).isoformat()
    transcript.write_text("".join(f"{json.dumps(event)}\n" for event in events))
    record = skillrun("show", "a", "--json").json
    assert (record["time"]["models"] < 5, record["time"]["answers"] >= 27, record["time"]["total"] >= 27) == (True,) * 3
    assert record["phases"][0]["waited"] >= 27
    shown = skillrun("show", "a").out
    assert re.search(r"time: \d\.\d s of model calls, 2\d\.\d s waiting for answers, 2\d\.\d s in all\n", shown)
    assert re.search(r"duration +calls +tokens in +tokens out +price +waiting\n", shown)
    skillrun("report", "a", "--output", "a.html")
    tiles = dict(re.findall(r"<dt>([^<]+)</dt><dd>([\d.]+) s</dd>", (cause / "a.html").read_text()))
    assert float(tiles["Model time"]) < 5
    assert min(float(tiles["Waiting for answers"]), float(tiles["Total time"])) >= 27
