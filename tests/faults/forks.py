"""Runs command lines in processes of their own, hundreds of them in little time: `python -m tests.faults.forks`.

Everything is imported once; each process is a fork that takes a command line as a user would type it, with its own
output, its own folder and the fault it is to meet. A JSON line in for each, and one out. Whatever a model has
answered is a line in a file before the run has it. With `disk.c` loaded ahead of libc, the disk can fail.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from typing import IO, Any, Final

from skillrun.cli.main import main
from skillrun.models.gateway import ModelGateway
from skillrun.models.messages import ModelError, Reply, Request
from skillrun.store import checkpoints

LONGEST: Final = 60.0  # seconds; a process that takes longer hangs
CAUGHT: Final = 70  # the exit code of a process whose exception came out of `main`

send = ModelGateway.send
warmed: set[str] = set()


class Disk:
    """What `disk.c` offers; without it, nothing ever fails."""

    def __init__(self) -> None:
        self.library = ctypes.CDLL(None) if os.environ.get("LD_PRELOAD") else None
        if self.library is not None:
            self.library.disk_failed_at.restype = ctypes.c_char_p

    def arm(self, folder: str, only: str, number: int, kind: int, lasting: bool, log: int) -> None:
        if self.library is not None:
            self.library.disk_arm(os.fsencode(folder), os.fsencode(only), number, kind, int(lasting), log)

    def failed(self) -> str:
        """The first file that it has failed for."""
        if self.library is None or not self.library.disk_failed():
            return ""
        return os.fsdecode(self.library.disk_failed_at())


disk = Disk()


def child(job: Mapping[str, Any], words: list[str], output: tuple[int, int]) -> int:
    """The command line, met by what the job says; its exit code."""
    os.chdir(job["folder"])
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(output[0], 1)
    os.dup2(output[1], 2)
    os.environ.update(job.get("environment") or {})
    checkpoints.hook = editing(job["edit"]) if "edit" in job else checkpoints._from_environment()
    calls = os.open(job["calls"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    async def logged(gateway: ModelGateway, request: Request, address: str, *more: Any, **named: Any) -> Reply:
        line = f"{address} {request.fingerprint()} {disk.failed() or '-'}\n".encode()
        try:
            reply = await send(gateway, request, address, *more, **named)
        except ModelError:
            os.write(calls, line)
            raise
        os.write(calls, line)
        return reply

    ModelGateway.send = logged  # type: ignore[assignment, method-assign]
    if fault := job.get("disk"):
        log = os.open(fault["log"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600) if fault.get("log") else -1
        disk.arm(
            fault["below"], fault.get("only", ""), fault.get("number", 0), fault.get("kind", 0),
            bool(fault.get("lasting")), log,
        )  # fmt: skip
    return main(words)


def editing(edit: Mapping[str, Any]) -> Callable[[str], None]:
    """A person who writes into a file at the n-th checkpoint, and saves it as editors do or in place."""
    left = count(1)

    def hook(_name: str) -> None:
        if next(left) == edit["at"]:
            path = Path(edit["path"])
            path.parent.mkdir(parents=True, exist_ok=True)
            text = (path.read_bytes() if path.exists() else b"") + edit["words"].encode()
            saved = path.with_name(f"{path.name}~") if edit["renamed"] else path
            saved.write_bytes(text)
            saved.replace(path)
            Path(edit["done"]).touch()

    return hook


def forked(job: Mapping[str, Any], words: list[str], output: tuple[int, int]) -> int:
    """The number of a process that carries out the command line."""
    number = os.fork()
    if number:
        return number
    code = CAUGHT
    try:
        code = child(job, words, output)
        Path(job["calls"] + ".failed").write_text(disk.failed())
        sys.stdout.flush()
        sys.stderr.flush()
    except BaseException as error:  # noqa: BLE001 (a child must never go on as its parent)
        sys.stderr.write(f"Traceback: {error!r}\n")
        sys.stderr.flush()
    finally:
        os._exit(code)


def ended(number: int, until: float) -> int:
    """The exit code of a process; minus the number of the signal that killed it."""
    while True:
        found, status = os.waitpid(number, os.WNOHANG)
        if found:
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() > until:
            os.kill(number, signal.SIGABRT)
            until += LONGEST
        time.sleep(0.002)


def carried_out(job: Mapping[str, Any]) -> list[dict[str, Any]]:
    """What became of the job's command lines, which run at the same time."""
    if "warm" in job and job["environment"]["SKILLRUN_MODEL"] not in warmed:  # what the first call imports
        warmed.add(job["environment"]["SKILLRUN_MODEL"])
        quietly(job["folder"], [job["warm"]], job["environment"])
    with ExitStack() as stack:
        made = [[stack.enter_context(tempfile.TemporaryFile()) for _ in range(2)] for _ in job["commands"]]
        pairs = list(zip(job["commands"], made, strict=True))
        numbers = [forked(job, words, (out.fileno(), err.fileno())) for words, (out, err) in pairs]
        if (after := job.get("kill_after")) is not None:
            time.sleep(after)
            for number in numbers:
                os.kill(number, signal.SIGKILL)
        until = time.monotonic() + LONGEST
        codes = [ended(number, until) for number in numbers]
        return [
            {"code": code, "out": text_of(out), "err": text_of(err)}
            for code, (out, err) in zip(codes, made, strict=True)
        ]


def text_of(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode("utf-8", "replace")


def quietly(folder: str, commands: list[list[str]], environment: Mapping[str, str]) -> None:
    """Carry out commands in this process, for what they import and set up."""
    here, before = Path.cwd(), dict(os.environ)
    kept = os.dup(1), os.dup(2)
    sink = os.open(os.devnull, os.O_WRONLY)
    os.chdir(folder)
    os.environ.update(environment)
    os.dup2(sink, 1)
    os.dup2(sink, 2)
    for words in commands:
        main(words)
    sys.stdout.flush()
    os.dup2(kept[0], 1)
    os.dup2(kept[1], 2)
    for descriptor in (sink, *kept):
        os.close(descriptor)
    os.environ.clear()
    os.environ.update(before)
    os.chdir(here)


def warm() -> None:
    """Import what a run imports, before the first fork."""
    plan = ["plan", "x", "--mode", "rapid", "--dry-run", "--model", "scripted:x"]
    with tempfile.TemporaryDirectory() as folder:
        quietly(folder, [plan, ["runs"], ["show", "x"]], {})


if __name__ == "__main__":
    warm()
    for line in sys.stdin:
        sys.stdout.write(json.dumps(carried_out(json.loads(line))) + "\n")
        sys.stdout.flush()
