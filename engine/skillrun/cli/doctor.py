"""`skillrun doctor` checks the setup of this machine, or a model server. `skillrun models` shows what each name means.

Neither command prints keys.
"""

from __future__ import annotations

import asyncio
import os
import platform
import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Final

import click

from skillrun.cli import options
from skillrun.cli.formatting import Finding, count_noun, format_columns, format_findings
from skillrun.cli.loading import cache_folder, exit_on_errors, open_catalogue, open_library, problems_for_display
from skillrun.cli.output import Output
from skillrun.cli.registry import RESERVED_NAMES
from skillrun.installation import DISTRIBUTION, extra_hint, find_conflict, has_local_model, has_outlines
from skillrun.models.catalogue import Catalogue
from skillrun.models.entries import ResolvedModel
from skillrun.syntax.diagnostics import SkillrunError

LOCAL: Final = "xllamacpp"
NO_MODEL_HINT: Final = "set the key of a provider, or install xllamacpp"


@click.command(help="Check that this machine is set up: Python, keys, models, disk and project.")
@click.option("--provider", metavar="NAME[:MODEL]", help="Send four small requests there, and print what works.")
@options.runs_folder
@options.as_json
def doctor(provider: str | None, runs: Path, out: Output) -> int:
    if provider is not None:
        return _check_server(provider, out)
    from skillrun.checker.checker import check_library  # a slow import, which `models` does not need

    library = open_library()
    findings = [Finding("ok", "python", f"{platform.python_version()} in {sys.prefix}")]
    if conflict := find_conflict():
        steps = f"`{sys.executable} -m pip uninstall skillrun`, then install {DISTRIBUTION} with `--force-reinstall`"
        findings.append(Finding("warning", "packages", conflict, steps))
    findings += [
        _check_extra(LOCAL, "local", has_local_model(), "to run a model without a key"),
        _check_extra("outlines", "outline", has_outlines(), "to show models what source files define"),
    ]
    library.config("models")
    check_library(library, RESERVED_NAMES)
    if errors := sum(problem.severity == "error" for problem in library.problems):
        findings.append(Finding("missing", "library", count_noun(errors, "problem"), "`skillrun validate` lists them"))
    else:
        findings.append(Finding("ok", "library", f"{count_noun(len(library.files), 'file')}, no problems"))
    if not library.problems.has_errors:
        try:
            findings += _check_models(open_catalogue(library), cache_folder())
        except SkillrunError as error:  # an invalid address in the environment
            findings.append(Finding("missing", "models", error.message, error.next_step))
    findings += [_check_writable("cache", cache_folder()), _check_writable("runs", runs)]
    out.text(format_findings(findings))
    out.data([asdict(finding) for finding in findings])
    return 1 if any(finding.state == "missing" for finding in findings) else 0


def _check_server(name: str, out: Output) -> int:
    """Send requests to a provider, and print what works, what was adapted, and an entry for the config."""
    from skillrun.cli.provider_check import check_provider

    library = open_library()
    library.config("models")
    exit_on_errors(problems_for_display(library), out)
    report = asyncio.run(check_provider(library, open_catalogue(library), name, cache_folder(), out.note))
    out.line(f"{report.provider}: {report.model} at {report.address or 'this machine'}")
    out.text(format_findings(report.requests))
    for key, value in report.adapted.items():
        out.line(f"adapted: {key}: {', '.join(value) if isinstance(value, list) else value}")
    out.line("entry for config/models.yaml:")
    out.text(report.entry)
    out.data(asdict(report))
    return 1 if any(finding.state == "missing" for finding in report.requests) else 0


def _check_extra(what: str, extra: str, is_installed: bool, purpose: str) -> Finding:
    if is_installed:
        return Finding("ok", what, "installed")
    return Finding("note", what, "not installed", f"{purpose}: {extra_hint(extra)}")


