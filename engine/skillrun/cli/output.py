"""Prints all output. What a value contains cannot control the terminal, the runner of a CI job or the layout.

Control characters are removed. Lines of a value after its first are indented, so that only the program's own lines
start at the margin. Workflow commands of CI runners get a space. With `--json`, standard output has only JSON, and
text goes to stderr.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from skillrun.syntax.diagnostics import Problem, make_printable, render_problem

_UNINDENTED: Final = re.compile(r"\n(?!  |\n|$)")
# GitHub's runner reads `::error::text` after blanks, and `##[error]text` anywhere; that of Azure reads `##vso[…]`.
_BRACKET_COMMAND: Final = re.compile(r"#(?=#(?:\[|vso\[))", re.IGNORECASE)
_COLON_COMMAND: Final = re.compile(r"^([^\S\n]*:)(?=:[\w-]+(?:\s[^\n]*?)?::)", re.MULTILINE)


@dataclass(frozen=True)
class Output:
    """Writes the output of a command."""

    json: bool = False
    quiet: bool = False
    """Whether a run prints only phases, warnings and its result."""

    def line(self, text: str = "", *, needs_reader: bool = False) -> None:
        """Print a line of the result. If the text has more lines, they are indented.

        With `needs_reader`, raises BrokenPipeError if the reader closed the output.
        """
        _write(sys.stderr if self.json else sys.stdout, text, needs_reader=needs_reader)

    def lines(self, texts: Iterable[str]) -> None:
        """Print lines of the result, each as soon as it is made."""
        for text in texts:
            self.line(text)

    def text(self, text: str, *, needs_reader: bool = False) -> None:
        """Print a text whose lines are all the program's own, such as help, and no value's."""
        for line in text.split("\n"):
            self.line(line, needs_reader=needs_reader)

    def note(self, text: str) -> None:
        """Print a warning or error to standard error. If the text has more lines, they are indented."""
        _write(sys.stderr, text)

    def notes(self, texts: Iterable[str]) -> None:
        """Print lines to standard error."""
        for text in texts:
            self.note(text)

    def problem(self, problem: Problem) -> None:
        """Print a problem and an empty line to standard error."""
        self.notes([*render_problem(problem).split("\n"), ""])

    def command(self, text: str) -> None:
        """Print a command for the runner of a CI job, in one line."""
        text = _BRACKET_COMMAND.sub("# ", make_printable(text)).replace("\n", " ")
        _print(sys.stderr if self.json else sys.stdout, text)

    def record(self, value: Any, indent: int | None = None, *, needs_reader: bool = False) -> None:
        """Print a value as JSON to standard output."""
        import json

        text = _BRACKET_COMMAND.sub(r"\\u0023", json.dumps(value, indent=indent, default=str))
        text = text.replace("\x7f", "\\u007f")  # the only control character that JSON leaves unescaped
        _print(sys.stdout, text, needs_reader=needs_reader)

    def data(self, value: Any) -> None:
        """Print the result as JSON if `--json` is set."""
        if self.json:
            self.record(value, indent=2)


def make_safe(text: str) -> str:
    """Return the text without control characters, and without commands for the runner of a CI job."""
    return _COLON_COMMAND.sub(r"\1 ", _BRACKET_COMMAND.sub("# ", make_printable(text)))


def _write(stream: Any, text: str, *, needs_reader: bool = False) -> None:
    _print(stream, make_safe(_UNINDENTED.sub("\n    ", make_printable(text))), needs_reader=needs_reader)


def _print(stream: Any, text: str, *, needs_reader: bool = False) -> None:
    try:
        stream.write(text + "\n")
        stream.flush()
    except BrokenPipeError:  # as in `| head -1`: the command continues, and ends with its own exit code
        discard_output(stream)
        if needs_reader:
            raise
    except OSError:
        discard_output(stream)
        if stream is not sys.stderr:  # such as that of a terminal that was closed: nothing can report it
            raise


def discard_output(stream: Any) -> None:
    """Redirect a stream to the null device, so that flushing it at exit does not fail again."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
