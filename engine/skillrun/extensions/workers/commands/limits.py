"""`skillrun worker limits`: limit the parallel calls of all workers of a store to a provider."""

from __future__ import annotations

import re
from typing import Final

import click

from skillrun.cli import options
from skillrun.cli.formatting import count_noun
from skillrun.cli.loading import open_catalogue, open_library, problems_for_display
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
    from skillrun.extensions.workers.postgres.slots import ProviderLimits

    out, database = Output(json), open_database(options.require_store_url())
    parsed_settings = [_parse_setting(setting) for setting in settings]
    check_version(database)
    provider_names = _provider_names()
    for provider, _ in parsed_settings:
        if provider_names and provider not in provider_names:
            out.note(
                f"warning: no provider is named `{provider}`; {did_you_mean(provider, provider_names)}".rstrip("; ")
            )
    stored_limits = ProviderLimits(database)
    for provider, most in parsed_settings:
        stored_limits.set_limit(provider, most)
    shown = [limit for limit in stored_limits.list_limits() if limit.most or limit.pause or limit.held or limit.waiting]
    for limit in shown:
        usage_text = (
            f"{limit.held} of {count_noun(limit.most, 'slot')} held" if limit.most else f"no limit, {limit.held} held"
        )
        waiting = f", {count_noun(limit.waiting, 'call')} waiting" if limit.waiting else ""
        pause = f", paused for {limit.pause:.0f} s" if limit.pause else ""
        out.line(f"{limit.provider}: {usage_text}{waiting}{pause}")
    if not shown:
        out.line("no provider has a shared limit; `skillrun worker limits anthropic=40` sets one")
    out.data([vars(limit) for limit in shown])
    return 0


def _parse_setting(setting: str) -> tuple[str, int | None]:
    found = SETTING.fullmatch(setting)
    if found is None:
        raise UsageError(
            f"`{setting}` is not a valid limit", "use PROVIDER=N, for example anthropic=40, or anthropic=none"
        )
    return found[1], None if found[2] == "none" else int(found[2])


def _provider_names() -> list[str]:
    """Return the names of the available providers; empty if the configuration has problems."""
    library = open_library()
    library.config("models")
    return list(open_catalogue(library).providers) if not problems_for_display(library) else []
