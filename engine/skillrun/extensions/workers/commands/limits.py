"""`skillrun limits`: how many calls a provider gets at a time over all workers of a store."""

from __future__ import annotations

import re
from typing import Final

import click

from skillrun.cli import options
from skillrun.cli.formatting import counted
from skillrun.cli.loading import open_catalogue, open_library, problems_here
from skillrun.cli.output import Output
from skillrun.extensions.workers.commands.open_store import open_database
from skillrun.syntax.diagnostics import UsageError, did_you_mean

SETTING: Final = re.compile(r"([a-z0-9][a-z0-9_.-]*)=(none|[1-9][0-9]{0,5})")


@click.command(
    help="Limit how many calls all workers together make to a PROVIDER at a time.\n\n"
    "Without arguments, show the limits. `PROVIDER=none` removes a limit."
)
@click.argument("settings", nargs=-1, metavar="[PROVIDER=N …]")
@options.store
@options.as_json
def limits(settings: tuple[str, ...], json: bool) -> int:
    from skillrun.extensions.workers.postgres.migrations import check_version
    from skillrun.extensions.workers.postgres.slots import Limits

    out, database = Output(json), open_database(options.named_store())
    read = [_read(setting) for setting in settings]
    check_version(database)
    known = _providers()
    for provider, _ in read:
        if known and provider not in known:
            out.note(f"warning: no provider here is called `{provider}`; {did_you_mean(provider, known)}".rstrip("; "))
    kept = Limits(database)
    for provider, most in read:
        kept.set(provider, most)
    shown = [limit for limit in kept.all() if limit.most or limit.pause or limit.held or limit.waiting]
    for limit in shown:
        words = f"{limit.held} of {counted(limit.most, 'slot')} held" if limit.most else f"no limit, {limit.held} held"
        waiting = f", {counted(limit.waiting, 'call')} waiting" if limit.waiting else ""
        pause = f", paused for {limit.pause:.0f} s" if limit.pause else ""
        out.line(f"{limit.provider}: {words}{waiting}{pause}")
    if not shown:
        out.line("no provider has a limit over all workers; `skillrun limits anthropic=40` sets one")
    out.data([vars(limit) for limit in shown])
    return 0


def _read(setting: str) -> tuple[str, int | None]:
    found = SETTING.fullmatch(setting)
    if found is None:
        raise UsageError(f"`{setting}` is no limit", "write it as anthropic=40, or anthropic=none")
    return found[1], None if found[2] == "none" else int(found[2])


def _providers() -> list[str]:
    """The names of the providers of this project, or of those that ship."""
    library = open_library()
    library.config("models")
    return list(open_catalogue(library).providers) if not problems_here(library) else []
