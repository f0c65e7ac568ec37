"""Runs with any number in place of a recorded one: every command ends with a message."""

from __future__ import annotations

import io
import os
import re
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import chdir, closing, redirect_stderr, redirect_stdout
from functools import cached_property
from itertools import count
from pathlib import Path
from random import Random
from typing import Final
from unittest.mock import patch

from skillrun.cli.main import main
from skillrun.store.journal import Index, JournalRow
from skillrun.store.local.verification import JOURNAL, WITNESS, format_witness
from skillrun.store.rows import chain_hash

PROJECT: Final = {
    "config/models.yaml": "models: {'scripted:x': {input: 1.0, output: 2.0}}\n",
    "roles/judge.md": "---\nname: judge\ndescription: Judges.\nvariants: {one: first, two: second}\n---\nYou judge.\n",
    "workflows/weigh.md": """---
name: weigh
description: Weighs a cake and asks how many parts to keep.
inputs:
  cake: string
  size: {type: integer, default: 3}
  share: {type: number, default: 0.5}
state:
  total: {type: number, default: 0}
outputs:
  total: "{{ state.total }}"
phases:
  score:
  choose:
  report:
---
""",
    "skills/weigh/score.md": """---
kind: phase
steps:
  - id: votes
    agent: ["judge:one", "judge:two"]
    output: {score: integer, parts(array): {name: string, weight: number}}
    at_least: 1
  - id: level
    decide:
      - {when: (votes.data | map(attribute='score') | max) > inputs.size, then: high, because: a high score}
      - {then: low, because: no high score}
  - {set: {total: "{{ votes.data | map(attribute='score') | sum }}"}}
  - {id: table, write: table.md}
  - {when: run.round < 2, goto: score, at_most: 1}
outputs:
  scores: "{{ votes.data | map(attribute='score') }}"
  mean: "{{ votes.data | mean }}"
  level: "{{ level.value }}"
---
## votes
Score {{ inputs.cake }} of size {{ inputs.size }}.

## table
{% for vote in votes.data | sort(attribute='score') %}
- {{ vote.score }} of {{ inputs.size }}, {{ (vote.score * inputs.share) | round(1) }}, {{ '%d' | format(vote.score) }}
{% for part in vote.parts %}  - {{ part.name }}: {{ part.weight / 2 }} {{ part.weight | int }} {{ part.weight | abs }}
{% endfor %}{% endfor %}
{{ votes.data | mean }} {{ votes.data | top(inputs.size) | tojson }}
""",
    "skills/weigh/choose.md": """---
kind: phase
steps:
  - {id: keep, ask: [{id: number, text: "How many?", choices: ["1", "2"]}]}
outputs:
  number: "{{ keep.answers[0].answer | default('0') }}"
---
""",
    "skills/weigh/report.md": """---
kind: phase
steps:
  - {id: text, agent: judge, writes: report.md}
outputs:
  rest: "{{ state.total - (phases.score.outputs.scores | sum) }}"
---
## text
Keep {{ phases.choose.outputs.number }} of {{ state.total }}: {{ phases.score.outputs | tojson }}.
""",
    "answers.yaml": "number: '1'\n",
    "replies.yaml": """- {address: "*/votes/*", text: '{"score": 7, "parts": [{"name": "a", "weight": 1.5}]}'}
- {address: "*/text/*", text: "Ten of 10."}
""",
}  # fmt: skip
VALUES: Final = (
    "9" * 400, "-" + "9" * 400, "9" * 5_000, "-1", "1e308", "1e400", "NaN", "Infinity", "-Infinity", "true", "null",
    '"5"', "0", "0.5", "9223372036854775808", "1000000000000000000", "[]", ".inf", "-.inf", ".nan",
)  # fmt: skip
COMMANDS: Final = (
    "show x", "show x --json", "show x score", "show x score votes --full", "report x --output ../page.html",
    "logs x", "runs", "runs --json", "answers x", "diff x y", "diff x", "sizes x", "test --record x --as copy",
    "resume x --preview", "resume x --adopt --answers answers.yaml",
    "resume x --adopt --from-start --answers answers.yaml",
)  # fmt: skip
BASES: Final = ("waiting", "completed")
_NUMBER: Final = re.compile(rb"(?<=[:\[,])( ?)-?\d+(?:\.\d+)?(?=[,}\]\n])")


