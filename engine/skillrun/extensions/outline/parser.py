"""The definitions of a source file, found by a process of its own: files are somebody else's, grammars native code.

The process has limits of time and memory, no keys in its environment and no folder; what ends it ends one outline.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from threading import Timer
from typing import Any, Final, NamedTuple, Self

from skillrun.extensions.outline import parser_process
from skillrun.extensions.outline.grammars import Grammar
from skillrun.repository.readable import one_line

LONGEST_NAME: Final = 48  # characters
LARGEST: Final = 1_000_000  # bytes of a file
MOST_REPLY: Final = 16_000_000  # bytes
KEPT: Final = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")  # of the environment, without which Python may not start
MOST_ENDED: Final = 3  # processes that files have ended, before no other is started


class Definition(NamedTuple):
    """Its first and last line, how many definitions it stands in, what stands in front of its body, and its name."""

    first: int
    last: int
    depth: int
    header: str
    name: str


def shortened(name: str) -> str:
    return name if len(name) <= LONGEST_NAME else f"{name[: LONGEST_NAME - 1]}…"


def _definition(first: int, last: int, depth: int, header: str) -> Definition:
    """With the beginning of the header, up to the parameters and without words such as `def`, as its name."""
    header = one_line(header)
    name = _KEYWORDS.sub("", header).split("(", 1)[0].strip() or header
    return Definition(first, last, depth, header, shortened(name))


_KEYWORDS: Final = re.compile(r"^(?:(?:export|default|pub|public|static|async|def|function|fn|func)\b\*? *)+(?=\w)")


class NoOutline(Exception):
    """Why there is none of a file."""


class Parser:
    """Finds definitions until `until`, by the monotonic clock."""

    def __init__(self, until: float) -> None:
        self._until = until
        self._process: subprocess.Popen[bytes] | None = None
        self._ended = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def definitions(self, grammar: Grammar, content: bytes) -> list[Definition]:
        """The definitions of a file of at most LARGEST bytes, in their order. Raises NoOutline, and TimeoutError when
        time is up."""
        reply = self._reply(grammar, content)
        if reply.get("missing"):
            raise NoOutline(f"the package {grammar.package} is not installed")
        try:
            rows = [_definition(int(a), int(b), int(c), str(d)) for a, b, c, d in reply["definitions"]]
        except (KeyError, TypeError, ValueError):
            raise NoOutline("the parser gave none") from None
        return rows

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
