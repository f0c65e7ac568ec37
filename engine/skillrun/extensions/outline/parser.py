"""The definitions of a source file, found by a process of its own: files are somebody else's, grammars native code.

The process has limits of time and memory, no keys in its environment and no folder; what ends it ends one outline.
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
from typing import Any, Final, Self

from skillrun.extensions.outline import parser_process
from skillrun.extensions.outline.grammars import SUFFIXES, Grammar, grammar_of
from skillrun.repository.definitions import Definition, NoOutline

MOST_REPLY: Final = 16_000_000  # bytes
KEPT: Final = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")  # of the environment, without which Python may not start
MOST_ENDED: Final = 3  # processes that files have ended, before no other is started


class Parser:
    """Finds definitions until `until`, by the monotonic clock."""

    suffixes = SUFFIXES

    def __init__(self, until: float) -> None:
        self._until = until
        self._process: subprocess.Popen[bytes] | None = None
        self._ended = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def supports(self, name: str, content: bytes) -> bool:
        return grammar_of(name, content) is not None

    def definitions(self, name: str, content: bytes) -> list[Definition]:
        """The definitions of a file whose language is supported, in order. Raises NoOutline and TimeoutError."""
        grammar = grammar_of(name, content)
        assert grammar is not None
        reply = self._reply(grammar, content)
        if reply.get("missing"):
            raise NoOutline(f"the package {grammar.package} is not installed")
        try:
            return [Definition.from_header(int(a), int(b), int(c), str(d)) for a, b, c, d in reply["definitions"]]
        except (KeyError, TypeError, ValueError):
            raise NoOutline("the parser gave none") from None

    def _reply(self, grammar: Grammar, content: bytes) -> dict[str, Any]:
        if self._ended >= MOST_ENDED:
            raise NoOutline(f"the parser has failed on {MOST_ENDED} files before it")
        left = self._until - time.monotonic()
        if left <= 0:
            raise TimeoutError
        process = self._process or self._started()
        timer = Timer(left, process.kill)
        timer.start()
        try:
            asked = {**vars(grammar), "bytes": len(content)}
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(json.dumps(asked).encode() + b"\n" + content)
            process.stdin.flush()
            reply = json.loads(process.stdout.readline(MOST_REPLY))
            return reply if isinstance(reply, dict) else {}
        except (OSError, ValueError):
            self._end()
            if time.monotonic() >= self._until:
                raise TimeoutError from None
            self._ended += 1
            raise NoOutline("the parser failed on it") from None
        finally:
            timer.cancel()

    def _started(self) -> subprocess.Popen[bytes]:
        self._process = subprocess.Popen(  # noqa: S603 (this interpreter with a file of ours)
            [sys.executable, "-I", str(Path(parser_process.__file__))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd="/",
            env={name: os.environ[name] for name in KEPT if name in os.environ},
            process_group=0,
        )
        return self._process

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.kill()
        for pipe in (process.stdin, process.stdout):
            with suppress(OSError):
                if pipe is not None:
                    pipe.close()
        process.wait()
