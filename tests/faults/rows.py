"""Rows of a store with any value in any column: every command ends with a message, and a worker stays alive."""

from __future__ import annotations

import io
import os
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, chdir, redirect_stderr, redirect_stdout
from pathlib import Path
from random import Random
from typing import Final, LiteralString
from unittest.mock import patch

import psycopg
from psycopg.sql import SQL, Identifier

from skillrun.cli.main import main
from skillrun.extensions.workers.commands import open_store as store_module
from skillrun.extensions.workers.dispatch import install
from skillrun.extensions.workers.postgres.maintenance import migrate
from tests.servers.postgres import empty

TABLES: Final = ("runs", "records", "blobs", "files", "events", "workers", "limits")
VALUES: Final[dict[str, tuple[LiteralString, ...]]] = {
    "text": (
        "NULL", "''", "repeat('x', 100000)", "E'a\\x1b[2J\\nforged\\u009b'", "'../..'", "'/etc/passwd'",
        "'.git/config'", "'running'", "E'\\u202e'", "'[1'", "'{}'",
    ),
    "bytea": ("NULL", "''", r"'\x00ff'", "'[]'", "'{}'", "convert_to(repeat('[', 100000), 'utf8')"),
    "integer": ("NULL", "0", "-1", "2147483647"),
    "bigint": ("NULL", "0", "-1", "9223372036854775807"),
    "jsonb": (
        "NULL", "'[]'", "'null'", "'{}'", "'{\"inputs\": 5}'", "'{\"inputs\": {\"x\": [[[1]]]}}'",
        "jsonb_build_object('inputs', jsonb_build_object('x', repeat('y', 100000)))", "'1e1000'",
        "'{\"inputs\": {}, \"budget\": {\"calls\": 1e400}}'",
        "'{\"inputs\": {\"person\": 1e400}, \"estimate\": {\"calls\": 1e400}}'",
    ),
    "boolean": ("NULL", "true", "false"),
    "timestamp with time zone": ("NULL", "'infinity'", "'-infinity'", "'0001-01-01 BC'", "'2999-01-01'"),
    "double precision": ("NULL", "'NaN'", "'Infinity'", "-1"),
    "ARRAY": ("NULL", "'{}'", "'{NULL}'", "ARRAY[repeat('x', 10000)]"),
}  # fmt: skip
"""SQL expressions for the values of each type."""
COMMANDS: Final = (
    "runs", "show x", "logs x", "questions", "worker list", "worker limits", "worker once y", "worker once x",
    "store check", "store export x --out exported", "store pull x", "store edit x", "store edit x state.md",
    "resume x --preview", "answers x", "cancel y", "diff x y", "runs --status queued", "show y",
    "store prune --before 1d",
)  # fmt: skip
MODEL: Final = ("--model", "scripted:x")


