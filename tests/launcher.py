"""Starts `python -m skillrun` quickly: forks it from a process that has imported everything and read the library.

The result is a real child process of the caller, with its own id, streams, signals and exit code. Only the start-up is
saved, which takes most of the time of a short command. On systems other than Linux, and under coverage, which measures
the processes that Python starts, processes start as usual.
"""

from __future__ import annotations

import atexit
import ctypes
import gc
import importlib
import inspect
import json
import os
import pkgutil
import runpy
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any, Final, NoReturn

import pytest

from tests.shipped import share_shipped_library

ROOT: Final = Path(__file__).parents[1]
FORKS: Final = sys.platform == "linux" and "coverage" not in sys.modules
PR_SET_CHILD_SUBREAPER: Final = 36
# Libraries that commands import lazily.
IMPORTED_LATE: Final = ("pydantic_ai.models.openai", "questionary")


def start_skillrun(*arguments: str, unbuffered: bool = False, **options: Any) -> subprocess.Popen[Any]:
    """Start `python -m skillrun` with the options of `subprocess.Popen`."""
    return start_python(*["-u"] * unbuffered, "-m", "skillrun", *arguments, **options)


def run_skillrun(*arguments: str, **options: Any) -> subprocess.CompletedProcess[Any]:
    """Run `python -m skillrun` until it exits."""
    return run_python("-m", "skillrun", *arguments, **options)


def run_python(*arguments: str, **options: Any) -> subprocess.CompletedProcess[Any]:
    """Run Python until it exits."""
    with start_python(*arguments, **options) as process:
        out, err = process.communicate()
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


def start_python(*arguments: str, **options: Any) -> subprocess.Popen[Any]:
    """Start Python with `-m MODULE` or `-c CODE` and arguments; `-u` may come first.

    A hangup ends the process, even if `nohup` started the tests.
    """
    command = [sys.executable, *arguments]
    if FORKS:
        return _ForkedProcess(command, **options)
    return subprocess.Popen(command, preexec_fn=_end_on_hangup, **options)  # noqa: PLW1509 (calls one function)


def _end_on_hangup() -> None:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


class _ForkedProcess(subprocess.Popen[Any]):
    """A process forked by the launcher."""

    def _execute_child(self, *values: Any) -> None:
        """Ask the launcher to fork, in place of the method of `Popen` that forks and executes."""
        given = inspect.signature(subprocess.Popen._execute_child).bind(self, *values).arguments  # type: ignore[attr-defined]
        assert given["preexec_fn"] is None
        ends = given["p2cread"], given["c2pwrite"], given["errwrite"]
        request = {
            "arguments": given["args"][1:],
            "folder": os.fspath(given["cwd"] or Path.cwd()),
            "environment": dict(os.environ if given["env"] is None else given["env"]),
            "umask": _umask(),
            "new_session": given["start_new_session"],
        }
        self.pid = _start_launcher().fork(request, [own if end == -1 else end for own, end in enumerate(ends)])
        self._child_created = True
        self._close_pipe_fds(*values[10:16])  # type: ignore[attr-defined]


class _Launcher:
    """The process that forks others."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.launcher", str(theirs.fileno())], cwd=ROOT, pass_fds=[theirs.fileno()]
            )

    def fork(self, request: dict[str, Any], streams: Sequence[int]) -> int:
        """Fork a process with these streams, and return its id. It becomes a child of this process."""
        message = json.dumps(request).encode()
        with self._lock, _adopting_orphans():
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 2 * len(message) + 4096)
            socket.send_fds(self._socket, [message], streams)
            return int(self._socket.recv(64))

    def end(self) -> None:
        self._socket.close()
        self._process.wait()


@cache
def _start_launcher() -> _Launcher:
    launcher = _Launcher()
    atexit.register(launcher.end)
    return launcher


@contextmanager
def _adopting_orphans() -> Iterator[None]:
    """A context in which orphaned descendants become children of this process."""
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0
    try:
        yield
    finally:
        libc.prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)


def _umask() -> int:
    """The umask of this process, read without changing it."""
    status = Path("/proc/self/status").read_text()
    return int(status.split("Umask:")[1].split()[0], 8)


def _serve(requests: socket.socket) -> dict[str, Any] | None:
    """Fork a process for each request. Returns the request in each forked process, and None here at the end."""
    while True:
        message, streams, _, _ = socket.recv_fds(requests, 1 << 20, 3)
        if not message:
            return None
        reader, writer = os.pipe()
        parent = os.fork()
        if not parent:
            child = os.fork()
            if child:
                os.write(writer, str(child).encode())
                os._exit(0)
            os.close(reader)
            os.close(writer)
            requests.close()
            for own, stream in enumerate(streams):
                os.dup2(stream, own)
            for stream in streams:
                os.close(stream)
            request: dict[str, Any] = json.loads(message)
            return request
        os.close(writer)
        os.waitpid(parent, 0)  # its child is an orphan now, and becomes a child of the caller
        requests.send(os.read(reader, 64))
        for fd in (reader, *streams):
            os.close(fd)


def _run(request: dict[str, Any]) -> None:
    """Run a request as a new Python process would."""
    from skillrun.store import kill_points

    _end_on_hangup()
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    os.umask(request["umask"])
    if request["new_session"]:
        os.setsid()
    time.tzset()
    arguments = request["arguments"]
    unbuffered = arguments[0] == "-u" or bool(os.environ.get("PYTHONUNBUFFERED"))
    if arguments[0] == "-u":
        del arguments[0]
    sys.stdin = open(0, encoding=sys.stdin.encoding, errors=sys.stdin.errors)  # noqa: SIM115 (a descriptor)
    for name, number in (("stdout", 1), ("stderr", 2)):
        old = getattr(sys, name)
        new = open(number, "w", encoding=old.encoding, errors=old.errors)  # noqa: SIM115, PTH123
        new.reconfigure(line_buffering=number == 2 or new.isatty(), write_through=unbuffered)
        setattr(sys, name, new)
    kill_points.hook = kill_points._from_environment()
    kind, name, *rest = arguments
    sys.argv[:] = [kind, *rest]
    sys.path[0] = "" if kind == "-c" else str(Path.cwd())
    try:
        if kind == "-m":
            runpy.run_module(name, run_name="__main__", alter_sys=True)
        else:
            exec(compile(name, "<string>", "exec"), {"__name__": "__main__"})
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
        if isinstance(end.code, str):
            sys.stderr.write(f"{end.code}\n")
    except BaseException:  # noqa: BLE001 (as Python does for uncaught exceptions)
        sys.excepthook(*sys.exc_info())
        code = 1
    _exit(code)


def _exit(code: int) -> NoReturn:
    """Exit as Python does, but leave the memory of all imports to the operating system."""
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)


def _import_all() -> None:
    import skillrun

    for found in pkgutil.walk_packages(skillrun.__path__, "skillrun."):
        if not found.name.endswith("__main__"):
            importlib.import_module(found.name)
    for name in IMPORTED_LATE:
        importlib.import_module(name)


if __name__ == "__main__":
    with socket.socket(fileno=int(sys.argv[1])) as from_tests:
        _import_all()
        share_shipped_library(pytest.MonkeyPatch())
        gc.collect()
        gc.freeze()  # forked processes do not collect existing objects, so their pages stay shared
        job = _serve(from_tests)
    if job is not None:
        _run(job)
