"""The Postgres that stores are measured on: one that keeps what it acknowledges, of this process."""

import atexit
import functools
import os
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import psycopg
from psycopg.sql import SQL, Identifier

from tests.servers.postgres import server

URL = "BENCH_POSTGRES"


@functools.cache
def durable() -> str:
    """A server that syncs its log at every commit, with the counts of its statements; its URL."""
    named = os.environ.get("SKILLRUN_BENCH_POSTGRES")
    if named:
        return named
    stack = ExitStack()
    atexit.register(stack.close)
    return stack.enter_context(server("-c", "fsync=on", "-c", "shared_buffers=128MB"))


@contextmanager
def database() -> Iterator[str]:
    """An empty database on it, whose URL subjects find in the environment."""
    name = f"bench_{uuid.uuid4().hex[:12]}"
    server_url = durable()
    url = server_url.replace("/postgres?", f"/{name}?")
    with psycopg.connect(server_url, autocommit=True) as connection:
        connection.execute(SQL("CREATE DATABASE {}").format(Identifier(name)))
        os.environ[URL] = url
        try:
            yield url
        finally:
            del os.environ[URL]
            connection.execute(SQL("DROP DATABASE {} WITH (FORCE)").format(Identifier(name)))


def transactions(url: str) -> int:
    """How many transactions the database has seen; each statement of ours is one."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("SELECT pg_stat_clear_snapshot()")
        row = connection.execute(
            "SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = current_database()"
        ).fetchone()
    assert row is not None
    return int(row[0])
