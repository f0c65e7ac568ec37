"""Runs one subject in a process of its own and reads the figures it prints."""

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
    """A subject ended in an error; the message says how."""


@dataclass(frozen=True)
class Subject:
    """A measured program: its name in the table, and the command that starts it."""

    name: str
    command: tuple[str, ...]
    variant: str = ""
    seed: int = 0  # the number of the repetition, from 1, for works that are told it


@dataclass(frozen=True)
class Figures:
    """What a subject printed, and when its process was started (on the clock of `first_call`)."""

    seconds: float
    asked: list[int]
    first_call: float | None
    peak_bytes: int
    modules: list[str]
    process_started: float


@contextmanager
def scratch() -> Iterator[Path]:
    """An empty folder on the repository's own disk, so that durable means what it means there."""
    with tempfile.TemporaryDirectory(prefix="work-", dir=FOLDER) as folder:
        yield Path(folder)


def run(subject: Subject, work: str, folder: Path, *options: str) -> Figures:
    """Run one work to its end in a folder; the subject keeps all its files there."""
    started = time.monotonic()
    ended = _start(subject, work, folder, *options)
    if ended.returncode:
        raise SubjectFailed(_last_lines(ended))
    return Figures(**json.loads(ended.stdout.splitlines()[-1]), process_started=started)


def run_until_killed(subject: Subject, work: str, folder: Path, *options: str) -> None:
    """The same for a work that kills its own process."""
    ended = _start(subject, work, folder, *options)
    if ended.returncode != -signal.SIGKILL:
        raise SubjectFailed(f"exit code {ended.returncode} instead of a kill\n{_last_lines(ended)}")


def seconds_of(command: list[str], cwd: Path = ROOT) -> float:
    """How long a command takes from start to exit; it must succeed."""
    started = time.perf_counter()
    ended = subprocess.run(command, cwd=cwd, check=False, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    seconds = time.perf_counter() - started
    if ended.returncode:
        raise SubjectFailed(_last_lines(ended))
    return seconds


def said_by(command: list[str]) -> dict[str, Any]:
    """The mapping that a command prints as its last line."""
    ended = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if ended.returncode:
        raise SubjectFailed(_last_lines(ended))
    return dict(json.loads(ended.stdout.splitlines()[-1]))


def sync_seconds() -> float:
    """How long the disk takes to make a page durable, the median of 100: what every durable call waits for at least."""
    taken = []
    with scratch() as folder, (folder / "page").open("wb", buffering=0) as file:
        for _ in range(100):
            file.write(bytes(4096))
            started = time.perf_counter()
            os.fsync(file.fileno())
            taken.append(time.perf_counter() - started)
    return statistics.median(taken)


def bytes_in(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def _start(subject: Subject, work: str, folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    variant = ("--variant", subject.variant) if subject.variant else ()
    command = [*subject.command, work, "--folder", str(folder), *variant, *options]
    return subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True, stdin=subprocess.DEVNULL)


def _last_lines(ended: subprocess.CompletedProcess[str]) -> str:
    text = (ended.stderr.strip() or ended.stdout.strip()).splitlines()
    return "\n".join(text[-6:]) or f"exit code {ended.returncode}"
