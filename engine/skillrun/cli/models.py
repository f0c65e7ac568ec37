"""`skillrun models`: shows which model each name selects on this machine, and why."""

from __future__ import annotations

import asyncio
import os
from typing import Any

import click

from skillrun.cli.formatting import format_columns
from skillrun.cli.loading import cache_folder, exit_on_errors, open_catalogue, open_library, problems_for_display
from skillrun.cli.options import as_json
from skillrun.cli.options import model as model_option
from skillrun.cli.output import Output
from skillrun.models.catalogue import Catalogue
from skillrun.models.entries import ResolvedModel


@click.command(help="Show which model each tier, alias and intent selects, and why. With NAME, show only that one.")
@click.argument("name", default="")
@model_option
@as_json
def models(name: str, model: str, json: bool) -> int:
    out = Output(json)
    library = open_library()
    library.config("models")
    exit_on_errors(problems_for_display(library), out)
    catalogue = open_catalogue(library)
    names = [name] if name else [*catalogue.tiers, *catalogue.aliases, *catalogue.intents]
    meanings = asyncio.run(_resolve_names(catalogue, names, model))
    out.line(format_columns((meaning.name, _describe_model(meaning)) for meaning in meanings) + "\n")
    for provider in catalogue.providers.values():
        key = (
            f"{provider.key} is {'set' if provider.is_configured(os.environ) else 'not set'}"
            if provider.key
            else "no key"
        )
        out.line(f"{provider.name}: {'; '.join(part for part in (key, provider.location) if part)}")
    if any(provider.blocked_reason for provider in catalogue.providers.values()):
        out.line("`skillrun trust` shows the settings of this project that need your trust")
    out.data([_model_data(meaning, catalogue) for meaning in meanings])
    return 0


async def _resolve_names(catalogue: Catalogue, names: list[str], override: str) -> list[ResolvedModel]:
    return [await catalogue.resolve_live(name, os.environ, cache_folder(), override) for name in names]


def _describe_model(meaning: ResolvedModel) -> str:
    price = meaning.price
    rates = f"${price.input:g} in, ${price.output:g} out per million" if price else "price unknown"
    why = f" ({meaning.why})" if meaning.why else ""
    return f"{meaning.model}{why}; window {meaning.window:,}; {rates}"


def _model_data(meaning: ResolvedModel, catalogue: Catalogue) -> dict[str, Any]:
    provider = catalogue.providers.get(meaning.provider)
    where = (provider.base_url, provider.origin, provider.blocked_reason) if provider is not None else ("", "", "")
    price = {"input": meaning.price.input, "output": meaning.price.output} if meaning.price is not None else None
    shared = ("name", "model", "provider", "window", "why")
    return {
        **{key: getattr(meaning, key) for key in shared},
        "price": price,
        **dict(zip(("address", "origin", "barred"), where, strict=True)),
    }
