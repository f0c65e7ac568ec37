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

    def line(self, text: str = "", *, needs_reader: bool = False) -> None:
        """Print a line of the result. With `needs_reader`, raises BrokenPipeError if the reader closed the output."""
        _write(sys.stderr if self.json else sys.stdout, text, needs_reader=needs_reader)

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


def _write(stream: Any, text: str, *, needs_reader: bool = False) -> None:
    try:
        stream.write(make_printable(text) + "\n")
        stream.flush()
    except BrokenPipeError:  # as in `| head -1`: the command goes on, and ends with its own exit code
        discard_output(stream)
        if needs_reader:
            raise
    except OSError:
        discard_output(stream)
        raise


def discard_output(stream: Any) -> None:
    """Redirect a stream to the null device, so that flushing it at exit does not fail again."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