def _check_models(catalogue: Catalogue, cache: Path) -> Iterator[Finding]:
    """Yield findings about the keys, the models of the tiers, and the weights of the embedded model."""
    for provider in catalogue.providers.values():
        if provider.key:
            state, text = ("ok", "set") if provider.is_configured(os.environ) else ("note", "not set")
            yield Finding(state, provider.key, text)
    used = set()
    for tier in catalogue.tiers:
        try:
            resolved = catalogue.resolve(tier, os.environ, os.environ.get(options.MODEL_VARIABLE, ""))
            used.add(resolved.provider)
            entry = catalogue.providers.get(resolved.provider)
            text = f"{resolved.model} ({resolved.why})"
            if has_local_model() or entry is None or entry.kind != "embedded":
                yield Finding("ok", tier, text)
            else:
                yield Finding("missing", tier, f"{text}, which is not installed", NO_MODEL_HINT)
        except SkillrunError as error:
            yield Finding("missing", tier, error.message, error.next_step)
    for name, provider in catalogue.providers.items():
        if provider.blocked_reason:
            yield Finding("note", name, provider.location, "`skillrun trust` shows the settings to trust")
        elif name in used and provider.location:
            yield Finding("ok", name, provider.location)
    settings = catalogue.embedded
    if settings is not None:
        cached = cache / "models" / settings.sha256[:12] / Path(settings.file).name
        path = Path(settings.path).expanduser() if settings.path else cached
        is_present = path.is_file()
        text = str(path) if is_present else "not downloaded yet; a run on the embedded model downloads about 90 MB"
        yield Finding("ok" if is_present else "note", "weights", text)


def _check_writable(label: str, folder: Path) -> Finding:
    """Return a finding that says whether the folder, or its nearest existing parent, is writable."""
    existing = next(parent for parent in (folder.absolute(), *folder.absolute().parents) if parent.exists())
    if existing.is_dir() and os.access(existing, os.W_OK | os.X_OK):
        return Finding("ok", label, str(folder))
    return Finding("missing", label, f"{folder} is not writable", f"`chmod u+w {existing}`, or use another folder")


@click.command(help="Show which model each tier, alias and intent selects, and why. With NAME, show only this name.")
@click.argument("name", default="")
@options.model
@options.as_json
def models(name: str, model: str, out: Output) -> int:
    library = open_library()
    library.config("models")
    exit_on_errors(problems_for_display(library), out)
    catalogue = open_catalogue(library)
    names = [name] if name else [*catalogue.tiers, *catalogue.aliases, *catalogue.intents]

    async def resolve_names() -> list[ResolvedModel]:
        return [await catalogue.resolve_live(each, os.environ, cache_folder(), model) for each in names]

    rows, data = [], []
    for resolved in asyncio.run(resolve_names()):
        price, provider = resolved.price, catalogue.providers.get(resolved.provider)
        rates = f"${price.input:g} in, ${price.output:g} out per million" if price else "price unknown"
        why = f" ({resolved.why})" if resolved.why else ""
        rows.append((resolved.name, f"{resolved.model}{why}; window {resolved.window:,}; {rates}"))
        fields = {key: getattr(resolved, key) for key in ("name", "model", "provider", "window", "why")}
        fields["price"] = {"input": price.input, "output": price.output} if price is not None else None
        fields["address"] = provider.base_url if provider is not None else ""
        fields["origin"] = provider.origin if provider is not None else ""
        fields["barred"] = provider.blocked_reason if provider is not None else ""
        data.append(fields)
    out.text(format_columns(rows) + "\n")
    for provider in catalogue.providers.values():
        is_set = "set" if provider.is_configured(os.environ) else "not set"
        key = f"{provider.key} is {is_set}" if provider.key else "no key"
        out.line(f"{provider.name}: {'; '.join(part for part in (key, provider.location) if part)}")
    if any(provider.blocked_reason for provider in catalogue.providers.values()):
        out.line("`skillrun trust` shows the settings of this project that need your trust")
    out.data(data)
    return 0
