"""The durable Postgres server that stores are measured on. It belongs to this process."""

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
    """The URL of a server that syncs its log at every commit."""
    url = os.environ.get("SKILLRUN_BENCH_POSTGRES")
    if url:
        return url
    stack = ExitStack()
    atexit.register(stack.close)
    return stack.enter_context(server("-c", "fsync=on", "-c", "shared_buffers=128MB"))


@contextmanager
def database() -> Iterator[str]:
    """An empty database on that server. Subjects find its URL in the environment."""
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
    """The number of transactions the database has processed; each of our statements is one."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("SELECT pg_stat_clear_snapshot()")
        row = connection.execute(
            "SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = current_database()"
        ).fetchone()
    assert row is not None
    return int(row[0])
