"""Finds the definitions in a source file.

Files are untrusted and grammars are native code, so a separate process does the work. It has limited time and memory,
no keys in its environment, and runs in `/`. If it crashes, only one outline is lost.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from threading import Timer
from typing import Final, Self

from skillrun.extensions.outline import parser_process
from skillrun.extensions.outline.grammars import SUFFIXES, detect_grammar
from skillrun.installation import has_outlines
from skillrun.repository.definitions import Definition, NoOutline

MAX_REPLY_BYTES: Final = 16_000_000
INHERITED_VARIABLES: Final = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")  # without these, Python may not start
MAX_CRASHES: Final = 3  # after so many crashes, no process is started


class DefinitionParser:
    """Finds definitions until `deadline`, a time of the monotonic clock. Without the extra `outline`, it supports no
    language."""

    def __init__(self, deadline: float) -> None:
        self.suffixes = SUFFIXES if has_outlines() else ()
        self._deadline = deadline
        self._process: subprocess.Popen[bytes] | None = None
        self._crashes = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stop()

    def supports(self, name: str, content: bytes) -> bool:
        return bool(self.suffixes) and detect_grammar(name, content) is not None

    def definitions(self, name: str, content: bytes) -> list[Definition]:
        """Return the definitions in a file, in order. The file's language must be supported.

        Raises NoOutline and TimeoutError.
        """
        grammar = detect_grammar(name, content)
        assert grammar is not None
        if self._crashes >= MAX_CRASHES:
            raise NoOutline(f"the parser has already failed on {MAX_CRASHES} files")
        remaining = self._deadline - time.monotonic()
        if remaining <= 0:
            raise TimeoutError
        try:
            process = self._process or self._start()
        except OSError:
            self._crashes += 1
            raise NoOutline("the parser cannot be started") from None
        timer = Timer(remaining, process.kill)
        timer.start()
        try:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(json.dumps({**vars(grammar), "bytes": len(content)}).encode() + b"\n" + content)
            process.stdin.flush()
            reply = json.loads(process.stdout.readline(MAX_REPLY_BYTES))
        except (OSError, ValueError):
            self._stop()
            if time.monotonic() >= self._deadline:
                raise TimeoutError from None
            self._crashes += 1
            raise NoOutline("the parser failed on this file") from None
        finally:
            timer.cancel()
        try:
            if reply.get("missing"):
                raise NoOutline(f"the package {grammar.module.replace('_', '-')} is not installed")
            return [Definition.from_header(int(a), int(b), int(c), str(d)) for a, b, c, d in reply["definitions"]]
        except (AttributeError, KeyError, TypeError, ValueError):
            raise NoOutline("the parser returned no outline") from None

    def _start(self) -> subprocess.Popen[bytes]:
        self._process = subprocess.Popen(  # noqa: S603 (this interpreter, with a file of this package)
            [sys.executable, "-I", str(Path(parser_process.__file__))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd="/",
            env={name: os.environ[name] for name in INHERITED_VARIABLES if name in os.environ},
            process_group=0,
        )
        return self._process

    def _stop(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.kill()
        for pipe in (process.stdin, process.stdout):
            with suppress(OSError):
                if pipe is not None:
                    pipe.close()
        process.wait()
