"""The one place where anything is printed. Every text loses what could steer a terminal or reorder a line.

With `--json` standard output carries JSON alone, and everything meant for people goes to standard error.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from skillrun.syntax.diagnostics import make_printable


@dataclass(frozen=True)
class Output:
    """Where a command's words go."""

    json: bool = False
    quiet: bool = False
    """Whether a run prints only its phases, its warnings and its result."""

    def line(self, text: str = "") -> None:
        """What the command was asked for."""
        _write(sys.stderr if self.json else sys.stdout, text)

    def note(self, text: str) -> None:
        """What is said beside it: warnings, problems, errors."""
        _write(sys.stderr, text)

    def data(self, value: Any) -> None:
        """The result as JSON, where JSON was asked for."""
        if self.json:
            import json

            text = json.dumps(value, indent=2, default=str)
            _write(sys.stdout, text.replace("\x7f", "\\u007f"))  # the one that JSON writes as it is


def _write(stream: Any, text: str) -> None:
    stream.write(make_printable(text) + "\n")
    stream.flush()


def discard_stdout() -> None:
    """Let standard output go nowhere: nobody reads it, or it cannot be written, and what is left in it would fail again
    when the process ends."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
