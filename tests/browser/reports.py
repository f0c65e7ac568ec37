"""Reports of runs of each family of workflows on the scripted model, and of one run with hostile texts."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from subprocess import DEVNULL, PIPE
from typing import Final

from tests.launcher import run_skillrun

FINISHED: Final = Path(__file__).parents[2] / "docs" / "finished"
SCRIPTED: Final = ("--model", "scripted:default")
NOISE: Final = ("--unattended", "--model", "scripted:noise-1")
RUNS: Final[Mapping[str, Sequence[str]]] = {
    "two-rounds": ("plan", "Add reminders to the shelf", "--mode", "complete", *NOISE),
    "waiting": ("refine", "A box of seeds that neighbours share", "--no-reports", *SCRIPTED),
    "deliberation": ("design-session", "Which store keeps the loans?", "--unattended", *SCRIPTED),
    "issue": ("plan-issue", "The lock leaks", "--unattended", *SCRIPTED),
    "brainstorm": ("brainstorm", "A box of seeds", *SCRIPTED),
    "several-plans": ("implementation-plan", "Add reminders", "--planning-mode", "multi-model-deep", *NOISE),
}
"""The arguments of each run, by name; the finished run of the documentation and the hostile run are separate."""
HOSTILE: Final = """# <script>document.title = 'taken'</script>

<img src="https://evil.example/a.png" onerror="document.title = 'taken'"> <svg onload="document.title = 'taken'">
[one](javascript:document.title='taken') [two](data:text/html,<script>1</script>) ![three](https://evil.example/b.png)
<javascript:document.title='taken'> [four][ref] </script></style></pre></details></main></body>
<style>* { display: none }</style> <iframe src="https://evil.example/"></iframe> <meta http-equiv="refresh" content="0">
<link rel="stylesheet" href="https://evil.example/c.css"> \u202edesrever\u202c \u2066isolated\u2069

[ref]: javascript:document.title='taken'

```"><script>document.title = 'taken'</script>
code </code></pre><script>document.title = 'taken'</script>
```

| a | <b onmouseover="document.title = 'taken'">b</b> |
|---|--:|
| {{ 7 * 7 }} | {% include "/etc/passwd" %} |
"""
ARGUMENTS: Final[Mapping[str, Sequence[str]]] = {
    **RUNS,
    "hostile": ("w", HOSTILE, "--unattended", "--script", "script.yaml", *SCRIPTED),
}
WORKFLOW: Final = """---
name: w
inputs: {request: string}
phases:
  talk:
---
"""
PHASE: Final = """---
kind: phase
steps:
  - {id: panel, agent: [a, b]}
  - {id: scored, agent: [a, b], output: {note: string, score: integer 0..20}}
  - {id: draft, agent: a, writes: w.md}
  - set: {note: "{{ scored.data | map(attribute='note') | join(' ') }}"}
  - {id: sure, ask: "{{ note }}", choices: ["{{ note }}", other], default: other}
outputs: {note: "{{ note }}"}
---
## panel
Talk.

## scored
Score.

## draft
Write.
"""


class Reports:
    """The reports in a separate project, each with its run made on first use."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._paths: dict[str, Path] = {}
        shutil.copytree(FINISHED, folder)
        (folder / "runs" / "reminders" / ".run").chmod(0o755)  # as in a clone
        _hostile_project(folder)

    def __getitem__(self, name: str) -> Path:
        if name not in self._paths:
            arguments = ARGUMENTS.get(name)
            if arguments is not None:
                code, _, err = self._skillrun(*arguments, "--name", name)
                assert code in (0, 1, 75), err  # 1: a generated review rejects the plan
            code, out, err = self._skillrun("report", name, "--json")
            assert code == 0, err
            self._paths[name] = Path(json.loads(out)["path"])
        return self._paths[name]

    def _skillrun(self, *arguments: str) -> tuple[int, str, str]:
        """Run in a separate process, because the event loop of the browser occupies this one."""
        home = self._folder.parent / "home"
        environment = {"PATH": os.environ["PATH"], "HOME": str(home), "COLUMNS": "120", "TERM": "dumb"}
        streams = {"stdin": DEVNULL, "stdout": PIPE, "stderr": PIPE, "text": True}
        process = run_skillrun(*arguments, cwd=self._folder, env=environment, **streams)
        return process.returncode, process.stdout, process.stderr


def _hostile_project(folder: Path) -> None:
    texts = {
        "workflows/w.md": WORKFLOW,
        "skills/w/talk.md": PHASE,
        "roles/a.md": "---\nname: a\n---\nYou write.\n",
        "roles/b.md": "---\nname: b\n---\nYou write.\n",
    }
    calls = [{"id": "1", "name": "<b>Read</b>", "arguments": {"<i>": HOSTILE}}]
    rules = [
        {"address": "*/panel/a/1.1", "calls": calls},
        {"address": "*/scored/*", "data": {"note": HOSTILE, "score": 7}},
        {"address": "*", "text": HOSTILE},
    ]
    for name, text in {**texts, "script.yaml": json.dumps(rules)}.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
