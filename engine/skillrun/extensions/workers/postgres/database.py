"""Connects to a Postgres store, and reports a store that is unavailable, incompatible or not initialized.

Each statement is a separate transaction. This module knows nothing about runs.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Container, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, Final, LiteralString, TypeVar

import psycopg
from psycopg import errors
from psycopg.conninfo import conninfo_to_dict
from psycopg_pool import ConnectionPool

from skillrun.syntax.diagnostics import SkillrunError

T = TypeVar("T")
Rows = list[tuple[Any, ...]]

MIN_VERSION: Final = 14  # the oldest supported Postgres
VERSION_HINT: Final = f"a store needs PostgreSQL {MIN_VERSION} or newer; check the store's URL"
INCOMPATIBLE_SERVERS: Final = ("-YB-", "Redshift", "Greenplum")
"""Texts in the version of an incompatible server that claims to be PostgreSQL."""
OTHER_PROTOCOL_ERRORS: Final = ("invalid response to SSL negotiation", "expected authentication request from server")
"""Texts in the driver's error for a server that does not use Postgres's protocol."""
CONNECT_TIMEOUT: Final = 5  # seconds
MAX_CONNECTIONS: Final = 8  # connections of one process
CONNECTION_OPTIONS: Final[Mapping[str, Any]] = {
    "autocommit": True,
    "connect_timeout": CONNECT_TIMEOUT,
    "application_name": "skillrun",
    # detect dead connections, for example after a network failure
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 10_000,
}
INVALID_ROW_HINT: Final = (
    "a program other than skillrun has changed it: remove the row, or restore the store from a backup"
)
FIRST_RETRY_SECONDS: Final = 0.05  # seconds before the first retry; doubled before each further retry
LONGEST: Final = 1.0  # maximum seconds between retries
logging.getLogger("psycopg.pool").setLevel(logging.CRITICAL)  # callers report connection errors


class StoreUnavailable(SkillrunError):
    """The store does not answer. It is unknown whether the last statement was executed."""


class StoreRefused(SkillrunError):
    """The store answers, but does not execute the statement."""


class Database:
    """A connection pool for a store. Thread-safe."""

    def __init__(self, url: str, *, most: int = MAX_CONNECTIONS) -> None:
        """Connect to the store.

        Raises StoreUnavailable if there is no connection, and StoreRefused if the server is not Postgres or is too old.
        """
        self.location = describe_url(url)
        self.on_statement: Callable[[float], None] = lambda _seconds: None
        """Called after each statement, with its duration in seconds."""
        overridden = {name for name in conninfo_to_dict(url) if name.startswith(("keepalives", "tcp"))}
        arguments = {name: value for name, value in CONNECTION_OPTIONS.items() if name not in overridden}
        # a pool does not report why it cannot connect
        with self._translate_errors(), psycopg.connect(url, **arguments) as connection:
            self._check(connection)
        self._pool = ConnectionPool(
            url, kwargs=arguments, min_size=1, max_size=most, num_workers=1, timeout=CONNECT_TIMEOUT, open=True
        )

    def _check(self, connection: psycopg.Connection[Any]) -> None:
        """Raises StoreRefused if the server is not PostgreSQL but uses its protocol, or if its version is too old."""
        row = connection.execute("SELECT version()").fetchone()
        version = str(row[0]) if row else ""
        if not version.startswith("PostgreSQL ") or any(name in version for name in INCOMPATIBLE_SERVERS):
            raise StoreRefused(f"{self.location} is not PostgreSQL: {version[:80]}", VERSION_HINT)
        if connection.info.server_version < MIN_VERSION * 10_000:
            raise StoreRefused(f"{self.location} is {' '.join(version.split()[:2])}, which is too old", VERSION_HINT)

    def close(self) -> None:
        self._pool.close()

    def rows(
        self, statement: LiteralString, values: Mapping[str, Any] | None = None, *, optional: Container[str] = ()
    ) -> Rows:
        """Execute a statement and return its rows. Raises StoreUnavailable, StoreRefused.

        StoreRefused is also raised for a row in which a column is NULL that is not `optional`, whatever the schema
        says.
        """
        begun = time.monotonic()
        with self._translate_errors(), self._pool.connection() as connection:
            cursor = connection.execute(statement, values)
            found = cursor.fetchall() if cursor.description is not None else []
            columns = [column.name for column in cursor.description or ()]
        self.on_statement(time.monotonic() - begun)
        for row in found:
            for name, value in zip(columns, row, strict=True):
                if value is None and name not in optional:
                    raise StoreRefused(f"{self.location} has an invalid row: `{name}` is missing", INVALID_ROW_HINT)
        return found

    def retry(self, work: Callable[[], T], seconds: float) -> T:
        """Return the result of `work`, which must be idempotent.

        While the store is unavailable, `work` is retried for up to `seconds`.
        """
        until, pause = time.monotonic() + seconds, FIRST_RETRY_SECONDS
        while True:
            try:
                return work()
            except StoreUnavailable:
                self._pool.check()  # replaces other broken connections
                if time.monotonic() + pause > until:
                    raise
            time.sleep(pause)
            pause = min(2 * pause, LONGEST)

    def script(self, statements: str) -> None:
        """Execute several statements, all or none. Raises StoreUnavailable, StoreRefused."""
        self.transaction(lambda connection: connection.execute(statements.encode()))

    def transaction(self, work: Callable[[psycopg.Connection[Any]], T]) -> T:
        """Return the result of `work`, executed in a transaction. Raises StoreUnavailable, StoreRefused."""
        with self._translate_errors(), self._pool.connection() as connection, connection.transaction():
            return work(connection)

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        try:
            yield
        except psycopg.Error as error:
            raise self._store_error(error) from error

    def _store_error(self, error: psycopg.Error) -> SkillrunError:
        words = " ".join(str(error).split()) or type(error).__name__
        match error:
            case errors.UndefinedTable():
                hint = "`skillrun store migrate` initializes it"
                return StoreRefused(f"{self.location} is not a skillrun store yet", hint)
            case errors.InsufficientPrivilege() | errors.InvalidAuthorizationSpecification():
                hint = "check the user in the store's URL, and this user's privileges"
                return StoreRefused(f"{self.location} denied access: {words}", hint)
            case errors.InvalidCatalogName():
                return StoreRefused(f"{self.location} does not exist: {words}", "create the database")
            case psycopg.OperationalError() if any(sign in words for sign in OTHER_PROTOCOL_ERRORS):
                return StoreRefused(f"the server of {self.location} is not PostgreSQL: {words}", VERSION_HINT)
            case psycopg.OperationalError() | psycopg.InterfaceError():
                hint = "check that the server is running, and check the store's URL; committed data is kept"
                return StoreUnavailable(f"{self.location} does not answer: {words}", hint)
            case _:
                return StoreRefused(f"{self.location} rejected the statement: {words}", "nothing was changed")


def describe_url(url: str) -> str:
    """Return a description of the store without the password. Raises StoreRefused for an invalid URL."""
    parts: dict[str, Any] = {}
    with suppress(psycopg.ProgrammingError):
        parts = conninfo_to_dict(url)
    if not parts:
        raise StoreRefused("the store URL is invalid", "use postgresql://user@host:5432/database")
    host = str(parts.get("host") or "localhost")
    port = f":{parts['port']}" if parts.get("port") else ""
    return f"the store {parts.get('dbname') or parts.get('user') or ''} at {host}{port}"
