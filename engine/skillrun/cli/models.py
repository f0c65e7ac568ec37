"""`skillrun models`: what each name means on this machine, and why."""

from __future__ import annotations

import asyncio
import os
from typing import Any

import click

from skillrun.cli.formatting import two_columns
from skillrun.cli.loading import cache_folder, open_catalogue, open_library, problems_here, refuse
from skillrun.cli.options import as_json
from skillrun.cli.options import model as model_option
from skillrun.cli.output import Output
from skillrun.models.catalogue import Catalogue
from skillrun.models.entries import Resolved


@click.command(help="Show which model each tier, alias and intent selects. With NAME, show one of them, and why.")
@click.argument("name", default="")
@model_option
@as_json
def models(name: str, model: str, json: bool) -> int:
    out = Output(json)
    library = open_library()
    library.config("models")
    refuse(problems_here(library), out)
    catalogue = open_catalogue(library)
    names = [name] if name else [*catalogue.tiers, *catalogue.aliases, *catalogue.intents]
    meanings = asyncio.run(_resolved(catalogue, names, model))
    out.line(two_columns((meaning.name, _words(meaning)) for meaning in meanings) + "\n")
    for provider in catalogue.providers.values():
        key = f"{provider.key} is {'set' if provider.ready(os.environ) else 'not set'}" if provider.key else "no key"
        out.line(f"{provider.name}: {'; '.join(part for part in (key, provider.where) if part)}")
    if any(provider.barred for provider in catalogue.providers.values()):
        out.line("`skillrun trust` shows what this project's files want, and asks")
    out.data([_plain(meaning, catalogue) for meaning in meanings])
    return 0


async def _resolved(catalogue: Catalogue, names: list[str], override: str) -> list[Resolved]:
    return [await catalogue.resolve_live(name, os.environ, cache_folder(), override) for name in names]


def _words(meaning: Resolved) -> str:
    price = meaning.price
    rates = f"${price.input:g} in, ${price.output:g} out per million" if price else "price unknown"
    why = f" ({meaning.why})" if meaning.why else ""
    return f"{meaning.model}{why}; window {meaning.window:,}; {rates}"


def _plain(meaning: Resolved, catalogue: Catalogue) -> dict[str, Any]:
    provider = catalogue.providers.get(meaning.provider)
    where = (provider.base_url, provider.origin, provider.barred) if provider is not None else ("", "", "")
    price = {"input": meaning.price.input, "output": meaning.price.output} if meaning.price is not None else None
    shared = ("name", "model", "provider", "window", "why")
    return {
        **{key: getattr(meaning, key) for key in shared},
        "price": price,
        **dict(zip(("address", "origin", "barred"), where, strict=True)),
    }
