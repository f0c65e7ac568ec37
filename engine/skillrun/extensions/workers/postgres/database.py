"""The connections to a store in Postgres, and what is said where it is away, too new, or no store.

Statements are one transaction each. Knows nothing of runs.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Final, LiteralString, TypeVar

import psycopg
from psycopg import errors
from psycopg.conninfo import conninfo_to_dict
from psycopg_pool import ConnectionPool

from skillrun.syntax.diagnostics import SkillrunError

T = TypeVar("T")
Rows = list[tuple[Any, ...]]

MIN_VERSION: Final = 14  # of Postgres's versions
VERSION_HINT: Final = f"a store needs PostgreSQL {MIN_VERSION} or newer; look at its URL"
INCOMPATIBLE_SERVERS: Final = ("-YB-", "Redshift", "Greenplum")
"""In the words of what calls itself PostgreSQL and is another server."""
OTHER_PROTOCOL_ERRORS: Final = ("invalid response to SSL negotiation", "expected authentication request from server")
"""What the driver says where another protocol is spoken."""
CONNECT_TIMEOUT: Final = 5  # seconds
MAX_CONNECTIONS: Final = 8  # connections of one process
KEEPALIVE_OPTIONS: Final = {
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 10_000,
}
"""After how long a connection is given up on which nothing comes any more, as where a network was cut."""
FIRST_RETRY_SECONDS: Final = 0.05  # seconds before a statement is tried again; twice as long each time
LONGEST: Final = 1.0  # seconds between two tries
logging.getLogger("psycopg.pool").setLevel(logging.CRITICAL)  # what breaks is said by who asked


class StoreUnavailable(SkillrunError):
    """The store does not answer; nothing is known of what was asked of it last."""


class StoreRefused(SkillrunError):
    """The store answers, and does not do what was asked."""


class Database:
    """A store: what is asked of it, by any thread."""

    def __init__(self, url: str, *, most: int = MAX_CONNECTIONS) -> None:
        """Raises StoreUnavailable without a connection, and StoreRefused if `url` is not a Postgres server."""
        self.location = describe_url(url)
        self.on_statement: Callable[[float], None] = _ignore_duration
        """Who hears that a statement was answered, and after how many seconds."""
        arguments: dict[str, Any] = {
            "autocommit": True,
            "connect_timeout": CONNECT_TIMEOUT,
            "application_name": "skillrun",
        }
        arguments |= {name: value for name, value in KEEPALIVE_OPTIONS.items() if name not in conninfo_to_dict(url)}
        with (
            self._translate_errors(),
            psycopg.connect(url, **arguments) as connection,
        ):  # a pool keeps to itself why not
            self._check(connection)
        self._pool = ConnectionPool(
            url, kwargs=arguments, min_size=1, max_size=most, num_workers=1, timeout=CONNECT_TIMEOUT, open=True
        )

    def _check(self, connection: psycopg.Connection[Any]) -> None:
        """Raises StoreRefused for what only speaks as a Postgres does, and for one that is too old."""
        row = connection.execute("SELECT version()").fetchone()
        version = str(row[0]) if row else ""
        if not version.startswith("PostgreSQL ") or any(name in version for name in INCOMPATIBLE_SERVERS):
            raise StoreRefused(f"{self.location} is no PostgreSQL: {version[:80]}", VERSION_HINT)
        if connection.info.server_version < MIN_VERSION * 10_000:
            raise StoreRefused(f"{self.location} is {' '.join(version.split()[:2])}, which is too old", VERSION_HINT)

    def close(self) -> None:
        self._pool.close()

    def rows(self, statement: LiteralString, values: Mapping[str, Any] | None = None) -> Rows:
        """What a statement gives. Raises StoreUnavailable, StoreRefused."""
        begun = time.monotonic()
        with self._translate_errors(), self._pool.connection() as connection:
            cursor = connection.execute(statement, values)
            found = cursor.fetchall() if cursor.description is not None else []
        self.on_statement(time.monotonic() - begun)
        return found

    def retry(self, work: Callable[[], T], seconds: float) -> T:
        """What `work` gives, which may be done twice; tried again while the store is away, for so long."""
        until, pause = time.monotonic() + seconds, FIRST_RETRY_SECONDS
        while True:
            try:
                return work()
            except StoreUnavailable:
                self._pool.check()  # of the connections that broke with this one
                if time.monotonic() + pause > until:
                    raise
            time.sleep(pause)
            pause = min(2 * pause, LONGEST)

    def script(self, statements: str) -> None:
        """Do several statements, all or none. Raises StoreUnavailable, StoreRefused."""
        self.transaction(lambda connection: connection.execute(statements.encode()))

    def transaction(self, work: Callable[[psycopg.Connection[Any]], T]) -> T:
        """What `work` gives, done whole or not at all. Raises StoreUnavailable, StoreRefused."""
        with self._translate_errors(), self._pool.connection() as connection, connection.transaction():
            return work(connection)

    def _translate_errors(self) -> _ErrorTranslator:
        return _ErrorTranslator(self.location)


def _ignore_duration(_seconds: float) -> None:
    """Nobody measures."""


class _ErrorTranslator:
    """What Postgres and its driver say, in the words of a store."""

    def __init__(self, place: str) -> None:
        self._place = place

    def __enter__(self) -> None:
        """Nothing is set up."""

    def __exit__(self, _kind: object, error: BaseException | None, _traceback: object) -> None:
        if not isinstance(error, psycopg.Error):
            return
        words = " ".join(str(error).split()) or type(error).__name__
        match error:
            case errors.UndefinedTable():
                hint = "`skillrun store migrate` makes it one"
                raise StoreRefused(f"{self._place} is no store of skillrun yet", hint) from error
            case errors.InsufficientPrivilege() | errors.InvalidAuthorizationSpecification():
                hint = "look at the user of its URL and at what it may do"
                raise StoreRefused(f"{self._place} refuses: {words}", hint) from error
            case errors.InvalidCatalogName():
                raise StoreRefused(f"{self._place} does not exist: {words}", "make that database") from error
            case psycopg.OperationalError() if any(sign in words for sign in OTHER_PROTOCOL_ERRORS):
                raise StoreRefused(f"what answers for {self._place} is no PostgreSQL: {words}", VERSION_HINT) from error
            case psycopg.OperationalError() | psycopg.InterfaceError():
                hint = "look whether it runs, and at its URL; what was committed is kept"
                raise StoreUnavailable(f"{self._place} does not answer: {words}", hint) from error
            case _:
                raise StoreRefused(f"{self._place} refuses: {words}", "nothing was changed") from error


def describe_url(url: str) -> str:
    """The store as people may see it: without its password."""
    parts: dict[str, Any] = {}
    with suppress(psycopg.ProgrammingError):
        parts = conninfo_to_dict(url)
    if not parts:
        raise StoreRefused("the store's URL cannot be read", "write it as postgresql://user@host:5432/database")
    host = str(parts.get("host") or "localhost")
    port = f":{parts['port']}" if parts.get("port") else ""
    return f"the store {parts.get('dbname') or parts.get('user') or ''} at {host}{port}"
