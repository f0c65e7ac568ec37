"""Runs a command in a pseudo-terminal."""

import os
import pty
import re
import select
import time

from tests.launcher import start_skillrun

TIMEOUT = 30.0  # seconds


class Terminal:
    """A process in a pseudo-terminal."""

    def __init__(self, *arguments: str, term: str = "xterm-256color") -> None:
        self.screen, terminal = pty.openpty()
        environ = {**os.environ, "TERM": term, "LINES": "40"}
        self.process = start_skillrun(*arguments, stdin=terminal, stdout=terminal, stderr=terminal, env=environ)
        os.close(terminal)
        self.seen = ""

    def until(self, pattern: str) -> str:
        """Wait for the pattern; returns all output so far."""
        end = time.monotonic() + TIMEOUT
        while not re.search(pattern, self.seen):
            text = self._read()
            assert text, self.seen
            assert time.monotonic() < end, self.seen
            self.seen += text
        return self.seen

    def type(self, text: str) -> None:
        os.write(self.screen, text.encode())

    def end(self) -> int:
        """Wait for the command to end; returns its exit code."""
        while text := self._read():
            self.seen += text
        os.close(self.screen)
        return self.process.wait(TIMEOUT)

    def _read(self) -> str:
        """The next output; empty at the end."""
        if not select.select([self.screen], [], [], TIMEOUT)[0]:
            self.process.kill()
            raise AssertionError(f"no more output after:\n{self.seen}")
        try:
            return os.read(self.screen, 65536).decode(errors="replace")
        except OSError:  # the other side is closed
            return ""