class Rows:
    """A store with a completed run `x` and a submitted run `y`, whose columns may all be NULL."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self.folder, self._stack = folder, stack
        self.url = stack.enter_context(empty())
        database = store_module.open_database(self.url)
        migrate(database)
        install(database)
        project = Path(__file__).parents[1] / "examples" / "valid" / "greeting"
        for path in project.rglob("*"):
            if path.is_file():
                (folder / path.relative_to(project)).parent.mkdir(parents=True, exist_ok=True)
                (folder / path.relative_to(project)).write_bytes(path.read_bytes())
        for arguments in (("greeting", "Ada", "--name", "x"), ("submit", "greeting", "Bob", "--name", "y")):
            code, output = self.call(*arguments, *MODEL)
            assert code == 0, output
        self._connection = stack.enter_context(psycopg.connect(self.url, autocommit=True))
        found = self._connection.execute(
            "SELECT table_name, column_name, data_type, is_nullable, is_identity FROM information_schema.columns "
            "WHERE table_schema = current_schema() AND table_name = ANY(%s) ORDER BY 1, 2",
            (list(TABLES),),
        ).fetchall()
        keys = {
            ("runs", "id"),
            ("records", "run"),
            ("records", "seq"),
            ("files", "run"),
            ("files", "path"),
            ("events", "run"),
        }
        keys |= {("blobs", "sha"), ("workers", "name"), ("limits", "provider"), ("events", "number")}
        self.columns = [(table, column, kind) for table, column, kind, *_ in found if column != "id"]
        self._execute("INSERT INTO workers (name, host, process, most) VALUES ('w', 'h', 1, 1)")
        self._execute("INSERT INTO limits (provider, most) VALUES ('p', 1)")
        for table, column, _, is_nullable, _ in found:
            if is_nullable == "NO" and (table, column) not in keys:
                statement = SQL("ALTER TABLE {} ALTER COLUMN {} DROP NOT NULL")
                self._connection.execute(statement.format(Identifier(table), Identifier(column)))
        for table in TABLES:
            self._connection.execute(
                SQL("CREATE TABLE {} AS TABLE {}").format(Identifier(f"kept_{table}"), Identifier(table))
            )

    def _execute(self, statement: LiteralString) -> None:
        self._connection.execute(statement)

    def call(self, *arguments: str) -> tuple[int, str]:
        """Run a command in this process. Returns its exit code and its output."""
        output = io.StringIO()
        home = str(self.folder.parent / "home")
        environ = {
            "SKILLRUN_STORE": self.url,
            "HOME": home,
            "XDG_CACHE_HOME": home,
            "XDG_DATA_HOME": home,
            "EDITOR": "true",
        }
        streams = redirect_stdout(output), redirect_stderr(output)
        with patch.dict(os.environ, environ), chdir(self.folder), streams[0], streams[1]:
            code = main(list(arguments))
        return code, output.getvalue()

    def change(self, table: str, column: str, value: LiteralString) -> bool:
        """Restore all rows, and then set a column. Returns False if the store does not allow the value."""
        with self._connection.transaction():
            self._connection.execute(SQL("TRUNCATE {}").format(SQL(", ").join(map(Identifier, TABLES))))
            for name in ("blobs", *(name for name in TABLES if name != "blobs")):
                statement = SQL("INSERT INTO {} OVERRIDING SYSTEM VALUE SELECT * FROM {}")
                self._connection.execute(statement.format(Identifier(name), Identifier(f"kept_{name}")))
        try:
            changed = SQL("UPDATE {} SET {} = {}").format(Identifier(table), Identifier(column), SQL(value))
            self._connection.execute(changed)
        except psycopg.Error:
            return False
        return True


def cases(rows: Rows, random: Random) -> Iterator[str]:
    """An endless sequence of cases: a table, a column, the number of a value, and a command."""
    while True:
        table, column, kind = random.choice(rows.columns)
        yield f"{table} {column} {random.randrange(len(VALUES[kind]))} {random.choice(COMMANDS)}"


def all_cases(rows: Rows, command: str) -> Iterator[str]:
    """A case for each column and value."""
    for table, column, kind in rows.columns:
        for number in range(len(VALUES[kind])):
            yield f"{table} {column} {number} {command}"


def hold(rows: Rows, case: str) -> None:
    table, column, number, command = case.split(" ", 3)
    kind = next(kind for each, name, kind in rows.columns if (each, name) == (table, column))
    if not rows.change(table, column, VALUES[kind][int(number)]):
        return
    for name in ("exported", "x"):
        shutil.rmtree(rows.folder / name, ignore_errors=True)
    code, output = rows.call(*command.split())
    assert code in (0, 1, 2), f"{command} exits with {code}: {output}"
    assert "Traceback" not in output, output
    assert not any(sign in output for sign in ("\x1b", "\x9b", "\u202e")), (
        f"{command} prints control characters: {output!r}"
    )
    assert not any(line.startswith("forged") for line in output.splitlines()), (
        f"{command} prints a forged line: {output}"
    )
