"""`skillrun models`: what each name means on this machine, and why."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, Any

import click

from skillrun.cli.figures import table
from skillrun.cli.options import as_json
from skillrun.cli.printing import Output

if TYPE_CHECKING:
    from skillrun.models.catalogue import Catalogue, Resolved


@click.command(help="Show what each tier, alias and intent means here, or what NAME means, and why.")
@click.argument("name", default="")
@click.option("--model", default="", metavar="NAME", envvar="SKILLRUN_MODEL", help="One model for everything.")
@as_json
def models(name: str, model: str, json: bool) -> int:
    from skillrun.cli.loading import open_catalogue, open_library, refuse

    out = Output(json)
    library = open_library()
    library.config("models")
    refuse(library.problems, out)
    catalogue = open_catalogue(library)
    names = [name] if name else [*catalogue.tiers, *catalogue.aliases, *catalogue.intents]
    found = asyncio.run(_resolved(catalogue, names, model))
    rows = [[one.name, one.model, f"{one.window:,}", _price(one), one.why] for one in found]
    for line in table(["name", "model", "window", "$ per million in, out", "why"], rows, right=(2,)):
        out.line(line)
    out.line()
    for provider in catalogue.providers.values():
        key = f"{provider.key} is {'set' if provider.ready(os.environ) else 'not set'}" if provider.key else "no key"
        out.line(f"{provider.name}: {key}")
    out.data([_plain(one) for one in found])
    return 0


async def _resolved(catalogue: Catalogue, names: list[str], override: str) -> list[Resolved]:
    from skillrun.cli.loading import cache_folder

    return [await catalogue.resolve_live(name, os.environ, cache_folder(), override) for name in names]


def _price(one: Resolved) -> str:
    return f"{one.price.input:g}, {one.price.output:g}" if one.price is not None else "unknown"


def _plain(one: Resolved) -> dict[str, Any]:
    rates = {"input": one.price.input, "output": one.price.output} if one.price is not None else None
    return {
        "name": one.name,
        "model": one.model,
        "provider": one.provider,
        "window": one.window,
        "price": rates,
        "why": one.why,
    }
