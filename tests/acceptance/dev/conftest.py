"""What the tests of `dev` share: it runs as a process of its own, beside files that are saved."""

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

UNTIL = 30.0  # seconds

SCRIPT = """\
- {address: "*/left/*", data: {score: 3, remark: fine}, delay: 0.3}
- {address: "*/right/*", data: {score: 4, remark: good}, delay: 2, times: 1}
- {address: "*/right/*", data: {score: 5, remark: better}, delay: 0.1}
"""


class Watching:
    """`skillrun dev` in a process, and all that it has said so far."""

    def __init__(self, *arguments: str) -> None:
        streams = {"stdin": DEVNULL, "stdout": PIPE, "stderr": STDOUT}
        self.process = start_skillrun("dev", *arguments, unbuffered=True, **streams)
        self.said = ""
        self._at = 0

    def until(self, pattern: str) -> str:
        """What is said from here on up to the end of the pattern."""
        assert self.process.stdout is not None
        end = time.monotonic() + UNTIL
        while not (match := re.compile(pattern).search(self.said, self._at)):
            assert time.monotonic() < end, self.said
            if select.select([self.process.stdout], [], [], 1)[0]:
                text = os.read(self.process.stdout.fileno(), 65536).decode()
                assert text, f"ended with {self.process.wait()}:\n{self.said}"
                self.said += text
        before, self._at = self._at, match.end()
        return self.said[before : self._at]

    def end(self) -> int:
        self.process.send_signal(signal.SIGINT)
        code = self.process.wait(UNTIL)
        assert self.process.stdout is not None
        self.said += self.process.stdout.read().decode()
        self.process.stdout.close()
        return code


Watch = Callable[..., Watching]


@pytest.fixture
def watch() -> Iterator[Watch]:
    """Starts `skillrun dev`; what is left of it is ended."""
    begun: list[Watching] = []

    def start(*arguments: str) -> Watching:
        begun.append(Watching(*arguments))
        return begun[-1]

    yield start
    for each in begun:
        if each.process.poll() is None:
            each.process.kill()
            each.process.wait()
        if each.process.stdout is not None:
            each.process.stdout.close()


def edit(path: Path, before: str, after: str) -> None:
    """Save a file with other words."""
    text = path.read_text()
    assert before in text
    path.write_text(text.replace(before, after, 1))
