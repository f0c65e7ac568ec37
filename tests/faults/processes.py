"""Sends jobs to `forks.py` and returns the results."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

ROOT: Final = Path(__file__).parents[2]
KEPT: Final = ("PATH", "PYTHONPATH", "LANG", "TMPDIR", "COVERAGE_PROCESS_START", "COVERAGE_PROCESS_CONFIG")
DISK: Final = Path(__file__).with_name("disk.c")


@dataclass(frozen=True)
class CommandResult:
    """The result of a command. Its code is the exit code, or minus the number of the signal that killed it."""

    words: tuple[str, ...]
    code: int
    out: str
    err: str

    @property
    def output(self) -> str:
        return self.out + self.err

    def __str__(self) -> str:
        return f"`skillrun {' '.join(self.words)}` ended with {self.code}\n{self.out}{self.err}"


class Forks:
    """A process that forks one process for each command, with an empty home and no keys."""

    def __init__(self, home: Path, disk: Path | None = None) -> None:
        """`disk` is the library built by `failing_disk`."""
        kept = {name: value for name, value in os.environ.items() if name in KEPT}
        self.environment = {
            **kept,
            "HOME": str(home),
            "XDG_CONFIG_HOME": str(home / ".config"),
            "XDG_DATA_HOME": str(home / ".local" / "share"),
            "XDG_CACHE_HOME": str(home / ".cache"),
            "COLUMNS": "120",
            "TERM": "dumb",
            **({"LD_PRELOAD": str(disk)} if disk is not None else {}),
        }
        home.mkdir(parents=True, exist_ok=True)
        self.fails = disk is not None
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.faults.forks"],
            cwd=ROOT,
            env=self.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait()

    def run(
        self, folder: Path, calls: Path, commands: Sequence[Sequence[str]], fault: Mapping[str, Any]
    ) -> list[CommandResult]:
        """Run the command lines concurrently in `folder`; each of their calls becomes a line in `calls`."""
        job = {"folder": str(folder), "calls": str(calls), "commands": [list(words) for words in commands], **fault}
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(job) + "\n")
        self._process.stdin.flush()
        results = json.loads(self._process.stdout.readline())
        return [CommandResult(tuple(words), **result) for words, result in zip(commands, results, strict=True)]


def failing_disk(folder: Path) -> Path | None:
    """Build the library of `disk.c` in `folder`. Returns None without Linux or a C compiler."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None or sys.platform != "linux":
        return None
    library = folder / "disk.so"
    command = [
        compiler,
        "-shared",
        "-fPIC",
        "-O1",
        "-Wall",
        "-Wextra",
        "-Werror",
        "-o",
        str(library),
        str(DISK),
        "-ldl",
    ]
    subprocess.run(command, check=True, capture_output=True, text=True)
    return library