class Numbers:
    """A project with a waiting and a completed run, and the numbers in their files."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "project"
        self._bases = folder / "bases"
        for name, text in PROJECT.items():
            (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
            (self.folder / name).write_text(text, encoding="utf-8")

    @cached_property
    def places(self) -> list[tuple[str, str, int]]:
        """The base, file and position of each number. The position in a journal is among all of its bodies."""
        run = ("weigh", "cake", "--model", "scripted:x", "--script", "replies.yaml")
        for base, arguments, expected in zip(BASES, ((), ("--answers", "answers.yaml")), (75, 0), strict=True):
            code, output = self.call(*run, "--name", "y", *arguments)
            assert code == expected, output
            shutil.move(self.folder / "runs" / "y", self._bases / base)
        found = []
        for base in BASES:
            for path in sorted((self._bases / base).rglob("*")):
                name = str(path.relative_to(self._bases / base))
                if name == JOURNAL:
                    data = b"\n".join(row[3] for row in _rows(path))
                elif path.suffix in (".md", ".ndjson"):
                    data = path.read_bytes()
                else:
                    continue
                found += [(base, name, at) for at, _ in enumerate(_NUMBER.finditer(data))]
        return found

    def call(self, *arguments: str) -> tuple[int, str]:
        """Run a command in this process. Returns its exit code and its output."""
        output, home = io.StringIO(), str(self.folder.parent / "home")
        environ = {"HOME": home, "XDG_CACHE_HOME": home, "XDG_DATA_HOME": home, "XDG_CONFIG_HOME": home}
        streams = redirect_stdout(output), redirect_stderr(output)
        with patch.dict(os.environ, environ), chdir(self.folder), streams[0], streams[1]:
            code = main(list(arguments))
        return code, output.getvalue()

    def start(self, base: str, file: str, at: int, value: str) -> None:
        """Make the runs `x` and `y` from a base, and replace a number in a file of `x`."""
        runs = self.folder / "runs"
        shutil.rmtree(runs, ignore_errors=True)
        shutil.rmtree(self.folder / "tests", ignore_errors=True)
        for name in "xy":
            shutil.copytree(self._bases / base, runs / name)
        path, number = runs / "x" / file, count()

        def change(data: bytes) -> bytes:
            return _NUMBER.sub(lambda match: match[1] + value.encode() if next(number) == at else match[0], data)

        if file == JOURNAL:
            rewrite_bodies(path, change)
        else:
            path.write_bytes(change(path.read_bytes()))


def _rows(path: Path) -> list[tuple[str, str, str, bytes]]:
    with closing(sqlite3.connect(path)) as database:
        return database.execute("SELECT kind, address, fingerprint, body FROM records ORDER BY seq").fetchall()


def rewrite_bodies(path: Path, change: Callable[[bytes], bytes]) -> None:
    """Change the bodies of a closed journal, and make a valid chain and witness."""
    index, changed = Index(), []
    for kind, address, fingerprint, old in _rows(path):
        body = change(old)
        chain = chain_hash(index.chain, kind, address, fingerprint, body)
        index.add(JournalRow(index.count + 1, kind, address, fingerprint, body, chain))
        changed.append((body, chain, index.count))
    with closing(sqlite3.connect(path)) as database:
        database.executemany("UPDATE records SET body = ?, chain = ? WHERE seq = ?", changed)
        database.commit()
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    (path.parents[1] / WITNESS).write_bytes(format_witness(index))


def cases(numbers: Numbers, random: Random) -> Iterator[str]:
    """An endless sequence of cases: a base, a file, a position in it, the number of a value, and a command."""
    while True:
        base, file, at = random.choice(numbers.places)
        yield f"{base} {file} {at} {random.randrange(len(VALUES))} {random.choice(COMMANDS)}"


def hold(numbers: Numbers, case: str) -> None:
    base, file, at, value, command = case.split(" ", 4)
    assert numbers.places
    numbers.start(base, file, int(at), VALUES[int(value)])
    code, output = numbers.call(*command.split())
    assert code in (0, 1, 2, 75), f"{command} exits with {code}: {output}"
    assert "Traceback" not in output, output
