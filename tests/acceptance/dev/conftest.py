"""Shared fixtures: `dev` in a separate process, while the tests save files."""

import os
import re
import select
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from subprocess import DEVNULL, PIPE, STDOUT

import pytest

from tests.launcher import start_skillrun

TIMEOUT = 30.0  # seconds

SCRIPT = """\
- {address: "*/left/*", data: {score: 3, remark: fine}, delay: 0.3}
- {address: "*/right/*", data: {score: 4, remark: good}, delay: 2, times: 1}
- {address: "*/right/*", data: {score: 5, remark: better}, delay: 0.1}
"""


class DevProcess:
    """`skillrun dev` in a separate process, with its output so far."""

    def __init__(self, *arguments: str) -> None:
        streams = {"stdin": DEVNULL, "stdout": PIPE, "stderr": STDOUT}
        self.process = start_skillrun("dev", *arguments, unbuffered=True, **streams)
        self.output = ""
        self._at = 0

    def until(self, pattern: str) -> str:
        """Wait for the pattern; returns the new output up to the match."""
        assert self.process.stdout is not None
        end = time.monotonic() + TIMEOUT
        while not (match := re.compile(pattern).search(self.output, self._at)):
            assert time.monotonic() < end, self.output
            if select.select([self.process.stdout], [], [], 1)[0]:
                text = os.read(self.process.stdout.fileno(), 65536).decode()
                assert text, f"ended with {self.process.wait()}:\n{self.output}"
                self.output += text
        before, self._at = self._at, match.end()
        return self.output[before : self._at]

    def end(self) -> int:
        self.process.send_signal(signal.SIGINT)
        code = self.process.wait(TIMEOUT)
        assert self.process.stdout is not None
        self.output += self.process.stdout.read().decode()
        self.process.stdout.close()
        return code


Watch = Callable[..., DevProcess]


@pytest.fixture
def watch() -> Iterator[Watch]:
    """Starts `skillrun dev`, and kills it after the test."""
    processes: list[DevProcess] = []

    def start(*arguments: str) -> DevProcess:
        processes.append(DevProcess(*arguments))
        return processes[-1]

    yield start
    for dev in processes:
        if dev.process.poll() is None:
            dev.process.kill()
            dev.process.wait()
        if dev.process.stdout is not None:
            dev.process.stdout.close()


def edit(path: Path, before: str, after: str) -> None:
    """Replace the first occurrence of a text in a file."""
    text = path.read_text()
    assert before in text
    path.write_text(text.replace(before, after, 1))
