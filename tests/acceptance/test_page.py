"""The language page is correct about replies, seats, fallbacks and options."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Call = Callable[..., Any]

FILES = {
    "workflows/page.md": """---
name: page
inputs:
  request: string, what to do
  how_loud?: string, how it sounds
phases:
  first:
  page:
---
""",
    "skills/page/first.md": """---
kind: phase
steps:
  - {id: one, agent: "a:x"}
---
## one
Say it.
""",
    "roles/a.md": "---\nname: a\ndescription: A.\nvariants: {x: one, y: two}\n---\nYou are A.\n",
    "skills/protocols/both.md": """---
kind: protocol
seats: {members: 1..4}
steps:
  - {id: each, agent: "{{ seats.members }}"}
outputs:
  ids: "{{ seats.members | map(attribute='id') | join(' ') }}"
  lenses: "{{ seats.members | map(attribute='lens') | join(' ') }}"
---
## each
{{ task }}
""",
    "skills/page/page.md": """---
kind: phase
steps:
  - {id: first, agent: ["a:x", "a:y"]}
  - {id: second, agent: ["a:x", "a:y"]}
  - {id: said, agent: "a:x", otherwise: {say: Silence.}}
  - {id: own, agent: "a:x", otherwise: {agent: "a:y"}}
  - {id: other, agent: "a:x", otherwise: {id: stand-in, agent: "a:y"}}
  - {id: told, panel: ["a:x", "a:y"], protocol: both}
  - {id: page, write: page.md}
---
## first
Say it.

## second
Say it again.

## said
Say more.

## own
Say this.

## other
Say that.

## stand-in
Say that in its place.

## told
Say all.

## page
- {{ first.replies | map(attribute='status') | join(' ') }}; {{ second.replies | map(attribute='status') | join(' ') }}
- {{ latest(first.replies, second.replies) | map(attribute='text') | join(' ') }}
- {{ said.replies | map(attribute='status') | join }}, {{ said.degraded | default('whole') }}, {{ said.text or '-' }}
- {{ own.text }}, {{ other.text | default('no text') }}
- {{ told.ids }}, {{ told.lenses }}
- {{ run.usage.by_phase | list | join(' ') }}, {{ inputs.how_loud | default('quiet') }}
""",
}
RULES = [
    {"address": "page/page/first/a:x/*", "text": "x1"},
    {"address": "page/page/first/a:y/*", "text": "y1"},
    {"address": "page/page/second/a:x/*", "text": "x2"},
    {"address": "page/page/second/a:y/*", "text": "y", "stop": "length"},
    {"address": "page/page/said/*", "text": ""},
    {"address": "page/page/own/a:x/*", "fail": "timeout"},
    {"address": "page/page/own.otherwise/*", "text": "own by y"},
    {"address": "page/page/other/a:x/*", "stop": "refusal", "text": "no"},
    {"address": "page/page/other.otherwise/*", "text": "that by y"},
]


@pytest.mark.finding("FL18")
def test_the_language_page_describes_the_actual_behaviour(project: Call, skillrun: Call) -> None:
    folder: Path = project()
    for path, text in FILES.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, encoding="utf-8")
    (folder / "script.yaml").write_text(json.dumps(RULES), encoding="utf-8")
    done = skillrun("page", "x", "--how-loud", "loud", "--script", "script.yaml", "--unattended", "--name", "p")
    assert done.code == 0, done.out + done.err
    assert "page/other.otherwise" in (folder / "runs" / "p" / ".run" / "transcript.ndjson").read_text("utf-8")
    assert (folder / "runs" / "p" / "page.md").read_text("utf-8").strip().splitlines() == [
        "- success success; success truncated",
        "- x2 y1",
        "- empty, true, -",
        "- own by y, no text",
        "- a:x a:y, one two",
        "- first page, loud",
    ]
