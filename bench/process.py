"""Runs one subject in a separate process and reads the figures it prints."""

import json
import os
import signal
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.environment import FOLDER, ROOT


class SubjectFailed(Exception):
    """A subject failed; the message gives the error."""


@dataclass(frozen=True)
class Subject:
    """A measured program: its name in the table, and the command that starts it."""

    name: str
    command: tuple[str, ...]
    variant: str = ""
    seed: int = 0  # the number of the repetition, from 1, for works with a seed


@dataclass(frozen=True)
class Figures:
    """The output of a subject, and when its process started (on the clock of `first_call`)."""

    seconds: float
    asked: list[int]
    first_call: float | None
    peak_bytes: int
    modules: list[str]
    process_started: float


@contextmanager
def scratch() -> Iterator[Path]:
    """An empty folder on the disk of the repository, because durability depends on the disk."""
    with tempfile.TemporaryDirectory(prefix="work-", dir=FOLDER) as folder:
        yield Path(folder)


def run(subject: Subject, work: str, folder: Path, *options: str) -> Figures:
    """Run one work in a folder, which holds all files of the subject. Raises SubjectFailed."""
    started = time.monotonic()
    process = _start(subject, work, folder, *options)
    if process.returncode:
        raise SubjectFailed(_last_lines(process))
    return Figures(**json.loads(process.stdout.splitlines()[-1]), process_started=started)


def run_until_killed(subject: Subject, work: str, folder: Path, *options: str) -> None:
    """Run a work that kills its own process. Raises SubjectFailed if it exits in another way."""
    process = _start(subject, work, folder, *options)
    if process.returncode != -signal.SIGKILL:
        raise SubjectFailed(f"exit code {process.returncode} instead of a kill\n{_last_lines(process)}")


def seconds_of(command: list[str], cwd: Path = ROOT) -> float:
    """The seconds a command takes. Raises SubjectFailed if it fails."""
    started = time.perf_counter()
    process = subprocess.run(command, cwd=cwd, check=False, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    seconds = time.perf_counter() - started
    if process.returncode:
        raise SubjectFailed(_last_lines(process))
    return seconds


def read_figures(command: list[str]) -> dict[str, Any]:
    """The JSON object that a command prints as its last line."""
    process = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if process.returncode:
        raise SubjectFailed(_last_lines(process))
    return dict(json.loads(process.stdout.splitlines()[-1]))


def sync_seconds() -> float:
    """The median seconds of 100 syncs of a page to disk: the minimum that a durable call waits."""
    durations = []
    with scratch() as folder, (folder / "page").open("wb", buffering=0) as file:
        for _ in range(100):
            file.write(bytes(4096))
            started = time.perf_counter()
            os.fsync(file.fileno())
            durations.append(time.perf_counter() - started)
    return statistics.median(durations)


def bytes_in(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def _start(subject: Subject, work: str, folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    variant = ("--variant", subject.variant) if subject.variant else ()
    command = [*subject.command, work, "--folder", str(folder), *variant, *options]
    return subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True, stdin=subprocess.DEVNULL)


def _last_lines(process: subprocess.CompletedProcess[str]) -> str:
    text = (process.stderr.strip() or process.stdout.strip()).splitlines()
    return "\n".join(text[-6:]) or f"exit code {process.returncode}"
