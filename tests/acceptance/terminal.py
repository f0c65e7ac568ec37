"""A command in a terminal of its own."""

import os
import pty
import re
import select
import time

from tests.launcher import start_skillrun

UNTIL = 30.0  # seconds


class Terminal:
    """A process in a terminal of its own."""

    def __init__(self, *arguments: str, term: str = "xterm-256color") -> None:
        self.screen, inside = pty.openpty()
        environ = {**os.environ, "TERM": term, "LINES": "40"}
        self.process = start_skillrun(*arguments, stdin=inside, stdout=inside, stderr=inside, env=environ)
        os.close(inside)
        self.seen = ""

    def until(self, pattern: str) -> str:
        """Everything that was shown, once the pattern is there."""
        end = time.monotonic() + UNTIL
        while not re.search(pattern, self.seen):
            text = self._read()
            assert text, self.seen
            assert time.monotonic() < end, self.seen
            self.seen += text
        return self.seen

    def type(self, text: str) -> None:
        os.write(self.screen, text.encode())

    def end(self) -> int:
        """The exit code, once the command has ended."""
        while text := self._read():
            self.seen += text
        os.close(self.screen)
        return self.process.wait(UNTIL)

    def _read(self) -> str:
        """What comes next; empty at the end."""
        if not select.select([self.screen], [], [], UNTIL)[0]:
            self.process.kill()
            raise AssertionError(f"nothing comes any more after:\n{self.seen}")
        try:
            return os.read(self.screen, 65536).decode(errors="replace")
        except OSError:  # the other side is closed
            return ""
