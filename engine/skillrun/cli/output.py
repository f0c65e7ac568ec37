"""Prints all output, without control characters. With `--json`, standard output has only JSON; text goes to stderr."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from skillrun.syntax.diagnostics import make_printable


@dataclass(frozen=True)
class Output:
    """Writes the output of a command."""

    json: bool = False
    quiet: bool = False
    """Whether a run prints only phases, warnings and its result."""

    def line(self, text: str = "") -> None:
        """Print a line of the result."""
        _write(sys.stderr if self.json else sys.stdout, text)

    def lines(self, texts: Iterable[str]) -> None:
        """Print lines of the result, each as soon as it is made."""
        for text in texts:
            self.line(text)

    def note(self, text: str) -> None:
        """Print a warning, problem or error to standard error."""
        _write(sys.stderr, text)

    def data(self, value: Any) -> None:
        """Print the result as JSON if `--json` is set."""
        if self.json:
            import json

            text = json.dumps(value, indent=2, default=str)
            _write(sys.stdout, text.replace("\x7f", "\\u007f"))  # the only control character that JSON leaves unescaped


def _write(stream: Any, text: str) -> None:
    stream.write(make_printable(text) + "\n")
    stream.flush()


def discard_stdout() -> None:
    """Redirect standard output to the null device, so that flushing it at exit does not fail again."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
