"""The command `shelf`. The only module that prints."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from datetime import date
from pathlib import Path

from shelf.store import ShelfError, Store


def main(arguments: Sequence[str] | None = None, today: Callable[[], date] = date.today) -> int:
    """Run one command; returns the exit code. argparse itself exits with 2 for wrong arguments."""
    options = _parser().parse_args(arguments)
    try:
        store = Store(os.environ.get("SHELF_DB") or Path.home() / ".shelf.db", today)
        try:
            options.run(store, options)
        finally:
            store.close()
    except ShelfError as error:
        print(f"shelf: {error}", file=sys.stderr)
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="shelf", description="Things that neighbours lend to each other.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    add = commands.add_parser("add", help="put a thing on the shelf; prints its number")
    add.add_argument("name")
    add.add_argument("--owner", required=True)
    add.set_defaults(run=_add)
    lend = commands.add_parser("lend", help="lend a thing")
    lend.add_argument("thing", type=int)
    lend.add_argument("who")
    lend.add_argument("--until", type=date.fromisoformat, metavar="YYYY-MM-DD")
    lend.set_defaults(run=_lend)
    back = commands.add_parser("back", help="a thing is here again")
    back.add_argument("thing", type=int)
    back.set_defaults(run=_back)
    commands.add_parser("list", help="all things, and who has them").set_defaults(run=_list)
    history = commands.add_parser("history", help="who had a thing")
    history.add_argument("thing", type=int)
    history.set_defaults(run=_history)
    return parser


def _add(store: Store, options: argparse.Namespace) -> None:
    print(store.add(options.name, options.owner))


def _lend(store: Store, options: argparse.Namespace) -> None:
    store.lend(options.thing, options.who, options.until)


def _back(store: Store, options: argparse.Namespace) -> None:
    store.back(options.thing)


def _list(store: Store, _: argparse.Namespace) -> None:
    for one in store.things():
        lent = f"{one.loan.who} until {one.loan.until}" if one.loan else ""
        print(f"{one.id:>3}  {one.name:<15} {lent}".rstrip())


def _history(store: Store, options: argparse.Namespace) -> None:
    for loan in store.history(options.thing):
        print(loan.since, loan.back, loan.who)


if __name__ == "__main__":
    sys.exit(main())
