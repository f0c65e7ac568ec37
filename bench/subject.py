"""The parts that all measured programs share: the fake model, the clock, and the figures printed at the end.

A subject is a separate program, run as `python -m bench.peers.NAME WORK …` in its own environment, so this module uses
only the standard library.
"""

import argparse
import asyncio
import json
import os
import resource
import signal
import sys
import time
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path


class CallFailed(Exception):
    """The call named by `--fail` failed, as when a model refuses."""


@dataclass
class Work:
    """One piece of work: its calls, their duration, the folder of the subject, and what happened."""

    calls: int
    delay: float  # seconds
    reply: str
    folder: Path
    resume: bool = False
    variant: str = ""
    kill_after: int | None = None  # this many answered calls; the next one kills the process instead of answering
    staggered: bool = False  # call number n takes n + 1 times the delay
    fail: int | None = None  # the call that fails
    fail_last: bool = False  # it fails after all others have been answered
    edit: int | None = None  # the call whose prompt has been edited
    asked: list[int] = field(default_factory=list)
    first_call: float | None = None
    started: float = 0.0
    seconds: float = 0.0

    async def call(self, number: int) -> str:
        """Reply to a call as a model would, after its delay. Calls are numbered from 0. Raises CallFailed."""
        if self.first_call is None:
            self.first_call = time.monotonic()
        self.asked.append(number)
        is_last = self.fail_last and number == self.fail
        await asyncio.sleep(self.delay * ((self.calls if is_last else number) + 1 if self.staggered else 1))
        if self.kill_after is not None and number >= self.kill_after:
            os.kill(os.getpid(), signal.SIGKILL)
        if number == self.fail:
            raise CallFailed
        return self.reply

    def prompt(self, number: int) -> str:
        """The prompt of a call, for subjects that send one."""
        return f"Answer question {number}{' in one word' if number == self.edit else ''}."

    async def answer(self, number: int, prompt: str) -> str:
        """Reply to a prompt, and repeat it in the reply so that `check` detects old replies."""
        await self.call(number)
        return f"Reply to: {prompt}"

    def check(self, replies: Iterable[str]) -> None:
        """Exit with an error unless there is one reply to each current prompt."""
        missing = {f"Reply to: {self.prompt(number)}" for number in range(self.calls)} ^ set(replies)
        if missing:
            raise SystemExit(f"missing or outdated replies: {sorted(missing)}")

    def start(self) -> None:
        """Start the clock, after the subject is set up."""
        self.started = time.perf_counter()

    def stop(self) -> None:
        """Stop the clock, when the work is done and durable."""
        self.seconds = time.perf_counter() - self.started

    def figures(self) -> dict[str, object]:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return {
            "seconds": self.seconds,
            "asked": self.asked,
            "first_call": self.first_call,
            "peak_bytes": peak if sys.platform == "darwin" else peak * 1024,
            "modules": sorted(name for name in sys.modules if "." not in name),
        }


Run = Callable[[Work], Awaitable[None]]


def main(**works: Run) -> None:
    """Run the work named on the command line, and print its figures as one line of JSON."""
    parser = argparse.ArgumentParser()
    parser.add_argument("work", choices=works)
    parser.add_argument("--calls", type=int, required=True)
    parser.add_argument("--delay", type=float, default=0.0)
    parser.add_argument("--reply-bytes", type=int, default=20)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--resume", action="store_true")
    parser.add_argument("--variant", default="")
    parser.add_argument("--kill-after", type=int)
    parser.add_argument("--staggered", action="store_true")
    parser.add_argument("--fail", type=int)
    parser.add_argument("--fail-last", action="store_true")
    parser.add_argument("--edit", type=int)
    options = parser.parse_args()
    work = Work(
        calls=options.calls,
        delay=options.delay,
        reply=("The answer. " * (options.reply_bytes // 12 + 1))[: options.reply_bytes],
        folder=options.folder,
        resume=options.resume,
        variant=options.variant,
        kill_after=options.kill_after,
        staggered=options.staggered,
        fail=options.fail,
        fail_last=options.fail_last,
        edit=options.edit,
    )
    asyncio.run(_run(works[options.work], work))
    print(json.dumps(work.figures()))


async def _run(run: Run, work: Work) -> None:
    try:
        await run(work)
    except CallFailed:
        if work.fail is None:
            raise
    else:
        if work.fail is not None:
            raise SystemExit("the work ended without an error although a call failed")
