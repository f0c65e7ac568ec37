"""Runs hundreds of command lines quickly, each in a forked process: `python -m tests.faults.forks`.

Everything is imported once. Each fork runs a command line with its own output, folder and fault. Jobs and results are
JSON lines. Every reply of a model is logged to a file before the run receives it. With `disk.c` preloaded before libc,
disk operations can fail.
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
from skillrun.store import kill_points

TIMEOUT: Final = 60.0  # seconds after which a process counts as hanging
UNCAUGHT: Final = 70  # the exit code if an exception leaves `main`

send = ModelGateway.send
warm_models: set[str] = set()


class Disk:
    """The functions of `disk.c`; without it, nothing fails."""

    def __init__(self) -> None:
        self.library = ctypes.CDLL(None) if os.environ.get("LD_PRELOAD") else None
        if self.library is not None:
            self.library.disk_failed_at.restype = ctypes.c_char_p

    def arm(self, folder: str, only: str, number: int, kind: int, lasting: bool, log: int) -> None:
        if self.library is not None:
            self.library.disk_arm(os.fsencode(folder), os.fsencode(only), number, kind, int(lasting), log)

    def failed(self) -> str:
        """The first file with a failed operation."""
        if self.library is None or not self.library.disk_failed():
            return ""
        return os.fsdecode(self.library.disk_failed_at())


disk = Disk()


def run_command(job: Mapping[str, Any], words: list[str], output: tuple[int, int]) -> int:
    """Run a command line with the fault of the job, and return its exit code."""
    os.chdir(job["folder"])
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(output[0], 1)
    os.dup2(output[1], 2)
    os.environ.update(job.get("environment") or {})
    kill_points.hook = edit_at_checkpoint(job["edit"]) if "edit" in job else kill_points._from_environment()
    calls = os.open(job["calls"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    async def send_and_log(gateway: ModelGateway, request: Request, address: str, *more: Any, **named: Any) -> Reply:
        line = f"{address} {request.fingerprint()} {disk.failed() or '-'}\n".encode()
        try:
            reply = await send(gateway, request, address, *more, **named)
        except ModelError:
            os.write(calls, line)
            raise
        os.write(calls, line)
        return reply

    ModelGateway.send = send_and_log  # type: ignore[assignment, method-assign]
    if fault := job.get("disk"):
        log = os.open(fault["log"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600) if fault.get("log") else -1
        disk.arm(
            fault["below"], fault.get("only", ""), fault.get("number", 0), fault.get("kind", 0),
            bool(fault.get("lasting")), log,
        )  # fmt: skip
    return main(words)


def edit_at_checkpoint(edit: Mapping[str, Any]) -> Callable[[str], None]:
    """A checkpoint hook that edits a file at the n-th checkpoint, in place or as an editor saves it."""
    numbers = count(1)

    def hook(_name: str) -> None:
        if next(numbers) == edit["at"]:
            path = Path(edit["path"])
            path.parent.mkdir(parents=True, exist_ok=True)
            text = (path.read_bytes() if path.exists() else b"") + edit["words"].encode()
            saved = path.with_name(f"{path.name}~") if edit["renamed"] else path
            saved.write_bytes(text)
            saved.replace(path)
            Path(edit["done"]).touch()

    return hook


def fork_command(job: Mapping[str, Any], words: list[str], output: tuple[int, int]) -> int:
    """Fork a process that runs the command line, and return its id."""
    number = os.fork()
    if number:
        return number
    code = UNCAUGHT
    try:
        code = run_command(job, words, output)
        Path(job["calls"] + ".failed").write_text(disk.failed())
        sys.stdout.flush()
        sys.stderr.flush()
    except BaseException as error:  # noqa: BLE001 (a child must never continue as its parent)
        sys.stderr.write(f"Traceback: {error!r}\n")
        sys.stderr.flush()
    finally:
        os._exit(code)


def wait_for_exit(number: int, deadline: float) -> int:
    """The exit code of a process, or minus the number of the signal that killed it."""
    while True:
        pid, status = os.waitpid(number, os.WNOHANG)
        if pid:
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() > deadline:
            os.kill(number, signal.SIGABRT)
            deadline += TIMEOUT
        time.sleep(0.002)


def run_job(job: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Run the command lines of a job concurrently, and return their results."""
    if "warm" in job and job["environment"]["SKILLRUN_MODEL"] not in warm_models:  # import what the first call needs
        warm_models.add(job["environment"]["SKILLRUN_MODEL"])
        run_silently(job["folder"], [job["warm"]], job["environment"])
    with ExitStack() as stack:
        outputs = [[stack.enter_context(tempfile.TemporaryFile()) for _ in range(2)] for _ in job["commands"]]
        pairs = list(zip(job["commands"], outputs, strict=True))
        numbers = [fork_command(job, words, (out.fileno(), err.fileno())) for words, (out, err) in pairs]
        if (after := job.get("kill_after")) is not None:
            time.sleep(after)
            for number in numbers:
                os.kill(number, signal.SIGKILL)
        deadline = time.monotonic() + TIMEOUT
        codes = [wait_for_exit(number, deadline) for number in numbers]
        return [
            {"code": code, "out": text_of(out), "err": text_of(err)}
            for code, (out, err) in zip(codes, outputs, strict=True)
        ]


def text_of(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode("utf-8", "replace")


def run_silently(folder: str, commands: list[list[str]], environment: Mapping[str, str]) -> None:
    """Run commands in this process without output, for their imports and set-up."""
    old_folder, old_environment = Path.cwd(), dict(os.environ)
    streams = os.dup(1), os.dup(2)
    sink = os.open(os.devnull, os.O_WRONLY)
    os.chdir(folder)
    os.environ.update(environment)
    os.dup2(sink, 1)
    os.dup2(sink, 2)
    for words in commands:
        main(words)
    sys.stdout.flush()
    os.dup2(streams[0], 1)
    os.dup2(streams[1], 2)
    for descriptor in (sink, *streams):
        os.close(descriptor)
    os.environ.clear()
    os.environ.update(old_environment)
    os.chdir(old_folder)


def warm() -> None:
    """Import everything that a run needs, before the first fork."""
    plan = ["plan", "x", "--mode", "rapid", "--dry-run", "--model", "scripted:x"]
    with tempfile.TemporaryDirectory() as folder:
        run_silently(folder, [plan, ["runs"], ["show", "x"]], {})


if __name__ == "__main__":
    warm()
    for line in sys.stdin:
        sys.stdout.write(json.dumps(run_job(json.loads(line))) + "\n")
        sys.stdout.flush()
